/* SPDX-License-Identifier: MIT */
/* Who shares a GPU, and the matrix of links between GPUs. */
#include "core/node_print.h"

#include <string.h>

/* Two MIG instances of one chip compete for its power and its links, and the
 * driver offers no peer access between them. */
static bool same_chip(const wharf_node *node, int a, int b)
{
    return a == b ||
           (node->gpu[a].desc.mig && node->gpu[b].desc.mig &&
            strcmp(node->gpu[a].desc.pci, node->gpu[b].desc.pci) == 0);
}

/* Does the rank use this GPU, or (chip) another instance of its chip? */
static bool uses(const wharf_node *node, int rank, int gpu, bool chip)
{
    int own = node->gpu_of_rank[rank];
    return chip ? same_chip(node, own, gpu) : own == gpu;
}

/* The lowest GPU of a chip that ranks use several instances of. */
static bool chip_shared(const wharf_node *node, int gpu)
{
    bool several = false;
    for (int g = 0; g < node->gpus; g++) {
        if (g == gpu || !same_chip(node, g, gpu))
            continue;
        if (g < gpu)
            return false;
        several = true;
    }
    return several;
}

/* As in "0-3,6". */
static void text_ranks(const wharf_node *node, FILE *file, int gpu, bool chip)
{
    const char *comma = "";
    for (int first = 0; first < node->size; first++) {
        int last = first;
        if (!uses(node, first, gpu, chip))
            continue;
        while (last + 1 < node->size && uses(node, last + 1, gpu, chip))
            last++;
        fprintf(file, "%s%d", comma, first);
        if (last > first)
            fprintf(file, "-%d", last);
        comma = ",";
        first = last;
    }
}

static void text_sharing(const wharf_node *node, FILE *file)
{
    fputs("\nsharing\n", file);
    for (int g = 0; g < node->gpus; g++) {
        fprintf(file, "GPU %d: rank%s ", g, node->gpu[g].users > 1 ? "s" : "");
        text_ranks(node, file, g, false);
        fprintf(file, ", rank %d owns its memory\n", node->gpu[g].owner);
    }
    for (int g = 0; g < node->gpus; g++) {
        if (!chip_shared(node, g))
            continue;
        fputs("these ranks share silicon: ", file);
        text_ranks(node, file, g, true);
        fprintf(file, " (MIG instances of the GPU at %s)\n",
                node->gpu[g].desc.pci);
    }
}

static const wi_peer *peer_of(const wharf_node *node, int from, int to)
{
    return &node->peers[from * node->gpus + to];
}

static void text_links(const wharf_node *node, FILE *file)
{
    fputs("\nGPU to GPU, row to column: N NVLink and how many, P PCIe peer, "
          "H host, ? by trying\n     ",
          file);
    for (int to = 0; to < node->gpus; to++)
        fprintf(file, "%5d", to);
    fputc('\n', file);
    for (int from = 0; from < node->gpus; from++) {
        fprintf(file, "%5d", from);
        for (int to = 0; to < node->gpus; to++) {
            const wi_peer *peer = peer_of(node, from, to);
            char cell[16];

            if (from == to)
                snprintf(cell, sizeof cell, ".");
            else if (!peer->reachable)
                snprintf(cell, sizeof cell, "H");
            else if (peer->nvlinks > 0)
                snprintf(cell, sizeof cell, "N%d", peer->nvlinks);
            else
                snprintf(cell, sizeof cell, "%s",
                         peer->nvlink  ? "N"
                         : peer->known ? "P"
                                       : "?");
            fprintf(file, "%5s", cell);
        }
        fputc('\n', file);
    }
}

void wi_print_gpus_text(const wharf_node *node, FILE *file)
{
    if (node->gpus == 0)
        return;
    text_sharing(node, file);
    if (node->gpus > 1)
        text_links(node, file);
}

static void json_ranks(const wharf_node *node, FILE *file, int gpu, bool chip)
{
    const char *comma = "";
    fputc('[', file);
    for (int r = 0; r < node->size; r++) {
        if (!uses(node, r, gpu, chip))
            continue;
        fprintf(file, "%s%d", comma, r);
        comma = ", ";
    }
    fputc(']', file);
}

static void json_links(const wharf_node *node, FILE *file, int from)
{
    fprintf(file, "%s\n    [", from == 0 ? "" : ",");
    for (int to = 0; to < node->gpus; to++) {
        const wi_peer *peer = peer_of(node, from, to);
        wharf_path path = from == to         ? WHARF_PATH_SAME_GPU
                          : !peer->reachable ? WHARF_PATH_HOST
                          : peer->nvlink     ? WHARF_PATH_NVLINK
                                             : WHARF_PATH_PCIE_PEER;

        fprintf(file, "%s{\"path\": \"%s\", \"nvlinks\": %d, \"known\": %s}",
                to == 0 ? "" : ", ", wharf_path_name(path), peer->nvlinks,
                from == to || peer->known ? "true" : "false");
    }
    fputc(']', file);
}

void wi_print_gpus_json(const wharf_node *node, FILE *file)
{
    fputs(",\n  \"sharing\": [", file);
    for (int g = 0; g < node->gpus; g++) {
        fprintf(file, "%s\n    {\"gpu_index\": %d, \"owner\": %d, \"ranks\": ",
                g == 0 ? "" : ",", g, node->gpu[g].owner);
        json_ranks(node, file, g, false);
        fputs(", \"ranks_of_chip\": ", file);
        json_ranks(node, file, g, true);
        fputc('}', file);
    }
    fputs("],\n  \"gpu_links\": [", file);
    for (int g = 0; g < node->gpus; g++)
        json_links(node, file, g);
    fputc(']', file);
}
