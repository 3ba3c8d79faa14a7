/* SPDX-License-Identifier: MIT */
/*
 * Beyond one node: any communicator of the user, and messages over it that are
 * prepared once and sent round after round.
 *
 * A group is a user's communicator with its cached duplicate. Its ranks may sit
 * on several nodes, so they agree by MPI's non-blocking collectives, tested
 * against the deadline and with a watch on the ranks of the caller's own node.
 *
 * Files: remote_group.c (agreement), remote_shape.c (Cartesian and graph
 * topologies), remote.c (messages), remote_thread.c (who drives them),
 * aware_ask.c or aware_no.c (does MPI take device pointers).
 */
#ifndef WI_COMM_REMOTE_H
#define WI_COMM_REMOTE_H

#include "comm/comm.h"

/* ---- Groups -------------------------------------------------------------- */

typedef struct wi_group wi_group;

/*
 * Local: looks at the communicator, which is not MPI_COMM_NULL, talks to
 * nobody. `node` stays the caller's. WHARF_ESTATE (MPI not usable from this
 * thread), WHARF_EARG (an intercommunicator).
 */
wharf_status wi_group_new(MPI_Comm user, wi_comm *node, wi_group **group);

/*
 * Collective on the group: duplicates the user's communicator, unless that was
 * done before. Every rank leaves with the same status, which is the lowest
 * failing rank's of those that were brought as `mine`; a deadline or a death
 * may be seen by some ranks only.
 */
wharf_status wi_group_open(wi_group *group, wharf_status mine,
                           wi_deadline deadline);

/*
 * Local, needs no memory: a group for wi_group_open and wi_group_agree alone,
 * by which a rank that got no other one tells the others so. One in a process
 * at a time; NULL when it is in use, or where MPI is not usable.
 */
wi_group *wi_group_spare(MPI_Comm user, wi_comm *node);

/* Local. NULL is ignored. */
void wi_group_close(wi_group *group);

int wi_group_rank(const wi_group *group);
int wi_group_size(const wi_group *group);
/* Is a call pending that a rank never came to? Then nothing that was passed to
 * one may be freed. */
bool wi_group_stuck(const wi_group *group);
/* Are some of its ranks on other nodes? */
bool wi_group_wider(const wi_group *group);
/* Node rank of a rank of the group, -1: on another node. */
int wi_group_node_rank(const wi_group *group, int rank);
/* What a rank is called in messages: "rank 3 (node rank 1)". */
const char *wi_group_rank_text(const wi_group *group, int rank, char text[64]);

/* Collective on the group, as the calls of comm.h of the same names. */
wharf_status wi_group_agree(wi_group *group, wharf_status mine,
                            wi_deadline deadline);
wharf_status wi_group_allgather(wi_group *group, const void *mine, size_t bytes,
                                void *all, wi_deadline deadline);

/*
 * Collective on the group: bytes_to[r] bytes of `data`, where they lie in rank
 * order, go to rank r. *got (of wi_calloc) is what came, in rank order, and
 * bytes_from[r] how much from each. Every rank takes part even if it has
 * nothing; the status is this rank's own: follow with wi_group_agree.
 */
wharf_status wi_group_alltoall(wi_group *group, const int *bytes_to,
                               const void *data, int *bytes_from, void **got,
                               wi_deadline deadline);

/* ---- Topologies ---------------------------------------------------------- */

/* Dimensions of the communicator's Cartesian topology; WHARF_EARG if it has
 * none, or more than `most`. Local. */
wharf_status wi_cart_dims(MPI_Comm user, int most, int *dims);

/* Rank of the neighbour in a direction of -1, 0, 1 a dimension, wrapped where
 * the dimension is periodic; MPI_PROC_NULL beyond an edge. Local. */
wharf_status wi_cart_neighbour(MPI_Comm user, int dims, const int *direction,
                               int *rank);

/* Neighbours of a distributed graph; *sources and *destinations (of wi_calloc,
 * one block each) are in MPI's order. WHARF_EARG without such a topology.
 * Local. */
typedef struct wi_graph {
    int in, out;
    int *sources, *destinations;
} wi_graph;
wharf_status wi_graph_read(MPI_Comm user, wi_graph *graph);
void wi_graph_free(wi_graph *graph);

/* ---- Messages ------------------------------------------------------------ */

/* One message: a box of the caller's memory. Messages of one direction between
 * two ranks are met in the order of the lists. */
typedef struct wi_remote_box {
    int peer; /* in the group */
    void *address;
    uint64_t width, rows, planes; /* at most WI_REMOTE_MOST bytes together */
    uint64_t pitch, plane;
} wi_remote_box;

/* Most bytes of one message. */
#define WI_REMOTE_MOST (UINT64_C(256) << 20)

typedef struct wi_remote_list {
    const wi_remote_box *box;
    int count;
} wi_remote_list;

/*
 * What is sent and received, a list for each set; round r uses set r % sets.
 * Messages are counted through all rounds, modulo 2^32.
 *
 * Words, which streams write and which may lie in page-locked memory: `filled`,
 * how many messages may be sent, and `begun`, how many rounds may receive.
 * NULL: whatever was started.
 */
typedef struct wi_remote_plan {
    int sets;
    const wi_remote_list *sends, *receives; /* one a set */
    const uint32_t *filled, *begun;
    uint32_t *sent, *arrived; /* the answers: how many are complete, in order */
} wi_remote_plan;

typedef struct wi_remote wi_remote;

/* A number for a plan of the group that its ranks can agree on: the highest of
 * what they propose, which is then taken. */
int64_t wi_remote_propose(void);
void wi_remote_take(int64_t number);

/*
 * Local: prepares MPI's persistent requests. With MPI_THREAD_MULTIPLE a thread
 * drives them. The group, the boxes' memory and the words must outlive it, the
 * plan need not.
 */
wharf_status wi_remote_new(wi_group *group, const wi_remote_plan *plan,
                           int64_t number, wi_remote **remote);

/* False: MPI may still use the boxes' memory, which must never be freed. NULL
 * is ignored. */
bool wi_remote_free(wi_remote *remote);

/* Does a thread drive it? */
bool wi_remote_threaded(const wi_remote *remote);

/* A round is started. Returns at once. */
wharf_status wi_remote_start(wi_remote *remote);

/* One look at all that is under way; *busy: something is. WHARF_EMPI: the plan
 * is of no use any more, and its answers pretend that all is complete. */
wharf_status wi_remote_move(wi_remote *remote, bool *busy);

/* Holds until every round that was started is complete, or WHARF_ETIMEDOUT.
 * `node` is watched for dead ranks. */
wharf_status wi_remote_wait(wi_remote *remote, wi_deadline deadline);

/* Does MPI take device pointers? `reason` says how that is known. */
bool wi_remote_cuda_aware(char reason[96]);

/* Stops all threads: MPI ends. */
void wi_remote_finalize(void);

#endif
