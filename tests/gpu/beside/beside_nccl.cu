/* SPDX-License-Identifier: MIT */
/*
 * Wharf and NCCL on the same memory, in either order: NCCL opens or registers
 * it first or last, it is of the program's, of Wharf's or of NCCL's own making,
 * and each library outlives the other's hold on it.
 *
 * NCCL refuses two ranks on one GPU: then every rank is a communicator of its
 * own, and what is left is that both hold the memory.
 */
#include <nccl.h>

#include "beside.cuh"

#define NCCL(call)                                                             \
    do {                                                                       \
        ncclResult_t code = (call);                                            \
        if (code != ncclSuccess)                                               \
            beside::end(#call, ncclGetErrorString(code));                      \
    } while (0)

using namespace beside;

struct peers {
    ncclComm_t comm = nullptr;
    int first = 0, last = 0; /* ranks of the job in it */
};

static peers meet(const job &j)
{
    int devices = 0;
    peers p;
    ncclUniqueId id;

    CUDA(cudaGetDeviceCount(&devices));
    bool together = devices >= j.size;
    p.first = together ? 0 : j.rank;
    p.last = together ? j.size : j.rank + 1;
    if (j.rank == 0)
        printf("NCCL over %s\n", together ? "all ranks" : "each rank alone");
    if (!together || j.rank == 0)
        NCCL(ncclGetUniqueId(&id));
    if (together)
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL(ncclCommInitRank(&p.comm, p.last - p.first, id, j.rank - p.first));
    return p;
}

static void sum(const job &j, const peers &p, const void *from, void *to)
{
    NCCL(ncclAllReduce(from, to, WORDS, ncclFloat, ncclSum, p.comm, j.stream));
    CUDA(cudaStreamSynchronize(j.stream));
}

static void use(const job &j, const peers &p, void *memory)
{
    void *result = nullptr;

    CUDA(cudaMalloc(&result, BYTES));
    sum(j, p, memory, result);
    CHECK(holds(result, p.first, p.last));
    CUDA(cudaFree(result));
}

/* NCCL has it registered, then Wharf shares it; then the other way round. */
static void own_memory(const job &j, const peers &p)
{
    void *memory = nullptr, *handle = nullptr;
    wharf_buffer *buffer = nullptr;

    CUDA(cudaMalloc(&memory, BYTES));
    fill(memory, j.rank);
    NCCL(ncclCommRegister(p.comm, memory, BYTES, &handle));
    use(j, p, memory);
    buffer = attach(j, memory);
    see_all(j, buffer);
    use(j, p, memory);
    WHARF(wharf_buffer_detach(&buffer));
    use(j, p, memory);
    NCCL(ncclCommDeregister(p.comm, handle));

    buffer = attach(j, memory);
    NCCL(ncclCommRegister(p.comm, memory, BYTES, &handle));
    use(j, p, memory);
    NCCL(ncclCommDeregister(p.comm, handle));
    see_all(j, buffer);
    WHARF(wharf_buffer_detach(&buffer));
    CUDA(cudaFree(memory));
}

/* NCCL reads a segment of another rank through Wharf's mapping, and adds up in
 * place into the rank's own. */
static void segments(const job &j, const peers &p)
{
    wharf_buffer *buffer = nullptr;
    int next = (j.rank + 1) % j.size;
    void *mine, *result = nullptr;

    WHARF(wharf_buffer_attach(j.node, BYTES, nullptr, &buffer));
    mine = segment(buffer, j.rank);
    fill(mine, j.rank);
    see_all(j, buffer);
    CUDA(cudaMalloc(&result, BYTES));
    sum(j, p, segment(buffer, next), result);
    if (p.last - p.first == j.size)
        CHECK(holds(result, 0, j.size));
    else
        CHECK(holds(result, next, next + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    sum(j, p, mine, mine);
    CHECK(holds(mine, p.first, p.last));
    CUDA(cudaFree(result));
    WHARF(wharf_buffer_detach(&buffer));
}

/* What NCCL made for itself is mapped memory with handles. */
static void its_memory(const job &j, const peers &p)
{
    void *memory = nullptr;
    wharf_buffer *buffer = nullptr;

    NCCL(ncclMemAlloc(&memory, BYTES));
    fill(memory, j.rank);
    buffer = attach(j, memory);
    see_all(j, buffer);
    use(j, p, memory);
    WHARF(wharf_buffer_detach(&buffer));
    use(j, p, memory);
    NCCL(ncclMemFree(memory));
}

int main(int argc, char **argv)
{
    job j = open(argc, argv);
    peers p = meet(j);

    own_memory(j, p);
    segments(j, p);
    its_memory(j, p);
    NCCL(ncclCommDestroy(p.comm));
    close(j);
    MPI_Finalize();
    return 0;
}
