/* SPDX-License-Identifier: MIT */
/* Rounds: the public calls, their checks, and who does what a round needs. */
#include "base/error.h"
#include "base/handles.h"
#include "core/exchange.h"

/* ---- Checks
 * --------------------------------------------------------------------- */

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
        wharf_status status =
            wi_handle_check(use->buffer, WI_HANDLE_BUFFER, "buffer");
        if (status != WHARF_OK || use->buffer->serial != use->serial)
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
    wharf_status status = device->ops->capturing(device, stream, &capturing);
    if (status != WHARF_OK || !capturing)
        return status;
    return wi_exchange_stream_capturable(x);
}

static wharf_status check_all(const wharf_exchange *x, wharf_stream stream,
                              bool started)
{
    wharf_status status = check_stream(x, stream);
    if (status == WHARF_OK)
        status = check_state(x, started);
    if (status == WHARF_OK && !started)
        status = check_buffers(x);
    return status == WHARF_OK ? check_capture(x, stream) : status;
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
    wharf_status status = wi_exchange_far_start(x, stream);
    if (status == WHARF_OK)
        status = on_host(x) ? wi_exchange_host_start(x)
                            : wi_exchange_stream_start(x, stream);
    x->broken = status != WHARF_OK;
    return status;
}

static wharf_status finish_stream(wharf_exchange *x, wharf_stream stream)
{
    if (!x->waited) {
        wharf_status status = wi_exchange_stream_finish(x, stream);
        if (status != WHARF_OK)
            return status;
        x->waited = true;
    }
    return wi_exchange_far_finish(x, stream, wi_node_deadline(x->node));
}

static wharf_status finish(wharf_exchange *x, wharf_stream stream)
{
    wharf_status status =
        on_host(x) ? wi_exchange_host_finish(x) : finish_stream(x, stream);
    x->broken = status != WHARF_OK;
    if (status != WHARF_OK)
        return status;
    x->started = false;
    x->round++;
    return WHARF_OK;
}

wharf_status wharf_exchange_start(wharf_exchange *exchange, wharf_stream stream)
{
    wharf_status status = wi_exchange_enter(__func__, exchange);
    if (status == WHARF_OK)
        status = check_all(exchange, stream, false);
    if (status == WHARF_OK)
        status = start(exchange, stream);
    return wi_call_end(status);
}

wharf_status wharf_exchange_finish(wharf_exchange *exchange,
                                   wharf_stream stream)
{
    wharf_status status = wi_exchange_enter(__func__, exchange);
    if (status != WHARF_OK)
        return wi_call_end(status);
    status = check_all(exchange, stream, true);
    if (status == WHARF_OK)
        status = finish(exchange, stream);
    else if (status == WHARF_EFAULT)
        exchange->broken = true; /* nothing can finish the round any more */
    return wi_call_end(status);
}

wharf_status wharf_exchange_run(wharf_exchange *exchange, wharf_stream stream)
{
    wharf_status status = wi_exchange_enter(__func__, exchange);
    if (status == WHARF_OK)
        status = check_all(exchange, stream, false);
    if (status == WHARF_OK && !on_host(exchange) && !exchange->far) {
        status = wi_exchange_stream_run(exchange, stream);
        if (status == WHARF_OK)
            exchange->round++;
        return wi_call_end(status);
    }
    if (status == WHARF_OK)
        status = start(exchange, stream);
    if (status == WHARF_OK)
        status = finish(exchange, stream);
    return wi_call_end(status);
}
