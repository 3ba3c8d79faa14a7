/* SPDX-License-Identifier: MIT */
/*
 * Binding of ranks that came unbound to CPUs near their GPUs. A convenience: a
 * rank that cannot be bound runs where it did, and it is said why.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/census.h"

/* What one rank tells the others. */
typedef struct bind_result {
    int32_t tried;
    int32_t status;
    char reason[WHARF_MAX_REASON + 1];
} bind_result;

/* Which of the node's GPUs have the same CPUs nearby as this rank's GPU. */
static void find_neighbours(const wharf_node *node, bool *same)
{
    uint64_t mine[WI_TOPO_CPUS / 64], other[WI_TOPO_CPUS / 64];
    int own = node->gpu_of_rank[node->rank];
    bool known =
        wi_topo_near_cpus("", node->gpu[own].desc.pci, mine) == WHARF_OK;

    for (int g = 0; g < node->gpus; g++)
        same[g] = g == own || (known &&
                               wi_topo_near_cpus("", node->gpu[g].desc.pci,
                                                 other) == WHARF_OK &&
                               memcmp(mine, other, sizeof mine) == 0);
}

/* This rank's share among the unbound ranks that want the same CPUs. */
static void find_share(const wharf_node *node, const wi_census *c, int *part,
                       int *parts)
{
    bool same[WHARF_MAX_GPUS];

    find_neighbours(node, same);
    *part = *parts = 0;
    for (int r = 0; r < node->size; r++) {
        if (c->rank[r].bound || !same[node->gpu_of_rank[r]])
            continue;
        *part += r < node->rank;
        ++*parts;
    }
}

static void bind_here(wharf_node *node, const wi_census *c, bind_result *result)
{
    const wi_gpu *gpu = &node->gpu[node->gpu_of_rank[node->rank]];
    wharf_error kept = *wi_error_record();
    int part, parts;

    result->tried = 1;
    find_share(node, c, &part, &parts);
    result->status =
        wi_topo_bind_near("", gpu->desc.pci, part, parts, &node->bound);
    if (result->status != WHARF_OK)
        snprintf(result->reason, sizeof result->reason, "%.95s",
                 wi_error_record()->cause);
    *wi_error_record() = kept;
}

/* One warning for all ranks that could not be bound, with the first's reason.
 */
static void warn(wharf_node *node, int failed, int tried, int first,
                 const char *reason)
{
    size_t used = strlen(node->warnings);
    char text[200];

    snprintf(text, sizeof text,
             "%d of %d unbound ranks could not be bound near their GPUs; rank "
             "%d: %s",
             failed, tried, first, reason);
    snprintf(node->warnings + used, sizeof node->warnings - used, "%s%s",
             used ? "\n" : "", text);
    if (node->rank == 0)
        wi_log(WI_LOG_WARN, "%s", text);
}

wharf_status wi_node_bind(wharf_node *node, const wi_census *c,
                          wi_deadline deadline)
{
    bind_result mine = {0};
    int tried = 0, failed = 0, first = -1;

    if (!node->settings.bind)
        return WHARF_OK;
    bind_result *all = wi_calloc((size_t)node->size, sizeof *all);
    wharf_status status =
        wi_comm_agree(node->comm, all ? WHARF_OK : WHARF_ENOMEM, deadline);
    if (status == WHARF_OK && !c->rank[node->rank].bound)
        bind_here(node, c, &mine);
    if (status == WHARF_OK)
        status =
            wi_comm_allgather(node->comm, &mine, sizeof mine, all, deadline);
    for (int r = 0; r < node->size && status == WHARF_OK; r++) {
        if (!all[r].tried)
            continue;
        tried++;
        if (all[r].status == WHARF_OK) {
            snprintf(node->lines[r].reason, sizeof node->lines[r].reason,
                     "came unbound, was bound near its GPU");
            continue;
        }
        first = failed++ ? first : r;
    }
    if (status == WHARF_OK && failed)
        warn(node, failed, tried, first, all[first].reason);
    wi_free(all);
    return status;
}
