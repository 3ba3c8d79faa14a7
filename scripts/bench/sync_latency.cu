/* SPDX-License-Identifier: MIT */
/*
 * What Wharf's hand-over between ranks costs, timed by events on the stream:
 * barrier of all ranks, round trips of notify and event between rank 0 and the
 * last rank, the same inside CUDA graphs, flags between running kernels, and
 * what the calls cost the host that issues them. At the end what an event
 * costs by its kind.
 *
 * Run: mpirun -n 2 sync_latency [--rounds N] [--warmup N]
 */
#include <wharf/device.cuh>
#include <wharf/wharf.h>

#include "bench_wharf.h"

namespace
{

/* Operations in one measurement; in one graph, and its launches. */
constexpr int operations = 200;
constexpr int in_graph = 20;

struct timer {
    cudaEvent_t from = nullptr, to = nullptr;
    cudaStream_t stream;

    explicit timer(cudaStream_t on) : stream(on)
    {
        CUDA_CHECK(cudaEventCreate(&from));
        CUDA_CHECK(cudaEventCreate(&to));
    }
    ~timer()
    {
        cudaEventDestroy(from);
        cudaEventDestroy(to);
    }
    void start()
    {
        CUDA_CHECK(cudaEventRecord(from, stream));
    }
    /* us since start, on the GPU. */
    double stop()
    {
        float ms = 0;

        CUDA_CHECK(cudaEventRecord(to, stream));
        CUDA_CHECK(cudaEventSynchronize(to));
        CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
        return static_cast<double>(ms) * 1e3;
    }
};

/* Everything that is measured, and how often. */
struct job {
    wharf_node *node = nullptr;
    int rank = 0, size = 0, last = 0;
    cudaStream_t stream = nullptr;
    bench::options options;
    bench::table table;
    wharf_barrier *start = nullptr; /* everybody begins together */

    bool is_end() const
    {
        return rank == 0 || rank == last;
    }
};

/* `operations` of one thing: time on the GPU and on the host, each for one. */
template <typename One>
void measure(job &j, const std::string &op, bool pair, One one)
{
    timer clock(j.stream);

    for (int round = -j.options.warmup; round < j.options.rounds; round++) {
        double gpu = 0, host = 0, begin;

        MPI_Barrier(MPI_COMM_WORLD);
        wharf_check(wharf_barrier_enter(j.start, j.stream));
        clock.start();
        begin = MPI_Wtime();
        for (int i = 0; i < operations && (!pair || j.is_end()); i++)
            one();
        host = (MPI_Wtime() - begin) * 1e6 / operations;
        gpu = clock.stop() / operations;
        /* A round trip is what the rank that begins it sees. */
        gpu = bench::slowest(pair && j.rank != 0 ? 0 : gpu);
        host = bench::slowest(host);
        if (round < 0)
            continue;
        j.table.at(op, 0).samples.push_back(gpu);
        j.table.at(op + "-issue", 0).samples.push_back(host);
    }
}

/* The same, captured. */
template <typename One>
void measure_graph(job &j, const std::string &op, bool pair, One one)
{
    timer clock(j.stream);
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CUDA_CHECK(
        cudaStreamBeginCapture(j.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < in_graph && (!pair || j.is_end()); i++)
        one();
    CUDA_CHECK(cudaStreamEndCapture(j.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = -j.options.warmup; round < j.options.rounds; round++) {
        double gpu = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        wharf_check(wharf_barrier_enter(j.start, j.stream));
        clock.start();
        for (int i = 0; i < operations / in_graph; i++)
            CUDA_CHECK(cudaGraphLaunch(exec, j.stream));
        gpu = clock.stop() / operations;
        gpu = bench::slowest(pair && j.rank != 0 ? 0 : gpu);
        if (round >= 0)
            j.table.at(op, 0).samples.push_back(gpu);
    }
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
}

/* ---- Barrier, notify, event -------------------------------------------- */

void measure_barrier(job &j)
{
    wharf_barrier *barrier = nullptr;
    auto one = [&] { wharf_check(wharf_barrier_enter(barrier, j.stream)); };

    wharf_check(wharf_barrier_create(j.node, 0, nullptr, nullptr, &barrier));
    measure(j, "barrier", false, one);
    measure_graph(j, "barrier-graph", false, one);
    wharf_check(wharf_barrier_destroy(&barrier));
}

struct notify_pair {
    wharf_notify *there = nullptr, *back = nullptr;

    notify_pair(job &j, const wharf_notify_options &options)
    {
        wharf_check(wharf_notify_create(j.node, j.last, &options, &there));
        wharf_check(wharf_notify_create(j.node, 0, &options, &back));
    }
    ~notify_pair()
    {
        wharf_check(wharf_notify_destroy(&there));
        wharf_check(wharf_notify_destroy(&back));
    }
    void round_trip(const job &j) const
    {
        if (j.rank == 0) {
            wharf_check(wharf_notify_record(there, j.stream));
            wharf_check(wharf_notify_wait(back, j.last, j.stream, 0));
        } else {
            wharf_check(wharf_notify_wait(there, 0, j.stream, 0));
            wharf_check(wharf_notify_record(back, j.stream));
        }
    }
};

/* Not so between GPUs without atomics; the same on all ranks. */
bool possible(job &j, const wharf_notify_options &options)
{
    wharf_notify *notify = nullptr;
    wharf_status status = wharf_notify_create(j.node, 0, &options, &notify);

    if (status == WHARF_EUNSUPPORTED)
        return false;
    wharf_check(status);
    wharf_check(wharf_notify_destroy(&notify));
    return true;
}

void measure_notify(job &j)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;

    {
        notify_pair pair(j, options);

        measure(j, "notify", true, [&] { pair.round_trip(j); });
    }
    options.capturable = WHARF_SWITCH_ON;
    if (!possible(j, options))
        return;
    notify_pair pair(j, options);

    measure(j, "notify-capturable", true, [&] { pair.round_trip(j); });
    measure_graph(j, "notify-graph", true, [&] { pair.round_trip(j); });
}

void measure_event(job &j)
{
    wharf_event *there = nullptr, *back = nullptr;
    uint64_t number = 0;

    wharf_check(wharf_event_create(j.node, 0, &there));
    wharf_check(wharf_event_create(j.node, j.last, &back));
    measure(j, "event", true, [&] {
        number++;
        if (j.rank == 0) {
            wharf_check(wharf_event_record(there, j.stream, nullptr));
            wharf_check(wharf_event_wait(back, number, j.stream));
        } else {
            wharf_check(wharf_event_wait(there, number, j.stream));
            wharf_check(wharf_event_record(back, j.stream, nullptr));
        }
    });
    wharf_check(wharf_event_destroy(&there));
    wharf_check(wharf_event_destroy(&back));
}

/* ---- Flags between running kernels ------------------------------------- */

__global__ void ping(wharf_notify_view there, wharf_notify_view back, int from,
                     int count, bool begins, int *late)
{
    const wharf_notify_view &mine = begins ? back : there;
    wharf_device_waiter waiter = wharf_device_wait_begin(mine, from);

    for (int i = 0; i < count; i++) {
        if (begins)
            wharf_device_notify(there);
        if (!wharf_device_wait_next(mine, waiter, from)) {
            *late = 1;
            break;
        }
        if (!begins)
            wharf_device_notify(back);
    }
    wharf_device_wait_end(waiter);
}

/* Two kernels that wait for each other must run at the same time. */
bool together(job &j)
{
    wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;

    wharf_check(wharf_node_mechanism(j.node, 0, j.last, &mechanism, nullptr));
    return mechanism == WHARF_MECHANISM_KERNEL;
}

/* Kernels of both ends that hand over `operations * 10` times to and fro. */
template <typename Launch>
void measure_kernels(job &j, const std::string &op, Launch launch)
{
    timer clock(j.stream);

    for (int round = -j.options.warmup; round < j.options.rounds; round++) {
        double gpu = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        wharf_check(wharf_barrier_enter(j.start, j.stream));
        clock.start();
        if (j.is_end())
            launch(operations * 10);
        CUDA_CHECK(cudaGetLastError());
        gpu = clock.stop() / operations / 10;
        gpu = bench::slowest(j.rank == 0 ? gpu : 0);
        if (round >= 0)
            j.table.at(op, 0).samples.push_back(gpu);
    }
}

/* The bare words, in the waiter's segment of a buffer: a number that grows is
 * written there and waited for. */
__global__ void ping_words(uint32_t *mine, uint32_t *theirs, uint32_t first,
                           int count, bool begins, int *late)
{
    for (uint32_t i = first; i < first + count; i++) {
        if (begins)
            wharf_word_write(theirs, i);
        if (!wharf_word_wait(mine, i, false, 1000000000)) {
            *late = 1;
            return;
        }
        if (!begins)
            wharf_word_write(theirs, i);
    }
}

/* The same by packets, which carry a value there and back. */
__global__ void ping_packets(uint64_t *mine, uint64_t *theirs, uint32_t first,
                             int count, bool begins, int *late)
{
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t data = 0;

        if (begins)
            wharf_packet_write(theirs, i, ~i);
        if (!wharf_packet_wait(mine, i, &data, 1000000000) || data != ~i) {
            *late = 1;
            return;
        }
        if (!begins)
            wharf_packet_write(theirs, i, data);
    }
}

void measure_words(job &j, int *late)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = nullptr;
    void *mine = nullptr, *theirs = nullptr;
    uint32_t first = 1;

    options.flags = WHARF_BUFFER_ZERO;
    wharf_check(wharf_buffer_attach(j.node, 256, &options, &buffer));
    wharf_check(wharf_buffer_segment(buffer, j.rank, &mine, nullptr));
    wharf_check(wharf_buffer_segment(buffer, j.rank == 0 ? j.last : 0, &theirs,
                                     nullptr));
    measure_kernels(j, "flags-in-kernels", [&](int count) {
        ping_words<<<1, 1, 0, j.stream>>>((uint32_t *)mine, (uint32_t *)theirs,
                                          first, count, j.rank == 0, late);
        first += count;
    });
    first = 1;
    measure_kernels(j, "packets-in-kernels", [&](int count) {
        ping_packets<<<1, 1, 0, j.stream>>>((uint64_t *)mine + 16,
                                            (uint64_t *)theirs + 16, first,
                                            count, j.rank == 0, late);
        first += count;
    });
    wharf_check(wharf_buffer_detach(&buffer));
}

void measure_flags(job &j)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_notify_view there = {}, back = {};
    int *late = nullptr, was_late = 0;

    options.mechanism = WHARF_MECHANISM_KERNEL;
    notify_pair pair(j, options);

    CUDA_CHECK(cudaMalloc(&late, sizeof *late));
    CUDA_CHECK(cudaMemset(late, 0, sizeof *late));
    wharf_check(wharf_notify_view_get(pair.there, &there));
    wharf_check(wharf_notify_view_get(pair.back, &back));
    measure_kernels(j, "notify-in-kernels", [&](int count) {
        ping<<<1, 1, 0, j.stream>>>(there, back, j.rank == 0 ? j.last : 0,
                                    count, j.rank == 0, late);
    });
    measure_words(j, late);
    CUDA_CHECK(
        cudaMemcpy(&was_late, late, sizeof late[0], cudaMemcpyDeviceToHost));
    if (was_late)
        fprintf(stderr, "sync_latency: a kernel's wait gave up\n");
    /* Then the times are none. */
    j.table.at("notify-in-kernels", 0).bad =
        bench::sum(static_cast<uint64_t>(was_late));
    CUDA_CHECK(cudaFree(late));
}

/* ---- Kinds of events --------------------------------------------------- */

void measure_kind(job &j, const std::string &op, unsigned flags)
{
    timer clock(j.stream);
    cudaEvent_t event;

    CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    for (int round = -j.options.warmup; round < j.options.rounds; round++) {
        double gpu;

        MPI_Barrier(MPI_COMM_WORLD);
        clock.start();
        for (int i = 0; i < operations; i++)
            CUDA_CHECK(cudaEventRecord(event, j.stream));
        gpu = bench::slowest(clock.stop() / operations);
        if (round >= 0)
            j.table.at(op, 0).samples.push_back(gpu);
    }
    CUDA_CHECK(cudaEventDestroy(event));
}

/* How rank 0 signals to its neighbour in rank order and to the last rank. */
void print_head(job &j)
{
    const int others[] = {1, j.last};

    for (int k = 0; k < (j.last == 1 ? 1 : 2) && j.rank == 0; k++) {
        wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;
        char reason[96] = "";

        wharf_check(
            wharf_node_mechanism(j.node, 0, others[k], &mechanism, reason));
        printf("# rank 0 to %d: %s, %s\n", others[k],
               wharf_mechanism_name(mechanism), reason);
    }
    if (j.rank == 0)
        printf("# one operation in us; a barrier once, all else there and "
               "back\n");
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
    j.last = j.size - 1;
    if (j.size < 2) {
        fprintf(stderr, "sync_latency: needs two ranks of one node\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    bench::print_ranks(j.rank, j.size, device);
    print_head(j);
    wharf_check(wharf_barrier_create(j.node, 0, nullptr, nullptr, &j.start));

    measure_barrier(j);
    measure_notify(j);
    measure_event(j);
    if (together(j))
        measure_flags(j);
    measure_kind(j, "record-timing", cudaEventDefault);
    measure_kind(j, "record-no-timing", cudaEventDisableTiming);
    measure_kind(j, "record-interprocess",
                 cudaEventDisableTiming | cudaEventInterprocess);

    wharf_check(wharf_barrier_destroy(&j.start));
    good = j.table.print(j.rank);
    CUDA_CHECK(cudaStreamDestroy(j.stream));
    wharf_check(wharf_node_close(&j.node));
    MPI_Finalize();
    return good ? 0 : 1;
}
