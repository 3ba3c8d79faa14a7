/* SPDX-License-Identifier: MIT */
/*
 * Sums over memory, taken and compared in the order of a stream: how a ring
 * finds that a slot changed while nobody might write it. For debugging: one
 * block of threads reads the memory, at a fraction of its speed.
 *
 * A sum depends on every byte and its place. The host backend does all of it at
 * once, on the CPU.
 */
#ifndef WI_DEVICE_SUM_H
#define WI_DEVICE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "wharf/base.h"
#include "wharf/status.h"

struct wi_device;

typedef struct wi_sum_ops {
    /* Loads what the other two need; before any stream can be waiting. */
    wharf_status (*prepare)(struct wi_device *device);

    /* *sum = the sum of `bytes` bytes, which start 8-byte aligned. */
    wharf_status (*store)(struct wi_device *device, wharf_stream stream,
                          const void *from, size_t bytes, uint64_t *sum);

    /* If the sum is another than *sum, *report = value: host memory of
     * report_alloc. */
    wharf_status (*compare)(struct wi_device *device, wharf_stream stream,
                            const void *from, size_t bytes, const uint64_t *sum,
                            uint32_t *report, uint32_t value);
} wi_sum_ops;

extern const wi_sum_ops wi_sums_host;
extern const wi_sum_ops wi_sums_cuda; /* only with nvcc */

#endif
