/* SPDX-License-Identifier: MIT */
/*
 * Notifies: one word a recorder in the waiter's memory. With atomics the word
 * counts the records not yet waited for, and stands in graphs as it is; with
 * writes only it holds the number of the newest record, and both sides count
 * on the host.
 */
#include "wharf/notify.h"

#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/core.h"
#include "core/notify.h"
#include "core/signal.h"
#include "device/copy.h"

/* ---- Creation
 * ------------------------------------------------------------------- */

static void notify_delete(wharf_notify *notify)
{
    if (!notify)
        return;
    wi_handle_remove(notify);
    pthread_mutex_destroy(&notify->lock);
    wi_free(notify->way);
    wi_free(notify->epoch);
    wi_free(notify);
}

static wharf_status notify_new(wharf_node *node, int waiter,
                               const wharf_notify_options *options,
                               wharf_notify **out)
{
    wharf_notify *notify;
    if (!WI_NEW(notify))
        return WHARF_ENOMEM;
    size_t ranks = (size_t)node->size;
    pthread_mutex_init(&notify->lock, NULL);
    notify->node = node;
    notify->waiter = waiter;
    notify->capturable = options->capturable == WHARF_SWITCH_ON;
    notify->way = wi_calloc(ranks, sizeof *notify->way);
    notify->epoch = wi_calloc(ranks, sizeof *notify->epoch);
    wharf_status status = WHARF_ENOMEM;
    if (notify->way && notify->epoch)
        status = wi_handle_add(notify, WI_HANDLE_NOTIFY);
    if (status != WHARF_OK) {
        notify_delete(notify);
        return status;
    }
    for (int r = 0; r < node->size; r++)
        notify->epoch[r] = wi_signal_first_epoch;
    *out = notify;
    return WHARF_OK;
}

static wharf_status check_create(const wharf_node *node, int waiter,
                                 const wharf_notify_options *options,
                                 wharf_notify *const *out,
                                 wharf_notify_options *known)
{
    wharf_status status = wi_signal_options(options, known);
    if (status != WHARF_OK)
        return status;
    if (!out)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "notify is NULL");
    return wi_node_check_rank(node, "waiter", waiter);
}

/* Decides alike on every rank. */
static wharf_status choose_ways(wharf_notify *notify, wharf_mechanism wanted)
{
    wharf_node *node = notify->node;
    for (int r = 0; r < node->size; r++) {
        wi_signal_facts facts;
        wi_signal_facts_find(node, r, notify->waiter, &facts);
        if (r == notify->waiter && node->size > 1)
            continue;
        wharf_status status = wi_signal_choose(
            &facts, wanted, notify->capturable, &notify->way[r]);
        if (status != WHARF_OK)
            return status;
        wi_signal_tell_slow(node, r, notify->waiter, &notify->way[r]);
    }
    return WHARF_OK;
}

/* Whether the calling rank uses a pair's mechanism. */
static bool takes_part(const wharf_notify *notify, int recorder)
{
    int me = notify->node->rank;
    return recorder != notify->waiter &&
           (me == notify->waiter || me == recorder);
}

/* This rank's part: words, and what the device needs before any stream of this
 * process can be waiting. */
static wharf_status prepare(wharf_notify *notify)
{
    wharf_node *node = notify->node;
    const wi_device_ops *ops = node->device->ops;
    bool waits = node->rank == notify->waiter, times = false, epochs = false;
    if (node->backend == WHARF_BACKEND_HOST)
        return waits ? wi_pad_set(node, &notify->run, 0) : WHARF_OK;
    for (int r = 0; r < node->size; r++) {
        if (!takes_part(notify, r))
            continue;
        const wi_signal_way *way = &notify->way[r];
        times |= way->counts;
        epochs |= !way->counts;
        wharf_status status =
            ops->sync_prepare(node->device, wi_signal_how(way->mechanism));
        if (status != WHARF_OK)
            return status;
    }
    if (!waits)
        return node->copy_kernels
                   ? ops->copy->ticket_take(node->device, &notify->ticket)
                   : WHARF_OK;
    if (times) {
        wharf_status status = ops->report_alloc(
            node->device, (size_t)node->size + 1, &notify->report);
        if (status != WHARF_OK)
            return status;
    }
    wharf_status status = wi_pad_set(node, &notify->run, 0);
    for (int r = 0; epochs && r < node->size && status == WHARF_OK; r++)
        if (takes_part(notify, r) && !notify->way[r].counts)
            status =
                ops->write(node->device, wi_pad_word(node, &notify->run, r),
                           &wi_signal_first_epoch, sizeof(uint32_t));
    return status;
}

static void drop_report(wharf_notify *notify)
{
    wharf_node *node = notify->node;
    if (notify->report)
        node->device->ops->report_free(node->device, notify->report);
    notify->report = NULL;
    node->device->ops->copy->ticket_give(node->device, notify->ticket);
    notify->ticket = NULL;
}

static wharf_status build(wharf_notify *notify, wharf_mechanism wanted,
                          wi_deadline deadline)
{
    wharf_node *node = notify->node;
    notify->run = (wi_pad_run){.rank = notify->waiter, .count = node->size};
    wharf_status status = wi_pad_take(node, 1, &notify->run, deadline);
    if (status != WHARF_OK)
        return status;
    status = wi_decided_alike(choose_ways(notify, wanted));
    if (status == WHARF_OK)
        status = wi_comm_agree(node->comm, prepare(notify), deadline);
    if (status == WHARF_OK)
        return WHARF_OK;
    drop_report(notify);
    wi_pad_give(node, 1, &notify->run);
    wi_pad_trim(node, deadline);
    return status;
}

static wharf_status create_locked(wharf_node *node, int waiter,
                                  const wharf_notify_options *options,
                                  wharf_notify **out)
{
    wi_deadline deadline = wi_node_deadline(node);
    wharf_notify_options known;
    wharf_notify *notify = NULL;
    wi_meeting mine = {.call = WI_CALL_NOTIFY_CREATE, .count = waiter};
    mine.status = check_create(node, waiter, options, out, &known);
    if (mine.status == WHARF_OK) {
        mine.space = (uint32_t)known.mechanism;
        mine.flags = (uint32_t)known.capturable;
        mine.status = notify_new(node, waiter, &known, &notify);
    }
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_OK)
        status = build(notify, wi_signal_wanted(node, &known), deadline);
    if (status != WHARF_OK) {
        notify_delete(notify);
        return status;
    }
    notify->serial = ++node->serial;
    notify->next = node->notifies;
    node->notifies = notify;
    wi_stat_add(WI_STAT_live_notifies, 1);
    *out = notify;
    return WHARF_OK;
}

wharf_status wharf_notify_create(wharf_node *node, int waiter,
                                 const wharf_notify_options *options,
                                 wharf_notify **notify)
{
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    return wi_node_leave(node, create_locked(node, waiter, options, notify));
}

/* ---- End
 * ------------------------------------------------------------------------ */

static void discard(wharf_notify *notify)
{
    wharf_node *node = notify->node;
    for (wharf_notify **at = &node->notifies; *at; at = &(*at)->next)
        if (*at == notify) {
            *at = notify->next;
            break;
        }
    drop_report(notify);
    wi_pad_give(node, 1, &notify->run);
    notify_delete(notify);
    wi_stat_add(WI_STAT_live_notifies, -1);
}

void wi_notify_close_all(wharf_node *node)
{
    while (node->notifies) {
        wi_log(WI_LOG_WARN,
               "notify %llu was still there when its node was closed",
               (unsigned long long)node->notifies->serial);
        discard(node->notifies);
    }
}

/* After the meeting no rank's stream has work left that uses the words, so
 * they can be given to the next. */
static wharf_status destroy_locked(wharf_notify **out)
{
    wharf_notify *notify = *out;
    wharf_node *node = notify->node;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {
        .call = WI_CALL_NOTIFY_DESTROY,
        .serial = notify->serial,
        .status = wi_signal_quiesce(node),
    };
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH)
        return status;
    discard(notify);
    *out = NULL;
    return status;
}

/* Begins a call on a notify. */
static wharf_status enter(const char *call, const wharf_notify *notify)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(notify, WI_HANDLE_NOTIFY, "notify");
    if (status == WHARF_OK)
        wi_call_set_rank(notify->node->rank);
    return status;
}

wharf_status wharf_notify_destroy(wharf_notify **notify)
{
    wharf_status status = enter(__func__, notify ? *notify : NULL);
    if (status == WHARF_OK) {
        wharf_node *node = (*notify)->node;
        pthread_mutex_lock(&node->collective);
        status = destroy_locked(notify);
        pthread_mutex_unlock(&node->collective);
    } else if (notify) {
        *notify = NULL;
    }
    return wi_call_end(status);
}

/* ---- Checks of the local calls
 * -------------------------------------------------- */

static wharf_status check_recorder(const wharf_notify *notify, int from)
{
    const wharf_node *node = notify->node;
    if (from < 0 || from >= node->size || from == notify->waiter)
        return wi_fail(WHARF_EARG, "pass the rank that records",
                       "from is %d; ranks 0 to %d but the waiter, %d, record",
                       from, node->size - 1, notify->waiter);
    return WHARF_OK;
}

static wharf_status check_waiter(const wharf_notify *notify)
{
    if (notify->node->rank == notify->waiter)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "wait on the waiter, record elsewhere",
                   "rank %d waits for the notify, not rank %d", notify->waiter,
                   notify->node->rank);
}

static wharf_status check_timeout(int timeout_ms)
{
    if (timeout_ms >= 0)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass milliseconds, or 0", "timeout_ms is %d",
                   timeout_ms);
}

static wharf_status check_stream(const wharf_notify *notify,
                                 wharf_stream stream)
{
    wi_device *device = notify->node->device;
    return device->ops->check_stream(device, stream);
}

/* A number that grows on the host cannot stand in a graph. */
static wharf_status check_capture(const wharf_notify *notify,
                                  const wi_signal_way *way, wharf_stream stream)
{
    wi_device *device = notify->node->device;
    bool capturing;
    if (way->counts)
        return WHARF_OK;
    wharf_status status = device->ops->capturing(device, stream, &capturing);
    if (status != WHARF_OK || !capturing)
        return status;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "create the notify with options.capturable on",
                   "the stream is being captured, and the notify's mechanism "
                   "(%s: %s) cannot stand in a graph",
                   wharf_mechanism_name(way->mechanism), way->reason);
}

/* ---- Record
 * --------------------------------------------------------------------- */

static uint32_t *word_of(const wharf_notify *notify, int recorder)
{
    return wi_pad_word(notify->node, &notify->run, recorder);
}

static void record_on_host(uint32_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
    wi_futex_wake(word);
}

/* One step of this rank's streams. The lock keeps numbers and places in a
 * stream in the same order; a number is used up only if the step was issued. */
static wharf_status issue(wharf_notify *notify, int recorder, bool waits,
                          wharf_stream stream, uint64_t timeout_ns)
{
    wi_device *device = notify->node->device;
    const wi_signal_way *way = &notify->way[recorder];
    wi_sync_step step = {.address = word_of(notify, recorder)};
    uint32_t *report = timeout_ns ? &notify->report[recorder] : NULL;
    wi_sync_how how = wi_signal_how(way->mechanism);
    if (way->counts) {
        step.kind = waits ? WI_SYNC_TAKE : WI_SYNC_ADD;
        step.value = (uint32_t)recorder;
        return device->ops->sync(device, stream, how, &step, 1, timeout_ns,
                                 report);
    }
    pthread_mutex_lock(&notify->lock);
    step.kind = waits ? WI_SYNC_WAIT : WI_SYNC_WRITE;
    step.value = notify->epoch[recorder] + 1;
    wharf_status status =
        device->ops->sync(device, stream, how, &step, 1, 0, NULL);
    if (status == WHARF_OK)
        notify->epoch[recorder]++;
    pthread_mutex_unlock(&notify->lock);
    return status;
}

wharf_status wi_notify_record_check(const wharf_notify *notify,
                                    wharf_stream stream)
{
    const wharf_node *node = notify->node;
    if (node->rank == notify->waiter)
        return wi_fail(WHARF_ESTATE, "record on another rank",
                       "rank %d is the notify's waiter and cannot record",
                       node->rank);
    wharf_status status = check_stream(notify, stream);
    if (status != WHARF_OK || node->backend == WHARF_BACKEND_HOST)
        return status;
    return check_capture(notify, &notify->way[node->rank], stream);
}

wharf_status wi_notify_record_now(wharf_notify *notify, wharf_stream stream)
{
    const wharf_node *node = notify->node;
    if (node->backend != WHARF_BACKEND_HOST)
        return issue(notify, node->rank, false, stream, 0);
    record_on_host(word_of(notify, node->rank));
    return WHARF_OK;
}

void wi_notify_signal_begin(wharf_notify *notify, wi_sync_step *step)
{
    int me = notify->node->rank;
    *step = (wi_sync_step){.kind = WI_SYNC_ADD, .address = word_of(notify, me)};
    if (notify->way[me].counts)
        return;
    pthread_mutex_lock(&notify->lock);
    step->kind = WI_SYNC_WRITE;
    step->value = notify->epoch[me] + 1;
}

void wi_notify_signal_end(wharf_notify *notify, bool issued)
{
    int me = notify->node->rank;
    if (notify->way[me].counts)
        return;
    notify->epoch[me] += issued;
    pthread_mutex_unlock(&notify->lock);
}

wharf_status wharf_notify_record(wharf_notify *notify, wharf_stream stream)
{
    wharf_status status = enter(__func__, notify);
    if (status == WHARF_OK)
        status = wi_notify_record_check(notify, stream);
    if (status == WHARF_OK)
        status = wi_notify_record_now(notify, stream);
    return wi_call_end(status);
}

/* ---- Wait on the host backend
 * --------------------------------------------------- */

typedef struct taking {
    uint32_t *word;
    bool taken;
} taking;

/* Takes one, once: it may be asked again after it has. */
static bool take_one(void *argument)
{
    taking *t = argument;
    uint32_t count = __atomic_load_n(t->word, __ATOMIC_ACQUIRE);
    while (!t->taken && count > 0)
        t->taken =
            __atomic_compare_exchange_n(t->word, &count, count - 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return t->taken;
}

static wharf_status overdue(const wharf_notify *notify, int from)
{
    wi_fail(WHARF_ETIMEDOUT,
            "let the rank record, or wait longer (timeout_ms, "
            "WHARF_TIMEOUT_MS)",
            "no record of rank %d came to rank %d in time", from,
            notify->waiter);
    return wi_error_about(notify->node->rank);
}

static wharf_status wait_on_host(wharf_notify *notify, int from,
                                 wi_deadline deadline)
{
    taking t = {.word = word_of(notify, from)};
    wharf_status status =
        wi_comm_wait(notify->node->comm, from, t.word, take_one, &t, deadline);
    return status == WHARF_ETIMEDOUT ? overdue(notify, from) : status;
}

static wi_deadline deadline_of(const wharf_notify *notify, int timeout_ms)
{
    return timeout_ms ? wi_deadline_in_ms(timeout_ms)
                      : wi_node_deadline(notify->node);
}

/* ---- Wait
 * ----------------------------------------------------------------------- */

static wharf_status check_timed(const wi_signal_way *way, int timeout_ms)
{
    if (timeout_ms == 0 ||
        (way->mechanism == WHARF_MECHANISM_KERNEL && way->counts))
        return WHARF_OK;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "pass timeout_ms 0, use wharf_notify_wait_host, or create "
                   "the notify with options.mechanism kernel",
                   "a stream's wait by %s (%s) has no timeout",
                   wharf_mechanism_name(way->mechanism), way->reason);
}

static wharf_status enter_wait(const char *call, const wharf_notify *notify,
                               int from, int timeout_ms)
{
    wharf_status status = enter(call, notify);
    if (status == WHARF_OK)
        status = check_waiter(notify);
    if (status == WHARF_OK)
        status = check_recorder(notify, from);
    return status == WHARF_OK ? check_timeout(timeout_ms) : status;
}

wharf_status wharf_notify_wait(wharf_notify *notify, int from,
                               wharf_stream stream, int timeout_ms)
{
    wharf_status status = enter_wait(__func__, notify, from, timeout_ms);
    if (status == WHARF_OK)
        status = check_stream(notify, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    if (notify->node->backend == WHARF_BACKEND_HOST)
        return wi_call_end(
            wait_on_host(notify, from, deadline_of(notify, timeout_ms)));
    status = check_timed(&notify->way[from], timeout_ms);
    if (status == WHARF_OK)
        status = check_capture(notify, &notify->way[from], stream);
    if (status == WHARF_OK)
        status = issue(notify, from, true, stream,
                       (uint64_t)(timeout_ms * WI_NS_PER_MS));
    return wi_call_end(status);
}

wharf_status wharf_notify_wait_host(wharf_notify *notify, int from,
                                    int timeout_ms)
{
    wharf_status status = enter_wait(__func__, notify, from, timeout_ms);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_deadline deadline = deadline_of(notify, timeout_ms);
    status = notify->node->backend == WHARF_BACKEND_HOST
                 ? wait_on_host(notify, from, deadline)
                 : wi_notify_poll(notify, from, deadline);
    if (status == WHARF_ETIMEDOUT)
        status = overdue(notify, from);
    return wi_call_end(status);
}

wharf_status wharf_notify_check(wharf_notify *notify)
{
    wharf_status status = enter(__func__, notify);
    if (status == WHARF_OK)
        status = check_waiter(notify);
    if (status != WHARF_OK || !notify->report)
        return wi_call_end(status);
    int late = wi_notify_late(notify);
    if (late >= 0)
        status = overdue(notify, late);
    return wi_call_end(status);
}

wharf_status wharf_notify_mechanism(const wharf_notify *notify, int from,
                                    wharf_mechanism *mechanism)
{
    wharf_status status = enter(__func__, notify);
    if (status == WHARF_OK)
        status = check_recorder(notify, from);
    if (status == WHARF_OK && !mechanism)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "mechanism is NULL");
    if (status == WHARF_OK)
        *mechanism = notify->way[from].mechanism;
    return wi_call_end(status);
}
