/* SPDX-License-Identifier: MIT */
/*
 * Which backend and which device: every rank shows what it can see
 * (node_census.c), one rank plans for all (node_plan.c), each opens its own.
 */
#include <stdio.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/census.h"

static wharf_status use_host(wharf_node *node, const char *reason,
                             wi_deadline deadline)
{
    node->backend = WHARF_BACKEND_HOST;
    snprintf(node->backend_reason, sizeof node->backend_reason, "%.190s",
             reason);
    wi_device_desc desc;
    int count;
    wharf_status status = wi_device_host.enumerate(&desc, 1, &count);
    if (status == WHARF_OK)
        status = wi_device_host.open(&desc, &node->device);
    if (status == WHARF_OK)
        status = wi_copy_open(node);
    for (int r = 0; r < node->size; r++) {
        node->lines[r] = (wi_topo_line){.device = -1, .distance = -1};
        snprintf(node->lines[r].reason, sizeof node->lines[r].reason,
                 "host backend");
    }
    return wi_comm_agree(node->comm, status, deadline);
}

static wharf_status use_cuda(wharf_node *node, const wi_device_desc *mine,
                             const wi_sighting *sightings, int most,
                             wi_deadline deadline)
{
    wi_census *c;
    wharf_status status = WI_NEW(c) ? WHARF_OK : WHARF_ENOMEM;
    status = wi_comm_agree(node->comm, status, deadline);
    if (status == WHARF_OK)
        status = wi_census_take(node, c, mine, sightings, most, deadline);
    if (status == WHARF_OK)
        status = wi_node_plan(node, c, deadline);
    /* Before the context: what the driver makes for it, threads and pinned
     * memory, is then near the GPU as well. */
    if (status == WHARF_OK)
        status = wi_node_bind(node, c, deadline);
    if (status == WHARF_OK) {
        const wi_gpu *gpu = &node->gpu[node->gpu_of_rank[node->rank]];
        status = wi_device_cuda.open(&gpu->desc, &node->device);
        if (status == WHARF_OK)
            status = wi_copy_open(node);
        status = wi_comm_agree(node->comm, status, deadline);
    }
    if (status == WHARF_OK) {
        node->backend = WHARF_BACKEND_CUDA;
        snprintf(node->backend_reason, sizeof node->backend_reason,
                 "every rank has a GPU");
    }
    wi_census_free(c);
    return status;
}

/*
 * Some rank sees no GPU; `status` and the record are agreed. With backend cuda
 * that is the answer; with auto the node shares host memory and says why, at
 * the level of a warning if other ranks do have GPUs; those idle GPUs are what
 * strict and refuse_bad refuse.
 */
static wharf_status without_cuda(wharf_node *node, wharf_status status,
                                 bool some, wi_deadline deadline)
{
    const wharf_error *record = wi_error_record();
    if (node->settings.backend == WHARF_BACKEND_CUDA || status != WHARF_ENODEV)
        return status;
    char reason[192];
    if (record->rank >= 0)
        snprintf(reason, sizeof reason, "rank %d: %.170s", record->rank,
                 record->cause);
    else
        snprintf(reason, sizeof reason, "%.190s", record->cause);
    if (some && (node->settings.strict || node->settings.refuse_bad))
        return wi_decided_alike(wi_fail(
            WHARF_EDEGRADED, "give every rank a GPU, or use WHARF_BACKEND=host",
            "GPUs would be left unused because %s", reason));
    /* Who names a driver wants it used. */
    bool warn = some || wi_config_text(WI_SETTING_CUDA_DRIVER)[0];
    if (node->rank == 0)
        wi_log(warn ? WI_LOG_WARN : WI_LOG_INFO,
               "sharing host memory, no GPU is used: %s", reason);
    return use_host(node, reason, deadline);
}

wharf_status wi_node_place(wharf_node *node, wi_deadline deadline)
{
    if (node->settings.backend == WHARF_BACKEND_HOST)
        return use_host(node, "asked for", deadline);

    wi_device_desc *mine = wi_calloc(WHARF_MAX_GPUS, sizeof *mine);
    wi_sighting *sightings = wi_calloc((size_t)node->size, sizeof *sightings);
    wharf_status status = mine && sightings ? WHARF_OK : WHARF_ENOMEM;
    status = wi_comm_agree(node->comm, status, deadline);
    if (status != WHARF_OK)
        goto done;

    wharf_error before = *wi_error_record();
    wi_sighting self;
    wi_census_look(mine, &self);
    status =
        wi_comm_allgather(node->comm, &self, sizeof self, sightings, deadline);
    if (status != WHARF_OK)
        goto done;
    int most = 0;
    bool all = true;
    for (int r = 0; r < node->size; r++) {
        all &= sightings[r].status == WHARF_OK;
        if (sightings[r].count > most)
            most = sightings[r].count;
    }
    if (all) {
        status = use_cuda(node, mine, sightings, most, deadline);
    } else {
        status = wi_comm_agree(node->comm, (wharf_status)self.status, deadline);
        status = without_cuda(node, status, most > 0, deadline);
        /* To go without is no failure of the call. */
        if (status == WHARF_OK)
            *wi_error_record() = before;
    }
done:
    wi_free(mine);
    wi_free(sightings);
    return status;
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
    wi_topo_unbind(&node->bound);
}
