/* SPDX-License-Identifier: MIT */
/*
 * CPU versions of the kernels that move data (device/copy_kernels.cu): tile by
 * tile as the GPU does, so that a box that was cut wrongly shows here as well.
 */
#include <stdlib.h>

#include "device/copy_step.h" /* layout of the parameters */
#include "fake.h"

/* A launch with its tables where the CPU can read them. */
typedef struct job {
    const fake_cuda_launch *launch;
    const wi_copy_head *head;
    const uint32_t *first;
    const wi_copy_part *part;
    const wi_sync_step *step;
} job;

/* ---- Data --------------------------------------------------------------- */

/* False after a fault, as all that follow. */
static bool move(const job *j, const wi_copy_part *p, uint64_t plane,
                 uint64_t row, uint64_t at, uint64_t bytes)
{
    return bytes == 0 ||
           fakeCudaMove(
               j->launch, p->to + plane * p->to_plane + row * p->to_pitch + at,
               p->from + plane * p->from_plane + row * p->from_pitch + at,
               bytes);
}

static bool tile_rows(const job *j, const wi_copy_part *p, uint64_t plane,
                      uint64_t r)
{
    uint64_t width = p->head + (p->units << p->unit_log2) + p->tail;
    uint64_t end = (r + 1) * p->row_tile;

    for (uint64_t row = r * p->row_tile; row < end && row < p->rows; row++)
        if (!move(j, p, plane, row, 0, width))
            return false;
    return true;
}

static bool tile_columns(const job *j, const wi_copy_part *p, uint64_t plane,
                         uint64_t row, uint64_t c)
{
    uint64_t first = c * p->col_tile, units = p->units - first;
    uint64_t tail = p->head + (p->units << p->unit_log2);

    if (units > p->col_tile)
        units = p->col_tile;
    if (!move(j, p, plane, row, p->head + (first << p->unit_log2),
              units << p->unit_log2))
        return false;
    if (c == 0 && !move(j, p, plane, row, 0, p->head))
        return false;
    return c + 1 < p->tiles_c || move(j, p, plane, row, tail, p->tail);
}

static bool tile(const job *j, uint32_t t)
{
    uint32_t i = 0;

    while (i + 1 < j->head->parts && j->first[i + 1] <= t)
        i++;
    const wi_copy_part *p = &j->part[i];
    uint32_t q = t - j->first[i], r = q / p->tiles_c;
    uint32_t plane = r / p->tiles_r;

    r -= plane * p->tiles_r;
    return p->row_tile ? tile_rows(j, p, plane, r)
                       : tile_columns(j, p, plane, r, q % p->tiles_c);
}

static bool put(const job *j)
{
    for (uint32_t t = 0; t < j->head->tiles; t++)
        if (!tile(j, t))
            return false;
    return true;
}

/* ---- Signals ------------------------------------------------------------ */

static uint32_t run_first(const job *j, int run)
{
    return run ? j->head->run_end[run - 1] : 0;
}

static bool run_signal(const job *j, int run)
{
    for (uint32_t i = run_first(j, run); i < j->head->run_end[run]; i++) {
        uint64_t at = (uintptr_t)j->step[i].address;
        uint32_t before;

        if (j->step[i].kind == WI_SYNC_ADD
                ? !fakeCudaAdd32(j->launch, at, 1, &before)
                : !fakeCudaStore32(j->launch, at,
                                   j->step[i].value + j->head->round))
            return false;
    }
    return true;
}

/* Waits, then takes what was counted. */
static bool step_wait(const job *j, const wi_sync_step *step)
{
    uint64_t at = (uintptr_t)step->address;
    bool take = step->kind == WI_SYNC_TAKE;
    uint32_t before;
    int came =
        fakeCudaWait32(j->launch, at, take ? 1 : step->value + j->head->round,
                       j->head->timeout_ns);

    if (came > 0)
        return !take || fakeCudaAdd32(j->launch, at, UINT32_MAX, &before);
    return came < 0 && (!j->head->report ||
                        fakeCudaStore32(j->launch, (uintptr_t)j->head->report,
                                        step->value + 1));
}

static bool run_wait(const job *j, int run)
{
    for (uint32_t i = run_first(j, run); i < j->head->run_end[run]; i++)
        if (!step_wait(j, &j->step[i]))
            return false;
    return true;
}

/* ---- The kernels -------------------------------------------------------- */

static void run(const job *j)
{
    uint32_t flags = j->head->flags;

    if (flags & WI_COPY_READY_SIGNAL &&
        !run_signal(j, WI_COPY_RUN_READY_SIGNALS))
        return;
    if (flags & WI_COPY_READY_WAIT && !run_wait(j, WI_COPY_RUN_READY_WAITS))
        return;
    if (flags & WI_COPY_PUT && !put(j))
        return;
    if (flags & WI_COPY_SIGNAL && !run_signal(j, WI_COPY_RUN_SIGNALS))
        return;
    if (flags & WI_COPY_WAIT)
        run_wait(j, WI_COPY_RUN_WAITS);
}

/*
 * More blocks than one need a ticket: one at a time, and zero in between. The
 * GPU counts blocks in it, here it is 1 from start to end.
 */
static void run_with_ticket(const job *j)
{
    uint32_t flags = WI_COPY_READY_WAIT | WI_COPY_SIGNAL | WI_COPY_WAIT;
    uint64_t ticket = (uintptr_t)j->head->ticket;
    uint32_t before = 0;

    if (j->launch->grid[0] == 1 || !(j->head->flags & flags)) {
        run(j);
        return;
    }
    if (!ticket) {
        fc_violate("copy kernel of %u blocks that signals, without a ticket",
                   j->launch->grid[0]);
        return;
    }
    if (!fakeCudaAdd32(j->launch, ticket, 1, &before))
        return;
    if (before)
        fc_violate("copy kernel with a ticket that another launch uses");
    run(j);
    fakeCudaAdd32(j->launch, ticket, UINT32_MAX, &before);
}

void fc_kernel_copy_few(const fake_cuda_launch *launch)
{
    const wi_copy_few *args = launch->params[0];
    job j = {launch, &args->head, args->first, args->part, args->step};

    run_with_ticket(&j);
}

void fc_kernel_copy_many(const fake_cuda_launch *launch)
{
    const wi_copy_many *args = launch->params[0];
    const wi_copy_head *head = &args->head;
    size_t steps = head->run_end[WI_COPY_RUNS - 1];
    uint32_t *first = fc_zalloc((head->parts + 1) * sizeof *first);
    wi_copy_part *part = fc_zalloc((head->parts + 1) * sizeof *part);
    wi_sync_step *step = fc_zalloc((steps + 1) * sizeof *step);
    job j = {launch, head, first, part, step};

    if (fakeCudaLoad(launch, (uintptr_t)args->first, first,
                     head->parts * sizeof *first) &&
        fakeCudaLoad(launch, (uintptr_t)args->part, part,
                     head->parts * sizeof *part) &&
        fakeCudaLoad(launch, (uintptr_t)args->step, step, steps * sizeof *step))
        run_with_ticket(&j);
    free(first);
    free(part);
    free(step);
}

const uint16_t fc_copy_few_sizes[] = {sizeof(wi_copy_few)};
const uint16_t fc_copy_many_sizes[] = {sizeof(wi_copy_many)};
