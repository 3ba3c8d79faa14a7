/* SPDX-License-Identifier: MIT */
/* The switch of the ranges, and names of threads: see trace.h. */
#include "base/trace.h"

#include <pthread.h>

const wi_trace_ops *wi_trace_table; /* atomic */

void wi_trace_start(const wi_trace_ops *ops)
{
    __atomic_store_n(&wi_trace_table, ops, __ATOMIC_RELEASE);
}

void wi_trace_thread(const char *name)
{
    const wi_trace_ops *ops =
        __atomic_load_n(&wi_trace_table, __ATOMIC_ACQUIRE);

    pthread_setname_np(pthread_self(), name);
    if (ops)
        ops->name_thread(name);
}
