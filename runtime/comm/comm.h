/* SPDX-License-Identifier: MIT */
/*
 * The ranks of a node: who they are, how they agree, how descriptors travel.
 * The only MPI calls of Wharf are behind this header.
 *
 * Opening uses MPI (duplicate, split, broadcast of a token), each step with a
 * deadline. From then on ranks agree through the control block, a memfd that
 * all map: unlike an MPI collective, such an agreement can be given up when a
 * rank dies or stays away, and is decided in one atomic step, so that no two
 * ranks leave it with different answers. While it waits it lets MPI progress.
 *
 * Files: comm.c (open, close), mpi.c (MPI with deadlines), dup.c (the user's
 * communicator's duplicate), split.c (who shares memory), hello.c (connecting),
 * control.c (the block), agree.c (rounds), alive.c (deaths, waiting), channel.c
 * and exchange.c (descriptors), registry.c (MPI_Finalize), fortran.c (handles).
 * What reaches beyond the node is behind remote.h.
 *
 * Threads: one collective at a time per comm, under the caller's lock; the
 * local calls from any thread.
 */
#ifndef WI_COMM_COMM_H
#define WI_COMM_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/identity.h"
#include "wharf/status.h"

typedef struct wi_comm wi_comm;

/*
 * Collective on user. Finds the ranks that share memory with the caller and
 * connects them. The control block gets `shared_bytes` zeroed bytes for the
 * caller's own use. WHARF_ESTATE when MPI is not usable from this thread,
 * WHARF_ELIMIT beyond WHARF_MAX_RANKS, WHARF_EPROTOCOL between versions.
 */
wharf_status wi_comm_open(MPI_Comm user, size_t shared_bytes,
                          wi_deadline deadline, wi_comm **comm);

/* Collective when all ranks are there; never waits past the deadline, always
 * cleans up. *comm becomes NULL. After MPI_Finalize it is local. If not all
 * ranks came, the node's MPI communicator cannot be freed and stays counted. */
wharf_status wi_comm_close(wi_comm **comm, wi_deadline deadline);

/* The same for a rank that knows that not all will come: waits for nobody. */
void wi_comm_leave(wi_comm **comm);

/* Fortran's integer handles: MPI_COMM_NULL for one that names nothing. */
MPI_Comm wi_comm_of_fortran(int comm);
int wi_comm_to_fortran(MPI_Comm comm);

int wi_comm_rank(const wi_comm *comm);
int wi_comm_size(const wi_comm *comm);
MPI_Comm wi_comm_mpi(const wi_comm *comm);
const wi_identity *wi_comm_identity(const wi_comm *comm, int rank);
/* How the ranks were found, for wharf-info; "" when nothing is remarkable. */
const char *wi_comm_remark(const wi_comm *comm);

/* The caller's bytes of the control block, the same memory on all ranks. */
void *wi_comm_shared(const wi_comm *comm);

/*
 * Collective: the ranks' records, `bytes` each, in rank order. All ranks get
 * the same status and record: WHARF_OK; WHARF_ETIMEDOUT or WHARF_EPEER, where
 * the record's rank is the one that is missing; WHARF_EMISMATCH when the ranks
 * are in different collectives; or what a rank brought (faults of tests). After
 * WHARF_ETIMEDOUT the next collective starts afresh once the late rank has seen
 * it; after WHARF_EPEER every later collective answers WHARF_EPEER at once. A
 * rank that closed the node counts as missing for good, too.
 */
wharf_status wi_comm_allgather(wi_comm *comm, const void *mine, size_t bytes,
                               void *all, wi_deadline deadline);

/* Collective: root's bytes to everybody. */
wharf_status wi_comm_bcast(wi_comm *comm, int root, void *data, size_t bytes,
                           wi_deadline deadline);

/*
 * Collective: one status for all. Every rank brings its own; if any failed,
 * every rank returns the status of the lowest such rank, and holds that rank's
 * error record.
 */
wharf_status wi_comm_agree(wi_comm *comm, wharf_status mine,
                           wi_deadline deadline);

/* For a checker that reads one file at a time. */
#ifdef __clang_analyzer__
#define wi_comm_agree(comm, mine, deadline)                                    \
    (wi_comm_agree(comm, mine, deadline) || (mine) ? WHARF_EOS : WHARF_OK)
#endif

/* Passes over the collectives that the other ranks gave up on because this one
 * did not come, so that the next one is met where they are now. Local. */
void wi_comm_skip_missed(wi_comm *comm);

/* WHARF_EPEER (record filled) if the rank, or any rank if -1, is dead; closing
 * the node is not dying. Local, a few system calls a rank. */
wharf_status wi_comm_check_alive(const wi_comm *comm, int rank);

/* Has the rank died, or closed the node? Without a record. */
bool wi_comm_gone(const wi_comm *comm, int rank);

/*
 * Holds until done(argument) is true. `word` is the shared word that changes
 * with it (whoever changes it calls wi_futex_wake). Watches `rank`, or every
 * rank if -1. WHARF_ETIMEDOUT (record filled), WHARF_EPEER (also when `rank`
 * has closed the node), or WHARF_OK. Local, any thread; calls no MPI.
 */
wharf_status wi_comm_wait(wi_comm *comm, int rank, const uint32_t *word,
                          bool (*done)(void *argument), void *argument,
                          wi_deadline deadline);

/* Most descriptors and bytes of one parcel. */
#define WI_PARCEL_FDS 64
#define WI_PARCEL_BYTES 640

/* What one rank sends to all others: bytes, and descriptors (which stay the
 * sender's own). */
typedef struct wi_parcel {
    unsigned char bytes[WI_PARCEL_BYTES];
    int count; /* of fds */
    int fds[WI_PARCEL_FDS];
} wi_parcel;

/* Closes its descriptors. */
void wi_parcel_drop(const wi_parcel *parcel);

/* Called for each parcel of another rank, in order of arrival; owns fds. */
typedef void (*wi_parcel_taker)(void *argument, int index,
                                const wi_parcel *parcel);

/*
 * Collective: parcel i of `count` goes from rank senders[i] to every other
 * rank. All ranks pass the same senders. `mine[i]` is read where senders[i] is
 * the caller, else ignored. Every rank takes part even if it failed before
 * (then it sends parcels without descriptors and says so in their bytes). The
 * status is this rank's own: follow with wi_comm_agree. A parcel that a rank
 * could not send, relay or receive is not taken elsewhere, and that rank alone
 * has the failing status: nothing is complete before the agreement.
 */
wharf_status wi_comm_exchange(wi_comm *comm, int count, const int *senders,
                              const wi_parcel *mine, wi_parcel_taker take,
                              void *argument, wi_deadline deadline);

#endif
