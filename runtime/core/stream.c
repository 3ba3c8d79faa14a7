/* SPDX-License-Identifier: MIT */
/*
 * Waiting on the host for a stream that may itself wait for another rank: the
 * driver's own wait would last for good if that rank is dead. So the stream is
 * asked from time to time, by an event, which is behind all that the default
 * stream is behind, and between two looks the ranks are.
 */
#include "base/error.h"
#include "base/stat.h"
#include "core/core.h"
#include "core/signal.h"
#include "wharf/event.h"

/* A look costs a driver call, ranks a few system calls each. */
#define LOOKS_PER_RANKS 4

bool wi_stream_may_wait(const wharf_node *node)
{
    static const wi_stat kind[] = {WI_STAT_live_notifies, WI_STAT_live_barriers,
                                   WI_STAT_live_exchanges, WI_STAT_live_rings};
    bool some = __atomic_load_n(&node->event_waits, __ATOMIC_RELAXED);
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++)
        some = some || wi_stat_get(kind[i]) > 0;
    return some && node->backend != WHARF_BACKEND_HOST;
}

/* In a guest nobody is looked at: it ends with its rank. */
static wharf_status check_ranks(const wharf_node *node)
{
    return node->comm ? wi_comm_check_alive(node->comm, -1) : WHARF_OK;
}

static wharf_status hold_for_event(const wharf_node *node, wi_event *event,
                                   wi_deadline deadline)
{
    wi_pauses pauses = {
        .yields = 16, .first_ns = 2000, .most_ns = WI_NS_PER_MS};
    for (unsigned looks = 0;; looks++) {
        /* Asked first: what a rank did before it died counts. */
        bool ask = wi_pauses_long(&pauses) && looks % LOOKS_PER_RANKS == 0;
        wharf_status alive = ask ? check_ranks(node) : WHARF_OK;
        wharf_error cause = *wi_error_record();
        bool late = wi_deadline_run_out(deadline);
        wharf_status status = node->device->ops->event_query(event);
        if (status != WHARF_ENOTREADY)
            return status;
        if (alive != WHARF_OK) {
            *wi_error_record() = cause;
            return alive;
        }
        if (late)
            return wi_fail(WHARF_ETIMEDOUT,
                           "let every rank signal what others wait for; if "
                           "one is only slow, wait longer",
                           "the stream's work, which may wait for another "
                           "rank, was not complete in time");
        wi_pauses_take(&pauses);
    }
}

wharf_status wi_stream_hold(const wharf_node *node, wharf_stream stream,
                            wi_deadline deadline)
{
    wi_device *device = node->device;
    wi_event *event;
    wharf_status status = device->ops->event_create(device, &event);
    if (status != WHARF_OK)
        return status;
    status = device->ops->event_record(event, stream);
    if (status == WHARF_OK)
        status = hold_for_event(node, event, deadline);
    wharf_error cause = *wi_error_record();
    device->ops->event_destroy(event);
    *wi_error_record() = cause;
    return status;
}

static wharf_status synchronize(wharf_node *node, wharf_stream stream,
                                int timeout_ms)
{
    wi_device *device = node->device;
    bool capturing = false;
    if (timeout_ms < 0)
        return wi_fail(WHARF_EARG, "pass milliseconds, or 0 for the node's",
                       "timeout_ms is %d", timeout_ms);
    wharf_status status = device->ops->check_stream(device, stream);
    if (status == WHARF_OK)
        status = device->ops->capturing(device, stream, &capturing);
    if (status == WHARF_OK && capturing)
        return wi_fail(WHARF_EUNSUPPORTED, "wait after the graph was launched",
                       "the stream is being captured");
    if (status != WHARF_OK || node->backend == WHARF_BACKEND_HOST)
        return status;
    return wi_stream_hold(node, stream,
                          timeout_ms ? wi_deadline_in_ms(timeout_ms)
                                     : wi_node_deadline(node));
}

wharf_status wharf_stream_synchronize(wharf_node *node, wharf_stream stream,
                                      int timeout_ms)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK)
        status = synchronize(node, stream, timeout_ms);
    return wi_call_end(status);
}
