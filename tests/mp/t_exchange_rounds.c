/* SPDX-License-Identifier: MIT */
/*
 * Many rounds without the host between them: streams run ahead as far as the
 * exchange lets them, ranks are late at random, every byte of every round is
 * checked afterwards. Then rounds in graphs.
 */
#include "t_exchange.h"
#include "t_graph.h"

#include <stdio.h>
#include <time.h>

/* A box, and how many rounds are logged between two looks. */
enum { BYTES = 512, LOGGED = 25, DIRECTIONS = 2 };

typedef struct ground {
    wharf_node *node;
    wharf_stream stream;
    wharf_buffer *field, *log;
    wharf_exchange *x;
    int sets;
    bool one_way;
    uint32_t random;
} ground;

/* Segment: of each set and direction, what is sent and what is received. */
static size_t offset_of(int set, int direction, bool received)
{
    return (size_t)((set * DIRECTIONS + direction) * 2 + received) * BYTES;
}

static ground begin(int sets, bool one_way, wharf_switch ready,
                    wharf_switch capturable)
{
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_box out[DIRECTIONS][WHARF_MAX_EXCHANGE_SETS];
    wharf_exchange_box in[DIRECTIONS][WHARF_MAX_EXCHANGE_SETS];
    ground g = {.node = t_open(), .sets = sets, .one_way = one_way};

    g.stream = t_stream_create(g.node);
    g.field = t_attach(g.node, offset_of(sets, 0, false), WHARF_BUFFER_ZERO);
    g.log = t_attach(g.node, (size_t)LOGGED * DIRECTIONS * BYTES, 0);
    g.random = (uint32_t)(t_me * 7919 + t_argument("seed", 5));
    for (int d = 0; d < DIRECTIONS; d++)
        for (int s = 0; s < sets; s++) {
            out[d][s] = (wharf_exchange_box){
                g.field, offset_of(s, d, false), {BYTES, 1, 1}, {0, 0}};
            in[d][s] = (wharf_exchange_box){
                g.field, offset_of(s, d, true), {BYTES, 1, 1}, {0, 0}};
        }
    wharf_exchange_transfer transfers[] = {
        {right, 0, 0, out[0], NULL},
        {left, 0, 0, NULL, in[0]},
        {left, 1, 0, out[1], NULL},
        {right, 0, 1, NULL, in[1]},
    };
    options.sets = sets;
    options.ready = ready;
    options.capturable = capturable;
    T_OK(wharf_exchange_create(g.node, MPI_COMM_WORLD, one_way ? 2 : 4,
                               transfers, &options, &g.x));
    return g;
}

static void end(ground *g)
{
    t_stream_sync(g->node, g->stream);
    t_exchange_destroy(g->x);
    t_stream_destroy(g->node, g->stream);
    t_detach(g->log);
    t_detach(g->field);
    t_close(g->node);
}

static char *memory(const ground *g, const wharf_buffer *buffer)
{
    return t_segment(buffer, wharf_node_rank(g->node), NULL);
}

static unsigned char sent_by(int rank, int direction, int round)
{
    return (unsigned char)(rank * 17 + direction * 101 + round * 7 + 1);
}

static void dawdle(ground *g)
{
    g->random = g->random * 1664525u + 1013904223u;
    if (g->random >> 16 & 7)
        return;
    struct timespec nap = {0, (long)(g->random >> 20 & 1023) * 500};
    nanosleep(&nap, NULL);
}

/* Nothing here waits for the GPU. */
static void one_round(ground *g, int round)
{
    int set = round % g->sets, directions = g->one_way ? 1 : DIRECTIONS;
    char *field = memory(g, g->field), *log = memory(g, g->log);

    for (int d = 0; d < directions; d++)
        t_stream_fill(g->node, g->stream, field + offset_of(set, d, false),
                      sent_by(t_me, d, round), BYTES);
    dawdle(g);
    if (round % 5 == 4) {
        T_OK(wharf_exchange_run(g->x, g->stream));
    } else {
        T_OK(wharf_exchange_start(g->x, g->stream));
        dawdle(g);
        T_OK(wharf_exchange_finish(g->x, g->stream));
    }
    dawdle(g);
    for (int d = 0; d < directions; d++)
        t_stream_copy(g->node, g->stream,
                      log + (size_t)(round % LOGGED * DIRECTIONS + d) * BYTES,
                      field + offset_of(set, d, true), BYTES);
}

static void check_log(const ground *g, int last)
{
    char *log = memory(g, g->log);
    const wharf_node *place =
        t_place(g->node, g->log, wharf_node_rank(g->node));
    int directions = g->one_way ? 1 : DIRECTIONS;

    t_stream_sync(g->node, g->stream);
    for (int round = last - LOGGED + 1; round <= last; round++)
        for (int d = 0; d < directions; d++) {
            int from = (t_me + (d == 0 ? t_ranks - 1 : 1)) % t_ranks;

            T_EQ_INT(
                -1, t_dev_check_value(
                        place,
                        log + (size_t)(round % LOGGED * DIRECTIONS + d) * BYTES,
                        BYTES, sent_by(from, d, round)));
        }
}

static void many(int sets, bool one_way, wharf_switch ready)
{
    ground g = begin(sets, one_way, ready, WHARF_SWITCH_UNSET);
    int rounds = (int)t_argument("rounds", 250) / LOGGED * LOGGED;

    for (int round = 0; round < rounds; round++) {
        one_round(&g, round);
        if (round % LOGGED == LOGGED - 1)
            check_log(&g, round);
    }
    end(&g);
}

/* Before the first start receive boxes are the caller's, also with sets that
 * need no handshake later: what a late rank still writes there is gone when the
 * round is over, and not the neighbours' data. */
static void late_before_first(void)
{
    ground g = begin(2, false, WHARF_SWITCH_UNSET, WHARF_SWITCH_UNSET);
    char *field = memory(&g, g.field);
    const wharf_node *place = t_place(g.node, g.field, wharf_node_rank(g.node));

    for (int d = 0; d < DIRECTIONS; d++)
        t_stream_fill(g.node, g.stream, field + offset_of(0, d, false),
                      sent_by(t_me, d, 0), BYTES);
    if (t_me == 1) {
        struct timespec nap = {0, 100000000};
        nanosleep(&nap, NULL);
        for (int d = 0; d < DIRECTIONS; d++)
            t_stream_fill(g.node, g.stream, field + offset_of(0, d, true), 0xee,
                          BYTES);
    }
    T_OK(wharf_exchange_run(g.x, g.stream));
    t_stream_sync(g.node, g.stream);
    for (int d = 0; d < DIRECTIONS; d++) {
        int from = (t_me + (d == 0 ? t_ranks - 1 : 1)) % t_ranks;

        T_EQ_INT(-1, t_dev_check_value(place, field + offset_of(0, d, true),
                                       BYTES, sent_by(from, d, 0)));
    }
    end(&g);
}

/* The CPU puts in the start already what the receiver is ready for. */
static void put_by_start(void)
{
    ground g = begin(1, true, WHARF_SWITCH_UNSET, WHARF_SWITCH_UNSET);
    char *field = memory(&g, g.field);
    bool by_mpi = getenv("WHARF_EXCHANGE_REMOTE") != NULL ||
                  wharf_node_size(g.node) != t_ranks;

    memset(field + offset_of(0, 0, false), sent_by(t_me, 0, 0), BYTES);
    if (t_me != 0)
        T_OK(wharf_exchange_start(g.x, g.stream));
    t_barrier();
    if (t_me == 0)
        T_OK(wharf_exchange_start(g.x, g.stream));
    t_barrier();
    if (t_me == 1 && !by_mpi)
        T_EQ_INT(sent_by(0, 0, 0),
                 (unsigned char)field[offset_of(0, 0, true) + BYTES - 1]);
    t_barrier();
    T_OK(wharf_exchange_finish(g.x, g.stream));
    end(&g);
}

static void sets_one(void)
{
    many(1, false, WHARF_SWITCH_UNSET);
}

static void sets_two(void)
{
    many(2, false, WHARF_SWITCH_UNSET);
}

static void sets_three(void)
{
    many(3, false, WHARF_SWITCH_UNSET);
}

static void one_way(void)
{
    many(2, true, WHARF_SWITCH_UNSET);
}

static void always_ready(void)
{
    many(2, false, WHARF_SWITCH_ON);
}

/* ---- Queries ----------------------------------------------------------- */

static void queries(void)
{
    ground g = begin(2, false, WHARF_SWITCH_UNSET, WHARF_SWITCH_UNSET);
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange_info info = WHARF_EXCHANGE_INFO_INIT;
    bool remote = getenv("WHARF_EXCHANGE_REMOTE") != NULL;
    bool alone = t_ranks == 1, spans = wharf_node_size(g.node) != t_ranks;

    T_OK(wharf_exchange_plan_get(g.x, &plan));
    T_EQ_INT(4, plan.transfers);
    T_EQ_INT(2, plan.sets);
    T_EQ_INT(0, plan.next_set);
    if (!spans)
        T_EQ_INT(remote || alone ? 0 : t_ranks == 2 ? 1 : 2, plan.local_peers);
    if (!spans)
        T_EQ_INT(!remote ? 0 : t_ranks < 3 ? 1 : 2, plan.remote_peers);
    T_EQ_INT(0, plan.ready_pairs);
    T_EQ_INT(remote || spans, plan.progress != WHARF_EXCHANGE_PROGRESS_NONE);
    if (remote || spans)
        T_EQ_INT(t_argument("threads", 0) ? WHARF_EXCHANGE_PROGRESS_THREAD
                                          : WHARF_EXCHANGE_PROGRESS_FINISH,
                 plan.progress);
    T_CHECK(plan.reason[0] != '\0');
    one_round(&g, 0);
    T_OK(wharf_exchange_plan_get(g.x, &plan));
    T_EQ_INT(1, plan.next_set);
    for (int i = 0; i < 4; i++) {
        T_OK(wharf_exchange_info_get(g.x, i, &info));
        T_EQ_INT(i % 2 ? 0 : BYTES, info.send_bytes[0]);
        T_EQ_INT(i % 2 ? BYTES : 0, info.receive_bytes[1]);
        T_EQ_INT(i == 0 || i == 3 ? (t_me + 1) % t_ranks
                                  : (t_me + t_ranks - 1) % t_ranks,
                 info.peer);
        T_EQ_INT(i % 2, info.way == WHARF_EXCHANGE_NOTHING);
        if (info.way == WHARF_EXCHANGE_NOTHING)
            continue;
        if (remote || info.node_rank < 0)
            T_CHECK(info.way == WHARF_EXCHANGE_MPI ||
                    info.way == WHARF_EXCHANGE_MPI_STAGED);
        else if (t_mode_get() == T_HOST)
            T_EQ_INT(WHARF_EXCHANGE_HOST, info.way);
        else if (alone)
            T_EQ_INT(WHARF_EXCHANGE_LOCAL, info.way);
        else if (wharf_node_gpus(g.node) == t_ranks)
            T_EQ_INT(WHARF_EXCHANGE_KERNEL, info.way);
        else /* on a shared GPU the engine copies */
            T_CHECK(info.way == WHARF_EXCHANGE_KERNEL ||
                    info.way == WHARF_EXCHANGE_ENGINE);
        T_CHECK(info.reason[0] != '\0');
        T_CHECK(strcmp("unknown", wharf_exchange_way_name(info.way)) != 0);
    }
    T_REFUSES(WHARF_EARG, "index is 4", wharf_exchange_info_get(g.x, 4, &info));
    T_OK(wharf_stream_synchronize(g.node, g.stream, 0));
    end(&g);
}

/* ---- Graphs ------------------------------------------------------------ */

/* Two rounds in one graph, what came is sent on: each replay moves every rank's
 * bytes two ranks to the right, or they are wrong at the end. */
static void replays(void)
{
    ground g = begin(2, true, WHARF_SWITCH_UNSET, WHARF_SWITCH_ON);
    int replays = (int)t_argument("replays", 50);
    char *field = memory(&g, g.field);
    t_graph *graph;

    t_stream_fill(g.node, g.stream, field + offset_of(0, 0, false),
                  (unsigned char)(40 + t_me), BYTES);
    t_stream_sync(g.node, g.stream);
    t_barrier();
    t_graph_begin(g.stream);
    T_REFUSES(WHARF_EUNSUPPORTED, "being captured",
              wharf_stream_synchronize(g.node, g.stream, 0));
    for (int set = 0; set < 2; set++) {
        if (set == 0) {
            T_OK(wharf_exchange_run(g.x, g.stream));
        } else {
            T_OK(wharf_exchange_start(g.x, g.stream));
            T_OK(wharf_exchange_finish(g.x, g.stream));
        }
        t_stream_copy(g.node, g.stream, field + offset_of(1 - set, 0, false),
                      field + offset_of(set, 0, true), BYTES);
    }
    graph = t_graph_end(g.stream);
    for (int i = 0; i < replays; i++)
        t_graph_launch(graph, g.stream);
    T_OK(wharf_stream_synchronize(g.node, g.stream, 20000));
    T_EQ_INT(-1, t_dev_check_value(
                     t_place(g.node, g.field, wharf_node_rank(g.node)),
                     field + offset_of(0, 0, false), BYTES,
                     (unsigned char)(40 + (t_me + 2 * replays * (t_ranks - 1)) %
                                              t_ranks)));
    /* Plain rounds after graphs. */
    for (int round = 0; round < LOGGED; round++)
        one_round(&g, round);
    check_log(&g, LOGGED - 1);
    t_barrier();
    t_graph_destroy(graph);
    end(&g);
}

/* Signals in host memory cannot stand in graphs: said at creation. */
static void captured(void)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange *x = NULL;
    wharf_node *node;

    if (getenv("WHARF_EXCHANGE_REMOTE") != NULL)
        return;
    if (!t_argument("on_host", 0)) {
        replays();
        return;
    }
    node = t_open();
    wharf_buffer *field = t_attach(node, 64, 0);
    wharf_exchange_box out = {field, 0, {8, 1, 1}, {0, 0}};
    wharf_exchange_box in = {field, 8, {8, 1, 1}, {0, 0}};
    wharf_exchange_transfer ring[] = {
        {(t_me + 1) % t_ranks, 0, 0, &out, NULL},
        {(t_me + t_ranks - 1) % t_ranks, 0, 0, NULL, &in},
    };
    options.capturable = WHARF_SWITCH_ON;
    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, 0, "need atomics",
            wharf_exchange_create(node, MPI_COMM_WORLD, 2, ring, &options, &x));
    T_EQ_PTR(NULL, x);
    t_detach(field);
    t_close(node);
}

/* What cannot stand in a graph is refused, and the stream goes on. */
static void refused(void)
{
    ground g = begin(2, false, WHARF_SWITCH_UNSET, WHARF_SWITCH_UNSET);
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    bool remote = getenv("WHARF_EXCHANGE_REMOTE") != NULL;

    T_OK(wharf_exchange_plan_get(g.x, &plan));
    if (remote)
        T_EQ_INT(0, plan.capturable);
    if (!plan.capturable) {
        t_graph_begin(g.stream);
        T_REFUSES(WHARF_EUNSUPPORTED,
                  remote ? "reached by MPI" : "cannot stand in a graph",
                  wharf_exchange_start(g.x, g.stream));
        T_REFUSES(WHARF_EUNSUPPORTED,
                  remote ? "reached by MPI" : "cannot stand in a graph",
                  wharf_exchange_run(g.x, g.stream));
        t_graph_destroy(t_graph_end(g.stream));
    }
    for (int round = 0; round < LOGGED; round++)
        one_round(&g, round);
    check_log(&g, LOGGED - 1);
    end(&g);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"late_before_first", late_before_first, T_ANY},
        {"put_by_start", put_by_start, T_HOST},
        {"sets_one", sets_one, T_ANY},
        {"sets_two", sets_two, T_ANY},
        {"sets_three", sets_three, T_ANY},
        {"one_way", one_way, T_ANY},
        {"always_ready", always_ready, T_ANY},
        {"queries", queries, T_ANY},
        {"captured", captured, T_CUDA},
        {"refused", refused, T_CUDA},
        {NULL, NULL, 0},
    };
    int level = MPI_THREAD_SINGLE;

    t_arguments(argc, argv);
    if (t_argument("threads", 0))
        level = MPI_THREAD_MULTIPLE;
    return t_main(argc, argv, level, cases);
}
