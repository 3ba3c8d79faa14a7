/* SPDX-License-Identifier: MIT */
/* Threads of Wharf's own, and waiting under a lock with a deadline. */
#ifndef WI_BASE_THREAD_H
#define WI_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "wharf/status.h"

/* Starts a thread that takes no signals: they are for the program's threads.
 * WHARF_EOS names `what` ("a thread that ..."). */
wharf_status wi_thread_start(pthread_t *thread, void *(*body)(void *),
                             void *argument, const char *what);

/* Of the calling thread: 1 up, no other thread of the process ever has it,
 * while a pthread_t is used again after a join. */
uint64_t wi_thread_serial(void);

/* A condition for wi_cond_wait. */
void wi_cond_init(pthread_cond_t *cond);

/* Until woken or the deadline; may wake early. False: the deadline passed. */
bool wi_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                  wi_deadline deadline);

#endif
