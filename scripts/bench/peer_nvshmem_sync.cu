/* SPDX-License-Identifier: MIT */
/*
 * Hand-over by NVSHMEM's calls on a stream, beside sync_latency: barrier of all
 * ranks, round trip of put_signal and signal_wait between rank 0 and the last.
 *
 * Run: mpirun -n 2 peer_nvshmem_sync [--rounds N] [--warmup N]
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include "bench.h"

namespace
{

/* Fewer than in sync_latency: on a shared GPU one barrier takes some ms. */
constexpr int operations = 100;

struct job {
    int rank = 0, size = 0, last = 0;
    cudaStream_t stream = nullptr;
    bench::options options;
    bench::table table;
    uint64_t *data = nullptr, *there = nullptr, *back = nullptr;
    uint64_t number = 0;
};

template <typename One>
void measure(job &j, const std::string &op, bool pair, One one)
{
    cudaEvent_t from, to;

    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&to));
    for (int round = -j.options.warmup; round < j.options.rounds; round++) {
        double gpu, host, begin;
        float ms = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        nvshmemx_barrier_all_on_stream(j.stream);
        CUDA_CHECK(cudaEventRecord(from, j.stream));
        begin = MPI_Wtime();
        for (int i = 0; i < operations; i++)
            one();
        host = (MPI_Wtime() - begin) * 1e6 / operations;
        CUDA_CHECK(cudaEventRecord(to, j.stream));
        CUDA_CHECK(cudaEventSynchronize(to));
        CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
        gpu = static_cast<double>(ms) * 1e3 / operations;
        gpu = bench::slowest(pair && j.rank != 0 ? 0 : gpu);
        host = bench::slowest(host);
        if (round < 0)
            continue;
        j.table.at(op, 0).samples.push_back(gpu);
        j.table.at(op + "-issue", 0).samples.push_back(host);
    }
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(to));
}

void send(job &j, uint64_t *signal, int to)
{
    nvshmemx_putmem_signal_on_stream(j.data, j.data + 1, sizeof *j.data, signal,
                                     j.number, NVSHMEM_SIGNAL_SET, to,
                                     j.stream);
}

void round_trip(job &j)
{
    j.number++;
    if (j.rank == 0) {
        send(j, j.there, j.last);
        nvshmemx_signal_wait_until_on_stream(j.back, NVSHMEM_CMP_GE, j.number,
                                             j.stream);
    } else if (j.rank == j.last) {
        nvshmemx_signal_wait_until_on_stream(j.there, NVSHMEM_CMP_GE, j.number,
                                             j.stream);
        send(j, j.back, 0);
    }
}

} // namespace

int main(int argc, char **argv)
{
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    MPI_Comm world = MPI_COMM_WORLD;
    int devices = 0;
    bool shared, good;
    job j;

    j.options = bench::parse(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    j.last = j.size - 1;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(cudaSetDevice(j.rank % devices));
    shared = j.size > devices;
    attributes.mpi_comm = &world;
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) != 0) {
        fprintf(stderr, "nvshmemx_init_attr failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CUDA_CHECK(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    j.data = static_cast<uint64_t *>(nvshmem_calloc(2, sizeof(uint64_t)));
    j.there = static_cast<uint64_t *>(nvshmem_calloc(1, sizeof(uint64_t)));
    j.back = static_cast<uint64_t *>(nvshmem_calloc(1, sizeof(uint64_t)));
    bench::print_ranks(j.rank, j.size, j.rank % devices);

    measure(j, "barrier", false,
            [&] { nvshmemx_barrier_all_on_stream(j.stream); });
    /* Refused by NVSHMEM where ranks share a GPU, by ending the program. */
    if (!shared)
        measure(j, "notify", true, [&] { round_trip(j); });

    good = j.table.print(j.rank);
    CUDA_CHECK(cudaStreamSynchronize(j.stream));
    nvshmem_free(j.back);
    nvshmem_free(j.there);
    nvshmem_free(j.data);
    nvshmem_finalize();
    MPI_Finalize();
    return good ? 0 : 1;
}
