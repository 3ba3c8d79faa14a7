/* SPDX-License-Identifier: MIT */
/*
 * One line a message, tagged with the rank, to stderr; level by WHARF_LOG:
 *     wharf[RANK]: LEVEL: TEXT
 * Without [RANK] until a node is open. At most 1024 bytes; what is cut ends
 * with "...", and bytes below space become '?'.
 */
#ifndef WI_BASE_LOG_H
#define WI_BASE_LOG_H

#include <stdbool.h>

typedef enum wi_log_level {
    WI_LOG_NONE = 0,
    WI_LOG_ERROR = 1,
    WI_LOG_WARN = 2, /* the default */
    WI_LOG_INFO = 3,
    WI_LOG_DEBUG = 4
} wi_log_level;

/* Message without newline, lower case. Written with one write(2), so lines of
 * several ranks do not mix. Costs one comparison when the level is off. */
void wi_log(wi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for what was asked for by a setting of its own, whatever the level;
 * `word`, at most 20 bytes, stands where the level does. */
void wi_log_asked(const char *word, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Rank that tags the lines of this process; -1 (the start value): none. */
void wi_log_set_rank(int rank);

bool wi_log_on(wi_log_level level);

/* Level until wi_log_set_level: WHARF_LOG, read once. */
void wi_log_set_level(wi_log_level level);

#endif
