/* SPDX-License-Identifier: MIT */
/*
 * Steps of a ring of GPUs inside a CUDA graph: captured once, replayed many
 * times, with no host between the steps.
 *
 * Every rank has two rows. In each step it reads its left neighbour's row of
 * the step before, adds one, and writes its own row of this step. Nobody may go
 * on before its left neighbour has written and its right one has read; that is
 * said once by a barrier of all ranks and once by notifies of the neighbours.
 *
 * Run: mpirun -n 4 04_graph_barrier [REPLAYS]
 */
#include <cuda_runtime.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <wharf/wharf.h>

#include <functional>
#include <vector>

namespace
{

constexpr int row_words = 1 << 16;
constexpr int steps = 2; /* in one graph: a row for even, one for odd steps */

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
void wharf_check(wharf_status status)
{
    if (status != WHARF_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

void cuda_check(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CUDA(call) cuda_check(call, #call)

__global__ void start(int *row, int rank)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    row[i] = rank * 1000000 + i % 1000;
}

__global__ void step(int *mine, const int *left)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    mine[i] = left[i] + 1;
}

struct ring {
    wharf_node *node = nullptr;
    wharf_buffer *buffer = nullptr;
    int rank = 0, size = 0, left = 0, right = 0;
    cudaStream_t stream = nullptr;

    int *row(int of, int number)
    {
        void *rows = nullptr;

        wharf_check(wharf_buffer_segment(buffer, of, &rows, nullptr));
        return static_cast<int *>(rows) + number * row_words;
    }
};

/* Row `number` is right if it went round for `turns` steps. */
int wrong_words(ring &r, int number, int turns)
{
    std::vector<int> row(row_words);
    int from = ((r.rank - turns) % r.size + r.size) % r.size, wrong = 0;

    CUDA(cudaMemcpy(row.data(), r.row(r.rank, number), sizeof(int) * row_words,
                    cudaMemcpyDeviceToHost));
    for (int i = 0; i < row_words; i++)
        wrong += row[i] != from * 1000000 + i % 1000 + turns;
    return wrong;
}

/* `meet` is what comes between two steps. */
int run(ring &r, const char *how, int replays,
        const std::function<void(cudaStream_t)> &meet)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float ms = 0;
    cudaEvent_t from, to;
    int wrong, all = 0;

    start<<<row_words / 256, 256, 0, r.stream>>>(r.row(r.rank, 0), r.rank);
    meet(r.stream);
    CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
    for (int k = 0; k < steps; k++) {
        step<<<row_words / 256, 256, 0, r.stream>>>(
            r.row(r.rank, (k + 1) % steps), r.row(r.left, k % steps));
        meet(r.stream);
    }
    CUDA(cudaStreamEndCapture(r.stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));

    CUDA(cudaEventCreate(&from));
    CUDA(cudaEventCreate(&to));
    CUDA(cudaEventRecord(from, r.stream));
    for (int i = 0; i < replays; i++)
        CUDA(cudaGraphLaunch(exec, r.stream));
    CUDA(cudaEventRecord(to, r.stream));
    CUDA(cudaStreamSynchronize(r.stream));
    CUDA(cudaEventElapsedTime(&ms, from, to));

    wrong = wrong_words(r, 0, steps * replays);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (r.rank == 0)
        printf("by %-9s %d steps of %d ranks, %.2f us a step, %d words wrong\n",
               how, steps * replays, r.size, ms * 1e3 / (steps * replays), all);
    CUDA(cudaEventDestroy(from));
    CUDA(cudaEventDestroy(to));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    return all;
}

int by_barrier(ring &r, int replays)
{
    wharf_barrier *barrier = nullptr;
    int wrong;

    wharf_check(wharf_barrier_create(r.node, 0, nullptr, nullptr, &barrier));
    wrong = run(r, "barrier:", replays, [&](cudaStream_t stream) {
        wharf_check(wharf_barrier_enter(barrier, stream));
    });
    wharf_check(wharf_barrier_destroy(&barrier));
    return wrong;
}

int by_notifies(ring &r, int replays)
{
    std::vector<wharf_notify *> to(r.size);
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    int wrong;

    options.capturable = WHARF_SWITCH_ON;
    for (int rank = 0; rank < r.size; rank++)
        wharf_check(wharf_notify_create(r.node, rank, &options, &to[rank]));
    wrong = run(r, "notifies:", replays, [&](cudaStream_t stream) {
        if (r.size == 1)
            return;
        wharf_check(wharf_notify_record(to[r.right], stream));
        if (r.left != r.right)
            wharf_check(wharf_notify_record(to[r.left], stream));
        wharf_check(wharf_notify_wait(to[r.rank], r.left, stream, 0));
        if (r.left != r.right)
            wharf_check(wharf_notify_wait(to[r.rank], r.right, stream, 0));
    });
    for (int rank = 0; rank < r.size; rank++)
        wharf_check(wharf_notify_destroy(&to[rank]));
    return wrong;
}

} // namespace

int main(int argc, char **argv)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    int replays = argc > 1 ? atoi(argv[1]) : 500;
    int wrong;
    ring r;

    MPI_Init(&argc, &argv);
    options.backend = WHARF_BACKEND_CUDA;
    wharf_check(wharf_node_open(MPI_COMM_WORLD, &options, &r.node));
    r.rank = wharf_node_rank(r.node);
    r.size = wharf_node_size(r.node);
    r.left = (r.rank + r.size - 1) % r.size;
    r.right = (r.rank + 1) % r.size;
    wharf_check(wharf_buffer_attach(r.node, steps * row_words * sizeof(int),
                                    nullptr, &r.buffer));
    CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));

    wrong = by_barrier(r, replays);
    wrong += by_notifies(r, replays);

    CUDA(cudaStreamDestroy(r.stream));
    wharf_check(wharf_buffer_detach(&r.buffer));
    wharf_check(wharf_node_close(&r.node));
    MPI_Finalize();
    return wrong != 0;
}
