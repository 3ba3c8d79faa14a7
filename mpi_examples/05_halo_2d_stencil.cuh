/* SPDX-License-Identifier: MIT */
/*
 * The kernel of 05_halo_2d: one Jacobi step of a block of rows.
 *
 * It is bound by memory, so all is about keeping enough bytes under way and
 * touching each of them once. A thread has 4 columns of a tile and loads all
 * its rows before it computes any; a warp's columns are neighbours, and what
 * lies left and right of a thread comes from the next lane.
 *
 * The grid starts with blocks for the first and the last row, one row each, so
 * that neighbours get them as early as can be; blocks with tiles of the inner
 * rows follow. These never look at a ghost row. Every second step goes through
 * them backwards: what the last step wrote at its end is then still in the
 * cache.
 *
 * In mode kernel the first blocks wait for the neighbour's row of the last
 * step, and store their new row into the neighbour's ghost row as well. Each
 * has a word of its own in the neighbour's memory in which it counts its steps.
 * The neighbour's block of the same columns waits for that before its next
 * step. That is all the order that is needed: a ghost row of one array is
 * written in step r, after the neighbour's word has said that its step r - 1 is
 * done, which was the last one to read that row before.
 */
#ifndef HALO_2D_STENCIL_CUH
#define HALO_2D_STENCIL_CUH

#include <cuda_runtime.h>
#include <wharf/device.cuh>

namespace halo
{

constexpr int threads = 128; /* of a block */
constexpr int tile_columns = 4 * threads;
constexpr int group = 128;     /* columns of a warp */
constexpr int word_stride = 8; /* of flags, in words */

/* One side of a block of rows, in mode kernel. */
struct border {
    float4 *ghost;        /* the row in the neighbour's memory to be written */
    uint32_t *there;      /* the neighbour's words, of its tile 0 */
    const uint32_t *here; /* what the neighbour has written */
    uint32_t *done;       /* steps made by this side's blocks */
};

struct step {
    const float4 *from; /* row 0 of the block */
    float4 *to;
    size_t pitch; /* float4 from row to row */
    int rows, columns;
    int edges; /* 1: the grid starts with the blocks of the edges */
    int inner; /* 1: it has those of the inner rows */
    int backwards;
    double *sums;    /* [group][row], for kernels with SUMS */
    int mode_kernel; /* 1: the borders mean something */
    border up, down;
    uint32_t *late; /* becomes 1 when a neighbour does not come */
    uint64_t timeout_ns;
};

/* ---- Memory ------------------------------------------------------------ */

/* What nobody writes during the kernel. With HINT the cache may drop it first,
 * so that it keeps what is written: that is what the next step reads. */
template <int HINT> __device__ __forceinline__ float4 load(const float4 *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (HINT) {
        float4 value;

        asm volatile("{\n\t"
                     ".reg .b64 policy;\n\t"
                     "createpolicy.fractional.L2::evict_first.b64 policy, "
                     "1.0;\n\t"
                     "ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, "
                     "[%4], policy;\n\t"
                     "}"
                     : "=f"(value.x), "=f"(value.y), "=f"(value.z),
                       "=f"(value.w)
                     : "l"(from));
        return value;
    }
#endif
    return __ldg(from);
}

/* ---- One row of 4 columns ---------------------------------------------- */

__device__ __forceinline__ float mean(float left, float right, float up,
                                      float down)
{
    return __fmul_rn(0.25f,
                     __fadd_rn(__fadd_rn(left, right), __fadd_rn(up, down)));
}

/* Where a thread works. */
struct place {
    int lane;
    size_t column4;   /* float4 from the start of a row */
    ptrdiff_t beside; /* float from the first of its own: the one left of the
                         warp (lane 0) or right of it (lane 31) */
    bool first;       /* has column 0 */
    int last;         /* the last column, from the first of its own */
};

__device__ __forceinline__ place find_place(const step &s, int tile)
{
    place p;
    int column = tile * tile_columns + 4 * static_cast<int>(threadIdx.x);

    p.lane = threadIdx.x % 32;
    p.column4 = column / 4;
    p.first = column == 0;
    p.last = s.columns - 1 - column;
    /* Beyond the grid there is nothing to read, and nothing is asked. */
    p.beside = p.lane == 0 ? (p.first ? 0 : -1) : (p.last >= 4 ? 4 : 0);
    return p;
}

__device__ __forceinline__ bool at_side(const place &p)
{
    return p.lane == 0 || p.lane == 31;
}

template <int HINT>
__device__ __forceinline__ float load_beside(const place &p, const float4 *row)
{
    return at_side(p) ? __ldg(reinterpret_cast<const float *>(row) + p.beside)
                      : 0.0f;
}

__device__ __forceinline__ float4 relax(const place &p, float4 up, float4 row,
                                        float4 down, float beside)
{
    float left = __shfl_up_sync(~0u, row.w, 1);
    float right = __shfl_down_sync(~0u, row.x, 1);
    float4 to;

    left = p.lane == 0 ? beside : left;
    right = p.lane == 31 ? beside : right;
    to.x = mean(left, row.y, up.x, down.x);
    to.y = mean(row.x, row.z, up.y, down.y);
    to.z = mean(row.y, row.w, up.z, down.z);
    to.w = mean(row.z, right, up.w, down.w);
    /* Columns that never change, and what fills the last group. */
    if (p.first || p.last < 4) {
        to.x = p.first || p.last <= 0 ? row.x : to.x;
        to.y = p.last <= 1 ? row.y : to.y;
        to.z = p.last <= 2 ? row.z : to.z;
        to.w = p.last <= 3 ? row.w : to.w;
    }
    return to;
}

/* As halo_row_sum does it: 4 columns, a tree of 32, and the groups apart. */
__device__ __forceinline__ void add_up(const step &s, const place &p, int row,
                                       float4 from, float4 to)
{
    double x = __fsub_rn(to.x, from.x), y = __fsub_rn(to.y, from.y);
    double z = __fsub_rn(to.z, from.z), w = __fsub_rn(to.w, from.w);
    double sum = __dadd_rn(__dadd_rn(__dmul_rn(x, x), __dmul_rn(y, y)),
                           __dadd_rn(__dmul_rn(z, z), __dmul_rn(w, w)));

    for (int half = 16; half > 0; half /= 2)
        sum = __dadd_rn(sum, __shfl_down_sync(~0u, sum, half));
    if (p.lane == 0)
        s.sums[p.column4 * 4 / group * s.rows + row] = sum;
}

/* ---- Edges ------------------------------------------------------------- */

/* Holds the block until the neighbour has done as many steps as this block. */
__device__ __forceinline__ void wait_for(const step &s, const border &b,
                                         int tile)
{
    if (threadIdx.x == 0 && *s.late == 0 &&
        !wharf_word_wait(b.here + tile * word_stride,
                         b.done[tile * word_stride], false, s.timeout_ns))
        wharf_word_write(s.late, 1);
}

/* Counts the step, for the neighbour and for this block's next one. */
__device__ __forceinline__ void tell(const border &b, int tile)
{
    uint32_t done = b.done[tile * word_stride] + 1;

    wharf_word_write(b.there + tile * word_stride, done);
    b.done[tile * word_stride] = done;
}

template <bool SUMS> __device__ void edge(const step &s, int block, int tiles)
{
    int tile = block % tiles;
    int row = block < tiles ? 0 : s.rows - 1;
    bool up = s.mode_kernel && row == 0;
    bool down = s.mode_kernel && row == s.rows - 1;
    place p = find_place(s, tile);
    const float4 *from = s.from + row * s.pitch + p.column4;
    bool inside = p.column4 < s.pitch;

    if (up)
        wait_for(s, s.up, tile);
    if (down)
        wait_for(s, s.down, tile);
    if (s.mode_kernel)
        __syncthreads();
    if (inside) {
        /* Ghost rows come from elsewhere during this kernel: no cache but L2 */
        float4 above = __ldcg(from - s.pitch);
        float4 below = __ldcg(from + s.pitch);
        float4 old = __ldcg(from);
        float beside = load_beside<0>(p, from);
        float4 to = relax(p, above, old, below, beside);

        if (up)
            s.up.ghost[p.column4] = to;
        if (down)
            s.down.ghost[p.column4] = to;
        s.to[row * s.pitch + p.column4] = to;
        if (SUMS)
            add_up(s, p, row, old, to);
    }
    if (!s.mode_kernel)
        return;
    __syncthreads();
    if (threadIdx.x == 0 && up)
        tell(s.up, tile);
    if (threadIdx.x == 0 && down)
        tell(s.down, tile);
}

/* ---- Inner rows -------------------------------------------------------- */

/* The last tile of a column may have less rows. */
template <int HINT, bool SUMS>
__device__ void cut_tile(const step &s, const place &p, int begin, int end)
{
    const float4 *from = s.from + begin * s.pitch + p.column4;
    float4 *to = s.to + begin * s.pitch + p.column4;
    float4 above = load<HINT>(from - s.pitch), row = load<HINT>(from);

    for (int r = begin; r < end; r++) {
        float4 below = load<HINT>(from + s.pitch);
        float4 value = relax(p, above, row, below, load_beside<HINT>(p, from));

        *to = value;
        if (SUMS)
            add_up(s, p, r, row, value);
        above = row;
        row = below;
        from += s.pitch;
        to += s.pitch;
    }
}

/* STEPS times ROWS rows, all loads of ROWS of them before the first use. */
template <int ROWS, int STEPS, int HINT, bool SUMS>
__device__ __forceinline__ void whole_tile(const step &s, const place &p,
                                           int begin)
{
    const float4 *from = s.from + begin * s.pitch + p.column4;
    float4 *to = s.to + begin * s.pitch + p.column4;
    float4 row[ROWS + 2];
    float beside[ROWS];

    row[0] = load<HINT>(from - s.pitch);
    row[1] = load<HINT>(from);
#pragma unroll 1
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            row[i + 2] = load<HINT>(from + (i + 1) * s.pitch);
            beside[i] = load_beside<HINT>(p, from + i * s.pitch);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            float4 value = relax(p, row[i], row[i + 1], row[i + 2], beside[i]);

            to[i * s.pitch] = value;
            if (SUMS)
                add_up(s, p, begin + k * ROWS + i, row[i + 1], value);
        }
        row[0] = row[ROWS];
        row[1] = row[ROWS + 1];
        from += ROWS * s.pitch;
        to += ROWS * s.pitch;
    }
}

/* Blocks that fit on a multiprocessor by their registers. */
constexpr int fitting(int rows)
{
    return rows <= 4 ? 8 : rows <= 8 ? 6 : rows <= 16 ? 4 : 2;
}

template <int ROWS, int STEPS, int HINT, bool SUMS>
__global__ void __launch_bounds__(threads, fitting(ROWS))
    step_kernel(const __grid_constant__ step s)
{
    constexpr int tall = ROWS * STEPS;
    int tiles =
        static_cast<int>((s.pitch * 4 + tile_columns - 1) / tile_columns);
    int block = blockIdx.x;
    int edges = s.edges ? (s.rows > 1 ? 2 * tiles : tiles) : 0;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    /* With an early launch: the next step's blocks may take free places now;
     * this one's go on when the last step is complete. */
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (block < edges) {
        edge<SUMS>(s, block, tiles);
        return;
    }
    block -= edges;
    if (s.backwards)
        block = static_cast<int>(gridDim.x) - edges - 1 - block;

    place p = find_place(s, block % tiles);
    int begin = 1 + block / tiles * tall;

    /* Whole warps only: the pitch is a multiple of a warp's columns. */
    if (p.column4 >= s.pitch)
        return;
    if (begin + tall <= s.rows - 1)
        whole_tile<ROWS, STEPS, HINT, SUMS>(s, p, begin);
    else
        cut_tile<HINT, SUMS>(s, p, begin, s.rows - 1);
}

/* The groups of a row, one after the other. */
static __global__ void sum_kernel(const double *sums, int groups, int rows,
                                  double *to)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;

    if (row >= rows)
        return;
    for (int i = 0; i < groups; i++)
        sum = __dadd_rn(sum, sums[static_cast<size_t>(i) * rows + row]);
    to[row] = sum;
}

/* ---- Launching --------------------------------------------------------- */

struct variant {
    const char *name;
    void (*kernel)(step);
    int tall;   /* rows of a tile */
    bool turns; /* goes backwards every second step */
};

/* A tile's rows, how often it goes on downwards, whether the cache is told to
 * drop what was read. The first one is the default: on H200 the fastest at
 * 16384 x 16384, and within 10 % of r4h at 4096 x 4096 over two GPUs. */
static const variant variants[] = {
    {"r4", step_kernel<4, 1, 0, false>, 4, true},
    {"r8", step_kernel<8, 1, 0, false>, 8, true},
    {"r16", step_kernel<16, 1, 0, false>, 16, true},
    {"r32", step_kernel<32, 1, 0, false>, 32, true},
    {"r8x4", step_kernel<8, 4, 0, false>, 32, true},
    {"r4h", step_kernel<4, 1, 1, false>, 4, true},
    {"r8h", step_kernel<8, 1, 1, false>, 8, true},
    {"r16h", step_kernel<16, 1, 1, false>, 16, true},
    {"r8x4h", step_kernel<8, 4, 1, false>, 32, true},
    {"r8-down", step_kernel<8, 1, 0, false>, 8, false},
    {"r16-down", step_kernel<16, 1, 0, false>, 16, false},
};
constexpr int variant_count = sizeof variants / sizeof variants[0];

/* The one that adds up what changed. */
static const variant summing = {"sums", step_kernel<8, 1, 0, true>, 8, true};

inline cudaError_t launch(const variant &v, const step &s, bool early,
                          cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    int tiles =
        static_cast<int>((s.pitch * 4 + tile_columns - 1) / tile_columns);
    int blocks = 0;

    if (s.edges)
        blocks += s.rows > 1 ? 2 * tiles : tiles;
    if (s.inner && s.rows > 2)
        blocks += (s.rows - 2 + v.tall - 1) / v.tall * tiles;
    if (blocks == 0)
        return cudaSuccess;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(threads);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&config, v.kernel, s);
}

} // namespace halo

#endif
