/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend of a build without the CUDA toolkit: it has no devices and
 * says why. Its other slots cannot be reached without a device; they are
 * filled so that no caller has to ask.
 */
#include <string.h>

#include "base/error.h"
#include "device/block.h"
#include "device/copy.h"
#include "device/foreign.h"
#include "device/numa.h"
#include "device/sum.h"

static wharf_status none(void)
{
    return wi_fail(WHARF_ENODEV,
                   "configure Wharf with -DWHARF_CUDA=ON where nvcc is "
                   "installed, or set WHARF_BACKEND=host",
                   "this Wharf was built without CUDA");
}

static wharf_status none_enumerate(wi_device_desc *devices, int most,
                                   int *count)
{
    (void)devices;
    (void)most;
    (void)count;
    return none();
}

static wharf_status none_open(const wi_device_desc *desc, wi_device **device)
{
    (void)desc;
    (void)device;
    return none();
}

static void none_close(wi_device *device)
{
    (void)device;
}

static wharf_status none_device(wi_device *device)
{
    (void)device;
    return none();
}

static void none_link(const wi_device_desc *from, const wi_device_desc *to,
                      wi_peer *peer)
{
    (void)from;
    (void)to;
    memset(peer, 0, sizeof *peer);
    wi_reason_set(peer->reason, "built without CUDA");
}

static const wi_memory_ops *none_memory(wi_device *device,
                                        wharf_handle_kind kind, char reason[96])
{
    (void)device;
    (void)kind;
    wi_reason_set(reason, "built without CUDA");
    return NULL;
}

static wharf_status none_write(wi_device *device, void *to, const void *from,
                               size_t bytes)
{
    (void)device;
    (void)to;
    (void)from;
    (void)bytes;
    return none();
}

static wharf_status none_read_words(wi_device *device, const void *const *from,
                                    int count, uint64_t *words)
{
    (void)device;
    (void)from;
    (void)count;
    (void)words;
    return none();
}

static wharf_status none_fill_zero(wi_device *device, void *to, size_t bytes)
{
    (void)device;
    (void)to;
    (void)bytes;
    return none();
}

static wharf_status none_local_alloc(wi_device *device, size_t bytes,
                                     void **pointer)
{
    (void)device;
    (void)bytes;
    (void)pointer;
    return none();
}

static void none_local_free(wi_device *device, void *pointer)
{
    (void)device;
    (void)pointer;
}

static wharf_status none_check_stream(wi_device *device, wharf_stream stream)
{
    (void)device;
    (void)stream;
    return none();
}

static wharf_status none_event_create(wi_device *device, wi_event **event)
{
    (void)device;
    (void)event;
    return none();
}

static wharf_status
none_event_export(wi_event *event, unsigned char handle[WI_EVENT_HANDLE_BYTES])
{
    (void)event;
    (void)handle;
    return none();
}

static wharf_status none_event_open(wi_device *device,
                                    const unsigned char *handle,
                                    wi_event **event)
{
    (void)device;
    (void)handle;
    (void)event;
    return none();
}

static wharf_status none_event_on_stream(wi_event *event, wharf_stream stream)
{
    (void)event;
    (void)stream;
    return none();
}

static wharf_status none_event_query(wi_event *event)
{
    (void)event;
    return none();
}

static void none_event_destroy(wi_event *event)
{
    (void)event;
}

static wharf_status none_sync_prepare(wi_device *device, wi_sync_how how)
{
    (void)device;
    (void)how;
    return none();
}

static wharf_status none_sync(wi_device *device, wharf_stream stream,
                              wi_sync_how how, const wi_sync_step *steps,
                              int count, uint64_t timeout_ns, uint32_t *report)
{
    (void)device;
    (void)stream;
    (void)how;
    (void)steps;
    (void)count;
    (void)timeout_ns;
    (void)report;
    return none();
}

static wharf_stream none_own_stream(wi_device *device)
{
    (void)device;
    return NULL;
}

static wharf_status none_capturing(wi_device *device, wharf_stream stream,
                                   bool *capturing)
{
    (void)device;
    (void)stream;
    (void)capturing;
    return none();
}

static wharf_status none_report_alloc(wi_device *device, size_t words,
                                      uint32_t **report)
{
    (void)device;
    (void)words;
    (void)report;
    return none();
}

static void none_report_free(wi_device *device, uint32_t *report)
{
    (void)device;
    (void)report;
}

/* ---- Moving data ------------------------------------------------------- */

static wharf_status none_prepare(wi_device *device, uint32_t blocks_most,
                                 bool *kernels)
{
    (void)device;
    (void)blocks_most;
    (void)kernels;
    return none();
}

static wharf_status none_look(wi_device *device, const void *pointer,
                              wi_copy_memory *memory)
{
    (void)device;
    (void)pointer;
    (void)memory;
    return none();
}

static wharf_status none_copy(wi_device *device, wharf_stream stream,
                              wi_copy_by by, const wi_copy_box *box)
{
    (void)device;
    (void)stream;
    (void)by;
    (void)box;
    return none();
}

static wharf_status none_copy_signal(wi_device *device, wharf_stream stream,
                                     const wi_copy_box *box,
                                     const wi_sync_step *signal,
                                     uint32_t *ticket)
{
    (void)device;
    (void)stream;
    (void)box;
    (void)signal;
    (void)ticket;
    return none();
}

static wharf_status none_ticket_take(wi_device *device, uint32_t **ticket)
{
    (void)device;
    (void)ticket;
    return none();
}

static void none_ticket_give(wi_device *device, uint32_t *ticket)
{
    (void)device;
    (void)ticket;
}

static wharf_status none_set_make(wi_device *device, const wi_copy_plan *plan,
                                  wi_copy_set **set)
{
    (void)device;
    (void)plan;
    (void)set;
    return none();
}

static wharf_status none_set_launch(wi_copy_set *set, wharf_stream stream,
                                    uint32_t flags, uint32_t round,
                                    uint64_t timeout_ns, uint32_t *report)
{
    (void)set;
    (void)stream;
    (void)flags;
    (void)round;
    (void)timeout_ns;
    (void)report;
    return none();
}

static void none_set_free(wi_copy_set *set)
{
    (void)set;
}

static const wi_copy_ops copy_none = {
    .prepare = none_prepare,
    .look = none_look,
    .copy = none_copy,
    .copy_signal = none_copy_signal,
    .ticket_take = none_ticket_take,
    .ticket_give = none_ticket_give,
    .set_make = none_set_make,
    .set_launch = none_set_launch,
    .set_free = none_set_free,
};

const wi_device_ops wi_device_cuda = {
    .name = "cuda",
    .enumerate = none_enumerate,
    .open = none_open,
    .close = none_close,
    .keep = none_close,
    .make_current = none_device,
    .health = none_device,
    .link = none_link,
    .memory = none_memory,
    .write = none_write,
    .read_words = none_read_words,
    .fill_zero = none_fill_zero,
    .local_alloc = none_local_alloc,
    .local_free = none_local_free,
    .quiesce = none_device,
    .check_stream = none_check_stream,
    .event_create = none_event_create,
    .event_export = none_event_export,
    .event_open = none_event_open,
    .event_record = none_event_on_stream,
    .event_wait = none_event_on_stream,
    .event_query = none_event_query,
    .event_destroy = none_event_destroy,
    .event_abandon = none_event_destroy,
    .sync_prepare = none_sync_prepare,
    .sync = none_sync,
    .own_stream = none_own_stream,
    .capturing = none_capturing,
    .report_alloc = none_report_alloc,
    .report_free = none_report_free,
    .foreign = &wi_foreign_none,
    .copy = &copy_none,
    .numa = &wi_numa_system,
    .sums = &wi_sums_host, /* no device, so nobody gets here */
};
