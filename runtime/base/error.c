/* SPDX-License-Identifier: MIT */
/*
 * The error record of each thread, and the brackets of public calls that name
 * the call and the rank in it and log it once.
 */
#define _GNU_SOURCE /* strerror_r that returns the text */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/trace.h"

/* Here they are made. */
#undef wi_fail
#undef wi_fail_os
#undef wi_fail_native
#undef wi_call_end

static _Thread_local wharf_error thread_record = {.rank = -1};

/* The same before the public call that this thread is in first touched it: what
 * is left of it if the call succeeds after all, by another way perhaps. */
static _Thread_local wharf_error thread_before;

/* The public call that this thread is in. Public calls may use one another;
 * the outermost is the one that the user wrote. */
static _Thread_local struct {
    const char *call;
    int rank;
    int depth;
    uint32_t traced; /* bit d: the bracket at depth d has a range */
    bool touched;    /* thread_before holds something */
} thread_call = {.rank = -1};

static wharf_error *record_touch(void)
{
    if (thread_call.depth > 0 && !thread_call.touched) {
        thread_before = thread_record;
        thread_call.touched = true;
    }
    return &thread_record;
}

/* Ends a text that did not fit (`length` as snprintf returned it) visibly. */
static void text_mark_cut(char *text, size_t capacity, int length)
{
    if (length >= 0 && (size_t)length >= capacity)
        memcpy(text + capacity - 4, "...", 4);
}

static void text_copy(char *to, size_t capacity, const char *from)
{
    text_mark_cut(to, capacity, snprintf(to, capacity, "%s", from));
}

/*
 * Texts are made beside the record first, because the arguments may point into
 * the record that is being replaced.
 */
static wharf_status record_fill(wharf_status status, wharf_source source,
                                int native, const char *remedy,
                                const char *format, va_list args)
{
    wharf_error made = {.status = status, .source = source, .native = native};
    int length = vsnprintf(made.cause, sizeof made.cause, format, args);

    text_mark_cut(made.cause, sizeof made.cause, length);
    made.rank = thread_call.rank;
    text_copy(made.call, sizeof made.call,
              thread_call.call ? thread_call.call : "");
    text_copy(made.remedy, sizeof made.remedy, remedy ? remedy : "");
    *record_touch() = made;
    return status;
}

wharf_status wi_fail(wharf_status status, const char *remedy, const char *cause,
                     ...)
{
    va_list args;

    va_start(args, cause);
    record_fill(status, WHARF_SOURCE_WHARF, 0, remedy, cause, args);
    va_end(args);
    return status;
}

wharf_status wi_fail_os(int errnum, const char *remedy, const char *cause, ...)
{
    wharf_status status = errnum == ENOMEM ? WHARF_ENOMEM : WHARF_EOS;
    char *text = thread_record.cause;
    size_t used;
    char room[64];
    va_list args;

    va_start(args, cause);
    record_fill(status, WHARF_SOURCE_OS, errnum, remedy, cause, args);
    va_end(args);

    used = strlen(text);
    text_mark_cut(text + used, sizeof thread_record.cause - used,
                  snprintf(text + used, sizeof thread_record.cause - used,
                           ": %s", strerror_r(errnum, room, sizeof room)));
    return status;
}

wharf_status wi_fail_native(wharf_status status, wharf_source source,
                            int native, const char *remedy, const char *cause,
                            ...)
{
    va_list args;

    va_start(args, cause);
    record_fill(status, source, native, remedy, cause, args);
    va_end(args);
    return status;
}

wharf_error *wi_error_record(void)
{
    return record_touch();
}

wharf_status wi_error_about(int rank)
{
    wharf_error *record = record_touch();

    record->rank = rank;
    return record->status;
}

/* Tracing may start while brackets are open; those have no range to close. */
static void range_open(const char *call, int depth)
{
    if (depth < 32 && wi_trace_push(call))
        thread_call.traced |= UINT32_C(1) << depth;
}

static void range_close(int depth)
{
    uint32_t bit = depth >= 0 && depth < 32 ? UINT32_C(1) << depth : 0;

    if (__builtin_expect(!(thread_call.traced & bit), 1))
        return;
    thread_call.traced &= ~bit;
    wi_trace_pop(wi_trace_table);
}

void wi_call_begin(const char *call, int rank)
{
    range_open(call, thread_call.depth);
    if (thread_call.depth++ > 0)
        return;
    thread_call.call = call;
    thread_call.rank = rank;
}

void wi_call_set_rank(int rank)
{
    if (thread_call.depth > 0)
        thread_call.rank = rank;
}

static void (*fault_watcher)(const wharf_error *record);

void wi_call_watch_faults(void (*watcher)(const wharf_error *record))
{
    __atomic_store_n(&fault_watcher, watcher, __ATOMIC_RELEASE);
}

static void fault_tell(void)
{
    void (*watcher)(const wharf_error *record) =
        __atomic_load_n(&fault_watcher, __ATOMIC_ACQUIRE);

    if (watcher)
        watcher(&thread_record);
}

/* "not complete yet" and "closed" are answers, not failures. */
static bool is_failure(wharf_status status)
{
    return status != WHARF_OK && status != WHARF_ENOTREADY &&
           status != WHARF_ECLOSED;
}

static void failure_tell(wharf_status status)
{
    wi_log_level level;
    char text[512];

    if (thread_record.status != status)
        wi_fail(status, NULL, "%s", wharf_status_text(status));
    /* A dead or late rank cannot tell: whoever met it does. */
    bool witnessed = status == WHARF_EPEER || status == WHARF_ETIMEDOUT;
    level = witnessed || thread_record.rank == thread_call.rank ? WI_LOG_ERROR
                                                                : WI_LOG_DEBUG;
    /* Who watches over the worker has logged its death. */
    if (status == WHARF_EWORKER)
        level = WI_LOG_DEBUG;
    if (wi_log_on(level))
        wi_log(level, "%s",
               wharf_error_format(&thread_record, text, sizeof text));
    if (status == WHARF_EFAULT)
        fault_tell();
}

wharf_status wi_call_end(wharf_status status)
{
    range_close(thread_call.depth - 1);
    if (thread_call.depth > 1) {
        thread_call.depth--;
        return status;
    }
    if (is_failure(status))
        failure_tell(status);
    else if (thread_call.touched && thread_record.status != status)
        thread_record = thread_before;
    thread_call.depth = 0;
    thread_call.call = NULL;
    thread_call.rank = -1;
    thread_call.touched = false;
    return status;
}
