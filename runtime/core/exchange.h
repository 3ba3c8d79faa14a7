/* SPDX-License-Identifier: MIT */
/*
 * The body of an exchange, for the exchange*.c files and signal_rescue.c.
 *
 * From the caller's list to a plan: exchange_list.c reads and checks the
 * caller's own transfers, or exchange_build.c makes them from a topology;
 * exchange_match.c compares them with the peers', by the arithmetic of
 * exchange_shape.c. exchange.c is the life of it all, exchange_query.c what can
 * be asked of it, exchange_run.c the rounds: exchange_host.c does them on the
 * host backend, exchange_stream.c on GPUs, exchange_far.c what goes to other
 * nodes, cut into messages by exchange_cut.c.
 */
#ifndef WI_CORE_EXCHANGE_H
#define WI_CORE_EXCHANGE_H

#include "comm/remote.h"
#include "core/core.h"
#include "core/signal.h"
#include "device/copy.h"
#include "wharf/exchange.h"

/*
 * One side of a transfer in one set: a box in its rank's segment. Rows of
 * `width` bytes, `pitch` apart, in planes that are `plane` apart. All zero when
 * it is empty. Travels between ranks.
 */
typedef struct wi_exchange_half {
    uint64_t serial; /* of the buffer */
    uint64_t offset; /* in the segment */
    uint64_t width, rows, planes;
    uint64_t pitch, plane;
} wi_exchange_half;

typedef struct wi_exchange_item {
    int peer;      /* in the group; MPI_PROC_NULL: none */
    int node_rank; /* of the peer, -1: reached by MPI only */
    int send_id, receive_id;
    wi_exchange_half *send, *receive; /* one a set */
    /* Both sides in one shape, one a set, width 0 where there is nothing. out:
     * from the caller's memory to the peer's, in: the other way round; of a
     * peer on another node the pointer is NULL and the pitches are unused. */
    wi_copy_box *out, *in;
} wi_exchange_item;

/* Another rank of this node that is sent to or received from. */
typedef struct wi_exchange_peer {
    int node_rank;
    bool sends;    /* the caller to it */
    bool receives; /* the caller from it */
    bool waits;    /* the caller's put waits for its start */
    bool owes;     /* the caller's start tells it so */
    wi_signal_way to, from;
    /* Host backend, of the round that is started: */
    bool put, came;
} wi_exchange_peer;

/* A buffer that the plan reads or writes, on any rank. */
typedef struct wi_exchange_use {
    const wharf_buffer *buffer;
    uint64_t serial;
} wi_exchange_use;

typedef struct wi_exchange_stream wi_exchange_stream;
typedef struct wi_exchange_far wi_exchange_far;

struct wharf_exchange {
    wharf_node *node;
    uint64_t serial;
    wi_group *group; /* NULL: MPI_COMM_NULL */
    int64_t number;  /* of the plan, alike on all ranks of the group */
    bool all_direct; /* every rank gives MPI its boxes as they are */
    int sets;
    bool forced;     /* options.ready */
    bool capturable; /* options.capturable */
    bool partial;    /* ranks of this node have no plan of this creation */
    int items;
    wi_exchange_item *item;
    wi_exchange_half *halves; /* of all items */
    wi_copy_box *boxes;       /* of all items */
    int peers;
    wi_exchange_peer *peer;
    int uses;
    wi_exchange_use *use;
    /* One a node rank. Words of rank r: word p, "what p put is there"; word
     * size + p, "p is ready for what r puts". */
    wi_pad_run *run;
    wi_exchange_stream *stream; /* NULL on the host backend */
    wi_exchange_far *far;       /* NULL: nobody on another node */
    /* Of the thread that makes the rounds: */
    uint64_t round; /* of the next start, or of the one that is started */
    bool started;
    bool waited; /* GPU: its finish is enqueued, as far as this node goes */
    bool broken; /* a finish failed: destroy does not ask for another */
    wharf_exchange *next;
};

/* ---- Shapes (exchange_shape.c): pure ------------------------------------- */

uint64_t wi_exchange_bytes(const wi_exchange_half *half);
/* Has one of the sets any? */
bool wi_exchange_any(const wi_exchange_half *halves, int sets);
/* Bytes from the first to behind the last. */
uint64_t wi_exchange_span(const wi_exchange_half *half);

/* Do two sides in one segment share a byte? */
bool wi_exchange_overlap(const wi_exchange_half *a, const wi_exchange_half *b);

/*
 * Both sides of one size as one box: the same bytes in the same order, with
 * the pitches of either side; `to` and `from` are left alone. False if three
 * dimensions do not suffice.
 */
bool wi_exchange_join(const wi_exchange_half *from, const wi_exchange_half *to,
                      wi_copy_box *box);

/* ---- Making a plan
 * ----------------------------------------------------------- */

/* What the caller passed, once its options are read. */
typedef struct wi_exchange_ask {
    MPI_Comm comm;
    int count;
    const wharf_exchange_transfer *transfers;
    wharf_exchange_options options;
} wi_exchange_ask;

/* Reads and checks the options; `known` gets defaults and what was set. */
wharf_status wi_exchange_options_read(const wharf_exchange_options *options,
                                      wharf_exchange_options *known);

/* Copies and checks the caller's own transfers; x->group is there. Local. */
wharf_status wi_exchange_list(wharf_exchange *x, const wi_exchange_ask *ask);

/* Compares with the peers, fills item.out and item.in, x->use. Collective on
 * the group, ends in an agreement. */
wharf_status wi_exchange_match(wharf_exchange *x, wi_deadline deadline);

/* The creation itself. Under node->collective. */
wharf_status wi_exchange_make(wharf_node *node, const wi_exchange_ask *ask,
                              wharf_status own, wharf_exchange **out);

/* ---- Calls --------------------------------------------------------------- */

/* Begins a call on an exchange. */
wharf_status wi_exchange_enter(const char *call, const wharf_exchange *x);

/* ---- Rounds
 * ------------------------------------------------------------------ */

/* Word of the caller's run (mine), or of another rank's that it signals. */
uint32_t *wi_exchange_arrival(const wharf_exchange *x, int owner, int from);
uint32_t *wi_exchange_readiness(const wharf_exchange *x, int owner, int from);

/* The set of this round. */
static inline int wi_exchange_set(const wharf_exchange *x)
{
    return (int)(x->round % (uint64_t)x->sets);
}

/* Host backend. start never holds; finish does, and may be called again. */
wharf_status wi_exchange_host_start(wharf_exchange *x);
wharf_status wi_exchange_host_finish(wharf_exchange *x);

/* GPUs. prepare: words are taken, before any stream can wait. */
wharf_status wi_exchange_stream_prepare(wharf_exchange *x);
void wi_exchange_stream_drop(wharf_exchange *x);
wharf_status wi_exchange_stream_start(wharf_exchange *x, wharf_stream stream);
wharf_status wi_exchange_stream_finish(wharf_exchange *x, wharf_stream stream);
wharf_status wi_exchange_stream_run(wharf_exchange *x, wharf_stream stream);
/* WHARF_OK, or why the plan's calls cannot be captured. */
wharf_status wi_exchange_stream_capturable(const wharf_exchange *x);
/* Can some of the plan's calls not be captured? The call below
 * says why. */
bool wi_exchange_stream_limited(const wharf_exchange *x);
/* Does the copy engine move one of the transfer's boxes? */
bool wi_exchange_by_engine(const wharf_exchange *x,
                           const wi_exchange_item *item);
/* Lets the caller's streams go on without signals of others. Any thread. */
void wi_exchange_let_go(const wharf_exchange *x);

/* What goes to other nodes; without such neighbours all do nothing. Local. */
wharf_status wi_exchange_far_prepare(wharf_exchange *x);
void wi_exchange_far_drop(wharf_exchange *x);
wharf_status wi_exchange_far_start(wharf_exchange *x, wharf_stream stream);
/* May be called again for the same round. */
wharf_status wi_exchange_far_finish(wharf_exchange *x, wharf_stream stream,
                                    wi_deadline deadline);
/* Lets MPI move; *busy is set where something is under way. */
wharf_status wi_exchange_far_move(wharf_exchange *x, bool *busy);
void wi_exchange_far_let_go(const wharf_exchange *x);
/* Does MPI get boxes of this rank as they are? */
bool wi_exchange_far_direct(const wharf_exchange *x,
                            char reason[WHARF_MAX_REASON + 1]);
void wi_exchange_far_info(const wharf_exchange *x, wharf_exchange_info *info);
void wi_exchange_far_plan(const wharf_exchange *x, wharf_exchange_plan *plan);

#endif
