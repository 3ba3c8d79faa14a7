/* SPDX-License-Identifier: MIT */
/*
 * Views: what a kernel of the program needs to know of a buffer, a notify or a
 * barrier, as plain data that is passed to it by value. device.cuh has the
 * functions that use them.
 *
 *   wharf_notify_view_get(notify, &view);
 *   work<<<1, 256, 0, stream>>>(view, data);
 *
 * A view is good for the calling rank's GPU only, and as long as the object
 * that it was made from lives.
 */
#ifndef WHARF_VIEW_H
#define WHARF_VIEW_H

#include <stdint.h>

#include "wharf/base.h"
#include "wharf/status.h"

struct wharf_buffer;
struct wharf_notify;
struct wharf_barrier;

/* All segments of a buffer. */
typedef struct wharf_segments_view {
    void *const *segments; /* one pointer a rank, in the GPU's memory; NULL for
                              an empty segment */
    int32_t ranks;
    int32_t rank; /* the calling one */
} wharf_segments_view;

/*
 * A notify, from the side of the calling rank. The word of recorder r is
 * words[r * stride]; it counts the records that were not waited for yet.
 */
typedef struct wharf_notify_view {
    uint32_t *words;
    uint32_t *report;    /* gets the recorder + 1 when a wait gives up, for
                            wharf_notify_check; NULL: no report */
    uint64_t timeout_ns; /* of a wait that names none; more than 0 */
    uint32_t stride;     /* words from one recorder to the next */
    int32_t ranks;
    int32_t rank;   /* the calling one */
    int32_t waiter; /* the one that may wait */
} wharf_notify_view;

/*
 * A barrier, from the side of one member. words[j] are the words that belong to
 * member j; in them, the word that member i adds to is words[j][i * stride].
 */
typedef struct wharf_barrier_view {
    uint32_t *const *words; /* one pointer a member, in the GPU's memory */
    uint32_t *report;       /* gets the missing member + 1 when a wait gives
                               up; NULL: no report */
    uint64_t timeout_ns;    /* of a barrier that names none; more than 0 */
    uint32_t stride;        /* words from one member to the next */
    int32_t members;
    int32_t member; /* the calling one, 0 .. members - 1 */
} wharf_barrier_view;

WHARF_BEGIN_DECLS

/**
 * The view of a buffer's segments.
 *
 * Local, any thread.
 *
 * @param buffer an attached buffer
 * @param[out] view good until the buffer is detached
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EUNSUPPORTED (host
 *         backend); WHARF_EDEVMEM; WHARF_EDRIVER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_view_get(struct wharf_buffer *buffer, wharf_segments_view *view);

/**
 * The view of a notify, as recorder or as waiter.
 *
 * Local, any thread. Signals of kernels and of streams count alike, since both
 * use the same words.
 *
 * @param notify the notify
 * @param[out] view good until the notify is destroyed
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EUNSUPPORTED (host backend;
 *         or one of the view's pairs signals by mem-ops, or has no atomics
 *         between its GPUs)
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_notify_view_get(struct wharf_notify *notify, wharf_notify_view *view);

/**
 * The view of a barrier, for a member.
 *
 * Local, any thread. A barrier is entered by kernels or by streams; if both are
 * wanted, each round has to be entered the same way by all members.
 *
 * @param barrier the barrier
 * @param[out] view good until the barrier is destroyed
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (not a member, destroyed);
 *         WHARF_EUNSUPPORTED (host backend; the barrier's mechanism is
 *         mem-ops; or two members have no atomics between their GPUs);
 *         WHARF_EDEVMEM; WHARF_EDRIVER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_barrier_view_get(struct wharf_barrier *barrier, wharf_barrier_view *view);

WHARF_END_DECLS

#endif
