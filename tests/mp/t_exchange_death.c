/* SPDX-License-Identifier: MIT */
/*
 * A rank is killed in the middle of an exchange: the others are told by finish,
 * or on GPUs by a wait for the stream and by
 * destroy, and end by themselves.
 *
 * As t_death.c: the launcher's exit status says nothing here, the line "death:
 * ... all right" does. What the survivors have to tell one another lies in a
 * host-space buffer, which outlives everything.
 */
#include "t_exchange.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES = 2048, VERDICT_MS = 40000 };

/* As in t_death.c. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LATE_MS = 15000 };
#else
enum { LATE_MS = 5000 };
#endif

/* One a rank. */
typedef struct note {
    atomic_llong died_ms;
    atomic_int done;
} note;

static int victim;
static wharf_node *node;
static wharf_buffer *notes;

static note *note_of(int rank)
{
    return t_segment(notes, rank, NULL);
}

static void vanish(void)
{
    atomic_store(&note_of(t_me)->died_ms, t_now_ms());
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void told(wharf_status status)
{
    long long late = t_now_ms() - atomic_load(&note_of(victim)->died_ms);
    wharf_error error;

    T_STATUS(WHARF_EPEER, status);
    wharf_last_error(&error);
    T_EQ_INT(victim, error.rank);
    printf("rank %d was told after %lld ms by %s: %s\n", t_me, late, error.call,
           error.cause);
    fflush(stdout);
    if (late > LATE_MS)
        T_FAIL("told after %lld ms, the most is %d", late, LATE_MS);
}

/* The last call of a survivor: its memory of the notes goes with it. */
static void finish(void)
{
    int judge = victim == 0 ? 1 : 0;

    atomic_store(&note_of(t_me)->done, 1);
    if (t_me == judge) {
        long long end = t_now_ms() + VERDICT_MS;

        for (int rank = 0; rank < t_ranks; rank++)
            while (rank != victim && !atomic_load(&note_of(rank)->done)) {
                if (t_now_ms() > end)
                    T_FAIL("not all survivors came through");
                t_pause_us(1000);
            }
        printf("death: %d survivors of rank %d, all right\n", t_ranks - 1,
               victim);
        fflush(stdout);
    }
    t_pause_us(20000);
    if (wharf_node_close(&node) != WHARF_EPEER || node != NULL)
        T_FAIL("the node could not be closed");
    T_EQ_INT(0, t_stats().live_exchanges);
    T_EQ_INT(0, t_stats().live_nodes);
    _exit(0);
}

typedef struct ground {
    t_field f;
    wharf_exchange_box boxes[4][2];
    wharf_exchange_transfer ring[2];
    wharf_exchange *x;
} ground;

static void lists(ground *g, int sets)
{
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;

    g->f = t_field_begin(node, sets, BYTES);
    for (int b = 0; b < 4; b++)
        for (int s = 0; s < sets; s++)
            g->boxes[b][s] = t_box(&g->f, s, (size_t)b * 500, 400, 1, 0);
    g->ring[0] =
        (wharf_exchange_transfer){right, 0, 1, g->boxes[0], g->boxes[1]};
    g->ring[1] =
        (wharf_exchange_transfer){left, 1, 0, g->boxes[2], g->boxes[3]};
}

/* The survivors' next round, in which a neighbour is missing. */
static void round_without(ground *g)
{
    if (t_mode_get() == T_HOST) {
        T_OK(wharf_exchange_start(g->x, g->f.stream));
        told(wharf_exchange_finish(g->x, g->f.stream));
        T_STATUS(WHARF_EPEER, wharf_exchange_finish(g->x, g->f.stream));
    } else {
        T_OK(wharf_exchange_run(g->x, g->f.stream));
        told(wharf_stream_synchronize(node, g->f.stream, 0));
        /* One more behind it. */
        T_OK(wharf_exchange_run(g->x, g->f.stream));
    }
    told(wharf_exchange_destroy(&g->x));
    T_EQ_PTR(NULL, g->x);
    finish();
}

static void killed_before_start(int sets)
{
    ground g;

    lists(&g, sets);
    g.x = t_exchange_create(node, MPI_COMM_WORLD, 2, g.ring, sets);
    for (int round = 0; round < 5; round++)
        t_round(g.x, g.f.stream, round);
    t_stream_sync(node, g.f.stream);
    t_barrier();
    if (t_me == victim)
        vanish();
    round_without(&g);
}

static void one_set(void)
{
    killed_before_start(1);
}

static void two_sets(void)
{
    killed_before_start(2);
}

/* What it put counts: the round is finished, the next one fails. */
static void killed_after_start(void)
{
    ground g;

    lists(&g, 2);
    g.x = t_exchange_create(node, MPI_COMM_WORLD, 2, g.ring, 2);
    for (int round = 0; round < 4; round++)
        t_round(g.x, g.f.stream, round);
    T_OK(wharf_exchange_start(g.x, g.f.stream));
    t_stream_sync(node, g.f.stream);
    t_barrier();
    if (t_me == victim)
        vanish();
    T_OK(wharf_exchange_finish(g.x, g.f.stream));
    t_stream_sync(node, g.f.stream);
    round_without(&g);
}

static void killed_before_create(void)
{
    wharf_exchange *x = NULL;
    ground g;

    lists(&g, 1);
    t_barrier();
    if (t_me == victim)
        vanish();
    told(wharf_exchange_create(node, MPI_COMM_WORLD, 2, g.ring, NULL, &x));
    T_EQ_PTR(NULL, x);
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"one_set", one_set},
    {"two_sets", two_sets},
    {"killed_after_start", killed_after_start},
    {"killed_before_create", killed_before_create},
};

int main(int argc, char **argv)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    t_arguments(argc, argv);
    t_mode_check();
    /* Whoever hangs must go: the launcher would wait for it. */
    alarm(100);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    victim = (int)t_argument("victim", 0);
    T_CHECK(t_ranks >= 2 && victim >= 0 && victim < t_ranks);
    node = t_open();
    options.space = WHARF_SPACE_HOST;
    options.flags = WHARF_BUFFER_ZERO;
    T_OK(wharf_buffer_attach(node, sizeof(note), &options, &notes));
    t_barrier();
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            _exit(0);
        }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
