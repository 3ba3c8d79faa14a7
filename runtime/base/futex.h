/* SPDX-License-Identifier: MIT */
/* Waiting on a 32-bit word that several processes share. */
#ifndef WI_BASE_FUTEX_H
#define WI_BASE_FUTEX_H

#include <stdint.h>

#include "base/clock.h"

/* Sleeps while *word == seen, until woken, until `deadline`, or for `most_ms`
 * milliseconds at most, whichever comes first. May wake early: look again. */
void wi_futex_wait(const uint32_t *word, uint32_t seen, wi_deadline deadline,
                   int most_ms);

/* Wakes all sleepers of the word, in all processes. */
void wi_futex_wake(uint32_t *word);

#endif
