/* SPDX-License-Identifier: MIT */
/* Under MPI_THREAD_FUNNELED only the main thread may open a node; a later
 * collective from another thread works and leaves MPI alone. */
#include <mpi.h>
#include <pthread.h>

#include "base/error.h"
#include "comm/private.h"
#include "t_test.h"

static wi_comm *comm;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

static void *open_here(void *argument)
{
    wi_comm *other = NULL;

    (void)argument;
    T_STATUS(WHARF_ESTATE, wi_comm_open(MPI_COMM_WORLD, 0, soon(), &other));
    T_CONTAINS("may not be called from this thread", wi_error_record()->cause);
    T_CONTAINS("MPI_THREAD_MULTIPLE", wi_error_record()->remedy);
    return NULL;
}

static void *agree_here(void *argument)
{
    (void)argument;
    for (int k = 0; k < 100; k++)
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    return NULL;
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;

    T_EQ_INT(0, pthread_create(&thread, NULL, body, NULL));
    T_EQ_INT(0, pthread_join(thread, NULL));
}

int main(int argc, char **argv)
{
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    if (level > MPI_THREAD_FUNNELED)
        T_SKIP("this MPI gives more than MPI_THREAD_FUNNELED");
    in_thread(open_here);
    T_OK(wi_comm_open(MPI_COMM_WORLD, 0, soon(), &comm));
    in_thread(agree_here);
    T_OK(wi_comm_close(&comm, soon()));
    MPI_Finalize();
    return 0;
}
