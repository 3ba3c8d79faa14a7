/* SPDX-License-Identifier: MIT */
/*
 * Moving data: put into and get from a rank's segment, in one piece or in rows
 * and planes, with or without a notify behind it.
 *
 *   // rank 0                                    // rank 1, the waiter
 *   wharf_put_notify(buffer, 1, 0, data, bytes,  wharf_notify_wait(notify, 0,
 *                    notify, stream);                              stream, 0);
 *                                                use<<<..., stream>>>(mine);
 *
 * All calls are stream-ordered: the copy starts when the stream's earlier work
 * is complete, the stream's later work starts when the copy is (a kernel that
 * is launched with programmatic stream serialization waits for it itself, as
 * for any kernel: cudaGridDependencySynchronize). All may be captured into
 * graphs, those of put_notify if the notify may (see
 * wharf_notify_options.capturable). On the host backend there is no stream:
 * pass NULL, and the copy is done on return.
 *
 * The other side, `from` of a put and `to` of a get, may be any memory: a
 * segment, memory of cudaMalloc, page-locked or mapped host memory. Plain
 * pageable memory is found and copied by the copy engine, staged by the driver:
 * the call then holds until that memory is done with, which is after all
 * earlier work of the stream (WHARF_ETIMEDOUT, WHARF_EPEER: that work waits for
 * a rank which did not come by the node's deadline, or is dead; nothing was
 * copied), and cannot be captured.
 *
 * A copy goes one of three ways, chosen by size, shape and place from measured
 * limits (wharf_copy_way_find says which, and why):
 *
 *   engine  the GPU's copy engines: large pieces, pageable memory, memory that
 *           kernels do not reach
 *   kernel  a kernel of the library: small pieces, narrow rows, and a put with
 *           a notify, which then is one launch
 *   host    the CPU; the host backend
 *
 * WHARF_COPY=engine or kernel overrides the choice where both are possible,
 * WHARF_COPY_KERNEL_MOST the size up to which a kernel copies.
 */
#ifndef WHARF_COPY_H
#define WHARF_COPY_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/notify.h"
#include "wharf/status.h"

/*
 * A box of bytes: `rows` rows of `width` bytes in each of `planes` planes. The
 * pitches are the distances in bytes from a row, or a plane, to the next in
 * the source and in the destination. 0 stands for packed: a row of the width, a
 * plane of its rows. Start from WHARF_BOX_INIT, which is one row of 0 bytes.
 */
typedef struct wharf_box {
    size_t width;  /* bytes of a row */
    size_t rows;   /* of a plane */
    size_t planes; /* 1: two dimensions */
    size_t from_pitch, from_plane;
    size_t to_pitch, to_plane;
} wharf_box;

#define WHARF_BOX_INIT                                                         \
    {                                                                          \
        0, 1, 1, 0, 0, 0, 0                                                    \
    }

/* How a copy is done. */
typedef enum wharf_copy_way {
    WHARF_COPY_NOTHING = 0, /* no bytes to copy */
    WHARF_COPY_ENGINE = 1,
    WHARF_COPY_KERNEL = 2,
    WHARF_COPY_HOST = 3
} wharf_copy_way;

/* What is to be done, for wharf_copy_way_find. */
typedef enum wharf_copy_call {
    WHARF_COPY_PUT = 0,
    WHARF_COPY_GET = 1,
    WHARF_COPY_PUT_NOTIFY = 2
} wharf_copy_call;

/* Between what a copy goes, for wharf_copy_kernel_most. */
typedef enum wharf_copy_between {
    WHARF_COPY_ONE_GPU = 0,  /* within the caller's GPU */
    WHARF_COPY_TWO_GPUS = 1, /* to or from another GPU */
    WHARF_COPY_WITH_HOST = 2 /* host memory on one side, or both */
} wharf_copy_between;

WHARF_BEGIN_DECLS

/**
 * Copies into a rank's segment.
 *
 * Local, any thread. When another rank may read what was put is for the caller
 * to say: by a notify, an event or a barrier later in the stream.
 *
 * @param buffer an attached buffer
 * @param rank   whose segment, 0 .. node size - 1, the caller's own included
 * @param offset bytes from the start of the segment
 * @param from   the source; must not overlap the destination
 * @param bytes  any size, 0 does nothing; offset + bytes within the segment
 * @param stream a stream of the caller's GPU, NULL for its default stream; may
 *               be capturing. NULL on the host backend
 * @return WHARF_OK (enqueued; on the host backend done); WHARF_EARG (a bad
 *         rank, range, pointer or stream, overlap, a segment that the caller
 *         may only read); WHARF_ESTATE (detached); WHARF_EUNSUPPORTED
 *         (capturing, and the source is pageable memory); WHARF_ELIMIT (a
 *         kernel would copy it in 2^31 pieces or more);
 *         WHARF_ETIMEDOUT, WHARF_EPEER (pageable memory, see above);
 *         WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_put(wharf_buffer *buffer, int rank,
                                                 size_t offset,
                                                 const void *from, size_t bytes,
                                                 wharf_stream stream);

/**
 * Copies out of a rank's segment.
 *
 * Local, any thread.
 *
 * @param buffer an attached buffer
 * @param rank   whose segment, 0 .. node size - 1, the caller's own included
 * @param offset bytes from the start of the segment
 * @param to     the destination; must not overlap the source
 * @param bytes  any size, 0 does nothing; offset + bytes within the segment
 * @param stream as for wharf_put
 * @return as wharf_put (the destination may only be read: WHARF_EARG)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_get(wharf_buffer *buffer, int rank,
                                                 size_t offset, void *to,
                                                 size_t bytes,
                                                 wharf_stream stream);

/**
 * Copies a box into a rank's segment: the destination's first byte lies at
 * offset.
 *
 * Local, any thread. Rows must not overlap one another on either side, nor
 * source and destination each other: checked byte by byte where both have the
 * same pitches (so two columns of one array are fine), by the ranges that they
 * span where they differ.
 *
 * @param buffer an attached buffer
 * @param rank, offset, from as for wharf_put
 * @param box its to_ pitches are the segment's
 * @param stream as for wharf_put
 * @return as wharf_put (WHARF_EARG: a pitch too small for what lies in it)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_put_box(wharf_buffer *buffer,
                                                     int rank, size_t offset,
                                                     const void *from,
                                                     const wharf_box *box,
                                                     wharf_stream stream);

/**
 * Copies a box out of a rank's segment: the source's first byte lies at offset.
 *
 * Local, any thread. As wharf_put_box.
 *
 * @param buffer an attached buffer
 * @param rank, offset, to as for wharf_get
 * @param box its from_ pitches are the segment's
 * @param stream as for wharf_get
 * @return as wharf_put_box
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_get_box(wharf_buffer *buffer,
                                                     int rank, size_t offset,
                                                     void *to,
                                                     const wharf_box *box,
                                                     wharf_stream stream);

/**
 * Copies into a rank's segment, then records on a notify. The data is visible,
 * at system scope, to whoever passed the matching wait.
 *
 * Local to any rank but the notify's waiter, any thread; ordered with the
 * rank's other records on the notify, as wharf_notify_record says. 0 bytes
 * only record.
 *
 * @param buffer an attached buffer
 * @param rank   whose segment; need not be the waiter's
 * @param offset, from, bytes as for wharf_put
 * @param notify of the same node
 * @param stream as for wharf_put
 * @return as wharf_put and wharf_notify_record; if the record fails after the
 *         copy was enqueued, the copy stays
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_put_notify(
    wharf_buffer *buffer, int rank, size_t offset, const void *from,
    size_t bytes, wharf_notify *notify, wharf_stream stream);

/**
 * Copies a box into a rank's segment, then records on a notify.
 *
 * Local to any rank but the notify's waiter, any thread. As wharf_put_box and
 * wharf_put_notify.
 *
 * @param buffer an attached buffer
 * @param rank, offset, from as for wharf_put_box
 * @param box its to_ pitches are the segment's
 * @param notify, stream as for wharf_put_notify
 * @return as wharf_put_notify
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_put_box_notify(
    wharf_buffer *buffer, int rank, size_t offset, const void *from,
    const wharf_box *box, wharf_notify *notify, wharf_stream stream);

/**
 * Which way a copy would go.
 *
 * Local, any thread. Enqueues nothing. Arguments as of the call that is asked
 * about.
 *
 * @param buffer an attached buffer
 * @param call   which call
 * @param rank   whose segment
 * @param offset bytes from the start of the segment
 * @param other  the memory on the other side
 * @param box    the shape
 * @param[out] way the way
 * @param[out] reason why, WHARF_MAX_REASON + 1 bytes; the argument may be NULL
 * @return WHARF_OK; what the call would refuse; WHARF_ESTATE; WHARF_EDRIVER;
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_copy_way_find(
    const wharf_buffer *buffer, wharf_copy_call call, int rank, size_t offset,
    const void *other, const wharf_box *box, wharf_copy_way *way, char *reason);

/**
 * The name of a way, such as "engine".
 *
 * Local, any thread.
 *
 * @param way any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_copy_way_name(wharf_copy_way way);

/**
 * The size up to which a copy in one piece goes by a kernel on the calling
 * rank, after the settings. Narrow rows go by a kernel at any size.
 *
 * Local, any thread.
 *
 * @param node    an open node
 * @param between what the copy goes between
 * @param notify  1: with a notify behind it, 0: without
 * @param[out] bytes 0: none does (so on the host backend), SIZE_MAX: all do
 *                   that kernels can reach
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_copy_kernel_most(const wharf_node *node, wharf_copy_between between,
                       int notify, size_t *bytes);

WHARF_END_DECLS

#endif
