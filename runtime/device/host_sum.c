/* SPDX-License-Identifier: MIT */
/* Sums over host memory, see sum.h. */
#include <string.h>

#include "device/device.h"
#include "device/sum.h"
#include "device/sum_step.h"

static wharf_status sum_prepare(wi_device *device)
{
    (void)device;
    return WHARF_OK;
}

static uint64_t sum_over(const void *from, size_t bytes)
{
    const unsigned char *at = from;
    uint64_t sum = 0;

    for (size_t i = 0; i * 8 < bytes; i++) {
        size_t left = bytes - i * 8;
        uint64_t word = 0;

        memcpy(&word, at + i * 8, left < 8 ? left : 8);
        sum += wi_sum_term(word, i);
    }
    return sum;
}

static wharf_status sum_store(wi_device *device, wharf_stream stream,
                              const void *from, size_t bytes, uint64_t *sum)
{
    (void)device;
    (void)stream;
    *sum = sum_over(from, bytes);
    return WHARF_OK;
}

static wharf_status sum_compare(wi_device *device, wharf_stream stream,
                                const void *from, size_t bytes,
                                const uint64_t *sum, uint32_t *report,
                                uint32_t value)
{
    (void)device;
    (void)stream;
    if (sum_over(from, bytes) != *sum)
        __atomic_store_n(report, value, __ATOMIC_RELEASE);
    return WHARF_OK;
}

const wi_sum_ops wi_sums_host = {
    .prepare = sum_prepare,
    .store = sum_store,
    .compare = sum_compare,
};
