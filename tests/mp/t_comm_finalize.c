/* SPDX-License-Identifier: MIT */
/* MPI_Finalize with nodes open: the ranks do not wait for one another for ever,
 * and closing afterwards is local and works. */
#include <mpi.h>

#include "base/error.h"
#include "base/stat.h"
#include "comm/private.h"
#include "t_test.h"

static wi_comm *first, *second, *third;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

int main(int argc, char **argv)
{
    int me;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    T_OK(wi_comm_open(MPI_COMM_WORLD, 0, soon(), &first));
    T_OK(wi_comm_open(MPI_COMM_SELF, 0, soon(), &second));
    T_OK(wi_comm_open(MPI_COMM_WORLD, 0, soon(), &third));
    T_OK(wi_comm_close(&third, soon()));
    MPI_Finalize();
    T_EQ_INT(2, wi_stat_get(WI_STAT_live_communicators));
    T_OK(wi_comm_close(&first, soon()));
    T_OK(wi_comm_close(&second, soon()));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_communicators));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_map_bytes));
    return 0;
}
