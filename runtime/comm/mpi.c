/* SPDX-License-Identifier: MIT */
/* MPI calls with a deadline, and what MPI allows this thread to do. */
#include <sched.h>

#include "base/error.h"
#include "comm/private.h"

/* Looks before the first yield, which a rank that is there answers within; how
 * long to yield before the first nap, by the clock and not by count: many ranks
 * on few CPUs would all burn theirs; then naps that grow, for their number is
 * what so many waiting ranks cost. */
#define LOOKS 200
#define YIELD_NS 300000
#define NAP_NS 200000
#define NAPS_EACH 16
#define NAP_MOST 3 /* doublings: 1.6 ms */

bool wi_mpi_alive(void)
{
    int on = 0, off = 0;

    MPI_Initialized(&on);
    if (on)
        MPI_Finalized(&off);
    return on && !off;
}

bool wi_mpi_thread_allowed(int thread_level)
{
    int is_main = 0;

    if (thread_level >= MPI_THREAD_SERIALIZED)
        return true;
    return MPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main;
}

wharf_status wi_mpi_fail(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, class = code;

    MPI_Error_class(code, &class);
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        text[0] = '\0';
    return wi_fail_native(WHARF_EMPI, WHARF_SOURCE_MPI, class, NULL,
                          "%s failed: %.150s", call, text);
}

wharf_status wi_mpi_test(MPI_Request *request, const char *call)
{
    int done = 0;
    int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);

    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, call);
    return done ? WHARF_OK : WHARF_ENOTREADY;
}

static void mpi_nap(unsigned doublings)
{
    wi_sleep_ns(NAP_NS << (doublings < NAP_MOST ? doublings : NAP_MOST));
}

wharf_status wi_mpi_wait(MPI_Request *request, const char *call,
                         const wi_comm *watched, wi_deadline deadline)
{
    int64_t yields_end = 0, next_watch = 0;
    unsigned naps = 0;

    for (unsigned looks = 0;; looks++) {
        wharf_status status = wi_mpi_test(request, call);
        int64_t now;

        if (status != WHARF_ENOTREADY)
            return status;
        if (looks < LOOKS)
            continue;
        now = wi_now_ns();
        if (watched && now >= next_watch) {
            next_watch = now + WI_WATCH_NS;
            status = wi_comm_check_alive(watched, -1);
            if (status != WHARF_OK)
                return status;
        }
        /* One more look after the deadline was seen to have passed is not
         * needed: whoever completed meanwhile finds us gone and times out. */
        if (wi_deadline_run_out(deadline))
            return wi_fail(WHARF_ETIMEDOUT,
                           "check that every rank of the communicator makes "
                           "the same calls",
                           "a rank of the communicator did not come to %s "
                           "before the deadline",
                           call);
        if (!yields_end)
            yields_end = now + YIELD_NS;
        if (naps == 0 && now < yields_end)
            sched_yield();
        else
            mpi_nap(naps++ / NAPS_EACH);
    }
}

wharf_status wi_mpi_usable(MPI_Comm user)
{
    int level = MPI_THREAD_SINGLE, inter = 0;
    int code;

    if (!wi_mpi_alive())
        return wi_fail(WHARF_ESTATE, "call between MPI_Init and MPI_Finalize",
                       "MPI is not initialised or already finalised");
    if (user == MPI_COMM_NULL)
        return wi_fail(WHARF_EARG, "pass one that the calling rank belongs to",
                       "the communicator is MPI_COMM_NULL");
    MPI_Query_thread(&level);
    if (!wi_mpi_thread_allowed(level))
        return wi_fail(WHARF_ESTATE,
                       "call from the main thread, or initialise MPI with "
                       "MPI_THREAD_MULTIPLE",
                       "MPI may not be called from this thread");
    code = MPI_Comm_test_inter(user, &inter);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Comm_test_inter");
    if (inter)
        return wi_fail(WHARF_EARG, "merge it with MPI_Intercomm_merge",
                       "the communicator is an intercommunicator");
    return WHARF_OK;
}

void wi_mpi_poke(const wi_comm *comm)
{
    int flag = 0;

    /* Any call that progresses will do. This one takes no message, whatever
     * the user sends over the communicator. */
    if (wi_mpi_alive())
        MPI_Iprobe(MPI_ANY_SOURCE, 0, comm->mpi, &flag, MPI_STATUS_IGNORE);
}
