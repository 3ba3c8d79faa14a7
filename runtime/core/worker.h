/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a worker, shared by the worker_*.c files alone.
 *
 *   rank                                    worker
 *   the caller's threads ── data socket ──> the program's threads
 *   watcher (worker_watch.c) ─ control ───> watcher (worker_child.c)
 *   watcher <── stdout, stderr
 *
 * The rank's watcher starts processes, hears them die and starts the next; it
 * alone touches what belongs to one process (wi_life). What the caller's
 * threads share with it is under worker->lock, which nobody holds while he
 * waits.
 *
 * Deaths and messages. Each process has a data socket pair of its own. The
 * caller's calls work on the tube of the last process whose death they have not
 * told; only the call that tells it goes on to the newest process. So answers
 * sent before a death come first, and no message meets a process other than the
 * one that it was sent to.
 */
#ifndef WI_CORE_WORKER_H
#define WI_CORE_WORKER_H

#include "core/visit.h"

/* The rank's end of one process's data socket. Under worker->lock. */
typedef struct wi_tube {
    int fd;
    int users; /* calls that wait on it */
    bool retired;
} wi_tube;

/* A line and its tag are one write, which a pipe takes whole. */
#define WI_LINE_TAG 64
#define WI_LINE_TEXT (4096 - WI_LINE_TAG)

/* Lines on their way from a worker to the rank's own streams. */
typedef struct wi_lines {
    int fd; /* -1: at its end, or never there */
    int to;
    bool full;  /* `to` takes nothing now: what is here waits, and the worker */
    bool ended; /* nothing more comes out of fd */
    size_t used;
    char text[WI_LINE_TEXT];
} wi_lines;

/* Buffers that are lent together. Under worker->lock, but that an offer is
 * there until the watcher takes it away. */
typedef struct wi_lent {
    wi_offer *offer; /* NULL: it could not be mapped, */
    wharf_error why; /* and why */
    int count;
    wharf_buffer *buffer[]; /* not to be detached */
} wi_lent;

/* One process. */
typedef struct wi_life wi_life;
struct wi_life {
    wi_life *next; /* of the dying */
    int pid, pidfd, control;
    wi_lines out, err;
    wi_tube *tube; /* while it lives */
    int64_t started_ns, join_by_ns;
    bool joined;
    bool stop_told;
    bool lost;   /* somebody else waited for it: its number may be another's */
    int welcome; /* offers that the join was told of */
    int offers_sent;
    bool noted;          /* the next one was announced singly */
    wi_sending sending;  /* of the next one */
    bool blocked;        /* its socket is full */
    int offers_mapped;   /* under worker->lock */
    wharf_error trouble; /* what it said of itself; status OK: nothing */
};

typedef struct wi_child wi_child; /* worker_child.c */

struct wharf_worker {
    wi_child *child; /* the worker's own end; NULL: the rank's */
    wharf_node *node;
    wharf_worker *next; /* of the node */

    /* Constant after the start. */
    wharf_worker_options options;
    char *path;
    char **argv;
    char **envp;
    pthread_t watcher;
    int wake; /* the watcher looks at the state again */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool tried;      /* the first process was started, or could not be */
    wharf_error why; /* why it could not; status OK: it was */
    wi_life *now;    /* the process that counts; written by the watcher */
    wi_tube *tube;   /* what calls work on; NULL: wait for the next process */
    wi_tube *fresh;  /* of a later process; becomes tube when all is told */
    int told;        /* deaths that calls have told of */
    int offers;
    wi_lent **lent; /* `offers` of them; number n at n - 1 */
    size_t lent_room;
    bool pending;     /* sent, not answered */
    int64_t heard_ns; /* of the last message or sign of life */
    bool at_work;     /* a message went to or from the newest process */
    int in_a_row;     /* deaths of such that were not */
    bool stop_asked;
    int64_t died_ns; /* of the death that waits for its recovery */
    wharf_worker_report report;
    wharf_worker_death
        death[WHARF_MAX_WORKER_DEATHS]; /* number n at n - 1, modulo */

    /* The watcher's own. */
    wi_life *dying;
    int dying_count;
    bool stopping;
    int64_t stop_by_ns; /* then it is killed */
    int64_t restart_ns; /* when the next process is started; 0: never */
};

/* ---- What travels on the control socket ---------------------------------- */

typedef enum wi_note_kind {
    WI_NOTE_HELLO = 1,   /* worker: number: version */
    WI_NOTE_WELCOME = 2, /* rank: number: offers that follow */
    WI_NOTE_JOINED = 3,  /* worker: record: of a failed join */
    WI_NOTE_FAULT = 4,   /* worker: record */
    WI_NOTE_ALIVE = 5,   /* worker */
    WI_NOTE_LEND = 6,    /* rank: an offer follows */
    WI_NOTE_LENT = 7,    /* worker: record: of a failed mapping */
    WI_NOTE_STOP = 8     /* rank */
} wi_note_kind;

#define WI_NOTE_MAGIC UINT32_C(0x4f4e4857)

typedef struct wi_note {
    uint32_t magic;
    uint32_t kind;
    int32_t number;
    int32_t pad;
    wharf_error record;
} wi_note;

/* Never waits. WHARF_ENOTREADY, WHARF_EPEER (the other end is gone),
 * WHARF_EPROTOCOL. */
wharf_status wi_note_send(int fd, wi_note_kind kind, int number,
                          const wharf_error *record);
wharf_status wi_note_receive(int fd, wi_note *note);

/* The environment variable by which a program knows that it is a worker, and
 * the descriptors that it finds. */
#define WI_WORKER_VARIABLE "WHARF_WORKER"
#define WI_WORKER_CONTROL 3
#define WI_WORKER_DATA 4

/* ---- Messages (worker_message.c) ----------------------------------------- */

/* One message on a data socket. `look`: do not wait (WHARF_ENOTREADY).
 * WHARF_EPEER, without a record: the other end is gone and nothing is left. */
wharf_status wi_message_send(int fd, const void *data, size_t size,
                             wi_deadline deadline, bool look);
wharf_status wi_message_receive(int fd, void *data, size_t capacity,
                                size_t *size, wi_deadline deadline, bool look);

/* ---- The rank's end ------------------------------------------------------ */

/* Body of the watcher; returns when the worker was stopped and nothing of it is
 * left. */
void *wi_worker_watch(void *worker);

/* Under the lock. */
void wi_worker_wake(const wharf_worker *worker);
void wi_tube_drop(wi_tube *tube); /* closes when its last user has left */

/* One process (worker_life.c), by the watcher alone. */
wharf_status wi_life_start(const wharf_worker *worker, wi_life **life);
void wi_life_free(wi_life *life);
/* Passes on what has been written, as far as the rank's streams take it. */
void wi_life_drain(const wharf_worker *worker, wi_life *life);
/* The last of a dead process's; waits a moment for streams that are full. */
void wi_life_drain_last(const wharf_worker *worker, wi_life *life);

/* Lending (worker_lend.c). The first offer, of the options, at the start. */
wharf_status wi_lend_first(wharf_worker *worker);
void wi_lend_free(wharf_worker *worker);

/* By the watcher alone. Sends what the process has not got and may have, as far
 * as its socket takes it: WHARF_OK; WHARF_EPEER; what else ends the process. */
wharf_status wi_lend_welcome(wharf_worker *worker, wi_life *life);
wharf_status wi_lend_send(wharf_worker *worker, wi_life *life);
/* More of what was promised has to be sent before anything else may be. */
bool wi_lend_under_way(const wi_life *life);
/* The process has mapped an offer, or says why not. */
void wi_lend_mapped(wharf_worker *worker, wi_life *life, const wi_note *note);

/* Under the lock: a death goes into the report; the process that counts has
 * joined, as it says itself or as a message from it shows (worker_report.c). */
void wi_report_death(wharf_worker *worker, const wi_life *life, wharf_death how,
                     int code, const char *cause);
void wi_report_joined(wharf_worker *worker);

/* With the node: workers that were not stopped. */
void wi_worker_stop_all(wharf_node *node);

/* Under the lock: until something may have changed, so look again; false: the
 * deadline has passed. */
bool wi_worker_wait(wharf_worker *worker, wi_deadline deadline);
/* WHARF_ETIMEDOUT: "the worker" and `what`. */
wharf_status wi_worker_late(const char *what);

/* Checks a handle and its end of the worker. Ends with wi_call_end. */
wharf_status wi_worker_enter(const char *call, const wharf_worker *worker,
                             bool child);

/* ---- The worker's end (worker_child.c) ----------------------------------- */

int wi_child_socket(const wi_child *child);
/*
 * The data socket has ended: WHARF_ECLOSED if the rank stops this worker. If it
 * is dead this does not return: the watcher is about to end the process and its
 * group, and the program must not end alone before.
 */
wharf_status wi_child_closed(const wi_child *child);

#endif
