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
    uint32_t *ticket;     /* recorder: of its puts that signal by their own
                             kernel; NULL: none do. Records of one rank are
                             ordered, so one ticket is enough */
    wharf_notify *next;
};

/* What a record has to have right: the rank, the stream, the mechanism if it is
 * being captured. */
wharf_status wi_notify_record_check(const wharf_notify *notify,
                                    wharf_stream stream);

/* Records, after the check. */
wharf_status wi_notify_record_now(wharf_notify *notify, wharf_stream stream);

/* The same in two steps, around a kernel of the caller that signals: begin
 * gives the step, end says whether it was issued. Not on the host backend. */
void wi_notify_signal_begin(wharf_notify *notify, wi_sync_step *step);
void wi_notify_signal_end(wharf_notify *notify, bool issued);

/* Holds the calling thread until a record has come to the waiter's GPU, and
 * consumes it (notify_host.c). WHARF_ETIMEDOUT: its record is left to the
 * caller. */
wharf_status wi_notify_poll(wharf_notify *notify, int from,
                            wi_deadline deadline);

/* The lowest recorder that a wait gave up on since this was last asked, or -1.
 */
int wi_notify_late(wharf_notify *notify);

#endif
