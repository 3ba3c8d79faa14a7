/* SPDX-License-Identifier: MIT */
/*
 * Which kind of host memory a buffer of the host space gets, on a node with
 * GPUs. Measured (H200, driver 580, 256 MiB): memory that the driver makes
 * takes 50-83 ms and another process 8-14 ms to map; touching and page-locking
 * a memfd takes 210-240 ms and another process 11-40 ms. So the driver makes
 * it, where that works, which is tried once, by all ranks together, before the
 * first such buffer; but for small buffers, where the driver's large pieces
 * cost more, and for what only a memfd can do.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/mapping.h"
#include "device/numa.h"

/* From here on the driver's memory is cheaper. */
#define DRIVER_LEAST (UINT64_C(1) << 20)

/* Values of WHARF_HOST_MEMORY. */
enum { HOST_AUTO = 0, HOST_DRIVER = 1, HOST_MEMFD = 2 };

static void say(wi_way *way, const char *text)
{
    snprintf(way->reason, sizeof way->reason, "%.95s", text);
}

/* ---- Trying
 * ---------------------------------------------------------------------- */

typedef struct trial {
    wi_device *device;
    const wi_memory_ops *ops;
    size_t bytes;
    wi_range range[2];
    wi_block *block[2]; /* made, and imported */
    void *pointer[2];
} trial;

/* What is written by the CPU through one mapping is read by the CPU and by the
 * GPU through the other. */
static wharf_status trial_compare(const trial *t)
{
    const uint64_t sent = UINT64_C(0x6f2d1c5b9e8a4703);
    const void *from = t->pointer[1];
    uint64_t by_cpu, by_gpu;
    memcpy(t->pointer[0], &sent, sizeof sent);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    memcpy(&by_cpu, t->pointer[1], sizeof by_cpu);
    wharf_status status =
        t->device->ops->read_words(t->device, &from, 1, &by_gpu);
    if (status == WHARF_OK && (by_cpu != sent || by_gpu != sent))
        status =
            wi_fail(WHARF_EDATA, NULL,
                    "what the CPU wrote to the driver's host memory does not "
                    "arrive at %s",
                    by_cpu == sent ? "the GPU" : "another mapping");
    return status;
}

static wharf_status trial_run(trial *t)
{
    wi_handle handle;
    int fds[WI_BLOCK_CHUNKS];
    wharf_status status = WHARF_OK;
    for (int i = 0; i < 2 && status == WHARF_OK; i++)
        status = t->ops->reserve(t->device, NULL, t->bytes, &t->range[i]);
    if (status == WHARF_OK)
        status = t->ops->create(t->device, t->bytes, 0, &t->block[0]);
    if (status == WHARF_OK)
        status = t->ops->map(t->device, t->block[0], &t->range[0], 0,
                             WI_ACCESS_READ_WRITE, &t->pointer[0]);
    if (status == WHARF_OK)
        status = t->ops->export_(t->device, t->block[0], &handle, fds);
    if (status == WHARF_OK)
        status = t->ops->import(t->device, &handle, fds, &t->block[1]);
    if (status == WHARF_OK)
        status = t->ops->map(t->device, t->block[1], &t->range[1], 0,
                             WI_ACCESS_READ_WRITE, &t->pointer[1]);
    return status == WHARF_OK ? trial_compare(t) : status;
}

static wharf_status try_here(const wharf_node *node)
{
    trial t = {
        .device = node->device,
        .ops = node->host_driver.ops,
        .bytes = node->host_driver.granularity,
    };
    wharf_status status = trial_run(&t);
    for (int i = 1; i >= 0; i--) {
        t.ops->destroy(t.device, t.block[i]);
        t.ops->unreserve(t.device, &t.range[i]);
    }
    return status;
}

/* Collective, once a node: afterwards it is known whether the driver's memory
 * works on all ranks. Only a broken or late node is a failure. */
static wharf_status try_all(wharf_node *node, wi_deadline deadline)
{
    wharf_error kept = *wi_error_record();
    int64_t began = wi_now_ns();
    wharf_status status = wi_comm_agree(node->comm, try_here(node), deadline);
    if (status == WHARF_ETIMEDOUT || status == WHARF_EMISMATCH ||
        wharf_status_scope(status) == WHARF_SCOPE_NODE)
        return status;
    wi_log(WI_LOG_DEBUG, "the driver's host memory was tried in %lld us",
           (long long)(wi_now_ns() - began) / 1000);
    node->host_tried = true;
    if (status == WHARF_OK)
        return WHARF_OK;
    const wharf_error *cause = wi_error_record();
    snprintf(node->host_refused, sizeof node->host_refused, "rank %d: %.72s",
             cause->rank, cause->cause);
    if (node->rank == 0)
        wi_log(WI_LOG_INFO,
               "host space by page-locked memfd, not by the driver: %s",
               node->host_refused);
    *wi_error_record() = kept;
    return WHARF_OK;
}

/* ---- Choosing
 * -------------------------------------------------------------------- */

/* Collective: where the ranks' threads run. *apart: not all on one node. */
static wharf_status find_nodes(wharf_node *node, bool *apart,
                               wi_deadline deadline)
{
    int32_t mine = node->device->ops->numa->here();
    int32_t all[WHARF_MAX_RANKS];
    wharf_status status =
        wi_comm_allgather(node->comm, &mine, sizeof mine, all, deadline);
    *apart = false;
    for (int r = 0; r < node->size && status == WHARF_OK; r++) {
        node->numa_of_rank[r] = all[r];
        *apart |= all[r] != all[0];
    }
    return status;
}

/* Why the driver's memory will not do for these, or NULL. */
static const char *needs_memfd(const wharf_node *node, int count,
                               const wi_attach *attach, bool apart)
{
    uint64_t bytes = 0;
    unsigned flags = 0;
    for (int i = 0; i < count; i++) {
        flags |= attach[i].flags;
        for (int r = 0; r < node->size; r++)
            bytes += attach[i].sizes[r];
    }
    if (flags & WHARF_BUFFER_INTERLEAVE)
        return "page-locked memfd: the driver's memory cannot be interleaved";
    if ((flags & WHARF_BUFFER_NUMA_LOCAL) && apart)
        return "page-locked memfd: a piece of the driver's memory has one NUMA "
               "node";
    if (flags & WHARF_BUFFER_READ_ONLY)
        return "page-locked memfd: the CPU can be held off from writing it";
    if (node->settings.host_memory == HOST_MEMFD)
        return "page-locked memfd: asked for by WHARF_HOST_MEMORY";
    if (bytes < DRIVER_LEAST && node->settings.host_memory == HOST_AUTO)
        return "page-locked memfd: cheaper than the driver's memory below "
               "1 MiB";
    return NULL;
}

static wharf_status refuse_driver(const wharf_node *node)
{
    return wi_fail(WHARF_EUNSUPPORTED, "leave WHARF_HOST_MEMORY at auto",
                   "host memory made by the driver was asked for: %s",
                   node->host_driver.ops ? node->host_refused
                                         : node->host_driver.reason);
}

wharf_status wi_host_way(wharf_node *node, int count, const wi_attach *attach,
                         const wi_way **way, wi_deadline deadline)
{
    bool apart = false, local = false, driver = node->host_driver.ops != NULL;
    wharf_status status = WHARF_OK;
    for (int i = 0; i < count; i++)
        local |= (attach[i].flags & WHARF_BUFFER_NUMA_LOCAL) != 0;
    if (local)
        status = find_nodes(node, &apart, deadline);
    if (status != WHARF_OK)
        return status;
    *way = &node->host_way;
    if (!driver && node->settings.host_memory == HOST_DRIVER)
        return wi_decided_alike(refuse_driver(node));
    if (!driver)
        return WHARF_OK;
    const char *why = needs_memfd(node, count, attach, apart);
    if (!why && !node->host_tried)
        status = try_all(node, deadline);
    if (status != WHARF_OK)
        return status;
    if (!why && !node->host_refused[0]) {
        *way = &node->host_driver;
        return WHARF_OK;
    }
    if (!why && node->settings.host_memory == HOST_DRIVER)
        return wi_decided_alike(refuse_driver(node));
    *way = &node->host_locked;
    say(&node->host_locked, why ? why : node->host_refused);
    return WHARF_OK;
}

/* ---- Placing
 * --------------------------------------------------------------------- */

void wi_host_describe(wi_mapping *mapping)
{
    const wi_numa_ops *numa = mapping->node->device->ops->numa;
    if (mapping->flags & WHARF_BUFFER_HUGE_PAGES &&
        mapping->way->ops->kind == WHARF_HANDLE_MEMFD)
        numa->enlarge(NULL, mapping->reason);
}

wharf_status wi_host_place(wi_mapping *mapping, int block)
{
    const wharf_node *node = mapping->node;
    const wi_numa_ops *numa = node->device->ops->numa;
    const wi_layout *layout = &mapping->layout;
    wi_block *made = mapping->block[block];
    wharf_status status = WHARF_OK;
    if (mapping->way->ops->kind != WHARF_HANDLE_MEMFD)
        return WHARF_OK;
    if (mapping->flags & WHARF_BUFFER_INTERLEAVE)
        status = numa->place(made, 0, layout->block[block].bytes,
                             WI_NUMA_INTERLEAVED);
    for (int r = 0; r < node->size && status == WHARF_OK &&
                    (mapping->flags & WHARF_BUFFER_NUMA_LOCAL);
         r++)
        if (layout->block_of_rank[r] == block)
            status = numa->place(
                made, layout->offset_of_rank[r] - layout->block[block].offset,
                mapping->sizes[r], node->numa_of_rank[r]);
    if (status == WHARF_OK && (mapping->flags & WHARF_BUFFER_HUGE_PAGES))
        numa->enlarge(made, mapping->reason);
    return status;
}
