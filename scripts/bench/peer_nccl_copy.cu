/* SPDX-License-Identifier: MIT */
/*
 * Send and receive by NCCL, beside copy_move: every rank to the next and from
 * the last, in one group.
 *
 * Run: mpirun -n 2 peer_nccl_copy [--sizes LIST] [--rounds N] [--warmup N]
 */
#include <nccl.h>

#include "copy_bench.h"

#define NCCL_CHECK(call)                                                       \
    do {                                                                       \
        ncclResult_t nccl_code = (call);                                       \
        if (nccl_code != ncclSuccess) {                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,      \
                    ncclGetErrorString(nccl_code));                            \
            MPI_Abort(MPI_COMM_WORLD, 1);                                      \
        }                                                                      \
    } while (0)

int main(int argc, char **argv)
{
    bench::options options = bench::parse(argc, argv);
    bench::table table;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    uint64_t serial = 0;
    int rank = 0, size = 0, devices = 0;
    bool good;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(cudaSetDevice(rank % devices));
    if (rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL_CHECK(ncclCommInitRank(&comm, size, id, rank));
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (rank == 0)
        printf("# peer_nccl_copy  ranks %d, all at once\n", size);
    bench::print_ranks(rank, size, rank % devices);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;

    for (uint64_t bytes : options.sizes) {
        bench::row &row = table.at("exchange", bytes);
        void *from = nullptr, *to = nullptr;

        CUDA_CHECK(cudaMalloc(&from, bytes));
        CUDA_CHECK(cudaMalloc(&to, bytes));
        bench::fill(from, bytes, ++serial, rank);
        auto one = [&] {
            NCCL_CHECK(ncclGroupStart());
            NCCL_CHECK(ncclSend(from, bytes, ncclUint8, next, comm, stream));
            NCCL_CHECK(ncclRecv(to, bytes, ncclUint8, last, comm, stream));
            NCCL_CHECK(ncclGroupEnd());
        };
        bench::measure_copies(options, stream, row, bytes, one, one);
        row.bad += bench::sum(bench::check(to, bytes, serial, last));
        CUDA_CHECK(cudaFree(from));
        CUDA_CHECK(cudaFree(to));
    }
    good = table.print(rank);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    NCCL_CHECK(ncclCommDestroy(comm));
    MPI_Finalize();
    return good ? 0 : 1;
}
