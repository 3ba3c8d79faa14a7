/* SPDX-License-Identifier: MIT */
/*
 * The filter of 07_frame_filter: on the CPU (07_filter_cpu.c) or on a GPU
 * (07_filter_gpu.cu, 07_filter_kernels.cuh), the same bytes on both.
 *
 * Every colour of every pixel becomes the mean of its neighbourhood, weighted
 * by a Gaussian bell in whole numbers:
 *
 *   value = (sum over rows, then columns of weight * weight * colour + half)
 *           >> 2 * shift
 *
 * radius 2: weights 1 4 6 4 1, shift 4; radius 3: 1 6 15 20 15 6 1, shift 6.
 * Beyond the edges the outermost pixels repeat. With a table, which has a byte
 * for every colour of every pixel (as a camera's calibration has), then
 *
 *   value = min(255, (value * (128 + table) + 128) >> 8)
 */
#ifndef FILTER_H
#define FILTER_H

#include <wharf/wharf.h>

#include "07_frames.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most bytes of a row that a block of a GPU's kernel can take. */
#define FILTER_TILE_MOST 6144

/* How frames come to the filter and results go back. "Own memory" is the
 * device's, on CPUs the process's. */
enum way {
    WAY_COPY,   /* copied into own memory, filtered, copied back */
    WAY_MAPPED, /* read and written where they lie in shared host memory, the
                   table too */
    WAY_RING,   /* read from a slot of a ring, written to host memory; table in
                   own memory */
    WAY_MIXED,  /* frames as in WAY_MAPPED, table in own memory */
    WAYS
};

/* How the host learns that a frame is done. */
enum frame_end {
    END_STREAM,
    END_EVENT,
    END_EVENT_BLOCKING, /* the thread sleeps */
    END_DEVICE,
    ENDS
};

struct filter_options {
    struct frame_format format;
    int radius;           /* 2 or 3 */
    const uint8_t *table; /* in shared host memory, one frame's bytes */

    /* For mapped frames on a GPU, see 07_filter_kernels.cuh; all 0: as it is
     * found to be fastest. */
    int blocks; /* of the streamed kernel */
    int tile;   /* most bytes of a row that a block takes */
    int direct; /* 1: the resident kernel */
};

/* Bytes of one frame that cross the bus (CPUs: that are copied). */
struct filter_traffic {
    uint64_t in, out;
};

struct filter; /* each kind has its own */

/* All return 0, or -1 with `why` filled. Work is enqueued in order; on CPUs it
 * is done when the call returns. */
struct filter_kind {
    const char *name;
    wharf_space own_space; /* where a ring's slots are own memory */
    int waits;             /* 1: there is a difference between the ends */

    int (*open)(const struct filter_options *options, struct filter **filter,
                struct failure *why);
    void (*close)(struct filter *filter);

    /* What a ring's calls get as their stream. */
    wharf_stream (*stream)(struct filter *filter);

    /* Before the first frame, with a frame and room for a result in shared
     * memory: finds how such frames are filtered fastest, says so in words. */
    int (*tune)(struct filter *filter, const uint8_t *in, uint8_t *out,
                char *said, size_t capacity, struct failure *why);

    /* Filters one frame. `in` and `out` are in shared memory. */
    int (*run)(struct filter *filter, enum way way, int use_table,
               const uint8_t *in, uint8_t *out, struct failure *why);

    /* Fills a ring's slot from shared host memory. That of the CPU needs no
     * filter of its own. */
    int (*load)(struct filter *filter, void *slot, const uint8_t *frame,
                size_t bytes, struct failure *why);

    /* Holds the thread until all that was enqueued is done. */
    int (*wait)(struct filter *filter, enum frame_end end, struct failure *why);

    void (*traffic)(const struct filter *filter, enum way way, int use_table,
                    struct filter_traffic *traffic);
};

extern const struct filter_kind filter_cpu;

/* Not there (the address is NULL) in a program built without nvcc. */
extern const struct filter_kind filter_gpu __attribute__((weak));

/* The filter itself, by the calling thread. `sums` is room for filter_sums
 * elements. */
size_t filter_sums(const struct frame_format *format);
void filter_frame(const struct frame_format *format, int radius,
                  const uint8_t *in, const uint8_t *table, uint8_t *out,
                  uint16_t *sums);

/* A table as a camera's calibration would have it: the corners are dark, and
 * every element has its own gain. */
void filter_make_table(const struct frame_format *format, uint8_t *table);

#ifdef __cplusplus
}
#endif

#endif
