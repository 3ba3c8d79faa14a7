/* SPDX-License-Identifier: MIT */
/*
 * The kernel that adds up memory for WHARF_CHECK_RACES: one block, so that it
 * needs no memory of its own between blocks. Embedded as a fat binary, loaded
 * by cuda_sum.c.
 */
#include "device/sum_step.h"

/* Loads go around the L1 cache, in which another GPU's write of a moment ago
 * would not show. */
static __device__ uint64_t word_at(const wi_sum_args &a, uint64_t at)
{
    const uint64_t *words = (const uint64_t *)a.from;
    uint64_t left = a.bytes - at * 8;
    uint64_t word = 0;

    if (left >= 8)
        return __ldcv(words + at);
    for (uint64_t i = 0; i < left; i++)
        word |= (uint64_t)__ldcv((const unsigned char *)(words + at) + i)
                << (8 * i);
    return word;
}

extern "C" __global__ void __launch_bounds__(WI_SUM_THREADS)
    wi_kernel_sum(const __grid_constant__ wi_sum_args args)
{
    __shared__ unsigned long long total;
    uint64_t sum = 0;

    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    for (uint64_t at = threadIdx.x; at * 8 < args.bytes; at += WI_SUM_THREADS)
        sum += wi_sum_term(word_at(args, at), at);
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    if (args.report == NULL)
        *args.sum = total;
    else if (__ldcv(args.sum) != total)
        *(volatile uint32_t *)args.report = args.value;
}
