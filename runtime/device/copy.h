/* SPDX-License-Identifier: MIT */
/*
 * The devices seam for moving data: one table of operations for each backend,
 * device->ops->copy. The rules of device/device.h hold: no slot is NULL, the
 * outputs are set on success only, contexts are restored.
 *
 * How to build on it
 * ------------------
 * Single copies: `copy`, by the way that the caller chose (core/copy_way.c).
 * Copies with signals around them: a SET, prepared once and launched often,
 * each launch one kernel. A neighbour exchange is one set a rank:
 *
 *   wi_copy_plan plan = {
 *       .box = boxes, .boxes = n,              // my regions -> peers' memory
 *       .run[WI_COPY_RUN_READY_SIGNALS] = {..} // ADD, WRITE: to those who put
 *                                              // into my regions: go ahead
 *       .run[WI_COPY_RUN_READY_WAITS] = {..}   // TAKE, WAIT: of those I put to
 *       .run[WI_COPY_RUN_SIGNALS] = {..}       // ADD, WRITE: my data is there
 *       .run[WI_COPY_RUN_WAITS] = {..}         // TAKE, WAIT: theirs is here
 *   };
 *   copy->set_make(device, &plan, &set);       // collective phase: may wait
 *
 *   // start, then finish; or both flags in one launch
 *   copy->set_launch(set, stream, WI_COPY_READY_SIGNAL | WI_COPY_READY_WAIT |
 *                    WI_COPY_PUT | WI_COPY_SIGNAL, round, 0, NULL);
 *   copy->set_launch(set, stream, WI_COPY_WAIT, round, 0, NULL);
 *
 * Each run may be empty and each flag left out: without the ready pair, who
 * puts must know otherwise that the peer is done with what was there. Flags
 * stand for phases in the order READY_SIGNAL, READY_WAIT, PUT, SIGNAL, WAIT.
 *
 *  - SIGNAL comes after every byte of the launch's PUT (and all earlier work of
 *    the stream), at system scope; what a WAIT or READY_WAIT saw is visible to
 *    the launch's later phases and to the stream's later work.
 *  - ADD and TAKE are counts: constant, a captured launch can be replayed.
 *    WRITE and WAIT are epochs: `round` is added to their value, so prepare
 *    them with value 0 (or the first epoch) and count rounds up, which a graph
 *    cannot do. EXPECT is not taken. Words follow the rules of core/signal.h:
 *    which of the two a pair of ranks can use is wi_signal_way.counts.
 *  - One set runs once at a time: launches of it must be ordered (one stream,
 *    or streams ordered by events), replays of graphs included. Different sets
 *    are independent.
 *  - READY_WAIT and WAIT spin in the kernel. Where ranks share a GPU by time
 *    slices (mechanism mem-ops or hybrid) leave them out, and wait by
 *    device->ops->sync instead; PUT | SIGNAL never spins and can always be one
 *    launch: whatever mechanism waits may be signalled by a kernel.
 *  - A wait of a peer that died lasts until somebody writes its word: see
 *    core/signal_rescue.c. With timeout_ns (and report, as of `sync`) the
 *    launch goes on after that time; then its data cannot be trusted.
 *  - Boxes of one set must not overlap one another.
 *  - Beyond some 16 MiB a peer the copy engines are faster: `copy` with
 *    WI_COPY_BY_ENGINE, then a set without boxes, or `sync`, for the signal.
 *  - The host backend's sets copy at once, and refuse steps (core makes the
 *    signals there).
 */
#ifndef WI_DEVICE_COPY_H
#define WI_DEVICE_COPY_H

#include "device/copy_step.h"
#include "device/device.h"

/* What is copied: `rows` rows of `width` bytes in each of `planes` planes. The
 * pitches are the bytes from a row, or a plane, to the next; they do not matter
 * where there is one row, or one plane. */
typedef struct wi_copy_box {
    void *to;
    const void *from;
    uint64_t width, rows, planes;
    uint64_t to_pitch, to_plane;
    uint64_t from_pitch, from_plane;
} wi_copy_box;

/* Most parts, and steps of all runs together, of a set. */
#define WI_COPY_SET_PARTS 65536
#define WI_COPY_SET_STEPS 4096

typedef struct wi_copy_steps {
    const wi_sync_step *step;
    int count;
} wi_copy_steps;

typedef struct wi_copy_plan {
    const wi_copy_box *box;
    int boxes;
    wi_copy_steps run[WI_COPY_RUNS];
} wi_copy_plan;

typedef struct wi_copy_set wi_copy_set;

typedef enum wi_copy_by {
    WI_COPY_BY_ENGINE = 1,
    WI_COPY_BY_KERNEL = 2,
    WI_COPY_BY_CPU = 3 /* the host backend's only one */
} wi_copy_by;

/* What a pointer of the caller points to. */
typedef enum wi_copy_place {
    WI_COPY_PLACE_DEVICE = 1,   /* memory of the calling rank's GPU */
    WI_COPY_PLACE_PEER = 2,     /* of another one, which kernels here reach */
    WI_COPY_PLACE_HOST = 3,     /* page-locked, which kernels here reach */
    WI_COPY_PLACE_FAR = 4,      /* known to the driver, not to kernels here:
                                   copy engines only */
    WI_COPY_PLACE_PAGEABLE = 5, /* unknown to the driver: the CPU's */
    WI_COPY_PLACE_CPU = 6       /* the host backend: all memory is alike */
} wi_copy_place;

typedef struct wi_copy_memory {
    wi_copy_place place;
    bool read_only; /* known not to be writable from here */
} wi_copy_memory;

typedef struct wi_copy_ops {
    /* Loads the kernels. Loading may wait for work of the context, so this
     * comes before any stream can be waiting for a peer. *kernels: false if
     * this device cannot run them (told once, in the log); its engines still
     * copy. blocks_most: of every grid from now on; 0: the default. */
    wharf_status (*prepare)(wi_device *device, uint32_t blocks_most,
                            bool *kernels);

    /* Local, never fails for an address that is nobody's: that is pageable. */
    wharf_status (*look)(wi_device *device, const void *pointer,
                         wi_copy_memory *memory);

    /*
     * Enqueues one box; any size, zero included. Sides must not overlap.
     * May be captured. By kernel: both sides must be within reach of kernels.
     * By engine: any memory; pageable memory is done with on return, and
     * cannot be captured.
     */
    wharf_status (*copy)(wi_device *device, wharf_stream stream, wi_copy_by by,
                         const wi_copy_box *box);

    /*
     * Enqueues one box and a signal (ADD or WRITE) after it, in one kernel.
     * Launches with one ticket (of ticket_take) must be ordered.
     */
    wharf_status (*copy_signal)(wi_device *device, wharf_stream stream,
                                const wi_copy_box *box,
                                const wi_sync_step *signal, uint32_t *ticket);

    /* A word of the device's own, zero; given back when no launch uses it any
     * more. */
    wharf_status (*ticket_take)(wi_device *device, uint32_t **ticket);
    void (*ticket_give)(wi_device *device, uint32_t *ticket);

    /* After prepare. The plan and what it points to may go afterwards. */
    wharf_status (*set_make)(wi_device *device, const wi_copy_plan *plan,
                             wi_copy_set **set);
    wharf_status (*set_launch)(wi_copy_set *set, wharf_stream stream,
                               uint32_t flags, uint32_t round,
                               uint64_t timeout_ns, uint32_t *report);
    /* All launches must be over. NULL is ignored. */
    void (*set_free)(wi_copy_set *set);
} wi_copy_ops;

extern const wi_copy_ops wi_copy_host;
extern const wi_copy_ops wi_copy_cuda; /* only with nvcc */

/* ---- Shapes: plain arithmetic (copy_shape.c) ----------------------------- */

/* WHARF_EARG (record filled) for a shape that makes no sense: a pitch smaller
 * than what it spans, sizes beyond 63 bits. Zero is fine. */
wharf_status wi_copy_box_check(const wi_copy_box *box);

/* Bytes to copy; bytes from the first to behind the last, on each side. */
uint64_t wi_copy_box_bytes(const wi_copy_box *box);
uint64_t wi_copy_box_to_span(const wi_copy_box *box);
uint64_t wi_copy_box_from_span(const wi_copy_box *box);

/* Does any byte belong to both sides? Exact where both have the same pitches,
 * else: do the spans overlap? */
bool wi_copy_box_overlaps(const wi_copy_box *box);

/* The same bytes in as few dimensions as possible, the longer of rows and
 * planes as rows; pitches that do not matter are 0. */
wi_copy_box wi_copy_box_simple(const wi_copy_box *box);

/*
 * Cuts a simple, not empty box into tiles of `passes` (1 to WI_COPY_DEEP) units
 * a thread; returns their number.
 */
uint64_t wi_copy_part_cut(const wi_copy_box *box, uint32_t passes,
                          wi_copy_part *part);

/*
 * Cuts the boxes of one launch so that its blocks have enough to do, but work
 * is spread first; empty ones are left out. first[i] is the first tile of part
 * i; both arrays have room for all boxes. WHARF_ELIMIT for 2^31 tiles or more.
 */
wharf_status wi_copy_parts_cut(const wi_copy_box *box, int boxes,
                               uint32_t blocks_most, wi_copy_part *part,
                               uint32_t *first, uint32_t *parts,
                               uint32_t *tiles);

/* Default most blocks of a grid. More gain nothing, neither between GPUs nor
 * with host memory (264 tried on H200). */
#define WI_COPY_BLOCKS 64

#endif
