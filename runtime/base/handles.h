/* SPDX-License-Identifier: MIT */
/*
 * The set of live public objects, so that a freed, foreign or NULL handle is
 * an error and not a crash. Process-wide, locked inside, any thread.
 */
#ifndef WI_BASE_HANDLES_H
#define WI_BASE_HANDLES_H

#include "wharf/status.h"

typedef enum wi_handle_type {
    WI_HANDLE_NODE = 1,
    WI_HANDLE_BUFFER = 2,
    WI_HANDLE_EVENT = 3,
    WI_HANDLE_NOTIFY = 4,
    WI_HANDLE_BARRIER = 5,
    WI_HANDLE_EXCHANGE = 6,
    WI_HANDLE_WORKER = 7,
    WI_HANDLE_RING = 20,
    WI_HANDLE_JOINED = 21
} wi_handle_type;

wharf_status wi_handle_add(const void *object, wi_handle_type type);
void wi_handle_remove(const void *object);

/* WHARF_EARG for NULL, WHARF_ESTATE for anything that is not a live object of
 * that type or for a forked child of the process that made it; the cause names
 * `what` ("buffer"). */
wharf_status wi_handle_check(const void *object, wi_handle_type type,
                             const char *what);

/* For a checker that reads one file at a time. */
#ifdef __clang_analyzer__
#define wi_handle_check(object, ...)                                           \
    ((object) ? wi_handle_check((object), __VA_ARGS__) : WHARF_EARG)
#endif

#endif
