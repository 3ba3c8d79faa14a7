/* SPDX-License-Identifier: MIT */
/*
 * Signals from inside kernels: notify, wait and barrier as inline functions for
 * the GPU, over the views of view.h. Needs nvcc (or a compiler that takes CUDA
 * and its inline PTX), compute capability 7.0 or later, and no library.
 *
 * The functions use the same words as the kernel mechanism of notify.h, so that
 * one rank may signal from its stream and the other wait inside a kernel.
 *
 * Every wait has a bound. A wait that gives up consumes nothing, returns false
 * and leaves a report for the host; it does not trap, and the context stays
 * usable. A wait occupies its block: on a GPU that processes share without MPS
 * it lasts until the peer's time slice comes, some milliseconds.
 *
 * What other threads of the block wrote, or are going to read, is ordered by
 * __syncthreads() before a notify and after a wait, as in the examples below.
 *
 *   // producer                            // consumer
 *   fill(data);                            __shared__ bool came;
 *   __syncthreads();                       if (threadIdx.x == 0)
 *   if (threadIdx.x == 0)                      came = wharf_device_wait(view,
 *       wharf_device_notify(view);                                      from);
 *                                          __syncthreads();
 *                                          if (came)
 *                                              use(data);
 */
#ifndef WHARF_DEVICE_CUH
#define WHARF_DEVICE_CUH

#include "wharf/view.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "wharf/device.cuh: compile for sm_70 or later"
#endif

#define WHARF_DEVICE static __device__ __forceinline__

/* ---- Words ------------------------------------------------------------- */

/* The instructions want addresses of global memory. */
WHARF_DEVICE uint64_t wharf_word_address(const uint32_t *word)
{
    return (uint64_t)__cvta_generic_to_global(word);
}

/**
 * Adds one to a word, after all that the calling thread wrote or has seen, at
 * system scope.
 */
WHARF_DEVICE void wharf_word_add(uint32_t *word)
{
    asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(
                     wharf_word_address(word))
                 : "memory");
}

/**
 * Takes one off a word of the calling GPU, without order: for the one thread
 * that waits for it.
 */
WHARF_DEVICE void wharf_word_take(uint32_t *word)
{
    asm volatile("red.relaxed.sys.global.add.u32 [%0], -1;" ::"l"(
                     wharf_word_address(word))
                 : "memory");
}

/**
 * Sets a word, after all that the calling thread wrote or has seen, at system
 * scope.
 */
WHARF_DEVICE void wharf_word_write(uint32_t *word, uint32_t value)
{
    asm volatile(
        "st.release.sys.global.u32 [%0], %1;" ::"l"(wharf_word_address(word)),
        "r"(value)
        : "memory");
}

/**
 * Reads a word: what its writer released is visible to the calling thread's
 * later reads.
 */
WHARF_DEVICE uint32_t wharf_word_read(const uint32_t *word)
{
    uint32_t value;

    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(wharf_word_address(word))
                 : "memory");
    return value;
}

/** Time in ns, the same on all multiprocessors; steps of up to 1 us. */
WHARF_DEVICE uint64_t wharf_time_ns(void)
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/**
 * Waits until (int32_t)(word - value) >= 0, or with `equal` until word ==
 * value.
 *
 * @param word       the word to look at
 * @param value      what it has to reach
 * @param equal      true: what it has to be
 * @param timeout_ns 0: waits for good
 * @return false if the time was up
 */
WHARF_DEVICE bool wharf_word_wait(const uint32_t *word, uint32_t value,
                                  bool equal, uint64_t timeout_ns)
{
    uint64_t start = timeout_ns ? wharf_time_ns() : 0;

    for (;;) {
        /* The clock is far away: not at every look. And the loop stays small:
         * what it waits for is often there before its code is. */
#pragma unroll 1
        for (int looks = 0; looks < 64; looks++) {
            uint32_t now = wharf_word_read(word);

            if (equal ? now == value : (int32_t)(now - value) >= 0)
                return true;
        }
        if (timeout_ns && wharf_time_ns() - start >= timeout_ns)
            return false;
    }
}

/* ---- Packets ----------------------------------------------------------- */

/*
 * 32 bits of data and the round that they belong to, in one 64-bit word (8-byte
 * aligned). The data comes with its flag, so that neither side has to order
 * anything: half the round trip of a word that is released and acquired. For
 * small things between running kernels, such as a count, an index, a residual;
 * nothing else that the writer wrote is ordered by it.
 */

/** Writes a packet to a peer's memory. */
WHARF_DEVICE void wharf_packet_write(uint64_t *packet, uint32_t round,
                                     uint32_t data)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(
                     (uint64_t)__cvta_generic_to_global(packet)),
                 "l"((uint64_t)round << 32 | data)
                 : "memory");
}

/**
 * Waits until a packet is of a round.
 *
 * @param packet          the word to look at
 * @param round           the round that is waited for
 * @param[out] data       what was written with it; untouched on false
 * @param      timeout_ns 0: waits for good
 * @return false if the time was up
 */
WHARF_DEVICE bool wharf_packet_wait(const uint64_t *packet, uint32_t round,
                                    uint32_t *data, uint64_t timeout_ns)
{
    uint64_t at = (uint64_t)__cvta_generic_to_global(packet);
    uint64_t start = timeout_ns ? wharf_time_ns() : 0;

    for (;;) {
#pragma unroll 1
        for (int looks = 0; looks < 64; looks++) {
            uint64_t now;

            asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                         : "=l"(now)
                         : "l"(at)
                         : "memory");
            if ((uint32_t)(now >> 32) == round) {
                *data = (uint32_t)now;
                return true;
            }
        }
        if (timeout_ns && wharf_time_ns() - start >= timeout_ns)
            return false;
    }
}

/* ---- Calls ------------------------------------------------------------- */

/**
 * Waits for one signal of a word that counts them, and takes it off. It is
 * taken first: the write is then over long before the signal comes, where after
 * it the end of the kernel would wait for it. For the one thread that may wait.
 *
 * @return false if the time was up: nothing was taken
 */
WHARF_DEVICE bool wharf_word_consume(uint32_t *word, uint64_t timeout_ns)
{
    wharf_word_take(word);
    if (wharf_word_wait(word, 0, false, timeout_ns))
        return true;
    wharf_word_add(word);
    return false;
}

/** A rank's segment, as the calling GPU sees it. */
WHARF_DEVICE void *wharf_device_segment(const wharf_segments_view &view,
                                        int rank)
{
    return view.segments[rank];
}

/**
 * Records: the waiter's next wait for this rank may pass.
 *
 * For one thread of the recording rank, which must not be the waiter. What the
 * thread wrote before, and what others wrote before a __syncthreads() that it
 * has passed, is visible to whoever passed the matching wait.
 */
WHARF_DEVICE void wharf_device_notify(const wharf_notify_view &view)
{
    wharf_word_add(view.words + (uint64_t)view.rank * view.stride);
}

/**
 * Waits for one record of a rank, and consumes it.
 *
 * For one thread of the waiter; one wait for a recorder at a time.
 *
 * @param view       the waiter's view of the notify
 * @param from       the recording rank
 * @param timeout_ns bound in ns; 0: the view's
 * @return false if the record did not come in time: nothing was consumed, and
 *         wharf_notify_check tells the host
 */
WHARF_DEVICE bool wharf_device_wait(const wharf_notify_view &view, int from,
                                    uint64_t timeout_ns = 0)
{
    uint32_t *word = view.words + (uint64_t)from * view.stride;

    if (wharf_word_consume(word, timeout_ns ? timeout_ns : view.timeout_ns))
        return true;
    if (view.report)
        wharf_word_write(view.report, (uint32_t)from + 1);
    return false;
}

/**
 * Many waits of one thread for one recorder, in one kernel: between begin and
 * end the records taken are counted in a register, so that the notify after a
 * wait has no write to wait for. Half the round trip of wharf_device_wait.
 */
struct wharf_device_waiter {
    uint32_t *word;
    uint32_t taken;
};

/** Begins waiting for a recorder; no other wait for it until the end. */
WHARF_DEVICE wharf_device_waiter
wharf_device_wait_begin(const wharf_notify_view &view, int from)
{
    return {view.words + (uint64_t)from * view.stride, 0};
}

/**
 * Waits for the next record, and consumes it.
 *
 * @param view       as for wharf_device_wait_begin
 * @param waiter     what wharf_device_wait_begin returned
 * @param from       as for wharf_device_wait_begin
 * @param timeout_ns bound in ns; 0: the view's
 * @return as wharf_device_wait
 */
WHARF_DEVICE bool wharf_device_wait_next(const wharf_notify_view &view,
                                         wharf_device_waiter &waiter, int from,
                                         uint64_t timeout_ns = 0)
{
    if (wharf_word_wait(waiter.word, waiter.taken + 1, false,
                        timeout_ns ? timeout_ns : view.timeout_ns)) {
        waiter.taken++;
        return true;
    }
    if (view.report)
        wharf_word_write(view.report, (uint32_t)from + 1);
    return false;
}

/** Ends it: later waits, of kernels, streams and the host, go on from here. */
WHARF_DEVICE void wharf_device_wait_end(const wharf_device_waiter &waiter)
{
    asm volatile("red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(
                     wharf_word_address(waiter.word)),
                 "r"(0u - waiter.taken)
                 : "memory");
}

/**
 * Enters a barrier and holds until every member has.
 *
 * For all threads of one block a member; other blocks are held, if need be, by
 * a grid barrier around it. What any thread of any member's block wrote before
 * is visible to all threads of every member's block afterwards.
 *
 * @param view       the member's view of the barrier
 * @param timeout_ns bound in ns; 0: the view's
 * @return the same for all threads of the block; false if a member did not
 *         come in time: the barrier cannot be used any more
 */
WHARF_DEVICE bool wharf_device_barrier(const wharf_barrier_view &view,
                                       uint64_t timeout_ns = 0)
{
    int thread = (int)(threadIdx.x +
                       blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    int threads = (int)(blockDim.x * blockDim.y * blockDim.z);
    uint64_t bound = timeout_ns ? timeout_ns : view.timeout_ns;
    bool late = false;

    /* All signals go out before the first wait. */
    __syncthreads();
    for (int i = thread; i < view.members; i += threads) {
        if (i != view.member)
            wharf_word_add(view.words[i] + (uint64_t)view.member * view.stride);
    }
    __syncthreads();
    for (int i = thread; i < view.members; i += threads) {
        uint32_t *word = view.words[view.member] + (uint64_t)i * view.stride;

        if (i == view.member)
            continue;
        if (!wharf_word_consume(word, bound)) {
            if (view.report)
                wharf_word_write(view.report, (uint32_t)i + 1);
            late = true;
        }
    }
    return !__syncthreads_or(late);
}

#undef WHARF_DEVICE

#endif
