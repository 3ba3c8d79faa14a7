/* SPDX-License-Identifier: MIT */
/* Stream barriers: order of data, subsets, several at once, bad input. */
#include "t_graph.h"
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>

static wharf_barrier *create(wharf_node *node, int count, const int *ranks)
{
    wharf_barrier *barrier = NULL;

    T_OK(wharf_barrier_create(node, count, ranks, NULL, &barrier));
    T_CHECK(barrier != NULL);
    return barrier;
}

static void destroy(wharf_barrier *barrier)
{
    T_OK(wharf_barrier_destroy(&barrier));
    T_CHECK(barrier == NULL);
}

typedef struct ground {
    wharf_node *node;
    wharf_buffer *all; /* bytes of each rank, written by it */
    wharf_buffer *own; /* what it saw of each */
    wharf_stream stream;
} ground;

enum { BYTES = 4096 };

static ground begin(void)
{
    ground g;

    g.node = t_open();
    g.all = t_attach(g.node, BYTES, 0);
    g.own = t_attach(g.node, (size_t)t_ranks * BYTES, 0);
    g.stream = t_stream_create(g.node);
    return g;
}

static void end(ground *g)
{
    t_stream_sync(g->node, g->stream);
    t_stream_destroy(g->node, g->stream);
    t_barrier();
    t_detach(g->own);
    t_detach(g->all);
    t_close(g->node);
    t_live_check(NULL);
}

/* One step of a program: write one's own, barrier, read all, barrier. */
static void step(ground *g, wharf_barrier *barrier, const int *ranks, int count,
                 unsigned char value)
{
    char *own = t_segment(g->own, t_me, NULL);

    t_stream_fill(g->node, g->stream, t_segment(g->all, t_me, NULL), value,
                  BYTES);
    T_OK(wharf_barrier_enter(barrier, g->stream));
    for (int i = 0; i < count; i++) {
        int rank = ranks ? ranks[i] : i;

        t_stream_copy(g->node, g->stream, own + (size_t)rank * BYTES,
                      t_segment(g->all, rank, NULL), BYTES);
    }
    T_OK(wharf_barrier_enter(barrier, g->stream));
}

static void seen(ground *g, const int *ranks, int count, unsigned char value)
{
    char *own = t_segment(g->own, t_me, NULL);

    t_stream_sync(g->node, g->stream);
    for (int i = 0; i < count; i++) {
        int rank = ranks ? ranks[i] : i;

        T_EQ_INT(-1,
                 t_dev_check_value(t_place(g->node, g->own, t_me),
                                   own + (size_t)rank * BYTES, BYTES, value));
    }
}

/* Nobody reads before all have written, nobody writes before all have read. */
static void orders_data(void)
{
    ground g = begin();
    wharf_barrier *barrier = create(g.node, 0, NULL);
    int rounds = (int)t_argument("rounds", 500);

    T_EQ_INT(1, t_stats().live_barriers);
    for (int i = 0; i < rounds; i++) {
        step(&g, barrier, NULL, t_ranks, (unsigned char)i);
        if (i % 50 == 49)
            seen(&g, NULL, t_ranks, (unsigned char)i);
    }
    t_stream_sync(g.node, g.stream);
    t_barrier();
    destroy(barrier);
    end(&g);
}

/* Lists that overlap, in an order of their own; non-members stay out. */
static void subsets(void)
{
    ground g = begin();
    int low[2] = {1, 0};
    int high[64];
    int one[1] = {t_ranks - 1};
    wharf_barrier *lows, *highs, *alone;

    for (int i = 0; i < t_ranks - 1; i++)
        high[i] = i + 1;
    lows = create(g.node, 2, low);
    highs = create(g.node, t_ranks - 1, high);
    alone = create(g.node, 1, one);
    for (int i = 0; i < 100; i++) {
        unsigned char value = (unsigned char)(2 * i);

        if (t_me < 2) {
            step(&g, lows, low, 2, value);
            seen(&g, low, 2, value);
        }
        if (t_me >= 1) {
            step(&g, highs, high, t_ranks - 1, (unsigned char)(value + 1));
            seen(&g, high, t_ranks - 1, (unsigned char)(value + 1));
        }
        if (t_me == t_ranks - 1)
            T_OK(wharf_barrier_enter(alone, g.stream));
    }
    if (t_me != t_ranks - 1)
        T_REFUSES(WHARF_ESTATE, "no member",
                  wharf_barrier_enter(alone, g.stream));
    t_stream_sync(g.node, g.stream);
    t_barrier();
    destroy(alone);
    destroy(lows);
    destroy(highs);
    end(&g);
}

/* Two barriers on two streams, entered in a different order by odd and even
 * ranks: independent of one another. On the host a call holds, so there they
 * are entered in one order. */
static void two_at_once(void)
{
    ground g = begin();
    wharf_stream other = t_stream_create(g.node);
    wharf_barrier *first = create(g.node, 0, NULL);
    wharf_barrier *second = create(g.node, 0, NULL);
    bool swapped = t_mode_get() != T_HOST && t_me % 2;

    for (int i = 0; i < 200; i++) {
        if (swapped)
            T_OK(wharf_barrier_enter(second, other));
        T_OK(wharf_barrier_enter(first, g.stream));
        if (!swapped)
            T_OK(wharf_barrier_enter(second, other));
    }
    t_stream_sync(g.node, g.stream);
    t_stream_sync(g.node, other);
    t_stream_destroy(g.node, other);
    t_barrier();
    destroy(first);
    destroy(second);
    end(&g);
}

/* Captured once, replayed often, between uses that are not captured. */
static void replayed(void)
{
    ground g = begin();
    wharf_barrier *barrier = create(g.node, 0, NULL);
    int replays = (int)t_argument("replays", 1000);
    unsigned char *start = malloc(BYTES);
    t_graph *graph;

    T_CHECK(start != NULL);
    step(&g, barrier, NULL, t_ranks, 1);
    t_graph_begin(g.stream);
    step(&g, barrier, NULL, t_ranks, 77);
    graph = t_graph_end(g.stream);
    for (int i = 0; i < replays; i++) {
        t_graph_launch(graph, g.stream);
        if (i % 100 != 99)
            continue;
        seen(&g, NULL, t_ranks, 77);
        step(&g, barrier, NULL, t_ranks, (unsigned char)(i / 100));
        seen(&g, NULL, t_ranks, (unsigned char)(i / 100));
    }
    t_stream_sync(g.node, g.stream);
    free(start);
    t_graph_destroy(graph);
    t_barrier();
    destroy(barrier);
    end(&g);
}

static void bad_arguments(void)
{
    wharf_node *node = t_open();
    wharf_barrier *barrier = NULL;
    wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;
    int twice[2] = {1, 1};
    int beyond[1] = {t_ranks};
    int differ[2] = {0, t_me == 1 ? 1 : 2};

    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "twice",
            wharf_barrier_create(node, 2, twice, NULL, &barrier));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "ranks[0] is",
            wharf_barrier_create(node, 1, beyond, NULL, &barrier));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "count is -1",
            wharf_barrier_create(node, -1, twice, NULL, &barrier));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "count is",
            wharf_barrier_create(node, t_ranks + 1, twice, NULL, &barrier));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "ranks is NULL",
            wharf_barrier_create(node, 2, NULL, NULL, &barrier));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "ranks is not NULL",
            wharf_barrier_create(node, 0, twice, NULL, &barrier));
    T_FAILS(
        MPI_COMM_WORLD, WHARF_EARG, 1, "barrier is NULL",
        wharf_barrier_create(node, 0, NULL, NULL, t_me == 1 ? NULL : &barrier));
    if (t_ranks > 2)
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, 1, "another list",
                wharf_barrier_create(node, 2, differ, NULL, &barrier));
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, 1, "count",
            wharf_barrier_create(node, t_me == 1, t_me == 1 ? &twice[0] : NULL,
                                 NULL, &barrier));
    T_CHECK(barrier == NULL);
    barrier = create(node, 0, NULL);
    T_REFUSES(WHARF_EARG, "mechanism is NULL",
              wharf_barrier_mechanism(barrier, NULL));
    T_OK(wharf_barrier_mechanism(barrier, &mechanism));
    T_CHECK(mechanism != WHARF_MECHANISM_AUTO);
    T_SAME(mechanism);
    T_OK(wharf_barrier_check(barrier));
    if (t_mode_get() == T_HOST)
        T_REFUSES(WHARF_EARG, "stream",
                  wharf_barrier_enter(barrier, (wharf_stream)&node));
    {
        wharf_barrier *again = barrier;

        destroy(barrier);
        T_REFUSES(WHARF_ESTATE, "no live barrier",
                  wharf_barrier_enter(again, NULL));
        T_REFUSES(WHARF_ESTATE, "no live barrier",
                  wharf_barrier_destroy(&again));
        T_CHECK(again == NULL);
    }
    T_REFUSES(WHARF_EARG, "NULL", wharf_barrier_destroy(NULL));
    t_close(node);
    t_live_check(NULL);
}

/* A member that does not come: the others give up and can come again. */
static void late_member(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_barrier *barrier;

    options.timeout_ms = 1000;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    barrier = create(node, 0, NULL);
    for (int round = 0; round < 2; round++) {
        if (t_me != 0)
            T_REFUSES(WHARF_ETIMEDOUT, "rank 0 did not come",
                      wharf_barrier_enter(barrier, NULL));
        t_barrier();
        T_OK(wharf_barrier_enter(barrier, NULL));
        T_OK(wharf_barrier_enter(barrier, NULL));
    }
    destroy(barrier);
    t_close(node);
    t_live_check(NULL);
}

static void closed_with_live(void)
{
    wharf_node *node = t_open();

    create(node, 0, NULL);
    T_OK(wharf_barrier_enter(create(node, 0, NULL), NULL));
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"orders_data", orders_data, T_ANY},
    {"subsets", subsets, T_ANY},
    {"two_at_once", two_at_once, T_ANY},
    {"replayed", replayed, T_CUDA},
    {"bad_arguments", bad_arguments, T_ANY},
    {"late_member", late_member, T_HOST},
    {"closed_with_live", closed_with_live, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
