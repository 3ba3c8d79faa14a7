/* SPDX-License-Identifier: MIT */
/*
 * 05_halo_2d on GPUs: what is launched for a step, and batches of steps as CUDA
 * graphs.
 *
 * Mode kernel: one kernel a step, and no other. Mode exchange: the edges and
 * then the exchange on one stream, the inner rows on another one meanwhile.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <utility>

#include "05_halo_2d.h"
#include "05_halo_2d_stencil.cuh"

namespace
{

/* Rows pass through page-locked memory of this size. */
constexpr size_t stage_bytes = size_t(32) << 20;

/* A kernel that has waited so long for its neighbour gives up. */
constexpr uint64_t timeout_ns = UINT64_C(30) * 1000 * 1000 * 1000;

struct gpu {
    const halo::variant *variant = nullptr;
    bool graphs = false;
    halo::border up = {}, down = {};     /* ghost: of array 0 */
    size_t up_array = 0, down_array = 0; /* float4 to the ghost of array 1 */
    cudaStream_t stream = nullptr, beside = nullptr;
    cudaEvent_t fork = nullptr, join = nullptr, copied[2] = {};
    double *groups = nullptr; /* [group][row] */
    double *rows = nullptr;   /* sums of rows */
    double *host[2] = {};     /* the same, page-locked */
    float *stage = nullptr;
    uint32_t *late = nullptr;
    /* By number of steps and array of the first one. */
    std::map<std::pair<int, int>, cudaGraphExec_t> ready;
};

int cuda_failed(cudaError_t code, const char *what, struct failure *why)
{
    if (code == cudaSuccess)
        return 0;
    snprintf(why->text, sizeof why->text, "%s: %s", what,
             cudaGetErrorString(code));
    return -1;
}

#define CUDA(call)                                                             \
    do {                                                                       \
        if (cuda_failed((call), #call, why) != 0)                              \
            return -1;                                                         \
    } while (0)

gpu *of(const struct halo_solver *solver)
{
    return static_cast<gpu *>(solver->own);
}

float *row_of(const struct halo_solver *solver, int array, int row)
{
    return solver->field[array] + (row + 1) * solver->pitch;
}

/* ---- Open and close ---------------------------------------------------- */

void gpu_close(struct halo_solver *solver)
{
    gpu *g = of(solver);

    if (g->stream != nullptr)
        cudaStreamSynchronize(g->stream);
    for (auto &entry : g->ready)
        cudaGraphExecDestroy(entry.second);
    for (cudaEvent_t event : {g->fork, g->join, g->copied[0], g->copied[1]})
        if (event != nullptr)
            cudaEventDestroy(event);
    for (cudaStream_t stream : {g->stream, g->beside})
        if (stream != nullptr)
            cudaStreamDestroy(stream);
    cudaFree(g->groups);
    cudaFree(g->rows);
    cudaFree(g->late);
    cudaFreeHost(g->host[0]);
    cudaFreeHost(g->host[1]);
    cudaFreeHost(g->stage);
    delete g;
    solver->own = nullptr;
}

int make_objects(struct halo_solver *solver, gpu *g, struct failure *why)
{
    size_t groups = solver->pitch / halo::group;
    size_t rows = static_cast<size_t>(solver->rows);
    int least = 0, greatest = 0;

    CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA(
        cudaStreamCreateWithPriority(&g->stream, cudaStreamNonBlocking, least));
    CUDA(cudaStreamCreateWithPriority(&g->beside, cudaStreamNonBlocking,
                                      greatest));
    for (cudaEvent_t *event :
         {&g->fork, &g->join, &g->copied[0], &g->copied[1]})
        CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    CUDA(cudaMalloc(&g->groups, groups * rows * sizeof(double)));
    CUDA(cudaMalloc(&g->rows, rows * sizeof(double)));
    CUDA(cudaMalloc(&g->late, sizeof(uint32_t)));
    CUDA(cudaMemset(g->late, 0, sizeof(uint32_t)));
    CUDA(cudaMallocHost(&g->host[0], rows * sizeof(double)));
    CUDA(cudaMallocHost(&g->host[1], rows * sizeof(double)));
    CUDA(cudaMallocHost(&g->stage,
                        std::max(stage_bytes, solver->pitch * sizeof(float))));
    return 0;
}

/* A rank's segment as this rank sees it: arrays, then words. The words that
 * the neighbours write, of the upper and the lower edge, come first; those
 * that count this rank's own steps follow. */
int find_border(struct halo_solver *solver, gpu *g, struct failure *why)
{
    const struct halo_problem *problem = &solver->settings.problem;
    const int ranks[] = {solver->up, solver->down};
    halo::border *borders[] = {&g->up, &g->down};
    size_t words = halo_flags(solver) * HALO_FLAG_WORDS;
    auto *mine = reinterpret_cast<uint32_t *>(
        solver->field[0] + 2 * halo_array_bytes(solver, solver->rows) / 4);

    for (int side = 0; side < 2; side++) {
        int rows = halo_first_row(problem, ranks[side] + 1, solver->ranks) -
                   halo_first_row(problem, ranks[side], solver->ranks);
        size_t array = halo_array_bytes(solver, rows) / sizeof(float);
        void *segment = nullptr;

        if (halo_failed(wharf_buffer_segment(solver->buffer, ranks[side],
                                             &segment, nullptr),
                        why))
            return -1;
        auto *field = static_cast<float *>(segment);
        auto *theirs = reinterpret_cast<uint32_t *>(field + 2 * array);

        /* My first row is the ghost row behind the last one of the rank above,
         * and its lower words are for me. */
        borders[side]->ghost = reinterpret_cast<float4 *>(
            side == 0 ? field + (rows + 1) * solver->pitch : field);
        (side == 0 ? g->up_array : g->down_array) = array / 4;
        borders[side]->there = theirs + (1 - side) * words;
        borders[side]->here = mine + side * words;
        borders[side]->done = mine + (2 + side) * words;
    }
    return 0;
}

int gpu_open(struct halo_solver *solver, struct failure *why)
{
    const struct halo_settings *settings = &solver->settings;
    auto *g = new gpu;

    solver->own = g;
    g->variant = &halo::variants[0];
    for (const halo::variant &v : halo::variants)
        if (settings->variant != nullptr &&
            strcmp(v.name, settings->variant) == 0)
            g->variant = &v;
    g->graphs = settings->graphs;
    if (settings->mode == HALO_KERNEL)
        return make_objects(solver, g, why) != 0 ||
                       find_border(solver, g, why) != 0
                   ? -1
                   : 0;

    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    if (halo_failed(wharf_exchange_plan_get(solver->exchange, &plan), why))
        return -1;
    g->graphs = g->graphs && plan.capturable;
    return make_objects(solver, g, why);
}

/* ---- Steps ------------------------------------------------------------- */

halo::step make_step(const struct halo_solver *solver, bool sums)
{
    gpu *g = of(solver);
    int to = static_cast<int>(solver->round % 2);
    halo::step s = {};

    s.from = reinterpret_cast<const float4 *>(row_of(solver, 1 - to, 0));
    s.to = reinterpret_cast<float4 *>(row_of(solver, to, 0));
    s.pitch = solver->pitch / 4;
    s.rows = solver->rows;
    s.columns = solver->settings.problem.columns;
    s.edges = s.inner = 1;
    s.backwards = g->variant->turns && to;
    s.sums = sums ? g->groups : nullptr;
    s.late = g->late;
    s.timeout_ns = timeout_ns;
    if (solver->settings.mode == HALO_KERNEL) {
        s.mode_kernel = 1;
        s.up = g->up;
        s.down = g->down;
        s.up.ghost += to ? g->up_array : 0;
        s.down.ghost += to ? g->down_array : 0;
    }
    return s;
}

int step_exchange(struct halo_solver *solver, const halo::variant &v,
                  halo::step s, struct failure *why)
{
    gpu *g = of(solver);

    CUDA(cudaEventRecord(g->fork, g->stream));
    CUDA(cudaStreamWaitEvent(g->beside, g->fork));
    s.inner = 0;
    CUDA(halo::launch(v, s, false, g->beside));
    if (halo_failed(wharf_exchange_start(solver->exchange, g->beside), why))
        return -1;
    s.inner = 1;
    s.edges = 0;
    CUDA(halo::launch(v, s, false, g->stream));
    if (halo_failed(wharf_exchange_finish(solver->exchange, g->beside), why))
        return -1;
    CUDA(cudaEventRecord(g->join, g->beside));
    CUDA(cudaStreamWaitEvent(g->stream, g->join));
    return 0;
}

int steps(struct halo_solver *solver, int count, struct failure *why)
{
    gpu *g = of(solver);

    for (int i = 0; i < count; i++) {
        bool sums = i == count - 1;
        const halo::variant &v = sums ? halo::summing : *g->variant;
        halo::step s = make_step(solver, sums);

        if (solver->settings.mode == HALO_KERNEL)
            CUDA(
                halo::launch(v, s, solver->settings.early && i > 0, g->stream));
        else if (step_exchange(solver, v, s, why) != 0)
            return -1;
        solver->round++;
    }
    halo::sum_kernel<<<(solver->rows + 127) / 128, 128, 0, g->stream>>>(
        g->groups, static_cast<int>(solver->pitch / halo::group), solver->rows,
        g->rows);
    CUDA(cudaGetLastError());
    return 0;
}

/* The same, captured; an even number, so that the arrays come out as they went
 * in, whenever it is launched. */
int capture(struct halo_solver *solver, int count, cudaGraphExec_t *exec,
            struct failure *why)
{
    gpu *g = of(solver);
    long round = solver->round;
    cudaGraph_t graph = nullptr;
    cudaError_t ended;
    int failed;

    CUDA(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeRelaxed));
    failed = steps(solver, count, why);
    solver->round = round;
    ended = cudaStreamEndCapture(g->stream, &graph);
    if (failed == 0)
        failed = cuda_failed(ended, "cudaStreamEndCapture", why);
    if (failed == 0)
        failed = cuda_failed(cudaGraphInstantiate(exec, graph, 0),
                             "cudaGraphInstantiate", why);
    if (graph != nullptr)
        cudaGraphDestroy(graph);
    return failed;
}

int gpu_advance(struct halo_solver *solver, int count, int slot,
                struct failure *why)
{
    gpu *g = of(solver);

    if (g->graphs && count % 2 == 0) {
        cudaGraphExec_t &exec =
            g->ready[{count, static_cast<int>(solver->round % 2)}];

        if (exec == nullptr && capture(solver, count, &exec, why) != 0)
            return -1;
        CUDA(cudaGraphLaunch(exec, g->stream));
        solver->round += count;
    } else if (steps(solver, count, why) != 0) {
        return -1;
    }
    CUDA(cudaMemcpyAsync(g->host[slot], g->rows,
                         static_cast<size_t>(solver->rows) * sizeof(double),
                         cudaMemcpyDeviceToHost, g->stream));
    CUDA(cudaEventRecord(g->copied[slot], g->stream));
    return 0;
}

/* ---- Data -------------------------------------------------------------- */

int gpu_sums(struct halo_solver *solver, int slot, double *sums,
             struct failure *why)
{
    gpu *g = of(solver);

    CUDA(cudaEventSynchronize(g->copied[slot]));
    memcpy(sums, g->host[slot],
           static_cast<size_t>(solver->rows) * sizeof *sums);
    return 0;
}

int gpu_wait(struct halo_solver *solver, struct failure *why)
{
    gpu *g = of(solver);
    uint32_t late = 0;

    /* A neighbour that died would hold the stream for good. */
    if (solver->exchange != nullptr &&
        halo_failed(wharf_stream_synchronize(solver->node, g->stream, 0), why))
        return -1;
    CUDA(cudaStreamSynchronize(g->stream));
    CUDA(cudaMemcpy(&late, g->late, sizeof late, cudaMemcpyDeviceToHost));
    if (late != 0) {
        snprintf(why->text, sizeof why->text,
                 "a neighbour's rows did not come in time");
        return -1;
    }
    return 0;
}

int gpu_load(struct halo_solver *solver, struct failure *why)
{
    const struct halo_problem *problem = &solver->settings.problem;
    gpu *g = of(solver);
    size_t row_bytes = solver->pitch * sizeof(float);
    int most = static_cast<int>(std::max(stage_bytes / row_bytes, size_t(1)));

    for (int row = -1; row <= solver->rows; row += most) {
        int count = std::min(most, solver->rows + 1 - row);
        size_t bytes = static_cast<size_t>(count) * row_bytes;

        memset(g->stage, 0, bytes);
        for (int i = 0; i < count; i++)
            halo_start_row(problem,
                           (solver->first + row + i + problem->rows) %
                               problem->rows,
                           g->stage + i * solver->pitch);
        for (int array = 0; array < 2; array++)
            CUDA(cudaMemcpyAsync(row_of(solver, array, row), g->stage, bytes,
                                 cudaMemcpyHostToDevice, g->stream));
        CUDA(cudaStreamSynchronize(g->stream));
    }
    return 0;
}

int gpu_fetch(struct halo_solver *solver, int row, int rows, float *to,
              struct failure *why)
{
    gpu *g = of(solver);
    size_t columns = static_cast<size_t>(solver->settings.problem.columns);
    size_t row_bytes = solver->pitch * sizeof(float);
    int most = static_cast<int>(std::max(stage_bytes / row_bytes, size_t(1)));
    int last = static_cast<int>((solver->round + 1) % 2);

    for (int done = 0; done < rows; done += most) {
        int count = std::min(most, rows - done);

        CUDA(cudaMemcpyAsync(g->stage, row_of(solver, last, row + done),
                             static_cast<size_t>(count) * row_bytes,
                             cudaMemcpyDeviceToHost, g->stream));
        CUDA(cudaStreamSynchronize(g->stream));
        for (int i = 0; i < count; i++)
            memcpy(to + static_cast<size_t>(done + i) * columns,
                   g->stage + i * solver->pitch, columns * sizeof *to);
    }
    return 0;
}

void gpu_describe(const struct halo_solver *solver, char *text, size_t size)
{
    gpu *g = of(solver);

    snprintf(text, size, "GPU, mode %s, variant %s%s%s",
             solver->settings.mode == HALO_KERNEL ? "kernel" : "exchange",
             g->variant->name, g->graphs ? ", graphs" : "",
             solver->settings.early ? ", early" : "");
}

} // namespace

extern "C" const char *halo_gpu_variant(int index)
{
    return index < halo::variant_count ? halo::variants[index].name : nullptr;
}

extern "C" const struct halo_work halo_gpu = {
    "GPU",    gpu_open, gpu_close, gpu_load,    gpu_advance,
    gpu_sums, gpu_wait, gpu_fetch, gpu_describe};
