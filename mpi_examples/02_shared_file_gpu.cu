/* SPDX-License-Identifier: MIT */
/*
 * 02_shared_file on a GPU: reads through page-locked memory into the shared
 * copy on the device, digests by a kernel.
 *
 * Every thread of the kernel takes one strip of the piece, computes its CRC by
 * table, and counts its bytes. The CRCs of the strips are combined on the CPU.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <vector>

#include "02_shared_file.h"

namespace
{

constexpr size_t stage_bytes = size_t(4) << 20;
constexpr int stages = 2;

/* Strips are whole 16-byte words: shares start at multiples of a page. */
constexpr uint64_t strip_least = 4096;
constexpr uint64_t strips_most = 1 << 18;
constexpr int threads = 256;

int cuda_failed(cudaError_t code, const char *what, struct failure *why)
{
    if (code == cudaSuccess)
        return 0;
    snprintf(why->text, sizeof why->text, "%s: %s", what,
             cudaGetErrorString(code));
    return -1;
}

/* Page-locked memory in two halves: one is read into while the other is copied
 * to the device. */
struct staging {
    cudaStream_t stream = nullptr;
    char *memory[stages] = {};
    cudaEvent_t copied[stages] = {};

    int open(struct failure *why)
    {
        if (cuda_failed(
                cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                "cudaStreamCreate", why) != 0)
            return -1;
        for (int i = 0; i < stages; i++) {
            if (cuda_failed(cudaMallocHost(&memory[i], stage_bytes),
                            "cudaMallocHost", why) != 0 ||
                cuda_failed(cudaEventCreateWithFlags(&copied[i],
                                                     cudaEventDisableTiming),
                            "cudaEventCreate", why) != 0)
                return -1;
        }
        return 0;
    }

    ~staging()
    {
        if (stream != nullptr) {
            cudaStreamSynchronize(stream);
            cudaStreamDestroy(stream);
        }
        for (int i = 0; i < stages; i++) {
            if (copied[i] != nullptr)
                cudaEventDestroy(copied[i]);
            cudaFreeHost(memory[i]);
        }
    }
};

int gpu_load(int fd, const struct piece *piece, void *copy,
             shared_file_progress progress, void *argument, struct failure *why)
{
    staging stage;
    int turn = 0;

    if (stage.open(why) != 0)
        return -1;
    for (uint64_t done = 0; done < piece->bytes; turn = (turn + 1) % stages) {
        uint64_t at = piece->begin + done;
        size_t step = stage_bytes;

        if (step > piece->bytes - done)
            step = piece->bytes - done;
        /* An event that was never recorded is complete. */
        if (cuda_failed(cudaEventSynchronize(stage.copied[turn]),
                        "copy to the GPU", why) != 0 ||
            shared_file_read(fd, at, stage.memory[turn], step, why) != 0 ||
            cuda_failed(cudaMemcpyAsync(static_cast<char *>(copy) + at,
                                        stage.memory[turn], step,
                                        cudaMemcpyHostToDevice, stage.stream),
                        "copy to the GPU", why) != 0 ||
            cuda_failed(cudaEventRecord(stage.copied[turn], stage.stream),
                        "cudaEventRecord", why) != 0)
            return -1;
        done += step;
        progress(argument, done);
    }
    return cuda_failed(cudaStreamSynchronize(stage.stream), "copy to the GPU",
                       why);
}

/* The table of the CRC-32 that zlib, gzip and PNG use. */
__device__ uint32_t crc_table_entry(uint32_t value)
{
    for (int bit = 0; bit < 8; bit++)
        value = (value & 1) ? 0xedb88320u ^ (value >> 1) : value >> 1;
    return value;
}

__device__ void take_byte(uint32_t byte, uint32_t *crc, const uint32_t *table,
                          uint32_t *counts)
{
    *crc = table[(*crc ^ byte) & 0xff] ^ (*crc >> 8);
    atomicAdd(&counts[byte], 1u);
}

__device__ void take_word(uint32_t word, uint32_t *crc, const uint32_t *table,
                          uint32_t *counts)
{
    for (int i = 0; i < 4; i++)
        take_byte((word >> (8 * i)) & 0xff, crc, table, counts);
}

/*
 * Thread i digests data[i * strip ... (i + 1) * strip), cut at `bytes`. A block
 * covers under 4 GiB, so 32-bit counters of a block cannot overflow. Each warp
 * counts for itself, because bytes of text are much alike and would make all
 * warps of a block wait for the same counter.
 */
__global__ void digest_kernel(const unsigned char *data, uint64_t bytes,
                              uint64_t strip, uint32_t *crcs,
                              unsigned long long *histogram)
{
    __shared__ uint32_t table[256];
    __shared__ uint32_t counts[threads / 32][256];
    uint64_t index = uint64_t(blockIdx.x) * threads + threadIdx.x;
    uint64_t begin = index * strip;

    for (int i = threadIdx.x; i < 256; i += threads)
        table[i] = crc_table_entry(i);
    for (int i = threadIdx.x; i < threads / 32 * 256; i += threads)
        (&counts[0][0])[i] = 0;
    __syncthreads();

    if (begin < bytes) {
        uint64_t end = begin + strip < bytes ? begin + strip : bytes;
        uint32_t *mine = counts[threadIdx.x / 32];
        uint32_t crc = 0xffffffffu;
        uint64_t at = begin;

        for (; at + 16 <= end; at += 16) {
            uint4 words = *reinterpret_cast<const uint4 *>(data + at);

            take_word(words.x, &crc, table, mine);
            take_word(words.y, &crc, table, mine);
            take_word(words.z, &crc, table, mine);
            take_word(words.w, &crc, table, mine);
        }
        for (; at < end; at++)
            take_byte(data[at], &crc, table, mine);
        crcs[index] = ~crc;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += threads) {
        unsigned long long sum = 0;

        for (int warp = 0; warp < threads / 32; warp++)
            sum += counts[warp][i];
        if (sum != 0)
            atomicAdd(&histogram[i], sum);
    }
}

/* The runtime loads a kernel when it is first asked for. */
int gpu_prepare(struct failure *why)
{
    cudaFuncAttributes attributes;

    return cuda_failed(cudaFuncGetAttributes(&attributes, digest_kernel),
                       "loading the kernel", why);
}

uint64_t strip_bytes(uint64_t bytes)
{
    uint64_t strip = (bytes + strips_most - 1) / strips_most;

    strip = (strip + 15) / 16 * 16;
    return strip < strip_least ? strip_least : strip;
}

/* All strips but the last are equally long, so zlib prepares once what it
 * takes to append one. */
uint32_t combine(const std::vector<uint32_t> &crcs, uint64_t bytes,
                 uint64_t strip)
{
    z_crc_t append = crc32_combine_gen(static_cast<z_off_t>(strip));
    uint32_t crc = 0;

    for (size_t i = 0; i < crcs.size(); i++) {
        uint64_t left = bytes - i * strip;

        if (left >= strip)
            crc = crc32_combine_op(crc, crcs[i], append);
        else
            crc = crc32_combine(crc, crcs[i], static_cast<z_off_t>(left));
    }
    return crc;
}

/* The kernel's own memory on this rank's GPU: histogram, then CRCs. */
struct scratch {
    void *memory = nullptr;

    ~scratch()
    {
        cudaFree(memory);
    }
};

int gpu_digest(const void *copy, const struct piece *piece,
               struct digest *digest, shared_file_progress progress,
               void *argument, struct failure *why)
{
    uint64_t strip = strip_bytes(piece->bytes);
    size_t strips = (piece->bytes + strip - 1) / strip;
    size_t head = 256 * sizeof(unsigned long long);
    size_t tail = strips * sizeof(uint32_t);
    std::vector<uint32_t> crcs(strips);
    scratch device;

    memset(digest, 0, sizeof *digest);
    digest->bytes = piece->bytes;
    if (cuda_failed(cudaMalloc(&device.memory, head + tail), "cudaMalloc",
                    why) != 0 ||
        cuda_failed(cudaMemset(device.memory, 0, head + tail), "cudaMemset",
                    why) != 0)
        return -1;
    auto *histogram = static_cast<unsigned long long *>(device.memory);
    auto *parts = reinterpret_cast<uint32_t *>(histogram + 256);

    digest_kernel<<<(strips + threads - 1) / threads, threads>>>(
        static_cast<const unsigned char *>(copy) + piece->begin, piece->bytes,
        strip, parts, histogram);
    if (cuda_failed(cudaGetLastError(), "digest kernel", why) != 0 ||
        cuda_failed(cudaMemcpy(digest->histogram, histogram, head,
                               cudaMemcpyDeviceToHost),
                    "digest kernel", why) != 0 ||
        cuda_failed(
            cudaMemcpy(crcs.data(), parts, tail, cudaMemcpyDeviceToHost),
            "digest kernel", why) != 0)
        return -1;
    digest->crc = combine(crcs, piece->bytes, strip);
    progress(argument, piece->bytes);
    return 0;
}

} // namespace

extern "C" const struct shared_file_work shared_file_gpu = {
    "GPU", WHARF_SPACE_DEVICE, gpu_prepare, gpu_load, gpu_digest};
