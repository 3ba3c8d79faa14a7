/* SPDX-License-Identifier: MIT */
/*
 * Launches that overlap, for the library's kernels: from compute capability 9.0
 * on they are launched with programmatic stream serialization, so a block may
 * be there before the end of the kernel before it.
 */
#ifndef WI_DEVICE_EARLY_CUH
#define WI_DEVICE_EARLY_CUH

/* All earlier work of the stream is complete and visible. First thing in every
 * such kernel. */
static __device__ __forceinline__ void wait_for_earlier_work(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The stream's next kernel may be brought up, if it is one that may come early
 * at all; it then waits as above for our end. The first thread of a block to
 * say so speaks for the block. */
static __device__ __forceinline__ void let_later_work_come(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
