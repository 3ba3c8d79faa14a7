/* SPDX-License-Identifier: MIT */
/* futex(2) in its shared form: the word may lie in memory of other processes.
 */
#include "base/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void wi_futex_wait(const uint32_t *word, uint32_t seen, wi_deadline deadline,
                   int most_ms)
{
    int64_t left = (int64_t)most_ms * WI_NS_PER_MS;
    struct timespec timeout;

    if (deadline != WI_NEVER && wi_deadline_left_ns(deadline) < left)
        left = wi_deadline_left_ns(deadline);
    if (left <= 0)
        return;
    timeout.tv_sec = (time_t)(left / WI_NS_PER_S);
    timeout.tv_nsec = (long)(left % WI_NS_PER_S);
    /* Woken, timed out, interrupted or changed before: the caller looks at the
     * word again in every case, so the answer does not matter. */
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

void wi_futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
