/* SPDX-License-Identifier: MIT */
/* The open communicators of this process, so that MPI_Finalize with one still
 * open does not leave the other ranks waiting. */
#include <pthread.h>

#include "comm/private.h"
#include "comm/remote.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wi_comm *first;

void wi_registry_add(wi_comm *comm)
{
    pthread_mutex_lock(&lock);
    comm->next = first;
    first = comm;
    pthread_mutex_unlock(&lock);
}

void wi_registry_remove(wi_comm *comm)
{
    wi_comm **link = &first;

    pthread_mutex_lock(&lock);
    while (*link && *link != comm)
        link = &(*link)->next;
    if (*link)
        *link = comm->next;
    pthread_mutex_unlock(&lock);
}

void wi_registry_finalize(void)
{
    wi_remote_finalize();
    pthread_mutex_lock(&lock);
    for (wi_comm *comm = first; comm; comm = comm->next)
        wi_control_mark(comm, WI_FINALIZED);
    pthread_mutex_unlock(&lock);
}
