/* SPDX-License-Identifier: MIT */
/* Monotonic time. */
#include "base/clock.h"

#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t wi_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

wi_deadline wi_deadline_in_ms(int64_t ms)
{
    int64_t now = wi_now_ns();

    if (ms <= 0)
        return now;
    if (ms >= (WI_NEVER - now) / NS_PER_MS)
        return WI_NEVER;
    return now + ms * NS_PER_MS;
}

int wi_deadline_poll_ms(wi_deadline deadline, int most)
{
    int64_t left;

    if (most <= 0)
        return 0;
    if (deadline == WI_NEVER)
        return most;
    left = deadline - wi_now_ns();
    if (left <= 0)
        return 0;
    /* Rounded up: a poll of 0 ms in the last millisecond would spin. */
    left = (left - 1) / NS_PER_MS + 1;
    return left < most ? (int)left : most;
}
