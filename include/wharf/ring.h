/* SPDX-License-Identifier: MIT */
/*
 * A ring: one rank produces, others consume, in slots that all of them map.
 * A slot is handed over on the GPU's streams: begin makes a stream wait until
 * the slot may be used, end says on the stream that it was. Nothing is copied,
 * however many consumers there are.
 *
 * The producer:
 *
 *   while (more()) {
 *       CHECK(wharf_ring_produce_begin(ring, stream, &slot, NULL));
 *       fill<<<..., stream>>>(slot);
 *       CHECK(wharf_ring_produce_end(ring, bytes, stream));
 *   }
 *   CHECK(wharf_ring_close(ring));
 *
 * A consumer:
 *
 *   while ((status = wharf_ring_consume_begin(ring, stream, &data, &slot)) ==
 *          WHARF_OK) {
 *       use<<<..., stream>>>(data, slot.bytes);
 *       CHECK(wharf_ring_consume_end(ring, stream));
 *   }
 *   if (status != WHARF_ECLOSED)
 *       fail(status);
 *
 * How far a host may be ahead of its GPU. A begin returns as soon as the wait
 * is enqueued, with these exceptions, in which it holds the calling thread: a
 * consumer's, until the producer's host has issued the slot (not until the GPU
 * has filled it), so that no stream ever waits for a slot that will not come;
 * either side's, while `ahead` of its slots are not through on its own GPU;
 * and in WHARF_RING_SHARED the producer's, until some consumer has taken what
 * was in the slot.
 *
 * Host memory and CPUs. With WHARF_SPACE_HOST a slot is valid on CPU and GPU.
 * A begin or end with the stream WHARF_RING_CPU is one of the calling thread
 * itself: begin returns when the CPU (or, for slots in GPU memory, a copy that
 * acts at once) may use the slot, end says that it has. A stream's earlier
 * begin or end must be complete by then. On the host backend every call is of
 * this kind; streams are NULL there.
 *
 * Leaving and dying. What a consumer leaves unread by wharf_ring_leave, or by
 * its death, is free for the producer (after a death: within a second of its
 * being found). The death of the producer ends the ring for all: WHARF_EPEER.
 */
#ifndef WHARF_RING_H
#define WHARF_RING_H

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/notify.h"
#include "wharf/status.h"

typedef struct wharf_ring wharf_ring;

/* Most rings of one node at a time; most slots of one ring. */
#define WHARF_MAX_RINGS 32
#define WHARF_MAX_RING_SLOTS 1024

/* Stands for the calling thread where a stream is asked for. */
#define WHARF_RING_CPU ((wharf_stream)(~(uintptr_t)0))

/* options.consumer_count: nobody consumes until a rank joins. */
#define WHARF_RING_NOBODY (-1)

/* Who gets a slot. */
typedef enum wharf_ring_mode {
    WHARF_RING_ALL = 0,   /* every consumer sees every slot */
    WHARF_RING_SHARED = 1 /* every slot goes to one consumer, the first to
                             begin */
} wharf_ring_mode;

/** Options of wharf_ring_create. Start from WHARF_RING_OPTIONS_INIT, set slots
 * and slot_bytes. They must agree on all ranks. */
typedef struct wharf_ring_options {
    size_t struct_size;
    int slots;         /* 1 .. WHARF_MAX_RING_SLOTS */
    size_t slot_bytes; /* more than 0; slots start 256-byte aligned */
    int producer;      /* node rank */
    wharf_ring_mode mode;
    wharf_space space;    /* DEVICE: the producer's GPU */
    int consumer_count;   /* of consumers; 0 and NULL: all but the producer;
                             WHARF_RING_NOBODY */
    const int *consumers; /* different node ranks that consume from the start;
                             others may join */
    int timeout_ms;       /* of calls that hold; 0: the node's */
    wharf_mechanism mechanism; /* AUTO, KERNEL or MEM_OPS, for every rank */
    int ahead; /* slots that a host may be ahead of its GPU; 0: 64, and 2 for
                  consumers that share, whose GPUs would else sit idle while
                  one of them has taken all; at most 256 */
} wharf_ring_options;

#define WHARF_RING_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(wharf_ring_options), 0, 0, 0, WHARF_RING_ALL,                   \
            WHARF_SPACE_DEVICE, 0, NULL, 0, WHARF_MECHANISM_AUTO, 0            \
    }

/* What a consumer is told of a slot. */
typedef struct wharf_ring_slot {
    uint64_t index; /* 0 up, in the order of production */
    size_t bytes;   /* as wharf_ring_produce_end was told */
} wharf_ring_slot;

/* A ring as the calling rank sees it. Start from WHARF_RING_INFO_INIT. */
typedef struct wharf_ring_info {
    size_t struct_size;
    int slots;
    size_t slot_bytes;
    size_t slot_stride; /* from one slot to the next in memory */
    int producer;
    wharf_ring_mode mode;
    wharf_space space;         /* where the slots really are */
    wharf_handle_kind handle;  /* by which they are shared */
    wharf_path path;           /* from the calling rank to them */
    wharf_mechanism mechanism; /* of the calling rank's waits; never AUTO */
    int consumers;             /* that consume now */
    int consuming;             /* 1: the caller is one of them, or has joined
                                  and will be when the producer next begins */
    int closed;                /* 1: by the producer */
    uint64_t issued;           /* slots that the producer's host has ended */
    uint64_t mine; /* slots that the caller's host has ended, as producer or
                      consumer */
    char reason[WHARF_MAX_REASON + 1]; /* why this mechanism */
} wharf_ring_info;

#define WHARF_RING_INFO_INIT                                                   \
    {                                                                          \
        sizeof(wharf_ring_info), 0, 0, 0, 0, WHARF_RING_ALL,                   \
            WHARF_SPACE_DEVICE, WHARF_HANDLE_MEMFD, WHARF_PATH_SAME_PROCESS,   \
            WHARF_MECHANISM_AUTO, 0, 0, 0, 0, 0,                               \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

WHARF_BEGIN_DECLS

/**
 * Creates a ring.
 *
 * Collective on node: every rank of the node calls, consumer or not.
 *
 * @param node    an open node
 * @param options required: slots and slot_bytes have no default
 * @param[out] ring the ring, to be given to wharf_ring_destroy by every rank;
 *                  untouched on failure
 * @return WHARF_OK; WHARF_EARG (a size of 0, slots that exceed the address
 *         space, a rank twice, the producer among the consumers, a node of one
 *         rank); WHARF_EMISMATCH; WHARF_ESTATE; WHARF_ELIMIT; WHARF_ENOMEM,
 *         WHARF_EDEVMEM (the slots are larger than the memory);
 *         WHARF_EUNSUPPORTED; WHARF_EDEGRADED (strict); WHARF_EDRIVER,
 *         WHARF_EOS; WHARF_EDATA; WHARF_ETIMEDOUT; WHARF_EPEER, WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_create(
    wharf_node *node, const wharf_ring_options *options, wharf_ring **ring);

/**
 * Destroys a ring. The call waits for the caller's own work on its GPU; what
 * other ranks have not consumed by then is lost: see wharf_ring_drain.
 *
 * Collective on its node.
 *
 * @param[in,out] ring set to NULL, except on WHARF_EMISMATCH
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (destroyed before);
 *         WHARF_EMISMATCH; WHARF_EFAULT; WHARF_ETIMEDOUT; WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_destroy(wharf_ring **ring);

/**
 * Begins the next slot: later work of the stream starts when every consumer
 * has released what was in it before. With more than two consumers and four
 * slots or more, the stream waits for half of the slots at a time. A stream
 * that is destroyed between two slots must be idle.
 *
 * Local to the producer, one thread at a time. See above for when it holds the
 * calling thread. Ranks that asked to join are consumers from this slot on.
 *
 * @param ring   the ring
 * @param stream a stream of the caller's GPU, NULL for its default stream,
 *               WHARF_RING_CPU for the calling thread; not capturing
 * @param[out] pointer where to write, slot_bytes of it
 * @param[out] index   of the slot, 0 up; the argument may be NULL
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (not the producer; the last slot
 *         was not ended; closed); WHARF_EUNSUPPORTED (stream is capturing);
 *         WHARF_ETIMEDOUT (held longer than the ring's timeout; names the
 *         consumer that is behind: calling again goes on); WHARF_EDRIVER;
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_produce_begin(
    wharf_ring *ring, wharf_stream stream, void **pointer, uint64_t *index);

/**
 * Ends the slot that was begun: consumers may use it when all earlier work of
 * the stream is complete.
 *
 * Local to the producer, one thread at a time. What the stream wrote before is
 * visible, at system scope, to whoever passed the matching begin. The stream
 * may be another one than that of the begin, if the caller orders the two; the
 * ends must be ordered among themselves.
 *
 * @param ring   the ring
 * @param bytes  that the slot holds, 0 .. slot_bytes; consumers are told
 * @param stream as for wharf_ring_produce_begin
 * @return WHARF_OK; WHARF_EARG (more bytes than a slot has); WHARF_ESTATE (not
 *         the producer, nothing begun); WHARF_EUNSUPPORTED; WHARF_EDRIVER;
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_ring_produce_end(wharf_ring *ring, size_t bytes, wharf_stream stream);

/**
 * Says that no slot will follow. Consumers get those that were ended, then
 * WHARF_ECLOSED.
 *
 * Local to the producer, any thread. Closing twice is no error. At once.
 *
 * @param ring the ring
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (not the producer; a slot is
 *         begun and not ended)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_close(wharf_ring *ring);

/**
 * Holds the calling thread until the consumers have released every slot that
 * was ended. Before wharf_ring_close or after it.
 *
 * Local to the producer, any thread; other calls for the ring wait meanwhile.
 *
 * @param ring       the ring
 * @param timeout_ms deadline in ms; 0: the ring's
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (not the producer; a slot is
 *         begun and not ended); WHARF_ETIMEDOUT (names a consumer that is
 *         behind, and the slot); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_drain(wharf_ring *ring,
                                                        int timeout_ms);

/**
 * Begins the caller's next slot: later work of the stream starts when the
 * producer's stream has filled it.
 *
 * Local to a consumer, one thread at a time. Holds the calling thread until the
 * producer has ended the slot, on its host; see above for the rest. With
 * WHARF_RING_SHARED no other consumer gets the slot then.
 *
 * @param ring   the ring
 * @param stream as for wharf_ring_produce_begin
 * @param[out] pointer where to read
 * @param[out] slot    which slot, and how much of it is filled; the argument
 *                     may be NULL
 * @return WHARF_OK; WHARF_ECLOSED (the producer closed the ring and nothing is
 *         left for the caller); WHARF_EARG; WHARF_ESTATE (no consumer; the last
 *         slot was not ended); WHARF_EUNSUPPORTED; WHARF_ETIMEDOUT (nothing
 *         came within the ring's timeout: calling again goes on); WHARF_EPEER
 *         (the producer is dead); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_ring_consume_begin(wharf_ring *ring, wharf_stream stream,
                         const void **pointer, wharf_ring_slot *slot);

/**
 * Releases the slot that was begun, when all earlier work of the stream is
 * complete.
 *
 * Local to a consumer, one thread at a time. The releases of one rank must be
 * ordered among themselves (one stream, or streams ordered by events).
 *
 * @param ring   the ring
 * @param stream as for wharf_ring_produce_begin
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (no consumer, nothing begun);
 *         WHARF_EUNSUPPORTED; WHARF_EPEER (released, but the producer is dead
 *         and the slot may not have been filled); WHARF_EDRIVER; WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_ring_consume_end(wharf_ring *ring, wharf_stream stream);

/**
 * Makes the caller a consumer: from the next slot that the producer begins
 * (WHARF_RING_ALL), or from the next that nobody has taken.
 *
 * Local to any rank but the producer, any thread. At once: the next
 * wharf_ring_consume_begin holds until there is a slot.
 *
 * @param ring the ring
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (the producer, or consuming
 *         already)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_join(wharf_ring *ring);

/**
 * Ends the caller's part as consumer. Slots that it has not begun are released,
 * for its part, when all earlier work of the stream is complete.
 *
 * Local to a consumer, any thread. It may join again.
 *
 * @param ring   the ring
 * @param stream that of the last wharf_ring_consume_end, or one ordered behind
 *               it
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (no consumer; a slot is begun and
 *         not ended); WHARF_EUNSUPPORTED; WHARF_EDRIVER, WHARF_EFAULT (call
 *         again: until it succeeds the producer may wait for this rank)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_leave(wharf_ring *ring,
                                                        wharf_stream stream);

/**
 * Asks what was found wrong with the caller's slots since the last check:
 * slots that changed between hand-over and release (with the setting
 * WHARF_CHECK_RACES=1), slots whose producer died.
 *
 * Local, any thread. Tells of work that has run: synchronise the stream first.
 * What it tells of was logged when it was found.
 *
 * @param ring the ring
 * @return WHARF_OK; WHARF_EDATA (names the slot and the ranks); WHARF_EPEER
 *         (the producer is dead: slots may not have been filled); WHARF_EARG;
 *         WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_ring_check(wharf_ring *ring);

/**
 * Describes a ring.
 *
 * Local, any thread.
 *
 * @param ring the ring
 * @param[in,out] info started from WHARF_RING_INFO_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_ring_info_get(const wharf_ring *ring, wharf_ring_info *info);

WHARF_END_DECLS

#endif
