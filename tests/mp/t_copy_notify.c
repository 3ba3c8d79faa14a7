/* SPDX-License-Identifier: MIT */
/*
 * Put with a notify behind it, around a ring, both ways of every link at once:
 * what passed the wait must be there. In several streams, from graphs, strided,
 * with nothing to copy, and by every way and mechanism that there is.
 */
#include "t_graph.h"
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2, RINGS = 2 };

/* Everything one stream needs to go around the ring on its own. */
typedef struct ring {
    wharf_stream stream;
    wharf_notify **data;   /* of each waiter: its predecessor has put */
    wharf_notify **credit; /* of each waiter: its successor has read */
} ring;

typedef struct ground {
    wharf_node *node;
    wharf_buffer *inbox;  /* slots of every ring */
    wharf_buffer *source; /* a part a ring */
    wharf_buffer *seen;   /* a part a ring and round */
    size_t bytes;
    int next, last; /* whom this rank puts to, and who puts to it */
    int rounds;
    ring ring[RINGS];
} ground;

static void ring_begin(const ground *g, ring *r,
                       const wharf_notify_options *options)
{
    r->stream = t_stream_create(g->node);
    r->data = calloc((size_t)t_ranks, sizeof *r->data);
    r->credit = calloc((size_t)t_ranks, sizeof *r->credit);
    T_CHECK(r->data != NULL && r->credit != NULL);
    for (int rank = 0; rank < t_ranks; rank++) {
        T_OK(wharf_notify_create(g->node, rank, options, &r->data[rank]));
        T_OK(wharf_notify_create(g->node, rank, options, &r->credit[rank]));
    }
}

static void ring_end(const ground *g, ring *r)
{
    for (int rank = 0; rank < t_ranks; rank++) {
        T_OK(wharf_notify_destroy(&r->data[rank]));
        T_OK(wharf_notify_destroy(&r->credit[rank]));
    }
    free(r->data);
    free(r->credit);
    t_stream_destroy(g->node, r->stream);
}

static ground begin(size_t bytes, int rounds, wharf_switch capturable)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    ground g = {.node = t_open(), .bytes = bytes, .rounds = rounds};

    options.capturable = capturable;
    g.next = (t_me + 1) % t_ranks;
    g.last = (t_me + t_ranks - 1) % t_ranks;
    g.inbox = t_attach(g.node, RINGS * SLOTS * bytes, 0);
    g.source = t_attach(g.node, RINGS * bytes, 0);
    g.seen = t_attach(g.node, RINGS * (size_t)rounds * bytes, 0);
    for (int i = 0; i < RINGS; i++)
        ring_begin(&g, &g.ring[i], &options);
    return g;
}

static void end(ground *g)
{
    for (int i = 0; i < RINGS; i++)
        t_stream_sync(g->node, g->ring[i].stream);
    t_barrier();
    for (int i = 0; i < RINGS; i++)
        ring_end(g, &g->ring[i]);
    t_detach(g->seen);
    t_detach(g->source);
    t_detach(g->inbox);
    t_close(g->node);
    t_live_check(NULL);
}

static char *seen(const ground *g, int i, int round)
{
    char *at = t_segment(g->seen, t_me, NULL);

    return at + ((size_t)i * (size_t)g->rounds + (size_t)round) * g->bytes;
}

static unsigned char value_of(int rank, int i, int round)
{
    return (unsigned char)(1 + 7 * rank + 31 * i + round);
}

/* Ring i in its stream: a slot is put to once what was there has been read. */
static void turn_put(const ground *g, int i, int round, const wharf_box *box)
{
    const ring *r = &g->ring[i];
    char *source =
        (char *)t_segment(g->source, t_me, NULL) + (size_t)i * g->bytes;
    size_t slot = (size_t)(i * SLOTS + round % SLOTS) * g->bytes;

    t_stream_fill(g->node, r->stream, source, value_of(t_me, i, round),
                  g->bytes);
    if (round >= SLOTS)
        T_OK(wharf_notify_wait(r->credit[t_me], g->next, r->stream, 0));
    if (box)
        T_OK(wharf_put_box_notify(g->inbox, g->next, slot, source, box,
                                  r->data[g->next], r->stream));
    else
        T_OK(wharf_put_notify(g->inbox, g->next, slot, source, g->bytes,
                              r->data[g->next], r->stream));
}

static void turn_take(const ground *g, int i, int round)
{
    const ring *r = &g->ring[i];
    char *inbox = t_segment(g->inbox, t_me, NULL);
    size_t slot = (size_t)(i * SLOTS + round % SLOTS) * g->bytes;

    T_OK(wharf_notify_wait(r->data[t_me], g->last, r->stream, 0));
    t_stream_copy(g->node, r->stream, seen(g, i, round), inbox + slot,
                  g->bytes);
    T_OK(wharf_notify_record(r->credit[g->last], r->stream));
}

static void check_seen(const ground *g, int i, int round)
{
    T_EQ_INT(-1, t_dev_check_value(t_place(g->node, g->seen, t_me),
                                   seen(g, i, round), g->bytes,
                                   value_of(g->last, i, round)));
}

static void around(size_t bytes, int rings, const wharf_box *box)
{
    ground g = begin(bytes, (int)t_argument("rounds", 16), WHARF_SWITCH_UNSET);

    for (int round = 0; round < g.rounds; round++) {
        for (int i = 0; i < rings; i++)
            turn_put(&g, i, round, box);
        for (int i = 0; i < rings; i++)
            turn_take(&g, i, round);
    }
    for (int i = 0; i < rings; i++)
        t_stream_sync(g.node, g.ring[i].stream);
    for (int round = 0; round < g.rounds; round++)
        for (int i = 0; i < rings; i++)
            check_seen(&g, i, round);
    end(&g);
}

/* ---- Cases ------------------------------------------------------------- */

/* One block, several, and more than a kernel takes by default on the host. */
static void one_way(void)
{
    around(16, 1, NULL);
    around(4097, 1, NULL);
    around(65536, 1, NULL);
    around(300000, 1, NULL);
}

static void two_streams(void)
{
    around(40000, RINGS, NULL);
}

/* The same bytes, as rows and as planes that follow one another. */
static void rows_behind_each_other(void)
{
    wharf_box rows = {32, 512, 1, 32, 0, 32, 0};
    wharf_box faces = {32, 16, 32, 32, 512, 32, 512};

    around(16384, 1, &rows);
    around(16384, 1, &faces);
}

/* Nothing is copied, the record counts all the same. */
static void nothing(void)
{
    ground g = begin(64, 1, WHARF_SWITCH_UNSET);
    const ring *r = &g.ring[0];

    for (int i = 0; i < 3; i++)
        T_OK(wharf_put_notify(g.inbox, g.next, 0, NULL, 0, r->data[g.next],
                              r->stream));
    for (int i = 0; i < 3; i++)
        T_OK(wharf_notify_wait(r->data[t_me], g.last, r->stream, 0));
    t_stream_sync(g.node, r->stream);
    end(&g);
}

/* Data for one rank, the signal for another: it may read there. */
static void third_rank_waits(void)
{
    ground g = begin(5000, 1, WHARF_SWITCH_UNSET);
    const ring *r = &g.ring[0];
    int place = t_ranks - 1; /* of the data */

    if (t_me == 0 && t_ranks > 2) {
        t_stream_fill(g.node, r->stream, t_segment(g.source, 0, NULL), 77,
                      5000);
        T_OK(wharf_put_notify(g.inbox, place, 1000,
                              t_segment(g.source, 0, NULL), 5000, r->data[1],
                              r->stream));
    } else if (t_me == 1 && t_ranks > 2) {
        T_OK(wharf_notify_wait(r->data[1], 0, r->stream, 0));
        T_OK(wharf_get(g.inbox, place, 1000, seen(&g, 0, 0), 5000, r->stream));
        t_stream_sync(g.node, r->stream);
        T_EQ_INT(-1, t_dev_check_value(g.node, seen(&g, 0, 0), 5000, 77));
    }
    end(&g);
}

/* Both ranks of every pair put 1000 times from a graph, data changing. */
static void replayed(void)
{
    ground g = begin(20000, SLOTS, WHARF_SWITCH_ON);
    const ring *r = &g.ring[0];
    int replays = (int)t_argument("replays", 1000);
    int every = replays < 10 ? 1 : replays / 10;
    char *source = t_segment(g.source, t_me, NULL);
    t_graph *graph;

    T_OK(wharf_notify_record(r->credit[g.last], r->stream));
    t_stream_sync(g.node, r->stream);
    t_graph_begin(r->stream);
    T_OK(wharf_notify_wait(r->credit[t_me], g.next, r->stream, 0));
    T_OK(wharf_put_notify(g.inbox, g.next, 0, source, g.bytes, r->data[g.next],
                          r->stream));
    turn_take(&g, 0, 0);
    graph = t_graph_end(r->stream);
    for (int i = 0; i < replays; i++) {
        t_stream_fill(g.node, r->stream, source, value_of(t_me, 0, i), g.bytes);
        t_graph_launch(graph, r->stream);
        if (i % every != every - 1)
            continue;
        t_stream_sync(g.node, r->stream);
        T_EQ_INT(-1, t_dev_check_value(g.node, seen(&g, 0, 0), g.bytes,
                                       value_of(g.last, 0, i)));
    }
    T_OK(wharf_notify_wait(r->credit[t_me], g.next, r->stream, 0));
    t_stream_sync(g.node, r->stream);
    t_graph_destroy(graph);
    end(&g);
}

/* Plain copies in a graph, too. */
static void copies_replayed(void)
{
    ground g = begin(9000, 1, WHARF_SWITCH_UNSET);
    const ring *r = &g.ring[0];
    wharf_box column = {8, 100, 1, 64, 0, 80, 0};
    char *source = t_segment(g.source, t_me, NULL);
    t_graph *graph;

    t_graph_begin(r->stream);
    T_OK(wharf_put(g.inbox, g.next, 0, source, 9000, r->stream));
    T_OK(wharf_put_box(g.inbox, g.next, 9000, source, &column, r->stream));
    T_OK(wharf_get(g.inbox, g.next, 0, seen(&g, 0, 0), 9000, r->stream));
    graph = t_graph_end(r->stream);
    for (int i = 0; i < 20; i++) {
        t_stream_fill(g.node, r->stream, source, (unsigned char)(i + t_me),
                      9000);
        t_graph_launch(graph, r->stream);
        t_stream_sync(g.node, r->stream);
        T_EQ_INT(-1, t_dev_check_value(g.node, seen(&g, 0, 0), 9000,
                                       (unsigned char)(i + t_me)));
    }
    t_graph_destroy(graph);
    end(&g);
}

static const t_case cases[] = {
    {"one_way", one_way, T_ANY},
    {"two_streams", two_streams, T_ANY},
    {"rows_behind_each_other", rows_behind_each_other, T_ANY},
    {"nothing", nothing, T_ANY},
    {"third_rank_waits", third_rank_waits, T_ANY},
    {"replayed", replayed, T_CUDA},
    {"copies_replayed", copies_replayed, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_FUNNELED, cases);
}
