/* SPDX-License-Identifier: MIT */
/* The work of 09_faulty_worker on the CPU; its fault is a bad pointer. */
#include "09_faulty_worker.h"

static int fill(uint64_t *numbers, size_t count, uint64_t seed, uint64_t first,
                const char **what)
{
    (void)what;
    for (size_t i = 0; i < count; i++)
        numbers[i] = value_of(seed, first + i);
    return 0;
}

static int sum(const uint64_t *numbers, size_t count, uint64_t *total,
               const char **what)
{
    (void)what;
    *total = 0;
    for (size_t i = 0; i < count; i++)
        *total += numbers[i];
    return 0;
}

static int fault(const char **what)
{
    volatile uint64_t *volatile nowhere = NULL;

    *nowhere = 1;
    *what = "no fault";
    return 1;
}

const struct faulty_work faulty_cpu = {"CPU", fill, sum, fault};
