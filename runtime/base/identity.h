/* SPDX-License-Identifier: MIT */
/* Who a process is: enough to tell two processes and two hosts apart, in
 * containers as well. Plain data, compared field by field, sent over MPI. */
#ifndef WI_BASE_IDENTITY_H
#define WI_BASE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct wi_identity {
    char boot_id[40];     /* of the running kernel */
    char host[64];        /* host name (of the UTS namespace) */
    uint64_t pid_ns;      /* inode of the pid namespace, 0: unknown */
    uint64_t net_ns;      /* inode of the network namespace, 0: unknown */
    uint64_t start_ticks; /* start time of the process, clock ticks since boot;
                             0: unknown */
    int32_t pid;          /* as seen in its own pid namespace */
    uint32_t uid;
} wi_identity;

/* Fills what can be learnt; never fails. */
void wi_identity_self(wi_identity *identity);

/* Same kernel? */
bool wi_identity_same_kernel(const wi_identity *a, const wi_identity *b);

/* Tells processes of one kernel apart: boot id, pid namespace, pid and start
 * time in one number. */
uint64_t wi_identity_number(const wi_identity *identity);

#endif
