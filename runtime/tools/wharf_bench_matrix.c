/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench matrix: how fast data goes from each rank to each other one, and
 * between all at once, as a program sees it that issues to its default stream.
 *
 *   put-pair    into the segment of one other rank, by one rank at a time
 *   all-to-all  one exchange in which every rank sends an equal part of `bytes`
 *               to every other one; the rate is what one rank sends
 *
 * By WHARF_COPY=engine the first is the copy engine's own rate, to compare
 * with.
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Bytes under way in one round, at most so many calls. */
#define ROUND_BYTES_CUDA (UINT64_C(1) << 30)
#define ROUND_BYTES_HOST (UINT64_C(16) << 20)
#define ROUND_CALLS 100

struct matrix_bench {
    const struct bench *bench;
    struct bench_row *rows; /* pairs of the first size, of the next, ...; then
                               all-to-all of each size */
    int pairs, me, size;
    wharf_event **done;   /* of each rank: how the default stream is waited
                             for */
    wharf_buffer *buffer; /* of each rank: what goes, behind it what comes */
    unsigned char *host;
    uint64_t bytes, serial;
    wharf_exchange *exchange;
};

static wharf_status finish(const struct matrix_bench *b)
{
    return bench_finish(b->done[b->me]);
}

static int calls_of(const struct matrix_bench *b)
{
    bool cuda = wharf_node_backend(b->bench->node) == WHARF_BACKEND_CUDA;
    uint64_t calls = (cuda ? ROUND_BYTES_CUDA : ROUND_BYTES_HOST) / b->bytes;

    return calls < 1 ? 1 : calls > ROUND_CALLS ? ROUND_CALLS : (int)calls;
}

/* ---- Data --------------------------------------------------------------- */

/* A new source, and nothing where data will come. */
static wharf_status data_write(struct matrix_bench *b)
{
    wharf_status status;

    memset(b->host, 0, b->bytes);
    status = wharf_put(b->buffer, b->me, b->bytes, b->host, b->bytes, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    bench_words_fill(b->host, b->bytes, b->serial, b->me);
    if (status == WHARF_OK)
        status = wharf_put(b->buffer, b->me, 0, b->host, b->bytes, NULL);
    return status == WHARF_OK ? finish(b) : status;
}

/* What has come, on the CPU. */
static wharf_status data_read(struct matrix_bench *b)
{
    wharf_status status =
        bench_spoil(b->bench, b->buffer, b->me, b->bytes, b->done[b->me]);

    if (status == WHARF_OK)
        status = wharf_get(b->buffer, b->me, b->bytes, b->host, b->bytes, NULL);
    return status == WHARF_OK ? finish(b) : status;
}

/* ---- Pairs -------------------------------------------------------------- */

static wharf_status puts_timed(const struct matrix_bench *b, int to, void *mine,
                               double *time)
{
    int calls = calls_of(b);
    double start = MPI_Wtime();
    wharf_status status = WHARF_OK;

    for (int i = 0; i < calls && status == WHARF_OK; i++)
        status = wharf_put(b->buffer, to, b->bytes, mine, b->bytes, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    *time = (MPI_Wtime() - start) * 1e6 / calls;
    return status;
}

/* The way is the sender's to know; every rank calls. */
static wharf_status describe(const struct matrix_bench *b, int from, int to,
                             void *mine, struct bench_row *row)
{
    wharf_link link = WHARF_LINK_INIT;
    wharf_box box = WHARF_BOX_INIT;
    wharf_copy_way way = WHARF_COPY_NOTHING;
    int name = 0;
    wharf_status status = wharf_node_link(b->bench->node, from, to, &link);

    box.width = b->bytes;
    if (status == WHARF_OK && b->me == from)
        status = wharf_copy_way_find(b->buffer, WHARF_COPY_PUT, to, b->bytes,
                                     mine, &box, &way, NULL);
    name = (int)way;
    MPI_Bcast(&name, 1, MPI_INT, from, MPI_COMM_WORLD);
    row->paired = true;
    row->from = from;
    row->to = to;
    row->path = wharf_path_name(link.path);
    row->mechanism = wharf_copy_way_name((wharf_copy_way)name);
    return status;
}

static wharf_status pair_rounds(struct matrix_bench *b, int from, int to,
                                struct bench_row *row)
{
    const struct bench_options *o = &b->bench->options;
    bool takes_part = b->me == from || b->me == to;
    void *mine = NULL;
    wharf_status status = wharf_buffer_segment(b->buffer, b->me, &mine, NULL);

    if (status == WHARF_OK)
        status = describe(b, from, to, mine, row);
    b->serial++;
    if (takes_part && status == WHARF_OK)
        status = data_write(b);
    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        double time = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        if (b->me == from)
            status = puts_timed(b, to, mine, &time);
        time = bench_slowest(time);
        if (round >= 0)
            row->samples[row->rounds++] = time;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (b->me == to && status == WHARF_OK) {
        status = data_read(b);
        row->bad += bench_words_wrong(b->host, b->bytes, b->serial, from);
    }
    bench_row_finish(row);
    return status;
}

static void all_pairs(struct matrix_bench *b, int size)
{
    int number = size * b->pairs;

    for (int from = 0; from < b->size; from++)
        for (int to = 0; to < b->size; to++) {
            if (to == from)
                continue;
            bench_progress(b->bench, "pair", number % b->pairs + 1, b->pairs);
            bench_or_abort(pair_rounds(b, from, to, &b->rows[number++]));
        }
}

/* ---- All at once -------------------------------------------------------- */

/* What one rank sends to each other one, in whole words. */
static uint64_t part_of(const struct matrix_bench *b)
{
    uint64_t others = b->size > 1 ? (uint64_t)b->size - 1 : 1;

    return b->bytes / others / 8 * 8;
}

/* Which part of a rank's segment another one has: the ranks in order, but for
 * the rank itself. */
static uint64_t part_at(const struct matrix_bench *b, int rank, int other)
{
    return (uint64_t)(other < rank ? other : other - 1) * part_of(b);
}

static wharf_status exchange_create(struct matrix_bench *b)
{
    size_t count = (size_t)(b->size - 1);
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_box *boxes = tool_alloc(2 * count, sizeof *boxes);
    wharf_exchange_transfer *transfers = tool_alloc(count, sizeof *transfers);
    wharf_exchange_box *pair = boxes; /* of the next peer: out, in */
    int at = 0;
    wharf_status status;

    options.sets = 1;
    for (int peer = 0; peer < b->size; peer++) {
        wharf_exchange_box box = {
            b->buffer, part_at(b, b->me, peer), {part_of(b), 1, 1}, {0, 0}};

        if (peer == b->me)
            continue;
        transfers[at].peer = peer;
        transfers[at].send = pair;
        transfers[at++].receive = pair + 1;
        *pair++ = box;
        *pair = box;
        pair++->offset += b->bytes;
    }
    status = wharf_exchange_create(b->bench->node, MPI_COMM_WORLD, at,
                                   transfers, &options, &b->exchange);
    free(boxes);
    free(transfers);
    return status;
}

static wharf_status exchange_rounds(struct matrix_bench *b,
                                    struct bench_row *row)
{
    const struct bench_options *o = &b->bench->options;
    int calls = calls_of(b);
    wharf_status status = WHARF_OK;

    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        double start, time;

        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int i = 0; i < calls && status == WHARF_OK; i++)
            status = wharf_exchange_run(b->exchange, NULL);
        if (status == WHARF_OK)
            status = finish(b);
        time = bench_slowest((MPI_Wtime() - start) * 1e6 / calls);
        if (round >= 0)
            row->samples[row->rounds++] = time;
    }
    return status;
}

/* Each part is the piece of its sender's source that is this rank's. */
static wharf_status exchange_check(struct matrix_bench *b, uint64_t *bad)
{
    wharf_status status = data_read(b);

    for (int from = 0; from < b->size && status == WHARF_OK; from++) {
        uint64_t first = part_at(b, from, b->me) / 8;
        const unsigned char *came = b->host + part_at(b, b->me, from);

        for (uint64_t i = 0; from != b->me && i < part_of(b) / 8; i++) {
            uint64_t word;

            memcpy(&word, came + i * 8, 8);
            *bad += (uint64_t)bench_wrong_bytes(
                word, bench_word(b->serial, from, first + i));
        }
    }
    return status;
}

static wharf_status all_to_all(struct matrix_bench *b, struct bench_row *row)
{
    wharf_status status;

    row->bytes = part_of(b) * (uint64_t)(b->size - 1);
    if (row->bytes == 0) {
        snprintf(row->failure, sizeof row->failure,
                 "less than a word for each of the other ranks");
        return WHARF_OK;
    }
    b->serial++;
    bench_or_abort(data_write(b));
    status = exchange_create(b);
    if (status != WHARF_OK)
        return status;
    bench_or_abort(exchange_rounds(b, row));
    status = wharf_exchange_destroy(&b->exchange);
    if (status == WHARF_OK)
        bench_or_abort(exchange_check(b, &row->bad));
    bench_row_finish(row);
    return status;
}

/* ---- All of it ---------------------------------------------------------- */

static wharf_status size_rounds(struct matrix_bench *b, int size)
{
    const struct bench_options *o = &b->bench->options;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_status status;

    b->bytes = o->sizes[size] / 8 * 8;
    options.space = o->space;
    options.name = "wharf-bench";
    status =
        wharf_buffer_attach(b->bench->node, 2 * b->bytes, &options, &b->buffer);
    if (status == WHARF_OK)
        all_pairs(b, size);
    if (status == WHARF_OK)
        status = all_to_all(b, &b->rows[b->pairs * o->size_count + size]);
    if (status == WHARF_OK)
        status = wharf_buffer_detach(&b->buffer);
    return status;
}

static wharf_status run(struct matrix_bench *b)
{
    const struct bench *bench = b->bench;
    wharf_status status = WHARF_OK;

    for (int rank = 0; rank < b->size && status == WHARF_OK; rank++)
        status = wharf_event_create(bench->node, rank, &b->done[rank]);
    for (int size = 0; size < bench->options.size_count && status == WHARF_OK;
         size++)
        status = size_rounds(b, size);
    for (int rank = 0; rank < b->size && status == WHARF_OK; rank++)
        status = wharf_event_destroy(&b->done[rank]);
    bench_progress(bench, "", 0, 0);
    return status;
}

static void rows_init(struct matrix_bench *b)
{
    const struct bench_options *o = &b->bench->options;

    for (int i = 0; i < (b->pairs + 1) * o->size_count; i++) {
        bool pair = i < b->pairs * o->size_count;
        int size = pair ? i / b->pairs : i - b->pairs * o->size_count;

        b->rows[i].op = pair ? "put-pair" : "all-to-all";
        b->rows[i].bytes = o->sizes[size] / 8 * 8;
        b->rows[i].moves = true;
    }
}

/* GB/s of each pair, rows from, columns to. */
static void matrices_print(const void *argument)
{
    const struct matrix_bench *b = argument;
    const struct bench_row *row = b->rows;

    for (int size = 0; size < b->bench->options.size_count; size++) {
        printf("#\n# matrix of put-pair, %llu bytes, row to column (GB/s)\n#  ",
               (unsigned long long)row->bytes);
        for (int to = 0; to < b->size; to++)
            printf(" %8d", to);
        for (int from = 0; from < b->size; from++) {
            printf("\n# %2d", from);
            for (int to = 0; to < b->size; to++) {
                if (to == from) {
                    printf(" %8s", ".");
                    continue;
                }
                printf(" %8.2f", bench_row_rate(row));
                row++;
            }
        }
        printf("\n");
    }
}

int bench_matrix(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    struct matrix_bench b = {.bench = bench,
                             .pairs = bench->size * (bench->size - 1),
                             .me = bench->rank,
                             .size = bench->size};
    int count = bench->size > 1 ? (b.pairs + 1) * o->size_count : 0;
    wharf_status status = WHARF_OK;
    bool good = false;

    b.rows = bench_rows_new(count, o->rounds);
    b.done = tool_alloc((size_t)bench->size, sizeof(wharf_event *));
    b.host = tool_alloc(bench_largest(o), 1);
    bench->checked = "every byte, at each receiver";
    if (count == 0)
        snprintf(bench->remark, sizeof bench->remark,
                 "one rank makes no pair: nothing to measure");
    else {
        rows_init(&b);
        status = run(&b);
        bench->more = matrices_print;
        /* cppcheck-suppress autoVariables ; read by the report below */
        bench->more_of = &b;
    }
    if (status == WHARF_OK)
        good = bench_report(bench, "matrix", b.rows, count);
    else
        tool_report_once("wharf-bench", bench->rank);
    bench_rows_free(b.rows);
    free(b.done);
    free(b.host);
    return good ? 0 : 1;
}
