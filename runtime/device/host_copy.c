/* SPDX-License-Identifier: MIT */
/* Copies of the host backend: the CPU, at once. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/copy.h"

/* Host memory is shared and coherent: a copy is seen by whoever sees a signal
 * that core makes after it. */
static void box_copy(const wi_copy_box *box)
{
    wi_copy_box b = wi_copy_box_simple(box);

    for (uint64_t z = 0; z < b.planes; z++)
        for (uint64_t y = 0; y < b.rows; y++)
            memcpy((char *)b.to + z * b.to_plane + y * b.to_pitch,
                   (const char *)b.from + z * b.from_plane + y * b.from_pitch,
                   b.width);
}

static wharf_status no_stream(wi_device *device)
{
    (void)device;
    return wi_fail(WHARF_EUNSUPPORTED, NULL,
                   "the host backend has no streams that could signal");
}

static wharf_status prepare(wi_device *device, uint32_t blocks_most,
                            bool *kernels)
{
    (void)device;
    (void)blocks_most;
    *kernels = false;
    return WHARF_OK;
}

static wharf_status look(wi_device *device, const void *pointer,
                         wi_copy_memory *memory)
{
    (void)device;
    (void)pointer;
    *memory = (wi_copy_memory){WI_COPY_PLACE_CPU, false};
    return WHARF_OK;
}

static wharf_status copy(wi_device *device, wharf_stream stream, wi_copy_by by,
                         const wi_copy_box *box)
{
    wharf_status status = device->ops->check_stream(device, stream);

    (void)by;
    if (status == WHARF_OK)
        box_copy(box);
    return status;
}

static wharf_status copy_signal(wi_device *device, wharf_stream stream,
                                const wi_copy_box *box,
                                const wi_sync_step *signal, uint32_t *ticket)
{
    (void)stream;
    (void)box;
    (void)signal;
    (void)ticket;
    return no_stream(device);
}

static wharf_status ticket_take(wi_device *device, uint32_t **ticket)
{
    (void)ticket;
    return no_stream(device);
}

static void ticket_give(wi_device *device, uint32_t *ticket)
{
    (void)device;
    (void)ticket;
}

/* ---- Sets -------------------------------------------------------------- */

struct wi_copy_set {
    wi_device *device;
    int boxes;
    wi_copy_box box[];
};

static wharf_status set_make(wi_device *device, const wi_copy_plan *plan,
                             wi_copy_set **set)
{
    size_t bytes = (size_t)plan->boxes * sizeof plan->box[0];
    wi_copy_set *made;

    for (int r = 0; r < WI_COPY_RUNS; r++)
        if (plan->run[r].count)
            return no_stream(device);
    made = wi_calloc(1, sizeof *made + bytes);
    if (!made)
        return WHARF_ENOMEM;
    made->device = device;
    made->boxes = plan->boxes;
    if (bytes)
        memcpy(made->box, plan->box, bytes);
    *set = made;
    return WHARF_OK;
}

static wharf_status set_launch(wi_copy_set *set, wharf_stream stream,
                               uint32_t flags, uint32_t round,
                               uint64_t timeout_ns, uint32_t *report)
{
    wharf_status status = set->device->ops->check_stream(set->device, stream);

    (void)round;
    (void)timeout_ns;
    (void)report;
    if (status == WHARF_OK && flags & WI_COPY_PUT)
        for (int i = 0; i < set->boxes; i++)
            box_copy(&set->box[i]);
    return status;
}

static void set_free(wi_copy_set *set)
{
    wi_free(set);
}

const wi_copy_ops wi_copy_host = {
    .prepare = prepare,
    .look = look,
    .copy = copy,
    .copy_signal = copy_signal,
    .ticket_take = ticket_take,
    .ticket_give = ticket_give,
    .set_make = set_make,
    .set_launch = set_launch,
    .set_free = set_free,
};
