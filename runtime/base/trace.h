/* SPDX-License-Identifier: MIT */
/*
 * Ranges for a profiler's timeline: every public call (wi_call_begin), and what
 * it waits for inside. Off, a range costs one load and one branch; what it goes
 * to is a table that core sets once, since base knows no profiler.
 */
#ifndef WI_BASE_TRACE_H
#define WI_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>

/* A range belongs to the thread that opened it; ranges nest. Names are string
 * constants. */
typedef struct wi_trace_ops {
    void (*push)(const char *name);
    void (*pop)(void);
    void (*name_thread)(const char *name);
} wi_trace_ops;

/* Internal: NULL while off. */
extern const wi_trace_ops *wi_trace_table;

/* On from here to the end of the process. */
void wi_trace_start(const wi_trace_ops *ops);

/* Opens a range; what it returns closes it, whatever was started in between. */
static inline const wi_trace_ops *wi_trace_push(const char *name)
{
    const wi_trace_ops *ops =
        __atomic_load_n(&wi_trace_table, __ATOMIC_ACQUIRE);

    if (__builtin_expect(ops != NULL, 0))
        ops->push(name);
    return ops;
}

static inline void wi_trace_pop(const wi_trace_ops *ops)
{
    if (__builtin_expect(ops != NULL, 0))
        ops->pop();
}

static inline void wi_trace_leave(const wi_trace_ops *const *ops)
{
    wi_trace_pop(*ops);
}

/* A range until the end of the block, however it is left. */
#define WI_TRACE_SCOPE(name)                                                   \
    __attribute__((cleanup(wi_trace_leave), unused))                           \
    const wi_trace_ops *const wi_trace_here = wi_trace_push(name)

/* Names the calling thread, which is Wharf's own: for debuggers always (at most
 * 15 bytes), for the profiler while on. */
void wi_trace_thread(const char *name);

#endif
