/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench ring: what a slot costs from its producer, rank 0, to its
 * consumers, as a program sees it that issues to its default stream and does
 * nothing else: begin and end on either side, for every slot. With one slot the
 * two sides take turns; with several they overlap. `-issue` is the time that
 * the calls take, of the slower side.
 *
 *   all-C-K     C consumers that all see every slot, K slots
 *   shared-C-K  C consumers that share them out
 */
#include <stdlib.h>
#include <string.h>

#include "wharf_bench.h"

/* Slots of one round. */
#define SLOTS 400

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
    struct bench_row rows[2 * SHAPES];
    wharf_event **events; /* of each rank: how a default stream is waited for */
    uint64_t slot_bytes;
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

static double slowest(double mine)
{
    double most = 0;

    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* All work of the default stream is complete. */
static wharf_status finish(const struct ring_bench *b)
{
    wharf_event *mine = b->events[b->bench->rank];
    uint64_t number = 0;
    wharf_status st = wharf_event_record(mine, NULL, &number);

    return st == WHARF_OK ? wharf_event_synchronize(mine, number, 0) : st;
}

static wharf_status produce(wharf_ring *ring, uint64_t bytes)
{
    wharf_status st = WHARF_OK;
    void *slot;

    for (int i = 0; i < SLOTS && st == WHARF_OK; i++) {
        st = wharf_ring_produce_begin(ring, NULL, &slot, NULL);
        if (st == WHARF_OK)
            st = wharf_ring_produce_end(ring, (size_t)bytes, NULL);
    }
    return st;
}

/* ALL: as many as are produced; SHARED: until the ring is closed. */
static wharf_status consume(wharf_ring *ring, const struct shape *shape)
{
    wharf_status st = WHARF_OK;
    const void *slot;

    for (int i = 0; st == WHARF_OK; i++) {
        if (shape->mode == WHARF_RING_ALL && i == SLOTS)
            return WHARF_OK;
        st = wharf_ring_consume_begin(ring, NULL, &slot, NULL);
        if (st == WHARF_OK)
            st = wharf_ring_consume_end(ring, NULL);
    }
    return st == WHARF_ECLOSED ? WHARF_OK : st;
}

/* One round with a ring of its own: a ring that was closed is over. */
static wharf_status timed(const struct ring_bench *b, const struct shape *shape,
                          const wharf_ring_options *options, double time[2])
{
    int rank = b->bench->rank;
    bool consumes = rank >= b->bench->size - shape->consumers;
    wharf_ring *ring = NULL;
    double start, issued;
    wharf_status st = wharf_ring_create(b->bench->node, options, &ring);

    if (st != WHARF_OK)
        return st;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (rank == 0) {
        st = produce(ring, b->slot_bytes);
        if (st == WHARF_OK)
            st = wharf_ring_close(ring);
    } else if (consumes) {
        st = consume(ring, shape);
    }
    issued = MPI_Wtime();
    if (st == WHARF_OK)
        st = finish(b);
    time[0] = slowest((MPI_Wtime() - start) * 1e6 / SLOTS);
    time[1] = slowest((issued - start) * 1e6 / SLOTS);
    if (st == WHARF_OK)
        st = wharf_ring_destroy(&ring);
    return st;
}

static wharf_status shape_run(struct ring_bench *b, int at)
{
    const struct bench_options *o = &b->bench->options;
    const struct shape *shape = &b->shapes[at];
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    wharf_status st = WHARF_OK;
    int *list = calloc((size_t)shape->consumers, sizeof *list);

    if (list == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < shape->consumers; i++)
        list[i] = b->bench->size - shape->consumers + i;
    options.slots = shape->slots;
    options.slot_bytes = (size_t)b->slot_bytes;
    options.mode = shape->mode;
    options.space = o->space;
    options.consumers = list;
    options.consumer_count = shape->consumers;
    for (int round = -o->warmup; round < o->rounds && st == WHARF_OK; round++) {
        double time[2];

        st = timed(b, shape, &options, time);
        for (int k = 0; k < 2 && round >= 0 && st == WHARF_OK; k++) {
            struct bench_row *row = &b->rows[2 * at + k];

            row->samples[row->rounds++] = time[k];
        }
    }
    free(list);
    return st;
}

/* ---- The command ------------------------------------------------------- */

static wharf_status ring_run(struct ring_bench *b)
{
    wharf_status st = WHARF_OK;
    int size = b->bench->size;

    for (int rank = 0; rank < size && st == WHARF_OK; rank++)
        st = wharf_event_create(b->bench->node, rank, &b->events[rank]);
    for (int at = 0; at < b->count && st == WHARF_OK; at++)
        st = shape_run(b, at);
    for (int rank = 0; rank < size && st == WHARF_OK; rank++)
        st = wharf_event_destroy(&b->events[rank]);
    return st;
}

static void rows_prepare(struct ring_bench *b, double *samples, int rounds)
{
    for (int i = 0; i < 2 * b->count; i++) {
        b->rows[i].op = b->shapes[i / 2].name[i % 2];
        b->rows[i].bytes = b->slot_bytes;
        b->rows[i].samples = samples + (size_t)i * (size_t)rounds;
    }
}

int bench_ring(struct bench *bench)
{
    struct ring_bench b = {.bench = bench,
                           .slot_bytes = bench->options.sizes[0]};
    int rounds = bench->options.rounds;
    double *samples = calloc((size_t)(2 * SHAPES * rounds), sizeof *samples);
    wharf_status st = WHARF_OK;
    bool good = false;

    b.events = calloc((size_t)bench->size, sizeof(wharf_event *));
    if (samples == NULL || b.events == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    bench->checked = "nothing: what is in the slots is held by the tests";
    if (bench->size > 1) {
        shapes_list(&b);
    } else {
        b.count = 1;
        snprintf(b.shapes[0].name[0], sizeof b.shapes[0].name[0], "all");
        snprintf(b.shapes[0].name[1], sizeof b.shapes[0].name[1], "all-issue");
    }
    rows_prepare(&b, samples, rounds);
    if (bench->size > 1)
        st = ring_run(&b);
    for (int i = 0; i < 2 * b.count; i++) {
        if (bench->size > 1)
            bench_row_finish(&b.rows[i]);
        else
            snprintf(b.rows[i].failure, sizeof b.rows[i].failure,
                     "one rank has nobody to hand over to");
    }
    if (st == WHARF_OK)
        good = bench_report(bench, "ring", b.rows, 2 * b.count);
    else
        tool_report_once("wharf-bench", wharf_node_rank(bench->node));
    free(samples);
    free(b.events);
    return good ? 0 : 1;
}
