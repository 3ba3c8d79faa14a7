/* SPDX-License-Identifier: MIT */
/*
 * How a failure is written down.
 *
 * The function that first sees a failure fills this thread's error record with
 * one of the wi_fail calls and returns the status they return; everyone above
 * passes the status up and adds nothing. Collectives carry the record to the
 * other ranks (comm/agree.c), and the public call logs it once
 * (wi_call_end).
 */
#ifndef WI_BASE_ERROR_H
#define WI_BASE_ERROR_H

#include "wharf/status.h"

/* Fills the record and returns status. `remedy` may be NULL. */
wharf_status wi_fail(wharf_status status, const char *remedy, const char *cause,
                     ...) __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: status WHARF_EOS (ENOMEM becomes
 * WHARF_ENOMEM), native number and text from `errnum`. */
wharf_status wi_fail_os(int errnum, const char *remedy, const char *cause, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed call of another library. */
wharf_status wi_fail_native(wharf_status status, wharf_source source,
                            int native, const char *remedy, const char *cause,
                            ...) __attribute__((format(printf, 5, 6)));

/* This thread's record, to be read, or replaced by an agreed one. */
wharf_error *wi_error_record(void);

/* Says which rank it is about, where that is not the caller; returns its
 * status. */
wharf_status wi_error_about(int rank);

/*
 * Brackets of every public call that can fail. begin notes the call's name and
 * the caller's node rank (-1 when not known) for the wi_fail calls below it.
 * end logs a failure that happened on this rank (of another rank: at debug
 * level), and returns status unchanged. After a success or an answer
 * (WHARF_ENOTREADY, WHARF_ECLOSED) the record is what it was before the call,
 * whatever failed on the way. Brackets nest; the outermost counts.
 */
void wi_call_begin(const char *call, int rank);
/* For a call that learns its rank on the way (wharf_node_open). */
void wi_call_set_rank(int rank);
/* Who is told of each WHARF_EFAULT of this process, after the log, in the
 * thread that met it; NULL: nobody. */
void wi_call_watch_faults(void (*watcher)(const wharf_error *record));
wharf_status wi_call_end(wharf_status status);

/* A checker that reads one file at a time is told what these return. */
#ifdef __clang_analyzer__
#define wi_fail(status, ...) (wi_fail((status), __VA_ARGS__), (status))
#define wi_fail_os(...) (wi_fail_os(__VA_ARGS__), WHARF_EOS)
#define wi_fail_native(status, ...)                                            \
    (wi_fail_native((status), __VA_ARGS__), (status))
#define wi_call_end(status) (wi_call_end(status), (status))
#endif

#endif
