/* SPDX-License-Identifier: MIT */
/* The filter on a GPU: its memory, how the work is cut, and the ways by which
 * frames come and go. The kernels are in 07_filter_kernels.cuh. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "07_filter.h"
#include "07_filter_kernels.cuh"

using namespace filter_kernels;

namespace
{

constexpr int tile_default = 2048;

int cuda_failed(cudaError_t code, const char *what, struct failure *why)
{
    if (code == cudaSuccess)
        return 0;
    snprintf(why->text, sizeof why->text, "%s: %s", what,
             cudaGetErrorString(code));
    return -1;
}

} // namespace

/* How the work on a frame is cut. */
struct shape {
    int direct;      /* 1: filter_resident */
    int tile, tiles; /* bytes of a tile, tiles of a row */
    int threads, blocks;
};

struct filter {
    struct filter_options options;
    int processors;
    shape resident; /* for frames on the device */
    shape ring;     /* for a slot of a ring, wherever it is */
    shape mapped;   /* for frames in host memory */
    cudaStream_t stream;
    cudaEvent_t event, blocking;
    uint8_t *in, *out, *table; /* on the device */
    stream_state state;
};

namespace
{

frame_view view(const filter *f, const shape &how, const uint8_t *in,
                const uint8_t *table, uint8_t *out)
{
    const frame_format &format = f->options.format;

    return {in,
            table,
            out,
            format.pitch,
            static_cast<int>(format.row),
            format.height,
            how.tile,
            how.tiles};
}

/* Each block of filter_streamed takes one ticket more than there is work for.
 */
template <int radius, bool correct>
void launch(filter *f, const shape &how, const frame_view &v)
{
    if (how.direct) {
        filter_resident<radius, correct>
            <<<how.tiles * v.height, how.threads, 0, f->stream>>>(v);
        return;
    }
    f->state.number++;
    filter_streamed<radius, correct>
        <<<how.blocks, how.threads, 0, f->stream>>>(v, f->state);
    f->state.first +=
        how.tiles * v.height + radius * how.tiles + 1 + how.blocks;
}

void gpu_close(struct filter *f)
{
    if (f == nullptr)
        return;
    cudaDeviceSynchronize();
    cudaFree(f->in);
    cudaFree(f->out);
    cudaFree(f->table);
    cudaFree(f->state.staged);
    cudaFree(f->state.marks);
    if (f->event != nullptr)
        cudaEventDestroy(f->event);
    if (f->blocking != nullptr)
        cudaEventDestroy(f->blocking);
    if (f->stream != nullptr)
        cudaStreamDestroy(f->stream);
    delete f;
}

/* Marks, as many as the smallest tiles need, and behind them the tickets. */
int open_state(filter *f, struct failure *why)
{
    size_t marks =
        f->options.format.pitch / FRAME_ALIGN * f->options.format.height;
    void *memory = nullptr;

    if (cuda_failed(cudaMalloc(&memory, (marks + 1) * sizeof(unsigned)),
                    "cudaMalloc", why) != 0)
        return -1;
    f->state.marks = static_cast<unsigned *>(memory);
    f->state.tickets = f->state.marks + marks;
    return cuda_failed(cudaMemset(memory, 0, (marks + 1) * sizeof(unsigned)),
                       "cudaMemset", why);
}

int open_memory(filter *f, struct failure *why)
{
    size_t bytes = f->options.format.bytes;
    uint8_t **all[] = {&f->in, &f->out, &f->table, &f->state.staged};

    for (uint8_t **one : all)
        if (cuda_failed(cudaMalloc(one, bytes), "cudaMalloc of a frame", why) !=
            0)
            return -1;
    return cuda_failed(
        cudaMemcpy(f->table, f->options.table, bytes, cudaMemcpyDefault),
        "copy of the table", why);
}

/* Rows in equal tiles of whole lines, of up to `most` bytes. */
shape make_shape(const filter *f, int direct, int most, int blocks)
{
    int pitch = static_cast<int>(f->options.format.pitch);
    shape how = {};

    most = most / FRAME_ALIGN * FRAME_ALIGN;
    how.direct = direct;
    how.tiles = (pitch + most - 1) / most;
    how.tile = ((pitch + how.tiles - 1) / how.tiles + FRAME_ALIGN - 1) /
               FRAME_ALIGN * FRAME_ALIGN;
    how.tiles = (pitch + how.tile - 1) / how.tile;
    how.threads = (how.tile / 16 + 31) / 32 * 32;
    how.blocks = blocks > 0 ? blocks : 1;
    return how;
}

int open_shapes(filter *f, struct failure *why)
{
    const filter_options &o = f->options;
    int tile = o.tile > 0 ? o.tile : tile_default;
    int device = 0;

    if (cuda_failed(cudaGetDevice(&device), "cudaGetDevice", why) != 0 ||
        cuda_failed(cudaDeviceGetAttribute(
                        &f->processors, cudaDevAttrMultiProcessorCount, device),
                    "cudaDeviceGetAttribute", why) != 0)
        return -1;
    f->resident = make_shape(f, 1, tile_default, 0);
    f->ring = make_shape(f, 0, tile_default, 2 * f->processors);
    f->mapped = make_shape(f, o.direct, tile,
                           o.blocks > 0 ? o.blocks : 2 * f->processors);
    return 0;
}

int gpu_open(const struct filter_options *options, struct filter **filter,
             struct failure *why)
{
    struct filter *f = new struct filter();

    f->options = *options;
    if (open_shapes(f, why) != 0 || open_memory(f, why) != 0 ||
        open_state(f, why) != 0 ||
        cuda_failed(
            cudaStreamCreateWithFlags(&f->stream, cudaStreamNonBlocking),
            "cudaStreamCreate", why) != 0 ||
        cuda_failed(cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming),
                    "cudaEventCreate", why) != 0 ||
        cuda_failed(
            cudaEventCreateWithFlags(&f->blocking, cudaEventDisableTiming |
                                                       cudaEventBlockingSync),
            "cudaEventCreate", why) != 0) {
        gpu_close(f);
        return -1;
    }
    *filter = f;
    return 0;
}

wharf_stream gpu_stream(struct filter *filter)
{
    return filter->stream;
}

template <int radius, bool correct>
int run_copied(filter *f, const uint8_t *in, uint8_t *out, struct failure *why)
{
    size_t bytes = f->options.format.bytes;

    if (cuda_failed(
            cudaMemcpyAsync(f->in, in, bytes, cudaMemcpyDefault, f->stream),
            "copy to the GPU", why) != 0)
        return -1;
    launch<radius, correct>(f, f->resident,
                            view(f, f->resident, f->in, f->table, f->out));
    return cuda_failed(
        cudaMemcpyAsync(out, f->out, bytes, cudaMemcpyDefault, f->stream),
        "copy from the GPU", why);
}

template <int radius, bool correct>
int run(filter *f, enum way way, const uint8_t *in, uint8_t *out,
        struct failure *why)
{
    if (way == WAY_COPY) {
        if (run_copied<radius, correct>(f, in, out, why) != 0)
            return -1;
    } else {
        const shape &how = way == WAY_RING ? f->ring : f->mapped;

        launch<radius, correct>(
            f, how,
            view(f, how, in, way == WAY_MAPPED ? f->options.table : f->table,
                 out));
    }
    return cuda_failed(cudaGetLastError(), "filter kernel", why);
}

int gpu_run(struct filter *filter, enum way way, int use_table,
            const uint8_t *in, uint8_t *out, struct failure *why)
{
    if (filter->options.radius == 2)
        return use_table ? run<2, true>(filter, way, in, out, why)
                         : run<2, false>(filter, way, in, out, why);
    return use_table ? run<3, true>(filter, way, in, out, why)
                     : run<3, false>(filter, way, in, out, why);
}

/* Mean time of a mapped frame with the shape that is set, in us. */
int time_frames(filter *f, const uint8_t *in, uint8_t *out, double *time,
                struct failure *why)
{
    constexpr int frames = 5;
    cudaEvent_t from = nullptr, to = nullptr;
    float ms = 0;
    int status = cuda_failed(cudaEventCreate(&from), "cudaEventCreate", why);

    if (status == 0)
        status = cuda_failed(cudaEventCreate(&to), "cudaEventCreate", why);
    for (int k = -1; k < frames && status == 0; k++) {
        status = gpu_run(f, WAY_MAPPED, 0, in, out, why);
        if (k < 0 && status == 0)
            status = cuda_failed(cudaEventRecord(from, f->stream),
                                 "cudaEventRecord", why);
    }
    if (status == 0 &&
        (cuda_failed(cudaEventRecord(to, f->stream), "cudaEventRecord", why) !=
             0 ||
         cuda_failed(cudaEventSynchronize(to), "filter", why) != 0 ||
         cuda_failed(cudaEventElapsedTime(&ms, from, to),
                     "cudaEventElapsedTime", why) != 0))
        status = -1;
    if (from != nullptr)
        cudaEventDestroy(from);
    if (to != nullptr)
        cudaEventDestroy(to);
    *time = ms * 1e3 / frames;
    return status;
}

/* What suits a bus depends on GPU and host, so it is measured: few blocks leave
 * it idle, many make the writing late. The resident kernel takes part, since a
 * GPU's cache may hold what neighbours share. */
int gpu_tune(struct filter *f, const uint8_t *in, uint8_t *out, char *said,
             size_t capacity, struct failure *why)
{
    /* direct, bytes of a tile, blocks for every four multiprocessors */
    static const int tried[][3] = {{0, 2048, 4}, {0, 2048, 8},  {0, 2048, 16},
                                   {0, 1024, 8}, {0, 1024, 16}, {0, 6144, 2},
                                   {0, 6144, 4}, {1, 2048, 0},  {1, 6144, 0}};
    const filter_options &o = f->options;
    shape best = f->mapped;
    double least = 0, time = 0;

    for (const int *t : tried) {
        if (o.direct || o.tile > 0 || o.blocks > 0)
            break;
        f->mapped = make_shape(f, t[0], t[1], t[2] * f->processors / 4);
        if (time_frames(f, in, out, &time, why) != 0)
            return -1;
        if (least == 0 || time < least) {
            least = time;
            best = f->mapped;
        }
    }
    f->mapped = best;
    if (best.direct)
        snprintf(
            said, capacity,
            "resident kernel, tiles of %d bytes; neighbours from the cache",
            best.tile);
    else
        snprintf(said, capacity,
                 "streamed kernel, %d blocks, tiles of %d bytes", best.blocks,
                 best.tile);
    return 0;
}

int gpu_load(struct filter *filter, void *slot, const uint8_t *frame,
             size_t bytes, struct failure *why)
{
    return cuda_failed(
        cudaMemcpyAsync(slot, frame, bytes, cudaMemcpyDefault, filter->stream),
        "copy into the ring", why);
}

int wait_event(filter *f, cudaEvent_t event, struct failure *why)
{
    if (cuda_failed(cudaEventRecord(event, f->stream), "cudaEventRecord",
                    why) != 0)
        return -1;
    return cuda_failed(cudaEventSynchronize(event), "filter", why);
}

int gpu_wait(struct filter *filter, enum frame_end end, struct failure *why)
{
    switch (end) {
    case END_EVENT:
        return wait_event(filter, filter->event, why);
    case END_EVENT_BLOCKING:
        return wait_event(filter, filter->blocking, why);
    case END_DEVICE:
        return cuda_failed(cudaDeviceSynchronize(), "filter", why);
    default:
        return cuda_failed(cudaStreamSynchronize(filter->stream), "filter",
                           why);
    }
}

void gpu_traffic(const struct filter *filter, enum way way, int use_table,
                 struct filter_traffic *traffic)
{
    uint64_t bytes = filter->options.format.bytes;

    traffic->in = way == WAY_MAPPED && use_table ? 2 * bytes : bytes;
    traffic->out = bytes;
}

} // namespace

extern "C" const struct filter_kind filter_gpu = {
    "GPU",     WHARF_SPACE_DEVICE, 1,          gpu_open,
    gpu_close, gpu_stream,         gpu_tune,   gpu_run,
    gpu_load,  gpu_wait,           gpu_traffic};
