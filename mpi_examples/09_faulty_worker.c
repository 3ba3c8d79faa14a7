/* SPDX-License-Identifier: MIT */
/*
 * Work that goes wrong, and a job that does not notice: each rank hands the
 * tasks to a worker process, and every K-th task makes an illegal access at its
 * first attempt. The worker dies, the next one gets the task again; all results
 * arrive and are right, and what earlier workers wrote is still there.
 *
 * The program is its own worker: it starts itself with the argument "worker".
 *
 * Run: mpirun -n 4 09_faulty_worker [TASKS [K]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wharf/wharf.h>

#include "09_faulty_worker.h"

#define CHECK(call) ((call) == WHARF_OK ? (void)0 : give_up())

enum { NUMBERS = 100000 }; /* of one task */

enum kind { FILL, SUM };

struct task {
    int kind, number, faulty;
    uint64_t sum; /* the answer */
};

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
static void give_up(void)
{
    int mpi = 0;

    MPI_Initialized(&mpi);
    if (mpi)
        MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* ---- The worker ---------------------------------------------------------- */

static int work(wharf_worker *worker, const struct faulty_work *on,
                uint64_t *numbers, int rank, struct task *task)
{
    uint64_t first = (uint64_t)task->number * NUMBERS;
    const char *what = "";
    int failed = 0;

    if (task->faulty)
        failed = on->fault(&what);
    else if (task->kind == FILL)
        failed =
            on->fill(numbers + first, NUMBERS, (uint64_t)rank, first, &what);
    else
        failed = on->sum(numbers + first, NUMBERS, &task->sum, &what);
    /* A ruined context helps nobody: tell the rank, and end. */
    if (failed)
        wharf_worker_fault(worker, failed, what);
    return failed;
}

static int worker_main(void)
{
    const struct faulty_work *on = &faulty_cpu;
    wharf_worker *worker = NULL;
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    void *numbers;
    struct task task;

    CHECK(wharf_worker_join(NULL, &worker));
    CHECK(wharf_worker_node(worker, &node));
    CHECK(wharf_worker_buffer(worker, 0, &buffer));
    CHECK(wharf_buffer_segment(buffer, wharf_node_rank(node), &numbers, NULL));
    if (wharf_node_backend(node) == WHARF_BACKEND_CUDA && &faulty_gpu != NULL)
        on = &faulty_gpu;
    while (wharf_worker_receive(worker, &task, sizeof task, NULL, 0) ==
           WHARF_OK) {
        work(worker, on, numbers, wharf_node_rank(node), &task);
        CHECK(wharf_worker_send(worker, &task, sizeof task, 0));
    }
    CHECK(wharf_worker_leave(&worker));
    return 0;
}

/* ---- The rank ------------------------------------------------------------ */

/* Until it is done, however many workers that takes. */
static void do_task(wharf_worker *worker, enum kind kind, int number,
                    int faulty, struct task *answer)
{
    for (;;) {
        struct task task = {.kind = kind, .number = number, .faulty = faulty};
        wharf_status status = wharf_worker_send(worker, &task, sizeof task, 0);

        if (status == WHARF_OK)
            status =
                wharf_worker_receive(worker, answer, sizeof *answer, NULL, 0);
        if (status == WHARF_OK)
            return;
        if (status != WHARF_EWORKER)
            give_up();
        faulty = 0; /* the next attempt goes well */
    }
}

static int is_right(const struct task *answer, int rank)
{
    uint64_t first = (uint64_t)answer->number * NUMBERS, sum = 0;

    for (uint64_t i = 0; i < NUMBERS; i++)
        sum += value_of((uint64_t)rank, first + i);
    return sum == answer->sum;
}

static wharf_worker *start_worker(wharf_node *node, wharf_buffer *const *buffer)
{
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    char self[4096];
    const char *argv[] = {self, "worker", NULL};
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    wharf_worker *worker = NULL;

    self[length > 0 ? length : 0] = '\0';
    options.buffers = buffer;
    options.buffer_count = 1;
    options.restarts = -1;
    CHECK(wharf_worker_start(node, argv, &options, &worker));
    return worker;
}

/* One rank after the other, whatever hosts they are on. */
static int tell(int tasks, int right, const wharf_worker_report *r)
{
    int good = right == tasks, all = 0, rank, size;
    char line[256], *lines;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    lines = calloc((size_t)size, sizeof line);
    snprintf(line, sizeof line,
             "rank %d: %d of %d results right; workers started %d, died %d (%d "
             "faults, %d signals), at work again after %.1f to %.1f ms",
             rank, right, tasks, r->starts, r->deaths, r->faults, r->signals,
             (double)r->recover_least_us / 1e3,
             (double)r->recover_most_us / 1e3);
    if (lines == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(line, sizeof line, MPI_CHAR, lines, sizeof line, MPI_CHAR, 0,
               MPI_COMM_WORLD);
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        puts(lines + (size_t)i * sizeof line);
    if (rank == 0)
        puts(all ? "all results are right" : "WRONG results");
    free(lines);
    return !all;
}

/* On one rank, for all; the exit code. */
static int explain(int help)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        fprintf(help ? stdout : stderr,
                "usage: mpirun -n RANKS 09_faulty_worker [TASKS [K]]\n");
    MPI_Finalize();
    return help ? 0 : 2;
}

int main(int argc, char **argv)
{
    wharf_worker_report report = WHARF_WORKER_REPORT_INIT;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    wharf_worker *worker;
    struct task answer;
    int tasks, every, right = 0, failed;

    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_main();
    tasks = argc > 1 ? atoi(argv[1]) : 12;
    every = argc > 2 ? atoi(argv[2]) : 4;
    MPI_Init(&argc, &argv);
    if (tasks < 1 || every < 1)
        return explain(argc > 1 && strcmp(argv[1], "--help") == 0);
    CHECK(wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    /* A program without kernels works where the CPU can. */
    options.space = &faulty_gpu != NULL ? WHARF_SPACE_DEVICE : WHARF_SPACE_HOST;
    CHECK(wharf_buffer_attach(node, (size_t)tasks * NUMBERS * sizeof(uint64_t),
                              &options, &buffer));
    worker = start_worker(node, &buffer);
    for (int i = 0; i < tasks; i++)
        do_task(worker, FILL, i, 0, &answer);
    for (int i = 0; i < tasks; i++) {
        do_task(worker, SUM, i, (i + 1) % every == 0, &answer);
        right += is_right(&answer, wharf_node_rank(node));
    }
    CHECK(wharf_worker_stop(&worker, &report));
    failed = tell(tasks, right, &report);
    CHECK(wharf_buffer_detach(&buffer));
    CHECK(wharf_node_close(&node));
    MPI_Finalize();
    return failed;
}
