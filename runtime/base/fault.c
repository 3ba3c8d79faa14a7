/* SPDX-License-Identifier: MIT */
/* The one armed fault of the process. */
#include "base/fault.h"

#include <pthread.h>
#include <stddef.h>

int wi_fault_armed; /* atomic; 1 while `armed` below holds something */

static struct {
    pthread_mutex_t lock;
    wi_fault_kind kind;
    long nth;
    int code;
    long seen;
    bool fired;
    const char *where;
} armed = {.lock = PTHREAD_MUTEX_INITIALIZER};

void wi_fault_arm(wi_fault_kind kind, long nth, int code)
{
    pthread_mutex_lock(&armed.lock);
    armed.kind = kind;
    armed.nth = nth;
    armed.code = code;
    armed.seen = 0;
    armed.fired = false;
    armed.where = NULL;
    __atomic_store_n(&wi_fault_armed, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&armed.lock);
}

bool wi_fault_disarm(const char **where)
{
    bool fired;

    pthread_mutex_lock(&armed.lock);
    __atomic_store_n(&wi_fault_armed, 0, __ATOMIC_RELAXED);
    fired = armed.fired;
    if (where)
        *where = armed.where;
    pthread_mutex_unlock(&armed.lock);
    return fired;
}

long wi_fault_count(void)
{
    long seen;

    pthread_mutex_lock(&armed.lock);
    seen = armed.seen;
    pthread_mutex_unlock(&armed.lock);
    return seen;
}

bool wi_fault_slow(wi_fault_kind kind, const char *where, int *code)
{
    bool now = false;

    pthread_mutex_lock(&armed.lock);
    /* Looked at again under the lock: it may have been disarmed meanwhile. */
    if (__atomic_load_n(&wi_fault_armed, __ATOMIC_RELAXED) &&
        kind == armed.kind && ++armed.seen == armed.nth) {
        now = true;
        armed.fired = true;
        armed.where = where;
        *code = armed.code;
    }
    pthread_mutex_unlock(&armed.lock);
    return now;
}
