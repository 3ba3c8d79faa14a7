/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench latency: every pair of ranks, one pair at a time while the others
 * are idle, as a program sees it that issues to its default stream. Each end
 * goes on only when the other one has answered, so the figure is that of the
 * way there and back and not the rate of many under way.
 *
 *   notify-round-trip  record, wait, record, wait
 *   put-latency        8 bytes into the other's segment until it may read them:
 *                      half of a round trip of put with notify
 *
 * Each pair with its path and the mechanism of its signals.
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Round trips between two looks at the clock. */
#define TRIPS 20

enum latency_op { NOTIFY, PUT, OPS };

static const char *const op_names[OPS] = {"notify-round-trip", "put-latency"};

struct latency_bench {
    const struct bench *bench;
    struct bench_row *rows; /* by operation, pair */
    int pairs;
    wharf_notify **notify; /* of each rank */
    wharf_event **done;    /* of each rank: how the default stream is waited
                              for */
    wharf_buffer *buffer;  /* of each rank: what comes, behind it what goes */
    uint64_t serial;
};

/* The other end's number of the pair that is measured. */
struct pair {
    int from, to, me, other;
};

static wharf_status finish(const struct latency_bench *b)
{
    return bench_finish(b->done[b->bench->rank]);
}

/* ---- One direction ------------------------------------------------------ */

static wharf_status go(const struct latency_bench *b, const struct pair *p,
                       int op)
{
    void *mine = NULL;
    wharf_status status;

    if (op == NOTIFY)
        return wharf_notify_record(b->notify[p->other], NULL);
    status = wharf_buffer_segment(b->buffer, p->me, &mine, NULL);
    return status == WHARF_OK
               ? wharf_put_notify(b->buffer, p->other, 0, (char *)mine + 8, 8,
                                  b->notify[p->other], NULL)
               : status;
}

static wharf_status come(const struct latency_bench *b, const struct pair *p)
{
    return wharf_notify_wait(b->notify[p->me], p->other, NULL, 0);
}

static wharf_status trip(const struct latency_bench *b, const struct pair *p,
                         int op)
{
    wharf_status status = p->me == p->from ? go(b, p, op) : come(b, p);

    if (status == WHARF_OK)
        status = p->me == p->from ? come(b, p) : go(b, p, op);
    return status;
}

/* ---- Data --------------------------------------------------------------- */

/* A new word to go, none where one will come. */
static wharf_status data_write(struct latency_bench *b, const struct pair *p)
{
    uint64_t words[2] = {0, bench_word(b->serial, p->me, 0)};
    wharf_status status =
        wharf_put(b->buffer, p->me, 0, words, sizeof words, NULL);

    return status == WHARF_OK ? finish(b) : status;
}

static wharf_status data_check(struct latency_bench *b, const struct pair *p,
                               uint64_t *bad)
{
    uint64_t word = 0;
    wharf_status status =
        bench_spoil(b->bench, b->buffer, p->me, 0, b->done[p->me]);

    if (status == WHARF_OK)
        status = wharf_get(b->buffer, p->me, 0, &word, sizeof word, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    *bad +=
        (uint64_t)bench_wrong_bytes(word, bench_word(b->serial, p->other, 0));
    return status;
}

/* ---- A pair ------------------------------------------------------------- */

static wharf_status timed(const struct latency_bench *b, const struct pair *p,
                          int op, double *time)
{
    double start = MPI_Wtime();
    wharf_status status = WHARF_OK;

    for (int i = 0; i < TRIPS && status == WHARF_OK; i++)
        status = trip(b, p, op);
    if (status == WHARF_OK)
        status = finish(b);
    *time = (MPI_Wtime() - start) * 1e6 / TRIPS;
    return status;
}

/* All ranks call; only the pair's two do something. */
static wharf_status op_rounds(struct latency_bench *b, const struct pair *p,
                              int op, struct bench_row *row)
{
    const struct bench_options *o = &b->bench->options;
    bool takes_part = p->me == p->from || p->me == p->to;
    wharf_status status = WHARF_OK;

    b->serial++;
    if (takes_part && op == PUT)
        status = data_write(b, p);
    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        double time = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        if (takes_part)
            status = timed(b, p, op, &time);
        time = bench_slowest(time);
        if (round >= 0)
            row->samples[row->rounds++] = op == PUT ? time / 2 : time;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (takes_part && op == PUT && status == WHARF_OK)
        status = data_check(b, p, &row->bad);
    bench_row_finish(row);
    return status;
}

static wharf_status describe(struct latency_bench *b, const struct pair *p,
                             struct bench_row *row, int op)
{
    wharf_link link = WHARF_LINK_INIT;
    wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;
    wharf_status status =
        wharf_node_link(b->bench->node, p->from, p->to, &link);

    if (status == WHARF_OK)
        status = wharf_node_mechanism(b->bench->node, p->from, p->to,
                                      &mechanism, NULL);
    row->op = op_names[op];
    row->bytes = op == PUT ? 8 : 0;
    row->paired = true;
    row->from = p->from;
    row->to = p->to;
    row->path = wharf_path_name(link.path);
    row->mechanism = wharf_mechanism_name(mechanism);
    return status;
}

static wharf_status pair_rounds(struct latency_bench *b, int from, int to,
                                int number)
{
    int me = b->bench->rank;
    struct pair p = {from, to, me, me == from ? to : from};
    wharf_status status = WHARF_OK;

    bench_progress(b->bench, "pair", number + 1, b->pairs);
    for (int op = 0; op < OPS && status == WHARF_OK; op++) {
        struct bench_row *row = &b->rows[op * b->pairs + number];

        status = describe(b, &p, row, op);
        if (status == WHARF_OK)
            status = op_rounds(b, &p, op, row);
    }
    return status;
}

/* ---- All ---------------------------------------------------------------- */

static wharf_status create(struct latency_bench *b)
{
    wharf_node *node = b->bench->node;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_status status;

    options.space = b->bench->options.space;
    status = wharf_buffer_attach(node, 16, &options, &b->buffer);
    for (int rank = 0; rank < b->bench->size && status == WHARF_OK; rank++) {
        status = wharf_notify_create(node, rank, NULL, &b->notify[rank]);
        if (status == WHARF_OK)
            status = wharf_event_create(node, rank, &b->done[rank]);
    }
    return status;
}

static wharf_status destroy(struct latency_bench *b)
{
    wharf_status status = WHARF_OK;

    for (int rank = 0; rank < b->bench->size && status == WHARF_OK; rank++) {
        status = wharf_event_destroy(&b->done[rank]);
        if (status == WHARF_OK)
            status = wharf_notify_destroy(&b->notify[rank]);
    }
    return status == WHARF_OK ? wharf_buffer_detach(&b->buffer) : status;
}

static wharf_status all_pairs(struct latency_bench *b)
{
    wharf_status status = create(b);
    int number = 0;

    if (status != WHARF_OK)
        return status;
    for (int from = 0; from < b->bench->size; from++)
        for (int to = from + 1; to < b->bench->size; to++)
            bench_or_abort(pair_rounds(b, from, to, number++));
    return destroy(b);
}

/* One figure of each pair, rows from, columns to. */
static void matrix_print(const struct latency_bench *b, int op)
{
    int size = b->bench->size, number = 0;

    printf("#\n# matrix of %s, median (us)\n#      ", op_names[op]);
    for (int to = 1; to < size; to++)
        printf(" %8d", to);
    for (int from = 0; from + 1 < size; from++) {
        printf("\n# %4d ", from);
        for (int to = 1; to < size; to++)
            if (to > from)
                printf(" %8.2f", b->rows[op * b->pairs + number++].median);
            else
                printf(" %8s", "");
    }
    printf("\n");
}

static void matrices_print(const void *argument)
{
    const struct latency_bench *b = argument;

    for (int op = 0; op < OPS && b->pairs > 0; op++)
        matrix_print(b, op);
}

int bench_latency(struct bench *bench)
{
    int size = bench->size, pairs = size * (size - 1) / 2;
    struct latency_bench b = {.bench = bench, .pairs = pairs};
    wharf_status status = WHARF_OK;
    bool good = false;

    b.rows = bench_rows_new(OPS * pairs, bench->options.rounds);
    b.notify = tool_alloc((size_t)size, sizeof(wharf_notify *));
    b.done = tool_alloc((size_t)size, sizeof(wharf_event *));
    bench->checked = "every word put, on both sides of each pair";
    if (pairs == 0)
        snprintf(bench->remark, sizeof bench->remark,
                 "one rank makes no pair: nothing to measure");
    else
        status = all_pairs(&b);
    bench_progress(bench, "", 0, 0);
    bench->more = matrices_print;
    /* cppcheck-suppress autoVariables ; read by the report below */
    bench->more_of = &b;
    if (status == WHARF_OK)
        good = bench_report(bench, "latency", b.rows, OPS * pairs);
    else
        tool_report_once("wharf-bench", bench->rank);
    bench_rows_free(b.rows);
    free(b.notify);
    free(b.done);
    return good ? 0 : 1;
}
