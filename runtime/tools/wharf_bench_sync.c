/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench barrier, notify, event, and sync for all three: what it costs to
 * hand over between ranks, as a program sees it that issues to its default
 * stream: time of one operation when many are under way, and time of the call
 * that issues it. What the GPU alone needs, with streams and graphs, is
 * measured by scripts/bench/sync_latency.cu.
 *
 *   barrier  all ranks; one use
 *   notify   rank 0 and the last one; one round trip
 *   event    rank 0 and the last one; one round trip
 *
 * A signal has no data of its own. So after the rounds that are measured come
 * as many in which each signal has data before it, new every time, which is
 * read behind the wait: a signal that comes early shows as wrong bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Operations of one round. */
#define OPERATIONS 200

/* Bytes handed over in a check. */
#define CHECKED 4096

enum sync_op {
    BARRIER,
    BARRIER_ISSUE,
    NOTIFY,
    NOTIFY_ISSUE,
    EVENT,
    EVENT_ISSUE,
    OPS
};

/* Operations that a command measures, by their first row. */
#define ONLY(op) (1u << (op))

static const char *const op_names[OPS] = {"barrier",           "barrier-issue",
                                          "notify-round-trip", "notify-issue",
                                          "event-round-trip",  "event-issue"};

struct sync_bench {
    const struct bench *bench;
    unsigned chosen;
    struct bench_row *rows; /* OPS of them */
    int me, last;           /* last: the other end of a round trip */
    wharf_barrier *barrier;
    wharf_notify *there, *back;
    wharf_event *first, *second; /* of rank 0 and the last */
    wharf_event **done;          /* of each rank: how the default stream is
                                    waited for */
    wharf_buffer *buffer;
    uint64_t records; /* of each end's event so far */
    uint64_t serial;
    unsigned char host[CHECKED];
};

static wharf_status finish(struct sync_bench *b)
{
    return bench_finish(b->done[b->me]);
}

/* ---- One operation ----------------------------------------------------- */

static wharf_status one_barrier(struct sync_bench *b)
{
    return wharf_barrier_enter(b->barrier, NULL);
}

static wharf_status one_notify(struct sync_bench *b)
{
    wharf_status status = WHARF_OK;

    if (b->me == 0) {
        status = wharf_notify_record(b->there, NULL);
        if (status == WHARF_OK)
            status = wharf_notify_wait(b->back, b->last, NULL, 0);
    } else if (b->me == b->last) {
        status = wharf_notify_wait(b->there, 0, NULL, 0);
        if (status == WHARF_OK)
            status = wharf_notify_record(b->back, NULL);
    }
    return status;
}

/* A record whose number is not the next one is a fault of the counter, and is
 * shown as that many wrong bytes. */
static wharf_status record(struct sync_bench *b, wharf_event *event)
{
    uint64_t number = 0;
    wharf_status status = wharf_event_record(event, NULL, &number);

    if (status == WHARF_OK && number != b->records)
        b->rows[EVENT].bad += sizeof number;
    return status;
}

static wharf_status one_event(struct sync_bench *b)
{
    wharf_status status = WHARF_OK;

    b->records++;
    if (b->me == 0) {
        status = record(b, b->first);
        if (status == WHARF_OK)
            status = wharf_event_wait(b->second, b->records, NULL);
    } else if (b->me == b->last) {
        status = wharf_event_wait(b->first, b->records, NULL);
        if (status == WHARF_OK)
            status = record(b, b->second);
    }
    return status;
}

/* ---- Rounds ------------------------------------------------------------ */

static const struct {
    int row;
    wharf_status (*one)(struct sync_bench *);
} operations[] = {
    {BARRIER, one_barrier}, {NOTIFY, one_notify}, {EVENT, one_event}};

#define OPERATION_COUNT (int)(sizeof operations / sizeof *operations)

/* One round: time of an operation, and of the calls alone, in us. */
static wharf_status timed(struct sync_bench *b,
                          wharf_status (*one)(struct sync_bench *), int row,
                          bool counts)
{
    double start, issued, time[2];
    wharf_status status = WHARF_OK;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < OPERATIONS && status == WHARF_OK; i++)
        status = one(b);
    issued = MPI_Wtime();
    if (status == WHARF_OK)
        status = finish(b);
    time[0] = bench_slowest((MPI_Wtime() - start) * 1e6 / OPERATIONS);
    time[1] = bench_slowest((issued - start) * 1e6 / OPERATIONS);
    for (int k = 0; k < 2 && counts; k++) {
        struct bench_row *r = &b->rows[row + k];

        r->samples[r->rounds++] = time[k];
    }
    return status;
}

static wharf_status sync_rounds(struct sync_bench *b)
{
    const struct bench_options *o = &b->bench->options;
    wharf_status status = WHARF_OK;

    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        bench_progress(b->bench, "round", round + o->warmup + 1,
                       o->rounds + o->warmup);
        for (int i = 0; i < OPERATION_COUNT && status == WHARF_OK; i++)
            if (b->chosen & ONLY(operations[i].row))
                status =
                    timed(b, operations[i].one, operations[i].row, round >= 0);
    }
    return status;
}

/* ---- Data behind the signals -------------------------------------------- */

/* New data of this rank goes into a rank's segment. */
static wharf_status send(struct sync_bench *b, int to)
{
    bench_words_fill(b->host, CHECKED, b->serial, b->me);
    return wharf_put(b->buffer, to, 0, b->host, CHECKED, NULL);
}

/* What lies in a rank's segment must be the data of the rank `from`. */
static wharf_status look(struct sync_bench *b, int at, int from, int row)
{
    wharf_status status =
        bench_spoil(b->bench, b->buffer, at, CHECKED / 2, b->done[b->me]);

    memset(b->host, 0, CHECKED);
    if (status == WHARF_OK)
        status = wharf_get(b->buffer, at, 0, b->host, CHECKED, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    if (status == WHARF_OK)
        b->rows[row].bad +=
            bench_words_wrong(b->host, CHECKED, b->serial, from);
    return status;
}

/* To the next rank, from the one before. Nobody writes again before all have
 * looked. */
static wharf_status check_barrier(struct sync_bench *b)
{
    int size = b->bench->size;
    wharf_status status = send(b, (b->me + 1) % size);

    if (status == WHARF_OK)
        status = one_barrier(b);
    if (status == WHARF_OK)
        status = look(b, b->me, (b->me + size - 1) % size, BARRIER);
    return status == WHARF_OK ? one_barrier(b) : status;
}

/* There and back, data before each record. */
static wharf_status check_notify(struct sync_bench *b)
{
    wharf_status status = WHARF_OK;

    if (b->me == 0) {
        status = send(b, b->last);
        if (status == WHARF_OK)
            status = wharf_notify_record(b->there, NULL);
        if (status == WHARF_OK)
            status = wharf_notify_wait(b->back, b->last, NULL, 0);
        if (status == WHARF_OK)
            status = look(b, 0, b->last, NOTIFY);
    } else if (b->me == b->last) {
        status = wharf_notify_wait(b->there, 0, NULL, 0);
        if (status == WHARF_OK)
            status = look(b, b->me, 0, NOTIFY);
        if (status == WHARF_OK)
            status = send(b, 0);
        if (status == WHARF_OK)
            status = wharf_notify_record(b->back, NULL);
    }
    return status;
}

/* The same, each in its own segment, where the other one reads. */
static wharf_status check_event(struct sync_bench *b)
{
    wharf_status status = WHARF_OK;

    b->records++;
    if (b->me == 0) {
        status = send(b, 0);
        if (status == WHARF_OK)
            status = record(b, b->first);
        if (status == WHARF_OK)
            status = wharf_event_wait(b->second, b->records, NULL);
        if (status == WHARF_OK)
            status = look(b, b->last, b->last, EVENT);
    } else if (b->me == b->last) {
        status = wharf_event_wait(b->first, b->records, NULL);
        if (status == WHARF_OK)
            status = look(b, 0, 0, EVENT);
        if (status == WHARF_OK)
            status = send(b, b->me);
        if (status == WHARF_OK)
            status = record(b, b->second);
    }
    return status;
}

static wharf_status check_rounds(struct sync_bench *b)
{
    static wharf_status (*const checks[])(struct sync_bench *) = {
        check_barrier, check_notify, check_event};
    wharf_status status = WHARF_OK;

    for (int i = 0; i < OPERATION_COUNT; i++) {
        for (int round = 0;
             round < b->bench->options.rounds && status == WHARF_OK; round++) {
            b->serial++;
            if (b->chosen & ONLY(operations[i].row))
                status = checks[i](b);
        }
        if (status == WHARF_OK)
            status = finish(b);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return status;
}

/* ---- Objects ----------------------------------------------------------- */

static wharf_status sync_create(struct sync_bench *b)
{
    wharf_node *node = b->bench->node;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_status status =
        wharf_barrier_create(node, 0, NULL, NULL, &b->barrier);

    options.space = b->bench->options.space;
    if (status == WHARF_OK)
        status = wharf_notify_create(node, b->last, NULL, &b->there);
    if (status == WHARF_OK)
        status = wharf_notify_create(node, 0, NULL, &b->back);
    if (status == WHARF_OK)
        status = wharf_event_create(node, 0, &b->first);
    if (status == WHARF_OK)
        status = wharf_event_create(node, b->last, &b->second);
    for (int rank = 0; rank < b->bench->size && status == WHARF_OK; rank++)
        status = wharf_event_create(node, rank, &b->done[rank]);
    if (status == WHARF_OK)
        status = wharf_buffer_attach(node, CHECKED, &options, &b->buffer);
    return status;
}

static wharf_status sync_destroy(struct sync_bench *b)
{
    wharf_status status = wharf_buffer_detach(&b->buffer);

    if (status == WHARF_OK)
        status = wharf_notify_destroy(&b->back);
    if (status == WHARF_OK)
        status = wharf_notify_destroy(&b->there);
    if (status == WHARF_OK)
        status = wharf_barrier_destroy(&b->barrier);
    if (status == WHARF_OK)
        status = wharf_event_destroy(&b->first);
    if (status == WHARF_OK)
        status = wharf_event_destroy(&b->second);
    for (int rank = 0; rank < b->bench->size && status == WHARF_OK; rank++)
        status = wharf_event_destroy(&b->done[rank]);
    return status;
}

/* The rows of the operations chosen. With one rank there is nobody to signal
 * to. */
static bool sync_report(struct sync_bench *b, const char *command)
{
    struct bench_row rows[OPS];
    int count = 0;

    for (int op = 0; op < OPS; op++) {
        if (!(b->chosen & ONLY(op / 2 * 2)))
            continue;
        rows[count] = b->rows[op];
        if (b->bench->size > 1)
            bench_row_finish(&rows[count]);
        else
            snprintf(rows[count].failure, sizeof rows[count].failure,
                     "one rank has nobody to hand over to");
        count++;
    }
    return bench_report(b->bench, command, rows, count);
}

static int sync_run(struct bench *bench, const char *command, unsigned chosen)
{
    struct sync_bench b = {.bench = bench,
                           .chosen = chosen,
                           .me = bench->rank,
                           .last = bench->size - 1};
    wharf_status status = WHARF_OK;
    bool good = false;

    b.rows = bench_rows_new(OPS, bench->options.rounds);
    b.done = tool_alloc((size_t)bench->size, sizeof(wharf_event *));
    for (int op = 0; op < OPS; op++)
        b.rows[op].op = op_names[op];
    bench->checked = "every byte of 4096 handed over by each signal of as many "
                     "rounds after those; numbers of records";
    if (bench->size > 1) {
        status = sync_create(&b);
        if (status == WHARF_OK) {
            bench_or_abort(sync_rounds(&b));
            bench_or_abort(check_rounds(&b));
            status = sync_destroy(&b);
        }
        bench_progress(bench, "", 0, 0);
    }
    if (status == WHARF_OK)
        good = sync_report(&b, command);
    else
        tool_report_once("wharf-bench", bench->rank);
    bench_rows_free(b.rows);
    free(b.done);
    return good ? 0 : 1;
}

int bench_barrier(struct bench *bench)
{
    return sync_run(bench, "barrier", ONLY(BARRIER));
}

int bench_notify(struct bench *bench)
{
    return sync_run(bench, "notify", ONLY(NOTIFY));
}

int bench_event(struct bench *bench)
{
    return sync_run(bench, "event", ONLY(EVENT));
}

int bench_sync(struct bench *bench)
{
    return sync_run(bench, "sync", ONLY(BARRIER) | ONLY(NOTIFY) | ONLY(EVENT));
}
