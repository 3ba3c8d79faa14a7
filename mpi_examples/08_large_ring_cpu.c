/* SPDX-License-Identifier: MIT */
/* 08_large_ring on CPUs: reads a frame where it lies. */
#include <stdio.h>
#include <stdlib.h>

#include "08_large_ring.h"

struct large_worker {
    uint64_t checksum[LARGE_TURNS];
};

static int cpu_open(size_t chunk, uint64_t cap, struct large_worker **worker,
                    struct failure *why)
{
    (void)chunk, (void)cap;
    *worker = calloc(1, sizeof **worker);
    if (*worker != NULL)
        return 0;
    snprintf(why->text, sizeof why->text, "no memory");
    return -1;
}

static void cpu_close(struct large_worker *worker)
{
    free(worker);
}

static wharf_stream cpu_stream(struct large_worker *worker)
{
    (void)worker;
    return WHARF_RING_CPU;
}

static int cpu_frame(struct large_worker *worker, int turn, const void *frame,
                     size_t bytes, struct failure *why)
{
    const uint64_t *words = frame;
    uint64_t sum = 0;

    (void)why;
    for (size_t i = 0; i < bytes / 8; i++)
        sum += words[i] * (2 * (uint64_t)i + 1);
    worker->checksum[turn] = sum;
    return 0;
}

static int cpu_result(struct large_worker *worker, int turn, uint64_t *checksum,
                      struct failure *why)
{
    (void)why;
    *checksum = worker->checksum[turn];
    return 0;
}

static uint64_t cpu_device_bytes(const struct large_worker *worker)
{
    (void)worker;
    return 0;
}

const struct large_kind large_cpu = {"CPU",           cpu_open,  cpu_close,
                                     cpu_stream,      cpu_frame, cpu_result,
                                     cpu_device_bytes};
