/* SPDX-License-Identifier: MIT */
/* What a guest makes of the first part of a description: a node whose facts
 * are the lender's. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/visit_wire.h"

static wharf_status check_head(const wi_wire_head *head)
{
    if (head->size < 1 || head->size > WHARF_MAX_RANKS)
        return wi_visit_nonsense("ranks", head->size);
    if (head->rank < 0 || head->rank >= head->size)
        return wi_visit_nonsense("rank", head->rank);
    if (head->gpus < 0 || head->gpus > WHARF_MAX_GPUS)
        return wi_visit_nonsense("GPUs", head->gpus);
    if (head->backend != WHARF_BACKEND_CUDA &&
        head->backend != WHARF_BACKEND_HOST)
        return wi_visit_nonsense("backend", head->backend);
    if ((head->backend == WHARF_BACKEND_CUDA) != (head->gpus > 0))
        return wi_visit_nonsense("GPUs beside its backend", head->gpus);
    if (head->timeout_ms < 1 || head->timeout_ms > 86400000)
        return wi_visit_nonsense("ms of timeout", head->timeout_ms);
    return WHARF_OK;
}

/* Texts end, whatever came. */
#define END_TEXT(array) ((array)[sizeof(array) - 1] = '\0')

static wharf_status check_gpus(wharf_node *node)
{
    for (int g = 0; g < node->gpus; g++) {
        wi_gpu *gpu = &node->gpu[g];
        if (gpu->owner < 0 || gpu->owner >= node->size)
            return wi_visit_nonsense("owner", gpu->owner);
        if (gpu->users < 0 || gpu->users > node->size)
            return wi_visit_nonsense("ranks of a GPU", gpu->users);
        gpu->desc.ordinal = -1;
        END_TEXT(gpu->desc.pci);
        END_TEXT(gpu->desc.name);
    }
    for (int i = 0; i < node->gpus * node->gpus; i++)
        END_TEXT(node->peers[i].reason);
    for (int r = 0; r < node->size; r++) {
        int least = node->gpus > 0 ? 0 : -1;
        if (node->gpu_of_rank[r] < least || node->gpu_of_rank[r] >= node->gpus)
            return wi_visit_nonsense("GPU of a rank", node->gpu_of_rank[r]);
        END_TEXT(node->lines[r].reason);
    }
    return WHARF_OK;
}

/* bool members of what came as bytes: any byte but 0 and 1 would be undefined
 * behaviour when read. */
static wharf_status take_peers(wi_bundle_cursor *cursor, wharf_node *node,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char raw[sizeof(wi_peer)];
        memcpy(raw, cursor->bundle->bytes + cursor->at + i * sizeof raw,
               sizeof raw);
        const size_t flags[] = {offsetof(wi_peer, reachable),
                                offsetof(wi_peer, known),
                                offsetof(wi_peer, nvlink)};
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            if (raw[flags[f]] > 1)
                return wi_visit_nonsense("a flag of value", raw[flags[f]]);
        memcpy(&node->peers[i], raw, sizeof raw);
    }
    cursor->at += (count * sizeof(wi_peer) + 7) & ~(size_t)7;
    return WHARF_OK;
}

wharf_status wi_visit_read_node(wi_bundle_cursor *cursor,
                                const wi_wire_head *head, wharf_node *node)
{
    wharf_status status = check_head(head);
    if (status != WHARF_OK)
        return status;
    size_t ranks = (size_t)head->size, gpus = (size_t)head->gpus;
    node->rank = head->rank;
    node->size = head->size;
    node->gpus = head->gpus;
    node->backend = (wharf_backend)head->backend;
    node->settings.timeout_ms = head->timeout_ms;
    memcpy(node->backend_reason, head->backend_reason,
           sizeof node->backend_reason);
    END_TEXT(node->backend_reason);
    size_t padded = (gpus * gpus * sizeof(wi_peer) + 7) & ~(size_t)7;
    node->gpu = wi_calloc(gpus, sizeof *node->gpu);
    node->peers = wi_calloc(gpus * gpus, sizeof *node->peers);
    node->gpu_of_rank = wi_calloc(ranks, sizeof *node->gpu_of_rank);
    node->lines = wi_calloc(ranks, sizeof *node->lines);
    if (!node->gpu || !node->peers || !node->gpu_of_rank || !node->lines)
        return WHARF_ENOMEM;
    status = wi_bundle_take(cursor, node->gpu, sizeof *node->gpu, gpus);
    if (status == WHARF_OK && padded > cursor->bundle->length - cursor->at)
        status = wi_visit_nonsense("it ends after byte",
                                   (long long)cursor->bundle->length);
    if (status == WHARF_OK)
        status = take_peers(cursor, node, gpus * gpus);
    if (status == WHARF_OK)
        status = wi_bundle_take(cursor, node->gpu_of_rank,
                                sizeof *node->gpu_of_rank, ranks);
    if (status == WHARF_OK)
        status =
            wi_bundle_take(cursor, node->lines, sizeof *node->lines, ranks);
    return status == WHARF_OK ? check_gpus(node) : status;
}
