/* SPDX-License-Identifier: MIT */
/*
 * How a process that is no rank of a node gets the buffers of one: a worker of
 * a rank (worker.c), or a program outside the job.
 *
 *   a rank, "lender"                        another process, "guest"
 *   wi_offer_make(node, buffers) ─┐
 *   wi_offer_send(offer, socket) ─┴ bytes + descriptors ─>
 * wi_visit_begin(socket) a wharf_node its wharf_buffers
 *
 * The guest's node is an ordinary wharf_node without MPI (comm is NULL): it
 * describes the lender's node (ranks, GPUs, links, reasons), has a device of
 * its own, and its buffers are ordinary wharf_buffers. All local calls work on
 * them: segment, base, info, pointer table, view, copies on a stream. What
 * needs the other ranks answers WHARF_ESTATE: collective calls, for which
 * wi_node_enter says so, and events.
 *
 * Nothing that came over the socket is believed: counts, sizes, offsets and
 * indices are checked before they are used (WHARF_EPROTOCOL), and what was
 * taken is given back on every path.
 *
 * Which rank can lend what:
 *   memfd,  the owner, and an importer by the descriptors that it kept when it
 *   vmm     attached (WHARF_LEND; one for each physical chunk and GPU)
 *   ipc     everybody: the handle is plain bytes. The memory goes with its
 *           owner, so it does not outlive it
 *   fabric  everybody, plain bytes too, while the owner has the memory; what
 *           a guest has mapped outlives it
 *
 * Locking: an offer and a guest's node are used by one thread at a time while
 * they are made, extended and given back; the local calls from any thread.
 */
#ifndef WI_CORE_VISIT_H
#define WI_CORE_VISIT_H

#include "core/core.h"

/* ---- Lender -------------------------------------------------------------- */

typedef struct wi_offer wi_offer;

/*
 * Local. What a guest needs of `count` buffers (0: of the node alone), ready to
 * be sent any number of times: it holds descriptors of its own, so it works
 * after this process's context was ruined. It does not hold the buffers: they
 * must stay attached for as long as guests may come. `read_only`: guests map
 * them for reading, where the kind has protection.
 *
 * WHARF_EARG (a buffer of another node), WHARF_EUNSUPPORTED (a block that this
 * rank imported and cannot pass on; the remedy names WHARF_LEND; or memory of
 * wharf_buffer_attach_memory), WHARF_EFAULT, WHARF_EOS, WHARF_ENOMEM.
 */
wharf_status wi_offer_make(const wharf_node *node, int count,
                           wharf_buffer *const *buffers, bool read_only,
                           wi_offer **offer);
void wi_offer_free(wi_offer *offer); /* NULL is ignored */

/* Descriptors that it holds, and that a guest needs for a moment. */
int wi_offer_descriptors(const wi_offer *offer);

/*
 * Local. Sends over a connected socket, SOCK_SEQPACKET of the Unix domain,
 * non-blocking or not: some messages of at most 32 KiB and 253 descriptors.
 * WHARF_EPEER (nobody reads any more), WHARF_ETIMEDOUT, WHARF_EOS. After a
 * failure the socket is of no more use.
 */
wharf_status wi_offer_send(const wi_offer *offer, int socket,
                           wi_deadline deadline);

/* How much of an offer has gone so far. Zero: nothing. */
typedef struct wi_sending {
    size_t at;
    int fd;
    bool crowded; /* it is no use to wait for the socket; try again in a ms */
} wi_sending;

/* Local, never waits. WHARF_ENOTREADY: part of it has gone; nothing else may be
 * sent before the rest has. All else as wi_offer_send. */
wharf_status wi_offer_send_on(const wi_offer *offer, int socket,
                              wi_sending *sending);

/* ---- Guest --------------------------------------------------------------- */

/* Zero is the default. */
typedef struct wi_visit_wish {
    bool read_only;    /* map for reading only, whatever is offered */
    bool keep_current; /* leave the thread's current device as it is */
    bool other_rank;   /* take `rank`'s place in the node, not the lender's: */
    int rank;          /* its GPU, and its segment as "mine" */
} wi_visit_wish;

/*
 * Local. Receives one offer and makes the node: finds the GPU by its UUID among
 * those that this process sees, opens it, maps every buffer, at the lender's
 * addresses where they are free. Needs no MPI. `wish` may be NULL.
 *
 * WHARF_EPROTOCOL (what came makes no sense, or another version of Wharf),
 * WHARF_EPEER (the lender is gone), WHARF_ETIMEDOUT, WHARF_ENODEV (the GPU is
 * not visible here), and what mapping may answer.
 */
wharf_status wi_visit_begin(int socket, const wi_visit_wish *wish,
                            wi_deadline deadline, wharf_node **node);

/* Local. Receives one further offer of the same node: its buffers come behind
 * those that are there. On failure the node is as before. */
wharf_status wi_visit_add(wharf_node *node, int socket, wi_deadline deadline);

/* Buffers of a guest's node, in the order in which they were offered; NULL
 * beyond the last one, or when the node is no guest's. Owned by the node. */
int wi_visit_buffers(const wharf_node *node);
wharf_buffer *wi_visit_buffer(const wharf_node *node, int index);

/* Local. Unmaps and gives back all, in every state of the context; *node
 * becomes NULL. wharf_node_close of a guest's node does the same. */
void wi_visit_end(wharf_node **node);

/* A held node ends with its holder, not by wharf_node_close. */
void wi_visit_hold(wharf_node *node, bool held);
bool wi_visit_held(const wharf_node *node);

/* Is this process a guest of the node? */
static inline bool wi_node_is_guest(const wharf_node *node)
{
    return node->visit != NULL;
}

/* For what cannot be an offer: WHARF_EPROTOCOL. */
wharf_status wi_visit_nonsense(const char *what, long long value);

/* For what needs the other ranks: WHARF_OK, or WHARF_ESTATE with a cause that
 * names `what` ("collective calls") in a guest. */
wharf_status wi_visit_refuse(const wharf_node *node, const char *what);

/* ---- Ranks --------------------------------------------------------------- */

/* At an attach, for each block that is imported: keeps what lending it later
 * needs, as WHARF_LEND says. Best effort. */
void wi_visit_keep(wi_mapping *mapping, int block, const int *fds, int count);
/* With the mapping. */
void wi_visit_keep_drop(wi_mapping *mapping);

#endif
