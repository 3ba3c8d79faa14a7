/* SPDX-License-Identifier: MIT */
/*
 * The host backend: one device, which is the machine's memory. Streams do not
 * exist, so calls act at once and an event is complete when it is recorded;
 * what is left of the seam's promises is order, which fences give.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/copy.h"
#include "device/foreign.h"
#include "device/host_memory.h"
#include "device/numa.h"
#include "device/sum.h"

/* What was written before is visible before what is written after. An atomic
 * operation, since the thread sanitizer does not know bare fences. */
static void host_order(void)
{
    static int word;

    __atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
}

static wharf_status host_enumerate(wi_device_desc *devices, int most,
                                   int *count)
{
    if (most > 0) {
        memset(&devices[0], 0, sizeof devices[0]);
        devices[0].caps = WI_CAP_IPC_EVENT | WI_CAP_MAP_HOST;
        devices[0].memory_bytes = wi_host_memory_total();
        memcpy(devices[0].name, "host", sizeof "host");
    }
    *count = most > 0;
    return WHARF_OK;
}

static wharf_status host_open(const wi_device_desc *desc, wi_device **device)
{
    wi_device *made;

    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    made->ops = &wi_device_host;
    made->desc = *desc;
    *device = made;
    return WHARF_OK;
}

/* Descriptors keep their memory by themselves. */
static void host_keep(wi_device *device)
{
    (void)device;
}

static void host_close(wi_device *device)
{
    wi_free(device);
}

static wharf_status host_fine(wi_device *device)
{
    (void)device;
    return WHARF_OK;
}

static wharf_status host_quiesce(wi_device *device)
{
    (void)device;
    host_order();
    return WHARF_OK;
}

static void host_link(const wi_device_desc *from, const wi_device_desc *to,
                      wi_peer *peer)
{
    (void)from;
    (void)to;
    memset(peer, 0, sizeof *peer);
    peer->reachable = true;
    peer->known = true;
    wi_reason_set(peer->reason, "host memory of one machine");
}

static const wi_memory_ops *host_kind(wi_device *device, wharf_handle_kind kind,
                                      char reason[96])
{
    (void)device;
    if (kind == WHARF_HANDLE_MEMFD)
        return &wi_memory_host;
    wi_reason_set(reason, "the host backend has no device memory");
    return NULL;
}

static wharf_status host_write(wi_device *device, void *to, const void *from,
                               size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    host_order();
    return WHARF_OK;
}

static wharf_status host_read_words(wi_device *device, const void *const *from,
                                    int count, uint64_t *words)
{
    (void)device;
    for (int i = 0; i < count; i++)
        words[i] = __atomic_load_n((const uint64_t *)from[i], __ATOMIC_ACQUIRE);
    return WHARF_OK;
}

static wharf_status host_fill_zero(wi_device *device, void *to, size_t bytes)
{
    (void)device;
    memset(to, 0, bytes);
    host_order();
    return WHARF_OK;
}

static wharf_status host_local_alloc(wi_device *device, size_t bytes,
                                     void **pointer)
{
    void *got = wi_calloc(1, bytes);

    (void)device;
    if (!got)
        return WHARF_ENOMEM;
    *pointer = got;
    return WHARF_OK;
}

static void host_local_free(wi_device *device, void *pointer)
{
    (void)device;
    wi_free(pointer);
}

static wharf_status host_check_stream(wi_device *device, wharf_stream stream)
{
    (void)device;
    if (!stream)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass NULL as the stream",
                   "stream %p was passed and the host backend has none",
                   (void *)stream);
}

/* ---- Events ------------------------------------------------------------ */

static wharf_status host_event_create(wi_device *device, wi_event **event)
{
    wi_event *made;

    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    made->device = device;
    *event = made;
    return WHARF_OK;
}

static wharf_status
host_event_export(wi_event *event, unsigned char handle[WI_EVENT_HANDLE_BYTES])
{
    (void)event;
    memset(handle, 0, WI_EVENT_HANDLE_BYTES);
    return WHARF_OK;
}

static wharf_status host_event_open(wi_device *device,
                                    const unsigned char *handle,
                                    wi_event **event)
{
    (void)handle;
    return host_event_create(device, event);
}

/* What was written before a record is seen after a wait for it: the number of
 * the record travels in shared memory between these two fences. */
static wharf_status host_event_order(wi_event *event, wharf_stream stream)
{
    wharf_status status = host_check_stream(event->device, stream);

    if (status == WHARF_OK)
        host_order();
    return status;
}

static wharf_status host_event_query(wi_event *event)
{
    return host_event_order(event, NULL);
}

static void host_event_destroy(wi_event *event)
{
    wi_free(event);
}

/* ---- Signals ----------------------------------------------------------- */

static wharf_status host_sync_prepare(wi_device *device, wi_sync_how how)
{
    (void)device;
    (void)how;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "leave the mechanism to choice, or set it to host",
                   "the host backend has no streams that could signal");
}

static wharf_status host_sync(wi_device *device, wharf_stream stream,
                              wi_sync_how how, const wi_sync_step *steps,
                              int count, uint64_t timeout_ns, uint32_t *report)
{
    (void)stream;
    (void)steps;
    (void)count;
    (void)timeout_ns;
    (void)report;
    return host_sync_prepare(device, how);
}

static wharf_stream host_own_stream(wi_device *device)
{
    (void)device;
    return NULL;
}

static wharf_status host_capturing(wi_device *device, wharf_stream stream,
                                   bool *capturing)
{
    wharf_status status = host_check_stream(device, stream);

    if (status == WHARF_OK)
        *capturing = false;
    return status;
}

static wharf_status host_report_alloc(wi_device *device, size_t words,
                                      uint32_t **report)
{
    uint32_t *got = wi_calloc(words ? words : 1, sizeof *got);

    (void)device;
    if (!got)
        return WHARF_ENOMEM;
    *report = got;
    return WHARF_OK;
}

static void host_report_free(wi_device *device, uint32_t *report)
{
    (void)device;
    wi_free(report);
}

const wi_device_ops wi_device_host = {
    .name = "host",
    .enumerate = host_enumerate,
    .open = host_open,
    .close = host_close,
    .keep = host_keep,
    .make_current = host_fine,
    .health = host_fine,
    .link = host_link,
    .memory = host_kind,
    .write = host_write,
    .read_words = host_read_words,
    .fill_zero = host_fill_zero,
    .local_alloc = host_local_alloc,
    .local_free = host_local_free,
    .quiesce = host_quiesce,
    .check_stream = host_check_stream,
    .event_create = host_event_create,
    .event_export = host_event_export,
    .event_open = host_event_open,
    .event_record = host_event_order,
    .event_wait = host_event_order,
    .event_query = host_event_query,
    .event_destroy = host_event_destroy,
    .event_abandon = host_event_destroy,
    .sync_prepare = host_sync_prepare,
    .sync = host_sync,
    .own_stream = host_own_stream,
    .capturing = host_capturing,
    .report_alloc = host_report_alloc,
    .report_free = host_report_free,
    .foreign = &wi_foreign_host,
    .copy = &wi_copy_host,
    .sums = &wi_sums_host,
    .numa = &wi_numa_system,
};
