/* SPDX-License-Identifier: MIT */
/* Exchanges from lists of transfers and from graphs, against the same by plain
 * MPI: rings, strides, self, asymmetric and empty transfers, random graphs. */
#include "t_exchange.h"

enum { BYTES = 3100 };

/* ---- Rings ------------------------------------------------------------- */

/* To the right neighbour and to the left one; one rank is both, or itself. */
static void ring_of(t_field *f, wharf_exchange_transfer transfers[2],
                    wharf_exchange_box boxes[4][WHARF_MAX_EXCHANGE_SETS])
{
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;

    for (int s = 0; s < f->sets; s++) {
        boxes[0][s] = t_box(f, s, 8, 1000, 1, 0);
        boxes[1][s] = t_box(f, s, 1008, 500, 1, 0);
        boxes[2][s] = t_box(f, s, 1009 + 500, 500, 1, 0);
        boxes[3][s] = t_box(f, s, 2009, 1000, 1, 0);
    }
    transfers[0] = (wharf_exchange_transfer){right, 0, 1, boxes[0], boxes[2]};
    transfers[1] = (wharf_exchange_transfer){left, 1, 0, boxes[1], boxes[3]};
}

static void ring_sets(int sets)
{
    wharf_node *node = t_open();
    t_field f = t_field_begin(node, sets, BYTES);
    wharf_exchange_box boxes[4][WHARF_MAX_EXCHANGE_SETS];
    wharf_exchange_transfer transfers[2];
    wharf_exchange *x;

    ring_of(&f, transfers, boxes);
    x = t_exchange_create(node, MPI_COMM_WORLD, 2, transfers, sets);
    t_field_rounds(&f, x, MPI_COMM_WORLD, transfers, 2, 4 * sets + 1);
    t_exchange_destroy(x);
    t_field_end(&f);
    t_close(node);
}

static void ring(void)
{
    for (int sets = 1; sets <= 3; sets++)
        ring_sets(sets);
    ring_sets(WHARF_MAX_EXCHANGE_SETS);
}

/* ---- Strides ----------------------------------------------------------- */

/* Sender and receiver have different pitches, or the receiver none; shapes that
 * are cut differently; three dimensions. */
static void strides(void)
{
    wharf_node *node = t_open();
    t_field f = t_field_begin(node, 1, 20000 + 64 * (size_t)t_me);
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;
    wharf_exchange_box out[5], in[5];
    wharf_exchange_transfer transfers[10];
    wharf_exchange *x;

    out[0] = t_box(&f, 0, 3, 5, 40, 11);
    in[0] = t_box(&f, 0, 10000, 5, 40, 17);
    out[1] = t_box(&f, 0, 1000, 8, 30, 32);
    in[1] = t_box(&f, 0, 11000, 240, 1, 0);
    out[2] = t_box(&f, 0, 2000, 64, 10, 128);
    in[2] = t_box(&f, 0, 12000, 16, 40, 20);
    out[3] = (wharf_exchange_box){f.buffer[0], 4000, {4, 6, 5}, {10, 100}};
    in[3] = (wharf_exchange_box){f.buffer[0], 13000, {4, 6, 5}, {0, 50}};
    out[4] = (wharf_exchange_box){f.buffer[0], 5001, {1, 50, 3}, {3, 500}};
    in[4] = (wharf_exchange_box){f.buffer[0], 15000, {150, 1, 1}, {0, 0}};
    for (int i = 0; i < 5; i++) {
        transfers[i] = (wharf_exchange_transfer){right, i, 0, &out[i], NULL};
        transfers[9 - i] = (wharf_exchange_transfer){left, 0, i, NULL, &in[i]};
    }
    x = t_exchange_create(node, MPI_COMM_WORLD, 10, transfers, 1);
    t_field_rounds(&f, x, MPI_COMM_WORLD, transfers, 10, 5);
    t_exchange_destroy(x);
    t_field_end(&f);
    t_close(node);
}

/* ---- Asymmetric -------------------------------------------------------- */

/* Only rank 0 sends, with two sets: nothing comes back that could show that
 * the receivers are done. */
static void one_way(void)
{
    wharf_node *node = t_open();
    t_field f = t_field_begin(node, 2, BYTES);
    wharf_exchange_transfer *transfers =
        calloc((size_t)t_ranks, sizeof *transfers);
    wharf_exchange_box box[2], into[2];
    wharf_exchange_info info = WHARF_EXCHANGE_INFO_INIT;
    wharf_exchange *x;
    int count = t_me == 0 ? t_ranks - 1 : 1;

    T_CHECK(transfers != NULL);
    for (int s = 0; s < 2; s++) {
        box[s] = t_box(&f, s, 100, 700, 1, 0);
        into[s] = t_box(&f, s, 1200, 700, 1, 0);
    }
    if (t_ranks == 1)
        count = 0;
    for (int i = 0; i < count; i++)
        transfers[i] = t_me == 0
                           ? (wharf_exchange_transfer){i + 1, 0, 0, box, NULL}
                           : (wharf_exchange_transfer){0, 0, 0, NULL, into};
    x = t_exchange_create(node, MPI_COMM_WORLD, count, transfers, 2);
    if (count) {
        T_OK(wharf_exchange_info_get(x, 0, &info));
        T_EQ_INT(t_me == 0 ? 700 : 0, info.send_bytes[1]);
        T_EQ_INT(t_me == 0 ? 0 : 700, info.receive_bytes[0]);
        if (info.node_rank >= 0)
            T_EQ_INT(t_me == 0, info.ready);
    }
    t_field_rounds(&f, x, MPI_COMM_WORLD, transfers, count, 9);
    t_exchange_destroy(x);
    free(transfers);
    t_field_end(&f);
    t_close(node);
}

/* Nobody, empty boxes, a set with nothing in it, a buffer that need not be
 * there. */
static void empty(void)
{
    wharf_node *node = t_open();
    t_field f = t_field_begin(node, 2, BYTES);
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;
    wharf_exchange_box none[2] = {{NULL, 0, {0, 1, 1}, {0, 0}},
                                  {NULL, 99, {5, 0, 7}, {1, 1}}};
    wharf_exchange_box one[2] = {t_box(&f, 0, 0, 100, 1, 0), none[0]};
    wharf_exchange_box into[2] = {t_box(&f, 0, 200, 100, 1, 0), none[1]};
    wharf_exchange_transfer transfers[] = {
        {MPI_PROC_NULL, -1, -1, one, one}, {right, 7, 0, one, none},
        {left, 0, 7, none, into},          {right, 3, 3, none, NULL},
        {t_me, 0, 0, NULL, NULL},
    };
    wharf_exchange *x;

    x = t_exchange_create(node, MPI_COMM_WORLD, 5, transfers, 2);
    t_field_rounds(&f, x, MPI_COMM_WORLD, transfers, 5, 6);
    t_exchange_destroy(x);
    x = t_exchange_create(node, MPI_COMM_WORLD, 0, NULL, 1);
    for (int round = 0; round < 3; round++)
        t_round(x, f.stream, round);
    t_exchange_destroy(x);
    t_field_end(&f);
    t_close(node);
}

/* ---- Random graphs ----------------------------------------------------- */

enum { EDGES_MOST = 64, CELL = 40 };

/* The same number on every rank. */
static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

typedef struct graph {
    MPI_Comm comm;
    int out, in;
    int to[EDGES_MOST], from[EDGES_MOST];
} graph;

/* Edges of everybody, several between one pair and to oneself included. */
static graph graph_make(uint32_t seed)
{
    graph g = {.out = 0};
    int edges = 1 + (int)(draw(&seed) % 24);
    int weights[2][EDGES_MOST] = {{0}};

    for (int i = 0; i < edges; i++) {
        int from = (int)(draw(&seed) % (uint32_t)t_ranks);
        int to = (int)(draw(&seed) % (uint32_t)t_ranks);

        if (from == t_me)
            g.to[g.out++] = to;
        if (to == t_me)
            g.from[g.in++] = from;
    }
    T_CHECK(MPI_Dist_graph_create_adjacent(
                MPI_COMM_WORLD, g.in, g.from, weights[0], g.out, g.to,
                weights[1], MPI_INFO_NULL, 0, &g.comm) == MPI_SUCCESS);
    MPI_Dist_graph_neighbors(g.comm, g.in, g.from, weights[0], g.out, g.to,
                             weights[1]);
    return g;
}

static int earlier(const int *ranks, int at)
{
    int count = 0;

    for (int i = 0; i < at; i++)
        count += ranks[i] == ranks[at];
    return count;
}

static void graph_run(int sets, uint32_t seed)
{
    wharf_node *node = t_open();
    graph g = graph_make(seed);
    t_field f = t_field_begin(node, sets, 2 * EDGES_MOST * CELL);
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_box out[EDGES_MOST * 3], in[EDGES_MOST * 3];
    wharf_exchange_transfer transfers[2 * EDGES_MOST];
    wharf_exchange *x = NULL;

    for (int i = 0; i < g.out; i++) {
        for (int s = 0; s < sets; s++)
            out[i * sets + s] = t_box(&f, s, (size_t)i * CELL, 33, 1, 0);
        transfers[i] = (wharf_exchange_transfer){g.to[i], earlier(g.to, i), 0,
                                                 &out[i * sets], NULL};
    }
    for (int i = 0; i < g.in; i++) {
        for (int s = 0; s < sets; s++)
            in[i * sets + s] =
                t_box(&f, s, (size_t)(EDGES_MOST + i) * CELL, 33, 1, 0);
        transfers[g.out + i] = (wharf_exchange_transfer){
            g.from[i], 0, earlier(g.from, i), NULL, &in[i * sets]};
    }
    options.sets = sets;
    options.ready = seed % 2 ? WHARF_SWITCH_ON : WHARF_SWITCH_UNSET;
    T_OK(wharf_exchange_create_graph(node, g.comm, out, in, &options, &x));
    t_field_rounds(&f, x, g.comm, transfers, g.out + g.in, 5);
    t_exchange_destroy(x);
    t_field_end(&f);
    MPI_Comm_free(&g.comm);
    t_close(node);
}

static void graphs(void)
{
    for (int sets = 1; sets <= 3; sets++)
        graph_run(sets, (uint32_t)t_argument("seed", 17) + (uint32_t)sets);
}

/* ---- Communicators ----------------------------------------------------- */

/* Other ranks than the node's order, a part of the node with the others
 * outside, two halves at a time. */
static void communicators(void)
{
    wharf_node *node = t_open();
    t_field f = t_field_begin(node, 1, BYTES);

    for (int way = 0; way < 3; way++) {
        int colour = way == 0   ? 0
                     : way == 1 ? (t_me == t_ranks - 1 ? MPI_UNDEFINED : 0)
                                : t_me % 2;
        wharf_exchange_box out, in;
        wharf_exchange_transfer transfers[2];
        wharf_exchange *x;
        MPI_Comm comm;
        int rank = 0, size = 1, count = 0;

        MPI_Comm_split(MPI_COMM_WORLD, colour, -t_me, &comm);
        out = t_box(&f, 0, 0, 100, 1, 0);
        in = t_box(&f, 0, 300 + 200 * (size_t)way, 100, 1, 0);
        if (comm != MPI_COMM_NULL) {
            MPI_Comm_rank(comm, &rank);
            MPI_Comm_size(comm, &size);
            transfers[0] =
                (wharf_exchange_transfer){(rank + 1) % size, 4, 0, &out, NULL};
            transfers[1] = (wharf_exchange_transfer){(rank + size - 1) % size,
                                                     0, 4, NULL, &in};
            count = 2;
        }
        x = t_exchange_create(node, comm, count, transfers, 1);
        t_field_rounds(&f, x, comm, transfers, count, 4);
        t_exchange_destroy(x);
        if (comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
    }
    t_field_end(&f);
    t_close(node);
}

/* Two plans over one communicator at a time, their rounds mixed. */
static void two_plans(void)
{
    wharf_node *node = t_open();
    t_field f = t_field_begin(node, 1, BYTES),
            g = t_field_begin(node, 2, BYTES);
    wharf_exchange_box boxes[2][4][WHARF_MAX_EXCHANGE_SETS];
    wharf_exchange_transfer one[2], two[2];
    wharf_exchange *x, *y;

    ring_of(&f, one, boxes[0]);
    ring_of(&g, two, boxes[1]);
    x = t_exchange_create(node, MPI_COMM_WORLD, 2, one, 1);
    y = t_exchange_create(node, MPI_COMM_WORLD, 2, two, 2);
    t_field_take(&f, one, 2);
    t_field_take(&g, two, 2);
    for (int round = 0; round < 6; round++) {
        t_field_fill(&f, 0, (uint64_t)round);
        t_field_fill(&g, round % 2, (uint64_t)round);
        T_OK(wharf_exchange_start(x, f.stream));
        T_OK(wharf_exchange_start(y, g.stream));
        T_OK(wharf_exchange_finish(x, f.stream));
        T_OK(wharf_exchange_finish(y, g.stream));
        t_field_refer(&f, MPI_COMM_WORLD, one, 2, 0);
        t_field_refer(&g, MPI_COMM_WORLD, two, 2, round % 2);
        t_field_check(&f, 0);
        t_field_check(&g, round % 2);
    }
    t_exchange_destroy(x);
    t_exchange_destroy(y);
    t_field_end(&f);
    t_field_end(&g);
    t_close(node);
}

/* Two nodes of two ranks, and a communicator of one rank of each. The second
 * node fails, and with it that communicator: on the first node one rank has a
 * plan and the other has none. The node stays of use to both. */
static void half_a_node(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    bool joint = t_me == 1 || t_me == 2;
    wharf_exchange_transfer transfer = {0};
    wharf_exchange_box box;
    wharf_exchange *x = NULL;
    wharf_barrier *barrier = NULL;
    wharf_node *node;
    wharf_buffer *buffer;
    MPI_Comm half, comm;
    wharf_status status;

    if (t_ranks != 4)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, t_me / 2, t_me, &half);
    MPI_Comm_split(MPI_COMM_WORLD, joint ? 4 : t_me, t_me, &comm);
    T_OK(wharf_node_open(half, &options, &node));
    buffer = t_attach(node, BYTES, 0);
    box = (wharf_exchange_box){buffer, 0, {8, 1, 1}, {0, 0}};
    transfer.receive = &box; /* from itself, which sends nothing */
    for (int i = 0; i < 2; i++) {
        status =
            wharf_exchange_create(node, comm, t_me == 3, &transfer, NULL, &x);
        T_STATUS(t_me == 0 ? WHARF_OK : WHARF_EMISMATCH, status);
        T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
        T_OK(wharf_barrier_destroy(&barrier));
        if (t_me == 0) {
            T_OK(wharf_exchange_run(x, NULL));
            t_exchange_destroy(x);
        }
        x = NULL;
    }
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&half);
}

/* More bytes than a 32-bit number counts, around a ring. By hand, and on GPUs:
 * it takes 4 GiB a rank. */
static void huge(void)
{
    const size_t bytes = ((size_t)2 << 30) + 65536 + 3;
    wharf_node *node;
    wharf_buffer *buffer;
    wharf_exchange_box out, in;
    wharf_exchange_transfer ring[2];
    wharf_exchange *x;
    int left = (t_me + t_ranks - 1) % t_ranks;
    char *memory;

    if (!t_argument("huge", 0))
        return;
    node = t_open();
    buffer = t_attach(node, 2 * bytes, 0);
    memory = t_segment(buffer, wharf_node_rank(node), NULL);
    out = (wharf_exchange_box){buffer, 0, {bytes, 1, 1}, {0, 0}};
    in = (wharf_exchange_box){buffer, bytes, {bytes, 1, 1}, {0, 0}};
    ring[0] = (wharf_exchange_transfer){(t_me + 1) % t_ranks, 0, 0, &out, NULL};
    ring[1] = (wharf_exchange_transfer){left, 0, 0, NULL, &in};
    t_dev_fill_pattern(node, memory, bytes, (uint64_t)t_me);
    x = t_exchange_create(node, MPI_COMM_WORLD, 2, ring, 1);
    T_OK(wharf_exchange_run(x, NULL));
    t_stream_sync(node, NULL);
    T_EQ_INT(-1,
             t_dev_check_pattern(node, memory + bytes, bytes, (uint64_t)left));
    t_exchange_destroy(x);
    t_detach(buffer);
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"ring", ring, T_ANY},
        {"strides", strides, T_ANY},
        {"one_way", one_way, T_ANY},
        {"empty", empty, T_ANY},
        {"graphs", graphs, T_ANY},
        {"communicators", communicators, T_ANY},
        {"two_plans", two_plans, T_ANY},
        {"half_a_node", half_a_node, T_ANY},
        {"huge", huge, T_ANY},
        {NULL, NULL, 0},
    };
    int level = MPI_THREAD_SINGLE;

    t_arguments(argc, argv);
    if (t_argument("threads", 0))
        level = MPI_THREAD_MULTIPLE;
    return t_main(argc, argv, level, cases);
}
