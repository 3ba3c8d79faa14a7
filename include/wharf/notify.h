/* SPDX-License-Identifier: MIT */
/*
 * Notifies and stream barriers: one rank's stream tells another's to go on,
 * without the host on the way.
 *
 * The mechanism is chosen for each pair of ranks, because the cost of the
 * wrong one is a factor of 200: a kernel that spins for a peer on the same GPU
 * waits for whole time slices, unless MPS runs.
 *
 *   kernel    one small kernel that signals and waits; between two GPUs, and
 *             on one GPU under MPS
 *   mem-ops   stream memory operations; on one GPU without MPS, and between
 *             two GPUs without native atomics (PCIe)
 *   hybrid    a small kernel signals, a stream memory operation waits: what a
 *             mem-ops pair becomes when it must work inside graphs
 *   host      shared host memory and futexes; the host backend
 *
 * A stream on a GPU that waits for a rank which died waits for good, as long as
 * no timeout is given: see wharf_stream_synchronize (event.h). Destroying what
 * it waits in lets it go.
 */
#ifndef WHARF_NOTIFY_H
#define WHARF_NOTIFY_H

#include "wharf/base.h"
#include "wharf/node.h"
#include "wharf/status.h"

typedef struct wharf_notify wharf_notify;
typedef struct wharf_barrier wharf_barrier;

/* How a signal travels. */
typedef enum wharf_mechanism {
    WHARF_MECHANISM_AUTO = 0,
    WHARF_MECHANISM_KERNEL = 1,
    WHARF_MECHANISM_MEM_OPS = 2,
    WHARF_MECHANISM_HYBRID = 3,
    WHARF_MECHANISM_HOST = 4
} wharf_mechanism;

/** Options of wharf_notify_create and wharf_barrier_create. Start from
 * WHARF_NOTIFY_OPTIONS_INIT. They must agree on all ranks. */
typedef struct wharf_notify_options {
    size_t struct_size;
    wharf_mechanism mechanism; /* AUTO, or for every pair this one; on the host
                                  backend it is HOST whatever is asked for.
                                  WHARF_MECHANISM: auto, kernel, mem-ops,
                                  hybrid */
    wharf_switch capturable;   /* on: every operation may be captured into a
                                  graph; default: those whose mechanism allows
                                  it at no cost (kernel). Barriers may always
                                  be captured */
} wharf_notify_options;

#define WHARF_NOTIFY_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(wharf_notify_options), WHARF_MECHANISM_AUTO, WHARF_SWITCH_UNSET \
    }

WHARF_BEGIN_DECLS

/**
 * Creates a notify: one rank waits, every other rank may record. Each
 * recorder has a count of its own; a record adds one to it, a wait takes one
 * off.
 *
 * Collective on node.
 *
 * @param node    an open node
 * @param waiter  the rank that will wait, 0 .. size-1, the same on all ranks
 * @param options NULL for defaults
 * @param[out] notify the notify, to be given to wharf_notify_destroy;
 *                    untouched on failure
 * @return WHARF_OK; WHARF_EARG; WHARF_EMISMATCH; WHARF_ESTATE; WHARF_ELIMIT
 *         (the 131072 words for signals of one rank are taken: a notify takes
 *         as many as the node has ranks, of its waiter's; a barrier up to
 *         three times as many as it has members, of every member's);
 *         WHARF_ENOMEM; WHARF_EDEVMEM; WHARF_EDEGRADED (strict, and the words
 *         would lie in host memory); WHARF_EUNSUPPORTED (the mechanism asked
 *         for is not possible here); WHARF_EDRIVER; WHARF_ETIMEDOUT;
 *         WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_notify_create(wharf_node *node, int waiter,
                    const wharf_notify_options *options, wharf_notify **notify);

/**
 * Destroys a notify. Work that uses it must be complete on all ranks' streams:
 * the call waits for the caller's own.
 *
 * Collective on its node.
 *
 * @param[in,out] notify set to NULL, except on WHARF_EMISMATCH
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (destroyed before);
 *         WHARF_EMISMATCH; WHARF_EFAULT; WHARF_ETIMEDOUT; WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_notify_destroy(wharf_notify **notify);

/**
 * Records on a stream: when all work issued to it before is complete, the
 * waiter's next wait for this rank may pass.
 *
 * Local to any rank but the waiter, any thread; records of one rank must be
 * ordered among themselves (one stream, or streams ordered by events). What the
 * stream wrote before the record is visible, at system scope, to whoever passed
 * the matching wait. On the host backend the record acts at once.
 *
 * @param notify the notify
 * @param stream a stream of the caller's GPU, NULL for its default stream; may
 *               be capturing
 * @return WHARF_OK; WHARF_EARG (stream of another device); WHARF_ESTATE (the
 *         caller is the waiter, or destroyed); WHARF_EUNSUPPORTED (capturing,
 *         and not capturable: says what to set); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_notify_record(wharf_notify *notify,
                                                           wharf_stream stream);

/**
 * Makes a stream wait for one record of a rank, and consumes it.
 *
 * Local to the waiter, any thread; waits for one recorder must be ordered
 * among themselves (one stream, or streams ordered by events). On the host
 * backend the calling thread holds.
 *
 * @param notify     the notify
 * @param from       the recording rank
 * @param stream     a stream of the caller's GPU, NULL for its default stream;
 *                   may be capturing
 * @param timeout_ms 0: none on a GPU (the stream waits for good), the node's
 *                   on the host backend. Else the wait gives up after that
 *                   time, consumes nothing, lets the stream go on and is
 *                   reported by wharf_notify_check
 * @return WHARF_OK (enqueued, or on the host backend passed); WHARF_EARG;
 *         WHARF_ESTATE (the caller is not the waiter, or destroyed);
 *         WHARF_EUNSUPPORTED (capturing and not capturable, or a timeout with
 *         a mechanism that has none); WHARF_ETIMEDOUT, WHARF_EPEER (host
 *         backend); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_notify_wait(wharf_notify *notify,
                                                         int from,
                                                         wharf_stream stream,
                                                         int timeout_ms);

/**
 * Holds the calling thread until a record of a rank has come, and consumes it.
 *
 * Local to the waiter, any thread. What was written before the record is then
 * visible to the caller. Must be ordered with stream waits for the same
 * recorder by the caller.
 *
 * @param notify     the notify
 * @param from       the recording rank
 * @param timeout_ms deadline in ms; 0: the node's
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_ETIMEDOUT (nothing is
 *         consumed); WHARF_EPEER; WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_notify_wait_host(wharf_notify *notify, int from, int timeout_ms);

/**
 * Asks whether a stream wait of this notify gave up since the last check.
 *
 * Local to the waiter, any thread. Tells of waits that have run on the GPU:
 * synchronise the stream first.
 *
 * @param notify the notify
 * @return WHARF_OK; WHARF_ETIMEDOUT (names the recorder that did not come);
 *         WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_notify_check(wharf_notify *notify);

/**
 * The mechanism between a recorder and the waiter.
 *
 * Local, any thread.
 *
 * @param notify the notify
 * @param from the recording rank
 * @param[out] mechanism never AUTO
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_notify_mechanism(
    const wharf_notify *notify, int from, wharf_mechanism *mechanism);

/**
 * Creates a stream barrier over the node's ranks or a part of them.
 *
 * Collective on node: every rank of the node calls, members or not, with the
 * same list.
 *
 * @param node    an open node
 * @param count   number of members; 0: all ranks of the node
 * @param ranks   count different node ranks, or NULL with count 0
 * @param options NULL for defaults
 * @param[out] barrier the barrier, to be given to wharf_barrier_destroy by
 *                     every rank; untouched on failure
 * @return as wharf_notify_create
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_barrier_create(
    wharf_node *node, int count, const int *ranks,
    const wharf_notify_options *options, wharf_barrier **barrier);

/**
 * Destroys a barrier. The call waits for the caller's own work on its GPU.
 *
 * Collective on its node.
 *
 * @param[in,out] barrier set to NULL, except on WHARF_EMISMATCH
 * @return as wharf_notify_destroy
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_barrier_destroy(wharf_barrier **barrier);

/**
 * Enters a barrier on a stream: later work of the stream starts when every
 * member's stream has come as far.
 *
 * Collective on the members, any thread; a member's uses of one barrier must be
 * ordered among themselves (one stream, or streams ordered by events). Barriers
 * are independent of one another, on one stream or several. What any member's
 * stream wrote before it is visible, at system scope, to every member's stream
 * after it. By memory operations it has two levels when more than two members
 * share a GPU. A mem-ops barrier that is captured must be captured by all
 * members. On the host backend the calling thread holds; after WHARF_ETIMEDOUT
 * it counts as arrived, and entering again goes on with the same use.
 *
 * @param barrier the barrier
 * @param stream a stream of the caller's GPU, NULL for its default stream; may
 *               be capturing
 * @return WHARF_OK (enqueued, or on the host backend passed); WHARF_EARG;
 *         WHARF_ESTATE (not a member, destroyed); WHARF_EUNSUPPORTED;
 *         WHARF_ETIMEDOUT, WHARF_EPEER (host backend); WHARF_EDRIVER;
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_barrier_enter(wharf_barrier *barrier, wharf_stream stream);

/**
 * The mechanism of a barrier: of all its members.
 *
 * Local, any thread.
 *
 * @param barrier the barrier
 * @param[out] mechanism never AUTO
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_barrier_mechanism(
    const wharf_barrier *barrier, wharf_mechanism *mechanism);

/**
 * Asks whether a kernel's wait in this barrier gave up since the last check.
 *
 * Local to the members, any thread. Tells of kernels that have run: synchronise
 * their stream first.
 *
 * @param barrier the barrier
 * @return WHARF_OK; WHARF_ETIMEDOUT (names the rank that did not come);
 *         WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_barrier_check(wharf_barrier *barrier);

/**
 * The name of a mechanism, such as "mem-ops".
 *
 * Local, any thread.
 *
 * @param mechanism any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_mechanism_name(wharf_mechanism mechanism);

/**
 * The mechanism by which a signal of rank a reaches rank b when nothing else
 * is asked for, and why.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @param a, b 0 .. size-1
 * @param[out] mechanism never AUTO
 * @param[out] reason why, WHARF_MAX_REASON + 1 bytes; the argument may be NULL
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_node_mechanism(const wharf_node *node, int a, int b,
                     wharf_mechanism *mechanism, char *reason);

WHARF_END_DECLS

#endif
