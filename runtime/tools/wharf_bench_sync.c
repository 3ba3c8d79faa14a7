/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench sync: what it costs to hand over between ranks, as a program sees
 * it that issues to its default stream: time of one operation when many are
 * under way, and time of the call that issues it. What the GPU alone needs,
 * with streams and graphs, is measured by scripts/bench/sync_latency.cu.
 *
 *   barrier  all ranks; one use
 *   notify   rank 0 and the last one; one round trip
 *   event    rank 0 and the last one; one round trip
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"

/* Operations of one round. */
#define OPERATIONS 200

enum sync_op {
    BARRIER,
    BARRIER_ISSUE,
    NOTIFY,
    NOTIFY_ISSUE,
    EVENT,
    EVENT_ISSUE,
    OPS
};

static const char *const op_names[OPS] = {"barrier",           "barrier-issue",
                                          "notify-round-trip", "notify-issue",
                                          "event-round-trip",  "event-issue"};

struct sync_bench {
    const struct bench *bench;
    struct bench_row rows[OPS];
    int last; /* the other end of a round trip */
    wharf_barrier *barrier;
    wharf_notify *there, *back;
    wharf_event **events; /* of each rank: also how the default stream is
                             waited for */
};

/* All work of the default stream is complete. */
static wharf_status finish(struct sync_bench *b)
{
    wharf_event *mine = b->events[b->bench->rank];
    uint64_t number = 0;
    wharf_status st = wharf_event_record(mine, NULL, &number);

    return st == WHARF_OK ? wharf_event_synchronize(mine, number, 0) : st;
}

/* ---- One operation ----------------------------------------------------- */

static wharf_status one_barrier(struct sync_bench *b, uint64_t number)
{
    (void)number;
    return wharf_barrier_enter(b->barrier, NULL);
}

static wharf_status one_notify(struct sync_bench *b, uint64_t number)
{
    wharf_status st = WHARF_OK;

    (void)number;
    if (b->bench->rank == 0) {
        st = wharf_notify_record(b->there, NULL);
        if (st == WHARF_OK)
            st = wharf_notify_wait(b->back, b->last, NULL, 0);
    } else if (b->bench->rank == b->last) {
        st = wharf_notify_wait(b->there, 0, NULL, 0);
        if (st == WHARF_OK)
            st = wharf_notify_record(b->back, NULL);
    }
    return st;
}

/* Both ends have recorded `number - 1` times before. */
static wharf_status one_event(struct sync_bench *b, uint64_t number)
{
    wharf_event *first = b->events[0], *last = b->events[b->last];
    wharf_status st = WHARF_OK;

    if (b->bench->rank == 0) {
        st = wharf_event_record(first, NULL, NULL);
        if (st == WHARF_OK)
            st = wharf_event_wait(last, NULL, number);
    } else if (b->bench->rank == b->last) {
        st = wharf_event_wait(first, NULL, number);
        if (st == WHARF_OK)
            st = wharf_event_record(last, NULL, NULL);
    }
    return st;
}

/* ---- Rounds ------------------------------------------------------------ */

static double slowest(double mine)
{
    double most = 0;

    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* One round: time of an operation, and of the calls alone, in us. */
static wharf_status timed(struct sync_bench *b,
                          wharf_status (*one)(struct sync_bench *, uint64_t),
                          uint64_t number, double time[2])
{
    double start, issued;
    wharf_status st = WHARF_OK;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < OPERATIONS && st == WHARF_OK; i++)
        st = one(b, number + (uint64_t)i);
    issued = MPI_Wtime();
    if (st == WHARF_OK)
        st = finish(b);
    time[0] = slowest((MPI_Wtime() - start) * 1e6 / OPERATIONS);
    time[1] = slowest((issued - start) * 1e6 / OPERATIONS);
    return st;
}

static void note(struct sync_bench *b, int op, const double time[2])
{
    for (int k = 0; k < 2; k++) {
        struct bench_row *row = &b->rows[op + k];

        row->samples[row->rounds++] = time[k];
    }
}

static wharf_status sync_rounds(struct sync_bench *b)
{
    const struct bench_options *o = &b->bench->options;
    uint64_t records = 0; /* of each end's event so far */
    wharf_status st = WHARF_OK;

    for (int round = -o->warmup; round < o->rounds && st == WHARF_OK; round++) {
        double times[OPS] = {0};

        st = timed(b, one_barrier, 0, &times[BARRIER]);
        records++; /* by finish */
        if (st == WHARF_OK)
            st = timed(b, one_notify, 0, &times[NOTIFY]);
        records++;
        if (st == WHARF_OK)
            st = timed(b, one_event, records + 1, &times[EVENT]);
        records += OPERATIONS + 1;
        for (int op = 0; op < OPS && st == WHARF_OK && round >= 0; op += 2)
            note(b, op, &times[op]);
    }
    return st;
}

/* ---- Objects ----------------------------------------------------------- */

static wharf_status sync_create(struct sync_bench *b)
{
    wharf_node *node = b->bench->node;
    wharf_status st = wharf_barrier_create(node, 0, NULL, NULL, &b->barrier);

    if (st == WHARF_OK)
        st = wharf_notify_create(node, b->last, NULL, &b->there);
    if (st == WHARF_OK)
        st = wharf_notify_create(node, 0, NULL, &b->back);
    for (int rank = 0; rank < b->bench->size && st == WHARF_OK; rank++)
        st = wharf_event_create(node, rank, &b->events[rank]);
    return st;
}

static wharf_status sync_destroy(struct sync_bench *b)
{
    wharf_status st = wharf_notify_destroy(&b->back);

    if (st == WHARF_OK)
        st = wharf_notify_destroy(&b->there);
    if (st == WHARF_OK)
        st = wharf_barrier_destroy(&b->barrier);
    for (int rank = 0; rank < b->bench->size && st == WHARF_OK; rank++)
        st = wharf_event_destroy(&b->events[rank]);
    return st;
}

/* Everybody in one group of rows; with one rank there is nobody to signal to.
 */
static bool sync_report(struct sync_bench *b)
{
    bool pair = b->bench->size > 1;

    for (int op = 0; op < OPS; op++) {
        if (pair)
            bench_row_finish(&b->rows[op]);
        else
            snprintf(b->rows[op].failure, sizeof b->rows[op].failure,
                     "one rank has nobody to hand over to");
    }
    return bench_report(b->bench, "sync", b->rows, OPS);
}

int bench_sync(struct bench *bench)
{
    struct sync_bench b = {.bench = bench, .last = bench->size - 1};
    int rounds = bench->options.rounds;
    double *samples = calloc((size_t)(OPS * rounds), sizeof *samples);
    wharf_status st = WHARF_OK;
    bool good = false;

    b.events = calloc((size_t)bench->size, sizeof(wharf_event *));
    if (samples == NULL || b.events == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int op = 0; op < OPS; op++) {
        b.rows[op].op = op_names[op];
        b.rows[op].samples = samples + op * rounds;
    }
    bench->checked = "nothing: there is no data in a signal; order is held by "
                     "the tests";
    if (bench->size > 1) {
        st = sync_create(&b);
        if (st == WHARF_OK)
            st = sync_rounds(&b);
        if (st == WHARF_OK)
            st = sync_destroy(&b);
    }
    if (st == WHARF_OK)
        good = sync_report(&b);
    else
        tool_report_once("wharf-bench", wharf_node_rank(bench->node));
    free(samples);
    free(b.events);
    return good ? 0 : 1;
}
