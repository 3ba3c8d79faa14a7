/* SPDX-License-Identifier: MIT */
/* Exchanges that are asked for wrongly: what is said, on which ranks, and that
 * the next one works. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "t_exchange.h"

enum { BYTES = 4096 };

typedef struct ground {
    t_field f;
    wharf_exchange_box send[2], receive[2];
    wharf_exchange_transfer ring[2];
} ground;

/* A ring that is right, for each case to spoil. */
static ground begin(void)
{
    ground g;

    g.f = t_field_begin(t_open(), 2, BYTES);
    return g;
}

static void lists_right(ground *g)
{
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;

    for (int s = 0; s < 2; s++) {
        g->send[s] = t_box(&g->f, s, 64, 8, 10, 32);
        g->receive[s] = t_box(&g->f, s, 1024, 8, 10, 32);
    }
    g->ring[0] = (wharf_exchange_transfer){right, 5, 0, g->send, NULL};
    g->ring[1] = (wharf_exchange_transfer){left, 0, 5, NULL, g->receive};
}

static wharf_status make(ground *g, int sets, wharf_exchange **x)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;

    *x = NULL;
    options.sets = sets;
    return wharf_exchange_create(g->f.node, MPI_COMM_WORLD, 2, g->ring,
                                 &options, x);
}

static void end(ground *g)
{
    wharf_exchange *x;
    wharf_node *node = g->f.node;

    /* After all that failed. */
    lists_right(g);
    T_OK(make(g, 2, &x));
    for (int round = 0; round < 4; round++)
        t_round(x, g->f.stream, round);
    t_exchange_destroy(x);
    t_field_end(&g->f);
    t_close(node);
}

/* The change that `spoil` makes on one rank fails everywhere. */
#define SPOILED(g, sets, status, rank, part, spoil)                            \
    do {                                                                       \
        wharf_exchange *none_ = NULL;                                          \
        lists_right(g);                                                        \
        if (t_me == (rank)) {                                                  \
            spoil;                                                             \
        }                                                                      \
        T_FAILS(MPI_COMM_WORLD, status, -1, part, make(g, sets, &none_));      \
        T_EQ_PTR(NULL, none_);                                                 \
    } while (0)

/* ---- Of one rank alone ------------------------------------------------- */

static void boxes(void)
{
    ground g = begin();
    int last = t_ranks - 1;

    SPOILED(&g, 2, WHARF_EARG, last, "beyond the segment's size",
            g.send[1].offset = BYTES - 8 * 32);
    SPOILED(&g, 2, WHARF_EARG, 0, "transfer 1, receive box of set 1",
            g.receive[1].offset = (size_t)-1000);
    SPOILED(&g, 2, WHARF_EARG, last, "pitch[0] 7 is smaller than the row of 8",
            g.send[0].pitch[0] = 7);
    SPOILED(&g, 2, WHARF_EARG, last, "pitch[1] 100 is smaller",
            g.receive[0].size[1] = 5;
            g.receive[0].size[2] = 2; g.receive[0].pitch[1] = 100);
    SPOILED(&g, 2, WHARF_EARG, 0, "beyond every address space",
            g.send[0].size[1] = (size_t)1 << 62);
    SPOILED(&g, 2, WHARF_EARG, 0, "beyond every address space",
            g.send[0].size[0] = (size_t)-1);
    SPOILED(&g, 2, WHARF_EARG, last, "the buffer of transfer 0, send, set 1",
            g.send[1].buffer = NULL);
    SPOILED(&g, 2, WHARF_EARG, last, "overlap in set 1",
            g.receive[1].offset = 64 + 9 * 32);
    SPOILED(&g, 2, WHARF_EARG, 0, "overlap in set 0",
            g.receive[0].offset = 64 + 7);
    end(&g);
}

/* Rows that lie between one another's share no byte. */
static void interleaved(void)
{
    ground g = begin();
    wharf_exchange *x;

    lists_right(&g);
    for (int s = 0; s < 2; s++)
        g.receive[s].offset = 64 + 8;
    T_OK(make(&g, 2, &x));
    t_field_rounds(&g.f, x, MPI_COMM_WORLD, g.ring, 2, 4);
    t_exchange_destroy(x);
    end(&g);
}

static void overlapping_receives(void)
{
    ground g = begin();
    wharf_exchange_box more[2];
    wharf_exchange_transfer three[3];
    wharf_exchange *x = NULL;
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;

    lists_right(&g);
    for (int s = 0; s < 2; s++)
        more[s] = t_box(&g.f, s, 1024 + 9 * 32 + 4, 80, 1, 0);
    three[0] = g.ring[0];
    three[1] = g.ring[1];
    three[2] = (wharf_exchange_transfer){t_me, 1, 1, g.send, more};
    options.sets = 2;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1,
            "the receive box of transfer 1 and the receive box of transfer 2",
            wharf_exchange_create(g.f.node, MPI_COMM_WORLD, 3, three, &options,
                                  &x));
    T_EQ_PTR(NULL, x);
    end(&g);
}

static void peers_and_ids(void)
{
    ground g = begin();
    int last = t_ranks - 1;

    SPOILED(&g, 1, WHARF_EARG, last, "transfer 0: peer is",
            g.ring[0].peer = t_ranks);
    SPOILED(&g, 1, WHARF_EARG, 0, "transfer 1: peer is -77",
            g.ring[1].peer = -77);
    SPOILED(&g, 1, WHARF_EARG, 0, "send_id is -1", g.ring[0].send_id = -1);
    SPOILED(&g, 1, WHARF_EARG, last, "both send to", g.ring[1] = g.ring[0]);
    end(&g);
}

static void arguments(void)
{
    ground g = begin();
    wharf_node *node = g.f.node;
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange *x = NULL;

    lists_right(&g);
    for (int sets = -1; sets <= WHARF_MAX_EXCHANGE_SETS + 1;
         sets += WHARF_MAX_EXCHANGE_SETS + 2) {
        options.sets = sets;
        T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "options.sets is",
                wharf_exchange_create(node, MPI_COMM_WORLD, 2, g.ring, &options,
                                      &x));
    }
    options = (wharf_exchange_options)WHARF_EXCHANGE_OPTIONS_INIT;
    options.ready = (wharf_switch)3;
    T_FAILS(
        MPI_COMM_WORLD, WHARF_EARG, 0, "options.ready is 3",
        wharf_exchange_create(node, MPI_COMM_WORLD, 2, g.ring, &options, &x));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "count is -1",
            wharf_exchange_create(node, MPI_COMM_WORLD, -1, g.ring, NULL, &x));
    T_FAILS(
        MPI_COMM_WORLD, WHARF_ELIMIT, 0, "at most 16384",
        wharf_exchange_create(node, MPI_COMM_WORLD, 16385, g.ring, NULL, &x));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "transfers is NULL",
            wharf_exchange_create(node, MPI_COMM_WORLD, 2, NULL, NULL, &x));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "exchange is NULL",
            wharf_exchange_create(node, MPI_COMM_WORLD, 2, g.ring, NULL, NULL));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "comm is MPI_COMM_NULL",
            wharf_exchange_create(node, MPI_COMM_NULL, 2, g.ring, NULL, &x));
    T_EQ_PTR(NULL, x);
    end(&g);
}

static void buffers(void)
{
    ground g = begin();
    wharf_node *node = g.f.node, *second = NULL;
    wharf_buffer *gone = t_attach(node, BYTES, 0), *kept = gone;
    wharf_buffer *closed = t_attach(node, BYTES, WHARF_BUFFER_READ_ONLY);
    wharf_buffer *other;
    wharf_exchange *x;

    T_OK(wharf_node_open(MPI_COMM_WORLD, NULL, &second));
    other = t_attach(second, BYTES, 0);
    T_OK(wharf_buffer_detach(&gone));
    SPOILED(&g, 1, WHARF_ESTATE, 0, "transfer 0, send, set 0",
            g.send[0].buffer = kept);
    SPOILED(&g, 1, WHARF_ESTATE, t_ranks - 1, "another node object",
            g.receive[0].buffer = other);
    if (t_ranks > 1 && getenv("WHARF_EXCHANGE_REMOTE") == NULL)
        SPOILED(&g, 1, WHARF_EUNSUPPORTED, t_ranks - 1, "may not write",
                g.receive[0].buffer = closed);
    /* It may be sent from. */
    lists_right(&g);
    g.send[0].buffer = closed;
    T_OK(make(&g, 1, &x));
    T_OK(wharf_exchange_run(x, g.f.stream));
    t_stream_sync(node, g.f.stream);
    /* Detached behind the plan's back. */
    t_barrier();
    T_OK(wharf_buffer_detach(&closed));
    T_REFUSES(WHARF_ESTATE, "was detached",
              wharf_exchange_start(x, g.f.stream));
    t_exchange_destroy(x);
    t_detach(other);
    t_close(second);
    end(&g);
}

/* ---- Plans that do not match ------------------------------------------- */

static void mismatches(void)
{
    ground g = begin();
    int last = t_ranks - 1;

    SPOILED(&g, 2, WHARF_EMISMATCH, last, "sends 72 bytes in set 1",
            g.send[1].size[1] = 9);
    SPOILED(&g, 2, WHARF_EMISMATCH, 0, "receives 88",
            g.receive[0].size[1] = 11);
    SPOILED(&g, 2, WHARF_EMISMATCH, last, "sends 0 bytes in set 0",
            g.send[0].size[0] = 0);
    SPOILED(&g, 2, WHARF_EMISMATCH, last, "nothing", g.ring[0].send_id = 6);
    SPOILED(&g, 2, WHARF_EMISMATCH, last, "sends nothing to it",
            g.ring[0].peer = MPI_PROC_NULL);
    SPOILED(&g, 2, WHARF_EMISMATCH, 0, "receives nothing from it",
            g.ring[1].peer = MPI_PROC_NULL);
    SPOILED(&g, 2, WHARF_EMISMATCH, 0, "5 x 16 x 1", g.receive[1].size[0] = 5;
            g.receive[1].size[1] = 16);
    end(&g);
}

static void options_differ(void)
{
    ground g = begin();
    wharf_exchange *x = NULL;
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    /* Ranks of another node have other numbers in records. */
    int blamed = wharf_node_size(g.f.node) == t_ranks ? t_ranks - 1 : -1;

    if (t_ranks > 1) {
        lists_right(&g);
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, blamed,
                "has options.sets 1, rank 0 has 2",
                make(&g, t_me == t_ranks - 1 ? 1 : 2, &x));
        options.ready =
            t_me == t_ranks - 1 ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, blamed,
                "has options.ready 1, rank 0 has 0",
                wharf_exchange_create(g.f.node, MPI_COMM_WORLD, 2, g.ring,
                                      &options, &x));
        T_EQ_PTR(NULL, x);
    }
    end(&g);
}

/* ---- States ------------------------------------------------------------ */

/* What one rank does is seen by all: not so by ranks of another node. */
static bool one_node(const ground *g)
{
    return wharf_node_size(g->f.node) == t_ranks;
}

static void states(void)
{
    ground g = begin();
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange *x, *dead;
    bool alone;

    if (!one_node(&g)) {
        end(&g);
        return;
    }
    lists_right(&g);
    T_OK(make(&g, 1, &x));
    T_OK(wharf_exchange_plan_get(x, &plan));
    /* Where finish drives MPI, or puts what its receiver was not ready for at
     * the start (host backend), nobody finishes before the others do. */
    alone = t_ranks == 1 || t_mode_get() == T_HOST ||
            plan.progress == WHARF_EXCHANGE_PROGRESS_FINISH;
    T_REFUSES(WHARF_ESTATE, "no round of the exchange is started",
              wharf_exchange_finish(x, g.f.stream));
    T_OK(wharf_exchange_start(x, g.f.stream));
    T_REFUSES(WHARF_ESTATE, "is started already",
              wharf_exchange_start(x, g.f.stream));
    T_REFUSES(WHARF_ESTATE, "is started already",
              wharf_exchange_run(x, g.f.stream));
    dead = x;
    T_FAILS(MPI_COMM_WORLD, WHARF_ESTATE, 0, "is started and not finished",
            wharf_exchange_destroy(&x));
    T_EQ_PTR(dead, x);
    if (t_me != 0 || alone)
        T_OK(wharf_exchange_finish(x, g.f.stream));
    if (!alone)
        T_FAILS(MPI_COMM_WORLD, WHARF_ESTATE, 0, "is started and not finished",
                wharf_exchange_destroy(&x));
    if (t_me == 0 && !alone)
        T_OK(wharf_exchange_finish(x, g.f.stream));
    if (t_mode_get() == T_HOST)
        T_REFUSES(WHARF_EARG, "has none",
                  wharf_exchange_start(x, (wharf_stream)(void *)&x));
    t_exchange_destroy(x);
    T_REFUSES(WHARF_ESTATE, "exchange", wharf_exchange_start(dead, NULL));
    T_REFUSES(WHARF_ESTATE, "exchange", wharf_exchange_finish(dead, NULL));
    T_REFUSES(WHARF_EARG, "exchange is NULL", wharf_exchange_run(NULL, NULL));
    T_REFUSES(WHARF_EARG, "exchange is NULL", wharf_exchange_destroy(NULL));
    end(&g);
}

/* One rank is late by more than the deadline: finish says who, and may be
 * called again. GPUs wait in the stream, where wharf_stream_synchronize
 * looks after them. */
static void late_rank(void)
{
    ground g = begin();
    int late = t_ranks - 1;
    bool remote = getenv("WHARF_EXCHANGE_REMOTE") != NULL;
    wharf_exchange *x;

    if (!one_node(&g)) {
        end(&g);
        return;
    }
    lists_right(&g);
    T_OK(make(&g, 1, &x));
    if (t_ranks > 1 && t_me != late) {
        T_OK(wharf_exchange_start(x, g.f.stream));
        if (t_mode_get() == T_HOST) {
            /* The ring's neighbours of the late one. */
            if (t_me == 0 && !remote)
                T_REFUSES(WHARF_ETIMEDOUT, "did not",
                          wharf_exchange_finish(x, g.f.stream));
            else if (t_me == 0)
                T_REFUSES(WHARF_ETIMEDOUT, "before the deadline",
                          wharf_exchange_finish(x, g.f.stream));
        } else if (!remote && t_me == 0) {
            T_OK(wharf_exchange_finish(x, g.f.stream));
            T_REFUSES(WHARF_ETIMEDOUT, "not complete in time",
                      wharf_stream_synchronize(g.f.node, g.f.stream, 100));
        }
    }
    t_barrier();
    if (t_ranks == 1 || t_me == late)
        T_OK(wharf_exchange_start(x, g.f.stream));
    if (t_me != 0 || t_ranks == 1 || t_mode_get() == T_HOST || remote)
        T_OK(wharf_exchange_finish(x, g.f.stream));
    t_exchange_destroy(x);
    end(&g);
}

static void node_closed(void)
{
    ground g = begin();
    wharf_node *node = g.f.node;
    wharf_exchange *x;

    lists_right(&g);
    T_OK(make(&g, 2, &x));
    T_OK(wharf_exchange_run(x, g.f.stream));
    t_stream_sync(node, g.f.stream);
    t_barrier();
    t_field_end(&g.f);
    t_close(node);
    T_REFUSES(WHARF_ESTATE, "exchange", wharf_exchange_start(x, NULL));
}

/* ---- Topologies -------------------------------------------------------- */

static void topologies(void)
{
    ground g = begin();
    wharf_node *node = g.f.node;
    wharf_exchange_block block = WHARF_EXCHANGE_BLOCK_INIT;
    wharf_exchange *x = NULL;
    const int dims[4] = {t_ranks, 1, 1, 1}, periods[4] = {1, 0, 0, 0};
    MPI_Comm four, three, two;

    MPI_Cart_create(MPI_COMM_WORLD, 4, dims, periods, 0, &four);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &three);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &two);
    block.cell = 4;
    block.extent[0] = block.extent[1] = 8;
    block.ghost[0] = block.ghost[1] = 1;
    block.buffer[0] = g.f.buffer[0];
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "no Cartesian topology",
            wharf_exchange_create_cart(node, MPI_COMM_WORLD, &block, NULL, &x));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "has 4 dimensions",
            wharf_exchange_create_cart(node, four, &block, NULL, &x));
    T_FAILS(
        MPI_COMM_WORLD, WHARF_EARG, 0, "no distributed-graph topology",
        wharf_exchange_create_graph(node, two, g.send, g.receive, NULL, &x));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "block",
            wharf_exchange_create_cart(node, two, NULL, NULL, &x));
    block.ghost[1] = 9;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0,
            "block.ghost[1] is 9 and block.extent[1] is 8",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.ghost[0] = block.ghost[1] = 0;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "0 in every dimension",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.ghost[0] = block.ghost[1] = 1;
    block.diagonals = 2;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "block.diagonals is 2",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.diagonals = 0;
    block.cell = 0;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "block.cell is 0",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.cell = 4;
    block.extent[1] = SIZE_MAX / 2;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "beyond every address space",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.extent[1] = t_me == 0 ? 8 : 7;
    if (t_ranks > 1)
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, -1, "bytes in set 0",
                wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.extent[1] = 800;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "beyond the segment's size",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    block.extent[1] = 8;
    block.offset[0] = (size_t)-16;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "beyond every address space",
            wharf_exchange_create_cart(node, two, &block, NULL, &x));
    /* So many planes that offsets wrap to where they seem right. */
    block = (wharf_exchange_block)WHARF_EXCHANGE_BLOCK_INIT;
    block.cell = 4;
    block.extent[0] = (size_t)1 << 62;
    block.extent[1] = block.extent[2] = 1;
    block.ghost[0] = 1;
    block.buffer[0] = g.f.buffer[0];
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 0, "beyond every address space",
            wharf_exchange_create_cart(node, three, &block, NULL, &x));
    T_EQ_PTR(NULL, x);
    MPI_Comm_free(&four);
    MPI_Comm_free(&three);
    MPI_Comm_free(&two);
    end(&g);
}

/* ---- Its thread ---------------------------------------------------------- */

/* SigBlk of a thread of that name in this process; 0: there is none. */
static uint64_t blocked_by(const char *name)
{
    char path[300], line[80];
    uint64_t mask = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        bool named = false;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "re");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            named = named || (strncmp(line, "Name:\t", 6) == 0 &&
                              strncmp(line + 6, name, strlen(name)) == 0);
            if (named && strncmp(line, "SigBlk:\t", 8) == 0)
                mask = strtoull(line + 8, NULL, 16);
        }
        if (status != NULL)
            fclose(status);
    }
    if (tasks != NULL)
        closedir(tasks);
    return mask;
}

/* The program's signals do not come to the thread that drives messages. */
static void signals_elsewhere(void)
{
    ground g = begin();
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange *x;

    lists_right(&g);
    T_OK(make(&g, 2, &x));
    T_OK(wharf_exchange_plan_get(x, &plan));
    for (int i = 0; plan.progress == WHARF_EXCHANGE_PROGRESS_THREAD; i++) {
        uint64_t mask = blocked_by("wharf messages");

        if (mask >> (SIGUSR1 - 1) & mask >> (SIGALRM - 1) & 1)
            break;
        /* It has its name a moment after it was started. */
        T_CHECK(mask == 0 && i < 500);
        usleep(2000);
    }
    t_exchange_destroy(x);
    end(&g);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"boxes", boxes, T_ANY},
        {"interleaved", interleaved, T_ANY},
        {"overlapping_receives", overlapping_receives, T_ANY},
        {"peers_and_ids", peers_and_ids, T_ANY},
        {"arguments", arguments, T_ANY},
        {"buffers", buffers, T_ANY},
        {"mismatches", mismatches, T_ANY},
        {"options_differ", options_differ, T_ANY},
        {"states", states, T_ANY},
        {"late_rank", late_rank, T_ANY},
        {"node_closed", node_closed, T_ANY},
        {"topologies", topologies, T_ANY},
        {"signals_elsewhere", signals_elsewhere, T_ANY},
        {NULL, NULL, 0},
    };
    int level = MPI_THREAD_SINGLE;

    t_arguments(argc, argv);
    if (t_argument("threads", 0))
        level = MPI_THREAD_MULTIPLE;
    return t_main(argc, argv, level, cases);
}
