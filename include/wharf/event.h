/* SPDX-License-Identifier: MIT */
/*
 * Events: work of one rank's stream that other ranks' streams wait for.
 *
 *   wharf_buffer_event(buffer, 0, &event);              all ranks
 *   wharf_event_record(event, stream, NULL);            its owner: rank 0
 *   wharf_event_wait(event, WHARF_LATEST, stream);      a stream of any rank
 *   wharf_event_synchronize(event, WHARF_LATEST, 0);    or the calling thread
 *
 * Here as in notify.h a wait makes a stream wait, unless its name says "host";
 * synchronize holds the calling thread, with a deadline.
 */
#ifndef WHARF_EVENT_H
#define WHARF_EVENT_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/status.h"

typedef struct wharf_event wharf_event;

/* Most events of one node at a time; a buffer takes one a rank, and keeps them
 * while the pool keeps its memory. */
#define WHARF_MAX_EVENTS 65536

/* The newest record issued when the wait is called (at least the first). */
#define WHARF_LATEST UINT64_C(0)

WHARF_BEGIN_DECLS

/**
 * Creates an event that one rank records and any rank waits for.
 *
 * Collective on node.
 *
 * @param node  an open node
 * @param owner the rank that will record, 0 .. size-1, the same on all ranks
 * @param[out] event the event, to be given to wharf_event_destroy; untouched
 *                   on failure
 * @return WHARF_OK; WHARF_EARG; WHARF_EMISMATCH; WHARF_ESTATE; WHARF_ELIMIT;
 *         WHARF_ENOMEM; WHARF_ETIMEDOUT; WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_event_create(wharf_node *node,
                                                          int owner,
                                                          wharf_event **event);

/**
 * Destroys an event made by wharf_event_create. If it was ever recorded, the
 * call waits for the caller's own work on its GPU.
 *
 * Collective on its node.
 *
 * @param[in,out] event set to NULL, except on WHARF_EMISMATCH
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (destroyed before, or an event
 *         that belongs to a buffer); WHARF_EMISMATCH (nothing was done);
 *         WHARF_EFAULT; WHARF_ETIMEDOUT; WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_event_destroy(wharf_event **event);

/**
 * The event that came with a buffer for one segment's rank.
 *
 * Local, any thread. Owned by the buffer and gone with it.
 *
 * @param buffer an attached buffer
 * @param rank 0 .. node size - 1
 * @param[out] event the event; its owner is rank
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_event(const wharf_buffer *buffer, int rank, wharf_event **event);

/**
 * Records an event on a stream: the record is complete when all work issued
 * to the stream before it is.
 *
 * Local to the owner, any thread. What the owner's stream wrote before the
 * record is visible, at system scope, to whoever passed a wait for it. A stream
 * that is destroyed between two records must be idle. On the host backend the
 * record is complete at once.
 *
 * @param event  an event whose owner is the caller
 * @param stream a stream of the caller's GPU, NULL for its default stream
 * @param[out] number the record's number, 1 up; the argument may be NULL
 * @return WHARF_OK; WHARF_EARG (stream of another device, or of another context
 *         than the GPU's primary one, which the runtime's streams are of);
 *         WHARF_ESTATE (the caller is not the owner); WHARF_EUNSUPPORTED (the
 *         GPU has no interprocess events, or the stream is being captured:
 *         record a notify in graphs); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_event_record(wharf_event *event,
                                                          wharf_stream stream,
                                                          uint64_t *number);

/**
 * Makes a stream wait for a record of another rank (or of the caller).
 *
 * Local, any thread. Holds the calling thread until the owner has issued the
 * record, then orders the stream behind it without the host: no wait ever
 * passes before its record. If later records were issued meanwhile, the wait
 * may be for one of them; records complete in the order of their numbers. Into
 * a graph the wait for a record that was issued before goes as it is.
 *
 * @param event  any event
 * @param number which record, or WHARF_LATEST
 * @param stream a stream of the caller's GPU, NULL for its default stream
 * @return WHARF_OK; WHARF_EARG (stream of another device); WHARF_ESTATE;
 *         WHARF_ETIMEDOUT (not issued before the node's deadline; the stream
 *         is unchanged); WHARF_EPEER (the owner died); WHARF_EDRIVER;
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_event_wait(wharf_event *event,
                                                        uint64_t number,
                                                        wharf_stream stream);

/**
 * Asks whether a record is complete.
 *
 * Local, any thread.
 *
 * @param event  any event
 * @param number which record, or WHARF_LATEST
 * @return WHARF_OK (complete); WHARF_ENOTREADY (not complete, or not issued);
 *         WHARF_EARG; WHARF_ESTATE; WHARF_EPEER (the same, and the owner is
 *         dead); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_event_query(wharf_event *event,
                                                         uint64_t number);

/**
 * Holds the calling thread until a record is complete.
 *
 * Local, any thread. What was written before the record is then visible to
 * the caller.
 *
 * @param event      any event
 * @param number     which record, or WHARF_LATEST
 * @param timeout_ms deadline in ms; 0: the node's
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_ETIMEDOUT; WHARF_EPEER;
 *         WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_event_synchronize(wharf_event *event, uint64_t number, int timeout_ms);

/**
 * Holds the calling thread until all work of a stream so far is complete, and
 * looks meanwhile whether a rank of the node is dead.
 *
 * Local, any thread. For streams that wait for other ranks, in a notify, a
 * barrier, an exchange or a ring: cudaStreamSynchronize would hold for good if
 * such a rank died. On WHARF_EPEER and WHARF_ETIMEDOUT the stream still waits;
 * destroying what it waits in, or wharf_node_close, lets it go. On the host
 * backend, where calls act at once, there is nothing to wait for.
 *
 * @param node       an open node
 * @param stream     a stream of the caller's GPU, NULL for its default stream;
 *                   not capturing
 * @param timeout_ms deadline in ms; 0: the node's
 * @return WHARF_OK; WHARF_EARG (stream of another device, or of another context
 *         than its primary one); WHARF_ESTATE;
 *         WHARF_EUNSUPPORTED (the stream is being captured); WHARF_ETIMEDOUT;
 *         WHARF_EPEER (a rank died, and the work was not complete by then);
 *         WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_stream_synchronize(wharf_node *node, wharf_stream stream, int timeout_ms);

WHARF_END_DECLS

#endif
