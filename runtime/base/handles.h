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
    WI_HANDLE_BUFFER,
    WI_HANDLE_EVENT,
    WI_HANDLE_NOTIFY,
    WI_HANDLE_BARRIER,
    WI_HANDLE_RING,
    WI_HANDLE_EXCHANGE,
    WI_HANDLE_WORKER,
    WI_HANDLE_JOINED
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
