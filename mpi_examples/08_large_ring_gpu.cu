/* SPDX-License-Identifier: MIT */
/*
 * 08_large_ring on a GPU whose memory a frame is too large for: a frame comes
 * chunk by chunk into two buffers. While a kernel works on one, the copy engine
 * fills the other; events keep the two apart. The last copy of a frame is the
 * end of its slot: the producer may fill it again while the kernel is at work.
 */
#include <cuda_runtime.h>
#include <stdio.h>

#include "08_large_ring.h"

namespace
{

constexpr int buffers = 2;
constexpr int threads = 256;
constexpr int blocks = 264;

int cuda_failed(cudaError_t code, const char *what, struct failure *why)
{
    if (code == cudaSuccess)
        return 0;
    snprintf(why->text, sizeof why->text, "%s: %s", what,
             cudaGetErrorString(code));
    return -1;
}

__device__ unsigned long long weigh(const ulonglong2 &words, uint64_t index)
{
    return words.x * (2 * index + 1) + words.y * (2 * index + 3);
}

/* Adds the checksum of a chunk, whose first word is number `first` of its
 * frame. Chunks are whole pairs of words. */
__global__ void checksum_kernel(const ulonglong2 *data, uint64_t pairs,
                                uint64_t first, unsigned long long *checksum)
{
    uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    unsigned long long sum = 0;

    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
         i < pairs; i += step)
        sum += weigh(data[i], first + 2 * i);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0)
        atomicAdd(checksum, sum);
}

} // namespace

struct large_worker {
    size_t chunk;
    uint64_t cap, taken;
    cudaStream_t copies, kernels;
    void *buffer[buffers];
    cudaEvent_t filled[buffers], freed[buffers];
    int next;                    /* buffer */
    unsigned long long *sums;    /* on the device, one a turn */
    unsigned long long *results; /* the same, page-locked */
    cudaEvent_t done[LARGE_TURNS];
};

namespace
{

/* Device memory, as long as the cap allows it. */
int take(large_worker *w, void **memory, size_t bytes, struct failure *why)
{
    if (w->taken + bytes > w->cap) {
        snprintf(why->text, sizeof why->text,
                 "%zu bytes more would exceed the cap of %llu bytes of device "
                 "memory; raise --cap or lower --chunk",
                 bytes, static_cast<unsigned long long>(w->cap));
        return -1;
    }
    if (cuda_failed(cudaMalloc(memory, bytes), "cudaMalloc", why) != 0)
        return -1;
    w->taken += bytes;
    return 0;
}

int event(cudaEvent_t *to, struct failure *why)
{
    return cuda_failed(cudaEventCreateWithFlags(to, cudaEventDisableTiming),
                       "cudaEventCreate", why);
}

int open_all(large_worker *w, struct failure *why)
{
    size_t sums = LARGE_TURNS * sizeof *w->sums;

    if (cuda_failed(
            cudaStreamCreateWithFlags(&w->copies, cudaStreamNonBlocking),
            "cudaStreamCreate", why) != 0 ||
        cuda_failed(
            cudaStreamCreateWithFlags(&w->kernels, cudaStreamNonBlocking),
            "cudaStreamCreate", why) != 0 ||
        take(w, reinterpret_cast<void **>(&w->sums), sums, why) != 0 ||
        cuda_failed(
            cudaMallocHost(reinterpret_cast<void **>(&w->results), sums),
            "cudaMallocHost", why) != 0)
        return -1;
    for (int i = 0; i < buffers; i++)
        if (take(w, &w->buffer[i], w->chunk, why) != 0 ||
            event(&w->filled[i], why) != 0 || event(&w->freed[i], why) != 0)
            return -1;
    for (int i = 0; i < LARGE_TURNS; i++)
        if (event(&w->done[i], why) != 0)
            return -1;
    return 0;
}

void destroy(cudaEvent_t *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i] != nullptr)
            cudaEventDestroy(events[i]);
}

void gpu_close(struct large_worker *w)
{
    if (w == nullptr)
        return;
    cudaDeviceSynchronize();
    for (int i = 0; i < buffers; i++)
        cudaFree(w->buffer[i]);
    destroy(w->filled, buffers);
    destroy(w->freed, buffers);
    destroy(w->done, LARGE_TURNS);
    cudaFree(w->sums);
    cudaFreeHost(w->results);
    if (w->copies != nullptr)
        cudaStreamDestroy(w->copies);
    if (w->kernels != nullptr)
        cudaStreamDestroy(w->kernels);
    delete w;
}

int gpu_open(size_t chunk, uint64_t cap, struct large_worker **worker,
             struct failure *why)
{
    large_worker *w = new large_worker();

    w->chunk = chunk;
    w->cap = cap;
    if (open_all(w, why) != 0) {
        gpu_close(w);
        return -1;
    }
    *worker = w;
    return 0;
}

wharf_stream gpu_stream(struct large_worker *worker)
{
    return worker->copies;
}

/* One chunk through one buffer. An event that was never recorded holds
 * nobody. */
int chunk(large_worker *w, const char *from, uint64_t at, size_t bytes,
          unsigned long long *sum, struct failure *why)
{
    int b = w->next;

    w->next = (b + 1) % buffers;
    if (cuda_failed(cudaStreamWaitEvent(w->copies, w->freed[b], 0),
                    "cudaStreamWaitEvent", why) != 0 ||
        cuda_failed(cudaMemcpyAsync(w->buffer[b], from + at, bytes,
                                    cudaMemcpyDefault, w->copies),
                    "copy of a chunk", why) != 0 ||
        cuda_failed(cudaEventRecord(w->filled[b], w->copies), "cudaEventRecord",
                    why) != 0 ||
        cuda_failed(cudaStreamWaitEvent(w->kernels, w->filled[b], 0),
                    "cudaStreamWaitEvent", why) != 0)
        return -1;
    checksum_kernel<<<blocks, threads, 0, w->kernels>>>(
        static_cast<const ulonglong2 *>(w->buffer[b]), bytes / 16, at / 8, sum);
    if (cuda_failed(cudaGetLastError(), "checksum kernel", why) != 0)
        return -1;
    return cuda_failed(cudaEventRecord(w->freed[b], w->kernels),
                       "cudaEventRecord", why);
}

int gpu_frame(struct large_worker *w, int turn, const void *frame, size_t bytes,
              struct failure *why)
{
    unsigned long long *sum = w->sums + turn;

    if (cuda_failed(cudaMemsetAsync(sum, 0, sizeof *sum, w->kernels),
                    "cudaMemset", why) != 0)
        return -1;
    for (uint64_t at = 0; at < bytes; at += w->chunk) {
        size_t left = bytes - at;

        if (chunk(w, static_cast<const char *>(frame), at,
                  left < w->chunk ? left : w->chunk, sum, why) != 0)
            return -1;
    }
    if (cuda_failed(cudaMemcpyAsync(w->results + turn, sum, sizeof *sum,
                                    cudaMemcpyDeviceToHost, w->kernels),
                    "copy of a result", why) != 0)
        return -1;
    return cuda_failed(cudaEventRecord(w->done[turn], w->kernels),
                       "cudaEventRecord", why);
}

int gpu_result(struct large_worker *w, int turn, uint64_t *checksum,
               struct failure *why)
{
    if (cuda_failed(cudaEventSynchronize(w->done[turn]), "work on a frame",
                    why) != 0)
        return -1;
    *checksum = w->results[turn];
    return 0;
}

uint64_t gpu_device_bytes(const struct large_worker *w)
{
    return w->taken;
}

} // namespace

extern "C" const struct large_kind large_gpu = {
    "GPU",     gpu_open,   gpu_close,       gpu_stream,
    gpu_frame, gpu_result, gpu_device_bytes};
