/* SPDX-License-Identifier: MIT */
/*
 * A rank that ends without stopping its workers: none of them may stay.
 *
 * Each rank starts four: one at rest, one that has forked, one that is stopped,
 * one that never joins. It prints their numbers ("pid N"), then ends as
 * argv[1] says: killed, exited, aborted; or waits, to be ended by others
 * ("rank N" is its own number). The script worker_orphan.sh looks for what is
 * left.
 */
#include "t_worker.h"

#include <mpi.h>
#include <signal.h>

static void tell_pid(int pid)
{
    printf("pid %d\n", pid);
    fflush(stdout);
}

static void start_all(wharf_node *node, wharf_buffer **buffer)
{
    wharf_worker_options options = t_worker_options(buffer, 1);
    const char *argv[] = {"sleep", "1000", NULL};
    wharf_worker *worker = t_worker_start(node, &options);

    tell_pid((int)t_ask(worker, T_BASE, 0, 0).numbers[3]);
    worker = t_worker_start(node, &options);
    tell_pid((int)t_ask(worker, T_FORK, 0, 0).numbers[0]);
    tell_pid(t_report(worker).pid);
    worker = t_worker_start(node, &options);
    t_ask(worker, T_ECHO, 0, 0);
    tell_pid(t_report(worker).pid);
    kill(t_report(worker).pid, SIGSTOP);
    t_wait_stopped(t_report(worker).pid, 5000);
    options.tag = WHARF_SWITCH_OFF;
    T_OK(wharf_worker_start(node, argv, &options, &worker));
    tell_pid(t_report(worker).pid);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    wharf_buffer *buffer;
    wharf_node *node;

    t_worker_main(argc, argv);
    t_arguments(argc, argv);
    t_mode_check();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    t_driver_expect_leaks();
    node = t_open();
    buffer = t_attach(node, 100000, 0);
    start_all(node, &buffer);
    t_barrier();
    printf("rank %d\nready\n", (int)getpid());
    fflush(stdout);
    if (t_me == 0 && strcmp(how, "killed") == 0)
        raise(SIGKILL);
    if (t_me == 0 && strcmp(how, "exited") == 0)
        exit(5);
    if (t_me == 0 && strcmp(how, "aborted") == 0)
        MPI_Abort(MPI_COMM_WORLD, 6);
    for (;;)
        pause();
}
