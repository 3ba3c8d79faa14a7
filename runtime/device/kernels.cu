/* SPDX-License-Identifier: MIT */
/*
 * The kernels behind the kernel and the hybrid mechanism: steps by value, one
 * thread a step, one block. Embedded as a fat binary, loaded by cuda_sync.c.
 *
 * What counts is the time from launch to the signal and from the signal to the
 * end: no local memory (the parameter is read where it lies), no shared memory,
 * few registers, and nothing between two looks at a word. From compute
 * capability 9.0 on the launch overlaps with the end of the kernel before it
 * (programmatic stream serialization, cuda_sync.c): the block may be there
 * before that kernel's work is visible and begins by waiting for it, and the
 * next kernel may come once all that this one stands for has happened.
 */
#include "wharf/device.cuh"

#include "device/early.cuh"
#include "device/sync_step.h"

static __device__ __forceinline__ void step_signal(const wi_sync_step &step)
{
    uint32_t *word = (uint32_t *)step.address;

    if (step.kind == WI_SYNC_ADD)
        wharf_word_add(word);
    else if (step.kind == WI_SYNC_WRITE)
        wharf_word_write(word, step.value);
}

static __device__ __forceinline__ void
step_wait(const wi_sync_step &step, uint64_t timeout_ns, uint32_t *report)
{
    uint32_t *word = (uint32_t *)step.address;
    bool take = step.kind == WI_SYNC_TAKE;
    bool expect = step.kind == WI_SYNC_EXPECT;

    if (take ? !wharf_word_consume(word, timeout_ns)
             : !wharf_word_wait(word, step.value, expect, timeout_ns)) {
        wharf_word_write(report, step.value + 1);
        return;
    }
    if (expect) /* in no order but with this stream's later signals */
        *(volatile uint32_t *)word = 0;
}

/* The signals of a warp are out before one of its threads starts to wait: a
 * thread that looks at a word over and over would hold up the others. */
template <typename args>
static __device__ __forceinline__ void steps_run(const args &a)
{
    bool mine = threadIdx.x < a.count;
    const wi_sync_step &step = a.steps[mine ? threadIdx.x : 0];
    bool signals = step.kind == WI_SYNC_ADD || step.kind == WI_SYNC_WRITE;

    wait_for_earlier_work();
    if (mine && signals)
        step_signal(step);
    __syncwarp();
    if (mine && !signals)
        step_wait(step, a.timeout_ns, a.report);
    __syncthreads();
    let_later_work_come();
}

extern "C" __global__ void __launch_bounds__(32)
    wi_kernel_sync4(const __grid_constant__ wi_sync_args4 args)
{
    steps_run(args);
}

extern "C" __global__ void __launch_bounds__(64)
    wi_kernel_sync64(const __grid_constant__ wi_sync_args64 args)
{
    steps_run(args);
}
