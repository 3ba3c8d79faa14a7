/* SPDX-License-Identifier: MIT */
/*
 * The kernels of 07_frame_filter.
 *
 * filter_resident has its frame in the device's memory: a block takes a tile, a
 * piece of one row, and reads the rows above and below as it needs them.
 *
 * filter_streamed has its frame beyond a bus, in host memory or on another GPU,
 * and writes the result there, too. The bus is what takes time, so that
 *   - every byte crosses it once: a block reads a tile and leaves it in device
 *     memory for the blocks that need it as a neighbour;
 *   - both directions are busy: tiles are taken in order, and the result of a
 *     tile is written as soon as its lower neighbours are there, while later
 *     tiles are being read. No tile waits for one that was taken after it, so
 *     that any number of running blocks gets through;
 *   - enough is under way: a block asks for its next tile before it works on
 *     this one, in whole lines of 128 bytes.
 */
#ifndef FILTER_KERNELS_CUH
#define FILTER_KERNELS_CUH

#include <cuda_runtime.h>

#include <cuda/atomic>

#include "07_filter.h"

namespace filter_kernels
{

/* Bytes of a tile: a thread of a block has 16 of them. */
constexpr int tile_most = FILTER_TILE_MOST;

/* Bytes on either side of a tile that its columns at the edge look at; more
 * than 3 * radius, and a whole word of 16. */
constexpr int margin = 16;

struct frame_view {
    const uint8_t *in;
    const uint8_t *table; /* NULL: none */
    uint8_t *out;
    size_t pitch;
    int row, height;
    int tile, tiles; /* bytes of a tile, tiles of a row */
};

/* What blocks of filter_streamed share. Nothing is reset between frames: tiles
 * are marked by the frame's number, tickets count on. */
struct stream_state {
    uint8_t *staged;   /* the frame, as far as it has come */
    unsigned *marks;   /* one a tile */
    unsigned *tickets; /* the next tile to be taken, plus `first` */
    unsigned first;
    unsigned number; /* of the frame */
};

template <int radius> struct bell;
template <> struct bell<2> {
    static constexpr int shift = 4;
    static __device__ unsigned weight(int k)
    {
        return k == 0 ? 6 : k == 1 ? 4 : 1;
    }
};
template <> struct bell<3> {
    static constexpr int shift = 6;
    static __device__ unsigned weight(int k)
    {
        return k == 0 ? 20 : k == 1 ? 15 : k == 2 ? 6 : 1;
    }
};

__device__ int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/* Sums of 16 columns over 2 * radius + 1 rows, in the order of the columns. The
 * columns are added two and two: a sum is less than 2^16. */
template <int radius>
__device__ void sum_rows(const frame_view &f, const uint8_t *frame, int y,
                         int at, uint16_t *sums)
{
    uint32_t even[4] = {}, odd[4] = {};

#pragma unroll
    for (int k = -radius; k <= radius; k++) {
        const uint8_t *row = frame + f.pitch * clamp(y + k, f.height - 1);
        uint4 four = __ldcg(reinterpret_cast<const uint4 *>(row + at));
        uint32_t words[4] = {four.x, four.y, four.z, four.w};
        unsigned weight = bell<radius>::weight(k < 0 ? -k : k);

        for (int i = 0; i < 4; i++) {
            even[i] += weight * (words[i] & 0x00ff00ffu);
            odd[i] += weight * (words[i] >> 8 & 0x00ff00ffu);
        }
    }
    uint4 *to = reinterpret_cast<uint4 *>(sums);

    for (int i = 0; i < 2; i++)
        to[i] =
            make_uint4(__byte_perm(even[2 * i], odd[2 * i], 0x5410),
                       __byte_perm(even[2 * i], odd[2 * i], 0x7632),
                       __byte_perm(even[2 * i + 1], odd[2 * i + 1], 0x5410),
                       __byte_perm(even[2 * i + 1], odd[2 * i + 1], 0x7632));
}

/* 16 results from the sums around them, `sums` at the first one's. */
template <int radius, bool correct>
__device__ uint4 smooth(const uint16_t *sums, uint4 gains)
{
    /* The 8 or 16 sums before and after are whole words, too. */
    constexpr int before = radius == 2 ? 8 : 16;
    constexpr int shift = 2 * bell<radius>::shift;
    uint32_t pairs[(before + 16 + before) / 2];
    uint32_t table[4] = {gains.x, gains.y, gains.z, gains.w};
    uint32_t result[4] = {};

#pragma unroll
    for (int i = 0; i < before + 8; i += 4) {
        uint4 four = *reinterpret_cast<const uint4 *>(sums - before + 2 * i);

        pairs[i] = four.x;
        pairs[i + 1] = four.y;
        pairs[i + 2] = four.z;
        pairs[i + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        uint32_t sum = 1u << (shift - 1);

#pragma unroll
        for (int k = -radius; k <= radius; k++) {
            int j = before + i + 3 * k;

            sum += bell<radius>::weight(k < 0 ? -k : k) *
                   (pairs[j / 2] >> 16 * (j % 2) & 0xffffu);
        }
        sum >>= shift;
        if (correct)
            sum = min(
                255u,
                (sum * (128u + (table[i / 4] >> 8 * (i % 4) & 0xffu)) + 128u) >>
                    8);
        result[i / 4] |= sum << 8 * (i % 4);
    }
    return make_uint4(result[0], result[1], result[2], result[3]);
}

/* Beyond the ends of a row its outermost pixels repeat. `sums` is at column
 * begin - margin. */
template <int radius>
__device__ void repeat_edges(const frame_view &f, int begin, int end,
                             uint16_t *sums)
{
    int i = threadIdx.x;

    if (i >= 3 * radius)
        return;
    if (begin == 0)
        sums[margin - 1 - i] = sums[margin + 2 - i % 3];
    if (f.row + i < end + margin)
        sums[f.row + i - begin + margin] =
            sums[f.row - 3 + i % 3 - begin + margin];
}

/* The result of tile `index`, by the whole block. `frame` is readable by now,
 * as far as the tile needs it. */
template <int radius, bool correct>
__device__ void filter_tile(const frame_view &f, const uint8_t *frame,
                            unsigned index, uint4 gains, uint16_t *sums)
{
    int y = index / f.tiles;
    int begin = index % f.tiles * f.tile;
    int end = min(begin + f.tile, static_cast<int>(f.pitch));
    int mine = begin + 16 * threadIdx.x;

    for (int at = begin - margin + 16 * threadIdx.x; at < end + margin;
         at += 16 * blockDim.x)
        if (at >= 0 && at < static_cast<int>(f.pitch))
            sum_rows<radius>(f, frame, y, at, sums + at - begin + margin);
    __syncthreads();
    repeat_edges<radius>(f, begin, end, sums);
    __syncthreads();
    if (mine < end)
        *reinterpret_cast<uint4 *>(f.out + f.pitch * y + mine) =
            smooth<radius, correct>(sums + margin + 16 * threadIdx.x, gains);
}

/* This thread's 16 bytes of a tile; asked for once, so not to be kept. */
__device__ uint4 tile_word(const frame_view &f, const uint8_t *frame,
                           unsigned index)
{
    int at = index % f.tiles * f.tile + 16 * threadIdx.x;

    if (16 * threadIdx.x >= f.tile || at >= static_cast<int>(f.pitch))
        return make_uint4(0, 0, 0, 0);
    return __ldcs(reinterpret_cast<const uint4 *>(
        frame + f.pitch * (index / f.tiles) + at));
}

template <int radius, bool correct>
__global__ void __launch_bounds__(tile_most / 16) filter_resident(frame_view f)
{
    __shared__ uint4 sums[(tile_most + 2 * margin) / 8];
    uint4 gains = make_uint4(0, 0, 0, 0);

    if (correct)
        gains = tile_word(f, f.table, blockIdx.x);
    filter_tile<radius, correct>(f, f.in, blockIdx.x, gains,
                                 reinterpret_cast<uint16_t *>(sums));
}

/* ---- Streamed ---------------------------------------------------------- */

using mark = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

/* The next tile of the frame, the same for the whole block. */
__device__ unsigned take_ticket(const stream_state &s)
{
    __shared__ unsigned ticket;

    __syncthreads();
    if (threadIdx.x == 0)
        ticket = atomicAdd(s.tickets, 1) - s.first;
    __syncthreads();
    return ticket;
}

/* Leaves a tile for the other blocks, and says so. */
__device__ void stage_tile(const frame_view &f, const stream_state &s,
                           unsigned index, uint4 word)
{
    int at = index % f.tiles * f.tile + 16 * threadIdx.x;

    if (16 * threadIdx.x < f.tile && at < static_cast<int>(f.pitch))
        __stcg(reinterpret_cast<uint4 *>(s.staged +
                                         f.pitch * (index / f.tiles) + at),
               word);
    __syncthreads();
    if (threadIdx.x == 0)
        mark(s.marks[index]).store(s.number, cuda::memory_order_release);
}

/* Holds the block until tile `index` and its neighbours are staged. */
template <int radius>
__device__ void wait_neighbours(const frame_view &f, const stream_state &s,
                                unsigned index)
{
    int i = threadIdx.x;

    if (i < 3 * (2 * radius + 1)) {
        int y = clamp(static_cast<int>(index / f.tiles) + i / 3 - radius,
                      f.height - 1);
        int x =
            clamp(static_cast<int>(index % f.tiles) + i % 3 - 1, f.tiles - 1);

        while (
            mark(s.marks[y * f.tiles + x]).load(cuda::memory_order_acquire) !=
            s.number)
            __nanosleep(20);
    }
    __syncthreads();
}

/* The result of a tile is written `late` tickets after it was taken: by then
 * the last of its neighbours has been taken, the lower right one. */
template <int radius, bool correct>
__global__ void __launch_bounds__(tile_most / 16)
    filter_streamed(frame_view f, stream_state s)
{
    __shared__ uint4 sums[(tile_most + 2 * margin) / 8];
    unsigned count = f.tiles * f.height;
    unsigned late = radius * f.tiles + 1;
    unsigned now = take_ticket(s);
    uint4 word = make_uint4(0, 0, 0, 0), gains = word;

    if (now < count)
        word = tile_word(f, f.in, now);
    while (now < count + late) {
        uint4 next_word = make_uint4(0, 0, 0, 0);
        unsigned next;

        if (now < count)
            stage_tile(f, s, now, word);
        next = take_ticket(s);
        if (next < count)
            next_word = tile_word(f, f.in, next);
        if (now >= late) {
            if (correct)
                gains = tile_word(f, f.table, now - late);
            wait_neighbours<radius>(f, s, now - late);
            filter_tile<radius, correct>(f, s.staged, now - late, gains,
                                         reinterpret_cast<uint16_t *>(sums));
        }
        now = next;
        word = next_word;
    }
}

} // namespace filter_kernels

#endif
