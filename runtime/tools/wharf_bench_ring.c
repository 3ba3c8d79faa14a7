/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench ring: what a slot costs from its producer, rank 0, to its
 * consumers, as a program sees it that issues to its default stream and does
 * nothing else: begin and end on either side, for every slot. With one slot the
 * two sides take turns; with several they overlap. `-issue` is the time that
 * the calls take, of the slower side.
 *
 * After the rounds of a shape comes one more in which every slot is filled anew
 * and all that a consumer sees of it is looked at.
 *
 *   all-C-K     C consumers that all see every slot, K slots
 *   shared-C-K  C consumers that share them out
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Slots of one round. */
#define SLOTS 400

/* Most bytes of a slot that are checked. */
#define CHECKED 4096

/* 1, 2, 4, ... consumers and all there are, of depth 1 and 8, and shared. */
#define SHAPES 24

struct shape {
    char name[2][48]; /* of the slot, of the calls */
    int consumers, slots;
    wharf_ring_mode mode;
};

struct ring_bench {
    const struct bench *bench;
    struct shape shapes[SHAPES];
    int count;
    struct bench_row *rows; /* two a shape: of the slot, of the calls */
    wharf_event **events; /* of each rank: how a default stream is waited for */
    uint64_t slot_bytes;
    wharf_buffer *buffer; /* of each rank: what is in a slot, for a check */
    unsigned char *host;
};

/* ---- Shapes ------------------------------------------------------------ */

static void shape_add(struct ring_bench *b, int consumers, int slots,
                      wharf_ring_mode mode)
{
    struct shape *shape = &b->shapes[b->count++];
    const char *kind = mode == WHARF_RING_ALL ? "all" : "shared";

    shape->consumers = consumers;
    shape->slots = slots;
    shape->mode = mode;
    snprintf(shape->name[0], sizeof shape->name[0], "%s-%d-%d", kind, consumers,
             slots);
    snprintf(shape->name[1], sizeof shape->name[1], "%s-%d-%d-issue", kind,
             consumers, slots);
}

static void shapes_list(struct ring_bench *b)
{
    int most = b->bench->size - 1;

    for (int c = 1; c < 2 * most && b->count + 3 <= SHAPES; c *= 2) {
        int consumers = c < most ? c : most;

        shape_add(b, consumers, 1, WHARF_RING_ALL);
        shape_add(b, consumers, 8, WHARF_RING_ALL);
        if (consumers == most)
            shape_add(b, consumers, 8, WHARF_RING_SHARED);
    }
}

/* ---- Rounds ------------------------------------------------------------ */

/* All work of the default stream is complete. */
static wharf_status finish(const struct ring_bench *b)
{
    return bench_finish(b->events[b->bench->rank]);
}

static wharf_status produce(wharf_ring *ring, uint64_t bytes)
{
    wharf_status status = WHARF_OK;
    void *slot;

    for (int i = 0; i < SLOTS && status == WHARF_OK; i++) {
        status = wharf_ring_produce_begin(ring, NULL, &slot, NULL);
        if (status == WHARF_OK)
            status = wharf_ring_produce_end(ring, (size_t)bytes, NULL);
    }
    return status;
}

/* ALL: as many as are produced; SHARED: until the ring is closed. */
static wharf_status consume(wharf_ring *ring, const struct shape *shape)
{
    wharf_status status = WHARF_OK;
    const void *slot;

    for (int i = 0; status == WHARF_OK; i++) {
        if (shape->mode == WHARF_RING_ALL && i == SLOTS)
            return WHARF_OK;
        status = wharf_ring_consume_begin(ring, NULL, &slot, NULL);
        if (status == WHARF_OK)
            status = wharf_ring_consume_end(ring, NULL);
    }
    return status == WHARF_ECLOSED ? WHARF_OK : status;
}

/* One round with a ring of its own: a ring that was closed is over. */
static wharf_status timed(const struct ring_bench *b, const struct shape *shape,
                          const wharf_ring_options *options, double time[2])
{
    int rank = b->bench->rank;
    bool consumes = rank >= b->bench->size - shape->consumers;
    wharf_ring *ring = NULL;
    double start, issued;
    wharf_status status = wharf_ring_create(b->bench->node, options, &ring);

    if (status != WHARF_OK)
        return status;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (rank == 0) {
        status = produce(ring, b->slot_bytes);
        if (status == WHARF_OK)
            status = wharf_ring_close(ring);
    } else if (consumes) {
        status = consume(ring, shape);
    }
    issued = MPI_Wtime();
    if (status == WHARF_OK)
        status = finish(b);
    bench_or_abort(status);
    time[0] = bench_slowest((MPI_Wtime() - start) * 1e6 / SLOTS);
    time[1] = bench_slowest((issued - start) * 1e6 / SLOTS);
    return wharf_ring_destroy(&ring);
}

/* ---- Data ---------------------------------------------------------------- */

/* Slots of the round that is checked; more than any ring of here has. */
#define CHECKED_SLOTS 20

/* What of a slot is filled and looked at. */
static uint64_t checked_bytes(const struct ring_bench *b)
{
    return b->slot_bytes < CHECKED ? b->slot_bytes : CHECKED;
}

/* Fills slots by copies from the own segment: a slot is no segment itself. */
static wharf_status produce_data(struct ring_bench *b, wharf_ring *ring)
{
    uint64_t bytes = checked_bytes(b);
    wharf_status status = WHARF_OK;
    void *slot;

    for (uint64_t i = 0; i < CHECKED_SLOTS && status == WHARF_OK; i++) {
        bench_words_fill(b->host, bytes, i + 1, 0);
        status = wharf_put(b->buffer, 0, 0, b->host, bytes, NULL);
        if (status == WHARF_OK)
            status = finish(b);
        if (status == WHARF_OK)
            status = wharf_ring_produce_begin(ring, NULL, &slot, NULL);
        if (status == WHARF_OK)
            status = wharf_get(b->buffer, 0, 0, slot, bytes, NULL);
        if (status == WHARF_OK)
            status = wharf_ring_produce_end(ring, (size_t)bytes, NULL);
    }
    return status == WHARF_OK ? wharf_ring_close(ring) : status;
}

/* One slot, copied into the own segment and from there to the CPU. */
static wharf_status slot_check(struct ring_bench *b, const void *slot,
                               const wharf_ring_slot *is, uint64_t *bad)
{
    int me = b->bench->rank;
    uint64_t bytes = checked_bytes(b);
    wharf_status status = wharf_put(b->buffer, me, 0, slot, bytes, NULL);

    if (status == WHARF_OK)
        status = finish(b);
    if (status == WHARF_OK)
        status = bench_spoil(b->bench, b->buffer, me, 0, b->events[me]);
    memset(b->host, 0, bytes);
    if (status == WHARF_OK)
        status = wharf_get(b->buffer, me, 0, b->host, bytes, NULL);
    if (status == WHARF_OK)
        status = finish(b);
    if (status == WHARF_OK)
        *bad += is->bytes != bytes
                    ? bytes
                    : bench_words_wrong(b->host, bytes, is->index + 1, 0);
    return status;
}

/* Every slot until the ring is closed. A slot that never came is a wrong one.
 */
static wharf_status consume_data(struct ring_bench *b, wharf_ring *ring,
                                 const struct shape *shape, uint64_t *bad)
{
    wharf_ring_slot is;
    const void *slot;
    uint64_t seen = 0;
    wharf_status status;

    for (;;) {
        status = wharf_ring_consume_begin(ring, NULL, &slot, &is);
        if (status != WHARF_OK)
            break;
        seen++;
        status = slot_check(b, slot, &is, bad);
        if (status == WHARF_OK)
            status = wharf_ring_consume_end(ring, NULL);
        if (status != WHARF_OK)
            break;
    }
    if (shape->mode == WHARF_RING_ALL && seen != CHECKED_SLOTS)
        *bad += checked_bytes(b);
    return status == WHARF_ECLOSED ? WHARF_OK : status;
}

static wharf_status data_round(struct ring_bench *b, const struct shape *shape,
                               const wharf_ring_options *options, uint64_t *bad)
{
    int rank = b->bench->rank;
    bool consumes = rank >= b->bench->size - shape->consumers;
    wharf_ring *ring = NULL;
    wharf_status status = wharf_ring_create(b->bench->node, options, &ring);

    if (status != WHARF_OK)
        return status;
    if (rank == 0)
        bench_or_abort(produce_data(b, ring));
    else if (consumes)
        bench_or_abort(consume_data(b, ring, shape, bad));
    bench_or_abort(finish(b));
    MPI_Barrier(MPI_COMM_WORLD);
    return wharf_ring_destroy(&ring);
}

static wharf_status shape_run(struct ring_bench *b, int at)
{
    const struct bench_options *o = &b->bench->options;
    const struct shape *shape = &b->shapes[at];
    struct bench_row *rows = b->rows + (ptrdiff_t)2 * at;
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    wharf_status status = WHARF_OK;
    int *list = tool_alloc((size_t)shape->consumers, sizeof *list);

    for (int i = 0; i < shape->consumers; i++)
        list[i] = b->bench->size - shape->consumers + i;
    options.slots = shape->slots;
    options.slot_bytes = (size_t)b->slot_bytes;
    options.mode = shape->mode;
    options.space = o->space;
    options.consumers = list;
    options.consumer_count = shape->consumers;
    for (int round = -o->warmup; round < o->rounds && status == WHARF_OK;
         round++) {
        double time[2];

        status = timed(b, shape, &options, time);
        for (int k = 0; k < 2 && round >= 0 && status == WHARF_OK; k++) {
            struct bench_row *row = &rows[k];

            row->samples[row->rounds++] = time[k];
        }
    }
    if (status == WHARF_OK)
        status = data_round(b, shape, &options, &rows->bad);
    free(list);
    return status;
}

/* ---- The command ------------------------------------------------------- */

static wharf_status ring_run(struct ring_bench *b)
{
    int size = b->bench->size;
    wharf_status status =
        wharf_buffer_attach(b->bench->node, CHECKED, NULL, &b->buffer);

    for (int rank = 0; rank < size && status == WHARF_OK; rank++)
        status = wharf_event_create(b->bench->node, rank, &b->events[rank]);
    for (int at = 0; at < b->count && status == WHARF_OK; at++) {
        bench_progress(b->bench, "shape", at + 1, b->count);
        status = shape_run(b, at);
    }
    bench_progress(b->bench, "", 0, 0);
    for (int rank = 0; rank < size && status == WHARF_OK; rank++)
        status = wharf_event_destroy(&b->events[rank]);
    return status == WHARF_OK ? wharf_buffer_detach(&b->buffer) : status;
}

static void rows_prepare(struct ring_bench *b)
{
    for (int i = 0; i < 2 * b->count; i++) {
        b->rows[i].op = b->shapes[i / 2].name[i % 2];
        b->rows[i].bytes = b->slot_bytes;
    }
}

int bench_ring(struct bench *bench)
{
    struct ring_bench b = {.bench = bench,
                           .slot_bytes = bench->options.sizes[0]};
    wharf_status status = WHARF_OK;
    bool good = false;

    b.rows = bench_rows_new(2 * SHAPES, bench->options.rounds);
    b.events = tool_alloc((size_t)bench->size, sizeof(wharf_event *));
    b.host = tool_alloc(CHECKED, 1);
    bench->checked = "4096 bytes of every slot of one more round, at every "
                     "consumer";
    if (bench->size > 1) {
        shapes_list(&b);
    } else {
        b.count = 1;
        snprintf(b.shapes[0].name[0], sizeof b.shapes[0].name[0], "all");
        snprintf(b.shapes[0].name[1], sizeof b.shapes[0].name[1], "all-issue");
    }
    rows_prepare(&b);
    if (bench->size > 1)
        status = ring_run(&b);
    for (int i = 0; i < 2 * b.count; i++) {
        if (bench->size > 1)
            bench_row_finish(&b.rows[i]);
        else
            snprintf(b.rows[i].failure, sizeof b.rows[i].failure,
                     "one rank has nobody to hand over to");
    }
    if (status == WHARF_OK)
        good = bench_report(bench, "ring", b.rows, 2 * b.count);
    else
        tool_report_once("wharf-bench", bench->rank);
    bench_rows_free(b.rows);
    free(b.events);
    free(b.host);
    return good ? 0 : 1;
}
