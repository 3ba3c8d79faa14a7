/* SPDX-License-Identifier: MIT */
/*
 * A rank of a real job is killed while the others wait for it. The launcher is
 * told to let the others live (comm.cmake); its exit status then tells nothing,
 * so each survivor says that it passed. The argument is the rank to die.
 */
#include <mpi.h>
#include <signal.h>

#include "base/error.h"
#include "comm/private.h"
#include "t_test.h"

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(30000);
}

int main(int argc, char **argv)
{
    wi_comm *comm = NULL;
    int me, ranks, victim;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    victim = argc > 1 ? atoi(argv[1]) : ranks - 1;
    T_OK(wi_comm_open(MPI_COMM_WORLD, 0, soon(), &comm));
    if (me == victim)
        raise(SIGKILL);
    T_STATUS(WHARF_EPEER, wi_comm_agree(comm, WHARF_OK, soon()));
    T_EQ_INT(victim, wi_error_record()->rank);
    T_STATUS(WHARF_EPEER, wi_comm_close(&comm, soon()));
    printf("survivor passed\n");
    fflush(stdout);
    /* MPI_Finalize would wait for the dead rank. */
    _exit(0);
}
