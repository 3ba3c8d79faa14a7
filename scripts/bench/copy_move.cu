/* SPDX-License-Identifier: MIT */
/*
 * Wharf's put, get and put with notify to the next rank, all ranks at once,
 * beside the bare copy engine on the same memory. WHARF_COPY makes one way do
 * all of them. Every byte is checked after each operation but put-rows.
 *
 *   put, get     one after the other in the stream
 *   exchange     put with notify, then the wait for the one from before
 *   engine-put   cudaMemcpyAsync to the next rank's segment
 *   engine-get   cudaMemcpyAsync out of it
 *   put-rows     rows of 64 bytes, 256 apart; bytes are those moved
 *   exchange-graph  the exchange, 20 of them in a CUDA graph
 *
 * Run: mpirun -n 2 copy_move [--sizes 64k,1m,256m] [--rounds N] [--warmup N]
 */
#include <wharf/wharf.h>

#include "bench_wharf.h"
#include "copy_bench.h"

namespace
{

constexpr int in_graph = 20;

struct job {
    wharf_node *node = nullptr;
    int rank = 0, size = 0, next = 0, last = 0;
    cudaStream_t stream = nullptr;
    bench::options options;
    bench::table table;
    wharf_barrier *start = nullptr;
    std::vector<wharf_notify *> notify;
    uint64_t serial = 0;

    /* Of one size: the source, and behind it the destination. */
    wharf_buffer *buffer = nullptr;
    uint64_t bytes = 0;
    char *mine = nullptr, *theirs = nullptr;
};

void fill(job &j)
{
    bench::fill(j.mine, j.bytes, ++j.serial, j.rank);
    CUDA_CHECK(cudaMemset(j.mine + j.bytes, 0, j.bytes));
    CUDA_CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
}

template <typename One>
void measure(job &j, const std::string &op, int writer, One one)
{
    bench::row &row = j.table.at(op, j.bytes);

    fill(j);
    bench::measure_copies(
        j.options, j.stream, row, j.bytes,
        [&] { wharf_check(wharf_barrier_enter(j.start, j.stream)); }, one);
    row.bad +=
        bench::sum(bench::check(j.mine + j.bytes, j.bytes, j.serial, writer));
    MPI_Barrier(MPI_COMM_WORLD);
}

void exchange(job &j)
{
    wharf_check(wharf_put_notify(j.buffer, j.next, j.bytes, j.mine, j.bytes,
                                 j.notify[j.next], j.stream));
    wharf_check(wharf_notify_wait(j.notify[j.rank], j.last, j.stream, 0));
}

/* Time of one of the exchanges in a graph. */
void measure_graph(job &j)
{
    bench::row &row = j.table.at("exchange-graph", j.bytes);
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    if (j.bytes > (uint64_t(16) << 20))
        return;
    fill(j);
    CUDA_CHECK(
        cudaStreamBeginCapture(j.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < in_graph; i++)
        exchange(j);
    CUDA_CHECK(cudaStreamEndCapture(j.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    bench::measure_copies(
        j.options, j.stream, row, j.bytes * in_graph,
        [&] { wharf_check(wharf_barrier_enter(j.start, j.stream)); },
        [&] { CUDA_CHECK(cudaGraphLaunch(exec, j.stream)); });
    for (double &sample : row.samples)
        sample /= in_graph;
    row.bad +=
        bench::sum(bench::check(j.mine + j.bytes, j.bytes, j.serial, j.last));
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
}

/* Rows that the engines see as many small pieces. */
void measure_rows(job &j)
{
    wharf_box box = WHARF_BOX_INIT;

    box.width = 64;
    box.rows = j.bytes / 256;
    box.from_pitch = box.to_pitch = 256;
    if (box.rows < 2 || j.bytes > (uint64_t(16) << 20))
        return;
    bench::measure_copies(
        j.options, j.stream, j.table.at("put-rows", box.rows * 64), j.bytes,
        [&] { wharf_check(wharf_barrier_enter(j.start, j.stream)); },
        [&] {
            wharf_check(wharf_put_box(j.buffer, j.next, j.bytes, j.mine, &box,
                                      j.stream));
        });
}

void measure_size(job &j, uint64_t bytes, bool graphs)
{
    void *segment = nullptr;

    j.bytes = bytes;
    wharf_check(wharf_buffer_attach(j.node, 2 * bytes, nullptr, &j.buffer));
    wharf_check(wharf_buffer_segment(j.buffer, j.rank, &segment, nullptr));
    j.mine = static_cast<char *>(segment);
    wharf_check(wharf_buffer_segment(j.buffer, j.next, &segment, nullptr));
    j.theirs = static_cast<char *>(segment);
    measure(j, "put", j.last, [&] {
        wharf_check(
            wharf_put(j.buffer, j.next, bytes, j.mine, bytes, j.stream));
    });
    measure(j, "get", j.next, [&] {
        wharf_check(
            wharf_get(j.buffer, j.next, 0, j.mine + bytes, bytes, j.stream));
    });
    measure(j, "engine-put", j.last, [&] {
        CUDA_CHECK(cudaMemcpyAsync(j.theirs + bytes, j.mine, bytes,
                                   cudaMemcpyDefault, j.stream));
    });
    measure(j, "engine-get", j.next, [&] {
        CUDA_CHECK(cudaMemcpyAsync(j.mine + bytes, j.theirs, bytes,
                                   cudaMemcpyDefault, j.stream));
    });
    measure(j, "exchange", j.last, [&] { exchange(j); });
    if (graphs)
        measure_graph(j);
    measure_rows(j);
    wharf_check(wharf_buffer_detach(&j.buffer));
}

void print_ways(job &j)
{
    const char *const names[] = {"one GPU", "two GPUs", "host memory"};

    for (int between = 0; between < 3 && j.rank == 0; between++) {
        size_t plain = 0, notified = 0;

        wharf_check(wharf_copy_kernel_most(
            j.node, static_cast<wharf_copy_between>(between), 0, &plain));
        wharf_check(wharf_copy_kernel_most(
            j.node, static_cast<wharf_copy_between>(between), 1, &notified));
        printf("# %s: kernel up to %zu bytes, with a notify %zu\n",
               names[between], plain, notified);
    }
}

} // namespace

int main(int argc, char **argv)
{
    wharf_node_options node = WHARF_NODE_OPTIONS_INIT;
    wharf_notify_options capturable = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;
    int device = 0;
    bool good;
    job j;

    j.options = bench::parse(argc, argv);
    MPI_Init(&argc, &argv);
    node.backend = WHARF_BACKEND_CUDA;
    wharf_check(wharf_node_open(MPI_COMM_WORLD, &node, &j.node));
    j.rank = wharf_node_rank(j.node);
    j.size = wharf_node_size(j.node);
    j.next = (j.rank + 1) % j.size;
    j.last = (j.rank + j.size - 1) % j.size;
    if (j.size < 2) {
        fprintf(stderr, "copy_move: needs two ranks of one node\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    wharf_check(
        wharf_node_mechanism(j.node, j.rank, j.next, &mechanism, nullptr));
    wharf_check(wharf_barrier_create(j.node, 0, nullptr, nullptr, &j.start));
    /* Where it costs nothing. */
    if (mechanism == WHARF_MECHANISM_KERNEL)
        capturable.capturable = WHARF_SWITCH_ON;
    j.notify.resize(static_cast<size_t>(j.size));
    for (int rank = 0; rank < j.size; rank++)
        wharf_check(wharf_notify_create(j.node, rank, &capturable,
                                        &j.notify[static_cast<size_t>(rank)]));
    if (j.rank == 0)
        printf("# copy_move  ranks %d, all at once  WHARF_COPY %s  signals by "
               "%s\n",
               j.size, getenv("WHARF_COPY") ? getenv("WHARF_COPY") : "auto",
               wharf_mechanism_name(mechanism));
    print_ways(j);
    bench::print_ranks(j.rank, j.size, device);
    for (uint64_t bytes : j.options.sizes)
        measure_size(j, bytes, mechanism == WHARF_MECHANISM_KERNEL);
    good = j.table.print(j.rank);
    for (wharf_notify *&notify : j.notify)
        wharf_check(wharf_notify_destroy(&notify));
    wharf_check(wharf_barrier_destroy(&j.start));
    CUDA_CHECK(cudaStreamDestroy(j.stream));
    wharf_check(wharf_node_close(&j.node));
    MPI_Finalize();
    return good ? 0 : 1;
}
