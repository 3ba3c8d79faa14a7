/* SPDX-License-Identifier: MIT */
/* What the files of comm/ share: the communicator's body, the control block's
 * layout, and the steps of opening one. */
#ifndef WI_COMM_PRIVATE_H
#define WI_COMM_PRIVATE_H

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "comm/comm.h"
#include "wharf/node.h"

/* Changes whenever the control block or a message between ranks does. */
#define WI_COMM_PROTOCOL 2
#define WI_COMM_MAGIC 0x57485246u

/* ---- control block: memory that all ranks of the node map ---- */

/* Bytes of one rank's contribution to one round; a wharf_error must fit. */
#define WI_PART_BYTES 1000
/* Rounds whose outcome is remembered for a rank that comes late. */
#define WI_DECISIONS 64

/* What a rank says it takes part in. */
typedef struct wi_part_head {
    uint32_t kind;   /* wi_round_kind */
    uint32_t root;   /* of a broadcast */
    uint64_t bytes;  /* of the whole contribution, over all its rounds */
    int32_t status;  /* not WHARF_OK: data is a wharf_error */
    uint32_t unused; /* 0 */
} wi_part_head;

typedef struct wi_part {
    wi_part_head head;
    unsigned char data[WI_PART_BYTES];
} wi_part;

/* Whether a rank is there. */
typedef enum wi_presence {
    WI_ABSENT = 0,
    WI_PRESENT = 1,  /* without a lock: its death is not seen at once */
    WI_LOCKED = 2,   /* holds the lock of its byte as long as it lives */
    WI_LEFT = 3,     /* closed the node */
    WI_FINALIZED = 4 /* finalised MPI with the node open */
} wi_presence;

/* One rank's place. Only that rank writes it. */
typedef struct wi_slot {
    _Alignas(64) uint64_t seq;     /* last round that the rank came to */
    uint32_t presence;             /* wi_presence */
    _Alignas(64) wi_part parts[2]; /* round k uses k & 1 */
} wi_slot;

typedef struct wi_control {
    uint32_t magic;
    uint32_t protocol;
    uint32_t size;              /* ranks */
    _Alignas(64) uint32_t turn; /* changes with each decision, departure and
                                   late arrival; ranks sleep on it */
    uint32_t sleepers;          /* ranks asleep on turn; may be too high after
                                   one was killed, which only costs a call */
    _Alignas(64) uint64_t decisions[WI_DECISIONS]; /* round k: k modulo size */
    wi_slot slots[];
} wi_control;

typedef enum wi_round_kind {
    WI_ROUND_ALLGATHER = 1,
    WI_ROUND_BCAST = 2,
    WI_ROUND_AGREE = 3,
    WI_ROUND_OPEN = 4,
    WI_ROUND_CLOSE = 5
} wi_round_kind;

/* ---- descriptor channel ---- */

/* Parcels under way through rank 0 at a time. */
#define WI_RELAY 8
/* No further parcel is read while so many descriptors are held, so that a low
 * limit of open files suffices. */
#define WI_RELAY_FDS 16

typedef struct wi_message {
    uint64_t serial; /* of the exchange */
    int32_t index;   /* of the parcel */
    int32_t sender;
    int32_t count;   /* of descriptors that come along */
    uint32_t broken; /* 1: sender or relay failed, not to be taken */
    unsigned char bytes[WI_PARCEL_BYTES];
} wi_message;

typedef struct wi_relay {
    wi_message message;
    int fds[WI_PARCEL_FDS];
    bool own; /* fds belong to the caller's parcel, not to the relay */
} wi_relay;

/* Rank 0 has a socket to every rank, the others one to rank 0 (index 0). */
typedef struct wi_channel {
    int *sockets;         /* size entries, -1: none */
    struct pollfd *polls; /* size entries, scratch */
    int *got;             /* parcels that came from each rank */
    int *due;             /* parcels that each rank has to send */
    int *next;            /* index after the last parcel from each rank */
    uint64_t *sent;       /* rank 0: relayed parcels that each rank was sent */
    wi_relay *relay;      /* rank 0: ring of WI_RELAY */
    wi_relay *inbox;      /* scratch for one message */
    uint64_t serial;      /* of the last exchange */
} wi_channel;

/* ---- the communicator ---- */

struct wi_comm {
    MPI_Comm mpi;
    int rank;
    int size;
    int thread_level;
    wi_identity *identities; /* size entries */
    char remark[256];

    wi_control *control;
    size_t control_bytes; /* mapped */
    size_t shared_offset;
    int lock_fd; /* this rank's own open file description of the block */
    bool spin;   /* every rank has a CPU to itself */

    uint64_t round;  /* last round that this rank came to */
    bool ragged;     /* that round was given up */
    uint64_t broken; /* decision after which no round can succeed, else 0 */

    wi_channel channel;

    wi_comm *next; /* list of open ones, for MPI_Finalize */
};

/* ---- mpi.c: MPI with deadlines ---- */

bool wi_mpi_alive(void);
/* May this thread call MPI? */
bool wi_mpi_thread_allowed(int thread_level);
/* May this thread open something over a communicator of the user? */
wharf_status wi_mpi_usable(MPI_Comm user);
/* WHARF_EMPI with the library's text. */
wharf_status wi_mpi_fail(int code, const char *call);
/* One look at a request; WHARF_ENOTREADY (no record) while it is pending. */
wharf_status wi_mpi_test(MPI_Request *request, const char *call);
/* Tests until complete. WHARF_ETIMEDOUT, and WHARF_EPEER if a rank of `watched`
 * (may be NULL) is dead, leave the request pending. */
wharf_status wi_mpi_wait(MPI_Request *request, const char *call,
                         const wi_comm *watched, wi_deadline deadline);
/* Lets the library move the user's messages while we wait. */
void wi_mpi_poke(const wi_comm *comm);

/* ---- dup.c: one duplicate per user communicator; end of MPI ---- */

/* The cached duplicate; MPI_COMM_NULL if there is none yet. */
wharf_status wi_dup_find(MPI_Comm user, MPI_Comm *dup);
/* Ties a new duplicate to the user's communicator. */
wharf_status wi_dup_keep(MPI_Comm user, MPI_Comm dup);
/* Unties it without freeing it, after a time-out: the ranks may differ in how
 * far they got with it. */
void wi_dup_forget(MPI_Comm user);
/* Duplicates that are tied to communicators now; for tests. */
int wi_dup_count(void);
/* Ensures that wi_registry_finalize is called in MPI_Finalize. */
wharf_status wi_dup_watch_finalize(void);

/* ---- registry.c: the open communicators of this process ---- */

void wi_registry_add(wi_comm *comm);
void wi_registry_remove(wi_comm *comm);
/* MPI ends: tells the other ranks that this one is gone. */
void wi_registry_finalize(void);

/* ---- split.c: who shares memory ---- */

/* What each rank of the user's communicator tells about itself. */
typedef struct wi_card {
    wi_identity identity;
    int32_t leader; /* lowest rank that MPI says shares memory with it */
} wi_card;

/* groups[i] becomes the lowest rank of i's group. True if these are MPI's
 * groups. Pure. */
bool wi_split_groups(const wi_card *cards, int count, int *groups);
/* What to say about the group of `group`, "" for nothing. Pure. */
void wi_split_remark(const wi_card *cards, int count, const int *groups,
                     int group, char *text, size_t capacity);
/* For tests: MPI_Comm_split_type answers with communicators of size 1. */
extern int wi_split_test_shatter;

/* ---- one opening, until it succeeded or failed ---- */

/* What rank 0 tells the others about its socket. */
typedef struct wi_invite {
    uint32_t magic;
    uint32_t protocol;
    int32_t open; /* 0: rank 0 failed, there is no socket */
    uint32_t address_bytes;
    struct sockaddr_un address;
    unsigned char token[16];  /* proves a rank to rank 0 */
    unsigned char answer[16]; /* proves rank 0 to a rank */
} wi_invite;

/* Holds every buffer that MPI may still use after a time-out; then it is
 * abandoned and never freed. */
typedef struct wi_opening {
    MPI_Comm user;
    MPI_Comm whole; /* the duplicate */
    MPI_Comm node;
    int whole_rank;
    int whole_size;
    bool fresh;     /* whole was made by this opening */
    bool stuck;     /* a request is pending for ever */
    bool together;  /* the failure was agreed on by the whole */
    bool emergency; /* static storage, used when the heap is exhausted */
    wi_deadline deadline;
    MPI_Request request;
    int64_t numbers[2][3];
    wharf_error record;
    wi_card card;
    wi_card *cards; /* whole_size entries */
    int *groups;    /* whole_size entries */
    wi_invite invite;
    wi_comm *comm;           /* being built */
    struct wi_opening *next; /* list of abandoned ones */
} wi_opening;

/* Waits for o->request; notes when it stays pending. */
wharf_status wi_opening_wait(wi_opening *o, const char *call);
/* Agreement over an MPI communicator: the lowest failing rank's status and
 * record on every rank. */
wharf_status wi_opening_agree(wi_opening *o, MPI_Comm mpi, int rank,
                              wharf_status mine);
/* The same for one that was begun before (by wi_opening_agree_start). */
wharf_status wi_opening_agree_start(wi_opening *o, MPI_Comm mpi, int rank,
                                    wharf_status mine);
wharf_status wi_opening_agree_end(wi_opening *o, MPI_Comm mpi, int rank,
                                  wharf_status mine);
/* Makes o->node and fills o->cards, o->groups. */
wharf_status wi_split_run(wi_opening *o);

/* ---- hello.c: connecting the ranks, sending the control block ---- */

/* Leaves the ranks connected and the block mapped, or a failure of this rank;
 * the caller agrees. `mine` is how this rank fared before. */
wharf_status wi_hello_run(wi_opening *o, wharf_status mine);

/* What is read from a socket before it is trusted, apart from the sockets, for
 * fuzzing: rank of a message that shows the token, -1: not such a message. */
int wi_hello_join_rank(const void *data, size_t bytes,
                       const unsigned char token[16], int size);
/* What rank 0 says, with `fds` descriptors, to a rank that expects a control
 * block of control_bytes. WHARF_OK: one descriptor, of that block. */
wharf_status wi_hello_welcome_check(const void *data, size_t bytes, int fds,
                                    const unsigned char answer[16],
                                    size_t control_bytes, int rank);

/* For tests: called on rank 0 when its socket listens. */
extern void (*wi_hello_test_hook)(const struct sockaddr_un *address,
                                  socklen_t bytes);

/* ---- control.c ---- */

/* Bytes of the block and where the caller's part begins; WHARF_ELIMIT. */
wharf_status wi_control_layout(int size, size_t shared_bytes, size_t *bytes,
                               size_t *shared_offset);
/* Rank 0: fd of a new block, header written. */
wharf_status wi_control_create(wi_comm *comm, int *fd);
/* Maps the block, takes this rank's lock, says that it is present. */
wharf_status wi_control_join(wi_comm *comm, int fd);
/* Says good-bye (presence: LEFT or FINALIZED), unmaps. */
void wi_control_leave(wi_comm *comm);
void wi_control_mark(wi_comm *comm, wi_presence presence);
void wi_control_bump(wi_comm *comm);

/* ---- alive.c ---- */

/* Locks this rank's byte. False: the system has no such locks. */
bool wi_alive_lock(wi_comm *comm);
/* Has the rank died without leaving? */
bool wi_alive_dead(const wi_comm *comm, int rank);
/* Has it closed the node or finalised MPI? */
bool wi_alive_left(const wi_comm *comm, int rank);
/* Fills the record: WHARF_EPEER. */
wharf_status wi_alive_fail_dead(const wi_comm *comm, int rank);
wharf_status wi_alive_fail_left(const wi_comm *comm, int rank);
wharf_status wi_alive_fail_lost(const wi_comm *comm, int rank);
/* WHARF_ETIMEDOUT: `rank` and `more` others did not come. */
wharf_status wi_alive_fail_late(const wi_comm *comm, int rank, int more);

/* Between two looks for dead ranks. */
#define WI_WATCH_NS (100 * WI_NS_PER_MS)

/* How long to wait, and what to look after meanwhile. */
typedef struct wi_patience {
    int64_t begin;      /* ns */
    int64_t spin_until; /* ns */
    int64_t next_watch; /* ns: look for dead peers */
    int64_t next_poke;  /* ns: let MPI progress */
    unsigned turns;
    int watched; /* first rank of those whose turn it is to be looked at */
    bool asks;   /* in a collective; not yet known whether MPI may be called */
    bool pokes;  /* in a collective, from a thread that may call MPI */
} wi_patience;

void wi_patience_begin(wi_patience *patience, const wi_comm *comm,
                       bool collective);
/* True: look again at once, without sleeping. */
bool wi_patience_spins(wi_patience *patience);
/* Before a sleep: pokes MPI when due, and returns how long to sleep, in ms. */
int wi_patience_sleep_ms(wi_patience *patience, const wi_comm *comm);
/* True every 100 ms: time to look for dead peers, those that are covered. */
bool wi_patience_watch(wi_patience *patience, const wi_comm *comm);
/* Is it the rank's turn? Ranks that wait look at different ones, so that many
 * of them are no square of system calls; eight turns cover all. */
bool wi_patience_covers(const wi_patience *patience, const wi_comm *comm,
                        int rank);

/* ---- agree.c ---- */

/* A collective of the opening or the closing. */
wharf_status wi_round_collective(wi_comm *comm, wi_round_kind kind, int root,
                                 const void *mine, size_t bytes, void *all,
                                 wharf_status status, wi_deadline deadline);
/* If the round after the last was given up already: its status, else
 * WHARF_OK. */
wharf_status wi_round_peek(wi_comm *comm);
/* The record of a failure that this rank brings, made up if there is none. */
void wi_round_own_record(wharf_status status, wharf_error *record);
/* Takes over another rank's record; returns its status. */
wharf_status wi_round_adopt(const wharf_error *record, int rank);

/* ---- channel.c ---- */

wharf_status wi_channel_new(wi_comm *comm);
void wi_channel_free(wi_comm *comm);
/* One message with descriptors; WHARF_ENOTREADY when the socket is full. */
wharf_status wi_channel_send(int socket, const void *data, size_t bytes,
                             const int *fds, int count);
/* One message. *bytes 0: the peer is gone. *count descriptors, already
 * adopted, at most WI_PARCEL_FDS; -1: some did not fit (all closed). */
wharf_status wi_channel_receive(int socket, void *data, size_t capacity,
                                size_t *bytes, int *fds, int *count);

#endif
