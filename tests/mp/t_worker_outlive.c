/* SPDX-License-Identifier: MIT */
/*
 * What a rank lends outlives the rank's own trouble. One case a run:
 *
 *   ruined        the rank's context is ruined: its worker goes on, and dies,
 *                 and the next one finds everything
 *   owner_killed  rank 0, which owns the memory, is killed: the workers of the
 *                 others go on, and so do their successors
 *
 * The launcher of owner_killed must let a job go on without one of its ranks;
 * its exit status then says nothing: the verdict is the line "outlive: all
 * right" of rank 1.
 */
#include "t_worker.h"

#include <mpi.h>
#include <signal.h>
#include <time.h>

static wharf_node *node;
static wharf_buffer *device, *host;
static wharf_worker *worker;

static void attach(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *lent[2];
    wharf_worker_options workers;

    options.space = WHARF_SPACE_HOST;
    node = t_open();
    device = t_attach(node, 200000, 0);
    T_OK(wharf_buffer_attach(node, 30000, &options, &host));
    t_share(node, device, 21);
    t_share(node, host, 22);
    t_barrier();
    lent[0] = device;
    lent[1] = host;
    workers = t_worker_options(lent, 2);
    worker = t_worker_start(node, &workers);
    t_ask(worker, T_CHECK_ALL, 0, 21);
    t_barrier();
}

/* The worker that is there, and one that comes after it. */
static void workers_go_on(void)
{
    t_task lost;

    t_ask(worker, T_CHECK_ALL, 0, 21);
    t_ask(worker, T_CHECK_ALL, 1, 22);
    t_tell(worker, T_DIE_SIGNAL, SIGSEGV, 0);
    T_STATUS(WHARF_EWORKER,
             wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    t_ask(worker, T_CHECK_ALL, 0, 21);
    t_ask(worker, T_CHECK_ALL, 1, 22);
}

static int ruined(void)
{
    int who = t_ranks - 1;
    wharf_worker_options options = t_worker_options(&device, 1);
    wharf_worker *other = NULL;
    const char *argv[] = {"true", NULL};
    wharf_buffer *none = NULL;

    attach();
    if (t_me == who) {
        T_CHECK(t_driver_ruin(node) != 0);
        workers_go_on();
        /* A new offer of GPU memory it can no longer make. */
        wharf_status status = wharf_worker_start(node, argv, &options, &other);

        T_CHECK(status == WHARF_EFAULT || status == WHARF_OK);
        if (status == WHARF_OK)
            t_worker_stop(other);
    }
    t_barrier();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, who, NULL,
            wharf_buffer_attach(node, 1000, NULL, &none));
    t_worker_stop(worker);
    wharf_status status = wharf_node_close(&node);

    T_CHECK(status == WHARF_OK || status == WHARF_EFAULT);
    t_live_check(NULL);
    MPI_Finalize();
    return 0;
}

static int owner_killed(void)
{
    attach();
    if (t_me == 0)
        raise(SIGKILL);
    T_STATUS(WHARF_EPEER, wharf_pool_trim(node));
    for (int rank = 0; rank < t_ranks; rank++) {
        t_check_segment(node, device, rank, 21);
        t_check_segment(node, host, rank, 22);
    }
    workers_go_on();
    t_worker_stop(worker);
    wharf_ignore(wharf_node_close(&node));
    if (t_me == 1)
        printf("outlive: all right\n");
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    t_worker_main(argc, argv);
    t_arguments(argc, argv);
    t_mode_check();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    if (strcmp(name, "ruined") == 0)
        return ruined();
    if (strcmp(name, "owner_killed") == 0)
        return owner_killed();
    T_FAIL("no such case: %s", name);
}
