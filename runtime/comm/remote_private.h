/* SPDX-License-Identifier: MIT */
/* What the remote*.c files share: the bodies of a group and of its messages. */
#ifndef WI_COMM_REMOTE_PRIVATE_H
#define WI_COMM_REMOTE_PRIVATE_H

#include <pthread.h>

#include "comm/remote.h"
#include "wharf/exchange.h"

struct wi_group {
    wi_comm *node; /* of the caller */
    MPI_Comm user;
    MPI_Comm mpi; /* the duplicate, which belongs to the user's communicator */
    int rank, size;
    int *node_ranks; /* size of them */
    bool wider;      /* than the node */
    bool stuck;      /* a request is pending for ever: nothing that MPI may
                        still write to is freed */
    bool over;       /* its duplicate went again, on all ranks: `record` is
                        why, and the answer to every later call */
    MPI_Request request;
    int numbers[2];
    wharf_error record;
};

/* One direction. Where it stands: round `round`, of which messages 0 ..
 * next - 1 are started and 0 .. prefix - 1 are complete. */
typedef struct lane {
    bool sends;
    int count[WHARF_MAX_EXCHANGE_SETS];
    MPI_Request *request[WHARF_MAX_EXCHANGE_SETS];
    uint8_t *done; /* of the round's messages */
    int *which;    /* scratch */
    const uint32_t *gate;
    uint32_t *answer;
    uint64_t round;
    uint32_t base; /* messages of all rounds before */
    int next, prefix;
} lane;

struct wi_remote {
    wi_group *group;
    int sets, tag;
    int level;            /* of threads, that MPI provides */
    pthread_mutex_t lock; /* guards what follows, and all calls of MPI */
    pthread_cond_t wake;
    lane sends, receives;
    uint64_t issued;     /* rounds that were started */
    wharf_status status; /* WHARF_OK, or what broke it */
    wharf_error record;
    bool threaded, stop;
    int waiters; /* calls that drive it themselves: the thread keeps away */
    pthread_t thread;
    wi_remote *next; /* list of those with a thread */
};

/* As far as it goes without waiting; under the lock. */
wharf_status wi_remote_step(wi_remote *remote);
/* Nothing to do until the next start. */
bool wi_remote_idle(const wi_remote *remote);

/* Gives it a thread if MPI allows one. */
void wi_remote_employ(wi_remote *remote);
void wi_remote_dismiss(wi_remote *remote);

#endif
