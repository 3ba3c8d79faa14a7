/* SPDX-License-Identifier: MIT */
/*
 * What the files of core share: the bodies of the public objects.
 *
 * Replicated state. Every rank of a node makes the same collective calls in
 * the same order and decides only on agreed data, so lists, event slots and
 * the pool of a node are the same on every rank without being sent around.
 *
 * Locking. node->collective is held through every collective call; it guards
 * the lists, the pool and the slots. What a buffer or an event is made of does
 * not change after its attach; its lazily made parts have locks of their own.
 */
#ifndef WI_CORE_CORE_H
#define WI_CORE_CORE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "core/layout.h"
#include "device/device.h"
#include "topo/topo.h"
#include "wharf/buffer.h"
#include "wharf/event.h"
#include "wharf/exchange.h"
#include "wharf/node.h"
#include "wharf/notify.h"
#include "wharf/worker.h"

/* ---- Node -------------------------------------------------------------- */

/* What the environment and the caller's options come to. Must agree on all
 * ranks, but for keep_current and how copies go. */
typedef struct wi_node_settings {
    int64_t backend;
    int64_t placement;
    int64_t timeout_ms;
    int64_t strict;
    int64_t keep_current;
    int64_t bind;
    int64_t refuse_bad;
    int64_t pool;
    int64_t pool_bytes;
    int64_t handle; /* 0 auto, 1 vmm, 2 ipc, 3 fabric */
    int64_t chunk_bytes;
    int64_t mechanism; /* wharf_mechanism */
    int64_t copy;      /* wi_copy_wanted */
    int64_t copy_kernel_most;
    int64_t copy_blocks;
    int64_t check_races;
    int64_t host_memory; /* 0 auto, 1 vmm, 2 memfd */
    int64_t exchange_piece;
    int64_t exchange_remote;
    int64_t cuda_aware; /* 0 auto, 1 on, 2 off */
    int64_t parcel_fds; /* most descriptors that go at a time, of one rank; the
                           lowest limit of open files decides */
    char device_map[256];
} wi_node_settings;

/* A GPU that ranks of the node use. */
typedef struct wi_gpu {
    wi_device_desc desc; /* ordinal: in the calling process, -1 unseen */
    int owner;
    int users;
} wi_gpu;

/* How memory of a space is made on this node, decided at open. */
typedef struct wi_way {
    const wi_memory_ops *ops;
    size_t granularity;
    bool degraded;                     /* slower than what was asked for */
    char reason[WHARF_MAX_REASON + 1]; /* why this kind */
} wi_way;

/* Kinds of device-space memory in order of preference, then the host. */
#define WI_WAYS 5 /* the fifth in guests only, core/visit.c */

typedef struct wi_mapping wi_mapping;
typedef struct wi_pad_page wi_pad_page;
typedef struct wi_visit wi_visit; /* core/visit.h */
typedef struct wi_kept wi_kept;   /* core/visit.h */
typedef struct wi_existing wi_existing;
typedef struct wi_rescue wi_rescue; /* signal_rescue.c */

/* Most internal mappings for signals (core/signal.h) of one node. */
#define WI_PAD_PAGES 64

struct wharf_node {
    wi_comm *comm;   /* NULL in a guest, core/visit.h */
    wi_visit *visit; /* of a guest; else NULL */
    int rank, size;
    wi_node_settings settings;
    wharf_backend backend;
    char backend_reason[192];
    char warnings[1024]; /* of the planner, one a line */
    wi_device *device;   /* this rank's GPU, or the host device */
    int gpus;
    wi_gpu *gpu;         /* gpus of them */
    wi_peer *peers;      /* gpus * gpus: row reaches column */
    int *gpu_of_rank;    /* -1 on the host backend */
    wi_topo_bound bound; /* what the setting `bind` changed */
    wi_topo_line *lines; /* size of them */
    wi_way device_way[WI_WAYS];
    int device_ways;    /* how many are possible */
    int device_first;   /* the first not found wanting so far */
    wi_way host_way;    /* memfd; always what is mirrored */
    wi_way host_locked; /* the same, where the driver's memory would do but for
                           `reason`; granularity as host_driver's */
    wi_way host_driver; /* made by the driver; ops NULL: cannot be */
    bool host_tried;    /* then: whether it works is known */
    char host_refused[96];
    int *numa_of_rank; /* at the last NUMA_LOCAL attach */
    pthread_mutex_t collective;
    uint64_t serial; /* of the last object made */
    wharf_buffer *buffers;
    wharf_event *events; /* made by wharf_event_create */
    wi_mapping *pool;    /* newest first */
    wi_mapping *keeper;  /* keeper.c; NULL: none */
    int keeper_fds[WI_BLOCK_CHUNKS];
    int keeper_fd_count;
    bool copy_kernels; /* the kernels that copy run on this rank's GPU */
    wharf_notify *notifies;
    wharf_barrier *barriers;
    wharf_worker *workers; /* worker.c, under its lock */
    struct wharf_ring *rings;
    uint64_t ring_places; /* bits: which are taken, core/ring.h */
    wharf_exchange *exchanges;
    wi_pad_page *pads[WI_PAD_PAGES];
    int pad_pages;
    bool slow_told;     /* a slow mechanism was warned of */
    uint8_t *slot_used; /* WHARF_MAX_EVENTS flags */
    /* WHARF_MAX_EVENTS of them: 2^32 + the highest value of a slot's word that
     * a stream here was made to wait for, or 0; event_waits: for any. Atomic.
     */
    uint64_t *event_waited;
    bool event_waits;
    wi_rescue *rescue; /* NULL on the host backend, and in a guest */
    int slots_from;    /* every slot below is in use */
    uint32_t buffer_count;
    uint32_t state; /* of what is replicated, see wi_node_toggle */
    bool apart;     /* see wi_node_let_go */
};

/*
 * Brackets of every collective call on a node: enter checks the handle and
 * takes node->collective; leave gives it back and returns status. If enter
 * fails, its status is the call's and leave is not called.
 */
wharf_status wi_node_enter(const char *call, wharf_node *node);
wharf_status wi_node_leave(wharf_node *node, wharf_status status);

/* Begins a local call on a node: status of the handle check; end it with
 * wi_call_end in every case. */
wharf_status wi_node_local(const char *call, const wharf_node *node);

/* WHARF_EARG unless it is a rank of the node; `name` is the argument's. */
wharf_status wi_node_check_rank(const wharf_node *node, const char *name,
                                int rank);

/* The object, after wi_node_unplace or with what that gives back. */
void wi_node_delete(wharf_node *node);

/* Deadline of a collective that starts now. */
wi_deadline wi_node_deadline(const wharf_node *node);

/* Fills backend, devices, plan, links; then the ways, of a node whose comm is
 * open. */
wharf_status wi_node_place(wharf_node *node, wi_deadline deadline);
wharf_status wi_node_find_ways(wharf_node *node, wi_deadline deadline);
void wi_node_unplace(wharf_node *node);

/* "GPU-..." or "MIG-...". */
void wi_uuid_format(const wi_device_desc *desc, char text[48]);

/* Loads what copies need, on a device that was just opened. A device that
 * cannot run the kernels still has its copy engines: no failure. */
wharf_status wi_copy_open(wharf_node *node);

/* ---- Meeting: how every collective call starts -------------------------- */

typedef enum wi_call {
    WI_CALL_ATTACH = 1,
    WI_CALL_ATTACH_MEMORY,
    WI_CALL_DETACH,
    WI_CALL_POOL_TRIM,
    WI_CALL_EVENT_CREATE,
    WI_CALL_EVENT_DESTROY,
    WI_CALL_NOTIFY_CREATE,
    WI_CALL_NOTIFY_DESTROY,
    WI_CALL_BARRIER_CREATE,
    WI_CALL_BARRIER_DESTROY,
    WI_CALL_EXCHANGE_CREATE,
    WI_CALL_EXCHANGE_DESTROY,
    WI_CALL_RING_CREATE,
    WI_CALL_RING_DESTROY,
    WI_CALL_CLOSE
} wi_call;

/* One rank's arguments. Of fixed size, so that ranks which entered different
 * calls still meet, and learn it. */
typedef struct wi_meeting {
    uint32_t call;
    int32_t status;  /* of this rank's own checks */
    uint64_t serial; /* of the object, where there is one */
    int32_t count;   /* buffers to attach, owner of an event, waiter of a
                        notify, members of a barrier */
    uint32_t flags;  /* of a signal: capturable */
    uint32_t space;  /* of a signal: mechanism */
    uint32_t state;  /* filled in by wi_node_meet */
    uint64_t size;   /* the only field that may differ */
    char name[32];
} wi_meeting;

/*
 * All ranks' meetings, in rank order, if every rank entered the same call with
 * the same arguments and had nothing to object; else the same failure on every
 * rank (WHARF_EMISMATCH names rank and field).
 */
wharf_status wi_node_meet(wharf_node *node, const wi_meeting *mine,
                          wi_meeting *all, wi_deadline deadline);

/* For a checker that reads one file at a time. */
#ifdef __clang_analyzer__
#define wi_node_meet(node, mine, all, deadline)                                \
    (wi_node_meet(node, mine, all, deadline) || (mine)->status ? WHARF_EOS     \
                                                               : WHARF_OK)
#endif

/*
 * What the node's ranks must hold alike goes into node->state, which meetings
 * compare: a rank that never came to a detach which the others gave up on still
 * has what they let go, and from then on would find other free slots than they.
 * Called once when something is taken and once, with the same numbers, when it
 * is given back.
 */
void wi_node_toggle(wharf_node *node, uint32_t a, uint32_t b, uint32_t c);

/* Before the bracket of a call that may be a process's first: switches the
 * ranges of base/trace.h on if WHARF_TRACE says so. */
void wi_trace_decide(void);

/*
 * Collective: the agreement between closing imports and freeing at the owners.
 * Where the meeting showed that a rank is elsewhere, or holds other things,
 * none is held, for it would meet that rank's next call: WHARF_ETIMEDOUT,
 * without a record.
 */
wharf_status wi_node_let_go(wharf_node *node, wi_deadline deadline);

/* For a failure that every rank finds by itself from agreed data: one record
 * everywhere, that of rank 0. Returns status. */
wharf_status wi_decided_alike(wharf_status status);
#ifdef __clang_analyzer__
#define wi_decided_alike(status)                                               \
    (wi_decided_alike(WHARF_OK) || (status) ? WHARF_EOS : WHARF_OK)
#endif

/* Did every rank take part in the round that ended with status? Then what each
 * did before it is done everywhere. */
bool wi_all_came(wharf_status status);

/* ---- Events ------------------------------------------------------------ */

/* Records of one event whose driver events are alive at a time: a wait for one
 * of the last WI_EVENT_RING records waits for no later one. */
#define WI_EVENT_RING 4

/* One event in the control block: written by its owner alone. Zero when new,
 * but for the last two, which go on from user to user. */
typedef struct wi_event_slot {
    uint32_t word;       /* low half of issued: what waiters sleep on */
    uint32_t made;       /* bit k: handle[k] is valid */
    uint64_t issued;     /* records so far */
    int32_t word_gpu;    /* 1 + the GPU whose word was written last, 0: none */
    uint64_t word_total; /* records of all earlier users that had a word */
    unsigned char handle[WI_EVENT_RING][WI_EVENT_HANDLE_BYTES];
} wi_event_slot;

struct wharf_event {
    wharf_node *node;
    uint64_t serial; /* 0: belongs to a buffer */
    int owner;
    int slot;
    bool active;              /* false while its mapping sleeps in the pool */
    uint64_t base;            /* slot->issued when it last became active */
    uint64_t complete;        /* highest number seen complete here; atomic */
    pthread_mutex_t lock;     /* guards what follows, and records */
    wharf_stream last_stream; /* owner: of the last record */
    uint64_t last_thread;     /* and its caller, wi_thread_serial */
    uint32_t *word;           /* event_word.c; NULL: driver events alone */
    uint32_t word_first;      /* its value before the slot's first record */
    bool word_only;           /* no rank needs a driver event */
    wi_event *device_event[WI_EVENT_RING];
    wharf_event *next;
};

/* `count` neighbouring slots, or WHARF_ELIMIT. */
wharf_status wi_event_slots_take(wharf_node *node, int count, int *first);
void wi_event_slots_give(wharf_node *node, int first, int count);

void wi_event_init(wharf_event *event, wharf_node *node, int owner, int slot);
/* After the meeting of a detach: the event sleeps with its mapping. */
void wi_event_deactivate(wharf_event *event);
/* Closes what was opened (importers), or created (the owner, who also clears
 * the slot): importers first, an agreement, then the owner. `safe`: all have
 * closed theirs; otherwise the owner's driver events are left to the end of
 * the process. */
void wi_event_close_import(wharf_event *event);
void wi_event_fini(wharf_event *event, bool safe);
/* Unlinks, finishes and frees an event made by wharf_event_create. */
void wi_event_discard(wharf_event *event, bool safe);

/*
 * Ranks that share the owner's GPU, event_word.c. `record` counts as issued of
 * the slot does, unlike public numbers.
 */
/* At wi_event_init; alike on all ranks. */
void wi_event_word_init(wharf_event *event);
/* Owner, when the slot is given up: where its next user's values begin. */
void wi_event_word_fini(const wharf_event *event, wi_event_slot *slot,
                        uint64_t issued);
wharf_status wi_event_word_write(wharf_event *event, wharf_stream stream,
                                 uint64_t record);
wharf_status wi_event_word_wait(wharf_event *event, wharf_stream stream,
                                uint64_t record);
/* WHARF_OK: complete; WHARF_ENOTREADY. */
wharf_status wi_event_word_query(wharf_event *event, uint64_t record);
/* Lets the caller's streams go that wait for words of ranks which may never
 * write them (signal_rescue.c). */
void wi_event_word_let_go(wharf_node *node);

/* Bytes between the words of two events: a sector of the L2 cache. */
#define WI_EVENT_WORD_STRIDE 32

/* ---- Mappings and buffers ---------------------------------------------- */

/* The memory of one buffer: what the pool keeps. */
struct wi_mapping {
    wharf_node *node;
    const wi_way *way;
    wharf_space space; /* as asked for */
    unsigned flags;
    char reason[WHARF_MAX_REASON + 1];
    uint64_t *sizes; /* node size of them, as asked for */
    wi_layout layout;
    wi_range range;
    bool same_address;
    wi_block **block;    /* layout.blocks of them */
    wi_handle *handle;   /* what is known of each */
    void **pointer;      /* where each is mapped here */
    uint64_t *nonce;     /* of each, for the data check */
    wi_kept *kept;       /* of each, to be lent again; NULL: nothing */
    wharf_event *events; /* node size of them; NULL in a guest */
    int first_slot;
    uint64_t most_bytes;   /* device bytes on the fullest GPU */
    wi_existing *existing; /* core/existing.h; NULL: Wharf's own memory */
    wi_mapping *next;
};

struct wharf_buffer {
    wharf_node *node;
    uint64_t serial;
    char name[32];
    wi_mapping *mapping;
    bool pooled;
    int lent;             /* to workers of this rank; atomic */
    bool seen_outside;    /* programs outside may still map it; atomic */
    pthread_mutex_t lock; /* guards table, published */
    void **table;
    struct wi_publication *published; /* publish.c; NULL: not */
    wharf_buffer *next;
};

/* Begins a local call on a buffer, as wi_node_local does on a node. */
wharf_status wi_buffer_local(const char *call, const wharf_buffer *buffer);

/* Where a rank's segment is mapped here; NULL if it is empty. */
void *wi_mapping_segment(const wi_mapping *mapping, int rank);

/* A flag beyond those of wharf_buffer_options: memory of the library's own,
 * whose segments have no events. */
#define WI_MAPPING_NO_EVENTS 0x80000000u

/* In a guest (core/visit.h): mapped for reading where the kind can. */
#define WI_MAPPING_FOR_READING 0x40000000u

/* The object, not its memory. */
void wi_mapping_delete(wi_mapping *mapping);

/* Unlinks a buffer from its node and frees the object, not its mapping. */
void wi_buffer_discard(wharf_buffer *buffer);

/* Buffer objects that are not yet the node's: made and dropped (NULL is
 * ignored), or given to the node with their mapping; alike on all ranks. */
wharf_status wi_buffer_new(wharf_node *node, wharf_buffer **buffer);
void wi_buffer_drop(wharf_buffer *buffer);
wharf_buffer *wi_buffer_admit(wharf_buffer *buffer, wi_mapping *mapping,
                              const char *name);
/* WHARF_EARG for a size, or a name (may be NULL), that no buffer can have. */
wharf_status wi_buffer_check_size(size_t size);
wharf_status wi_buffer_check_name(const char *name);
/* WHARF_ELIMIT if the node cannot have `count` more. */
wharf_status wi_buffer_check_limit(const wharf_node *node, int count);

/* Takes the slots of a mapping's events; alike on all ranks. */
wharf_status wi_mapping_take_events(wi_mapping *mapping);

/* What one attach asks for, after the checks. */
typedef struct wi_attach {
    unsigned flags;
    wharf_space space;
    uint64_t *sizes; /* node size of them */
} wi_attach;

/*
 * Collective: makes `count` mappings, all or none. On failure nothing is left
 * and every rank returns the same status.
 */
wharf_status wi_mapping_make(wharf_node *node, int count,
                             const wi_attach *attach, wi_mapping **mappings,
                             wi_deadline deadline);

/* Collective: closes imports everywhere, agrees, frees at the owners. Returns
 * the agreement's status; gives back what may be given back in every case. */
wharf_status wi_mapping_free(wharf_node *node, int count, wi_mapping **mappings,
                             wi_deadline deadline);

/* Collective: the way of mappings in host space (host_space.c). */
wharf_status wi_host_way(wharf_node *node, int count, const wi_attach *attach,
                         const wi_way **way, wi_deadline deadline);
/* Owner, between create and map of a block: as NUMA flags and the like ask. */
wharf_status wi_host_place(wi_mapping *mapping, int block);
/* Any rank: what such a mapping's `reason` says beside the way's. */
void wi_host_describe(wi_mapping *mapping);

/* Owner: every byte zero. */
wharf_status wi_mapping_zero(wi_mapping *mapping);

/* Steps of making a mapping (mapping_share.c): owner's side, other ranks'
 * side, data check. */
wharf_status wi_mapping_share(wharf_node *node, int count,
                              wi_mapping **mappings, wi_deadline deadline);

/* A table of pointers in memory that this process's kernels read; given back by
 * ops->local_free (buffer_query.c). */
wharf_status wi_table_make(wi_device *device, void *const *pointers, int count,
                           void **table);

/* ---- Keeper -------------------------------------------------------------- */

/* Collective: makes what keeps links and exports set up between attaches.
 * Failing to is no failure of the node, unless the node itself is broken. */
wharf_status wi_keeper_open(wharf_node *node, wi_deadline deadline);
void wi_keeper_close(wharf_node *node, wi_deadline deadline);

/* ---- Pool -------------------------------------------------------------- */

/* Takes a kept mapping of exactly this shape out of the pool, or NULL. */
wi_mapping *wi_pool_take(wharf_node *node, const wi_attach *attach);

/* Collective: keeps a mapping whose work is done everywhere; what then exceeds
 * the bound is freed. */
wharf_status wi_pool_put(wharf_node *node, wi_mapping *mapping,
                         wi_deadline deadline);

/* Collective: frees all that is kept. */
wharf_status wi_pool_empty(wharf_node *node, wi_deadline deadline);

#endif
