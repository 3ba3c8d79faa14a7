/* SPDX-License-Identifier: MIT */
/*
 * Opening a communicator with every call made to fail once, on each rank in
 * turn: all ranks return the same status and record, nothing stays, and the
 * next opening works.
 */
#include <errno.h>
#include <mpi.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/stat.h"
#include "comm/private.h"
#include "t_test.h"

#define MOST_CALLS 500

static int me, ranks;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

static void check_nothing_live(void)
{
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_communicators));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_map_bytes));
}

static void check_same(wharf_status status)
{
    wharf_error first = *wi_error_record();
    int lowest = (int)status, highest = (int)status;

    MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &highest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    T_EQ_INT(lowest, highest);
    if (status == WHARF_OK)
        return;
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
    T_EQ_MEM(&first, wi_error_record(), sizeof first);
    T_CHECK(first.cause[0]);
}

/* One opening and closing with the nth call failing; true if it fired. */
static bool attempt(MPI_Comm user, wi_fault_kind kind, int victim, long nth,
                    int *failures)
{
    wi_comm *comm = NULL;
    wharf_status status;
    int fired;

    if (me == victim)
        wi_fault_arm(kind, nth, EMFILE);
    status = wi_comm_open(user, 1000, soon(), &comm);
    fired = me == victim && wi_fault_disarm(NULL);
    check_same(status);
    MPI_Bcast(&fired, 1, MPI_INT, victim, MPI_COMM_WORLD);
    if (!fired)
        T_OK(status);
    if (status != WHARF_OK) {
        (*failures)++;
        T_CHECK(comm == NULL);
        T_EQ_INT(victim, wi_error_record()->rank);
    } else {
        T_OK(wi_comm_close(&comm, soon()));
    }
    check_nothing_live();
    T_OK(wi_comm_open(user, 1000, soon(), &comm));
    T_OK(wi_comm_close(&comm, soon()));
    check_nothing_live();
    return fired;
}

/* `fresh`: each opening makes its duplicate anew. */
static void every_call(wi_fault_kind kind, int victim, bool fresh)
{
    bool fired = true;
    int failures = 0;

    for (long nth = 1; fired; nth++) {
        MPI_Comm user = MPI_COMM_WORLD;

        T_CHECK(nth < MOST_CALLS);
        if (fresh)
            MPI_Comm_dup(MPI_COMM_WORLD, &user);
        fired = attempt(user, kind, victim, nth, &failures);
        if (fresh)
            MPI_Comm_free(&user);
    }
    T_CHECK(kind == WI_FAULT_AGREE || failures > 3);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int victim = 0; victim < ranks; victim++)
        for (int fresh = 0; fresh < 2; fresh++) {
            every_call(WI_FAULT_MEM, victim, fresh);
            every_call(WI_FAULT_SYS, victim, fresh);
            every_call(WI_FAULT_AGREE, victim, fresh);
        }
    T_EQ_INT(1, wi_dup_count());
    MPI_Finalize();
    return 0;
}
