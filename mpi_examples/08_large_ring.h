/* SPDX-License-Identifier: MIT */
/* What the parts of 08_large_ring share: how a consumer works on a frame, on
 * the CPU (08_large_ring_cpu.c) or on a GPU (08_large_ring_gpu.cu), and the
 * progress that is shown (08_large_ring_show.c). */
#ifndef LARGE_RING_H
#define LARGE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wharf/wharf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong in one step on one rank; "" if nothing. */
struct failure {
    char text[512];
};

/* Frames of which a consumer has not asked for the result yet. */
#define LARGE_TURNS 2

/* Words of a frame are start + index * step, modulo 2^64. */
#define LARGE_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The checksum of a frame: the sum over its words of word * (2 * index + 1). It
 * changes when words change places, and parts of a frame just add up. */

struct large_worker; /* each kind has its own */

/* All return 0, or -1 with `why` filled. */
struct large_kind {
    const char *name;

    /* `chunk` bytes are worked on at a time, with at most `cap` bytes of
     * device memory. */
    int (*open)(size_t chunk, uint64_t cap, struct large_worker **worker,
                struct failure *why);
    void (*close)(struct large_worker *worker);

    /* On which the frame is read: what a ring's calls get. */
    wharf_stream (*stream)(struct large_worker *worker);

    /* Starts on a frame; it has been read when the stream comes by. */
    int (*frame)(struct large_worker *worker, int turn, const void *frame,
                 size_t bytes, struct failure *why);

    /* Holds the thread until the checksum of a turn's frame is there. */
    int (*result)(struct large_worker *worker, int turn, uint64_t *checksum,
                  struct failure *why);

    /* Device memory that the worker has taken. */
    uint64_t (*device_bytes)(const struct large_worker *worker);
};

extern const struct large_kind large_cpu;

/* Not there (the address is NULL) in a program built without nvcc. */
extern const struct large_kind large_gpu __attribute__((weak));

/* ---- Progress ---------------------------------------------------------- */

/* A bar on a terminal; elsewhere a line now and then. */
struct progress {
    bool terminal, dirty;
    int frames;
    double bytes; /* of a frame */
    double start, shown;
};

void progress_start(struct progress *progress, int frames, double bytes);
void progress_show(struct progress *progress, int done);
void progress_end(struct progress *progress);

#ifdef __cplusplus
}
#endif

#endif
