/* SPDX-License-Identifier: MIT */
/* MPI calls with a deadline, and what MPI allows this thread to do. */
#include <sched.h>
#include <time.h>

#include "base/error.h"
#include "comm/private.h"

/* Looks before the first yield, and yields before the first nap. A rank that
 * is there answers within the first; naps only spare the CPU while one is
 * late. */
#define LOOKS 200
#define YIELDS 2000
#define NAP_NS 200000

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

wharf_status wi_mpi_wait(MPI_Request *request, const char *call,
                         wi_deadline deadline)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    for (unsigned looks = 0;; looks++) {
        wharf_status status = wi_mpi_test(request, call);

        if (status != WHARF_ENOTREADY)
            return status;
        if (looks < LOOKS)
            continue;
        /* One more look after the deadline was seen to have passed is not
         * needed: whoever completed meanwhile finds us gone and times out. */
        if (wi_deadline_passed(deadline))
            return wi_fail(WHARF_ETIMEDOUT,
                           "check that every rank of the communicator makes "
                           "the same calls",
                           "a rank did not come to %s before the deadline",
                           call);
        if (looks < YIELDS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
}

void wi_mpi_poke(const wi_comm *comm)
{
    int flag = 0;

    /* Any call that progresses will do. This one takes no message, whatever
     * the user sends over the communicator. */
    if (wi_mpi_alive())
        MPI_Iprobe(MPI_ANY_SOURCE, 0, comm->mpi, &flag, MPI_STATUS_IGNORE);
}
