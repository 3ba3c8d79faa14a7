/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench copy: moving data to and from the next rank, all ranks at once,
 * as a program sees it that issues to its default stream. On GPUs everything is
 * measured three times: by the way that Wharf chooses, by the copy engines, and
 * by kernels.
 *
 *   put         into the next rank's segment
 *   get         out of it
 *   put-2d      rows of 64 bytes, 256 apart; bytes are those moved
 *   put-notify  put, with a notify to the next rank; then the wait for the one
 *               before: one round of an exchange
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Bytes under way in one round, at most so many calls: the wait for the end is
 * to be small beside them, and a CPU is not to copy for minutes. */
#define ROUND_BYTES_CUDA (UINT64_C(512) << 20)
#define ROUND_BYTES_HOST (UINT64_C(32) << 20)
#define ROUND_CALLS 100

#define ROW_BYTES 64
#define ROW_PITCH 256

enum copy_op { PUT, GET, PUT_2D, PUT_NOTIFY, OPS };
enum copy_how { CHOSEN, ENGINE, KERNEL, HOWS };

static const char *const op_names[HOWS][OPS] = {
    {"put", "get", "put-2d", "put-notify"},
    {"put-engine", "get-engine", "put-2d-engine", "put-notify-engine"},
    {"put-kernel", "get-kernel", "put-2d-kernel", "put-notify-kernel"}};

struct copy_bench {
    const struct bench *bench;
    struct bench_row *rows; /* by how, operation, size */
    unsigned char *host;    /* the largest size */
    uint64_t serial;        /* makes every pattern new */

    /* Of one way: */
    wharf_node *node;
    int next, last; /* ranks */
    wharf_notify **notify;
    wharf_event **event; /* of each rank: the own one tells when work is done */

    /* Of one size: each segment is a source, and behind it a destination. */
    wharf_buffer *buffer;
    uint64_t bytes;
};

static struct bench_row *row_of(const struct copy_bench *b, int how, int op,
                                int size)
{
    return &b->rows[(how * OPS + op) * b->bench->options.size_count + size];
}

static wharf_status finish(struct copy_bench *b)
{
    return bench_finish(b->event[wharf_node_rank(b->node)]);
}

/* ---- One operation ----------------------------------------------------- */

static wharf_box rows_box(const struct copy_bench *b)
{
    wharf_box box = WHARF_BOX_INIT;

    box.width = ROW_BYTES;
    box.rows = b->bytes / ROW_PITCH;
    box.from_pitch = box.to_pitch = ROW_PITCH;
    return box;
}

static wharf_status one(struct copy_bench *b, int op)
{
    int me = wharf_node_rank(b->node);
    wharf_box box = rows_box(b);
    char *mine = NULL;
    wharf_status status =
        wharf_buffer_segment(b->buffer, me, (void **)&mine, NULL);

    if (status != WHARF_OK)
        return status;
    switch (op) {
    case PUT:
        return wharf_put(b->buffer, b->next, b->bytes, mine, b->bytes, NULL);
    case GET:
        return wharf_get(b->buffer, b->next, 0, mine + b->bytes, b->bytes,
                         NULL);
    case PUT_2D:
        return wharf_put_box(b->buffer, b->next, b->bytes, mine, &box, NULL);
    default:
        break;
    }
    if (b->next == me) /* one rank has nobody to notify */
        return wharf_put(b->buffer, me, b->bytes, mine, b->bytes, NULL);
    status = wharf_put_notify(b->buffer, b->next, b->bytes, mine, b->bytes,
                              b->notify[b->next], NULL);
    return status == WHARF_OK
               ? wharf_notify_wait(b->notify[me], b->last, NULL, 0)
               : status;
}

/* ---- Data -------------------------------------------------------------- */

/* Every rank writes a new source, and an empty destination. */
static wharf_status data_write(struct copy_bench *b)
{
    int me = wharf_node_rank(b->node);
    wharf_status status;

    b->serial++;
    memset(b->host, 0, b->bytes);
    status = wharf_put(b->buffer, me, b->bytes, b->host, b->bytes, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    bench_words_fill(b->host, b->bytes, b->serial, me);
    if (status == WHARF_OK)
        status = wharf_put(b->buffer, me, 0, b->host, b->bytes, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    MPI_Barrier(MPI_COMM_WORLD);
    return status;
}

/* Rows were moved, and what lies between them was not. */
static uint64_t rows_wrong(const struct copy_bench *b, int from)
{
    uint64_t rows = b->bytes / ROW_PITCH, wrong = 0;

    for (uint64_t i = 0; i < b->bytes / 8; i++) {
        bool moved = i * 8 % ROW_PITCH < ROW_BYTES && i * 8 / ROW_PITCH < rows;
        uint64_t got;

        memcpy(&got, b->host + i * 8, 8);
        wrong += (uint64_t)bench_wrong_bytes(
            got, moved ? bench_word(b->serial, from, i) : 0);
    }
    return wrong;
}

/* Wrong bytes of this rank's destination. */
static wharf_status data_check(struct copy_bench *b, int op, uint64_t *bad)
{
    int me = wharf_node_rank(b->node);
    int from = op == GET ? b->next : b->last;
    wharf_status status;

    MPI_Barrier(MPI_COMM_WORLD);
    status =
        bench_spoil(b->bench, b->buffer, me, 2 * b->bytes - 1, b->event[me]);
    if (status == WHARF_OK)
        status = wharf_get(b->buffer, me, b->bytes, b->host, b->bytes, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    if (status == WHARF_OK)
        *bad += op == PUT_2D
                    ? rows_wrong(b, from)
                    : bench_words_wrong(b->host, b->bytes, b->serial, from);
    MPI_Barrier(MPI_COMM_WORLD);
    return status;
}

/* ---- Rounds ------------------------------------------------------------ */

static int calls_of(const struct copy_bench *b)
{
    bool cuda = wharf_node_backend(b->node) == WHARF_BACKEND_CUDA;
    uint64_t calls = (cuda ? ROUND_BYTES_CUDA : ROUND_BYTES_HOST) / b->bytes;

    return calls < 1 ? 1 : calls > ROUND_CALLS ? ROUND_CALLS : (int)calls;
}

/* All rounds of one operation at one size, and the check of its data. */
static wharf_status op_rounds(struct copy_bench *b, int op,
                              struct bench_row *row)
{
    const struct bench_options *o = &b->bench->options;
    int calls = calls_of(b);
    wharf_status status;

    row->moves = true;
    row->bytes = b->bytes;
    if (op == PUT_2D)
        row->bytes = b->bytes / ROW_PITCH * ROW_BYTES;
    if (row->bytes == 0) {
        snprintf(row->failure, sizeof row->failure,
                 "less than the %d bytes from a row to the next", ROW_PITCH);
        return WHARF_OK;
    }
    status = data_write(b);
    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        double start, time;

        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int i = 0; i < calls && status == WHARF_OK; i++)
            status = one(b, op);
        if (status == WHARF_OK)
            status = finish(b);
        time = bench_slowest((MPI_Wtime() - start) * 1e6 / calls);
        if (round >= 0)
            row->samples[row->rounds++] = time;
    }
    if (status == WHARF_OK)
        status = data_check(b, op, &row->bad);
    bench_row_finish(row);
    return status;
}

static wharf_status size_rounds(struct copy_bench *b, int how, int size)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_status status;

    /* Patterns are of whole words. */
    b->bytes = b->bench->options.sizes[size] / 8 * 8;
    options.space = b->bench->options.space;
    options.name = "wharf-bench";
    status = wharf_buffer_attach(b->node, 2 * b->bytes, &options, &b->buffer);
    for (int op = 0; op < OPS && status == WHARF_OK; op++)
        bench_or_abort(op_rounds(b, op, row_of(b, how, op, size)));
    if (status == WHARF_OK)
        status = wharf_buffer_detach(&b->buffer);
    return status;
}

/* ---- Ways -------------------------------------------------------------- */

static wharf_status objects_create(struct copy_bench *b)
{
    int me = wharf_node_rank(b->node), size = wharf_node_size(b->node);
    wharf_status status = WHARF_OK;

    b->next = (me + 1) % size;
    b->last = (me + size - 1) % size;
    for (int rank = 0; rank < size && status == WHARF_OK; rank++)
        status = wharf_notify_create(b->node, rank, NULL, &b->notify[rank]);
    for (int rank = 0; rank < size && status == WHARF_OK; rank++)
        status = wharf_event_create(b->node, rank, &b->event[rank]);
    return status;
}

static wharf_status objects_destroy(struct copy_bench *b)
{
    int size = wharf_node_size(b->node);
    wharf_status status = WHARF_OK;

    for (int rank = 0; rank < size && status == WHARF_OK; rank++)
        status = wharf_event_destroy(&b->event[rank]);
    for (int rank = 0; rank < size && status == WHARF_OK; rank++)
        status = wharf_notify_destroy(&b->notify[rank]);
    return status;
}

/* Way after way on a node of its own, whose settings name it. */
static wharf_status way_rounds(struct copy_bench *b, int how)
{
    static const char *const names[HOWS] = {"auto", "engine", "kernel"};
    const struct bench_options *o = &b->bench->options;
    wharf_status status = bench_open_way(names[how], &b->node);

    if (status == WHARF_OK)
        status = objects_create(b);
    for (int size = 0; size < o->size_count && status == WHARF_OK; size++) {
        bench_progress(b->bench, names[how], size + 1, o->size_count);
        status = size_rounds(b, how, size);
    }
    if (status == WHARF_OK)
        status = objects_destroy(b);
    if (b->node) {
        wharf_status closed = wharf_node_close(&b->node);

        status = status == WHARF_OK ? closed : status;
    }
    return status;
}

static void rows_init(struct copy_bench *b)
{
    const struct bench_options *o = &b->bench->options;

    for (int how = 0; how < HOWS; how++)
        for (int op = 0; op < OPS; op++)
            for (int size = 0; size < o->size_count; size++) {
                struct bench_row *r = row_of(b, how, op, size);

                r->op = op_names[how][op];
                r->bytes = o->sizes[size];
            }
}

int bench_copy(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    struct copy_bench b = {.bench = bench};
    bool cuda = wharf_node_backend(bench->node) == WHARF_BACKEND_CUDA;
    int hows = cuda ? HOWS : 1, each = OPS * o->size_count;
    wharf_status status = WHARF_OK;
    bool good = false;

    b.rows = bench_rows_new(HOWS * each, o->rounds);
    b.notify = tool_alloc((size_t)bench->size, sizeof(wharf_notify *));
    b.event = tool_alloc((size_t)bench->size, sizeof(wharf_event *));
    b.host = tool_alloc(bench_largest(o), 1);
    rows_init(&b);
    bench->checked = "every byte, after each operation's rounds";
    for (int how = 0; how < hows && status == WHARF_OK; how++)
        status = way_rounds(&b, how);
    bench_progress(bench, "", 0, 0);
    if (status == WHARF_OK)
        good = bench_report(bench, "copy", b.rows, hows * each);
    else
        tool_report_once("wharf-bench", bench->rank);
    bench_rows_free(b.rows);
    free(b.notify);
    free(b.event);
    free(b.host);
    return good ? 0 : 1;
}
