/* SPDX-License-Identifier: MIT */
/*
 * Copies between GPUs through Wharf's mapping, beside the plain copy engine in
 * the same run: the same two GPUs, memory by cudaMalloc on both and
 * cudaMemcpyPeerAsync between them. Every byte that came through the mapping
 * is checked. Without a second GPU that this process sees, the plain figure is
 * that of a copy inside the GPU.
 *
 * Run: mpirun -n 2 copy_rate [--sizes 256m,1g] [--rounds N]
 */
#include <wharf/wharf.h>

#include "bench_wharf.h"

namespace
{

/* Copies in one measurement, so that the launch is small beside them. */
constexpr int repeats = 4;

/* Mean time of one copy in us, by events on the stream. */
template <typename Copy> double timed(cudaStream_t stream, Copy copy)
{
    static cudaEvent_t from = nullptr, to = nullptr;
    float ms = 0;

    if (from == nullptr) {
        CUDA_CHECK(cudaEventCreate(&from));
        CUDA_CHECK(cudaEventCreate(&to));
    }
    CUDA_CHECK(cudaEventRecord(from, stream));
    for (int i = 0; i < repeats; i++)
        copy();
    CUDA_CHECK(cudaEventRecord(to, stream));
    CUDA_CHECK(cudaEventSynchronize(to));
    CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
    return static_cast<double>(ms) * 1e3 / repeats;
}

/* Memory of one size on both sides of the plain copy. */
struct plain {
    void *here = nullptr, *there = nullptr;
    int device = 0, other = 0;

    plain(uint64_t bytes, int mine, int theirs)
        : device(mine), other(theirs < 0 ? mine : theirs)
    {
        CUDA_CHECK(cudaMalloc(&here, bytes));
        CUDA_CHECK(cudaSetDevice(other));
        CUDA_CHECK(cudaMalloc(&there, bytes));
        CUDA_CHECK(cudaSetDevice(device));
        if (other != device)
            enable();
    }

    void enable() const
    {
        cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);

        if (code == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError();
        else
            CUDA_CHECK(code);
    }

    ~plain()
    {
        CUDA_CHECK(cudaFree(here));
        CUDA_CHECK(cudaSetDevice(other));
        CUDA_CHECK(cudaFree(there));
        CUDA_CHECK(cudaSetDevice(device));
    }
};

struct job {
    wharf_node *node = nullptr;
    int rank = 0, size = 0, device = 0;
    int from = 0; /* rank whose segment is pulled */
    int other = -1;
    cudaStream_t stream = nullptr;
    uint64_t serial = 0;
};

void measure_size(job *j, uint64_t bytes, bool counts, bench::table *table)
{
    bench::row &mapped = table->at("copy-through-mapping", bytes);
    bench::row &engine = table->at("copy-engine", bytes);
    wharf_buffer *buffer = nullptr;
    void *mine = nullptr, *theirs = nullptr;
    double through = 0, direct = 0;
    uint64_t bad = 0;

    wharf_check(wharf_buffer_attach(j->node, bytes, nullptr, &buffer));
    wharf_check(wharf_buffer_segment(buffer, j->rank, &mine, nullptr));
    wharf_check(wharf_buffer_segment(buffer, j->from, &theirs, nullptr));
    bench::fill(mine, bytes, ++j->serial, j->rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int peer = 0; peer < j->size; peer++) {
        void *segment = nullptr;

        wharf_check(wharf_buffer_segment(buffer, peer, &segment, nullptr));
        bad += bench::check(segment, bytes, j->serial, peer);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    /* One rank at a time, so that both figures have the link to themselves. */
    for (int turn = 0; turn < j->size; turn++) {
        if (turn == j->rank) {
            plain p(bytes, j->device, j->other);

            through = timed(j->stream, [&] {
                CUDA_CHECK(cudaMemcpyAsync(p.here, theirs, bytes,
                                           cudaMemcpyDeviceToDevice,
                                           j->stream));
            });
            bad += bench::check(p.here, bytes, j->serial, j->from);
            direct = timed(j->stream, [&] {
                CUDA_CHECK(cudaMemcpyPeerAsync(p.here, p.device, p.there,
                                               p.other, bytes, j->stream));
            });
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    wharf_check(wharf_buffer_detach(&buffer));
    mapped.bad += bench::sum(bad);
    mapped.moves = engine.moves = true;
    if (counts) {
        mapped.samples.push_back(through);
        engine.samples.push_back(direct);
    }
}

/* The GPU of the rank that is pulled from, in this process's numbering. */
void find_other(job *j)
{
    wharf_device device = WHARF_DEVICE_INIT;

    wharf_check(wharf_node_device(j->node, j->from, &device));
    j->other = device.ordinal == j->device ? -1 : device.ordinal;
}

} // namespace

int main(int argc, char **argv)
{
    bench::options o = bench::parse(argc, argv);
    bench::table table;
    job j;
    bool good;

    MPI_Init(&argc, &argv);
    wharf_check(wharf_node_open(MPI_COMM_WORLD, nullptr, &j.node));
    j.rank = wharf_node_rank(j.node);
    j.size = wharf_node_size(j.node);
    if (wharf_node_backend(j.node) != WHARF_BACKEND_CUDA || !o.rest.empty()) {
        if (j.rank == 0)
            fprintf(stderr, "copy_rate: %s\n",
                    o.rest.empty() ? wharf_node_backend_reason(j.node)
                                   : "usage: copy_rate [--sizes LIST] "
                                     "[--rounds N] [--warmup N]");
        wharf_check(wharf_node_close(&j.node));
        MPI_Finalize();
        return o.rest.empty() ? 77 : 2;
    }
    CUDA_CHECK(cudaGetDevice(&j.device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    j.from = (j.rank + 1) % j.size;
    find_other(&j);
    if (j.rank == 0) {
        printf("# copy_rate  wharf %d.%d.%d  ranks %d  pulls the next rank's "
               "segment\n",
               wharf_version() / 10000, wharf_version() / 100 % 100,
               wharf_version() % 100, j.size);
        printf("# warmup %d  rounds %d, sizes interleaved; times of rank 0; "
               "plain copy: %s; bad: of all bytes, on every rank\n",
               o.warmup, o.rounds,
               j.other < 0 ? "inside the GPU" : "between the GPUs");
    }
    bench::print_ranks(j.rank, j.size, j.device);
    for (int round = -o.warmup; round < o.rounds; round++)
        for (uint64_t bytes : o.sizes)
            measure_size(&j, bytes, round >= 0, &table);
    good = table.print(j.rank);
    CUDA_CHECK(cudaStreamDestroy(j.stream));
    wharf_check(wharf_node_close(&j.node));
    MPI_Finalize();
    return good ? 0 : 1;
}
