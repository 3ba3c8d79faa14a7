/* SPDX-License-Identifier: MIT */
/*
 * The parameter of wi_kernel_sum, and what it adds up: the same for C and for
 * CUDA.
 */
#ifndef WI_DEVICE_SUM_STEP_H
#define WI_DEVICE_SUM_STEP_H

#include <stdint.h>

#ifdef __CUDACC__
#define WI_SUM_BOTH static __host__ __device__ __forceinline__
#else
#define WI_SUM_BOTH static inline
#endif

typedef struct wi_sum_args {
    const void *from; /* 8-byte aligned */
    uint64_t bytes;
    uint64_t *sum;
    uint32_t *report; /* NULL: *sum is written; else compared */
    uint32_t value;   /* for *report, if the sums differ */
    uint32_t unused;
} wi_sum_args;

/* Threads of the kernel's one block. */
#define WI_SUM_THREADS 1024

/* What word number `at` adds to the sum: the order of adding does not matter.
 * Mixing step of splitmix64 (Steele, Lea, Flood 2014). */
WI_SUM_BOTH uint64_t wi_sum_term(uint64_t word, uint64_t at)
{
    uint64_t z = word + (at + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
