/* SPDX-License-Identifier: MIT */
/*
 * The kernels that move data: boxes cut into parts (copy_step.h), with signals
 * before and after them. Embedded as a fat binary, loaded by cuda_copy.c.
 *
 * Small copies are bound by latency: what to do comes with the launch, every
 * thread has all its loads under way before its first store, and nothing but
 * the last block's first warp is between the last store and the signal. Large
 * ones need some 2 MiB under way, hence the units a thread.
 */
#include "wharf/device.cuh"

#include "device/copy_step.h"
#include "device/early.cuh"

/* ---- Moving one tile --------------------------------------------------- */

/*
 * Units i, i + step, ... below n, each `stride` bytes from the one before.
 * Loads go around the L1 cache, in which a peer's write of a moment ago would
 * not show.
 */
template <typename unit>
static __device__ __forceinline__ void
units_move(uint64_t to, uint64_t from, uint64_t to_stride, uint64_t from_stride,
           uint32_t i, uint32_t step, uint32_t n)
{
    unit held[WI_COPY_DEEP];

    to += i * to_stride;
    from += i * from_stride;
    to_stride *= step;
    from_stride *= step;
    for (; i < n; i += WI_COPY_DEEP * step) {
#pragma unroll
        for (uint32_t k = 0; k < WI_COPY_DEEP; k++) {
            if (i + k * step < n)
                held[k] = __ldcg((const unit *)(from + k * from_stride));
        }
#pragma unroll
        for (uint32_t k = 0; k < WI_COPY_DEEP; k++) {
            if (i + k * step < n)
                __stcg((unit *)(to + k * to_stride), held[k]);
        }
        to += WI_COPY_DEEP * to_stride;
        from += WI_COPY_DEEP * from_stride;
    }
}

/* What units_move does, by the size of a unit. */
static __device__ __forceinline__ void
sized_move(uint32_t unit_log2, uint64_t to, uint64_t from, uint64_t to_stride,
           uint64_t from_stride, uint32_t i, uint32_t step, uint32_t n)
{
    switch (unit_log2) {
    case 4:
        units_move<uint4>(to, from, to_stride, from_stride, i, step, n);
        break;
    case 3:
        units_move<uint2>(to, from, to_stride, from_stride, i, step, n);
        break;
    case 2:
        units_move<unsigned int>(to, from, to_stride, from_stride, i, step, n);
        break;
    case 1:
        units_move<unsigned short>(to, from, to_stride, from_stride, i, step,
                                   n);
        break;
    default:
        units_move<unsigned char>(to, from, to_stride, from_stride, i, step, n);
        break;
    }
}

/* The single bytes of rows: 32 threads a row, 16 for each end. */
static __device__ __forceinline__ void ends_move(const wi_copy_part &p,
                                                 uint64_t to, uint64_t from,
                                                 uint32_t rows, bool heads,
                                                 bool tails)
{
    uint64_t tail = p.head + (p.units << p.unit_log2);
    uint32_t b = threadIdx.x & 15;
    bool end = threadIdx.x & 16;
    uint64_t at = end ? tail + b : b;

    if (end ? !tails || b >= p.tail : !heads || b >= p.head)
        return;
    for (uint32_t row = threadIdx.x >> 5; row < rows;
         row += WI_COPY_THREADS >> 5)
        *(unsigned char *)(to + row * p.to_pitch + at) =
            __ldcg((const unsigned char *)(from + row * p.from_pitch + at));
}

/* Tile q of a part. Which plane and row that is takes divisions, once a tile
 * and not at all for what lies in one piece. */
static __device__ __forceinline__ void tile_move(const wi_copy_part &p,
                                                 uint32_t q)
{
    uint64_t to = p.to, from = p.from;
    uint32_t c = q, r = 0, rows = 1;

    if (p.rows > 1) {
        uint32_t plane;

        r = q / p.tiles_c;
        c = q - r * p.tiles_c;
        plane = r / p.tiles_r;
        r -= plane * p.tiles_r;
        to += plane * p.to_plane;
        from += plane * p.from_plane;
    }
    if (p.row_tile) {
        uint64_t first = (uint64_t)r * p.row_tile;
        uint64_t left = p.rows - first;
        uint32_t lane = threadIdx.x & ((1u << p.lanes_log2) - 1);
        uint64_t skip = p.head + ((uint64_t)lane << p.unit_log2);

        rows = left < p.row_tile ? (uint32_t)left : p.row_tile;
        to += first * p.to_pitch;
        from += first * p.from_pitch;
        if (lane < p.units)
            sized_move(p.unit_log2, to + skip, from + skip, p.to_pitch,
                       p.from_pitch, threadIdx.x >> p.lanes_log2,
                       WI_COPY_THREADS >> p.lanes_log2, rows);
    } else {
        uint64_t first = (uint64_t)c * p.col_tile;
        uint64_t left = p.units - first, unit = 1u << p.unit_log2;
        uint64_t skip = p.head + (first << p.unit_log2);

        to += r * p.to_pitch;
        from += r * p.from_pitch;
        sized_move(p.unit_log2, to + skip, from + skip, unit, unit, threadIdx.x,
                   WI_COPY_THREADS,
                   left < p.col_tile ? (uint32_t)left : p.col_tile);
    }
    if (p.head | p.tail)
        ends_move(p, to, from, rows, c == 0, c == p.tiles_c - 1);
}

/* ---- Which part a tile belongs to -------------------------------------- */

/* The entries behind the last part's are beyond every tile. */
static __device__ __forceinline__ uint32_t part_find(const wi_copy_few &a,
                                                     uint32_t tile)
{
    uint32_t part = 0;

#pragma unroll
    for (int k = 1; k < WI_COPY_FEW_PARTS; k++)
        part += tile >= a.first[k];
    return part;
}

/* Each lane of a warp looks at one part. All threads of a warp call it with
 * the same tile. */
static __device__ __forceinline__ uint32_t part_find(const wi_copy_many &a,
                                                     uint32_t tile)
{
    uint32_t before = 0;

    for (uint32_t base = 0; base < a.head.parts; base += 32) {
        uint32_t k = base + (threadIdx.x & 31);
        bool starts = k < a.head.parts && a.first[k] <= tile;
        uint32_t found = __popc(__ballot_sync(~0u, starts));

        before += found;
        if (found < 32)
            break;
    }
    return before - 1;
}

/* ---- Signals ----------------------------------------------------------- */

/* Run k of the steps begins where the one before ends. */
static __device__ __forceinline__ uint32_t run_first(const wi_copy_head &h,
                                                     int run)
{
    return run ? h.run_end[run - 1] : 0;
}

static __device__ __forceinline__ void run_signal(const wi_copy_head &h,
                                                  const wi_sync_step *step,
                                                  int run, uint32_t thread,
                                                  uint32_t threads)
{
    for (uint32_t i = run_first(h, run) + thread; i < h.run_end[run];
         i += threads) {
        uint32_t *word = (uint32_t *)step[i].address;

        if (step[i].kind == WI_SYNC_ADD)
            wharf_word_add(word);
        else
            wharf_word_write(word, step[i].value + h.round);
    }
}

static __device__ __forceinline__ void step_late(const wi_copy_head &h,
                                                 const wi_sync_step &step)
{
    if (h.report)
        wharf_word_write(h.report, step.value + 1);
}

/* Every block waits; the last one to be done takes what was counted. */
static __device__ __forceinline__ void ready_wait(const wi_copy_head &h,
                                                  const wi_sync_step *step)
{
    const int run = WI_COPY_RUN_READY_WAITS;

    for (uint32_t i = run_first(h, run) + threadIdx.x; i < h.run_end[run];
         i += WI_COPY_THREADS) {
        bool take = step[i].kind == WI_SYNC_TAKE;

        if (!wharf_word_wait((const uint32_t *)step[i].address,
                             take ? 1 : step[i].value + h.round, false,
                             h.timeout_ns))
            step_late(h, step[i]);
    }
    __syncthreads();
}

static __device__ __forceinline__ void
ready_take(const wi_copy_head &h, const wi_sync_step *step, uint32_t lane)
{
    const int run = WI_COPY_RUN_READY_WAITS;

    for (uint32_t i = run_first(h, run) + lane; i < h.run_end[run]; i += 32) {
        uint32_t *word = (uint32_t *)step[i].address;

        /* Not there only if the wait gave up. */
        if (step[i].kind == WI_SYNC_TAKE && (int32_t)wharf_word_read(word) > 0)
            wharf_word_take(word);
    }
}

static __device__ __forceinline__ void
last_wait(const wi_copy_head &h, const wi_sync_step *step, uint32_t lane)
{
    const int run = WI_COPY_RUN_WAITS;

    for (uint32_t i = run_first(h, run) + lane; i < h.run_end[run]; i += 32) {
        uint32_t *word = (uint32_t *)step[i].address;

        if (step[i].kind == WI_SYNC_TAKE
                ? !wharf_word_consume(word, h.timeout_ns)
                : !wharf_word_wait(word, step[i].value + h.round, false,
                                   h.timeout_ns))
            step_late(h, step[i]);
    }
}

/*
 * For the first warp of every block, whose threads are done: is this the last
 * block? Then it has seen what all others wrote, and what it releases comes
 * after that, for any GPU and the host: acquire and release at system scope,
 * on behalf of the whole block, which has met.
 */
static __device__ __forceinline__ bool last_block(uint32_t *ticket)
{
    uint32_t before = 0;

    if (!ticket)
        return true;
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.sys.global.add.u32 %0, [%1], 1;"
                     : "=r"(before)
                     : "l"(wharf_word_address(ticket))
                     : "memory");
        if (before == gridDim.x - 1)
            *(volatile uint32_t *)ticket = 0;
    }
    return __shfl_sync(~0u, before, 0) == gridDim.x - 1;
}

/* ---- The kernels ------------------------------------------------------- */

template <typename args>
static __device__ __forceinline__ void set_run(const args &a)
{
    const wi_copy_head &h = a.head;
    uint32_t lane = threadIdx.x;

    wait_for_earlier_work();
    if ((h.flags & WI_COPY_READY_SIGNAL) && blockIdx.x == 0)
        run_signal(h, a.step, WI_COPY_RUN_READY_SIGNALS, lane, WI_COPY_THREADS);
    if (h.flags & WI_COPY_READY_WAIT)
        ready_wait(h, a.step);
    if (h.flags & WI_COPY_PUT) {
        for (uint32_t tile = blockIdx.x; tile < h.tiles; tile += gridDim.x) {
            uint32_t part = part_find(a, tile);

            tile_move(a.part[part], tile - a.first[part]);
        }
    }
    if (!(h.flags & (WI_COPY_READY_WAIT | WI_COPY_SIGNAL | WI_COPY_WAIT)))
        return;
    __syncthreads();
    if (lane >= 32 || !last_block(h.ticket))
        return;
    if (h.flags & WI_COPY_SIGNAL)
        run_signal(h, a.step, WI_COPY_RUN_SIGNALS, lane, 32);
    if (h.flags & WI_COPY_READY_WAIT)
        ready_take(h, a.step, lane);
    /* Signals of a warp are out before one of its threads starts to wait. */
    __syncwarp();
    let_later_work_come();
    if (h.flags & WI_COPY_WAIT)
        last_wait(h, a.step, lane);
}

extern "C" __global__ void __launch_bounds__(WI_COPY_THREADS)
    wi_kernel_copy_few(const __grid_constant__ wi_copy_few args)
{
    set_run(args);
}

extern "C" __global__ void __launch_bounds__(WI_COPY_THREADS)
    wi_kernel_copy_many(const __grid_constant__ wi_copy_many args)
{
    set_run(args);
}
