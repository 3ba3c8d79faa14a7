/* SPDX-License-Identifier: MIT */
/* Copies of the CUDA backend in a build without the CUDA toolkit: there is no
 * device that they could be asked of. */
#include "base/error.h"
#include "device/copy.h"

static wharf_status none(void)
{
    return wi_fail(WHARF_ENODEV,
                   "configure Wharf with -DWHARF_CUDA=ON where nvcc is "
                   "installed, or set WHARF_BACKEND=host",
                   "this Wharf was built without CUDA");
}

static wharf_status prepare(wi_device *device, uint32_t blocks_most,
                            bool *kernels)
{
    (void)device;
    (void)blocks_most;
    (void)kernels;
    return none();
}

static wharf_status look(wi_device *device, const void *pointer,
                         wi_copy_memory *memory)
{
    (void)device;
    (void)pointer;
    (void)memory;
    return none();
}

static wharf_status copy(wi_device *device, wharf_stream stream, wi_copy_by by,
                         const wi_copy_box *box)
{
    (void)device;
    (void)stream;
    (void)by;
    (void)box;
    return none();
}

static wharf_status copy_signal(wi_device *device, wharf_stream stream,
                                const wi_copy_box *box,
                                const wi_sync_step *signal, uint32_t *ticket)
{
    (void)device;
    (void)stream;
    (void)box;
    (void)signal;
    (void)ticket;
    return none();
}

static wharf_status ticket_take(wi_device *device, uint32_t **ticket)
{
    (void)device;
    (void)ticket;
    return none();
}

static void ticket_give(wi_device *device, uint32_t *ticket)
{
    (void)device;
    (void)ticket;
}

static wharf_status set_make(wi_device *device, const wi_copy_plan *plan,
                             wi_copy_set **set)
{
    (void)device;
    (void)plan;
    (void)set;
    return none();
}

static wharf_status set_launch(wi_copy_set *set, wharf_stream stream,
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

static void set_free(wi_copy_set *set)
{
    (void)set;
}

const wi_copy_ops wi_copy_cuda = {
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
