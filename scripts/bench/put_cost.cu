/* SPDX-License-Identifier: MIT */
/*
 * What a small put costs, from rank 0's GPU to rank 1's: by Wharf's kernel, by
 * the copy engine through Wharf, and by the engine alone; then the same behind
 * a small kernel, where the stream goes from kernels to the engine and back.
 *
 * In us: host, a call while the stream is held back; gpu, an operation when all
 * were queued before; issued, an operation as they are issued; single, one and
 * the wait for it. Medians of rounds.
 *
 * Run: mpirun -n 2 put_cost
 */
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "bench_wharf.h"

namespace
{

/* Operations of one measurement; few enough for a stream that is held back. */
constexpr int operations = 100;
constexpr int rounds = 7, warmup = 2, singles = 40;

__global__ void hold_back(const volatile uint32_t *go)
{
    while (*go == 0)
        continue;
}

__global__ void small_kernel(uint64_t *to)
{
    to[threadIdx.x] += 1;
}

/* A node that copies in one way, and what rank 0 puts from and to in it. */
struct mapping {
    wharf_node *node = nullptr;
    wharf_buffer *buffer = nullptr;
    void *mine = nullptr, *peers = nullptr;

    mapping(const char *way, int rank)
    {
        setenv("WHARF_COPY", way, 1);
        wharf_check(wharf_node_open(MPI_COMM_WORLD, nullptr, &node));
        wharf_check(wharf_buffer_attach(node, 2 << 20, nullptr, &buffer));
        wharf_check(wharf_buffer_segment(buffer, rank, &mine, nullptr));
        wharf_check(wharf_buffer_segment(buffer, 1 - rank, &peers, nullptr));
    }
    void close()
    {
        wharf_check(wharf_buffer_detach(&buffer));
        wharf_check(wharf_node_close(&node));
    }
    void put(uint64_t bytes, cudaStream_t stream) const
    {
        wharf_check(wharf_put(buffer, 1, 0, mine, bytes, stream));
    }
};

struct clock_of {
    cudaStream_t stream;
    cudaEvent_t from, to;
    uint32_t *go, *go_on_device;

    clock_of()
    {
        CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CUDA_CHECK(cudaEventCreate(&from));
        CUDA_CHECK(cudaEventCreate(&to));
        CUDA_CHECK(cudaHostAlloc(&go, sizeof *go, cudaHostAllocMapped));
        CUDA_CHECK(cudaHostGetDevicePointer(&go_on_device, go, 0));
    }
    double between() const
    {
        float ms = 0;
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
        return static_cast<double>(ms) * 1e3 / operations;
    }
};

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double us_since(double start)
{
    return (MPI_Wtime() - start) * 1e6;
}

template <typename Operation>
void issue(const clock_of &clock, Operation operation)
{
    CUDA_CHECK(cudaEventRecord(clock.from, clock.stream));
    for (int i = 0; i < operations; i++)
        operation();
    CUDA_CHECK(cudaEventRecord(clock.to, clock.stream));
}

template <typename Operation>
void measure(const clock_of &clock, const char *name, uint64_t bytes,
             Operation operation)
{
    std::vector<double> host, gpu, issued, single;
    /* What is loaded at its first use cannot be behind a held stream. */
    operation();
    CUDA_CHECK(cudaStreamSynchronize(clock.stream));
    for (int round = -warmup; round < rounds; round++) {
        if (round == 0) {
            host.clear(), gpu.clear(), issued.clear(), single.clear();
        }
        *const_cast<volatile uint32_t *>(clock.go) = 0;
        hold_back<<<1, 1, 0, clock.stream>>>(clock.go_on_device);
        double start = MPI_Wtime();
        issue(clock, operation);
        host.push_back(us_since(start) / operations);
        *const_cast<volatile uint32_t *>(clock.go) = 1;
        gpu.push_back(clock.between());
        issue(clock, operation);
        issued.push_back(clock.between());
        for (int i = 0; i < singles; i++) {
            start = MPI_Wtime();
            operation();
            CUDA_CHECK(cudaStreamSynchronize(clock.stream));
            single.push_back(us_since(start));
        }
    }
    CUDA_CHECK(cudaGetLastError());
    printf("# %9llu  %-26s %8.2f %8.2f %8.2f %8.2f\n",
           static_cast<unsigned long long>(bytes), name, median(host),
           median(gpu), median(issued), median(single));
}

void measure_all(const mapping &kernel, const mapping &engine)
{
    clock_of clock;
    uint64_t *scratch;
    CUDA_CHECK(cudaMalloc(&scratch, 128 * sizeof *scratch));
    CUDA_CHECK(cudaMemset(scratch, 0, 128 * sizeof *scratch));
    auto small = [&] { small_kernel<<<1, 128, 0, clock.stream>>>(scratch); };
    printf("# put_cost, us\n# %9s  %-26s %8s %8s %8s %8s\n", "bytes", "way",
           "host", "gpu", "issued", "single");
    measure(clock, "small kernel", 0, small);
    for (uint64_t bytes : {8, 1 << 10, 16 << 10, 64 << 10, 256 << 10}) {
        measure(clock, "kernel", bytes,
                [&] { kernel.put(bytes, clock.stream); });
        measure(clock, "engine", bytes,
                [&] { engine.put(bytes, clock.stream); });
        measure(clock, "engine alone", bytes, [&] {
            CUDA_CHECK(cudaMemcpyAsync(engine.peers, engine.mine, bytes,
                                       cudaMemcpyDefault, clock.stream));
        });
        measure(clock, "small kernel, then kernel", bytes,
                [&] { small(), kernel.put(bytes, clock.stream); });
        measure(clock, "small kernel, then engine", bytes,
                [&] { small(), engine.put(bytes, clock.stream); });
    }
    CUDA_CHECK(cudaFree(scratch));
}

} // namespace

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        if (rank == 0)
            fprintf(stderr, "usage: mpirun -n 2 put_cost\n");
        MPI_Finalize();
        return 2;
    }
    mapping kernel("kernel", rank), engine("engine", rank);
    if (rank == 0)
        measure_all(kernel, engine);
    MPI_Barrier(MPI_COMM_WORLD);
    kernel.close();
    engine.close();
    MPI_Finalize();
    return 0;
}
