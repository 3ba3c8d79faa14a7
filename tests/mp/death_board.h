/* SPDX-License-Identifier: MIT */
/*
 * What the ranks of t_death.c share: a board in memory, since MPI collectives
 * are out of reach once one of them is dead; and what the survivors check.
 */
#ifndef DEATH_BOARD_H
#define DEATH_BOARD_H

#include "t_group.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 64, VERDICT_MS = 40000 };

/* Most time between a death and the answer. The promise is 1 s; the rest is
 * for machines where all ranks share two loaded cores. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LATE_MS = 15000 };
#else
enum { LATE_MS = 5000 };
#endif

typedef struct board {
    atomic_llong died_ms; /* when the victim went, monotonic */
    atomic_int ready[MOST_RANKS];
    atomic_int done[MOST_RANKS];
    atomic_int status[MOST_RANKS];
    atomic_int call[MOST_RANKS]; /* how many calls had succeeded before */
    atomic_int pid[MOST_RANKS];
} board;

static board *shared;
static int victim;
static wharf_node *node;

static void board_open(void)
{
    shared = t_board(sizeof *shared);
    atomic_store(&shared->pid[t_me], (int)getpid());
    t_barrier();
}

static int verdict_rank(void)
{
    return victim == 0 ? 1 : 0;
}

/* The board's flags of all survivors are set, or time is up. */
static bool survivors_all(atomic_int *flags)
{
    long long end = t_now_ms() + VERDICT_MS;

    for (int rank = 0; rank < t_ranks; rank++) {
        while (rank != victim && !atomic_load(&flags[rank])) {
            if (t_now_ms() > end)
                return false;
            t_pause_us(1000);
        }
    }
    return true;
}

/* Dies or stops here, for good or until somebody says go. */
static void vanish(int how)
{
    atomic_store(&shared->died_ms, t_now_ms());
    kill(getpid(), how);
    if (how == SIGKILL) {
        for (;;)
            pause();
    }
}

/* The verdict, and the end without MPI_Finalize, which nobody could finish. */
static void finish(void)
{
    atomic_store(&shared->done[t_me], 1);
    if (t_me == verdict_rank()) {
        int count = 0;

        if (!survivors_all(shared->done))
            T_FAIL("not all survivors came through");
        for (int rank = 0; rank < t_ranks; rank++) {
            if (rank == victim)
                continue;
            count++;
            T_EQ_INT(shared->status[t_me], shared->status[rank]);
            T_EQ_INT(shared->call[t_me], shared->call[rank]);
        }
        kill(shared->pid[victim], SIGKILL);
        printf("death: %d survivors of rank %d, all right\n", count, victim);
        fflush(stdout);
    }
    _exit(0);
}

/* What a survivor must have been told, and how soon. */
static void told(wharf_status status, wharf_status expected, long long most_ms)
{
    long long late = t_now_ms() - atomic_load(&shared->died_ms);
    wharf_error error;
    char text[512];

    T_STATUS(expected, status);
    wharf_last_error(&error);
    T_EQ_INT(expected, error.status);
    wharf_error_format(&error, text, sizeof text);
    if (expected == WHARF_EPEER) {
        T_EQ_INT(victim, error.rank);
    } else {
        char name[24];

        snprintf(name, sizeof name, "rank %d", victim);
        T_CONTAINS(name, text);
    }
    atomic_store(&shared->status[t_me], (int)status);
    printf("rank %d was told after %lld ms: %s\n", t_me, late, text);
    fflush(stdout);
    if (late > most_ms)
        T_FAIL("told after %lld ms, the most is %lld", late, most_ms);
}

/* The node is of no more use, closing it takes no longer than being told, and
 * nothing is left but what is reported as kept. */
static void close_after_death(bool mpi_pending)
{
    wharf_buffer *none = NULL;
    long long start = t_now_ms();
    wharf_stats stats;
    wharf_status status;

    T_STATUS(WHARF_EPEER, wharf_buffer_attach(node, 64, NULL, &none));
    T_CHECK(none == NULL);
    status = wharf_node_close(&node);
    T_CHECK(status == WHARF_OK || status == WHARF_EPEER);
    T_CHECK(node == NULL);
    T_CHECK(t_now_ms() - start <= LATE_MS);
    stats = t_stats();
    T_EQ_INT(0, stats.live_nodes);
    T_EQ_INT(0, stats.live_buffers);
    T_EQ_INT(0, stats.live_events);
    T_EQ_INT(0, stats.live_descriptors);
    T_EQ_INT(0, stats.live_ranges);
    /* What MPI was given and can never finish must stay, and so must what
     * knows of kept memory. */
    if (!mpi_pending && stats.kept_bytes == 0)
        T_EQ_INT(0, stats.live_host_allocations);
}

#endif
