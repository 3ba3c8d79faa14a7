/* SPDX-License-Identifier: MIT */
/* Monotonic time and deadlines, in nanoseconds. */
#ifndef WI_BASE_CLOCK_H
#define WI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* A point in monotonic time. */
typedef int64_t wi_deadline;

#define WI_NEVER INT64_MAX

#define WI_NS_PER_S INT64_C(1000000000)
#define WI_NS_PER_MS INT64_C(1000000)

int64_t wi_now_ns(void);

/* `ms` milliseconds from now; saturates at WI_NEVER. */
wi_deadline wi_deadline_in_ms(int64_t ms);

/* Sleeps; shorter when a signal comes. */
void wi_sleep_ns(int64_t ns);

static inline bool wi_deadline_passed(wi_deadline deadline)
{
    return deadline != WI_NEVER && wi_now_ns() >= deadline;
}

/*
 * For a loop that waits for other ranks, and looks at least five times a
 * second: has the deadline passed, not counting the time for which the process
 * was kept from looking? A batch system stops the processes of a job for hours
 * and lets them go on; none of them was late then.
 */
bool wi_deadline_run_out(wi_deadline deadline);

/* The longest that such a loop may sleep between two looks. */
#define WI_LOOK_MS 200

/* Nanoseconds left, with what wi_deadline_run_out did not count in this thread.
 * Not of WI_NEVER. */
int64_t wi_deadline_left_ns(wi_deadline deadline);

/* Of a loop that looks for what nobody tells of: the first `yields` pauses give
 * the CPU away only, since a sleep takes some 60 us however short; then they
 * double from first_ns to most_ns, so that a long wait costs little and ends
 * late by no more than it took. `taken` back to 0 begins anew. */
typedef struct wi_pauses {
    unsigned yields;
    int64_t first_ns, most_ns;
    unsigned taken;
} wi_pauses;

void wi_pauses_take(wi_pauses *pauses);
/* Is the next one of the longest? Then it is time to look for dead ranks. */
bool wi_pauses_long(const wi_pauses *pauses);

/* Milliseconds left, for poll(2): 0 when passed, at most `most`. */
int wi_deadline_poll_ms(wi_deadline deadline, int most);

#endif
