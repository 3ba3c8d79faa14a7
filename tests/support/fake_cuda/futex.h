/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word that other threads and processes change.
 */
#ifndef FC_FUTEX_H
#define FC_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns when woken, when *word is not `seen` any more, or after ns. */
static inline void futex_wait(uint32_t *word, uint32_t seen, uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

static inline void futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
