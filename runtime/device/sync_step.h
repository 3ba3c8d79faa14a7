/* SPDX-License-Identifier: MIT */
/*
 * What the host and the kernels of kernels.cu say to one another: a step, and
 * the parameter of each kernel. The layout is the same for C and for CUDA.
 */
#ifndef WI_DEVICE_SYNC_STEP_H
#define WI_DEVICE_SYNC_STEP_H

#include <stdint.h>

/*
 * What one step of a stream does to one 32-bit word, aligned to 4 bytes. A word
 * is a semaphore (ADD, TAKE), or holds numbers (WRITE, WAIT), or a mark that is
 * set and cleared (WRITE, EXPECT); these uses are not mixed on one word.
 *
 * ADD and WRITE come after all earlier work of their stream, and release at
 * system scope what it wrote. TAKE, WAIT and EXPECT hold the stream's later
 * work, which sees what was released.
 */
typedef enum wi_sync_kind {
    WI_SYNC_ADD = 1,   /* word += 1 */
    WI_SYNC_TAKE = 2,  /* wait for 1 or more, then word -= 1; one taker a word.
                          The value is what a report says, see `sync` */
    WI_SYNC_WRITE = 3, /* word = value */
    WI_SYNC_WAIT = 4,  /* wait until (int32_t)(word - value) >= 0: survives the
                          wrap of a counter */
    WI_SYNC_EXPECT = 5 /* wait until word == value, then word = 0 */
} wi_sync_kind;

typedef struct wi_sync_step {
    uint32_t kind; /* wi_sync_kind */
    uint32_t value;
    void *address; /* as this process's device sees it */
} wi_sync_step;

/* Steps of the two kernels: one thread a step. The small one has fewer bytes
 * of parameters to bring to the GPU, and most launches need no more. */
#define WI_SYNC_FEW 4
#define WI_SYNC_MANY 64

/* The parameter of wi_kernel_sync4 and wi_kernel_sync64. */
#define WI_SYNC_ARGS(steps_)                                                   \
    {                                                                          \
        uint64_t timeout_ns; /* 0: none */                                     \
        uint32_t *report;    /* gets the value + 1 of a wait that gave up */   \
        uint32_t count;                                                        \
        uint32_t unused;                                                       \
        wi_sync_step steps[steps_];                                            \
    }
typedef struct wi_sync_args4 WI_SYNC_ARGS(WI_SYNC_FEW) wi_sync_args4;
typedef struct wi_sync_args64 WI_SYNC_ARGS(WI_SYNC_MANY) wi_sync_args64;

#endif
