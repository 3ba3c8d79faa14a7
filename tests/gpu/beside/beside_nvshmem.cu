/* SPDX-License-Identifier: MIT */
/*
 * Wharf and NVSHMEM in one process: memory of its symmetric heap shared by
 * Wharf while NVSHMEM moves data through it, and segments of Wharf's as sources
 * of its puts. argv[1] says who is there first: nvshmem or wharf; the first one
 * is the last to go.
 */
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstring>

#include "beside.cuh"

using namespace beside;

static void start()
{
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    MPI_Comm world = MPI_COMM_WORLD;

    attributes.mpi_comm = &world;
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) != 0)
        end("nvshmemx_init_attr", "failed");
}

static void put(const job &j, void *symmetric, const void *from)
{
    int next = (j.rank + 1) % j.size;

    nvshmemx_putmem_on_stream(symmetric, from, BYTES, next, j.stream);
    nvshmemx_barrier_all_on_stream(j.stream);
    CUDA(cudaStreamSynchronize(j.stream));
}

/* The heap's memory at an offset into its allocation, seen by every rank
 * through Wharf: what was put into it as well. */
static void its_memory(const job &j)
{
    char *heap = static_cast<char *>(nvshmem_malloc(2 * BYTES));
    int last = (j.rank + j.size - 1) % j.size;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = nullptr;
    void *from = nullptr;

    check(heap != nullptr, "nvshmem_malloc");
    /* The heap is one allocation: its neighbours come along. */
    options.flags = WHARF_BUFFER_EXPOSE_NEIGHBOURS;
    fill(heap + BYTES, j.rank);
    WHARF(wharf_buffer_attach_memory(j.node, heap + BYTES, BYTES, &options,
                                     &buffer));
    see_all(j, buffer);
    CUDA(cudaMalloc(&from, BYTES));
    fill(from, j.rank);
    put(j, heap + BYTES, from);
    CHECK(holds(segment(buffer, j.rank), last, last + 1));
    CHECK(holds(segment(buffer, (j.rank + 1) % j.size), j.rank, j.rank + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    WHARF(wharf_buffer_detach(&buffer));
    put(j, heap, from);
    CHECK(holds(heap, last, last + 1));
    CUDA(cudaFree(from));
    nvshmem_free(heap);
}

/* A segment of Wharf's is the source of a put, the next rank's segment too. */
static void segments(const job &j)
{
    void *heap = nvshmem_malloc(BYTES);
    int last = (j.rank + j.size - 1) % j.size;
    int next = (j.rank + 1) % j.size;
    wharf_buffer *buffer = nullptr;

    check(heap != nullptr, "nvshmem_malloc");
    WHARF(wharf_buffer_attach(j.node, BYTES, nullptr, &buffer));
    fill(segment(buffer, j.rank), j.rank);
    see_all(j, buffer);
    put(j, heap, segment(buffer, j.rank));
    CHECK(holds(heap, last, last + 1));
    MPI_Barrier(MPI_COMM_WORLD); /* before the next one is put there */
    put(j, heap, segment(buffer, next));
    CHECK(holds(heap, j.rank, j.rank + 1));
    see_all(j, buffer);
    WHARF(wharf_buffer_detach(&buffer));
    nvshmem_free(heap);
}

int main(int argc, char **argv)
{
    bool first = argc > 1 && strcmp(argv[1], "nvshmem") == 0;
    int devices = 0, rank = 0;
    job j;

    if (first) {
        MPI_Init(nullptr, nullptr);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        CUDA(cudaGetDeviceCount(&devices));
        CUDA(cudaSetDevice(rank % devices));
        start();
    }
    j = open(argc, argv);
    if (!first)
        start();
    its_memory(j);
    segments(j);
    if (!first)
        nvshmem_finalize();
    close(j);
    if (first)
        nvshmem_finalize();
    MPI_Finalize();
    return 0;
}
