/* SPDX-License-Identifier: MIT */
/*
 * Notifies as the host and the program's kernels see them: waiting for a signal
 * in GPU memory by looking at it, reports of waits that gave up, views.
 */
#include "base/error.h"
#include "base/handles.h"
#include "core/core.h"
#include "core/notify.h"
#include "core/signal.h"
#include "wharf/view.h"

/* ---- Waiting by looking
 * --------------------------------------------------------- */

/* *came: a record is there. read_words brings 64 bits; the word is the first
 * half, the rest of its sector belongs to nobody. */
static wharf_status look(const wharf_notify *notify, int from, bool *came)
{
    wi_device *device = notify->node->device;
    const void *word = wi_pad_word(notify->node, &notify->run, from);
    uint64_t read;
    wharf_status status = device->ops->read_words(device, &word, 1, &read);
    if (status != WHARF_OK)
        return status;
    uint32_t value = (uint32_t)read;
    *came = notify->way[from].counts
                ? (int32_t)value > 0
                : (int32_t)(value - (notify->epoch[from] + 1)) >= 0;
    return WHARF_OK;
}

/* The record is there, so the step does not wait. It goes to the stream by
 * which read_words looks, so looking once more waits until it is done: a stream
 * that waits for the next record must not find this one. */
static wharf_status consume(wharf_notify *notify, int from)
{
    wi_device *device = notify->node->device;
    const wi_signal_way *way = &notify->way[from];
    if (!way->counts) {
        notify->epoch[from]++;
        return WHARF_OK;
    }
    wi_sync_step step = {
        .kind = WI_SYNC_TAKE,
        .value = (uint32_t)from,
        .address = wi_pad_word(notify->node, &notify->run, from),
    };
    wharf_status status =
        device->ops->sync(device, device->ops->own_stream(device),
                          wi_signal_how(way->mechanism), &step, 1, 0, NULL);
    if (status != WHARF_OK)
        return status;
    /* Once it is taken, a failure would lose it: one more try. */
    bool next;
    wharf_error kept = *wi_error_record();
    if (look(notify, from, &next) == WHARF_OK)
        return WHARF_OK;
    *wi_error_record() = kept;
    return look(notify, from, &next);
}

static wharf_status try_take(wharf_notify *notify, int from, bool *came)
{
    pthread_mutex_lock(&notify->lock);
    wharf_status status = look(notify, from, came);
    if (status == WHARF_OK && *came)
        status = consume(notify, from);
    pthread_mutex_unlock(&notify->lock);
    return status;
}

wharf_status wi_notify_poll(wharf_notify *notify, int from,
                            wi_deadline deadline)
{
    /* A look costs a copy over the bus, some 10 us. */
    wi_pauses pauses = {.first_ns = 2000, .most_ns = WI_NS_PER_MS};
    for (;;) {
        bool came = false;
        /* Asked first: what a rank signalled before it died counts. */
        wharf_status alive = wi_pauses_long(&pauses)
                                 ? wi_comm_check_alive(notify->node->comm, from)
                                 : WHARF_OK;
        wharf_error cause = *wi_error_record();
        bool late = wi_deadline_run_out(deadline);
        wharf_status status = try_take(notify, from, &came);
        if (status != WHARF_OK || came)
            return status;
        if (alive != WHARF_OK) {
            *wi_error_record() = cause;
            return alive;
        }
        if (late)
            return WHARF_ETIMEDOUT;
        wi_pauses_take(&pauses);
    }
}

/* ---- Reports
 * -------------------------------------------------------------------- */

int wi_notify_late(wharf_notify *notify)
{
    int size = notify->node->size, late = -1;
    for (int r = size; r >= 0; r--) {
        uint32_t said =
            __atomic_exchange_n(&notify->report[r], 0, __ATOMIC_ACQUIRE);
        if (said > 0 && said <= (uint32_t)size)
            late = (int)said - 1;
    }
    return late;
}

/* ---- Views
 * ---------------------------------------------------------------------- */

static wharf_status check_counts(const wharf_notify *notify, int recorder)
{
    const wi_signal_way *way = &notify->way[recorder];
    if (way->counts)
        return WHARF_OK;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "create the notify with options.capturable on or "
                   "options.mechanism kernel",
                   "kernels cannot signal from rank %d to rank %d by %s: %s",
                   recorder, notify->waiter,
                   wharf_mechanism_name(way->mechanism), way->reason);
}

static wharf_status check_view(const wharf_notify *notify)
{
    const wharf_node *node = notify->node;
    if (node->backend == WHARF_BACKEND_HOST)
        return wi_fail(WHARF_EUNSUPPORTED, "use the host's calls",
                       "the host backend has no kernels");
    if (node->rank != notify->waiter)
        return check_counts(notify, node->rank);
    wharf_status status = WHARF_OK;
    for (int r = 0; r < node->size && status == WHARF_OK; r++)
        if (r != notify->waiter)
            status = check_counts(notify, r);
    return status;
}

wharf_status wharf_notify_view_get(wharf_notify *notify,
                                   wharf_notify_view *view)
{
    wi_call_begin(__func__, -1);
    wharf_status status = wi_handle_check(notify, WI_HANDLE_NOTIFY, "notify");
    if (status != WHARF_OK)
        return wi_call_end(status);
    const wharf_node *node = notify->node;
    wi_call_set_rank(node->rank);
    if (!view)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "view is NULL");
    if (status == WHARF_OK)
        status = check_view(notify);
    if (status != WHARF_OK)
        return wi_call_end(status);
    *view = (wharf_notify_view){
        .words = wi_pad_word(node, &notify->run, 0),
        .report = notify->report ? &notify->report[node->size] : NULL,
        .timeout_ns = (uint64_t)(node->settings.timeout_ms * WI_NS_PER_MS),
        .stride = WI_PAD_STRIDE / sizeof(uint32_t),
        .ranks = node->size,
        .rank = node->rank,
        .waiter = notify->waiter,
    };
    return wi_call_end(WHARF_OK);
}
