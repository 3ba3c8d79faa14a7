/* SPDX-License-Identifier: MIT */
/* The body of a notify, for the notify*.c files and signal_rescue.c. */
#ifndef WI_CORE_NOTIFY_H
#define WI_CORE_NOTIFY_H

#include "core/core.h"
#include "core/signal.h"

struct wharf_notify {
    wharf_node *node;
    uint64_t serial;
    int waiter;
    bool capturable;
    wi_pad_run run;       /* the waiter's: word r is recorder r's */
    wi_signal_way *way;   /* of each recorder */
    uint32_t *report;     /* waiter, if a wait can have a timeout: a word of
                             each recorder, one more for kernels */
    pthread_mutex_t lock; /* guards epoch, and consuming by the host */
    uint32_t *epoch;      /* of each recorder: number of its newest record
                             (there), of the newest wait (on the waiter) */
    wharf_notify *next;
};

/* Holds the calling thread until a record has come to the waiter's GPU, and
 * consumes it (notify_host.c). WHARF_ETIMEDOUT: its record is left to the
 * caller. */
wharf_status wi_notify_poll(wharf_notify *notify, int from,
                            wi_deadline deadline);

/* The lowest recorder that a wait gave up on since this was last asked, or -1.
 */
int wi_notify_late(wharf_notify *notify);

#endif
