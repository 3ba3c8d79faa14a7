/* SPDX-License-Identifier: MIT */
/* A buffer in a guest: its description checked, its blocks imported and mapped
 * where the lender has them. */
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/mapping.h"
#include "core/visit_wire.h"

/* Flags that mean something in a guest. */
#define FLAGS_TAKEN UINT32_C(0x3fffffff)

/* ---- Checks -------------------------------------------------------------- */

static const wi_way *way_of(wharf_node *node, const wi_wire_buffer *in)
{
    return wi_visit_way(node, (wharf_handle_kind)in->kind);
}

static wharf_status check_buffer(wharf_node *node, const wi_wire_buffer *in)
{
    if (in->kind > WHARF_HANDLE_FABRIC || in->kind == WHARF_HANDLE_POOL)
        return wi_visit_nonsense("kind of handle", in->kind);
    if (in->space > WHARF_SPACE_HOST)
        return wi_visit_nonsense("space", in->space);
    if (in->blocks < 0 || in->blocks > node->size)
        return wi_visit_nonsense("blocks", in->blocks);
    if (in->bytes > WI_LAYOUT_MOST || (in->blocks == 0) != (in->bytes == 0))
        return wi_visit_nonsense("bytes of a buffer", (long long)in->bytes);
    if (in->kind != WHARF_HANDLE_IPC && in->blocks > 0 && !in->base)
        return wi_visit_nonsense("blocks without an address", in->blocks);
    if (way_of(node, in))
        return WHARF_OK;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "run this process where it sees the lender's GPU",
                   "a buffer of %s memory was offered, which this process "
                   "cannot map",
                   wharf_handle_kind_name((wharf_handle_kind)in->kind));
}

static wharf_status check_block(const wharf_node *node, const wi_mapping *m,
                                const wi_wire_block *in, size_t from)
{
    size_t unit = m->way->granularity;
    if (in->owner < 0 || in->owner >= node->size)
        return wi_visit_nonsense("owner of a block", in->owner);
    if (in->place < 0 || in->place >= (node->gpus > 0 ? node->gpus : 1))
        return wi_visit_nonsense("place of a block", in->place);
    if (in->sole_rank < -1 || in->sole_rank >= node->size)
        return wi_visit_nonsense("rank of a block", in->sole_rank);
    if (in->bytes == 0 || in->bytes > m->layout.bytes ||
        in->handle.bytes != in->bytes)
        return wi_visit_nonsense("bytes of a block", (long long)in->bytes);
    if (in->offset < from || in->offset > m->layout.bytes - in->bytes)
        return wi_visit_nonsense("offset of a block", (long long)in->offset);
    if (m->way->ops->ranges && (in->offset % unit || in->bytes % unit))
        return wi_visit_nonsense("unaligned block at", (long long)in->offset);
    if (in->handle.kind != (uint32_t)m->way->ops->kind ||
        in->handle.fds > WI_BLOCK_CHUNKS)
        return wi_visit_nonsense("descriptors of a block", in->handle.fds);
    return WHARF_OK;
}

static wharf_status check_segments(const wi_mapping *m)
{
    const wi_layout *l = &m->layout;
    for (int r = 0; r < m->node->size; r++) {
        int b = l->block_of_rank[r];
        if (b < -1 || b >= l->blocks)
            return wi_visit_nonsense("block of a segment", b);
        if (b < 0 && m->sizes[r] == 0)
            continue;
        if (b < 0 || m->sizes[r] > l->block[b].bytes ||
            l->offset_of_rank[r] < l->block[b].offset ||
            l->offset_of_rank[r] - l->block[b].offset >
                l->block[b].bytes - m->sizes[r])
            return wi_visit_nonsense("bytes of a segment",
                                     (long long)m->sizes[r]);
    }
    return WHARF_OK;
}

/* ---- Objects ------------------------------------------------------------- */

static void mapping_drop(wi_mapping *m)
{
    if (!m)
        return;
    for (int b = 0; m->block && b < m->layout.blocks; b++)
        if (m->block[b])
            m->way->ops->destroy(m->node->device, m->block[b]);
    if (m->range.base)
        m->way->ops->unreserve(m->node->device, &m->range);
    wi_mapping_delete(m);
}

static wharf_status mapping_new(wharf_node *node, const wi_wire_buffer *in,
                                bool read_only, wi_mapping **out)
{
    wi_mapping *m;
    size_t ranks = (size_t)node->size, blocks = (size_t)in->blocks;
    if (!WI_NEW(m))
        return WHARF_ENOMEM;
    m->node = node;
    m->way = way_of(node, in);
    m->space = (wharf_space)in->space;
    m->flags = in->flags & FLAGS_TAKEN;
    if (read_only || in->read_only)
        m->flags |= WI_MAPPING_FOR_READING;
    m->first_slot = -1;
    memcpy(m->reason, in->reason, sizeof m->reason);
    m->reason[sizeof m->reason - 1] = '\0';
    m->layout.bytes = in->bytes;
    m->sizes = wi_calloc(ranks, sizeof *m->sizes);
    m->layout.block_of_rank = wi_calloc(ranks, sizeof(int));
    m->layout.offset_of_rank = wi_calloc(ranks, sizeof(size_t));
    m->layout.block = wi_calloc(blocks, sizeof *m->layout.block);
    m->block = wi_calloc(blocks, sizeof(wi_block *));
    m->handle = wi_calloc(blocks, sizeof *m->handle);
    m->pointer = wi_calloc(blocks, sizeof *m->pointer);
    if (!m->sizes || !m->layout.block_of_rank || !m->layout.offset_of_rank ||
        !m->layout.block || !m->block || !m->handle || !m->pointer) {
        mapping_drop(m);
        return WHARF_ENOMEM;
    }
    m->layout.blocks = in->blocks;
    *out = m;
    return WHARF_OK;
}

static wharf_status read_segments(wi_bundle_cursor *cursor, wi_mapping *m)
{
    size_t ranks = (size_t)m->node->size;
    uint64_t offsets[WHARF_MAX_RANKS];
    int32_t blocks[WHARF_MAX_RANKS];
    wharf_status status =
        wi_bundle_take(cursor, m->sizes, sizeof *m->sizes, ranks);
    if (status == WHARF_OK)
        status = wi_bundle_take(cursor, offsets, sizeof *offsets, ranks);
    if (status == WHARF_OK)
        status = wi_bundle_take(cursor, blocks, sizeof *blocks, ranks);
    for (size_t r = 0; r < ranks && status == WHARF_OK; r++) {
        /* cppcheck-suppress uninitvar ; taken above, or status is not OK */
        m->layout.offset_of_rank[r] = offsets[r];
        m->layout.block_of_rank[r] = blocks[r];
    }
    return status;
}

/* Imports a block; its descriptors are the block's from then on. */
static wharf_status take_block(wi_bundle_cursor *cursor, wi_mapping *m, int b,
                               const wi_wire_block *in)
{
    int fds[WI_BLOCK_CHUNKS];
    int count = (int)in->handle.fds;
    if (count > cursor->bundle->count - cursor->fd)
        return wi_visit_nonsense("descriptors missing of", count);
    for (int i = 0; i < count; i++) {
        fds[i] = cursor->bundle->fds[cursor->fd];
        cursor->bundle->fds[cursor->fd++] = -1;
    }
    m->handle[b] = in->handle;
    return m->way->ops->import(m->node->device, &in->handle, fds, &m->block[b]);
}

static wharf_status read_blocks(wi_bundle_cursor *cursor, wi_mapping *m)
{
    wharf_status status = WHARF_OK;
    size_t from = 0;
    for (int b = 0; b < m->layout.blocks && status == WHARF_OK; b++) {
        wi_wire_block in;
        status = wi_bundle_take(cursor, &in, sizeof in, 1);
        if (status == WHARF_OK)
            status = check_block(m->node, m, &in, from);
        if (status != WHARF_OK)
            break;
        m->layout.block[b] = (wi_layout_block){
            .owner = in.owner,
            .place = in.place,
            .sole_rank = in.sole_rank,
            .offset = in.offset,
            .bytes = in.bytes,
        };
        from = in.offset + in.bytes;
        status = take_block(cursor, m, b, &in);
    }
    return status == WHARF_OK ? check_segments(m) : status;
}

/* ---- Mapping ------------------------------------------------------------- */

static wharf_status reserve(wi_mapping *m, const wi_wire_buffer *in)
{
    const wi_memory_ops *ops = m->way->ops;
    wi_device *device = m->node->device;
    void *wish = (void *)(uintptr_t)in->base;
    if (m->layout.bytes == 0 || !ops->ranges) {
        m->same_address = m->layout.bytes == 0;
        return WHARF_OK;
    }
    wharf_status status =
        ops->reserve(device, wish, m->layout.bytes, &m->range);
    if (status == WHARF_OK) {
        m->same_address = in->same_address != 0;
        return WHARF_OK;
    }
    wi_log(WI_LOG_INFO,
           "buffer \"%.31s\" is mapped elsewhere than at the lender: %s",
           in->name, wi_error_record()->cause);
    return ops->reserve(device, NULL, m->layout.bytes, &m->range);
}

static wharf_status map_blocks(wi_mapping *m)
{
    wharf_status status = WHARF_OK;
    for (int b = 0; b < m->layout.blocks && status == WHARF_OK; b++)
        status = m->way->ops->map(
            m->node->device, m->block[b], &m->range, m->layout.block[b].offset,
            wi_mapping_write_protected(m, b) ? WI_ACCESS_READ
                                             : WI_ACCESS_READ_WRITE,
            &m->pointer[b]);
    return status;
}

static wharf_status buffer_new(wharf_node *node, wi_mapping *m,
                               const wi_wire_buffer *in, wharf_buffer **out)
{
    wharf_buffer *buffer;
    if (!WI_NEW(buffer))
        return WHARF_ENOMEM;
    wharf_status status = wi_handle_add(buffer, WI_HANDLE_BUFFER);
    if (status != WHARF_OK) {
        wi_free(buffer);
        return status;
    }
    pthread_mutex_init(&buffer->lock, NULL);
    buffer->node = node;
    buffer->serial = in->serial;
    buffer->mapping = m;
    buffer->pooled = in->pooled != 0;
    memcpy(buffer->name, in->name, sizeof buffer->name);
    buffer->name[sizeof buffer->name - 1] = '\0';
    buffer->next = node->buffers;
    node->buffers = buffer;
    node->buffer_count++;
    wi_stat_add(WI_STAT_live_buffers, 1);
    *out = buffer;
    return WHARF_OK;
}

wharf_status wi_visit_read_buffer(wi_bundle_cursor *cursor, wharf_node *node,
                                  bool read_only, wharf_buffer **buffer)
{
    wi_wire_buffer in;
    wi_mapping *m = NULL;
    wharf_status status = wi_bundle_take(cursor, &in, sizeof in, 1);
    if (status == WHARF_OK) {
        in.name[sizeof in.name - 1] = '\0';
        status = check_buffer(node, &in);
    }
    if (status == WHARF_OK)
        status = mapping_new(node, &in, read_only, &m);
    if (status == WHARF_OK)
        status = read_segments(cursor, m);
    if (status == WHARF_OK)
        status = read_blocks(cursor, m);
    if (status == WHARF_OK)
        status = reserve(m, &in);
    if (status == WHARF_OK)
        status = map_blocks(m);
    if (status == WHARF_OK)
        status = buffer_new(node, m, &in, buffer);
    if (status != WHARF_OK)
        mapping_drop(m);
    return status;
}

void wi_visit_drop_buffer(wharf_buffer *buffer)
{
    wi_mapping *m = buffer->mapping;
    wi_buffer_discard(buffer);
    mapping_drop(m);
}
