/* SPDX-License-Identifier: MIT */
/* The work of 09_faulty_worker on a GPU; its fault is a kernel with a bad
 * pointer, after which every call of the process fails. */
#include <cuda_runtime.h>

#include "09_faulty_worker.h"

namespace
{

constexpr int blocks = 256, threads = 256;

__global__ void fill_kernel(uint64_t *numbers, size_t count, uint64_t seed,
                            uint64_t first)
{
    for (size_t i = blockIdx.x * size_t(threads) + threadIdx.x; i < count;
         i += size_t(blocks) * threads)
        numbers[i] = value_of(seed, first + i);
}

__global__ void sum_kernel(const uint64_t *numbers, size_t count,
                           unsigned long long *total)
{
    unsigned long long mine = 0;
    for (size_t i = blockIdx.x * size_t(threads) + threadIdx.x; i < count;
         i += size_t(blocks) * threads)
        mine += numbers[i];
    atomicAdd(total, mine);
}

__global__ void fault_kernel(uint64_t *nowhere)
{
    *nowhere = 1;
}

int done(const char **what)
{
    cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess)
        code = cudaDeviceSynchronize();
    *what = cudaGetErrorName(code);
    return int(code);
}

int fill(uint64_t *numbers, size_t count, uint64_t seed, uint64_t first,
         const char **what)
{
    fill_kernel<<<blocks, threads>>>(numbers, count, seed, first);
    return done(what);
}

int sum(const uint64_t *numbers, size_t count, uint64_t *total,
        const char **what)
{
    unsigned long long *result = nullptr, host = 0;
    cudaError_t code = cudaMalloc(&result, sizeof *result);
    if (code == cudaSuccess)
        code = cudaMemset(result, 0, sizeof *result);
    if (code == cudaSuccess) {
        sum_kernel<<<blocks, threads>>>(numbers, count, result);
        code = cudaGetLastError();
    }
    if (code == cudaSuccess)
        code = cudaMemcpy(&host, result, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(result);
    *total = host;
    *what = cudaGetErrorName(code);
    return int(code);
}

int fault(const char **what)
{
    fault_kernel<<<1, 1>>>(nullptr);
    return done(what);
}

} // namespace

extern const struct faulty_work faulty_gpu = {"GPU", fill, sum, fault};
