/* SPDX-License-Identifier: MIT */
/*
 * What the ring*.c files share: the body of a ring, and its part of the control
 * block.
 *
 * Two kinds of state. On the hosts: what was begun, issued, taken, who
 * consumes, in the control block, so that any rank sees how far another one's
 * *host* is; no rank's death can leave it half-changed, for each word has one
 * writer or is changed by one compare-and-swap, and there is no lock. On the
 * GPUs: one 32-bit word for each way between producer and consumer, in the
 * waiter's memory (core/signal.h), which only grows, and wraps:
 *
 *   filled[c]    in consumer c's memory: first + slots that are filled
 *   released[c]  in the producer's memory: first + slots that c released; with
 *                WHARF_RING_ALL counted as if c had consumed from slot 0 on
 *
 * On the host backend `released` is in the control block, and what is issued is
 * filled.
 */
#ifndef WI_CORE_RING_H
#define WI_CORE_RING_H

#include "core/core.h"
#include "core/signal.h"
#include "wharf/ring.h"

/* Most that a host may be ahead of its GPU, and by how many ends it hears less
 * often when that is much. */
#define WI_RING_AHEAD 256
#define WI_RING_AHEAD_ALL 64
#define WI_RING_AHEAD_SHARED 2
#define WI_RING_TOLD 8

/* Slots of which the control block knows the contents: at least all that can
 * be under way, see wi_ring_note. */
#define WI_RING_NOTES 2048
_Static_assert(WI_RING_NOTES >
                   WHARF_MAX_RING_SLOTS + WI_RING_AHEAD + WI_RING_TOLD + 1,
               "a note is not written again before all have read it");

typedef enum wi_ring_part {
    WI_RING_OUT = 0,
    WI_RING_ASKED = 1, /* to join; the producer's next begin admits it */
    WI_RING_IN = 2,
    WI_RING_LEAVING = 3,
    WI_RING_DEAD = 4 /* for good */
} wi_ring_part;

/* One rank. `part` is changed by compare-and-swap: by the rank itself, and by
 * the producer from ASKED to IN and to DEAD. */
typedef struct wi_ring_member {
    uint32_t part;     /* wi_ring_part */
    uint32_t released; /* host backend: the word of that name */
    uint64_t from;     /* ALL: first slot of its own; set by the producer before
                          it is IN */
    uint64_t left;     /* ALL: when it left last, no slot from this one on was
                          its own; set by itself */
    uint64_t unused[5];
} wi_ring_member;

/* One slot's contents: of the slot whose index modulo WI_RING_NOTES this is. */
typedef struct wi_ring_note {
    uint64_t bytes;
    uint64_t claim; /* SHARED: (index + 1) << 16 | rank of who took it */
} wi_ring_note;

/* In the control block; the producer alone writes what no remark says. */
typedef struct wi_ring_control {
    uint32_t news;   /* changes when something was issued, or closed */
    uint32_t answer; /* changes when a consumer did something; any rank */
    uint64_t begun;  /* slots */
    uint64_t issued; /* slots that were ended */
    uint64_t taken;  /* SHARED: no slot below is free to take; any rank */
    uint32_t closed;
    uint32_t unused[7];
    wi_ring_member member[WHARF_MAX_RANKS];
    wi_ring_note note[WI_RING_NOTES];
} wi_ring_control;

/* Behind the events. */
#define WI_RING_CONTROL_OFFSET                                                 \
    ((WHARF_MAX_EVENTS * sizeof(wi_event_slot) + 63) / 64 * 64)
#define WI_RING_CONTROL_BYTES (WHARF_MAX_RINGS * sizeof(wi_ring_control))

struct wharf_ring {
    wharf_node *node;
    uint64_t serial;
    int place; /* in the control block */
    wi_ring_control *control;
    int slots, producer;
    wharf_ring_mode mode;
    size_t slot_bytes, stride;
    int timeout_ms; /* 0: the node's */
    uint32_t first; /* what a word holds before all */
    wi_mapping *memory;
    char *base;    /* of the slots, as mapped here */
    uint64_t *sum; /* of each slot; NULL: races are not looked for */

    /* Signals; on the host backend none of it. */
    wi_pad_run *run; /* run[r]: filled of rank r, one word; run[producer]:
                        released, one word a rank */
    wi_sync_how how; /* of the calling rank's steps */
    wharf_mechanism mechanism;
    char reason[WHARF_MAX_REASON + 1];
    wi_sync_step *steps; /* room for node size + 1 */
    uint32_t *report;    /* [0]: how far this rank's GPU is, [1]: a race that it
                            found, see ring_race.c */
    uint64_t ahead, told;

    /* This rank's own part. */
    pthread_mutex_t turn; /* held by a producing or consuming call */
    bool open;            /* a slot is begun and not ended */
    uint64_t next;        /* producer: slot to begin, or that is open; ALL: the
                             consumer's; SHARED: the one that is open */
    bool admitted;        /* ALL, consumer: `next` is valid */
    bool held;            /* SHARED, consumer: `next` is taken */
    bool owes;            /* ALL, consumer: it left, and the signal that says
                             so could not be issued */
    uint64_t ended;       /* slots that this rank ended */
    uint64_t counted;     /* SHARED, producer: slots whose takers are counted */
    uint32_t *count;      /* SHARED, producer: slots that each rank took */
    uint32_t *due;   /* SHARED, producer: of the last `slots` slots that are
                        counted, what the taker's word says once it has released
                        the slot; by index modulo slots */
    uint64_t *sent;  /* ALL, producer: slots of which each rank was told */
    uint64_t waited; /* ALL, producer: slots whose release this stream was made
                        to wait for */
    wharf_stream waited_stream;
    uint64_t waited_thread;   /* default streams may be one a thread */
    int64_t *dead_ns;         /* when each rank was found dead; 0: it was not */
    bool orphan;              /* the producer is dead; atomic */
    bool let_go;              /* and this rank's streams do not wait for it */
    pthread_mutex_t watch;    /* guards what follows */
    bool raced;               /* a race was found and not yet told of */
    wharf_error race;         /* the first such */
    wharf_ring *next_ring;    /* of the node */
    wharf_ring *next_watched; /* ring_watch.c */
};

static inline wi_ring_note *wi_ring_note_of(const wharf_ring *ring,
                                            uint64_t index)
{
    return &ring->control->note[index % WI_RING_NOTES];
}

static inline char *wi_ring_slot_at(const wharf_ring *ring, uint64_t index)
{
    return ring->base + (size_t)(index % (uint64_t)ring->slots) * ring->stride;
}

static inline bool wi_ring_on_host(const wharf_ring *ring)
{
    return ring->node->backend == WHARF_BACKEND_HOST;
}

static inline uint32_t wi_ring_part_of(const wharf_ring *ring, int rank)
{
    return __atomic_load_n(&ring->control->member[rank].part, __ATOMIC_SEQ_CST);
}

static inline wi_ring_control *wi_ring_controls(const wharf_node *node)
{
    char *shared = wi_comm_shared(node->comm);
    return (wi_ring_control *)(void *)(shared + WI_RING_CONTROL_OFFSET);
}

/* Words of the GPUs' side; `released` on the host backend too. */
uint32_t *wi_ring_filled(const wharf_ring *ring, int rank);
uint32_t *wi_ring_released(const wharf_ring *ring, int rank);

/* Begins a public call on a ring: checks the handle. */
wharf_status wi_ring_enter(const char *call, const wharf_ring *ring);

/* A stream of this rank's GPU that is not being captured, or the CPU. */
wharf_status wi_ring_check_stream(const wharf_ring *ring, wharf_stream stream);

/*
 * ALL, producer: what to wait for of rank r's word so that of the first `slots`
 * slots all are released that it ever held, also before it left; 0: nothing. Up
 * to `known` that was waited for before. See wi_ring_member.
 */
uint64_t wi_ring_owed(const wharf_ring *ring, int r, uint64_t known,
                      uint64_t slots);

/* ---- ring_hold.c: the host waits ----------------------------------------- */

wi_deadline wi_ring_deadline(const wharf_ring *ring);

/*
 * Producer: holds until the first `slots` slots are released by all ranks that
 * they went to, as the CPU sees it; with WHARF_RING_SHARED they are counted.
 * WHARF_ETIMEDOUT names who is behind.
 */
wharf_status wi_ring_hold_released(wharf_ring *ring, uint64_t slots,
                                   wi_deadline deadline);

/* SHARED, producer: holds until the first `slots` slots are taken, and counts
 * by whom. */
wharf_status wi_ring_hold_taken(wharf_ring *ring, uint64_t slots,
                                wi_deadline deadline);

/* Either side: holds while `ahead` slots that it ended are not through on its
 * GPU. */
wharf_status wi_ring_hold_ahead(wharf_ring *ring, wi_deadline deadline);

/* Consumer: holds until slot `index` is filled, as the CPU sees it. */
wharf_status wi_ring_hold_filled(wharf_ring *ring, uint64_t index,
                                 wi_deadline deadline);

/* Issues signals on a stream, or now, from the CPU: then they are complete on
 * return, and cannot be overtaken by those of a stream later. */
wharf_status wi_ring_signal(wharf_ring *ring, wharf_stream stream,
                            const wi_sync_step *steps, int count);

/* Tells the other side's host. */
void wi_ring_ring(uint32_t *word);

/* SHARED: who took a slot, -1: nobody yet. */
int wi_ring_taker(const wharf_ring *ring, uint64_t index);

/* ---- ring_watch.c: the dead ---------------------------------------------- */

/* CUDA backend: a thread of this process looks after its rings. */
wharf_status wi_ring_watch_add(wharf_ring *ring);
void wi_ring_watch_remove(wharf_ring *ring);

/* Looks for dead ranks, and frees what they hold. */
void wi_ring_look(wharf_ring *ring);

/* Lets this rank's streams go, that wait for ranks which may never answer. */
void wi_ring_let_go(const wharf_node *node);

/* Host backend: is the producer dead? Any thread. */
void wi_ring_ask_producer(wharf_ring *ring);

/* WHARF_EPEER, with the record, if the producer is known to be dead. */
wharf_status wi_ring_check_producer(const wharf_ring *ring);

/* ---- ring_race.c --------------------------------------------------------- */

/* With WHARF_CHECK_RACES: at the producer's end, the consumer's begin and end.
 */
wharf_status wi_ring_race_fill(wharf_ring *ring, wharf_stream stream,
                               size_t bytes);
wharf_status wi_ring_race_look(wharf_ring *ring, wharf_stream stream, bool end);
/* Takes up what the GPU found. */
void wi_ring_race_collect(wharf_ring *ring);

/* ---- At the end of a node ------------------------------------------------ */

/* Collective: what is left of rings, each named in a warning. */
void wi_ring_close_all(wharf_node *node, wi_deadline deadline);

#endif
