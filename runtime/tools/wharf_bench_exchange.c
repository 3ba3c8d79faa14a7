/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench exchange: neighbour exchanges between pairs of ranks (0 and 1, 2
 * and 3, ...; without a partner with oneself), both ways at once, as a program
 * sees it that issues to its default stream. The time is that of one round when
 * many are under way; bytes are those of one direction. With streams and graphs
 * the same is measured by scripts/bench/exchange_latency.cu.
 *
 *   run-2    one call a round, two sets of boxes in turn: no handshake
 *   split-2  start and finish
 *   run-1    one call, one set: puts wait for their receivers
 *   split-1  start and finish
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Bytes under way in one round of the measurement, at most so many calls. */
#define ROUND_BYTES (UINT64_C(64) << 20)
#define ROUND_CALLS 200

enum exchange_op { RUN_2, SPLIT_2, RUN_1, SPLIT_1, OPS };

static const char *const op_names[OPS] = {"exchange-run-2", "exchange-split-2",
                                          "exchange-run-1", "exchange-split-1"};

struct exchange_bench {
    const struct bench *bench;
    struct bench_row *rows; /* by operation, size */
    unsigned char *host;    /* of the largest size */
    uint64_t serial;        /* makes every pattern new */
    wharf_event **event;    /* of each rank: the own one tells when work is
                               done */
    int me, partner;

    /* Of one size: what is sent in each set, behind it what is received. */
    wharf_buffer *buffer;
    uint64_t bytes;
    wharf_exchange *exchange;
};

static wharf_status finish(struct exchange_bench *b)
{
    return bench_finish(b->event[b->me]);
}

static wharf_status one(struct exchange_bench *b, bool split)
{
    wharf_status status;

    if (!split)
        return wharf_exchange_run(b->exchange, NULL);
    status = wharf_exchange_start(b->exchange, NULL);
    return status == WHARF_OK ? wharf_exchange_finish(b->exchange, NULL)
                              : status;
}

static int sets_of(int op)
{
    return op == RUN_2 || op == SPLIT_2 ? 2 : 1;
}

/* ---- Data -------------------------------------------------------------- */

/* Each set is written as if it were a time of its own. */
static uint64_t serial_of(const struct exchange_bench *b, int set)
{
    return 2 * b->serial + (uint64_t)set;
}

/* New contents of what is sent, none in what is received. */
static wharf_status data_write(struct exchange_bench *b, int sets)
{
    wharf_status status = WHARF_OK;

    b->serial++;
    for (int set = 0; set < sets && status == WHARF_OK; set++) {
        uint64_t at = 2 * (uint64_t)set * b->bytes;

        bench_words_fill(b->host, b->bytes, serial_of(b, set), b->me);
        status = wharf_put(b->buffer, b->me, at, b->host, b->bytes, NULL);
        if (status == WHARF_OK)
            status = finish(b);
        memset(b->host, 0, b->bytes);
        if (status == WHARF_OK)
            status = wharf_put(b->buffer, b->me, at + b->bytes, b->host,
                               b->bytes, NULL);
        if (status == WHARF_OK)
            status = finish(b);
    }
    return status;
}

static wharf_status data_check(struct exchange_bench *b, int sets,
                               uint64_t *bad)
{
    wharf_status status = WHARF_OK;

    for (int set = 0; set < sets && status == WHARF_OK; set++) {
        uint64_t at = (2 * (uint64_t)set + 1) * b->bytes;

        status = bench_spoil(b->bench, b->buffer, b->me, at, b->event[b->me]);
        if (status == WHARF_OK)
            status = wharf_get(b->buffer, b->me, at, b->host, b->bytes, NULL);
        if (status == WHARF_OK)
            status = finish(b);
        if (status == WHARF_OK)
            *bad += bench_words_wrong(b->host, b->bytes, serial_of(b, set),
                                      b->partner);
    }
    return status;
}

/* ---- Rounds ------------------------------------------------------------ */

/* At least as many as there are sets, so that each is checked. */
static int calls_of(uint64_t bytes)
{
    uint64_t calls = ROUND_BYTES / bytes;

    return calls < 2 ? 2 : calls > ROUND_CALLS ? ROUND_CALLS : (int)calls;
}

static wharf_status create(struct exchange_bench *b, int sets)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_box send[2], receive[2];
    wharf_exchange_transfer transfer = {b->partner, 0, 0, send, receive};

    options.sets = sets;
    for (int set = 0; set < sets; set++) {
        send[set] = (wharf_exchange_box){
            b->buffer, 2 * (size_t)set * b->bytes, {b->bytes, 1, 1}, {0, 0}};
        receive[set] = send[set];
        receive[set].offset += b->bytes;
    }
    return wharf_exchange_create(b->bench->node, MPI_COMM_WORLD, 1, &transfer,
                                 &options, &b->exchange);
}

static wharf_status rounds(struct exchange_bench *b, bool split,
                           struct bench_row *row)
{
    const struct bench_options *o = &b->bench->options;
    int calls = calls_of(b->bytes);
    wharf_status status = WHARF_OK;

    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        double start, time;

        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int i = 0; i < calls && status == WHARF_OK; i++)
            status = one(b, split);
        if (status == WHARF_OK)
            status = finish(b);
        time = bench_slowest((MPI_Wtime() - start) * 1e6 / calls);
        if (round >= 0)
            row->samples[row->rounds++] = time;
    }
    return status;
}

static wharf_status op_rounds(struct exchange_bench *b, int op,
                              struct bench_row *row)
{
    int sets = sets_of(op);
    wharf_status status;

    bench_or_abort(data_write(b, sets));
    status = create(b, sets);
    if (status != WHARF_OK)
        return status;
    bench_or_abort(rounds(b, op == SPLIT_1 || op == SPLIT_2, row));
    status = wharf_exchange_destroy(&b->exchange);
    if (status == WHARF_OK)
        bench_or_abort(data_check(b, sets, &row->bad));
    row->moves = true;
    bench_row_finish(row);
    return status;
}

static wharf_status size_rounds(struct exchange_bench *b, int size)
{
    const struct bench_options *o = &b->bench->options;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_status status;

    /* Patterns are of whole words. */
    b->bytes = o->sizes[size] / 8 * 8;
    options.space = o->space;
    options.name = "wharf-bench";
    status =
        wharf_buffer_attach(b->bench->node, 4 * b->bytes, &options, &b->buffer);
    for (int op = 0; op < OPS && status == WHARF_OK; op++)
        status = op_rounds(b, op, &b->rows[op * o->size_count + size]);
    if (status == WHARF_OK)
        status = wharf_buffer_detach(&b->buffer);
    return status;
}

/* ---- All of it --------------------------------------------------------- */

static wharf_status all_rounds(struct exchange_bench *b)
{
    const struct bench *bench = b->bench;
    wharf_status status = WHARF_OK;

    b->me = wharf_node_rank(bench->node);
    b->partner = (b->me ^ 1) < bench->size ? b->me ^ 1 : b->me;
    for (int rank = 0; rank < bench->size && status == WHARF_OK; rank++)
        status = wharf_event_create(bench->node, rank, &b->event[rank]);
    for (int size = 0; size < bench->options.size_count && status == WHARF_OK;
         size++) {
        bench_progress(bench, "size", size + 1, bench->options.size_count);
        status = size_rounds(b, size);
    }
    bench_progress(bench, "", 0, 0);
    for (int rank = 0; rank < bench->size && status == WHARF_OK; rank++)
        status = wharf_event_destroy(&b->event[rank]);
    return status;
}

static void rows_init(struct exchange_bench *b)
{
    const struct bench_options *o = &b->bench->options;

    for (int op = 0; op < OPS; op++)
        for (int size = 0; size < o->size_count; size++) {
            int row = op * o->size_count + size;

            b->rows[row].op = op_names[op];
            b->rows[row].bytes = o->sizes[size] / 8 * 8;
        }
}

int bench_exchange(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    struct exchange_bench b = {.bench = bench};
    int rows = OPS * o->size_count;
    wharf_status status;
    bool good = false;

    b.rows = bench_rows_new(rows, o->rounds);
    b.event = tool_alloc((size_t)bench->size, sizeof(wharf_event *));
    b.host = tool_alloc(bench_largest(o), 1);
    rows_init(&b);
    bench->checked = "every byte received, after each operation's rounds";
    status = all_rounds(&b);
    if (status == WHARF_OK)
        good = bench_report(bench, "exchange", b.rows, rows);
    else
        tool_report_once("wharf-bench", bench->rank);
    bench_rows_free(b.rows);
    free(b.event);
    free(b.host);
    return good ? 0 : 1;
}
