/* SPDX-License-Identifier: MIT */
/*
 * Put, get and put with signal by NVSHMEM's calls on a stream, beside
 * copy_move: every rank with the next.
 *
 * Run: mpirun -n 2 peer_nvshmem_copy [--sizes LIST] [--rounds N] [--warmup N]
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include "copy_bench.h"

namespace
{

struct job {
    int rank = 0, size = 0, next = 0, last = 0;
    cudaStream_t stream = nullptr;
    bench::options options;
    bench::table table;
    uint64_t *signal = nullptr;
    uint64_t number = 0, serial = 0, bytes = 0;
    char *source = nullptr, *destination = nullptr;
};

template <typename One>
void measure(job &j, const std::string &op, int writer, One one)
{
    bench::row &row = j.table.at(op, j.bytes);

    bench::fill(j.source, j.bytes, ++j.serial, j.rank);
    CUDA_CHECK(cudaMemset(j.destination, 0, j.bytes));
    CUDA_CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
    bench::measure_copies(
        j.options, j.stream, row, j.bytes,
        [&] { nvshmemx_barrier_all_on_stream(j.stream); }, one);
    nvshmemx_barrier_all_on_stream(j.stream);
    CUDA_CHECK(cudaStreamSynchronize(j.stream));
    row.bad +=
        bench::sum(bench::check(j.destination, j.bytes, j.serial, writer));
    MPI_Barrier(MPI_COMM_WORLD);
}

void exchange(job &j)
{
    j.number++;
    nvshmemx_putmem_signal_on_stream(j.destination, j.source, j.bytes, j.signal,
                                     j.number, NVSHMEM_SIGNAL_SET, j.next,
                                     j.stream);
    nvshmemx_signal_wait_until_on_stream(j.signal, NVSHMEM_CMP_GE, j.number,
                                         j.stream);
}

} // namespace

int main(int argc, char **argv)
{
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    MPI_Comm world = MPI_COMM_WORLD;
    uint64_t most = 0;
    int devices = 0;
    bool good;
    job j;

    j.options = bench::parse(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    j.next = (j.rank + 1) % j.size;
    j.last = (j.rank + j.size - 1) % j.size;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(cudaSetDevice(j.rank % devices));
    for (uint64_t bytes : j.options.sizes)
        most = std::max(most, bytes);
    /* The heap must hold both buffers of the largest size. */
    setenv("NVSHMEM_SYMMETRIC_SIZE",
           std::to_string(3 * most + (uint64_t(64) << 20)).c_str(), 0);
    attributes.mpi_comm = &world;
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) != 0) {
        fprintf(stderr, "nvshmemx_init_attr failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CUDA_CHECK(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    j.signal = static_cast<uint64_t *>(nvshmem_calloc(1, sizeof(uint64_t)));
    j.source = static_cast<char *>(nvshmem_malloc(most));
    j.destination = static_cast<char *>(nvshmem_malloc(most));
    if (!j.signal || !j.source || !j.destination) {
        fprintf(stderr, "nvshmem_malloc failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (j.rank == 0)
        printf("# peer_nvshmem_copy  ranks %d, all at once\n", j.size);
    bench::print_ranks(j.rank, j.size, j.rank % devices);
    for (uint64_t bytes : j.options.sizes) {
        j.bytes = bytes;
        measure(j, "put", j.last, [&] {
            nvshmemx_putmem_on_stream(j.destination, j.source, bytes, j.next,
                                      j.stream);
        });
        measure(j, "get", j.next, [&] {
            nvshmemx_getmem_on_stream(j.destination, j.source, bytes, j.next,
                                      j.stream);
        });
        measure(j, "exchange", j.last, [&] { exchange(j); });
    }
    good = j.table.print(j.rank);
    CUDA_CHECK(cudaStreamSynchronize(j.stream));
    nvshmem_free(j.destination);
    nvshmem_free(j.source);
    nvshmem_free(j.signal);
    nvshmem_finalize();
    MPI_Finalize();
    return good ? 0 : 1;
}
