/* SPDX-License-Identifier: MIT */
/*
 * The keeper: one granule on every GPU, mapped by every rank for as long as the
 * node is open, and its descriptors kept by the owners.
 *
 * The driver sets a link between two GPUs up with the first mapping across it
 * and takes it down with the last, and likewise for exports. Both cost an
 * attach about 2 ms and 1 ms on two H200 (driver 580); while the keeper is
 * there no attach pays them. It also puts the real-data check of every pair
 * into the open, and its memory holds the words of events (event_word.c).
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/signal.h"

/* The exports' own cost is paid once if one of them stays open. Best effort:
 * without it attaches are only slower. */
static void keep_descriptors(wharf_node *node)
{
    wi_mapping *keeper = node->keeper;
    for (int b = 0; b < keeper->layout.blocks; b++) {
        wi_handle handle;
        if (keeper->layout.block[b].owner != node->rank)
            continue;
        if (keeper->way->ops->export_(node->device, keeper->block[b], &handle,
                                      node->keeper_fds) == WHARF_OK)
            node->keeper_fd_count = (int)handle.fds;
    }
}

/* Owner: all words of its GPU, as of slots that were never used. */
static wharf_status words_set(wharf_node *node)
{
    wi_device *device = node->device;
    wi_mapping *keeper = node->keeper;
    wharf_status status = wi_mapping_zero(keeper);
    uint32_t first = wi_signal_first_epoch;
    char *words = wi_mapping_segment(keeper, node->rank);
    for (int s = 0; s < WHARF_MAX_EVENTS && words && first; s++)
        if (status == WHARF_OK)
            status = device->ops->write(
                device, words + (size_t)s * WI_EVENT_WORD_STRIDE, &first,
                sizeof first);
    return status;
}

/* Collective. The call that makes the first event comes after this. */
static wharf_status words_share(wharf_node *node, wi_deadline deadline)
{
    wharf_status status = wi_comm_agree(node->comm, words_set(node), deadline);
    wharf_error cause = *wi_error_record();
    if (status != WHARF_OK)
        wi_keeper_close(node, deadline);
    *wi_error_record() = cause;
    return status;
}

wharf_status wi_keeper_open(wharf_node *node, wi_deadline deadline)
{
    if (node->backend != WHARF_BACKEND_CUDA || node->size == 1 ||
        node->device_ways == 0 || node->device_way[0].degraded)
        return WHARF_OK;
    uint64_t *sizes = wi_calloc((size_t)node->size, sizeof *sizes);
    wharf_status status =
        wi_comm_agree(node->comm, sizes ? WHARF_OK : WHARF_ENOMEM, deadline);
    for (int g = 0; g < node->gpus && status == WHARF_OK; g++)
        sizes[node->gpu[g].owner] =
            (uint64_t)WHARF_MAX_EVENTS * WI_EVENT_WORD_STRIDE;
    wi_attach attach = {
        .flags = WI_MAPPING_NO_EVENTS,
        .space = WHARF_SPACE_DEVICE,
        .sizes = sizes,
    };
    if (status == WHARF_OK)
        status = wi_mapping_make(node, 1, &attach, &node->keeper, deadline);
    wi_free(sizes);
    if (status == WHARF_OK) {
        keep_descriptors(node);
        status = words_share(node, deadline);
    }
    if (status == WHARF_OK || wharf_status_scope(status) == WHARF_SCOPE_NODE ||
        status == WHARF_ETIMEDOUT)
        return status;
    if (node->rank == 0)
        wi_log(WI_LOG_INFO, "attaches will be slower: %.200s",
               wi_error_record()->cause);
    return WHARF_OK;
}

void wi_keeper_close(wharf_node *node, wi_deadline deadline)
{
    for (int i = 0; i < node->keeper_fd_count; i++)
        wi_sys_close(&node->keeper_fds[i]);
    node->keeper_fd_count = 0;
    if (node->keeper)
        wharf_ignore(wi_mapping_free(node, 1, &node->keeper, deadline));
}
