/* SPDX-License-Identifier: MIT */
/* One rank of wharf-info: its object in the JSON, its CPUs in the text. */
#include "wharf_info_rank.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static void json_text(FILE *file, const char *key, const char *value)
{
    fprintf(file, ", \"%s\": ", key);
    tool_json_string(file, value);
}

static wharf_status rank_links(const wharf_node *node, FILE *file)
{
    int size = wharf_node_size(node);

    fputs(", \"links\": [", file);
    for (int to = 0; to < size; to++) {
        wharf_link link = WHARF_LINK_INIT;
        wharf_status status =
            wharf_node_link(node, wharf_node_rank(node), to, &link);

        if (status != WHARF_OK)
            return status;
        fprintf(file, "%s{\"to\": %d", to == 0 ? "" : ", ", to);
        json_text(file, "path", wharf_path_name(link.path));
        fprintf(file, ", \"nvlinks\": %d", link.nvlinks);
        /* That of a link is cut to its field. */
        json_text(file, "reason",
                  link.path == WHARF_PATH_HOST &&
                          wharf_node_backend(node) == WHARF_BACKEND_HOST
                      ? wharf_node_backend_reason(node)
                      : link.reason);
        fputc('}', file);
    }
    fputc(']', file);
    return WHARF_OK;
}

wharf_status info_rank_json(const wharf_node *node,
                            const struct tool_machine *machine, int world_rank,
                            FILE *file)
{
    wharf_device device = WHARF_DEVICE_INIT;
    bool cuda = wharf_node_backend(node) == WHARF_BACKEND_CUDA;
    wharf_status status =
        wharf_node_device(node, wharf_node_rank(node), &device);

    if (status != WHARF_OK)
        return status;
    fprintf(file, "{\"rank\": %d, \"node_rank\": %d", world_rank,
            wharf_node_rank(node));
    json_text(file, "host", machine->host);
    fprintf(file, ", \"pid\": %d", (int)getpid());
    json_text(file, "cpus", machine->cpus);
    json_text(file, "backend", cuda ? "cuda" : "host");
    fprintf(file, ", \"gpu_index\": %d, \"ordinal\": %d", device.gpu,
            device.ordinal);
    json_text(file, "uuid", device.uuid);
    json_text(file, "pci", device.pci);
    json_text(file, "name", device.name);
    fprintf(file, ", \"memory_bytes\": %" PRIu64, device.memory_bytes);
    fprintf(file, ", \"owner\": %d, \"users\": %d, \"distance\": %d",
            device.owner, device.users, device.distance);
    json_text(file, "reason", device.reason);
    status = rank_links(node, file);
    fputc('}', file);
    return status;
}

void info_cpus_text(const char *cpus, int count, FILE *file)
{
    const char *next = cpus;

    fputs("ranks on CPUs\n", file);
    for (int first = 0, last; first < count; first = last + 1) {
        const char *text = next;
        char ranks[32];

        next += strlen(next) + 1;
        for (last = first; last + 1 < count && strcmp(next, text) == 0; last++)
            next += strlen(next) + 1;
        snprintf(ranks, sizeof ranks, first == last ? "%d" : "%d-%d", first,
                 last);
        fprintf(file, "%9s  %s\n", ranks, text);
    }
    fputc('\n', file);
}
