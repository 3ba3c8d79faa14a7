/* SPDX-License-Identifier: MIT */
/* What can be asked of an attached buffer: pointers, sizes, reasons. */
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/versioned.h"
#include "core/core.h"
#include "core/existing.h"
#include "core/mapping.h"
#include "core/visit.h"
#include "wharf/view.h"

wharf_status wi_buffer_local(const char *call, const wharf_buffer *buffer)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(buffer, WI_HANDLE_BUFFER, "buffer");
    if (status == WHARF_OK)
        wi_call_set_rank(buffer->node->rank);
    return status;
}

wharf_status wharf_buffer_segment(const wharf_buffer *buffer, int rank,
                                  void **pointer, size_t *size)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK)
        status = wi_node_check_rank(buffer->node, "rank", rank);
    if (status != WHARF_OK)
        return wi_call_end(status);
    if (pointer)
        *pointer = wi_mapping_segment(buffer->mapping, rank);
    if (size)
        *size = buffer->mapping->sizes[rank];
    return wi_call_end(WHARF_OK);
}

static wharf_status find_base(const wi_mapping *mapping, void **base,
                              size_t *size)
{
    if (mapping->existing && mapping->layout.blocks > 1)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "use wharf_buffer_segment for each rank",
                       "the segments are memory that %d ranks had before, "
                       "each at a place of its own",
                       mapping->layout.blocks);
    if (mapping->layout.blocks > 1 && !mapping->way->ops->ranges)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "use wharf_buffer_segment for each rank",
                       "the %d blocks came by legacy handles, which cannot be "
                       "mapped side by side",
                       mapping->layout.blocks);
    *base = mapping->layout.blocks ? mapping->pointer[0] : NULL;
    *size = mapping->layout.bytes;
    return WHARF_OK;
}

wharf_status wharf_buffer_base(const wharf_buffer *buffer, void **base,
                               size_t *size)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK && (!base || !size))
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "%s is NULL", base ? "size" : "base");
    if (status == WHARF_OK)
        status = find_base(buffer->mapping, base, size);
    return wi_call_end(status);
}

static uint64_t mapped_bytes(const wi_mapping *mapping)
{
    uint64_t bytes = 0;
    for (int b = 0; b < mapping->layout.blocks; b++)
        bytes += mapping->layout.block[b].bytes;
    return bytes;
}

static void fill_block(const wi_mapping *mapping, int block,
                       wharf_buffer_info *info)
{
    const wi_handle *handle = &mapping->handle[block];
    info->owner = mapping->layout.block[block].owner;
    info->chunk_bytes =
        handle->chunk_bytes ? handle->chunk_bytes : handle->bytes;
    if (info->chunk_bytes)
        info->chunks =
            (int)((handle->bytes + info->chunk_bytes - 1) / info->chunk_bytes);
    info->write_protected = wi_mapping_write_protected(mapping, block);
}

static wharf_status fill_info(const wharf_buffer *buffer, int rank,
                              wharf_buffer_info *info)
{
    const wharf_node *node = buffer->node;
    const wi_mapping *mapping = buffer->mapping;
    wharf_link link = {.struct_size = sizeof link};
    wharf_status status = wharf_node_link(node, node->rank, rank, &link);
    if (status != WHARF_OK)
        return status;

    wharf_buffer_info found = {
        .struct_size = sizeof found,
        .handle = mapping->way->ops->kind,
        .space = mapping->way->ops->space,
        .path = link.path,
        .owner = -1,
        .mapped_bytes = mapped_bytes(mapping),
        .same_address = mapping->same_address,
        .pooled = buffer->pooled,
    };
    if (found.space == WHARF_SPACE_HOST && rank != node->rank)
        found.path = WHARF_PATH_HOST;
    memcpy(found.reason, mapping->reason, sizeof found.reason);
    int block = mapping->layout.block_of_rank[rank];
    if (mapping->existing)
        wi_existing_info(mapping, rank, &found);
    else if (block >= 0)
        fill_block(mapping, block, &found);
    *info = found;
    return WHARF_OK;
}

wharf_status wharf_buffer_info_get(const wharf_buffer *buffer, int rank,
                                   wharf_buffer_info *info)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK)
        status = wi_node_check_rank(buffer->node, "rank", rank);
    wharf_buffer_info found;
    if (status == WHARF_OK)
        status = fill_info(buffer, rank, &found);
    if (status == WHARF_OK)
        status = wi_versioned_write(info, &found, sizeof found, "info");
    return wi_call_end(status);
}

wharf_status wi_table_make(wi_device *device, void *const *pointers, int count,
                           void **table)
{
    size_t bytes = (size_t)count * sizeof *pointers;
    void *made;
    wharf_status status = device->ops->local_alloc(device, bytes, &made);
    if (status != WHARF_OK)
        return status;
    status = device->ops->write(device, made, pointers, bytes);
    if (status != WHARF_OK) {
        device->ops->local_free(device, made);
        return status;
    }
    *table = made;
    return WHARF_OK;
}

static wharf_status make_table(wharf_buffer *buffer)
{
    wharf_node *node = buffer->node;
    void *pointers[WHARF_MAX_RANKS];
    for (int r = 0; r < node->size; r++)
        pointers[r] = wi_mapping_segment(buffer->mapping, r);
    void *table;
    wharf_status status =
        wi_table_make(node->device, pointers, node->size, &table);
    if (status == WHARF_OK)
        buffer->table = table;
    return status;
}

static wharf_status get_table(wharf_buffer *buffer, void *const **table)
{
    wharf_status status = WHARF_OK;
    pthread_mutex_lock(&buffer->lock);
    if (!buffer->table)
        status = make_table(buffer);
    if (status == WHARF_OK)
        *table = buffer->table;
    pthread_mutex_unlock(&buffer->lock);
    return status;
}

wharf_status wharf_buffer_pointer_table(wharf_buffer *buffer,
                                        void *const **table)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK && !table)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "table is NULL");
    if (status == WHARF_OK)
        status = get_table(buffer, table);
    return wi_call_end(status);
}

wharf_status wharf_buffer_view_get(wharf_buffer *buffer,
                                   wharf_segments_view *view)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK && !view)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "view is NULL");
    if (status == WHARF_OK && buffer->node->backend == WHARF_BACKEND_HOST)
        status = wi_fail(WHARF_EUNSUPPORTED, "use wharf_buffer_segment",
                         "the host backend has no kernels");
    void *const *table;
    if (status == WHARF_OK)
        status = get_table(buffer, &table);
    if (status != WHARF_OK)
        return wi_call_end(status);
    *view = (wharf_segments_view){
        .segments = table,
        .ranks = buffer->node->size,
        .rank = buffer->node->rank,
    };
    return wi_call_end(WHARF_OK);
}

wharf_status wharf_buffer_event(const wharf_buffer *buffer, int rank,
                                wharf_event **event)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK)
        status = wi_node_check_rank(buffer->node, "rank", rank);
    if (status == WHARF_OK && !event)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "event is NULL");
    if (status == WHARF_OK)
        status = wi_visit_refuse(buffer->node, "events");
    if (status == WHARF_OK)
        *event = &buffer->mapping->events[rank];
    return wi_call_end(status);
}

wharf_status wharf_buffer_granularity(const wharf_node *node, wharf_space space,
                                      size_t *bytes)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK && !bytes)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "bytes is NULL");
    if (status == WHARF_OK && space != WHARF_SPACE_DEVICE &&
        space != WHARF_SPACE_HOST)
        status =
            wi_fail(WHARF_EARG, "use WHARF_SPACE_DEVICE or WHARF_SPACE_HOST",
                    "space is %d", (int)space);
    if (status != WHARF_OK)
        return wi_call_end(status);
    const wi_way *way =
        space == WHARF_SPACE_HOST
            ? node->host_driver.ops ? &node->host_driver : &node->host_way
            : &node->device_way[node->device_first];
    if (!way->ops)
        return wi_call_end(
            wi_fail(WHARF_EUNSUPPORTED, "see wharf-info for what is possible",
                    "no memory of this space can be shared: %s", way->reason));
    *bytes = way->granularity;
    return wi_call_end(status);
}

const char *wharf_handle_kind_name(wharf_handle_kind kind)
{
    switch (kind) {
    case WHARF_HANDLE_MEMFD:
        return "memfd";
    case WHARF_HANDLE_VMM:
        return "vmm";
    case WHARF_HANDLE_IPC:
        return "ipc";
    case WHARF_HANDLE_POOL:
        return "pool";
    case WHARF_HANDLE_HOST_VMM:
        return "host-vmm";
    case WHARF_HANDLE_FABRIC:
        return "fabric";
    }
    return "unknown";
}
