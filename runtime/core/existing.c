/* SPDX-License-Identifier: MIT */
/* The life of a mapping of memory that its ranks had before, and what can be
 * asked of it; see existing.h. */
#include "core/existing.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"

static wharf_status new_parts(wi_mapping *m, size_t ranks)
{
    if (!WI_NEW(m->existing))
        return WHARF_ENOMEM;
    m->sizes = wi_calloc(ranks, sizeof *m->sizes);
    m->events = wi_calloc(ranks, sizeof *m->events);
    m->block = wi_calloc(ranks, sizeof(wi_block *));
    m->handle = wi_calloc(ranks, sizeof *m->handle);
    m->pointer = wi_calloc(ranks, sizeof *m->pointer);
    m->nonce = wi_calloc(ranks, sizeof *m->nonce);
    m->layout.block = wi_calloc(ranks, sizeof *m->layout.block);
    m->layout.block_of_rank = wi_calloc(ranks, sizeof(int));
    m->layout.offset_of_rank = wi_calloc(ranks, sizeof(size_t));
    m->existing->card = wi_calloc(ranks, sizeof *m->existing->card);
    m->existing->range = wi_calloc(ranks, sizeof *m->existing->range);
    if (!m->sizes || !m->events || !m->block || !m->handle || !m->pointer ||
        !m->nonce || !m->layout.block || !m->layout.block_of_rank ||
        !m->layout.offset_of_rank || !m->existing->card || !m->existing->range)
        return WHARF_ENOMEM;
    return WHARF_OK;
}

wharf_status wi_existing_new(wharf_node *node, wi_mapping **mapping)
{
    wi_mapping *m;
    if (node->device_ways == 0)
        return wi_fail(
            WHARF_EUNSUPPORTED, "see wharf-info for what is possible",
            "no memory can be shared on this node: %s", node->host_way.reason);
    if (!WI_NEW(m))
        return WHARF_ENOMEM;
    m->node = node;
    m->way = &node->device_way[node->device_first];
    m->first_slot = -1;
    wharf_status status = new_parts(m, (size_t)node->size);
    for (int r = 0; r < node->size && status == WHARF_OK; r++)
        status = wi_handle_add(&m->events[r], WI_HANDLE_EVENT);
    if (status != WHARF_OK) {
        wi_mapping_delete(m);
        return status;
    }
    *mapping = m;
    return WHARF_OK;
}

void wi_existing_delete(wi_existing *existing)
{
    if (!existing)
        return;
    wi_free(existing->card);
    wi_free(existing->range);
    wi_free(existing);
}

void wi_existing_lay_out(wi_mapping *mapping)
{
    const wharf_node *node = mapping->node;
    wi_layout *layout = &mapping->layout;
    for (int r = 0; r < node->size; r++) {
        layout->block_of_rank[r] = -1;
        if (mapping->sizes[r] == 0)
            continue;
        int b = layout->blocks++;
        layout->block[b].owner = r;
        layout->block[b].sole_rank = r;
        layout->block[b].place = node->gpu_of_rank && node->gpu_of_rank[r] >= 0
                                     ? node->gpu_of_rank[r]
                                     : 0;
        layout->block[b].bytes = mapping->sizes[r];
        layout->block_of_rank[r] = b;
        layout->bytes += mapping->sizes[r];
        mapping->handle[b].bytes = mapping->sizes[r];
    }
}

/* ---- End ----------------------------------------------------------------- */

/* A block and the addresses of a mirror. */
static void let_go(wi_mapping *mapping, int block)
{
    const wharf_node *node = mapping->node;
    const wi_existing *e = mapping->existing;
    const wi_memory_ops *host = node->host_way.ops;
    if (mapping->block[block] &&
        e->card[mapping->layout.block[block].owner].mirrored)
        host->destroy(node->device, mapping->block[block]);
    else if (mapping->block[block])
        node->device->ops->foreign->close(node->device, mapping->block[block]);
    mapping->block[block] = NULL;
    mapping->pointer[block] = NULL;
    if (e->range[block].base)
        host->unreserve(node->device, &e->range[block]);
    e->range[block] = (wi_range){0};
}

void wi_existing_close_imports(wi_mapping *mapping)
{
    for (int b = 0; b < mapping->layout.blocks; b++)
        if (mapping->layout.block[b].owner != mapping->node->rank)
            let_go(mapping, b);
}

void wi_existing_free_owned(wi_mapping *mapping)
{
    const wharf_node *node = mapping->node;
    wi_existing *e = mapping->existing;
    int b = wi_existing_block(mapping, node->rank);
    if (b < 0)
        return;
    if (!node->device->ops->foreign->same(node->device, &e->memory))
        wi_log(WI_LOG_WARN,
               "the memory at %p was freed before its buffer was detached: "
               "other ranks may have used what was no longer there",
               (void *)e->memory.pointer);
    let_go(mapping, b);
    e->mirror = NULL;
}

/* ---- Queries ------------------------------------------------------------- */

static void tell_direct(const wi_existing_card *card, wharf_buffer_info *info)
{
    switch (card->kind) {
    case WI_FOREIGN_LEGACY:
        info->handle = WHARF_HANDLE_IPC;
        break;
    case WI_FOREIGN_POOL:
        info->handle = WHARF_HANDLE_POOL;
        break;
    default:
        info->handle = WHARF_HANDLE_VMM;
        break;
    }
    info->space = WHARF_SPACE_DEVICE;
    snprintf(info->reason, sizeof info->reason, "the rank's own: %s%s",
             wi_foreign_name((wi_foreign_kind)card->kind),
             card->neighbours ? "; its block's neighbours are exposed" : "");
}

/* Memory that the CPU reaches, for its own rank. */
static bool is_host(uint32_t kind)
{
    return kind == WI_FOREIGN_HOST || kind == WI_FOREIGN_HOST_SHARED ||
           kind == WI_FOREIGN_STACK || kind == WI_FOREIGN_PINNED;
}

wi_copy_place wi_existing_place(const wi_mapping *mapping, int block)
{
    const wharf_node *node = mapping->node;
    const wi_existing *e = mapping->existing;
    int owner = mapping->layout.block[block].owner;
    if (owner != node->rank && e->card[owner].mirrored)
        return WI_COPY_PLACE_HOST;
    if (owner != node->rank)
        return node->gpu_of_rank[owner] == node->gpu_of_rank[node->rank]
                   ? WI_COPY_PLACE_DEVICE
                   : WI_COPY_PLACE_PEER;
    if (is_host(e->memory.kind))
        return e->memory.pageable ? WI_COPY_PLACE_PAGEABLE : WI_COPY_PLACE_HOST;
    return e->memory.kind == WI_FOREIGN_OTHER_DEVICE ||
                   e->memory.kind == WI_FOREIGN_IMPORTED
               ? WI_COPY_PLACE_FAR
               : WI_COPY_PLACE_DEVICE;
}

static void tell_mirror(const wi_mapping *mapping, int rank,
                        wharf_buffer_info *info)
{
    const wi_existing *e = mapping->existing;
    const wi_existing_card *card = &e->card[rank];
    info->mirrored = 1;
    info->handle = mapping->node->host_way.ops->kind;
    info->space = rank == mapping->node->rank && !is_host(card->kind)
                      ? WHARF_SPACE_DEVICE
                      : WHARF_SPACE_HOST;
    if (rank != mapping->node->rank)
        info->path = WHARF_PATH_HOST;
    if (e->forced[0])
        snprintf(info->reason, sizeof info->reason, "mirror: %.86s", e->forced);
    else
        snprintf(info->reason, sizeof info->reason, "mirror of %s%s",
                 wi_foreign_name((wi_foreign_kind)card->kind),
                 wi_foreign_direct((wi_foreign_kind)card->kind)
                     ? ", as the options want it"
                     : "");
}

void wi_existing_info(const wi_mapping *mapping, int rank,
                      wharf_buffer_info *info)
{
    const wharf_node *node = mapping->node;
    const wi_existing *e = mapping->existing;
    const wi_existing_card *card = &e->card[rank];
    info->existing = 1;
    info->same_address = 0;
    info->mapped_bytes = 0;
    for (int r = 0; r < node->size; r++)
        if (mapping->sizes[r] && (r != node->rank || e->card[r].mirrored))
            info->mapped_bytes += e->card[r].mirrored ? mapping->sizes[r]
                                                      : e->card[r].memory.whole;
    if (mapping->sizes[rank] == 0) {
        snprintf(info->reason, sizeof info->reason, "empty");
        return;
    }
    info->owner = rank;
    info->write_protected =
        (mapping->flags & WHARF_BUFFER_READ_ONLY) && rank != node->rank;
    if (card->mirrored)
        tell_mirror(mapping, rank, info);
    else
        tell_direct(card, info);
    info->chunks = card->mirrored ? 1 : (int)card->memory.pieces;
    info->chunk_bytes = card->mirrored ? mapping->sizes[rank] : card->largest;
}
