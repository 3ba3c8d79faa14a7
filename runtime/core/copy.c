/* SPDX-License-Identifier: MIT */
/* Put and get: checks, then one copy by the way that copy_way.c chooses. */
#include "wharf/copy.h"

#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/product.h"
#include "core/copy_way.h"
#include "core/existing.h"
#include "core/mapping.h"
#include "core/notify.h"
#include "core/signal.h"

/* ---- Opening
 * --------------------------------------------------------------------- */

wharf_status wi_copy_open(wharf_node *node)
{
    return node->device->ops->copy->prepare(
        node->device, (uint32_t)node->settings.copy_blocks,
        &node->copy_kernels);
}

/* ---- Checks
 * ---------------------------------------------------------------------- */

/* A copy after all checks. */
typedef struct copy_job {
    wi_copy_box box; /* addresses filled in */
    wi_copy_facts facts;
} copy_job;

/* Pitches that were left out are packed. */
static wharf_status box_read(const wharf_box *box, wi_copy_box *b)
{
    if (!box)
        return wi_fail(WHARF_EARG, "start from WHARF_BOX_INIT", "box is NULL");
    *b = (wi_copy_box){
        .width = box->width,
        .rows = box->rows,
        .planes = box->planes,
        .from_pitch = box->from_pitch ? box->from_pitch : box->width,
        .to_pitch = box->to_pitch ? box->to_pitch : box->width,
        .from_plane = box->from_plane,
        .to_plane = box->to_plane,
    };
    bool small =
        box->planes <= 1 ||
        ((b->from_plane ||
          wi_product(b->rows, b->from_pitch, &b->from_plane)) &&
         (b->to_plane || wi_product(b->rows, b->to_pitch, &b->to_plane)));
    if (!small)
        return wi_fail(WHARF_EARG, "pass sizes in bytes",
                       "a plane of %zu rows of %zu bytes is beyond 2^62 bytes",
                       box->rows, box->width);
    return wi_copy_box_check(b);
}

static wharf_status check_range(const wharf_buffer *buffer, int rank,
                                size_t offset, uint64_t span)
{
    uint64_t size = buffer->mapping->sizes[rank];
    if (offset <= size && span <= size - offset)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "stay within the segment",
                   "%llu bytes from offset %zu on do not lie in the segment of "
                   "rank %d, which has %llu",
                   (unsigned long long)span, offset, rank,
                   (unsigned long long)size);
}

static wharf_status check_writable(const wharf_buffer *buffer, int rank)
{
    const wharf_node *node = buffer->node;
    if (!(buffer->mapping->flags & WHARF_BUFFER_READ_ONLY) ||
        rank == node->rank)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "let the segment's rank copy it",
                   "the buffer was attached with WHARF_BUFFER_READ_ONLY, and "
                   "rank %d would write the segment of rank %d",
                   node->rank, rank);
}

static wharf_status check_other(const void *other, uint64_t span,
                                const char *name)
{
    uint64_t at = (uint64_t)other, end;
    if (span == 0)
        return WHARF_OK;
    if (!other)
        return wi_fail(WHARF_EARG, "pass memory", "%s is NULL", name);
    if (__builtin_add_overflow(at, span, &end))
        return wi_fail(WHARF_EARG, "pass memory",
                       "%llu bytes from %p on go beyond the address space",
                       (unsigned long long)span, other);
    return WHARF_OK;
}

static wharf_status check_apart(const wi_copy_box *b)
{
    if (!wi_copy_box_overlaps(b))
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "copy by way of other memory",
                   "source %p and destination %p overlap, %llu and %llu bytes "
                   "long",
                   b->from, b->to, (unsigned long long)wi_copy_box_from_span(b),
                   (unsigned long long)wi_copy_box_to_span(b));
}

/* ---- Places
 * ---------------------------------------------------------------------- */

static wi_copy_place block_place(const wi_mapping *mapping, int block)
{
    const wharf_node *node = mapping->node;
    if (node->backend == WHARF_BACKEND_HOST)
        return WI_COPY_PLACE_CPU;
    if (mapping->existing)
        return wi_existing_place(mapping, block);
    if (mapping->way->ops->space == WHARF_SPACE_HOST)
        return WI_COPY_PLACE_HOST;
    int owner = mapping->layout.block[block].owner;
    return node->gpu_of_rank[owner] == node->gpu_of_rank[node->rank]
               ? WI_COPY_PLACE_DEVICE
               : WI_COPY_PLACE_PEER;
}

/* The block of a mapping that holds an address, or -1. */
static int block_at(const wi_mapping *mapping, const void *pointer)
{
    uint64_t at = (uint64_t)pointer;
    for (int b = 0; b < mapping->layout.blocks; b++) {
        uint64_t start = (uint64_t)mapping->pointer[b];
        if (at >= start && at - start < mapping->layout.block[b].bytes)
            return b;
    }
    return -1;
}

/* Other memory: of the same buffer, as is often so, or of anybody. */
static wharf_status other_look(const wharf_buffer *buffer, const void *other,
                               wi_copy_memory *memory)
{
    const wi_mapping *mapping = buffer->mapping;
    wi_device *device = buffer->node->device;
    int block = block_at(mapping, other);
    if (block < 0)
        return device->ops->copy->look(device, other, memory);
    *memory = (wi_copy_memory){
        .place = block_place(mapping, block),
        .read_only = wi_mapping_write_protected(mapping, block),
    };
    return WHARF_OK;
}

static wharf_status find_places(const wharf_buffer *buffer, int rank,
                                const void *other, bool put,
                                wi_copy_facts *facts)
{
    wi_copy_memory memory;
    int block = buffer->mapping->layout.block_of_rank[rank];
    wi_copy_place segment = block_place(buffer->mapping, block);
    wharf_status status = other_look(buffer, other, &memory);
    if (status != WHARF_OK)
        return status;
    if (!put && memory.read_only)
        return wi_fail(WHARF_EARG, "pass memory that this rank may write",
                       "the destination %p may only be read here", other);
    facts->to = put ? segment : memory.place;
    facts->from = put ? memory.place : segment;
    return WHARF_OK;
}

static void set_sides(wi_copy_box *b, void *segment, const void *other,
                      bool put)
{
    b->to = put ? segment : (void *)(uintptr_t)other;
    b->from = put ? other : segment;
}

/* Checks a copy between a rank's segment at offset and other memory, and finds
 * its facts. put: the segment is the destination. */
static wharf_status job_find(const wharf_buffer *buffer, int rank,
                             size_t offset, const void *other,
                             const wharf_box *box, bool put, bool notify,
                             copy_job *job)
{
    wi_copy_box *b = &job->box;
    wharf_status status = box_read(box, b);
    if (status == WHARF_OK)
        status = wi_node_check_rank(buffer->node, "rank", rank);
    if (status != WHARF_OK)
        return status;
    uint64_t to = wi_copy_box_to_span(b), from = wi_copy_box_from_span(b);
    status = check_range(buffer, rank, offset, put ? to : from);
    if (status == WHARF_OK && put)
        status = check_writable(buffer, rank);
    if (status == WHARF_OK)
        status = check_other(other, put ? from : to, put ? "from" : "to");
    if (status != WHARF_OK)
        return status;
    wi_copy_facts_find(buffer->node, notify, &job->facts);
    if (wi_copy_box_bytes(b) == 0) {
        *b = wi_copy_box_simple(b);
        return WHARF_OK;
    }
    char *segment = wi_mapping_segment(buffer->mapping, rank);
    set_sides(b, segment + offset, other, put);
    status = check_apart(b);
    if (status == WHARF_OK)
        status = find_places(buffer, rank, other, put, &job->facts);
    *b = wi_copy_box_simple(b);
    return status;
}

/*
 * The driver stages pageable memory at the time of the call, after all that the
 * stream has to do: nothing to be captured. And it waits without a bound, so if
 * the stream may be waiting for another rank, that is waited for here.
 */
static wharf_status check_pageable(const wharf_node *node, const copy_job *job,
                                   wharf_stream stream)
{
    wi_device *device = node->device;
    bool capturing;
    if (job->facts.to != WI_COPY_PLACE_PAGEABLE &&
        job->facts.from != WI_COPY_PLACE_PAGEABLE)
        return WHARF_OK;
    wharf_status status = device->ops->capturing(device, stream, &capturing);
    if (status == WHARF_OK && !capturing && wi_stream_may_wait(node))
        return wi_stream_hold(node, stream, wi_node_deadline(node));
    if (status != WHARF_OK || !capturing)
        return status;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "page-lock the memory, or copy outside of the capture",
                   "the stream is being captured, and one side of the copy is "
                   "pageable memory");
}

/* ---- Copies
 * ---------------------------------------------------------------------- */

static wharf_status run(const wharf_node *node, wharf_stream stream,
                        const wi_copy_box *box, wharf_copy_way way)
{
    wi_device *device = node->device;
    switch (way) {
    case WHARF_COPY_ENGINE:
        return device->ops->copy->copy(device, stream, WI_COPY_BY_ENGINE, box);
    case WHARF_COPY_KERNEL:
        return device->ops->copy->copy(device, stream, WI_COPY_BY_KERNEL, box);
    case WHARF_COPY_HOST:
        return device->ops->copy->copy(device, stream, WI_COPY_BY_CPU, box);
    case WHARF_COPY_NOTHING:
        break;
    }
    return WHARF_OK;
}

static wharf_status plain_copy(const char *call, wharf_buffer *buffer, int rank,
                               size_t offset, const void *other,
                               const wharf_box *box, bool put,
                               wharf_stream stream)
{
    copy_job job;
    wharf_status status = wi_buffer_local(call, buffer);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_node *node = buffer->node;
    status = job_find(buffer, rank, offset, other, box, put, false, &job);
    if (status == WHARF_OK)
        status = node->device->ops->check_stream(node->device, stream);
    if (status == WHARF_OK)
        status = check_pageable(node, &job, stream);
    if (status == WHARF_OK)
        status = run(node, stream, &job.box,
                     wi_copy_choose(&job.facts, &job.box, NULL));
    return wi_call_end(status);
}

static wharf_box line(size_t bytes)
{
    return (wharf_box){.width = bytes, .rows = 1, .planes = 1};
}

wharf_status wharf_put(wharf_buffer *buffer, int rank, size_t offset,
                       const void *from, size_t bytes, wharf_stream stream)
{
    wharf_box box = line(bytes);
    return plain_copy(__func__, buffer, rank, offset, from, &box, true, stream);
}

wharf_status wharf_get(wharf_buffer *buffer, int rank, size_t offset, void *to,
                       size_t bytes, wharf_stream stream)
{
    wharf_box box = line(bytes);
    return plain_copy(__func__, buffer, rank, offset, to, &box, false, stream);
}

wharf_status wharf_put_box(wharf_buffer *buffer, int rank, size_t offset,
                           const void *from, const wharf_box *box,
                           wharf_stream stream)
{
    return plain_copy(__func__, buffer, rank, offset, from, box, true, stream);
}

wharf_status wharf_get_box(wharf_buffer *buffer, int rank, size_t offset,
                           void *to, const wharf_box *box, wharf_stream stream)
{
    return plain_copy(__func__, buffer, rank, offset, to, box, false, stream);
}

/* ---- Copies with a notify
 * -------------------------------------------------------- */

static wharf_status check_notify(const wharf_buffer *buffer,
                                 const wharf_notify *notify)
{
    wharf_status status = wi_handle_check(notify, WI_HANDLE_NOTIFY, "notify");
    if (status == WHARF_OK && notify->node != buffer->node)
        status = wi_fail(WHARF_EARG, "pass a notify of the buffer's node",
                         "buffer and notify belong to different nodes");
    return status;
}

/* Any mechanism's wait can be signalled by a kernel: its signal is an addition
 * or a write to the waiter's word. */
static wharf_status signal_by_kernel(wharf_notify *notify, wharf_stream stream,
                                     const wi_copy_box *box)
{
    wi_device *device = notify->node->device;
    wi_sync_step step;
    wi_notify_signal_begin(notify, &step);
    wharf_status status = device->ops->copy->copy_signal(device, stream, box,
                                                         &step, notify->ticket);
    wi_notify_signal_end(notify, status == WHARF_OK);
    return status;
}

static wharf_status copy_and_record(const copy_job *job, wharf_notify *notify,
                                    wharf_stream stream)
{
    wharf_copy_way way = wi_copy_choose(&job->facts, &job->box, NULL);
    if (way == WHARF_COPY_KERNEL && notify->ticket)
        return signal_by_kernel(notify, stream, &job->box);
    wharf_status status = run(notify->node, stream, &job->box, way);
    return status == WHARF_OK ? wi_notify_record_now(notify, stream) : status;
}

static wharf_status put_notify(const char *call, wharf_buffer *buffer, int rank,
                               size_t offset, const void *from,
                               const wharf_box *box, wharf_notify *notify,
                               wharf_stream stream)
{
    copy_job job;
    wharf_status status = wi_buffer_local(call, buffer);
    if (status == WHARF_OK)
        status = check_notify(buffer, notify);
    if (status == WHARF_OK)
        status = job_find(buffer, rank, offset, from, box, true, true, &job);
    if (status == WHARF_OK)
        status = wi_notify_record_check(notify, stream);
    if (status == WHARF_OK)
        status = check_pageable(buffer->node, &job, stream);
    if (status == WHARF_OK)
        status = copy_and_record(&job, notify, stream);
    return wi_call_end(status);
}

wharf_status wharf_put_notify(wharf_buffer *buffer, int rank, size_t offset,
                              const void *from, size_t bytes,
                              wharf_notify *notify, wharf_stream stream)
{
    wharf_box box = line(bytes);
    return put_notify(__func__, buffer, rank, offset, from, &box, notify,
                      stream);
}

wharf_status wharf_put_box_notify(wharf_buffer *buffer, int rank, size_t offset,
                                  const void *from, const wharf_box *box,
                                  wharf_notify *notify, wharf_stream stream)
{
    return put_notify(__func__, buffer, rank, offset, from, box, notify,
                      stream);
}

/* ---- Which way
 * ------------------------------------------------------------------- */

wharf_status wharf_copy_way_find(const wharf_buffer *buffer,
                                 wharf_copy_call call, int rank, size_t offset,
                                 const void *other, const wharf_box *box,
                                 wharf_copy_way *way, char *reason)
{
    copy_job job;
    char why[96];
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK && ((int)call < 0 || call > WHARF_COPY_PUT_NOTIFY))
        status =
            wi_fail(WHARF_EARG, "see wharf_copy_call", "call is %d", (int)call);
    if (status == WHARF_OK && !way)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "way is NULL");
    if (status == WHARF_OK)
        status =
            job_find(buffer, rank, offset, other, box, call != WHARF_COPY_GET,
                     call == WHARF_COPY_PUT_NOTIFY, &job);
    if (status != WHARF_OK)
        return wi_call_end(status);
    *way = wi_copy_choose(&job.facts, &job.box, why);
    if (reason)
        memcpy(reason, why, sizeof why);
    return wi_call_end(WHARF_OK);
}
