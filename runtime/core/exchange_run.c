/* SPDX-License-Identifier: MIT */
/* Rounds: the public calls, their checks, and who does what a round needs. */
#include <time.h>

#include "base/error.h"
#include "base/handles.h"
#include "core/exchange.h"

/* Looking at a stream costs a driver call: pauses between two looks. */
#define FIRST_PAUSE_NS 2000
#define MOST_PAUSE_NS 1000000

/* ---- Checks
 * --------------------------------------------------------------------- */

static wharf_status enter(const char *call, const wharf_exchange *x)
{
    wi_call_begin(call, -1);
    wharf_status st = wi_handle_check(x, WI_HANDLE_EXCHANGE, "exchange");
    if (st == WHARF_OK)
        wi_call_set_rank(x->node->rank);
    return st;
}

static wharf_status check_stream(const wharf_exchange *x, wharf_stream stream)
{
    wi_device *device = x->node->device;
    return device->ops->check_stream(device, stream);
}

static wharf_status check_state(const wharf_exchange *x, bool started)
{
    if (x->started == started)
        return WHARF_OK;
    if (x->started)
        return wi_fail(WHARF_ESTATE, "finish the round first",
                       "round %llu of the exchange is started already",
                       (unsigned long long)x->round);
    return wi_fail(WHARF_ESTATE, "start a round first",
                   "no round of the exchange is started");
}

/* What the plan points into may have been detached since. */
static wharf_status check_buffers(const wharf_exchange *x)
{
    for (int u = 0; u < x->uses; u++) {
        const wi_exchange_use *use = &x->use[u];
        wharf_status st =
            wi_handle_check(use->buffer, WI_HANDLE_BUFFER, "buffer");
        if (st != WHARF_OK || use->buffer->serial != use->serial)
            return wi_fail(WHARF_ESTATE,
                           "destroy the exchange before its buffers",
                           "buffer %llu of the exchange was detached",
                           (unsigned long long)use->serial);
    }
    return WHARF_OK;
}

static wharf_status check_capture(const wharf_exchange *x, wharf_stream stream)
{
    wi_device *device = x->node->device;
    bool capturing;
    if (!wi_exchange_stream_limited(x))
        return WHARF_OK;
    wharf_status st = device->ops->capturing(device, stream, &capturing);
    if (st != WHARF_OK || !capturing)
        return st;
    return wi_exchange_stream_capturable(x);
}

static wharf_status check_all(const wharf_exchange *x, wharf_stream stream,
                              bool started)
{
    wharf_status st = check_stream(x, stream);
    if (st == WHARF_OK)
        st = check_state(x, started);
    if (st == WHARF_OK && !started)
        st = check_buffers(x);
    return st == WHARF_OK ? check_capture(x, stream) : st;
}

/* ---- Rounds
 * --------------------------------------------------------------------- */

static bool on_host(const wharf_exchange *x)
{
    return x->node->backend == WHARF_BACKEND_HOST;
}

/* What goes to other nodes first, since it takes longest. */
static wharf_status start(wharf_exchange *x, wharf_stream stream)
{
    x->started = true;
    x->waited = false;
    wharf_status st = wi_exchange_far_start(x, stream);
    if (st == WHARF_OK)
        st = on_host(x) ? wi_exchange_host_start(x)
                        : wi_exchange_stream_start(x, stream);
    x->broken = st != WHARF_OK;
    return st;
}

static wharf_status finish_stream(wharf_exchange *x, wharf_stream stream)
{
    if (!x->waited) {
        wharf_status st = wi_exchange_stream_finish(x, stream);
        if (st != WHARF_OK)
            return st;
        x->waited = true;
    }
    return wi_exchange_far_finish(x, stream, wi_node_deadline(x->node));
}

static wharf_status finish(wharf_exchange *x, wharf_stream stream)
{
    wharf_status st =
        on_host(x) ? wi_exchange_host_finish(x) : finish_stream(x, stream);
    x->broken = st != WHARF_OK;
    if (st != WHARF_OK)
        return st;
    x->started = false;
    x->round++;
    return WHARF_OK;
}

wharf_status wharf_exchange_start(wharf_exchange *exchange, wharf_stream stream)
{
    wharf_status st = enter(__func__, exchange);
    if (st == WHARF_OK)
        st = check_all(exchange, stream, false);
    if (st == WHARF_OK)
        st = start(exchange, stream);
    return wi_call_end(st);
}

wharf_status wharf_exchange_finish(wharf_exchange *exchange,
                                   wharf_stream stream)
{
    wharf_status st = enter(__func__, exchange);
    if (st == WHARF_OK)
        st = check_all(exchange, stream, true);
    if (st == WHARF_OK)
        st = finish(exchange, stream);
    return wi_call_end(st);
}

wharf_status wharf_exchange_run(wharf_exchange *exchange, wharf_stream stream)
{
    wharf_status st = enter(__func__, exchange);
    if (st == WHARF_OK)
        st = check_all(exchange, stream, false);
    if (st == WHARF_OK && !on_host(exchange) && !exchange->far) {
        st = wi_exchange_stream_run(exchange, stream);
        if (st == WHARF_OK)
            exchange->round++;
        return wi_call_end(st);
    }
    if (st == WHARF_OK)
        st = start(exchange, stream);
    if (st == WHARF_OK)
        st = finish(exchange, stream);
    return wi_call_end(st);
}

/* ---- Waiting on the host
 * -------------------------------------------------------- */

static wharf_status check_peers(const wharf_exchange *x)
{
    wharf_status st = WHARF_OK;
    for (int p = 0; p < x->peers && st == WHARF_OK; p++)
        st = wi_comm_check_alive(x->node->comm, x->peer[p].node_rank);
    return st;
}

static wharf_status wait_event(const wharf_exchange *x, wi_event *event,
                               wi_deadline deadline)
{
    const wi_device_ops *ops = x->node->device->ops;
    long pause_ns = FIRST_PAUSE_NS;
    for (;;) {
        /* Asked first: what a rank put before it died counts. */
        wharf_status alive =
            pause_ns == MOST_PAUSE_NS ? check_peers(x) : WHARF_OK;
        wharf_error cause = *wi_error_record();
        bool late = wi_deadline_passed(deadline);
        wharf_status st = ops->event_query(event);
        if (st != WHARF_ENOTREADY)
            return st;
        if (alive != WHARF_OK) {
            *wi_error_record() = cause;
            return alive;
        }
        if (late)
            return wi_fail(WHARF_ETIMEDOUT,
                           "see that every rank makes the round; if one is "
                           "only slow, wait longer",
                           "the stream's work, which may wait for a neighbour, "
                           "was not complete in time");
        struct timespec pause = {0, pause_ns};
        nanosleep(&pause, NULL);
        pause_ns = pause_ns * 2 < MOST_PAUSE_NS ? pause_ns * 2 : MOST_PAUSE_NS;
    }
}

static wharf_status wait_stream(const wharf_exchange *x, wharf_stream stream,
                                wi_deadline deadline)
{
    wi_device *device = x->node->device;
    wi_event *event;
    bool capturing = false;
    wharf_status st = device->ops->capturing(device, stream, &capturing);
    if (st == WHARF_OK && capturing)
        st = wi_fail(WHARF_EARG, "wait after the graph was launched",
                     "the stream is being captured");
    if (st == WHARF_OK)
        st = device->ops->event_create(device, &event);
    if (st != WHARF_OK)
        return st;
    st = device->ops->event_record(event, stream);
    if (st == WHARF_OK)
        st = wait_event(x, event, deadline);
    wharf_error cause = *wi_error_record();
    device->ops->event_destroy(event);
    *wi_error_record() = cause;
    return st;
}

wharf_status wharf_exchange_wait(wharf_exchange *exchange, wharf_stream stream,
                                 int timeout_ms)
{
    wharf_status st = enter(__func__, exchange);
    if (st == WHARF_OK && timeout_ms < 0)
        st = wi_fail(WHARF_EARG, "pass milliseconds, or 0", "timeout_ms is %d",
                     timeout_ms);
    if (st == WHARF_OK)
        st = check_stream(exchange, stream);
    if (st == WHARF_OK && !on_host(exchange))
        st = wait_stream(exchange, stream,
                         timeout_ms ? wi_deadline_in_ms(timeout_ms)
                                    : wi_node_deadline(exchange->node));
    return wi_call_end(st);
}
