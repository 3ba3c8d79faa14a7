/* SPDX-License-Identifier: MIT */
/* A rank that stays away from an opening: a time-out on all, and the next
 * opening works. */
#include <mpi.h>

#include "base/error.h"
#include "base/stat.h"
#include "comm/private.h"
#include "t_test.h"

static int me, ranks;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

/* `fresh`: the communicator has no duplicate yet, so that making it is what
 * times out; else it is the agreement. */
static void stay_away(int late, bool fresh)
{
    wi_comm *comm = NULL;
    MPI_Comm user;
    int32_t all[64];

    MPI_Comm_dup(MPI_COMM_WORLD, &user);
    if (!fresh) {
        T_OK(wi_comm_open(user, 0, soon(), &comm));
        T_OK(wi_comm_close(&comm, soon()));
    }
    if (me == late)
        MPI_Barrier(MPI_COMM_WORLD);
    T_STATUS(WHARF_ETIMEDOUT,
             wi_comm_open(user, 0, wi_deadline_in_ms(me == late ? 200 : 100),
                          &comm));
    T_CHECK(comm == NULL);
    T_CONTAINS("did not come", wi_error_record()->cause);
    if (me != late)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);

    T_OK(wi_comm_open(user, 0, soon(), &comm));
    T_OK(wi_comm_allgather(comm, &me, sizeof me, all, soon()));
    for (int r = 0; r < ranks; r++)
        T_EQ_INT(r, all[r]);
    T_OK(wi_comm_close(&comm, soon()));
    MPI_Comm_free(&user);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_map_bytes));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int late = 0; late < ranks; late++)
        for (int fresh = 0; fresh < 2; fresh++)
            stay_away(late, fresh);
    MPI_Finalize();
    return 0;
}
