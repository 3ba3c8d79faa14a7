/* SPDX-License-Identifier: MIT */
/*
 * Workers: processes to which a rank hands work that may go wrong. A kernel
 * that touches a bad address ruins the CUDA context of its process for good;
 * if that process is a worker, the rank learns it, the buffers and what is in
 * them stay, and the next worker is at work a moment later. The MPI job never
 * notices.
 *
 *   const char *argv[] = {"filter", "--fast", NULL};    in the rank
 *   options.buffers = &frames;
 *   options.buffer_count = 1;
 *   wharf_worker_start(node, argv, &options, &worker);
 *   wharf_worker_send(worker, &task, sizeof task, 0);
 *   status = wharf_worker_receive(worker, &answer, sizeof answer, NULL, 0);
 *   if (status == WHARF_EWORKER)
 *       send_the_task_again();
 *   wharf_worker_stop(&worker, NULL);
 *
 *   wharf_worker_join(NULL, &worker);                   in the worker's main
 *   wharf_worker_buffer(worker, 0, &frames);
 *   while (wharf_worker_receive(worker, &task, sizeof task, NULL, 0) == 0) {
 *       answer = work_on(frames, task);
 *       wharf_worker_send(worker, &answer, sizeof answer, 0);
 *   }
 *   wharf_worker_leave(&worker);
 *
 * A worker is started by exec, in a process group of its own, with its standard
 * streams, two sockets and nothing else of the rank's open; MPI launchers'
 * variables are taken out of its environment, so it never joins the job. It
 * ends with its rank, however the rank ends: one that has joined ends its whole
 * process group then, one that never joined is ended by the kernel. Processes
 * that a worker starts end with it unless they leave its process group.
 *
 * Buffers lent to a worker cannot be detached before it is stopped. What a
 * worker was writing when it died is undefined, everything else in the buffers
 * is as it was. Memory order: what the rank wrote before a send (on a stream:
 * and waited for) is seen by the worker after the matching receive, and the
 * other way round.
 */
#ifndef WHARF_WORKER_H
#define WHARF_WORKER_H

#include <stdio.h>

#include "wharf/base.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/status.h"

/* One end: a rank's, or the worker's own. */
typedef struct wharf_worker wharf_worker;

/* Most bytes of one message, most workers of one rank, most deaths of one
 * worker that are remembered singly. */
#define WHARF_MAX_MESSAGE 65536
#define WHARF_MAX_WORKERS 64
#define WHARF_MAX_WORKER_DEATHS 64

/* A timeout_ms of wharf_worker_send and wharf_worker_receive: do not wait. */
#define WHARF_NO_WAIT (-1)

/* What a worker is doing, as its rank sees it. */
typedef enum wharf_worker_state {
    WHARF_WORKER_STARTING = 0, /* its process runs and has not joined yet */
    WHARF_WORKER_RUNNING = 1,  /* it has joined; so say all calls that follow
                                  a message from it */
    WHARF_WORKER_DEAD = 2,     /* it died; the next one starts after a while */
    WHARF_WORKER_GIVEN_UP = 3, /* it died once more than restarts allow */
    WHARF_WORKER_ENDED = 4     /* it had joined, and ended by itself with exit
                                  code 0: no other one is started */
} wharf_worker_state;

/* How a worker died. */
typedef enum wharf_death {
    WHARF_DEATH_NONE = 0,
    WHARF_DEATH_EXIT = 1,    /* code: its exit code */
    WHARF_DEATH_SIGNAL = 2,  /* code: the signal's number */
    WHARF_DEATH_FAULT = 3,   /* its CUDA context was ruined; code: CUresult */
    WHARF_DEATH_SILENCE = 4, /* no answer for silence_ms; was killed */
    WHARF_DEATH_ABSENCE = 5, /* did not join within join_ms; was killed */
    WHARF_DEATH_START = 6    /* could not be started; code: errno */
} wharf_death;

/**
 * Options of wharf_worker_start. Start from WHARF_WORKER_OPTIONS_INIT. Times
 * are in ms; that for which the whole job was stopped, as batch systems do,
 * counts for none of join_ms, silence_ms and stop_ms.
 */
typedef struct wharf_worker_options {
    size_t struct_size;
    wharf_buffer *const *buffers; /* to lend, of the node */
    int buffer_count;
    int read_only;       /* 1: lent for reading, where the hardware can */
    int join_ms;         /* a worker that has not joined by then is killed;
                            0: the node's timeout */
    int silence_ms;      /* so is one that was sent something, or has left and
                            is waited for, and neither answers nor calls
                            wharf_worker_alive nor ends for so long; 0: no
                            limit */
    int stop_ms;         /* what wharf_worker_stop waits before it kills;
                            INIT: 2000, 0: not at all */
    int restarts;        /* most restarts; INIT: 16, 0: none, -1: no limit */
    int backoff_ms;      /* a worker that died before any message went to or
                            from it is started again after so long, doubled
                            for each in a row; others at once; INIT: 100 */
    int backoff_most_ms; /* the most of it; INIT: 10000 */
    wharf_switch tag;    /* unset, on: each line that the worker writes to its
                            stdout and stderr goes to the rank's as "[worker of
                            rank R, pid P] line", in pieces if it is longer
                            than 4000 bytes; while the rank's stream takes
                            nothing, the worker waits in its write. off: it has
                            the rank's own streams */
} wharf_worker_options;

#define WHARF_WORKER_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(wharf_worker_options), NULL, 0, 0, 0, 0, 2000, 16, 100, 10000,  \
            WHARF_SWITCH_UNSET                                                 \
    }

/** Options of wharf_worker_join. Start from WHARF_WORKER_JOIN_OPTIONS_INIT. */
typedef struct wharf_worker_join_options {
    size_t struct_size;
    int timeout_ms;            /* 0: the environment's WHARF_TIMEOUT_MS */
    wharf_switch keep_current; /* leave the thread's current device as it is */
} wharf_worker_join_options;

#define WHARF_WORKER_JOIN_OPTIONS_INIT                                         \
    {                                                                          \
        sizeof(wharf_worker_join_options), 0, WHARF_SWITCH_UNSET               \
    }

/* One death. Start from WHARF_WORKER_DEATH_INIT. */
typedef struct wharf_worker_death {
    size_t struct_size;
    int number; /* 1 up */
    int pid;    /* of the dead process, 0: never started */
    wharf_death how;
    int code;           /* see wharf_death */
    int joined;         /* 1: it had joined */
    int64_t ran_us;     /* from its start to its death, microseconds */
    int64_t recover_us; /* from its death until the next one had joined, back-
                           off included; -1: not yet, or never */
    char cause[160];    /* in words */
} wharf_worker_death;

#define WHARF_WORKER_DEATH_INIT                                                \
    {                                                                          \
        sizeof(wharf_worker_death), 0, 0, WHARF_DEATH_NONE, 0, 0, 0, 0,        \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* What became of a worker so far. Start from WHARF_WORKER_REPORT_INIT. */
typedef struct wharf_worker_report {
    size_t struct_size;
    wharf_worker_state state;
    int pid;    /* of the process that runs, 0: none */
    int starts; /* processes started */
    int deaths;
    int exits, signals, faults, silences, absences, failed_starts; /* of them */
    int64_t sent, received; /* messages */
    int64_t recover_us;     /* of the last death that was recovered from, -1 */
    int64_t recover_least_us, recover_most_us; /* over all of them, -1 */
    wharf_worker_death last;                   /* how NONE: nobody died */
} wharf_worker_report;

#define WHARF_WORKER_REPORT_INIT                                               \
    {                                                                          \
        sizeof(wharf_worker_report), WHARF_WORKER_STARTING, 0, 0, 0, 0, 0, 0,  \
            0, 0, 0, 0, 0, 0, 0, 0, WHARF_WORKER_DEATH_INIT                    \
    }

WHARF_BEGIN_DECLS

/**
 * Starts a worker and watches it: from a thread of the library's own, which
 * starts the next one when it dies, and passes its output on.
 *
 * Local to the calling rank, any thread. Returns when the process runs; it
 * joins while the caller goes on, and what is sent before is delivered then.
 *
 * @param node    an open node, as a rank of it (not in a worker)
 * @param argv    program (looked for in PATH if it holds no slash) and its
 *                arguments, ends with NULL; copied
 * @param options NULL for defaults; what it points to is copied, buffers stay
 *                the caller's and cannot be detached before the stop
 * @param[out] worker to be given to wharf_worker_stop; untouched on failure
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_ELIMIT; WHARF_EOS (no such
 *         program, no permission, no process or descriptor left);
 *         WHARF_EUNSUPPORTED (a buffer that this rank cannot lend, see
 *         WHARF_LEND; memory of wharf_buffer_attach_memory); WHARF_EFAULT (its
 *         own context is ruined and a buffer on a GPU is to be lent);
 *         WHARF_ENOMEM; WHARF_EDRIVER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_start(wharf_node *node, const char *const *argv,
                   const wharf_worker_options *options, wharf_worker **worker);

/**
 * Lends one more buffer to a worker, and to those that follow it.
 *
 * Local to the calling rank, any thread. Returns when a worker that is there
 * has mapped it (one that is starting has to join first); then it is the last
 * one of wharf_worker_buffers there.
 *
 * @param worker    the worker
 * @param buffer    of the worker's node
 * @param read_only 1: for reading, where the hardware can
 * @return WHARF_OK (also with no worker running: the next one gets it);
 *         WHARF_EARG; WHARF_ESTATE; WHARF_ETIMEDOUT (the worker has not mapped
 *         it yet); as wharf_worker_start, and what mapping answered there
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_lend(wharf_worker *worker,
                                                         wharf_buffer *buffer,
                                                         int read_only);

/**
 * Sends one message to the other end.
 *
 * Local, any thread; both ends have this call. Messages arrive whole, in order,
 * or not at all because that worker died: then a call of the rank says
 * WHARF_EWORKER once for each death that it has not heard of, whether or not a
 * message was under way, and the next call deals with the next worker. Nothing
 * that was sent to a dead worker reaches its successor. After a worker that
 * ended by itself with exit code 0 there is none: every call says WHARF_ELIMIT.
 *
 * @param worker     either end
 * @param data       bytes
 * @param size       0 .. WHARF_MAX_MESSAGE
 * @param timeout_ms most time to wait for room in ms; 0: the node's timeout;
 *                   WHARF_NO_WAIT
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_ENOTREADY (no room, only
 *         with WHARF_NO_WAIT); WHARF_ETIMEDOUT; in a rank: WHARF_EWORKER (a
 *         worker died), WHARF_ELIMIT (and no restart is left, or it ended); in
 *         a worker: WHARF_ECLOSED (the rank stops this worker: leave and end)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_send(wharf_worker *worker,
                                                         const void *data,
                                                         size_t size,
                                                         int timeout_ms);

/**
 * Receives one message from the other end.
 *
 * Local, any thread; both ends have this call. What a worker sent before it
 * died is received before its death is told.
 *
 * @param worker     either end
 * @param[out] data  where to put it
 * @param capacity   bytes of data; a message that is longer stays where it is
 * @param[out] size  bytes of the message; NULL is allowed
 * @param timeout_ms most time to wait in ms; 0: the node's timeout in a rank,
 *                   for ever in a worker; WHARF_NO_WAIT: only look
 * @return as wharf_worker_send; WHARF_EARG also for a message longer than
 *         capacity; WHARF_ENOTREADY: there is none (only with WHARF_NO_WAIT)
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_receive(wharf_worker *worker, void *data, size_t capacity,
                     size_t *size, int timeout_ms);

/**
 * What the worker is doing.
 *
 * Local to the calling rank, any thread.
 *
 * @param worker the worker
 * @param[out] state the state at the moment
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_state_get(wharf_worker *worker, wharf_worker_state *state);

/**
 * Counts and times of a worker so far.
 *
 * Local to the calling rank, any thread.
 *
 * @param worker the worker
 * @param[in,out] report started from WHARF_WORKER_REPORT_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_report_get(wharf_worker *worker, wharf_worker_report *report);

/**
 * One of the worker's deaths: the last WHARF_MAX_WORKER_DEATHS are remembered.
 *
 * Local to the calling rank, any thread.
 *
 * @param worker the worker
 * @param number 1 up, in order of time
 * @param[in,out] death started from WHARF_WORKER_DEATH_INIT, filled
 * @return WHARF_OK; WHARF_EARG (no such death, or forgotten); WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_death_get(
    wharf_worker *worker, int number, wharf_worker_death *death);

/**
 * Prints the report and the remembered deaths, one a line.
 *
 * Local to the calling rank, any thread.
 *
 * @param worker the worker
 * @param file where to print
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EOS (writing failed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_print(wharf_worker *worker,
                                                          FILE *file);

/**
 * Stops a worker: its receive answers WHARF_ECLOSED, it has stop_ms to end by
 * itself, then its process group is killed. Nothing of it is left afterwards.
 *
 * Local to the calling rank, any thread that is alone with the worker.
 * wharf_node_close stops workers that are still there, with a warning.
 *
 * @param[in,out] worker set to NULL
 * @param[in,out] report NULL, or started from WHARF_WORKER_REPORT_INIT: filled
 *                       with the last report; the end that was asked for is no
 *                       death unless it took a signal or an exit code
 * @return WHARF_OK; WHARF_EARG (also a report that cannot be filled: nothing
 *         was stopped); WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_stop(wharf_worker **worker, wharf_worker_report *report);

/**
 * In the program that wharf_worker_start runs: maps what the rank lends, at the
 * rank's addresses where they are free, and makes the rank's GPU current.
 *
 * Local, once in a process, before it starts processes of its own. Needs no
 * MPI and uses none. From here on the process ends at once, with its process
 * group, when its rank is gone.
 *
 * @param options NULL for defaults
 * @param[out] worker this end, to be given to wharf_worker_leave; untouched on
 *                    failure
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (not started by
 *         wharf_worker_start, or joined already); WHARF_ECONFIG; WHARF_ENODEV
 *         (the GPU is not visible here); WHARF_ECLOSED (the rank stops this
 *         worker already: end); WHARF_EPEER, WHARF_ETIMEDOUT,
 *         WHARF_EPROTOCOL; WHARF_EUNSUPPORTED, WHARF_EDEVMEM, WHARF_ENOMEM,
 *         WHARF_EDRIVER, WHARF_EOS
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_join(
    const wharf_worker_join_options *options, wharf_worker **worker);

/**
 * In a worker: the node of its rank, as the rank sees it. All local calls work
 * on it, collective ones answer WHARF_ESTATE.
 *
 * Local, any thread. Owned by the worker: it ends with wharf_worker_leave.
 *
 * @param worker this end
 * @param[out] node the node; wharf_node_rank is the rank that lends
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (also in a rank)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_node(wharf_worker *worker,
                                                         wharf_node **node);

/**
 * In a worker: the number of buffers that were lent to it so far.
 *
 * Local, any thread.
 *
 * @param worker this end
 * @return 0 or more; -1 if worker is no joined worker
 */
WHARF_API int wharf_worker_buffers(wharf_worker *worker);

/**
 * In a worker: one of the buffers that were lent to it. All local calls of
 * buffer.h work on it; events are for ranks.
 *
 * Local, any thread. Owned by the worker.
 *
 * @param worker this end
 * @param index  0 .. wharf_worker_buffers - 1, in the order of lending
 * @param[out] buffer the buffer
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_buffer(wharf_worker *worker, int index, wharf_buffer **buffer);

/**
 * In a worker: "still at work", for tasks that take longer than silence_ms.
 *
 * Local, any thread. Costs one system call.
 *
 * @param worker this end
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_worker_alive(wharf_worker *worker);

/**
 * In a worker: tells the rank that the CUDA context is ruined, and ends the
 * process. For faults that the program's own CUDA calls find; Wharf's calls
 * tell the rank by themselves when they meet one.
 *
 * Local, any thread. Flushes stdio. Does not return, except for a worker that
 * is none.
 *
 * @param worker this end
 * @param native the driver's or runtime's error number
 * @param what   its name or text, NULL: none
 * @return nothing
 */
WHARF_API void wharf_worker_fault(wharf_worker *worker, int native,
                                  const char *what);

/**
 * In a worker: gives everything back, before the end of main.
 *
 * Local; no other call may use worker at the same time. The process is still
 * ended with its rank.
 *
 * @param[in,out] worker set to NULL
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_worker_leave(wharf_worker **worker);

/**
 * The name of a way to die, such as "signal".
 *
 * Local, any thread.
 *
 * @param how any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_death_name(wharf_death how);

/**
 * The name of a state, such as "given up".
 *
 * Local, any thread.
 *
 * @param state any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_worker_state_name(wharf_worker_state state);

WHARF_END_DECLS

#endif
