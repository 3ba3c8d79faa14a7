/* SPDX-License-Identifier: MIT */
/* Monotonic time. */
#include "base/clock.h"

#include <limits.h>
#include <sched.h>
#include <time.h>

int64_t wi_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * WI_NS_PER_S + now.tv_nsec;
}

wi_deadline wi_deadline_in_ms(int64_t ms)
{
    int64_t now = wi_now_ns();

    if (ms <= 0)
        return now;
    if (ms >= (WI_NEVER - now) / WI_NS_PER_MS)
        return WI_NEVER;
    return now + ms * WI_NS_PER_MS;
}

/* Between two looks no thread sleeps for so long. */
#define STOPPED_NS (WI_NS_PER_S / 2)

/* A thread looks at few deadlines at a time: a call's, and a shorter one in its
 * loop. The one not looked at for longest gives way. */
typedef struct outlook {
    wi_deadline deadline;
    int64_t looked;
    int64_t stopped; /* nanoseconds not counted */
} outlook;

static _Thread_local outlook outlooks[4];

static outlook *outlook_of(wi_deadline deadline)
{
    for (unsigned i = 0; i < sizeof outlooks / sizeof *outlooks; i++)
        if (outlooks[i].deadline == deadline)
            return &outlooks[i];
    return NULL;
}

static outlook *outlook_new(wi_deadline deadline, int64_t now)
{
    outlook *o = &outlooks[0];

    for (unsigned i = 1; i < sizeof outlooks / sizeof *outlooks; i++)
        if (outlooks[i].looked < o->looked)
            o = &outlooks[i];
    *o = (outlook){.deadline = deadline, .looked = now};
    return o;
}

bool wi_deadline_run_out(wi_deadline deadline)
{
    int64_t now = wi_now_ns();
    outlook *o = outlook_of(deadline);

    if (deadline == WI_NEVER)
        return false;
    if (!o)
        o = outlook_new(deadline, now);
    if (now - o->looked >= STOPPED_NS)
        o->stopped += now - o->looked;
    o->looked = now;
    return now - o->stopped >= deadline;
}

int64_t wi_deadline_left_ns(wi_deadline deadline)
{
    const outlook *o = outlook_of(deadline);

    return deadline - wi_now_ns() + (o ? o->stopped : 0);
}

void wi_sleep_ns(int64_t ns)
{
    struct timespec time = {
        .tv_sec = (time_t)(ns / WI_NS_PER_S),
        .tv_nsec = (long)(ns % WI_NS_PER_S),
    };

    nanosleep(&time, NULL);
}

/* 0: a yield. */
static int64_t pause_ns(const wi_pauses *pauses)
{
    unsigned doubled = pauses->taken - pauses->yields;

    if (pauses->taken < pauses->yields)
        return 0;
    return doubled < 32 && pauses->first_ns << doubled < pauses->most_ns
               ? pauses->first_ns << doubled
               : pauses->most_ns;
}

void wi_pauses_take(wi_pauses *pauses)
{
    int64_t ns = pause_ns(pauses);

    pauses->taken += pauses->taken < UINT_MAX;
    if (ns == 0)
        sched_yield();
    else
        wi_sleep_ns(ns);
}

bool wi_pauses_long(const wi_pauses *pauses)
{
    return pause_ns(pauses) == pauses->most_ns;
}

int wi_deadline_poll_ms(wi_deadline deadline, int most)
{
    int64_t left;

    if (most <= 0)
        return 0;
    if (deadline == WI_NEVER)
        return most;
    left = wi_deadline_left_ns(deadline);
    if (left <= 0)
        return 0;
    /* Rounded up: a poll of 0 ms in the last millisecond would spin. */
    left = (left - 1) / WI_NS_PER_MS + 1;
    return left < most ? (int)left : most;
}
