/* SPDX-License-Identifier: MIT */
/*
 * A job that is stopped and goes on, as batch systems do to make room: ranks
 * that wait meanwhile, in a collective and for an event, do not take the time
 * for lateness of the others.
 */
#include "t_group.h"

#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 64, TIMEOUT_MS = 1000, STOPPED_MS = 1150 };

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000,
                            .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* Plays the batch system from a process of its own. */
static pid_t stop_for_a_while(const pid_t *ranks)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    sleep_ms(100);
    for (int r = 0; r < t_ranks; r++)
        kill(ranks[r], SIGSTOP);
    sleep_ms(STOPPED_MS);
    for (int r = 0; r < t_ranks; r++)
        kill(ranks[r], SIGCONT);
    _exit(0);
}

static void all_stopped(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_event *event = NULL;
    pid_t me = getpid(), ranks[RANKS], batch = 0;

    T_CHECK(t_ranks <= RANKS);
    options.timeout_ms = TIMEOUT_MS;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_OK(wharf_event_create(node, t_ranks - 1, &event));
    MPI_Allgather(&me, sizeof me, MPI_BYTE, ranks, sizeof me, MPI_BYTE,
                  MPI_COMM_WORLD);
    if (t_me == t_ranks - 1) {
        batch = stop_for_a_while(ranks);
        /* A signal ends a sleep early; the child's end does not come before
         * the others go on. */
        T_CHECK(waitpid(batch, NULL, 0) == batch);
        T_OK(wharf_event_record(event, NULL, NULL));
    } else if (t_me == 1) {
        T_OK(wharf_event_synchronize(event, 1, 0));
    }
    t_detach(t_attach(node, 100, 0));
    T_OK(wharf_event_destroy(&event));
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"all_stopped", all_stopped, T_HOST},
        {NULL, NULL, 0},
    };

    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
