/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench attach: what it costs to share memory, and to stop.
 *
 * One round of one size: attach with an empty pool, detach into the pool,
 * attach again from it, detach and give the memory back. Rounds of all sizes
 * are interleaved, so that a slow phase of the machine hits every size.
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Words checked of every segment, spread evenly: touching all of a large
 * segment would measure the kernel's page faults, not the data. */
#define CHECK_WORDS 1024

enum attach_op { ATTACH, DETACH_KEEP, ATTACH_AGAIN, DETACH_FREE, OPS };

static const char *const op_names[OPS] = {"attach", "detach-to-pool",
                                          "attach-from-pool", "detach-free"};

struct attach_bench {
    const struct bench *bench;
    struct bench_row *rows; /* OPS * sizes, by operation */
    uint64_t serial;        /* makes every check's pattern new */
    uint64_t words[CHECK_WORDS];
};

static struct bench_row *row_of(const struct attach_bench *b, int op, int size)
{
    return &b->rows[op * b->bench->options.size_count + size];
}

/* Words to check of a segment, from the first on, equally far apart. */
static wharf_box check_box(size_t bytes)
{
    wharf_box box = WHARF_BOX_INIT;
    size_t words = bytes / 8 < CHECK_WORDS ? bytes / 8 : CHECK_WORDS;

    box.width = 8;
    box.rows = words;
    box.from_pitch = box.to_pitch = words == 0 ? 8 : bytes / 8 / words * 8;
    return box;
}

/* Writes the words of the own segment. */
static wharf_status check_write(struct attach_bench *b, wharf_buffer *buffer,
                                int me, wharf_event *done)
{
    size_t bytes = 0;
    wharf_box box;
    wharf_status status = wharf_buffer_segment(buffer, me, NULL, &bytes);

    if (status != WHARF_OK)
        return status;
    box = check_box(bytes);
    box.from_pitch = 8;
    bench_words_fill(b->words, box.rows * 8, b->serial, me);
    status = wharf_put_box(buffer, me, 0, b->words, &box, NULL);
    return status == WHARF_OK ? bench_finish(done) : status;
}

/* Reads the words of a segment. */
static wharf_status check_read(struct attach_bench *b, wharf_buffer *buffer,
                               int rank, wharf_event *done, uint64_t *bad)
{
    size_t bytes = 0;
    wharf_box box;
    wharf_status status = wharf_buffer_segment(buffer, rank, NULL, &bytes);

    if (status != WHARF_OK)
        return status;
    box = check_box(bytes);
    box.to_pitch = 8;
    memset(b->words, 0, sizeof b->words);
    status = wharf_get_box(buffer, rank, 0, b->words, &box, NULL);
    if (status == WHARF_OK)
        status = bench_finish(done);
    if (status == WHARF_OK)
        *bad += bench_words_wrong(b->words, box.rows * 8, b->serial, rank);
    return status;
}

/* Every rank writes its own segment, then reads all segments. */
static wharf_status check_data(struct attach_bench *b, wharf_buffer *buffer,
                               uint64_t *bad)
{
    wharf_node *node = b->bench->node;
    int me = wharf_node_rank(node);
    wharf_event *done = NULL;
    wharf_status status = wharf_buffer_event(buffer, me, &done);

    b->serial++;
    if (status == WHARF_OK)
        status = check_write(b, buffer, me, done);
    if (status == WHARF_OK)
        status = bench_spoil(b->bench, buffer, me, 0, done);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int rank = 0; rank < wharf_node_size(node) && status == WHARF_OK;
         rank++)
        status = check_read(b, buffer, rank, done, bad);
    MPI_Barrier(MPI_COMM_WORLD);
    return status;
}

static wharf_status timed_attach(struct attach_bench *b, int op, int size,
                                 wharf_buffer **buffer, double *time)
{
    const struct bench_options *o = &b->bench->options;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer_info info = WHARF_BUFFER_INFO_INIT;
    struct bench_row *row = row_of(b, op, size);
    double start;
    wharf_status status;

    options.space = o->space;
    options.name = "wharf-bench";
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    status = wharf_buffer_attach(b->bench->node, (size_t)o->sizes[size],
                                 &options, buffer);
    *time = bench_slowest((MPI_Wtime() - start) * 1e6);
    if (status == WHARF_OK)
        status = wharf_buffer_info_get(*buffer, 0, &info);
    if (status == WHARF_OK)
        row->reused += info.pooled != 0;
    return status;
}

static wharf_status timed_detach(struct attach_bench *b, bool trim,
                                 wharf_buffer **buffer, double *time)
{
    double start;
    wharf_status status;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    status = wharf_buffer_detach(buffer);
    if (status == WHARF_OK && trim)
        status = wharf_pool_trim(b->bench->node);
    *time = bench_slowest((MPI_Wtime() - start) * 1e6);
    return status;
}

/* One round of one size. `time` gets a figure an operation. */
static wharf_status attach_round(struct attach_bench *b, int size,
                                 double time[OPS], uint64_t bad[2])
{
    wharf_buffer *buffer = NULL;
    wharf_status status = timed_attach(b, ATTACH, size, &buffer, &time[ATTACH]);

    if (status == WHARF_OK)
        bench_or_abort(check_data(b, buffer, &bad[0]));
    if (status == WHARF_OK)
        status = timed_detach(b, false, &buffer, &time[DETACH_KEEP]);
    if (status == WHARF_OK)
        status =
            timed_attach(b, ATTACH_AGAIN, size, &buffer, &time[ATTACH_AGAIN]);
    if (status == WHARF_OK)
        bench_or_abort(check_data(b, buffer, &bad[1]));
    if (status == WHARF_OK)
        status = timed_detach(b, true, &buffer, &time[DETACH_FREE]);
    return status;
}

/* A size that does not fit is left out; anything else ends the run. */
static bool left_out(struct attach_bench *b, int size, wharf_status status)
{
    for (int op = 0; op < OPS; op++)
        if (!bench_too_large(status, row_of(b, op, size)->failure))
            return false;
    return true;
}

static wharf_status attach_size(struct attach_bench *b, int size, bool counts)
{
    double time[OPS] = {0};
    uint64_t bad[2] = {0, 0};
    wharf_status status;

    if (row_of(b, ATTACH, size)->failure[0] != '\0')
        return WHARF_OK;
    status = attach_round(b, size, time, bad);
    if (status != WHARF_OK)
        return left_out(b, size, status) ? WHARF_OK : status;
    row_of(b, ATTACH, size)->bad += bad[0];
    row_of(b, ATTACH_AGAIN, size)->bad += bad[1];
    for (int op = 0; op < OPS && counts; op++) {
        struct bench_row *row = row_of(b, op, size);

        row->samples[row->rounds++] = time[op];
    }
    return WHARF_OK;
}

static wharf_status attach_rounds(struct attach_bench *b)
{
    const struct bench_options *o = &b->bench->options;
    wharf_status status = WHARF_OK;

    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        bench_progress(b->bench, "round", round + o->warmup + 1,
                       o->rounds + o->warmup);
        for (int size = 0; size < o->size_count && status == WHARF_OK; size++) {
            if (round == 0)
                for (int op = 0; op < OPS; op++)
                    row_of(b, op, size)->reused = 0;
            status = attach_size(b, size, round >= 0);
        }
    }
    bench_progress(b->bench, "", 0, 0);
    return status;
}

int bench_attach(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    int count = OPS * o->size_count;
    struct attach_bench b = {.bench = bench};
    bool good = false;

    b.rows = bench_rows_new(count, o->rounds);
    for (int i = 0; i < count; i++) {
        b.rows[i].op = op_names[i / o->size_count];
        b.rows[i].bytes = o->sizes[i % o->size_count];
    }
    bench->checked = "of up to 1024 words of every segment, on every rank, "
                     "after each attach; detach: nothing is left to look at";
    if (attach_rounds(&b) == WHARF_OK) {
        for (int i = 0; i < count; i++)
            bench_row_finish(&b.rows[i]);
        good = bench_report(bench, "attach", b.rows, count);
    } else {
        tool_report_once("wharf-bench", bench->rank);
    }
    bench_rows_free(b.rows);
    return good ? 0 : 1;
}
