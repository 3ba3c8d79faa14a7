/* SPDX-License-Identifier: MIT */
/* How threads begin and wait: see thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

#include "base/error.h"

wharf_status wi_thread_start(pthread_t *thread, void *(*body)(void *),
                             void *argument, const char *what)
{
    sigset_t all, before;
    int code;

    /* A thread begins with its maker's mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        return WHARF_OK;
    return wi_fail_os(code, "raise the limit of threads (ulimit -u)", "%s",
                      what);
}

void wi_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

uint64_t wi_thread_serial(void)
{
    static uint64_t last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return mine;
}

bool wi_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                  wi_deadline deadline)
{
    struct timespec until;

    if (deadline == WI_NEVER)
        return pthread_cond_wait(cond, lock) == 0;
    until.tv_sec = (time_t)(deadline / WI_NS_PER_S);
    until.tv_nsec = (long)(deadline % WI_NS_PER_S);
    return pthread_cond_timedwait(cond, lock, &until) == 0 ||
           !wi_deadline_passed(deadline);
}
