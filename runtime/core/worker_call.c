/* SPDX-License-Identifier: MIT */
/* Messages of both ends, and how a rank hears of a death: once, after what the
 * dead process had sent. */
#include "base/error.h"
#include "base/handles.h"
#include "base/stat.h"
#include "core/worker.h"

/* ---- Messages ------------------------------------------------------------ */

static bool has_untold(const wharf_worker *w)
{
    return w->told < w->report.deaths;
}

static bool is_over(const wharf_worker *w)
{
    return w->report.state == WHARF_WORKER_ENDED ||
           w->report.state == WHARF_WORKER_GIVEN_UP;
}

static wharf_status tell_end(const wharf_worker *w)
{
    const wharf_worker_death *d = &w->report.last;
    if (w->report.state == WHARF_WORKER_ENDED)
        return wi_fail(WHARF_ELIMIT, "start another one",
                       "the worker has ended with exit code 0, and no other "
                       "one follows");
    return wi_fail(WHARF_ELIMIT,
                   "mend the worker, or allow more options.restarts",
                   "the worker died %d times and %d restarts are allowed; the "
                   "last time pid %d, %.110s",
                   w->report.deaths, w->options.restarts, d->pid, d->cause);
}

/* Under the lock: the caller hears of all deaths so far, and deals with the
 * newest process from now on. */
static wharf_status tell_death(wharf_worker *w)
{
    const wharf_worker_death *d = &w->report.last;
    w->told = w->report.deaths;
    wi_tube_drop(w->tube);
    w->tube = w->fresh;
    w->fresh = NULL;
    if (w->report.state == WHARF_WORKER_GIVEN_UP)
        return tell_end(w);
    return wi_fail(WHARF_EWORKER,
                   "send the task again: the next worker gets it",
                   "the worker, pid %d, died: %s", d->pid, d->cause);
}

/* Under the lock: the tube that a call works on. WHARF_ENOTREADY: none yet. */
static wharf_status tube_get(wharf_worker *w, wi_deadline deadline, bool look,
                             wi_tube **tube)
{
    while (!w->tube) {
        if (has_untold(w))
            return tell_death(w);
        if (is_over(w))
            return tell_end(w);
        if (look)
            return WHARF_ENOTREADY;
        if (!wi_worker_wait(w, deadline))
            return wi_worker_late("that died has no successor yet");
    }
    *tube = w->tube;
    (*tube)->users++;
    return WHARF_OK;
}

/* Under the lock: the other end of the tube is closed. Its process has ended or
 * is about to; which death it was is known a moment later. */
static wharf_status tube_ended(wharf_worker *w, const wi_tube *tube,
                               wi_deadline deadline, bool look)
{
    /* One that hears and says nothing any more is silent. */
    if (!w->pending && w->tube == tube) {
        w->pending = true;
        w->heard_ns = wi_now_ns();
        wi_worker_wake(w);
    }
    while (w->tube == tube && !has_untold(w)) {
        if (is_over(w))
            return tell_end(w);
        if (look)
            return WHARF_ENOTREADY;
        if (!wi_worker_wait(w, deadline))
            return wi_worker_late("closed its end and does not die");
    }
    /* Another thread has told of it; this one's message is lost as well. */
    if (w->tube != tube)
        return wi_fail(WHARF_EWORKER, "send the task again",
                       "the worker, pid %d, died: %s", w->report.last.pid,
                       w->report.last.cause);
    return tell_death(w);
}

static void count_message(wharf_worker *w, const wi_tube *tube, bool sent)
{
    /* What a dead process left behind says nothing of its successor. */
    if (w->now && w->now->tube == tube) {
        w->heard_ns = wi_now_ns();
        w->pending = sent;
        w->at_work = true;
        if (!sent)
            wi_report_joined(w);
    }
    if (sent) {
        w->report.sent++;
    } else {
        w->report.received++;
    }
    wi_stat_add(WI_STAT_worker_messages_count, 1);
}

static wi_deadline deadline_of(const wharf_worker *w, int timeout_ms)
{
    if (timeout_ms == WHARF_NO_WAIT)
        return wi_now_ns();
    return timeout_ms ? wi_deadline_in_ms(timeout_ms)
                      : wi_node_deadline(w->node);
}

/* Either direction; `to` is NULL for a send. */
static wharf_status pass(wharf_worker *w, const void *from, void *to,
                         size_t bytes, size_t *size, int timeout_ms)
{
    bool look = timeout_ms == WHARF_NO_WAIT;
    bool sends = from != NULL;
    wi_deadline deadline = deadline_of(w, timeout_ms);
    wi_tube *tube = NULL;
    pthread_mutex_lock(&w->lock);
    wharf_status status = WHARF_OK;
    if (sends && has_untold(w))
        status = tell_death(w);
    if (status == WHARF_OK)
        status = tube_get(w, deadline, look, &tube);
    bool wake = sends && w->options.silence_ms > 0;
    pthread_mutex_unlock(&w->lock);
    if (status != WHARF_OK)
        return status;

    int fd = tube->fd; /* NOLINT(clang-analyzer-core.NullDereference): got */
    status = sends ? wi_message_send(fd, from, bytes, deadline, look)
                   : wi_message_receive(fd, to, bytes, size, deadline, look);

    pthread_mutex_lock(&w->lock);
    if (status == WHARF_OK)
        count_message(w, tube, sends);
    else if (status == WHARF_EPEER)
        status = tube_ended(w, tube, deadline, look);
    tube->users--;
    if (tube->retired)
        wi_tube_drop(tube);
    pthread_mutex_unlock(&w->lock);
    if (wake && status == WHARF_OK)
        wi_worker_wake(w); /* it sleeps past the new deadline otherwise */
    return status;
}

static wharf_status child_end(const wi_child *child, wharf_status status)
{
    return status == WHARF_EPEER ? wi_child_closed(child) : status;
}

static wharf_status check_message(const void *data, size_t size, int timeout_ms)
{
    if (!data && size > 0)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "data is NULL");
    if ((timeout_ms < 0 && timeout_ms != WHARF_NO_WAIT) ||
        timeout_ms > 86400000)
        return wi_fail(WHARF_EARG,
                       "pass milliseconds, 0 for the node's, or WHARF_NO_WAIT",
                       "timeout_ms is %d", timeout_ms);
    return WHARF_OK;
}

wharf_status wharf_worker_send(wharf_worker *worker, const void *data,
                               size_t size, int timeout_ms)
{
    wi_call_begin(__func__, -1);
    wharf_status status = wi_handle_check(worker, WI_HANDLE_WORKER, "worker");
    if (status == WHARF_OK)
        wi_call_set_rank(worker->node->rank);
    if (status == WHARF_OK)
        status = check_message(data, size, timeout_ms);
    if (status == WHARF_OK && size > WHARF_MAX_MESSAGE)
        status = wi_fail(
            WHARF_EARG, "put large data into a buffer that is lent",
            "a message of %zu bytes; the most is %d", size, WHARF_MAX_MESSAGE);
    if (status != WHARF_OK)
        return wi_call_end(status);
    if (!worker->child)
        return wi_call_end(
            pass(worker, data ? data : "", NULL, size, NULL, timeout_ms));
    status = wi_message_send(wi_child_socket(worker->child), data, size,
                             deadline_of(worker, timeout_ms),
                             timeout_ms == WHARF_NO_WAIT);
    return wi_call_end(child_end(worker->child, status));
}

wharf_status wharf_worker_receive(wharf_worker *worker, void *data,
                                  size_t capacity, size_t *size, int timeout_ms)
{
    wi_call_begin(__func__, -1);
    wharf_status status = wi_handle_check(worker, WI_HANDLE_WORKER, "worker");
    if (status == WHARF_OK)
        wi_call_set_rank(worker->node->rank);
    if (status == WHARF_OK)
        status = check_message(data, capacity, timeout_ms);
    if (status != WHARF_OK)
        return wi_call_end(status);
    if (capacity > WHARF_MAX_MESSAGE)
        capacity = WHARF_MAX_MESSAGE;
    if (!worker->child)
        return wi_call_end(
            pass(worker, NULL, data, capacity, size, timeout_ms));
    wi_deadline deadline =
        timeout_ms ? deadline_of(worker, timeout_ms) : WI_NEVER;
    status = wi_message_receive(wi_child_socket(worker->child), data, capacity,
                                size, deadline, timeout_ms == WHARF_NO_WAIT);
    return wi_call_end(child_end(worker->child, status));
}
