/* SPDX-License-Identifier: MIT */
/*
 * Ranks without a launcher: forked processes joined by a communicator that was
 * built by hand, so that a test can kill and stop them. MPI is never
 * initialised; everything after wi_comm_open works without it.
 */
#ifndef T_RANKS_H
#define T_RANKS_H

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/sys.h"
#include "comm/private.h"
#include "t_test.h"

#define T_RANKS_MOST 8
/* Ends a rank that hangs; decides nothing else. */
#define T_RANKS_GUARD_S 50

/* Memory that the processes of one run share. */
typedef struct t_ranks {
    pthread_barrier_t start;
    wi_identity identities[T_RANKS_MOST];
    pid_t pids[T_RANKS_MOST];
    uint32_t word; /* for the test's own use */
    uint64_t numbers[T_RANKS_MOST];
    wharf_error records[T_RANKS_MOST];
} t_ranks;

typedef void (*t_ranks_body)(wi_comm *comm, t_ranks *ranks);

static inline t_ranks *t_ranks_memory(int size)
{
    pthread_barrierattr_t shared;
    t_ranks *ranks = mmap(NULL, sizeof *ranks, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    T_CHECK(ranks != MAP_FAILED);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&ranks->start, &shared, (unsigned)size);
    return ranks;
}

/* The communicator of one process. links[r]: both ends of the connection of
 * rank 0 and rank r; the ends of others are closed here, else nobody would see
 * the end of a dead one's. */
static inline wi_comm *t_ranks_build(t_ranks *ranks, int rank, int size,
                                     int links[][2], int control_fd)
{
    wi_comm *comm;

    T_CHECK(WI_NEW(comm) != NULL);
    comm->mpi = MPI_COMM_NULL;
    comm->rank = rank;
    comm->size = size;
    comm->lock_fd = -1;
    comm->identities = wi_calloc((size_t)size, sizeof *comm->identities);
    wi_identity_self(&ranks->identities[rank]);
    ranks->pids[rank] = getpid();
    pthread_barrier_wait(&ranks->start);
    memcpy(comm->identities, ranks->identities,
           (size_t)size * sizeof *comm->identities);
    T_OK(wi_channel_new(comm));
    for (int r = 1; r < size; r++) {
        if (rank == 0)
            comm->channel.sockets[r] = links[r][0];
        else
            close(links[r][0]);
        if (rank == r)
            comm->channel.sockets[0] = links[r][1];
        else
            close(links[r][1]);
    }
    T_OK(wi_control_layout(size, 4096, &comm->control_bytes,
                           &comm->shared_offset));
    T_OK(wi_control_join(comm, control_fd));
    pthread_barrier_wait(&ranks->start);
    return comm;
}

static inline void t_ranks_child(t_ranks *ranks, int rank, int size,
                                 int links[][2], int control_fd,
                                 t_ranks_body body)
{
    char name[12];
    wi_comm *comm;

    /* What t_test.h prints as the rank. */
    snprintf(name, sizeof name, "%d", rank);
    setenv("PMI_RANK", name, 1);
    alarm(T_RANKS_GUARD_S);
    comm = t_ranks_build(ranks, rank, size, links, control_fd);
    body(comm, ranks);
    if (comm->control)
        T_OK(wi_comm_close(&comm, wi_deadline_in_ms(10000)));
    _exit(0);
}

/*
 * Runs body in `size` processes; those in the bit mask `killed` must die of
 * SIGKILL, the others must return.
 */
static inline void t_ranks_run(int size, unsigned killed, t_ranks_body body)
{
    t_ranks *ranks = t_ranks_memory(size);
    int links[T_RANKS_MOST][2];
    wi_comm shape = {.size = size};
    pid_t pids[T_RANKS_MOST];
    int control_fd = -1, state;

    T_OK(wi_control_layout(size, 4096, &shape.control_bytes,
                           &shape.shared_offset));
    T_OK(wi_control_create(&shape, &control_fd));
    for (int r = 1; r < size; r++)
        T_EQ_INT(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0,
                               links[r]));
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        T_CHECK(pids[r] >= 0);
        if (pids[r] == 0)
            t_ranks_child(ranks, r, size, links, control_fd, body);
    }
    for (int r = 1; r < size; r++)
        close(links[r][0]), close(links[r][1]);
    wi_sys_close(&control_fd);
    for (int r = 0; r < size; r++) {
        T_EQ_INT(pids[r], waitpid(pids[r], &state, 0));
        if (killed >> r & 1)
            T_CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
        else if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
            T_FAIL("rank %d ended with %#x", r, state);
    }
    munmap(ranks, sizeof *ranks);
}

#endif
