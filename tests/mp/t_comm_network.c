/* SPDX-License-Identifier: MIT */
/* A rank in another network namespace cannot reach rank 0's socket: every rank
 * learns that, with the remedy, and nothing stays. */
#define _GNU_SOURCE /* unshare */
#include <errno.h>
#include <mpi.h>
#include <sched.h>

#include "base/error.h"
#include "base/stat.h"
#include "comm/private.h"
#include "t_test.h"

int main(int argc, char **argv)
{
    wi_comm *comm = NULL;
    int me, able = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 1)
        able = unshare(CLONE_NEWNET) == 0;
    MPI_Bcast(&able, 1, MPI_INT, 1, MPI_COMM_WORLD);
    if (!able)
        T_SKIP("rank 1 may not make a network namespace");
    T_STATUS(WHARF_EOS,
             wi_comm_open(MPI_COMM_WORLD, 0, wi_deadline_in_ms(20000), &comm));
    T_EQ_INT(1, wi_error_record()->rank);
    T_CONTAINS("network namespace", wi_error_record()->remedy);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_communicators));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    MPI_Finalize();
    return 0;
}
