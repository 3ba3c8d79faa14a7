/* SPDX-License-Identifier: MIT */
/*
 * How ranks reach one another, and from that how memory is to be shared: which
 * kinds of handle every rank can use, best first.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/versioned.h"
#include "core/core.h"

/* ---- Links
 * ---------------------------------------------------------------------- */

/* What does not fit ends with dots. */
static void say(char reason[WHARF_MAX_REASON + 1], const char *text)
{
    snprintf(reason, WHARF_MAX_REASON + 1,
             strlen(text) > 95 ? "%.92s..." : "%.95s", text);
}

static void fill_link(const wharf_node *node, int a, int b, wharf_link *link)
{
    if (a == b) {
        link->path = WHARF_PATH_SAME_PROCESS;
        say(link->reason, "a rank and itself");
        return;
    }
    if (node->backend == WHARF_BACKEND_HOST) {
        link->path = WHARF_PATH_HOST;
        say(link->reason, node->backend_reason);
        return;
    }
    int x = node->gpu_of_rank[a], y = node->gpu_of_rank[b];
    if (x == y) {
        link->path = WHARF_PATH_SAME_GPU;
        say(link->reason, "one GPU");
        return;
    }
    const wi_peer *peer =
        &node->peers[(size_t)x * (size_t)node->gpus + (size_t)y];
    link->nvlinks = peer->nvlinks;
    say(link->reason, peer->reason);
    if (!peer->reachable)
        link->path = WHARF_PATH_HOST;
    else
        link->path = peer->nvlink ? WHARF_PATH_NVLINK : WHARF_PATH_PCIE_PEER;
}

wharf_status wharf_node_link(const wharf_node *node, int a, int b,
                             wharf_link *link)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK)
        status = wi_node_check_rank(node, "a", a);
    if (status == WHARF_OK)
        status = wi_node_check_rank(node, "b", b);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_link found = {.struct_size = sizeof found};
    fill_link(node, a, b, &found);
    return wi_call_end(wi_versioned_write(link, &found, sizeof found, "link"));
}

/* ---- Ways
 * ------------------------------------------------------------------------ */

/* What one rank can do of one kind. */
typedef struct ability {
    uint64_t granularity; /* 0: cannot */
    char reason[WHARF_MAX_REASON + 1];
} ability;

static void ability_find(wharf_node *node, wharf_handle_kind kind,
                         ability *found)
{
    *found = (ability){0};
    const wi_memory_ops *ops =
        node->device->ops->memory(node->device, kind, found->reason);
    if (ops)
        found->granularity = ops->granularity(node->device);
}

/* Collective: the largest granularity of all ranks, or the reason of the
 * lowest rank that cannot. */
static wharf_status ability_agree(wharf_node *node, wharf_handle_kind kind,
                                  ability *agreed, wi_deadline deadline)
{
    ability *all = wi_calloc((size_t)node->size, sizeof *all);
    wharf_status status =
        wi_comm_agree(node->comm, all ? WHARF_OK : WHARF_ENOMEM, deadline);
    if (status != WHARF_OK)
        goto done;
    ability mine;
    ability_find(node, kind, &mine);
    status = wi_comm_allgather(node->comm, &mine, sizeof mine, all, deadline);
    if (status != WHARF_OK)
        goto done;
    *agreed = (ability){0};
    for (int r = 0; r < node->size; r++) {
        if (all[r].granularity == 0) {
            agreed->granularity = 0;
            snprintf(agreed->reason, sizeof agreed->reason, "rank %d: %.77s", r,
                     all[r].reason);
            break;
        }
        if (all[r].granularity > agreed->granularity)
            agreed->granularity = all[r].granularity;
    }
done:
    wi_free(all);
    return status;
}

static void add_way(wharf_node *node, wharf_handle_kind kind,
                    const ability *agreed, bool degraded, const char *reason)
{
    char unused[96];
    wi_way *way = &node->device_way[node->device_ways++];
    way->ops = node->device->ops->memory(node->device, kind, unused);
    way->granularity = agreed->granularity;
    way->degraded = degraded;
    say(way->reason, reason);
}

/* The first pair of GPUs without peer access, in words; false if none. */
static bool find_gap(const wharf_node *node, char reason[WHARF_MAX_REASON + 1])
{
    for (int x = 0; x < node->gpus; x++)
        for (int y = 0; y < node->gpus; y++) {
            const wi_peer *peer =
                &node->peers[(size_t)x * (size_t)node->gpus + (size_t)y];
            if (x == y || peer->reachable)
                continue;
            snprintf(reason, WHARF_MAX_REASON + 1,
                     "GPU %d cannot reach GPU %d: %.48s", x, y, peer->reason);
            return true;
        }
    return false;
}

static bool kind_wanted(const wharf_node *node, wharf_handle_kind kind)
{
    return node->settings.handle == 0 ||
           (node->settings.handle == 1 && kind == WHARF_HANDLE_VMM) ||
           (node->settings.handle == 2 && kind == WHARF_HANDLE_IPC) ||
           (node->settings.handle == 3 && kind == WHARF_HANDLE_FABRIC);
}

/*
 * Within a host descriptors carry as far as fabric handles, and are known to.
 * So these are for whoever asks for them, and where the driver shares no memory
 * by descriptors; trying them costs an open a millisecond or two.
 */
static wharf_status find_cuda_ways(wharf_node *node, char why_not[96],
                                   wi_deadline deadline)
{
    const wharf_handle_kind kinds[] = {WHARF_HANDLE_VMM, WHARF_HANDLE_FABRIC,
                                       WHARF_HANDLE_IPC};
    if (find_gap(node, why_not))
        return WHARF_OK;
    for (int k = 0; k < 3; k++) {
        if (!kind_wanted(node, kinds[k]))
            continue;
        if (kinds[k] == WHARF_HANDLE_FABRIC && node->device_ways > 0)
            continue;
        ability agreed;
        wharf_status status = ability_agree(node, kinds[k], &agreed, deadline);
        if (status != WHARF_OK)
            return status;
        if (agreed.granularity)
            add_way(node, kinds[k], &agreed, false,
                    node->settings.handle ? "asked for by WHARF_HANDLE"
                    : why_not[0]          ? why_not
                                          : "every rank can");
        else if (!why_not[0])
            say(why_not, agreed.reason);
    }
    return WHARF_OK;
}

/* Host memory made by the driver, where that may work: core/host_space.c. */
static wharf_status find_driver_host(wharf_node *node, wi_deadline deadline)
{
    ability agreed;
    wharf_status status =
        ability_agree(node, WHARF_HANDLE_HOST_VMM, &agreed, deadline);
    if (status != WHARF_OK)
        return status;
    if (agreed.granularity == 0) {
        say(node->host_driver.reason, agreed.reason);
        snprintf(node->host_way.reason, sizeof node->host_way.reason,
                 "page-locked memfd: %.76s", agreed.reason);
        return WHARF_OK;
    }
    char unused[96];
    node->host_driver.ops =
        node->device->ops->memory(node->device, WHARF_HANDLE_HOST_VMM, unused);
    node->host_driver.granularity = agreed.granularity;
    say(node->host_driver.reason,
        "made by the driver: cheaper than page-locking a memfd");
    node->host_locked = node->host_way;
    node->host_locked.granularity = agreed.granularity;
    return WHARF_OK;
}

wharf_status wi_node_find_ways(wharf_node *node, wi_deadline deadline)
{
    char why_not[96] = "";
    ability host;
    wharf_status status =
        ability_agree(node, WHARF_HANDLE_MEMFD, &host, deadline);
    if (status != WHARF_OK)
        return status;
    bool cuda = node->backend == WHARF_BACKEND_CUDA;
    if (cuda) {
        status = find_cuda_ways(node, why_not, deadline);
        if (status != WHARF_OK)
            return status;
    }
    if (host.granularity == 0) {
        say(node->host_way.reason, host.reason);
        return WHARF_OK;
    }
    /* Device space on the host backend is what was asked for; on the cuda
     * backend it is the slower path. */
    add_way(node, WHARF_HANDLE_MEMFD, &host, cuda,
            !cuda        ? node->backend_reason
            : why_not[0] ? why_not
                         : "no other kind of handle worked");
    node->host_way = node->device_way[node->device_ways - 1];
    node->host_way.degraded = false;
    say(node->host_way.reason, "host space was asked for");
    if (cuda && node->device_ways == 1 && node->rank == 0)
        wi_log(WI_LOG_WARN, "device-space buffers will lie in host memory: %s",
               node->device_way[0].reason);
    return cuda ? find_driver_host(node, deadline) : WHARF_OK;
}
