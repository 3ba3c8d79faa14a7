/* SPDX-License-Identifier: MIT */
/* Notifies in streams: data order from every recorder, several notifies and
 * streams at once, graphs, and the mechanism that was asked for. */
#include "t_graph.h"
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8192, ROUNDS = 40 };

typedef struct ground {
    wharf_node *node;
    wharf_buffer *all; /* of each rank */
    wharf_buffer *own; /* a part for each rank */
    wharf_stream stream;
    wharf_notify *gather;      /* all to rank 0 */
    wharf_notify **go;         /* rank 0 to each */
    wharf_notify_options *how; /* of both */
} ground;

static ground begin(wharf_switch capturable)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    ground g;

    memset(&g, 0, sizeof g);
    options.capturable = capturable;
    g.node = t_open();
    g.all = t_attach(g.node, BYTES, 0);
    g.own = t_attach(g.node, (size_t)BYTES * (size_t)t_ranks, 0);
    g.stream = t_stream_create(g.node);
    g.go = calloc((size_t)t_ranks, sizeof *g.go);
    T_CHECK(g.go != NULL);
    T_OK(wharf_notify_create(g.node, 0, &options, &g.gather));
    for (int rank = 1; rank < t_ranks; rank++)
        T_OK(wharf_notify_create(g.node, rank, &options, &g.go[rank]));
    return g;
}

static void end(ground *g)
{
    t_stream_sync(g->node, g->stream);
    t_barrier();
    for (int rank = 1; rank < t_ranks; rank++)
        T_OK(wharf_notify_destroy(&g->go[rank]));
    T_OK(wharf_notify_destroy(&g->gather));
    free(g->go);
    t_stream_destroy(g->node, g->stream);
    t_detach(g->own);
    t_detach(g->all);
    t_close(g->node);
    t_live_check(NULL);
}

/* Everybody writes, rank 0 takes from each in turn, and lets it go on. */
static void turn(ground *g, unsigned char value)
{
    char *own = t_segment(g->own, t_me, NULL);

    if (t_me != 0) {
        t_stream_fill(g->node, g->stream, t_segment(g->all, t_me, NULL),
                      (unsigned char)(value + t_me), BYTES);
        T_OK(wharf_notify_record(g->gather, g->stream));
        T_OK(wharf_notify_wait(g->go[t_me], 0, g->stream, 0));
        return;
    }
    for (int from = t_ranks - 1; from > 0; from--) {
        T_OK(wharf_notify_wait(g->gather, from, g->stream, 0));
        t_stream_copy(g->node, g->stream, own + (size_t)from * BYTES,
                      t_segment(g->all, from, NULL), BYTES);
        T_OK(wharf_notify_record(g->go[from], g->stream));
    }
}

static void taken(ground *g, unsigned char value)
{
    char *own = t_segment(g->own, t_me, NULL);

    t_stream_sync(g->node, g->stream);
    for (int from = 1; t_me == 0 && from < t_ranks; from++)
        T_EQ_INT(-1, t_dev_check_value(t_place(g->node, g->own, 0),
                                       own + (size_t)from * BYTES, BYTES,
                                       (unsigned char)(value + from)));
}

static void orders_data(void)
{
    ground g = begin(WHARF_SWITCH_UNSET);

    for (int round = 0; round < ROUNDS; round++) {
        turn(&g, (unsigned char)(3 * round));
        if (round % 8 == 7)
            taken(&g, (unsigned char)(3 * round));
    }
    end(&g);
}

/* Ping-pong on two pairs of notifies in two streams: independent of one
 * another. On the host a call holds, so there one comes after the other. */
static void two_at_once(void)
{
    wharf_node *node = t_open();
    wharf_notify *there[2], *back[2];
    wharf_stream streams[2];
    int last = t_ranks - 1;

    for (int i = 0; i < 2; i++) {
        streams[i] = t_stream_create(node);
        T_OK(wharf_notify_create(node, last, NULL, &there[i]));
        T_OK(wharf_notify_create(node, 0, NULL, &back[i]));
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < 2; k++) {
            /* Opposite order on the two sides. */
            int i = t_mode_get() != T_HOST && t_me == 0 ? 1 - k : k;

            if (t_me == 0) {
                T_OK(wharf_notify_record(there[i], streams[i]));
                T_OK(wharf_notify_wait(back[i], last, streams[i], 0));
            } else if (t_me == last) {
                T_OK(wharf_notify_wait(there[i], 0, streams[i], 0));
                T_OK(wharf_notify_record(back[i], streams[i]));
            }
        }
    for (int i = 0; i < 2; i++)
        t_stream_sync(node, streams[i]);
    t_barrier();
    for (int i = 0; i < 2; i++) {
        t_stream_destroy(node, streams[i]);
        T_OK(wharf_notify_destroy(&there[i]));
        T_OK(wharf_notify_destroy(&back[i]));
    }
    t_close(node);
    t_live_check(NULL);
}

/* Device memory of this machine lies in host memory: no peers. */
static bool words_on_host(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 64, 0);
    bool on_host = t_place(node, buffer, t_me) == NULL;

    t_detach(buffer);
    t_close(node);
    return on_host;
}

static void refused_without_atomics(void)
{
    wharf_node *node = t_open();
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_notify *notify = NULL;

    options.capturable = WHARF_SWITCH_ON;
    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, -1, "host memory",
            wharf_notify_create(node, 0, &options, &notify));
    T_CHECK(notify == NULL);
    t_close(node);
    t_live_check(NULL);
}

/* Captured once, replayed often, with uses outside of the graph between. */
static void replayed(void)
{
    ground g;
    int replays = (int)t_argument("replays", 1000);
    t_graph *graph;

    if (words_on_host()) {
        refused_without_atomics();
        return;
    }
    g = begin(WHARF_SWITCH_ON);
    turn(&g, 5);
    t_graph_begin(g.stream);
    turn(&g, 99);
    graph = t_graph_end(g.stream);
    for (int i = 0; i < replays; i++) {
        t_graph_launch(graph, g.stream);
        if (i % 100 != 99)
            continue;
        taken(&g, 99);
        turn(&g, (unsigned char)i);
        taken(&g, (unsigned char)i);
    }
    t_stream_sync(g.node, g.stream);
    t_graph_destroy(graph);
    end(&g);
}

/* By a mechanism that cannot stand in a graph: refused, with what to set, and
 * the notify still works. */
static void not_capturable(void)
{
    wharf_node *node = t_open();
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_notify *notify = NULL;
    wharf_stream stream = t_stream_create(node);
    wharf_error error;
    wharf_status status;

    options.mechanism = WHARF_MECHANISM_MEM_OPS;
    if (wharf_notify_create(node, 0, &options, &notify) == WHARF_OK) {
        t_graph_begin(stream);
        status = t_me == 0 ? wharf_notify_wait(notify, 1, stream, 0)
                           : wharf_notify_record(notify, stream);
        T_STATUS(WHARF_EUNSUPPORTED, status);
        wharf_last_error(&error);
        T_CONTAINS("options.capturable", error.remedy);
        t_graph_destroy(t_graph_end(stream));
        if (t_me == 0)
            T_REFUSES(WHARF_EUNSUPPORTED, "no timeout",
                      wharf_notify_wait(notify, 1, stream, 100));
        if (t_me == 1)
            T_OK(wharf_notify_record(notify, stream));
        if (t_me == 0)
            T_OK(wharf_notify_wait(notify, 1, stream, 0));
        t_stream_sync(node, stream);
        t_barrier();
        T_OK(wharf_notify_destroy(&notify));
    }
    t_stream_destroy(node, stream);
    t_close(node);
    t_live_check(NULL);
}

/* Views for kernels: there where kernels can take part, refused elsewhere. */
static void views(void)
{
    wharf_node *node = t_open();
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_notify *notify = NULL;
    wharf_barrier *barrier = NULL;
    wharf_notify_view view;
    wharf_barrier_view all;

    options.mechanism = WHARF_MECHANISM_KERNEL;
    T_OK(wharf_notify_create(node, 0, &options, &notify));
    T_OK(wharf_barrier_create(node, 0, NULL, &options, &barrier));
    T_REFUSES(WHARF_EARG, "view is NULL", wharf_notify_view_get(notify, NULL));
    T_REFUSES(WHARF_EARG, "view is NULL",
              wharf_barrier_view_get(barrier, NULL));
    if (t_mode_get() == T_HOST) {
        T_REFUSES(WHARF_EUNSUPPORTED, "no kernels",
                  wharf_notify_view_get(notify, &view));
        T_REFUSES(WHARF_EUNSUPPORTED, "no kernels",
                  wharf_barrier_view_get(barrier, &all));
    } else if (wharf_notify_view_get(notify, &view) == WHARF_OK) {
        T_EQ_INT(0, view.waiter);
        T_EQ_INT(t_me, view.rank);
        T_CHECK(view.words != NULL && view.timeout_ns > 0);
        T_OK(wharf_barrier_view_get(barrier, &all));
        T_EQ_INT(t_ranks, all.members);
        T_CHECK(all.words != NULL && all.timeout_ns > 0);
        T_OK(wharf_barrier_view_get(barrier, &all));
    }
    T_OK(wharf_barrier_destroy(&barrier));
    T_OK(wharf_notify_destroy(&notify));
    t_close(node);
    t_live_check(NULL);
}

static void expect(const wharf_node *node, int a, int b, const char *wanted)
{
    wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;

    T_OK(wharf_node_mechanism(node, a, b, &mechanism, NULL));
    T_EQ_STR(wanted, wharf_mechanism_name(mechanism));
}

/* What this run must choose is told in the environment: T_SAME for two ranks
 * on one GPU, T_OTHER for two GPUs. */
static void chosen(void)
{
    wharf_node *node = t_open();
    const char *same = getenv("T_EXPECT_SAME");
    const char *other = getenv("T_EXPECT_OTHER");
    int met = 0;

    for (int a = 0; a < t_ranks; a++)
        for (int b = 0; b < t_ranks; b++) {
            wharf_link link = WHARF_LINK_INIT;

            if (a == b)
                continue;
            T_OK(wharf_node_link(node, a, b, &link));
            if (link.path == WHARF_PATH_SAME_GPU && same != NULL) {
                expect(node, a, b, same);
                met++;
            } else if (link.path != WHARF_PATH_SAME_GPU && other != NULL) {
                expect(node, a, b, other);
                met++;
            }
        }
    T_CHECK(met > 0 || (same == NULL && other == NULL));
    t_close(node);
}

static const t_case cases[] = {
    {"orders_data", orders_data, T_ANY},
    {"two_at_once", two_at_once, T_ANY},
    {"replayed", replayed, T_CUDA},
    {"not_capturable", not_capturable, T_CUDA},
    {"views", views, T_ANY},
    {"chosen", chosen, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
