/* SPDX-License-Identifier: MIT */
/* Monotonic time and deadlines, in nanoseconds. */
#ifndef WI_BASE_CLOCK_H
#define WI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* A point in monotonic time. */
typedef int64_t wi_deadline;

#define WI_NEVER INT64_MAX

int64_t wi_now_ns(void);

/* `ms` milliseconds from now; saturates at WI_NEVER. */
wi_deadline wi_deadline_in_ms(int64_t ms);

static inline bool wi_deadline_passed(wi_deadline deadline)
{
    return deadline != WI_NEVER && wi_now_ns() >= deadline;
}

/* Milliseconds left, for poll(2): 0 when passed, at most `most`. */
int wi_deadline_poll_ms(wi_deadline deadline, int most);

#endif
