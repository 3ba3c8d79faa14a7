/* SPDX-License-Identifier: MIT */
/*
 * What one round of a neighbour exchange costs on a stream: pairs of ranks (0
 * and 1, 2 and 3, ...) put to each other at once and wait for what comes; timed
 * by events, bytes are those of one direction. Every byte is checked.
 *
 *   exchange              two sets of boxes in turn, one call
 *   exchange-split        start and finish
 *   exchange-graph        one call, 20 of them in a CUDA graph
 *   exchange-ready        one set: puts wait for their receivers
 *   exchange-ready-graph  the same in a graph
 *
 * Run: mpirun -n 2 exchange_latency [--sizes LIST] [--rounds N] [--warmup N]
 */
#include <wharf/wharf.h>

#include "bench_wharf.h"

namespace
{

/* Bytes and most operations of one measurement; operations of one graph. */
constexpr uint64_t measured_bytes = uint64_t(512) << 20;
constexpr int most_operations = 400;
constexpr int in_graph = 20;

struct job {
    wharf_node *node = nullptr;
    int rank = 0, size = 0, partner = 0;
    cudaStream_t stream = nullptr;
    bench::options options;
    bench::table table;
    wharf_barrier *start = nullptr; /* everybody begins together */
    cudaEvent_t from = nullptr, to = nullptr;
    uint64_t serial = 0;
};

/* The rounds of one operation: `all` enqueues `operations` of it. */
template <typename All>
void measure(job &j, const std::string &op, uint64_t bytes, int operations,
             All all)
{
    for (int round = -j.options.warmup; round < j.options.rounds; round++) {
        float ms = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        wharf_check(wharf_barrier_enter(j.start, j.stream));
        CUDA_CHECK(cudaEventRecord(j.from, j.stream));
        all();
        CUDA_CHECK(cudaEventRecord(j.to, j.stream));
        CUDA_CHECK(cudaEventSynchronize(j.to));
        CUDA_CHECK(cudaEventElapsedTime(&ms, j.from, j.to));
        double time =
            bench::slowest(static_cast<double>(ms) * 1e3 / operations);
        bench::row &row = j.table.at(op, bytes);

        row.moves = true;
        if (round >= 0)
            row.samples.push_back(time);
    }
}

/* ---- Exchanges --------------------------------------------------------- */

struct ground {
    job &j;
    uint64_t bytes;
    int sets;
    wharf_buffer *buffer = nullptr;
    wharf_exchange *x = nullptr;
    char *mine = nullptr;

    ground(job &of, uint64_t size, int set_count, bool capturable)
        : j(of), bytes(size), sets(set_count)
    {
        wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
        wharf_exchange_box send[2] = {}, receive[2] = {};
        wharf_exchange_transfer transfer = {j.partner, 0, 0, send, receive};
        size_t whole = 2 * static_cast<size_t>(sets) * bytes;

        wharf_check(wharf_buffer_attach(j.node, whole, nullptr, &buffer));
        wharf_check(wharf_buffer_segment(
            buffer, j.rank, reinterpret_cast<void **>(&mine), nullptr));
        for (int s = 0; s < sets; s++) {
            send[s].buffer = receive[s].buffer = buffer;
            send[s].offset = 2 * static_cast<size_t>(s) * bytes;
            receive[s].offset = send[s].offset + bytes;
            send[s].size[0] = receive[s].size[0] = bytes;
            send[s].size[1] = receive[s].size[1] = 1;
            send[s].size[2] = receive[s].size[2] = 1;
        }
        options.sets = sets;
        options.capturable = capturable ? WHARF_SWITCH_ON : WHARF_SWITCH_UNSET;
        wharf_check(wharf_exchange_create(j.node, MPI_COMM_WORLD, 1, &transfer,
                                          &options, &x));
    }
    ~ground()
    {
        wharf_check(wharf_exchange_destroy(&x));
        wharf_check(wharf_buffer_detach(&buffer));
    }
    void fill()
    {
        j.serial++;
        for (int s = 0; s < sets; s++) {
            char *at = mine + 2 * static_cast<size_t>(s) * bytes;

            bench::fill(at, bytes, j.serial * 2 + static_cast<uint64_t>(s),
                        j.rank);
            CUDA_CHECK(cudaMemset(at + bytes, 0, bytes));
        }
        CUDA_CHECK(cudaDeviceSynchronize());
    }
    void check(const std::string &op)
    {
        uint64_t bad = 0;

        CUDA_CHECK(cudaStreamSynchronize(j.stream));
        for (int s = 0; s < sets; s++)
            bad += bench::check(mine + (2 * static_cast<size_t>(s) + 1) * bytes,
                                bytes, j.serial * 2 + static_cast<uint64_t>(s),
                                j.partner);
        j.table.at(op, bytes).bad += bench::sum(bad);
    }
};

int operations_of(uint64_t bytes)
{
    uint64_t count = measured_bytes / bytes / in_graph * in_graph;

    return static_cast<int>(std::max<uint64_t>(
        in_graph, std::min<uint64_t>(count, most_operations)));
}

void measure_run(ground &g, const std::string &op, bool split)
{
    int operations = operations_of(g.bytes);

    g.fill();
    measure(g.j, op, g.bytes, operations, [&] {
        for (int i = 0; i < operations; i++) {
            if (!split) {
                wharf_check(wharf_exchange_run(g.x, g.j.stream));
                continue;
            }
            wharf_check(wharf_exchange_start(g.x, g.j.stream));
            wharf_check(wharf_exchange_finish(g.x, g.j.stream));
        }
    });
    g.check(op);
}

/* An even number of rounds, so that both sets keep their turns. */
void measure_graph(ground &g, const std::string &op)
{
    int operations = std::min(operations_of(g.bytes), 5 * in_graph);
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    g.fill();
    CUDA_CHECK(
        cudaStreamBeginCapture(g.j.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < in_graph; i++)
        wharf_check(wharf_exchange_run(g.x, g.j.stream));
    CUDA_CHECK(cudaStreamEndCapture(g.j.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    measure(g.j, op, g.bytes, operations, [&] {
        for (int i = 0; i < operations / in_graph; i++)
            CUDA_CHECK(cudaGraphLaunch(exec, g.j.stream));
    });
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
    g.check(op);
}

/* Not so without atomics between the two; the same on all ranks. */
bool graphs_possible(const job &j)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_box send = {}, receive = {};
    wharf_exchange_transfer transfer = {j.partner, 0, 0, &send, &receive};
    wharf_exchange *x = nullptr;
    wharf_buffer *buffer = nullptr;

    wharf_check(wharf_buffer_attach(j.node, 512, nullptr, &buffer));
    send.buffer = receive.buffer = buffer;
    receive.offset = 256;
    for (int d = 0; d < 3; d++)
        send.size[d] = receive.size[d] = d == 0 ? 256 : 1;
    options.capturable = WHARF_SWITCH_ON;
    wharf_status status = wharf_exchange_create(j.node, MPI_COMM_WORLD, 1,
                                                &transfer, &options, &x);
    if (status != WHARF_EUNSUPPORTED)
        wharf_check(status);
    if (status == WHARF_OK)
        wharf_check(wharf_exchange_destroy(&x));
    wharf_check(wharf_buffer_detach(&buffer));
    return status == WHARF_OK;
}

void measure_size(job &j, uint64_t bytes)
{
    {
        ground two(j, bytes, 2, false);

        measure_run(two, "exchange", false);
        measure_run(two, "exchange-split", true);
    }
    {
        ground one(j, bytes, 1, false);

        measure_run(one, "exchange-ready", false);
    }
    if (!graphs_possible(j))
        return;
    {
        ground two(j, bytes, 2, true);

        measure_graph(two, "exchange-graph");
    }
    ground one(j, bytes, 1, true);

    measure_graph(one, "exchange-ready-graph");
}

} // namespace

int main(int argc, char **argv)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    int device = 0;
    bool good;
    job j;

    j.options = bench::parse(argc, argv);
    MPI_Init(&argc, &argv);
    options.backend = WHARF_BACKEND_CUDA;
    wharf_check(wharf_node_open(MPI_COMM_WORLD, &options, &j.node));
    j.rank = wharf_node_rank(j.node);
    j.size = wharf_node_size(j.node);
    j.partner = j.rank ^ 1;
    if (j.size % 2 != 0) {
        fprintf(stderr, "exchange_latency: needs pairs of ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&j.from));
    CUDA_CHECK(cudaEventCreate(&j.to));
    bench::print_ranks(j.rank, j.size, device);
    wharf_check(wharf_barrier_create(j.node, 0, nullptr, nullptr, &j.start));
    for (uint64_t bytes : j.options.sizes)
        measure_size(j, bytes / 8 * 8);
    wharf_check(wharf_barrier_destroy(&j.start));
    good = j.table.print(j.rank);
    CUDA_CHECK(cudaEventDestroy(j.from));
    CUDA_CHECK(cudaEventDestroy(j.to));
    CUDA_CHECK(cudaStreamDestroy(j.stream));
    wharf_check(wharf_node_close(&j.node));
    MPI_Finalize();
    return good ? 0 : 1;
}
