/* SPDX-License-Identifier: MIT */
/*
 * Launches of the copy kernels: single boxes, with or without a signal, and
 * prepared sets. What fits into the parameter of wi_kernel_copy_few travels
 * with the launch; the rest lies in device memory.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/cuda_copy.h"

struct wi_copy_set {
    wi_device *device;
    wi_copy_few few;   /* head, and the rest where it fits */
    wi_copy_many many; /* table: else */
    CUdeviceptr table;
    uint32_t *ticket;
};

/* ---- Launching --------------------------------------------------------- */

static wharf_status launch(const wi_cuda *cuda, CUstream stream,
                           CUkernel kernel, void *args, uint32_t blocks)
{
    return wi_cuda_launch(cuda, stream, kernel, args, blocks, WI_COPY_THREADS,
                          true, "copies");
}

/* Blocks for the phases of a launch. */
static uint32_t blocks_for(const wi_copy_head *head, uint32_t most)
{
    uint32_t blocks = head->flags & WI_COPY_PUT ? head->tiles : 1;

    return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

static void firsts_pad(wi_copy_few *few)
{
    for (uint32_t i = few->head.parts; i < WI_COPY_FEW_PARTS; i++)
        few->first[i] = UINT32_MAX;
}

wharf_status wi_cuda_copy_kernel(wi_cuda *cuda, CUstream stream,
                                 const wi_copy_box *box,
                                 const wi_sync_step *signal, uint32_t *ticket)
{
    const struct wi_cuda_copy *copy;
    wi_copy_few few = {.head.flags = WI_COPY_PUT};
    wi_copy_head *head = &few.head;
    uint32_t blocks;
    wharf_status status = wi_cuda_copy_of(cuda, &copy);

    if (status == WHARF_OK)
        status = wi_copy_parts_cut(box, 1, copy->blocks_most, few.part,
                                   few.first, &head->parts, &head->tiles);
    if (status != WHARF_OK || (head->tiles == 0 && !signal))
        return status;
    firsts_pad(&few);
    if (signal) {
        few.step[0] = *signal;
        head->run_end[WI_COPY_RUN_SIGNALS] = 1;
        head->run_end[WI_COPY_RUN_WAITS] = 1;
        head->flags |= WI_COPY_SIGNAL;
    }
    blocks = blocks_for(head, copy->blocks_most);
    head->ticket = blocks > 1 ? ticket : NULL;
    return launch(cuda, stream, copy->few, &few, blocks);
}

/* ---- Making a set ------------------------------------------------------ */

static wharf_status run_check(const wi_copy_steps *run, int which)
{
    bool waits = which == WI_COPY_RUN_READY_WAITS || which == WI_COPY_RUN_WAITS;
    unsigned allowed = waits ? 1u << WI_SYNC_TAKE | 1u << WI_SYNC_WAIT
                             : 1u << WI_SYNC_ADD | 1u << WI_SYNC_WRITE;

    for (int i = 0; i < run->count; i++) {
        uint32_t kind = run->step[i].kind;

        if (kind >= 32 || !(allowed >> kind & 1))
            return wi_fail(WHARF_EUNSUPPORTED, NULL,
                           "step %d of run %d is of kind %u", i, which, kind);
    }
    return WHARF_OK;
}

static wharf_status plan_check(const wi_copy_plan *plan, int *steps)
{
    wharf_status status = WHARF_OK;
    int64_t all = 0;

    for (int r = 0; r < WI_COPY_RUNS && status == WHARF_OK; r++) {
        all += plan->run[r].count;
        status = run_check(&plan->run[r], r);
    }
    if (status == WHARF_OK &&
        (all > WI_COPY_SET_STEPS || plan->boxes > WI_COPY_SET_PARTS))
        status = wi_fail(WHARF_ELIMIT, "make several sets",
                         "a set of %d boxes and %lld steps; the most are %d "
                         "and %d",
                         plan->boxes, (long long)all, WI_COPY_SET_PARTS,
                         WI_COPY_SET_STEPS);
    *steps = (int)all;
    return status;
}

static void steps_fill(const wi_copy_plan *plan, wi_copy_head *head,
                       wi_sync_step *to)
{
    uint32_t end = 0;

    for (int r = 0; r < WI_COPY_RUNS; r++) {
        const wi_copy_steps *run = &plan->run[r];

        for (int i = 0; i < run->count; i++)
            to[end++] = run->step[i];
        head->run_end[r] = end;
    }
}

/* The parts, then the steps, then the firsts, as they lie in device memory. */
typedef struct table {
    unsigned char *bytes;
    wi_copy_part *part;
    wi_sync_step *step;
    uint32_t *first;
    size_t size;
} table;

static wharf_status table_new(int boxes, int steps, table *t)
{
    size_t parts = (size_t)boxes * sizeof *t->part;
    size_t signals = (size_t)steps * sizeof *t->step;

    t->size = parts + signals + (size_t)boxes * sizeof *t->first;
    t->bytes = wi_calloc(1, t->size + 16);
    if (!t->bytes)
        return WHARF_ENOMEM;
    t->part = (void *)t->bytes;
    t->step = (void *)(t->bytes + parts);
    t->first = (void *)(t->bytes + parts + signals);
    return WHARF_OK;
}

static wharf_status table_send(wi_copy_set *set, const table *t)
{
    wi_device *device = set->device;
    void *there = NULL;
    wharf_status status = device->ops->local_alloc(device, t->size, &there);

    if (status != WHARF_OK)
        return status;
    set->table = (CUdeviceptr)there;
    status = device->ops->write(device, there, t->bytes, t->size);
    set->many.part = there;
    set->many.step = wi_cuda_pointer(
        set->table + (CUdeviceptr)((unsigned char *)t->step - t->bytes));
    set->many.first = wi_cuda_pointer(
        set->table + (CUdeviceptr)((unsigned char *)t->first - t->bytes));
    return status;
}

/* Into the set itself, or into device memory. */
static wharf_status table_place(wi_copy_set *set, const table *t, int steps)
{
    uint32_t parts = set->few.head.parts;

    if (parts > WI_COPY_FEW_PARTS || steps > WI_COPY_FEW_STEPS)
        return table_send(set, t);
    memcpy(set->few.part, t->part, parts * sizeof *t->part);
    memcpy(set->few.first, t->first, parts * sizeof *t->first);
    memcpy(set->few.step, t->step, (size_t)steps * sizeof *t->step);
    firsts_pad(&set->few);
    return WHARF_OK;
}

static wharf_status set_fill(wi_copy_set *set, const wi_copy_plan *plan,
                             uint32_t blocks_most)
{
    wi_copy_head *head = &set->few.head;
    table t;
    int steps;
    wharf_status status = plan_check(plan, &steps);

    if (status == WHARF_OK)
        status = table_new(plan->boxes, steps, &t);
    if (status != WHARF_OK)
        return status;
    status = wi_copy_parts_cut(plan->box, plan->boxes, blocks_most, t.part,
                               t.first, &head->parts, &head->tiles);
    steps_fill(plan, head, t.step);
    if (status == WHARF_OK)
        status = table_place(set, &t, steps);
    wi_free(t.bytes);
    return status;
}

wharf_status wi_cuda_copy_set_make(wi_device *device, const wi_copy_plan *plan,
                                   wi_copy_set **set)
{
    const struct wi_cuda_copy *copy;
    wi_copy_set *made;
    wharf_status status = wi_cuda_copy_of(wi_cuda_of(device), &copy);

    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    made->device = device;
    status = wi_cuda_copy_ticket_take(device, &made->ticket);
    if (status == WHARF_OK)
        status = set_fill(made, plan, copy->blocks_most);
    if (status != WHARF_OK) {
        wi_cuda_copy_set_free(made);
        return status;
    }
    *set = made;
    return WHARF_OK;
}

void wi_cuda_copy_set_free(wi_copy_set *set)
{
    if (!set)
        return;
    if (set->table)
        set->device->ops->local_free(set->device, wi_cuda_pointer(set->table));
    wi_cuda_copy_ticket_give(set->device, set->ticket);
    wi_free(set);
}

/* ---- Launching a set --------------------------------------------------- */

wharf_status wi_cuda_copy_set_launch(wi_copy_set *set, wharf_stream stream,
                                     uint32_t flags, uint32_t round,
                                     uint64_t timeout_ns, uint32_t *report)
{
    const wi_cuda *cuda = wi_cuda_of(set->device);
    const struct wi_cuda_copy *copy;
    wi_copy_few few;
    wi_copy_many many;
    wi_copy_head head = set->few.head;
    uint32_t blocks;
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_copy_of(cuda, &copy);

    if (status == WHARF_OK)
        status = wi_cuda_stream_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    head.flags = flags;
    head.round = round;
    head.timeout_ns = timeout_ns;
    head.report = report;
    blocks = blocks_for(&head, copy->blocks_most);
    head.ticket = blocks > 1 ? set->ticket : NULL;
    if (set->table) {
        many = set->many;
        many.head = head;
        status = launch(cuda, stream, copy->many, &many, blocks);
    } else {
        few = set->few;
        few.head = head;
        status = launch(cuda, stream, copy->few, &few, blocks);
    }
    wi_cuda_leave(&visit);
    return status;
}
