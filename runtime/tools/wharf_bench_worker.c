/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench worker: what a supervised worker costs. Messages there and back;
 * and the time from a fault in the worker to the answer of the next one, of
 * which the next one's join, with its CUDA context, is a part.
 *
 * The worker is this program, and its fault a bad access of the CPU. What a bad
 * access of a kernel costs is told by 09_faulty_worker.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

enum { HOST_BYTES = 4096, TRIPS = 100, TIME_AT = HOST_BYTES - 8 };

enum worker_op { ECHO, FAULT, LOOK };

/* A task, and its answer. */
struct worker_task {
    int op;
    int64_t join_ns; /* LOOK: of this worker's join */
    uint64_t bad;    /* wrong bytes in the lent host memory */
    unsigned char rest[WHARF_MAX_MESSAGE - 24];
};

_Static_assert(sizeof(struct worker_task) == WHARF_MAX_MESSAGE,
               "the largest task is the largest message");

static int64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static unsigned char pattern(int at)
{
    return (unsigned char)(at * 7 + 3);
}

/* ---- The worker ---------------------------------------------------------- */

static void fault(void *host)
{
    int64_t now = now_ns();

    memcpy((char *)host + TIME_AT, &now, sizeof now);
    raise(SIGSEGV);
}

/* Wrong bytes in the host memory; the device's is used by making a table. */
static wharf_status look(wharf_worker *worker, const unsigned char *host,
                         uint64_t *bad)
{
    wharf_buffer *buffer = NULL;
    void *const *table = NULL;
    wharf_status status = wharf_worker_buffer(worker, 1, &buffer);

    if (status == WHARF_OK)
        status = wharf_buffer_pointer_table(buffer, &table);
    for (int i = 0; i < TIME_AT; i++)
        *bad += host[i] != pattern(i);
    return status;
}

static int serve(wharf_worker *worker, int64_t join_ns)
{
    static struct worker_task task;
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    void *host = NULL;
    size_t size = 0;
    wharf_status status = wharf_worker_node(worker, &node);

    if (status == WHARF_OK)
        status = wharf_worker_buffer(worker, 0, &buffer);
    if (status == WHARF_OK)
        status =
            wharf_buffer_segment(buffer, wharf_node_rank(node), &host, NULL);
    while (status == WHARF_OK) {
        status = wharf_worker_receive(worker, &task, sizeof task, &size, 0);
        if (status == WHARF_OK && task.op == FAULT)
            fault(host);
        if (status == WHARF_OK && task.op == LOOK) {
            task.join_ns = join_ns;
            status = look(worker, host, &task.bad);
        }
        if (status == WHARF_OK)
            status = wharf_worker_send(worker, &task, size, 0);
    }
    return status == WHARF_ECLOSED ? 0 : 1;
}

int bench_worker_child(void)
{
    wharf_worker *worker = NULL;
    int64_t start = now_ns();
    int code;

    if (wharf_worker_join(NULL, &worker) != WHARF_OK)
        return 1;
    code = serve(worker, now_ns() - start);
    return wharf_worker_leave(&worker) == WHARF_OK ? code : 1;
}

/* ---- The ranks ----------------------------------------------------------- */

enum worker_row { TRIP_48, TRIP_4K, TRIP_64K, WHOLE, JOIN, REST, ROWS };

static const struct {
    const char *op;
    uint64_t bytes;
} row_names[ROWS] = {
    {"round-trip", 48},
    {"round-trip", 4096},
    {"round-trip", WHARF_MAX_MESSAGE},
    {"fault-to-answer", 0},
    {"fault-join", 0},
    {"fault-start", 0},
};

struct worker_bench {
    const struct bench *bench;
    struct bench_row *rows; /* ROWS of them */
    wharf_worker *worker;
    wharf_buffer *buffers[2]; /* host, device */
    unsigned char *host;
};

static void put(struct worker_bench *b, int row, double us, bool counts)
{
    struct bench_row *r = &b->rows[row];
    double all = bench_slowest(us);

    if (counts)
        r->samples[r->rounds++] = all;
}

static wharf_status trip(struct worker_bench *b, int op, size_t bytes,
                         struct worker_task *task)
{
    wharf_status status;

    task->op = op;
    task->bad = 0;
    status = wharf_worker_send(b->worker, task, bytes, 0);
    if (status == WHARF_OK)
        status = wharf_worker_receive(b->worker, task, sizeof *task, NULL, 0);
    return status;
}

/* Once more, without the clock: every byte comes back as it went. */
static wharf_status trip_check(struct worker_bench *b, int row,
                               struct worker_task *task, size_t rest)
{
    wharf_status status;

    for (size_t i = 0; i < rest; i++)
        task->rest[i] = pattern((int)i);
    status = trip(b, ECHO, (size_t)row_names[row].bytes, task);
    for (size_t i = 0; i < rest; i++)
        b->rows[row].bad += task->rest[i] != pattern((int)i);
    return status;
}

static wharf_status trips(struct worker_bench *b, int row, bool counts)
{
    static struct worker_task task;
    size_t bytes = (size_t)row_names[row].bytes;
    size_t rest = bytes - offsetof(struct worker_task, rest);
    int64_t start;
    wharf_status status = WHARF_OK;

    MPI_Barrier(MPI_COMM_WORLD);
    start = now_ns();
    for (int i = 0; i < TRIPS && status == WHARF_OK; i++) {
        task.rest[0] = (unsigned char)i;
        task.rest[rest - 1] = (unsigned char)(i + 1);
        status = trip(b, ECHO, bytes, &task);
    }
    put(b, row, (double)(now_ns() - start) / 1e3 / TRIPS, counts);
    return status == WHARF_OK ? trip_check(b, row, &task, rest) : status;
}

static wharf_status one_fault(struct worker_bench *b, bool counts)
{
    static struct worker_task task;
    int64_t fault_ns, end;
    wharf_status status;

    MPI_Barrier(MPI_COMM_WORLD);
    status = trip(b, FAULT, offsetof(struct worker_task, rest), &task);
    if (status == WHARF_OK) {
        fprintf(stderr, "wharf-bench: a worker answered to what was to end "
                        "it\n");
        return WHARF_ESTATE;
    }
    if (status != WHARF_EWORKER)
        return status;
    status = trip(b, LOOK, offsetof(struct worker_task, rest), &task);
    end = now_ns();
    memcpy(&fault_ns, b->host + TIME_AT, sizeof fault_ns);
    b->rows[WHOLE].bad += task.bad;
    put(b, WHOLE, (double)(end - fault_ns) / 1e3, counts);
    put(b, JOIN, (double)task.join_ns / 1e3, counts);
    put(b, REST, (double)(end - fault_ns - task.join_ns) / 1e3, counts);
    return status;
}

static wharf_status start_worker(struct worker_bench *b)
{
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *argv[] = {self, "worker-child", NULL};

    if (length < 0) {
        perror("wharf-bench: /proc/self/exe");
        return WHARF_EOS;
    }
    self[length] = '\0';
    options.buffers = b->buffers;
    options.buffer_count = 2;
    options.restarts = -1;
    return wharf_worker_start(b->bench->node, argv, &options, &b->worker);
}

static wharf_status prepare(struct worker_bench *b)
{
    const struct bench *bench = b->bench;
    wharf_buffer_options options[2] = {WHARF_BUFFER_OPTIONS_INIT,
                                       WHARF_BUFFER_OPTIONS_INIT};
    size_t sizes[2] = {HOST_BYTES, (size_t)bench->options.sizes[0]};
    void *host = NULL;
    wharf_status status;

    options[0].space = WHARF_SPACE_HOST;
    status =
        wharf_buffer_attach_many(bench->node, 2, sizes, options, b->buffers);
    if (status == WHARF_OK)
        status = wharf_buffer_segment(
            b->buffers[0], wharf_node_rank(bench->node), &host, NULL);
    if (status != WHARF_OK)
        return status;
    b->host = host;
    for (int i = 0; i < TIME_AT; i++)
        b->host[i] = pattern(i);
    b->host[0] ^= bench->options.spoil;
    return start_worker(b);
}

static wharf_status rounds(struct worker_bench *b)
{
    const struct bench_options *o = &b->bench->options;
    wharf_status status = WHARF_OK;

    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        bench_progress(b->bench, "round", round + o->warmup + 1,
                       o->rounds + o->warmup);
        for (int row = TRIP_48; row <= TRIP_64K && status == WHARF_OK; row++)
            status = trips(b, row, round >= 0);
        if (status == WHARF_OK)
            status = one_fault(b, round >= 0);
    }
    return status;
}

static wharf_status finish(struct worker_bench *b)
{
    wharf_status status = WHARF_OK;

    if (b->worker != NULL)
        status = wharf_worker_stop(&b->worker, NULL);
    for (int i = 0; i < 2 && status == WHARF_OK; i++)
        if (b->buffers[i] != NULL)
            status = wharf_buffer_detach(&b->buffers[i]);
    return status;
}

int bench_worker(struct bench *bench)
{
    struct worker_bench b = {.bench = bench};
    wharf_status status, last;
    bool good = false;

    b.rows = bench_rows_new(ROWS, bench->options.rounds);
    for (int i = 0; i < ROWS; i++) {
        b.rows[i].op = row_names[i].op;
        b.rows[i].bytes = row_names[i].bytes;
    }
    bench->checked = "every byte of a message that came back; of lent host "
                     "memory, seen by each new worker";
    status = prepare(&b);
    if (status == WHARF_OK)
        status = rounds(&b);
    bench_or_abort(status);
    bench_progress(bench, "", 0, 0);
    last = finish(&b);
    if (last != WHARF_OK)
        tool_report_once("wharf-bench", bench->rank);
    for (int i = 0; i < ROWS; i++)
        bench_row_finish(&b.rows[i]);
    good = bench_report(bench, "worker", b.rows, ROWS) && last == WHARF_OK;
    bench_rows_free(b.rows);
    return good ? 0 : 1;
}
