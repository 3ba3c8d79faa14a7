/* SPDX-License-Identifier: MIT */
/*
 * Which backend and which device: every rank shows what it can see, one rank
 * plans for all, each opens its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/core.h"

/* ---- Devices that the ranks see
 * ---------------------------------------------- */

/* All devices of the node, in PCI order (MIG instances of one GPU by UUID). */
typedef struct census {
    int count;
    wi_device_desc device[WHARF_MAX_GPUS];
    int ordinal[WHARF_MAX_GPUS]; /* in the calling process, -1: unseen */
    wi_topo_rank *rank;          /* node size of them */
} census;

/* What each rank brings. */
typedef struct sighting {
    int32_t status;
    int32_t count;
} sighting;

static int desc_order(const void *a, const void *b)
{
    const wi_device_desc *x = a, *y = b;
    int order = strcmp(x->pci, y->pci);
    return order ? order : memcmp(x->uuid, y->uuid, sizeof x->uuid);
}

static int census_find(const census *c, const wi_device_desc *desc)
{
    for (int d = 0; d < c->count; d++)
        if (memcmp(c->device[d].uuid, desc->uuid, sizeof desc->uuid) == 0)
            return d;
    return -1;
}

static wharf_status census_add(census *c, const wi_device_desc *seen, int count)
{
    for (int i = 0; i < count; i++) {
        if (census_find(c, &seen[i]) >= 0)
            continue;
        if (c->count == WHARF_MAX_GPUS)
            return wi_fail(WHARF_ELIMIT, "hide some by CUDA_VISIBLE_DEVICES",
                           "the ranks see more than %d GPUs", WHARF_MAX_GPUS);
        c->device[c->count++] = seen[i];
    }
    return WHARF_OK;
}

static void census_mark(census *c, int rank, const wi_device_desc *seen,
                        int count, bool self)
{
    for (int i = 0; i < count; i++) {
        int d = census_find(c, &seen[i]);
        c->rank[rank].visible |= UINT64_C(1) << d;
        if (self)
            c->ordinal[d] = seen[i].ordinal;
    }
}

/* Collective: from what each rank sees to what the node has. `most` is the
 * largest count of any rank. */
static wharf_status census_take(wharf_node *node, census *c,
                                const wi_device_desc *mine,
                                const sighting *sightings, int most,
                                wi_deadline deadline)
{
    size_t stride = (size_t)most;
    wi_device_desc *all = wi_calloc((size_t)node->size * stride, sizeof *all);
    c->rank = wi_calloc((size_t)node->size, sizeof *c->rank);
    wi_topo_rank self;
    wi_topo_rank_self(&self);

    wharf_status st = all && c->rank ? WHARF_OK : WHARF_ENOMEM;
    st = wi_comm_agree(node->comm, st, deadline);
    if (st == WHARF_OK)
        st = wi_comm_allgather(node->comm, mine, stride * sizeof *mine, all,
                               deadline);
    if (st == WHARF_OK)
        st = wi_comm_allgather(node->comm, &self, sizeof self, c->rank,
                               deadline);
    for (int r = 0; r < node->size && st == WHARF_OK; r++)
        st = census_add(c, all + (size_t)r * stride, sightings[r].count);
    if (st == WHARF_OK) {
        qsort(c->device, (size_t)c->count, sizeof c->device[0], desc_order);
        for (int d = 0; d < c->count; d++)
            c->ordinal[d] = -1;
        for (int r = 0; r < node->size; r++) {
            c->rank[r].visible = 0;
            census_mark(c, r, all + (size_t)r * stride, sightings[r].count,
                        r == node->rank);
        }
    }
    wi_free(all);
    return st;
}

/* ---- Plan
 * ---------------------------------------------------------------------- */

void wi_uuid_format(const wi_device_desc *desc, char text[48])
{
    const unsigned char *u = desc->uuid;
    snprintf(text, 48,
             "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
             "%02x%02x%02x%02x%02x%02x",
             desc->mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5],
             u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static wharf_status plan_here(wharf_node *node, const census *c)
{
    wi_topo_device device[WHARF_MAX_GPUS] = {0};
    for (int d = 0; d < c->count; d++) {
        wi_uuid_format(&c->device[d], device[d].uuid);
        memcpy(device[d].pci, c->device[d].pci, sizeof device[d].pci);
        device[d].mig = c->device[d].mig;
    }
    wi_topo_links links = {c->count, NULL};
    return wi_topo_plan_node(node->size, c->rank, c->count, device, &links,
                             (wharf_placement)node->settings.placement,
                             node->settings.device_map, node->lines,
                             node->warnings, sizeof node->warnings);
}

/* Collective: node rank 0 plans, so the topology is loaded once a node and all
 * ranks have the same plan. */
static wharf_status plan_together(wharf_node *node, const census *c,
                                  wi_deadline deadline)
{
    wharf_status st = node->rank == 0 ? plan_here(node, c) : WHARF_OK;
    st = wi_comm_agree(node->comm, st, deadline);
    if (st == WHARF_OK)
        st = wi_comm_bcast(node->comm, 0, node->lines,
                           (size_t)node->size * sizeof *node->lines, deadline);
    if (st == WHARF_OK)
        st = wi_comm_bcast(node->comm, 0, node->warnings, sizeof node->warnings,
                           deadline);
    if (st == WHARF_OK && node->rank == 0 && node->warnings[0])
        wi_log(WI_LOG_INFO, "placement: %s", node->warnings);
    return st;
}

/* GPUs that got ranks, renumbered in PCI order; the lowest rank owns. */
static wharf_status adopt_plan(wharf_node *node, const census *c)
{
    int index[WHARF_MAX_GPUS];
    for (int d = 0; d < c->count; d++)
        index[d] = -1;
    for (int r = 0; r < node->size; r++)
        if (node->lines[r].device >= 0)
            index[node->lines[r].device] = 0;
        else {
            wharf_status st = wi_fail(
                WHARF_ENODEV, "give it a GPU, or use WHARF_BACKEND=host",
                "rank %d was given no GPU: %s", r, node->lines[r].reason);
            wi_error_record()->rank = r;
            return st;
        }
    for (int d = 0; d < c->count; d++)
        if (index[d] == 0)
            index[d] = node->gpus++;
    node->gpu = wi_calloc((size_t)node->gpus, sizeof *node->gpu);
    if (!node->gpu)
        return WHARF_ENOMEM;
    for (int d = 0; d < c->count; d++)
        if (index[d] >= 0) {
            wi_gpu *gpu = &node->gpu[index[d]];
            gpu->desc = c->device[d];
            gpu->desc.ordinal = c->ordinal[d];
            gpu->owner = -1;
        }
    for (int r = 0; r < node->size; r++) {
        node->gpu_of_rank[r] = index[node->lines[r].device];
        wi_gpu *gpu = &node->gpu[node->gpu_of_rank[r]];
        if (gpu->guests++ == 0)
            gpu->owner = r;
    }
    return WHARF_OK;
}

/* ---- Backends
 * ------------------------------------------------------------------ */

static wharf_status use_host(wharf_node *node, const char *reason,
                             wi_deadline deadline)
{
    node->backend = WHARF_BACKEND_HOST;
    snprintf(node->backend_reason, sizeof node->backend_reason, "%.190s",
             reason);
    wi_device_desc desc;
    int count;
    wharf_status st = wi_device_host.enumerate(&desc, 1, &count);
    if (st == WHARF_OK)
        st = wi_device_host.open(&desc, &node->device);
    for (int r = 0; r < node->size; r++) {
        node->lines[r] = (wi_topo_line){.device = -1, .distance = -1};
        snprintf(node->lines[r].reason, sizeof node->lines[r].reason,
                 "host backend");
    }
    return wi_comm_agree(node->comm, st, deadline);
}

static wharf_status use_cuda(wharf_node *node, const wi_device_desc *mine,
                             const sighting *sightings, int most,
                             wi_deadline deadline)
{
    census *c;
    wharf_status st = WI_NEW(c) ? WHARF_OK : WHARF_ENOMEM;
    st = wi_comm_agree(node->comm, st, deadline);
    if (st == WHARF_OK)
        st = census_take(node, c, mine, sightings, most, deadline);
    if (st == WHARF_OK)
        st = plan_together(node, c, deadline);
    if (st == WHARF_OK)
        st = wi_comm_agree(node->comm, adopt_plan(node, c), deadline);
    if (st == WHARF_OK) {
        const wi_gpu *gpu = &node->gpu[node->gpu_of_rank[node->rank]];
        st = wi_device_cuda.open(&gpu->desc, &node->device);
        st = wi_comm_agree(node->comm, st, deadline);
    }
    if (st == WHARF_OK) {
        node->backend = WHARF_BACKEND_CUDA;
        snprintf(node->backend_reason, sizeof node->backend_reason,
                 "every rank has a GPU");
    }
    if (c)
        wi_free(c->rank);
    wi_free(c);
    return st;
}

/*
 * Some rank sees no GPU; `st` and the record are agreed. With backend cuda
 * that is the answer; with auto the node shares host memory and says why, at
 * the level of a warning if other ranks do have GPUs.
 */
static wharf_status without_cuda(wharf_node *node, wharf_status st, bool some,
                                 wi_deadline deadline)
{
    const wharf_error *record = wi_error_record();
    if (node->settings.backend == WHARF_BACKEND_CUDA || st != WHARF_ENODEV)
        return st;
    char reason[192];
    if (record->rank >= 0)
        snprintf(reason, sizeof reason, "rank %d: %.170s", record->rank,
                 record->cause);
    else
        snprintf(reason, sizeof reason, "%.190s", record->cause);
    if (some && node->settings.strict)
        return wi_fail(WHARF_EDEGRADED,
                       "give every rank a GPU, or use WHARF_BACKEND=host",
                       "GPUs would be left unused because %s", reason);
    if (node->rank == 0)
        wi_log(some ? WI_LOG_WARN : WI_LOG_INFO,
               "sharing host memory, no GPU is used: %s", reason);
    return use_host(node, reason, deadline);
}

wharf_status wi_node_place(wharf_node *node, wi_deadline deadline)
{
    if (node->settings.backend == WHARF_BACKEND_HOST)
        return use_host(node, "asked for", deadline);

    wi_device_desc *mine = wi_calloc(WHARF_MAX_GPUS, sizeof *mine);
    sighting *sightings = wi_calloc((size_t)node->size, sizeof *sightings);
    wharf_status st = mine && sightings ? WHARF_OK : WHARF_ENOMEM;
    st = wi_comm_agree(node->comm, st, deadline);
    if (st != WHARF_OK)
        goto done;

    sighting self = {0};
    self.status = wi_device_cuda.enumerate(mine, WHARF_MAX_GPUS, &self.count);
    if (self.status != WHARF_OK)
        self.count = 0;
    st = wi_comm_allgather(node->comm, &self, sizeof self, sightings, deadline);
    if (st != WHARF_OK)
        goto done;
    int most = 0;
    bool all = true;
    for (int r = 0; r < node->size; r++) {
        all &= sightings[r].status == WHARF_OK;
        if (sightings[r].count > most)
            most = sightings[r].count;
    }
    if (all) {
        st = use_cuda(node, mine, sightings, most, deadline);
    } else {
        st = wi_comm_agree(node->comm, (wharf_status)self.status, deadline);
        st = without_cuda(node, st, most > 0, deadline);
    }
done:
    wi_free(mine);
    wi_free(sightings);
    return st;
}

void wi_node_unplace(wharf_node *node)
{
    if (node->device)
        node->device->ops->close(node->device);
    node->device = NULL;
    wi_free(node->gpu);
    node->gpu = NULL;
    wi_free(node->peers);
    node->peers = NULL;
    node->gpus = 0;
}
