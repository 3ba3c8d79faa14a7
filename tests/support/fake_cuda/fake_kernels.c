/* SPDX-License-Identifier: MIT */
/*
 * CPU versions of the library's own kernels, by the names under which the
 * library asks for them. One call runs the whole grid. To add one: write the
 * function, the list of the sizes of its parameters, and a line in the table;
 * fake_cuda.h says what it may call. Tests add their own at run time with
 * fakeCudaRegisterKernel.
 */
#include "device/sum_step.h" /* layout of the parameters */
#include "device/sync_step.h"
#include "fake.h"

/* ---- wi_kernel_sync4, wi_kernel_sync64 --------------------------------- */

static uint64_t address_of(const wi_sync_step *step)
{
    return (uint64_t)(uintptr_t)step->address;
}

/* False after a fault. */
static bool sync_signal(const fake_cuda_launch *launch,
                        const wi_sync_step *step)
{
    uint32_t before;

    if (step->kind == WI_SYNC_ADD)
        return fakeCudaAdd32(launch, address_of(step), 1, &before);
    if (step->kind == WI_SYNC_WRITE)
        return fakeCudaStore32(launch, address_of(step), step->value);
    return true;
}

/* False after a fault. */
static bool sync_wait(const fake_cuda_launch *launch, const wi_sync_step *step,
                      uint64_t timeout_ns, uint64_t report)
{
    uint64_t at = address_of(step);
    uint32_t before;
    int came = 1;

    /* Taken first, and given back if nothing came: as the GPU's kernel does. */
    if (step->kind == WI_SYNC_TAKE)
        came = fakeCudaAdd32(launch, at, UINT32_MAX, &before)
                   ? fakeCudaWait32(launch, at, 0, timeout_ns)
                   : 0;
    else if (step->kind == WI_SYNC_WAIT)
        came = fakeCudaWait32(launch, at, step->value, timeout_ns);
    else if (step->kind == WI_SYNC_EXPECT)
        came = fakeCudaWaitEqual32(launch, at, step->value, timeout_ns);
    if (came == 0)
        return false;
    if (came < 0 && step->kind == WI_SYNC_TAKE &&
        !fakeCudaAdd32(launch, at, 1, &before))
        return false;
    if (came < 0)
        return fakeCudaStore32(launch, report, step->value + 1);
    if (step->kind == WI_SYNC_EXPECT)
        return fakeCudaStore32(launch, at, 0);
    return true;
}

/* The waits run one after the other, so that each has the time that is left of
 * the launch's. */
static void kernel_sync(const fake_cuda_launch *launch)
{
    const wi_sync_args64 *args = launch->params[0];
    uint64_t report = (uint64_t)(uintptr_t)args->report;
    uint64_t start = fc_now_ns();

    for (uint32_t i = 0; i < args->count; i++) {
        if (!sync_signal(launch, &args->steps[i]))
            return;
    }
    for (uint32_t i = 0; i < args->count; i++) {
        uint64_t spent = fc_now_ns() - start;
        uint64_t left = args->timeout_ns > spent ? args->timeout_ns - spent : 1;

        if (!sync_wait(launch, &args->steps[i], args->timeout_ns ? left : 0,
                       report))
            return;
    }
}

static const uint16_t sync4_sizes[] = {sizeof(wi_sync_args4)};
static const uint16_t sync64_sizes[] = {sizeof(wi_sync_args64)};

/* ---- wi_kernel_sum ------------------------------------------------------ */

static void kernel_sum(const fake_cuda_launch *launch)
{
    const wi_sum_args *args = launch->params[0];
    uint64_t from = (uint64_t)(uintptr_t)args->from;
    uint64_t at = (uint64_t)(uintptr_t)args->sum;
    uint64_t sum = 0, stored;

    for (uint64_t i = 0; i * 8 < args->bytes; i++) {
        uint64_t left = args->bytes - i * 8, word = 0;

        if (!fakeCudaLoad(launch, from + i * 8, &word,
                          (size_t)(left < 8 ? left : 8)))
            return;
        sum += wi_sum_term(word, i);
    }
    if (!args->report) {
        fakeCudaStore(launch, at, &sum, sizeof sum);
        return;
    }
    if (fakeCudaLoad(launch, at, &stored, sizeof stored) && stored != sum)
        fakeCudaStore32(launch, (uint64_t)(uintptr_t)args->report, args->value);
}

static const uint16_t sum_sizes[] = {sizeof(wi_sum_args)};

const fc_kernel fc_kernel_table[] = {
    {NULL, "wi_kernel_sync4", kernel_sync, sync4_sizes, 1},
    {NULL, "wi_kernel_sync64", kernel_sync, sync64_sizes, 1},
    {NULL, "wi_kernel_sum", kernel_sum, sum_sizes, 1},
    {NULL, "wi_kernel_copy_few", fc_kernel_copy_few, fc_copy_few_sizes, 1},
    {NULL, "wi_kernel_copy_many", fc_kernel_copy_many, fc_copy_many_sizes, 1},
    {NULL, NULL, NULL, NULL, 0},
};
