/* SPDX-License-Identifier: MIT */
/*
 * wharf_node_print: a node for people and for programs. Ranks, devices and
 * links come from the public queries, so that what is printed is what a caller
 * can ask for; handle kinds, driver and warnings from the node itself.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/node_print.h"
#include "wharf/node.h"

/* Beyond this many ranks the matrix of pairs is wider than a screen; the
 * grouped list says the same. */
#define MATRIX_RANKS 24

/* Pairs named in one line of the grouped list, and most lines. */
#define PAIRS_NAMED 6
#define LINK_GROUPS 64

/* How one rank reaches another and signals to it. */
struct pair {
    wharf_link link;
    wharf_mechanism mechanism;
    char why[96]; /* of the mechanism */
};

/* Pairs of ranks that are the same in all of this. */
struct link_group {
    struct pair pair;
    int pairs;
    int from[PAIRS_NAMED];
    int to[PAIRS_NAMED];
};

struct link_groups {
    struct link_group group[LINK_GROUPS];
    int count;
    int others; /* pairs beyond LINK_GROUPS */
};

static wharf_status get_device(const wharf_node *node, int rank,
                               wharf_device *device)
{
    memset(device, 0, sizeof *device);
    device->struct_size = sizeof *device;
    return wharf_node_device(node, rank, device);
}

static wharf_status get_link(const wharf_node *node, int a, int b,
                             wharf_link *link)
{
    memset(link, 0, sizeof *link);
    link->struct_size = sizeof *link;
    return wharf_node_link(node, a, b, link);
}

static wharf_status get_pair(const wharf_node *node, int a, int b,
                             struct pair *pair)
{
    wharf_status status = get_link(node, a, b, &pair->link);

    if (status == WHARF_OK)
        status = wharf_node_mechanism(node, a, b, &pair->mechanism, pair->why);
    return status;
}

/* Not cut, as the public struct's has to be. */
static const char *link_reason(const wharf_node *node, const wharf_link *link)
{
    return node->backend == WHARF_BACKEND_HOST && link->path == WHARF_PATH_HOST
               ? node->backend_reason
               : link->reason;
}

/* A kind of handle, as far as this rank's device goes. */
struct kind_line {
    wharf_handle_kind kind;
    bool works;
    bool used;          /* by all ranks, for device-space buffers */
    size_t granularity; /* 0 where it does not work */
    char reason[192];   /* why it does not work, or is used */
};

#define KINDS 5

/* Kinds of device memory in the order of preference, then host memory. */
static void kind_lines_fill(const wharf_node *node, struct kind_line *lines)
{
    static const wharf_handle_kind kinds[KINDS] = {
        WHARF_HANDLE_VMM, WHARF_HANDLE_FABRIC, WHARF_HANDLE_IPC,
        WHARF_HANDLE_MEMFD, WHARF_HANDLE_HOST_VMM};
    const wi_way *used = node->device_first < node->device_ways
                             ? &node->device_way[node->device_first]
                             : NULL;

    for (int i = 0; i < KINDS; i++) {
        struct kind_line *line = &lines[i];
        const wi_memory_ops *ops;

        memset(line, 0, sizeof *line);
        line->kind = kinds[i];
        ops = node->device->ops->memory(node->device, kinds[i], line->reason);
        line->works = ops != NULL;
        if (ops != NULL)
            line->granularity = ops->granularity(node->device);
        line->used = ops != NULL && used != NULL && used->ops == ops;
        if (line->used)
            snprintf(line->reason, sizeof line->reason, "%s",
                     node->backend == WHARF_BACKEND_HOST ? node->backend_reason
                                                         : used->reason);
    }
}

/* As cuDriverGetVersion, 13000 for 13.0; 0 on the host backend. */
static int driver_version(const wharf_node *node)
{
    return node->backend == WHARF_BACKEND_CUDA
               ? node->device->desc.driver_version
               : 0;
}

/* ---- JSON -------------------------------------------------------------- */

static void json_text(FILE *file, const char *key, const char *value)
{
    fprintf(file, ", \"%s\": ", key);
    wi_json_string(file, value);
}

static wharf_status json_links(const wharf_node *node, FILE *file, int rank)
{
    int size = wharf_node_size(node);

    fputs(", \"links\": [", file);
    for (int to = 0; to < size; to++) {
        struct pair pair;
        wharf_status status = get_pair(node, rank, to, &pair);

        if (status != WHARF_OK)
            return status;
        fprintf(file, "%s\n      {\"to\": %d, \"path\": \"%s\", ",
                to == 0 ? "" : ",", to, wharf_path_name(pair.link.path));
        fprintf(file, "\"nvlinks\": %d", pair.link.nvlinks);
        json_text(file, "reason", link_reason(node, &pair.link));
        json_text(file, "mechanism", wharf_mechanism_name(pair.mechanism));
        json_text(file, "mechanism_reason", pair.why);
        fputc('}', file);
    }
    fputs("]", file);
    return WHARF_OK;
}

static wharf_status json_rank(const wharf_node *node, FILE *file, int rank)
{
    wharf_device device;
    wharf_status status = get_device(node, rank, &device);

    if (status != WHARF_OK)
        return status;
    fprintf(file, "%s\n    {\"rank\": %d, \"gpu_index\": %d",
            rank == 0 ? "" : ",", rank, device.gpu);
    json_text(file, "uuid", device.uuid);
    json_text(file, "pci", device.pci);
    json_text(file, "name", device.name);
    fprintf(file, ", \"memory_bytes\": %" PRIu64, device.memory_bytes);
    fprintf(file, ", \"ordinal\": %d, \"owner\": %d, \"users\": %d",
            device.ordinal, device.owner, device.users);
    fprintf(file, ", \"distance\": %d", device.distance);
    json_text(file, "reason", device.reason);
    status = json_links(node, file, rank);
    fputs("}", file);
    return status;
}

static void json_kinds(const wharf_node *node, FILE *file)
{
    struct kind_line lines[KINDS];

    kind_lines_fill(node, lines);
    fputs(",\n  \"handle_kinds\": [", file);
    for (int i = 0; i < KINDS; i++) {
        fprintf(file, "%s\n    {\"kind\": \"%s\", \"works\": %s",
                i == 0 ? "" : ",", wharf_handle_kind_name(lines[i].kind),
                lines[i].works ? "true" : "false");
        fprintf(file, ", \"used\": %s", lines[i].used ? "true" : "false");
        fprintf(file, ", \"granularity_bytes\": %zu", lines[i].granularity);
        json_text(file, "reason", lines[i].reason);
        fputc('}', file);
    }
    fputc(']', file);
}

/* The planner's warnings, one string a line of `text`. */
static void json_warnings(const char *text, FILE *file)
{
    char line[256];
    bool first = true;

    fputs(",\n  \"warnings\": [", file);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        snprintf(line, sizeof line, "%.*s", (int)length, text);
        fputs(first ? "" : ", ", file);
        wi_json_string(file, line);
        first = false;
        text += length + (text[length] == '\n');
    }
    fputc(']', file);
}

static wharf_status print_json(const wharf_node *node, FILE *file)
{
    int gpus = wharf_node_gpus(node);

    fprintf(file, "{\"wharf\": \"%d.%d.%d\", \"size\": %d, \"backend\": \"%s\"",
            wharf_version() / 10000, wharf_version() / 100 % 100,
            wharf_version() % 100, wharf_node_size(node),
            wharf_node_backend(node) == WHARF_BACKEND_CUDA ? "cuda" : "host");
    json_text(file, "backend_reason", wharf_node_backend_reason(node));
    fprintf(file, ",\n  \"cuda_driver_version\": %d", driver_version(node));
    json_text(file, "remark", node->comm ? wi_comm_remark(node->comm) : "");
    json_warnings(node->warnings, file);
    json_kinds(node, file);
    fprintf(file, ",\n  \"gpus\": %d, \"owners\": [", gpus);
    for (int gpu = 0; gpu < gpus; gpu++) {
        int owner = -1;
        wharf_status status = wharf_node_owner(node, gpu, &owner);

        if (status != WHARF_OK)
            return status;
        fprintf(file, "%s%d", gpu == 0 ? "" : ", ", owner);
    }
    fputc(']', file);
    wi_print_gpus_json(node, file);
    fputs(",\n  \"ranks\": [", file);
    for (int rank = 0; rank < wharf_node_size(node); rank++) {
        wharf_status status = json_rank(node, file, rank);

        if (status != WHARF_OK)
            return status;
    }
    fputs("]}\n", file);
    return WHARF_OK;
}

/* ---- Text -------------------------------------------------------------- */

/* Consecutive ranks on the same GPU for the same reason share a line pair. */
static wharf_status text_ranks(const wharf_node *node, FILE *file)
{
    bool gpus = wharf_node_gpus(node) > 0;

    fputs(gpus ? "\nrank   gpu  owner  users  distance  device\n"
               : "\nrank  device\n",
          file);
    for (int rank = 0; rank < wharf_node_size(node); rank++) {
        wharf_device device;
        wharf_status status = get_device(node, rank, &device);

        if (status != WHARF_OK)
            return status;
        if (!gpus) {
            fprintf(file, "%4d  %s%s%s\n", rank, device.name,
                    device.reason[0] == '\0' ? "" : ": ", device.reason);
            continue;
        }
        fprintf(file, "%4d  %4d  %5d  %5d  ", rank, device.gpu, device.owner,
                device.users);
        if (device.distance < 0)
            fputs("       -", file);
        else
            fprintf(file, "%8d", device.distance);
        fprintf(file, "  %s, %.1f GB, %s\n", device.name,
                (double)device.memory_bytes / 1e9, device.pci);
        fprintf(file, "%36s%s\n", "", device.uuid);
        if (device.reason[0] != '\0')
            fprintf(file, "%36s%s\n", "", device.reason);
    }
    return WHARF_OK;
}

static bool pair_equal(const struct pair *a, const struct pair *b)
{
    return a->link.path == b->link.path && a->link.nvlinks == b->link.nvlinks &&
           strcmp(a->link.reason, b->link.reason) == 0 &&
           a->mechanism == b->mechanism && strcmp(a->why, b->why) == 0;
}

static void link_groups_add(struct link_groups *all, int from, int to,
                            const struct pair *pair)
{
    int i;

    for (i = 0; i < all->count; i++)
        if (pair_equal(&all->group[i].pair, pair))
            break;
    if (i == LINK_GROUPS) {
        all->others++;
        return;
    }
    struct link_group *group = &all->group[i];

    if (i == all->count) {
        all->count++;
        group->pair = *pair;
    }
    if (group->pairs < PAIRS_NAMED) {
        group->from[group->pairs] = from;
        group->to[group->pairs] = to;
    }
    group->pairs++;
}

static wharf_status link_groups_fill(const wharf_node *node,
                                     struct link_groups *all)
{
    int size = wharf_node_size(node);

    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++) {
            struct pair pair;
            wharf_status status;

            if (from == to)
                continue;
            status = get_pair(node, from, to, &pair);
            if (status != WHARF_OK)
                return status;
            link_groups_add(all, from, to, &pair);
        }
    }
    return WHARF_OK;
}

static void link_groups_print(const wharf_node *node,
                              const struct link_groups *all, FILE *file)
{
    for (int i = 0; i < all->count; i++) {
        const struct link_group *group = &all->group[i];
        const wharf_link *link = &group->pair.link;
        const char *reason = link_reason(node, link);
        int named = group->pairs < PAIRS_NAMED ? group->pairs : PAIRS_NAMED;

        fprintf(file, "%s", wharf_path_name(link->path));
        if (link->nvlinks > 0)
            fprintf(file, " (%d links)", link->nvlinks);
        fputs(":", file);
        for (int k = 0; k < named; k++)
            fprintf(file, " %d>%d", group->from[k], group->to[k]);
        if (group->pairs > named)
            fprintf(file, " and %d more pairs", group->pairs - named);
        fprintf(file, "%s%s\n", reason[0] == '\0' ? "" : "\n    ", reason);
        fprintf(file, "    signals by %s: %s\n",
                wharf_mechanism_name(group->pair.mechanism), group->pair.why);
    }
    if (all->others > 0)
        fprintf(file, "and %d pairs of other kinds\n", all->others);
}

static char path_letter(wharf_path path)
{
    static const char letters[] = ".SNPH";

    if ((unsigned)path >= sizeof letters - 1)
        return '?';
    return letters[path];
}

static wharf_status text_matrix(const wharf_node *node, FILE *file)
{
    int size = wharf_node_size(node);

    fputs("\npath from row to column: . itself, S same GPU, N NVLink, "
          "P PCIe peer, H host\n     ",
          file);
    for (int to = 0; to < size; to++)
        fprintf(file, "%3d", to);
    fputc('\n', file);
    for (int from = 0; from < size; from++) {
        fprintf(file, "%4d ", from);
        for (int to = 0; to < size; to++) {
            wharf_link link;
            wharf_status status = get_link(node, from, to, &link);

            if (status != WHARF_OK)
                return status;
            fprintf(file, "  %c", path_letter(link.path));
        }
        fputc('\n', file);
    }
    return WHARF_OK;
}

static wharf_status text_links(const wharf_node *node, FILE *file)
{
    struct link_groups *all;
    wharf_status status = WHARF_OK;

    if (wharf_node_size(node) < 2)
        return WHARF_OK;
    if (wharf_node_size(node) <= MATRIX_RANKS)
        status = text_matrix(node, file);
    if (status != WHARF_OK)
        return status;
    if (WI_NEW(all) == NULL)
        return WHARF_ENOMEM;
    status = link_groups_fill(node, all);
    if (status == WHARF_OK) {
        fputs("\nwhy\n", file);
        link_groups_print(node, all, file);
    }
    wi_free(all);
    return status;
}

static void text_kinds(const wharf_node *node, FILE *file)
{
    struct kind_line lines[KINDS];

    kind_lines_fill(node, lines);
    fputs("\nhandle kinds\n", file);
    for (int i = 0; i < KINDS; i++) {
        fprintf(file, "%-8s %s", wharf_handle_kind_name(lines[i].kind),
                lines[i].works ? "yes" : "no");
        if (lines[i].works)
            fprintf(file, ", granularity %zu bytes", lines[i].granularity);
        if (lines[i].reason[0] != '\0')
            fprintf(file, "%s%s", lines[i].used ? ", used: " : ": ",
                    lines[i].reason);
        fputc('\n', file);
    }
}

static wharf_status print_text(const wharf_node *node, FILE *file)
{
    int gpus = wharf_node_gpus(node);
    int size = wharf_node_size(node);
    const char *reason = wharf_node_backend_reason(node);
    wharf_status status;

    fprintf(file, "wharf %d.%d.%d, %d rank%s, ", wharf_version() / 10000,
            wharf_version() / 100 % 100, wharf_version() % 100, size,
            size == 1 ? "" : "s");
    if (gpus == 0)
        fputs("no GPU in use\nbackend host", file);
    else
        fprintf(file, "%d GPU%s\nbackend cuda", gpus, gpus == 1 ? "" : "s");
    fprintf(file, "%s%s\n", reason[0] == '\0' ? "" : ": ", reason);
    if (driver_version(node) > 0)
        fprintf(file, "driver supports CUDA %d.%d\n",
                driver_version(node) / 1000, driver_version(node) % 1000 / 10);
    if (node->comm && wi_comm_remark(node->comm)[0] != '\0')
        fprintf(file, "%s\n", wi_comm_remark(node->comm));
    status = text_ranks(node, file);
    wi_print_gpus_text(node, file);
    if (status == WHARF_OK)
        status = text_links(node, file);
    if (status != WHARF_OK)
        return status;
    text_kinds(node, file);
    if (node->warnings[0] != '\0')
        fprintf(file, "\nwarnings\n%s\n", node->warnings);
    return WHARF_OK;
}

static wharf_status node_print(const wharf_node *node, FILE *file,
                               wharf_format format)
{
    wharf_status status;

    if (file == NULL)
        return wi_fail(WHARF_EARG, "pass an open stream, such as stdout",
                       "file is NULL");
    if (format != WHARF_FORMAT_TEXT && format != WHARF_FORMAT_JSON)
        return wi_fail(WHARF_EARG,
                       "pass WHARF_FORMAT_TEXT or WHARF_FORMAT_JSON",
                       "format %d is unknown", (int)format);
    status = format == WHARF_FORMAT_JSON ? print_json(node, file)
                                         : print_text(node, file);
    return status == WHARF_OK
               ? wi_sys_flush(file, "the description of the node")
               : status;
}

wharf_status wharf_node_print(const wharf_node *node, FILE *file,
                              wharf_format format)
{
    wharf_status status = wi_node_local(__func__, node);

    if (status == WHARF_OK)
        status = node_print(node, file, format);
    return wi_call_end(status);
}
