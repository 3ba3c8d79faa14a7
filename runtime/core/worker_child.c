/* SPDX-License-Identifier: MIT */
/*
 * The worker's own end: joining, and a thread that ends the process with its
 * rank.
 *
 * That thread waits for the end of the control socket, which the kernel closes
 * when the rank is gone, however it went, and kills the whole process group.
 * The kernel's own order to kill (made before the exec, base/spawn.c) is taken
 * back once it runs: it would hit this process alone, and perhaps first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/trace.h"
#include "base/versioned.h"
#include "core/worker.h"

struct wi_child {
    int control, data;
    int wake; /* the watcher ends */
    pthread_t watcher;
    bool watched;
    uint32_t stopped;     /* 1: the rank said so; a futex */
    pthread_mutex_t lock; /* guards the node's list of buffers */
};

/* Of this process: set at the join, for reports of faults; atomic. */
static wi_child *joined;
static int join_tried;

int wi_child_socket(const wi_child *child)
{
    return child->data;
}

wharf_status wi_child_closed(const wi_child *child)
{
    while (!__atomic_load_n(&child->stopped, __ATOMIC_ACQUIRE))
        wi_futex_wait(&child->stopped, 0, WI_NEVER, 1000);
    return WHARF_ECLOSED;
}

/* ---- Watching the rank
 * ------------------------------------------------------- */

static _Noreturn void die_with_rank(void)
{
    /* The group is ours unless the program has moved to another one. */
    if (getpgrp() == getpid())
        kill(0, SIGKILL);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void map_more(wharf_worker *w, const wi_note *note)
{
    wi_child *c = w->child;
    pthread_mutex_lock(&c->lock);
    wharf_status status =
        wi_visit_add(w->node, c->control, wi_node_deadline(w->node));
    pthread_mutex_unlock(&c->lock);
    wharf_ignore(wi_note_send(c->control, WI_NOTE_LENT, note->number,
                              status == WHARF_OK ? NULL : wi_error_record()));
}

static void *watch_rank(void *argument)
{
    wharf_worker *w = argument;
    wi_child *c = w->child;
    wi_trace_thread("wharf rank");
    wi_call_begin("wharf_worker_join", w->node->rank);
    for (;;) {
        struct pollfd polls[2] = {{.fd = c->control, .events = POLLIN},
                                  {.fd = c->wake, .events = POLLIN}};
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            die_with_rank();
        /* It may be gone since before the kernel was told to watch it. */
        if (polls[1].revents && (polls[0].revents & POLLHUP))
            die_with_rank();
        if (polls[1].revents)
            break;
        wi_note note;
        wharf_status status = polls[0].revents
                                  ? wi_note_receive(c->control, &note)
                                  : WHARF_ENOTREADY;
        if (status == WHARF_EPEER || status == WHARF_EPROTOCOL)
            die_with_rank();
        if (status == WHARF_OK && note.kind == WI_NOTE_LEND)
            map_more(w, &note);
        if (status == WHARF_OK && note.kind == WI_NOTE_STOP) {
            __atomic_store_n(&c->stopped, 1, __ATOMIC_RELEASE);
            wi_futex_wake(&c->stopped);
        }
    }
    wi_call_end(WHARF_OK);
    return NULL;
}

static wharf_status watcher_start(wharf_worker *w)
{
    wharf_status status = wi_thread_start(&w->child->watcher, watch_rank, w,
                                          "a thread that watches the rank");
    if (status != WHARF_OK)
        return status;
    w->child->watched = true;
    prctl(PR_SET_PDEATHSIG, 0);
    return WHARF_OK;
}

/* ---- Faults
 * ------------------------------------------------------------------ */

/* What is left of the process is the kernel's to end with the rank. */
static void watcher_end(wi_child *c)
{
    if (!c->watched)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    wi_sys_wake(c->wake);
    pthread_join(c->watcher, NULL);
    c->watched = false;
}

static void report_fault(const wharf_error *record)
{
    const wi_child *c = __atomic_load_n(&joined, __ATOMIC_ACQUIRE);
    if (c)
        wharf_ignore(wi_note_send(c->control, WI_NOTE_FAULT, 0, record));
}

void wharf_worker_fault(wharf_worker *worker, int native, const char *what)
{
    wharf_status status = wi_worker_enter(__func__, worker, true);
    if (status != WHARF_OK) {
        wi_call_end(status);
        return;
    }
    wi_fail_native(WHARF_EFAULT, WHARF_SOURCE_CUDA, native, NULL, "%.150s",
                   what ? what : "reported by the program");
    fflush(NULL);
    report_fault(wi_error_record());
    /* The rank kills this process as soon as it has read that. */
    wi_sleep_ns(5 * WI_NS_PER_S);
    _exit(1);
}

/* ---- Joining
 * ----------------------------------------------------------------- */

static bool is_socket(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode);
}

static wharf_status check_started(void)
{
    if (__atomic_load_n(&join_tried, __ATOMIC_ACQUIRE))
        return wi_fail(WHARF_ESTATE, "join once",
                       "this process has joined already");
    if (!getenv(WI_WORKER_VARIABLE) || !is_socket(WI_WORKER_CONTROL) ||
        !is_socket(WI_WORKER_DATA))
        return wi_fail(WHARF_ESTATE, "let a rank start it",
                       "this process was not started by wharf_worker_start");
    __atomic_store_n(&join_tried, 1, __ATOMIC_RELEASE);
    /* Neither the variable nor the sockets are for its own children. */
    unsetenv(WI_WORKER_VARIABLE);
    fcntl(WI_WORKER_CONTROL, F_SETFD, FD_CLOEXEC);
    fcntl(WI_WORKER_DATA, F_SETFD, FD_CLOEXEC);
    return WHARF_OK;
}

static void child_delete(wharf_worker *w)
{
    wi_child *c = w->child;
    wi_handle_remove(w);
    if (c) {
        wi_sys_close(&c->control);
        wi_sys_close(&c->data);
        wi_sys_close(&c->wake);
        pthread_mutex_destroy(&c->lock);
        wi_free(c);
    }
    wi_free(w);
}

static wharf_status child_new(wharf_worker **out)
{
    wharf_worker *w;
    if (!WI_NEW(w))
        return WHARF_ENOMEM;
    if (!WI_NEW(w->child)) {
        wi_free(w);
        return WHARF_ENOMEM;
    }
    wi_child *c = w->child;
    pthread_mutex_init(&c->lock, NULL);
    c->control = WI_WORKER_CONTROL;
    c->data = WI_WORKER_DATA;
    c->wake = -1;
    wi_sys_adopt(c->control);
    wi_sys_adopt(c->data);
    wharf_status status = wi_sys_eventfd(&c->wake);
    if (status == WHARF_OK)
        *out = w;
    else
        child_delete(w);
    return status;
}

/* The rank's next note. */
static wharf_status await_note(int fd, wi_note *note, wi_deadline deadline)
{
    for (;;) {
        wharf_status status = wi_note_receive(fd, note);
        if (status == WHARF_EPEER)
            return wi_fail(WHARF_EPEER, "end", "the rank is gone");
        if (status != WHARF_ENOTREADY)
            return status;
        if (wi_deadline_run_out(deadline))
            return wi_fail(WHARF_ETIMEDOUT, "allow more time",
                           "the rank does not answer to the worker's hello");
        status = wi_sys_poll(fd, POLLIN, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

static wharf_status map_all(wharf_worker *w,
                            const wharf_worker_join_options *options,
                            wi_deadline deadline)
{
    wi_visit_wish wish = {
        .keep_current = options->keep_current == WHARF_SWITCH_ON,
    };
    int fd = w->child->control;
    wi_note note;
    wharf_status status =
        wi_note_send(fd, WI_NOTE_HELLO, WHARF_VERSION_NUMBER, NULL);
    if (status == WHARF_OK)
        status = await_note(fd, &note, deadline);
    if (status != WHARF_OK)
        return status;
    if (note.kind == WI_NOTE_STOP)
        return WHARF_ECLOSED;
    if (note.kind != WI_NOTE_WELCOME || note.number < 1)
        return wi_visit_nonsense("a note of kind", note.kind);
    status = wi_visit_begin(fd, &wish, deadline, &w->node);
    for (int i = 1; i < note.number && status == WHARF_OK; i++)
        status = wi_visit_add(w->node, fd, deadline);
    if (status == WHARF_OK)
        wi_call_set_rank(w->node->rank);
    return status;
}

static wharf_status read_options(const wharf_worker_join_options *options,
                                 wharf_worker_join_options *known,
                                 int64_t *timeout_ms)
{
    wharf_worker_join_options preset = WHARF_WORKER_JOIN_OPTIONS_INIT;
    wharf_status status =
        wi_config_number(WI_SETTING_TIMEOUT_MS, timeout_ms, NULL);
    *known = preset;
    if (status == WHARF_OK && options)
        status = wi_versioned_read(known, sizeof *known, options, "options");
    if (status != WHARF_OK)
        return status;
    if (known->timeout_ms < 0 || known->timeout_ms > 86400000)
        return wi_fail(WHARF_EARG, "pass milliseconds",
                       "options.timeout_ms is %d", known->timeout_ms);
    if (known->timeout_ms > 0)
        *timeout_ms = known->timeout_ms;
    return WHARF_OK;
}

/* Tells the rank why, and gives back. */
static wharf_status join_failed(wharf_worker *w, wharf_status status)
{
    wharf_error cause = *wi_error_record();
    if (status != WHARF_ECLOSED)
        wharf_ignore(
            wi_note_send(w->child->control, WI_NOTE_JOINED, 0, &cause));
    watcher_end(w->child);
    wi_visit_end(&w->node);
    child_delete(w);
    *wi_error_record() = cause;
    return status;
}

static wharf_status join(const wharf_worker_join_options *options,
                         wharf_worker **out)
{
    wharf_worker_join_options known;
    int64_t timeout_ms = 0;
    wharf_worker *w = NULL;
    if (!out)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "worker is NULL");
    wharf_status status = read_options(options, &known, &timeout_ms);
    if (status == WHARF_OK)
        status = check_started();
    if (status == WHARF_OK)
        status = child_new(&w);
    if (status != WHARF_OK)
        return status;
    status = map_all(w, &known, wi_deadline_in_ms(timeout_ms));
    if (status == WHARF_OK)
        status = wi_handle_add(w, WI_HANDLE_WORKER);
    if (status == WHARF_OK)
        status = watcher_start(w);
    if (status == WHARF_OK)
        status = wi_note_send(w->child->control, WI_NOTE_JOINED, 0, NULL);
    if (status != WHARF_OK)
        return join_failed(w, status);
    wi_visit_hold(w->node, true);
    __atomic_store_n(&joined, w->child, __ATOMIC_RELEASE);
    wi_call_watch_faults(report_fault);
    *out = w;
    return WHARF_OK;
}

wharf_status wharf_worker_join(const wharf_worker_join_options *options,
                               wharf_worker **worker)
{
    wi_trace_decide();
    wi_call_begin(__func__, -1);
    return wi_call_end(join(options, worker));
}

/* ---- What has been lent
 * ------------------------------------------------------ */

wharf_status wharf_worker_node(wharf_worker *worker, wharf_node **node)
{
    wharf_status status = wi_worker_enter(__func__, worker, true);
    if (status == WHARF_OK && !node)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "node is NULL");
    if (status == WHARF_OK)
        *node = worker->node;
    return wi_call_end(status);
}

int wharf_worker_buffers(wharf_worker *worker)
{
    int count = -1;
    if (!worker ||
        wi_handle_check(worker, WI_HANDLE_WORKER, "worker") != WHARF_OK ||
        !worker->child)
        return -1;
    pthread_mutex_lock(&worker->child->lock);
    count = wi_visit_buffers(worker->node);
    pthread_mutex_unlock(&worker->child->lock);
    return count;
}

wharf_status wharf_worker_buffer(wharf_worker *worker, int index,
                                 wharf_buffer **buffer)
{
    wharf_status status = wi_worker_enter(__func__, worker, true);
    if (status == WHARF_OK && !buffer)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "buffer is NULL");
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&worker->child->lock);
    wharf_buffer *found = wi_visit_buffer(worker->node, index);
    int count = wi_visit_buffers(worker->node);
    pthread_mutex_unlock(&worker->child->lock);
    if (!found)
        return wi_call_end(wi_fail(WHARF_EARG, "see wharf_worker_buffers",
                                   "buffer %d is asked for, %d are lent", index,
                                   count));
    *buffer = found;
    return wi_call_end(WHARF_OK);
}

wharf_status wharf_worker_alive(wharf_worker *worker)
{
    wharf_status status = wi_worker_enter(__func__, worker, true);
    if (status == WHARF_OK)
        status = wi_note_send(worker->child->control, WI_NOTE_ALIVE, 0, NULL);
    if (status == WHARF_EPEER)
        status = wi_fail(WHARF_EPEER, "end", "the rank is gone");
    /* A full socket holds signs of life enough. */
    return wi_call_end(status == WHARF_ENOTREADY ? WHARF_OK : status);
}

/* ---- Leaving
 * ----------------------------------------------------------------- */

wharf_status wharf_worker_leave(wharf_worker **worker)
{
    wharf_status status =
        wi_worker_enter(__func__, worker ? *worker : NULL, true);
    if (status != WHARF_OK)
        return wi_call_end(status);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): entered */
    wharf_worker *w = *worker;
    wi_call_watch_faults(NULL);
    __atomic_store_n(&joined, NULL, __ATOMIC_RELEASE);
    watcher_end(w->child);
    wi_visit_end(&w->node);
    child_delete(w);
    *worker = NULL;
    return wi_call_end(WHARF_OK);
}
