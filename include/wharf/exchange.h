/* SPDX-License-Identifier: MIT */
/*
 * Neighbour exchange: a persistent plan by which every rank of a communicator
 * sends boxes of its buffers to its neighbours, round after round. Neighbours
 * on the same node are written to directly, without the host; those on other
 * nodes are reached by MPI's persistent operations. The calls are the same.
 *
 *   wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
 *   wharf_exchange_block block = WHARF_EXCHANGE_BLOCK_INIT;
 *   options.sets = 2;                   two arrays, used in turn
 *   block.cell = sizeof(float);
 *   block.extent[0] = rows;             along dimension 0 of the communicator
 *   block.extent[1] = columns;          the last one is contiguous in memory
 *   block.ghost[0] = block.ghost[1] = 1;
 *   block.buffer[0] = a;
 *   block.buffer[1] = b;
 *   wharf_exchange_create_cart(node, cart, &block, &options, &exchange);
 *   for (...) {
 *       kernel<<<..., stream>>>(...);           writes the border of set
 *       wharf_exchange_start(exchange, stream); round r exchanges set r % 2
 *       kernel<<<..., stream>>>(...);           what needs no neighbour
 *       wharf_exchange_finish(exchange, stream);
 *   }
 *
 * Rounds. A start puts the send boxes of round r's set, r % sets, into the
 * neighbours' receive boxes of that set; the finish after it holds the stream
 * until all that the neighbours put in their round r has come. Every rank of
 * the communicator makes the same rounds in the same order.
 *
 * What belongs to whom, in the order of the stream (on the host backend: of
 * the program):
 *   - send boxes of round r: not written between start r and finish r;
 *   - receive boxes of round r: the caller's between finish r and start r + 1,
 *     the neighbours' at all other times. Before the first start they are the
 *     caller's in every set;
 *   - everything else is the caller's at all times.
 *
 * Why no put comes too early. Let A put into a box of B in round r. With sets
 * of 2 or more, the box was last received into in round r - sets, and B's
 * reads of that are ordered before B's start r - sets + 1. If B sends to A as
 * well, A's finish r - 1 held A's stream until B's put of round r - 1 had come,
 * so B's stream had passed start r - 1; and r - 1 >= r - sets + 1. So when
 * A's start r runs, the reads are over: no handshake is needed. With one set,
 * or where B sends nothing to A, B's start tells A that it is ready, and A's
 * put waits for that inside the same launch. This is decided pair by pair at
 * creation, and wharf_exchange_info_get says which. In the very first round,
 * which nothing came before, every put waits for its receiver's start.
 *
 * Graphs. On GPUs start, finish and run may be captured if every neighbour is
 * on the same node, pairs that share a GPU without MPS only with
 * options.capturable. A captured round has its set for good: capture a multiple
 * of `sets` rounds, on every rank alike, and do not capture while a started
 * round is not finished.
 *
 * Early launches. A kernel of the program that is launched with programmatic
 * stream serialization may come before a finish is over, as before any kernel:
 * it has to wait (cudaGridDependencySynchronize) before it looks at data.
 *
 * Other nodes. MPI is given device pointers when it says that it is
 * CUDA-aware; otherwise boxes go through page-locked memory in pieces
 * (WHARF_EXCHANGE_PIECE), each sent as soon as it is there. With
 * MPI_THREAD_MULTIPLE a thread of the plan drives MPI between start and
 * finish; under lower levels MPI moves inside finish, which then holds the
 * calling thread (wharf_exchange_plan_get says which).
 */
#ifndef WHARF_EXCHANGE_H
#define WHARF_EXCHANGE_H

#include <mpi.h>

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/notify.h"
#include "wharf/status.h"

typedef struct wharf_exchange wharf_exchange;

/* Most sets of boxes of one plan. */
#define WHARF_MAX_EXCHANGE_SETS 8

/* Most transfers of one rank in one plan. */
#define WHARF_MAX_EXCHANGE_TRANSFERS 16384

/* Most dimensions of a box or of a block. */
#define WHARF_EXCHANGE_DIMS 3

/*
 * A box of bytes in the calling rank's own segment of a buffer. It holds
 * size[0] * size[1] * size[2] bytes; a size of 0 anywhere makes it empty, and
 * then nothing else of it is looked at.
 */
typedef struct wharf_exchange_box {
    wharf_buffer *buffer;
    size_t offset;                    /* of its first byte in the segment */
    size_t size[WHARF_EXCHANGE_DIMS]; /* bytes of a row, rows, planes */
    size_t pitch[2];                  /* bytes from row to row, from plane to
                                         plane; 0: without gaps. Looked at only
                                         where there is more than one */
} wharf_exchange_box;

/*
 * One neighbour: what goes to it and what comes from it. A send of A to B with
 * send_id s fills the receive of B from A with receive_id s; the two must have
 * the same bytes in every set, in shapes that can be cut alike (equal shapes,
 * or one of them without gaps). Empty boxes need no counterpart. Several
 * transfers between one pair have different ids.
 */
typedef struct wharf_exchange_transfer {
    int peer;       /* rank in the communicator, the caller's own too;
                       MPI_PROC_NULL: the transfer does nothing */
    int send_id;    /* 0 or more */
    int receive_id; /* 0 or more */
    const wharf_exchange_box *send;    /* one a set, or NULL: nothing */
    const wharf_exchange_box *receive; /* one a set, or NULL: nothing */
} wharf_exchange_transfer;

/** Options of a creation. Start from WHARF_EXCHANGE_OPTIONS_INIT. They must
 * agree on all ranks of the communicator. */
typedef struct wharf_exchange_options {
    size_t struct_size;
    int sets;                /* 1 .. WHARF_MAX_EXCHANGE_SETS */
    wharf_switch ready;      /* on: every put waits for its receiver's start,
                                also where that is not needed */
    wharf_switch capturable; /* on: also pairs that signal by memory operations
                                may be captured, at some cost */
} wharf_exchange_options;

#define WHARF_EXCHANGE_OPTIONS_INIT                                            \
    {                                                                          \
        sizeof(wharf_exchange_options), 1, WHARF_SWITCH_UNSET,                 \
            WHARF_SWITCH_UNSET                                                 \
    }

/**
 * The calling rank's block of a distributed array, for a communicator with a
 * Cartesian topology of 1 to 3 dimensions. Start from
 * WHARF_EXCHANGE_BLOCK_INIT. Dimensions are in the communicator's order, and in
 * C's: the last one is contiguous in memory. A block of extent n with ghost
 * width g has n + 2 * g cells along a dimension: ghosts, own cells, ghosts.
 */
typedef struct wharf_exchange_block {
    size_t struct_size;
    size_t cell;                        /* bytes of one cell */
    size_t extent[WHARF_EXCHANGE_DIMS]; /* own cells; may differ by rank as long
                                           as faces fit */
    size_t ghost[WHARF_EXCHANGE_DIMS];  /* width on either side, at most the
                                           extent; 0: none, not in all
                                           dimensions */
    size_t pitch[2];                    /* bytes from row to row (last dimension
                                           but one), from plane to plane; 0:
                                           without gaps */
    int diagonals;                      /* 0: faces only. 1: edges and corners
                                           too, so 8 neighbours in two
                                           dimensions, 26 in three */
    wharf_buffer *buffer[WHARF_MAX_EXCHANGE_SETS]; /* of each set */
    size_t offset[WHARF_MAX_EXCHANGE_SETS]; /* of the first ghost cell in the
                                               caller's segment, bytes */
} wharf_exchange_block;

#define WHARF_EXCHANGE_BLOCK_INIT                                              \
    {                                                                          \
        sizeof(wharf_exchange_block), 0, {0}, {0}, {0}, 0, {0},                \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* How the bytes of a transfer travel. */
typedef enum wharf_exchange_way {
    WHARF_EXCHANGE_NOTHING = 0,   /* it sends nothing */
    WHARF_EXCHANGE_LOCAL = 1,     /* a copy inside the rank's own memory */
    WHARF_EXCHANGE_KERNEL = 2,    /* a kernel puts and signals */
    WHARF_EXCHANGE_ENGINE = 3,    /* copy engine, then a signal */
    WHARF_EXCHANGE_HOST = 4,      /* the CPU copies; host backend */
    WHARF_EXCHANGE_MPI = 5,       /* MPI, from the box and into the box */
    WHARF_EXCHANGE_MPI_STAGED = 6 /* MPI, through page-locked memory */
} wharf_exchange_way;

/* One transfer of the calling rank, as created. Start from
 * WHARF_EXCHANGE_INFO_INIT. */
typedef struct wharf_exchange_info {
    size_t struct_size;
    int peer;      /* in the communicator; MPI_PROC_NULL: none */
    int node_rank; /* of the peer, -1: on another node */
    int send_id;
    int receive_id;
    uint64_t send_bytes[WHARF_MAX_EXCHANGE_SETS];    /* of each set */
    uint64_t receive_bytes[WHARF_MAX_EXCHANGE_SETS]; /* of each set */
    wharf_path path;        /* to the peer; means nothing with node_rank -1 */
    wharf_exchange_way way; /* of what is sent */
    wharf_mechanism mechanism; /* of the signals to the peer; AUTO: none */
    int ready;                 /* 1: the put waits for the peer's start */
    char reason[WHARF_MAX_REASON + 1]; /* why this way, and why ready or not */
} wharf_exchange_info;

#define WHARF_EXCHANGE_INFO_INIT                                               \
    {                                                                          \
        sizeof(wharf_exchange_info), 0, 0, 0, 0, {0}, {0},                     \
            WHARF_PATH_SAME_PROCESS, WHARF_EXCHANGE_NOTHING,                   \
            WHARF_MECHANISM_AUTO, 0,                                           \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* Who drives MPI. */
typedef enum wharf_exchange_progress {
    WHARF_EXCHANGE_PROGRESS_NONE = 0,   /* no neighbour on another node */
    WHARF_EXCHANGE_PROGRESS_THREAD = 1, /* a thread of the plan */
    WHARF_EXCHANGE_PROGRESS_FINISH = 2  /* finish, on the calling thread */
} wharf_exchange_progress;

/* The whole plan on the calling rank. Start from WHARF_EXCHANGE_PLAN_INIT. */
typedef struct wharf_exchange_plan {
    size_t struct_size;
    int transfers; /* as created, those that do nothing included */
    int sets;
    int next_set;     /* that the next start will use */
    int local_peers;  /* ranks of this node that are sent to or received from,
                         the caller aside */
    int remote_peers; /* the same on other nodes */
    int ready_pairs;  /* peers whose start a put of the caller waits for */
    int capturable;   /* 1: its calls may be captured */
    int cuda_aware;   /* 1: MPI is given device pointers */
    uint64_t staging_bytes; /* page-locked memory in use */
    wharf_exchange_progress progress;
    char reason[WHARF_MAX_REASON + 1]; /* why this progress */
} wharf_exchange_plan;

#define WHARF_EXCHANGE_PLAN_INIT                                               \
    {                                                                          \
        sizeof(wharf_exchange_plan), 0, 0, 0, 0, 0, 0, 0, 0, 0,                \
            WHARF_EXCHANGE_PROGRESS_NONE,                                      \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

WHARF_BEGIN_DECLS

/**
 * Creates an exchange from a list of transfers.
 *
 * Collective on node and on comm: every rank of the node calls, each with a
 * communicator that it belongs to. These may differ (the rows of a grid), span
 * several nodes, and be MPI_COMM_NULL with no transfers on ranks that have
 * none. The plans of all ranks are compared: what does not match is named, with
 * ranks, transfer and sizes, on all ranks of comm. comm is duplicated once and
 * the duplicate kept as an attribute of it.
 *
 * @param node      the calling rank's node
 * @param comm      an intracommunicator over ranks of open nodes
 * @param count     number of transfers, 0 or more; may differ by rank
 * @param transfers count of them; copied. Buffers must stay attached until the
 *                  exchange is destroyed
 * @param options   NULL for defaults
 * @param[out] exchange the exchange, to be given to wharf_exchange_destroy;
 *                      untouched on failure
 * @return WHARF_OK; WHARF_EARG (a box outside its segment, receive boxes of one
 *         set that overlap each other or a send box, a negative id, a peer that
 *         is no rank of comm, twice the same id); WHARF_EMISMATCH (plans do not
 *         match, or options differ); WHARF_ESTATE (a buffer is detached, or of
 *         another node; MPI not usable from this thread); WHARF_EUNSUPPORTED (a
 *         receive box in a buffer that others may not write, with its sender on
 *         this node; options.capturable where signals cannot stand in graphs);
 *         WHARF_ELIMIT; WHARF_ENOMEM; WHARF_EDEVMEM; WHARF_EMPI;
 *         WHARF_EDRIVER; WHARF_ETIMEDOUT; WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_create(
    wharf_node *node, MPI_Comm comm, int count,
    const wharf_exchange_transfer *transfers,
    const wharf_exchange_options *options, wharf_exchange **exchange);

/**
 * Creates an exchange of ghost cells between the blocks of a Cartesian
 * communicator: faces, and with block->diagonals edges and corners. Follows
 * periodic dimensions, also where a rank is its own neighbour.
 *
 * Collective on node and on comm, as wharf_exchange_create. Transfers are in
 * the order of directions: all combinations of -1, 0, 1 in the dimensions, the
 * first one slowest, without the middle and those not asked for; a direction
 * without a neighbour has peer MPI_PROC_NULL. Ghosts that no transfer receives
 * stay as they are: those at an edge that is not periodic, and without
 * diagonals the corners.
 *
 * @param node  as for wharf_exchange_create
 * @param comm  with a Cartesian topology of 1 to 3 dimensions; MPI_COMM_NULL
 *              on ranks outside of it, whose block may be NULL
 * @param block the calling rank's block; cell, ghost and diagonals must agree
 * @param options as for wharf_exchange_create
 * @param[out] exchange as for wharf_exchange_create
 * @return as wharf_exchange_create; WHARF_EARG also for a communicator without
 *         such a topology, a ghost wider than the extent, no ghosts at all
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_create_cart(
    wharf_node *node, MPI_Comm comm, const wharf_exchange_block *block,
    const wharf_exchange_options *options, wharf_exchange **exchange);

/**
 * Creates an exchange along the edges of a distributed-graph communicator.
 *
 * Collective on node and on comm, as wharf_exchange_create. Transfers are the
 * destinations, then the sources, each in the order of
 * MPI_Dist_graph_neighbors. The k-th edge from A to B among A's destinations is
 * the k-th among B's sources.
 *
 * @param node     as for wharf_exchange_create
 * @param comm     with a distributed-graph topology; MPI_COMM_NULL on ranks
 *                 outside of it
 * @param sends    box of destination d and set s: sends[d * sets + s]
 * @param receives box of source d and set s: receives[d * sets + s]
 * @param options  as for wharf_exchange_create
 * @param[out] exchange as for wharf_exchange_create
 * @return as wharf_exchange_create; WHARF_EARG also for a communicator without
 *         such a topology
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_create_graph(
    wharf_node *node, MPI_Comm comm, const wharf_exchange_box *sends,
    const wharf_exchange_box *receives, const wharf_exchange_options *options,
    wharf_exchange **exchange);

/**
 * Destroys an exchange. Waits for the caller's own work on its GPU; what that
 * waits for from a dead rank is let go.
 *
 * Collective on node, and on comm in so far as every rank of comm calls it.
 * Rounds that were started must be finished, or a finish must have failed:
 * else WHARF_ESTATE on every rank of the node, and nothing is destroyed. What
 * MPI may still use after a failed finish is kept, and counted (wharf_stats
 * kept_bytes); send boxes that it reads where they lie must stay there.
 * If creation failed on other ranks of the node, whose communicators reach
 * nodes where it failed, the call is local, and the exchange's 64 bytes a pair
 * of ranks come back with the node's close.
 *
 * @param[in,out] exchange set to NULL, except on WHARF_EMISMATCH, and on
 *                         WHARF_ESTATE for a started round
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (destroyed before, or a round is
 *         started); WHARF_EMISMATCH; WHARF_EFAULT; WHARF_ETIMEDOUT;
 *         WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_exchange_destroy(wharf_exchange **exchange);

/**
 * Starts the next round: puts this rank's send boxes to its neighbours.
 *
 * Local, one thread at a time; every rank of comm must come to the round. On
 * GPUs all is enqueued on the stream. On the host backend the boxes are put at
 * once where the receiver is ready, the others in finish; it never holds.
 *
 * @param exchange the exchange
 * @param stream a stream of the caller's GPU, NULL for its default stream; may
 *               be capturing, see above
 * @return WHARF_OK; WHARF_EARG (stream of another device); WHARF_ESTATE (the
 *         last round is not finished, destroyed, a buffer was detached, MPI not
 *         usable from this thread); WHARF_EUNSUPPORTED (capturing
 *         and not capturable: says why); WHARF_EMPI; WHARF_EDRIVER;
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_exchange_start(wharf_exchange *exchange, wharf_stream stream);

/**
 * Finishes the round: the stream's later work sees all that the neighbours
 * put, and may write the send boxes again.
 *
 * Local, one thread at a time. On GPUs the stream holds, not the caller (who
 * waits for it by wharf_stream_synchronize, see event.h), except where finish
 * has to drive MPI (wharf_exchange_plan.progress). On the
 * host backend the calling thread holds, up to the node's deadline; after
 * WHARF_ETIMEDOUT it may be called again for the same round.
 *
 * @param exchange the exchange
 * @param stream as for start, the same one or one ordered after it
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (no round is started, destroyed);
 *         WHARF_EUNSUPPORTED; WHARF_EMPI; WHARF_ETIMEDOUT, WHARF_EPEER (where
 *         the calling thread holds); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_exchange_finish(wharf_exchange *exchange, wharf_stream stream);

/**
 * Start and finish in one: one launch where all neighbours are reached by
 * kernels.
 *
 * Local, one thread at a time. After a failure of its second half (host
 * backend: WHARF_ETIMEDOUT) the round is started and finish may be called.
 *
 * @param exchange the exchange
 * @param stream as for start
 * @return as wharf_exchange_start and wharf_exchange_finish
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_exchange_run(wharf_exchange *exchange, wharf_stream stream);

/**
 * How one transfer travels, and why so.
 *
 * Local, any thread.
 *
 * @param exchange the exchange
 * @param index 0 .. transfers - 1, in the order of creation
 * @param[in,out] info started from WHARF_EXCHANGE_INFO_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_info_get(
    const wharf_exchange *exchange, int index, wharf_exchange_info *info);

/**
 * The whole plan of the calling rank.
 *
 * Local, any thread (next_set: the thread that makes the rounds).
 *
 * @param exchange the exchange
 * @param[in,out] plan started from WHARF_EXCHANGE_PLAN_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_exchange_plan_get(
    const wharf_exchange *exchange, wharf_exchange_plan *plan);

/**
 * The name of a way, such as "kernel".
 *
 * Local, any thread.
 *
 * @param way any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_exchange_way_name(wharf_exchange_way way);

WHARF_END_DECLS

#endif
