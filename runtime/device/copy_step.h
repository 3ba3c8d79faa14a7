/* SPDX-License-Identifier: MIT */
/*
 * What the host and the kernels of copy_kernels.cu say to one another: parts,
 * which are boxes cut for a grid of threads, the signals around them, and the
 * parameter of each kernel. The layout is the same for C and for CUDA.
 */
#ifndef WI_DEVICE_COPY_STEP_H
#define WI_DEVICE_COPY_STEP_H

#include <stdint.h>

#include "device/sync_step.h"

/* Threads of a block, of every launch. */
#define WI_COPY_THREADS 512

/* Vectors that one thread has under way at a time. */
#define WI_COPY_DEEP 4

/* What a launch does, in this order; or-ed. */
#define WI_COPY_READY_SIGNAL 0x01u /* the plan's ready signals go out */
#define WI_COPY_READY_WAIT 0x02u   /* hold until all ready waits are over */
#define WI_COPY_PUT 0x04u          /* all boxes are copied */
#define WI_COPY_SIGNAL 0x08u       /* what was copied is released */
#define WI_COPY_WAIT 0x10u         /* hold until all waits are over */
#define WI_COPY_ALL 0x1fu

/*
 * A box as threads see it. A row is `head` single bytes up to the first unit
 * that lies aligned on both sides, then units of 1 << unit_log2 bytes, then
 * `tail` bytes. A tile is what one block copies at a time, some units a thread.
 * It never crosses a plane.
 *
 * row_tile > 0: a tile is so many rows, each copied by 1 << lanes_log2
 * neighbouring threads, one unit a thread. row_tile 0: a tile is col_tile units
 * of one row, copied by the whole block.
 */
typedef struct wi_copy_part {
    uint64_t to, from; /* of the first row */
    uint64_t to_pitch, from_pitch;
    uint64_t to_plane, from_plane;
    uint64_t units; /* of a row */
    uint64_t rows;
    uint32_t tiles_r, tiles_c; /* tiles of a plane: down, across */
    uint32_t row_tile, col_tile;
    uint8_t unit_log2, lanes_log2, head, tail;
    uint32_t unused;
} wi_copy_part;

/* What every launch is told. Steps lie in four runs, one behind the other, in
 * the order of enum wi_copy_run. */
enum wi_copy_run {
    WI_COPY_RUN_READY_SIGNALS,
    WI_COPY_RUN_READY_WAITS,
    WI_COPY_RUN_SIGNALS,
    WI_COPY_RUN_WAITS,
    WI_COPY_RUNS
};

typedef struct wi_copy_head {
    uint64_t timeout_ns; /* of every wait; 0: none */
    uint32_t *report;    /* gets the value + 1 of a wait that gave up */
    uint32_t *ticket;    /* 0 before and after; NULL: one block */
    uint32_t flags;
    uint32_t round; /* added to the value of every WRITE and WAIT */
    uint32_t parts;
    uint32_t tiles; /* of all parts */
    uint32_t run_end[WI_COPY_RUNS];
} wi_copy_head;

/* The parameter of wi_kernel_copy_few: small sets travel with the launch, so
 * that no block has to fetch from memory what it is to do. */
#define WI_COPY_FEW_PARTS 4
#define WI_COPY_FEW_STEPS 16

typedef struct wi_copy_few {
    wi_copy_head head;
    uint32_t first[WI_COPY_FEW_PARTS]; /* tile of each part */
    wi_copy_part part[WI_COPY_FEW_PARTS];
    wi_sync_step step[WI_COPY_FEW_STEPS];
} wi_copy_few;

/* The parameter of wi_kernel_copy_many: the same in device memory. */
typedef struct wi_copy_many {
    wi_copy_head head;
    const uint32_t *first;
    const wi_copy_part *part;
    const wi_sync_step *step;
} wi_copy_many;

#endif
