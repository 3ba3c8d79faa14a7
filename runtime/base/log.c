/* SPDX-License-Identifier: MIT */
/*
 * Messages for people, on stderr. One write(2) a line, and no lock: the kernel
 * keeps short lines of several ranks and threads apart.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"

#define LEVEL_UNREAD (-1)

/* Far below PIPE_BUF, so that a line on a pipe arrives whole. */
#define LINE_BYTES 1024

static int log_level = LEVEL_UNREAD; /* atomic */
static int log_rank = -1;            /* atomic */
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

static const char *level_name(wi_log_level level)
{
    switch (level) {
    case WI_LOG_NONE:
    case WI_LOG_ERROR:
        return "error";
    case WI_LOG_WARN:
        return "warn";
    case WI_LOG_INFO:
        return "info";
    case WI_LOG_DEBUG:
        break;
    }
    return "debug";
}

static void line_write(const char *line, size_t length)
{
    ssize_t written;

    do {
        written = write(STDERR_FILENO, line, length);
    } while (written < 0 && errno == EINTR);
    /* Nobody is left to be told when stderr itself fails. */
}

/* A name or value in the text must not break the line or steer a terminal. */
static void line_clean(char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
}

__attribute__((format(printf, 2, 0))) static void
line_print(const char *word, const char *format, va_list args)
{
    char line[LINE_BYTES];
    int rank = __atomic_load_n(&log_rank, __ATOMIC_RELAXED);
    int saved_errno = errno;
    size_t room = sizeof line - 1; /* one byte is kept for the newline */
    size_t used;
    int length;

    if (rank >= 0)
        length = snprintf(line, room, "wharf[%d]: %s: ", rank, word);
    else
        length = snprintf(line, room, "wharf: %s: ", word);
    used = (size_t)length;
    length = vsnprintf(line + used, room - used, format, args);
    if (length < 0)
        length = 0;
    if ((size_t)length >= room - used) {
        used = room - 1;
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): by length */
        memcpy(line + used - 3, "...", 3);
    } else {
        used += (size_t)length;
    }
    line_clean(line, used);
    line[used] = '\n';
    line_write(line, used + 1);
    errno = saved_errno;
}

__attribute__((format(printf, 2, 3))) static void
line_put(wi_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    line_print(level_name(level), format, args);
    va_end(args);
}

/* Reads WHARF_LOG, unless wi_log_set_level came first. The caller's error
 * record is kept: a bad value here is no failure of the call that logs. */
static void level_read(void)
{
    wharf_error kept = *wi_error_record();
    int unread = LEVEL_UNREAD;
    const char *text = wi_config_text(WI_SETTING_LOG);
    int64_t value = WI_LOG_WARN;
    bool bad = wi_config_parse(WI_SETTING_LOG, text, &value) != WHARF_OK;
    bool mine =
        __atomic_compare_exchange_n(&log_level, &unread, (int)value, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);

    if (bad && mine)
        line_put(WI_LOG_WARN, "%s; %s", wi_error_record()->cause,
                 wi_error_record()->remedy);
    *wi_error_record() = kept;
}

bool wi_log_on(wi_log_level level)
{
    int limit = __atomic_load_n(&log_level, __ATOMIC_RELAXED);

    if (limit == LEVEL_UNREAD) {
        pthread_once(&log_once, level_read);
        limit = __atomic_load_n(&log_level, __ATOMIC_RELAXED);
    }
    return level != WI_LOG_NONE && (int)level <= limit;
}

void wi_log(wi_log_level level, const char *format, ...)
{
    va_list args;

    if (!wi_log_on(level))
        return;
    va_start(args, format);
    line_print(level_name(level), format, args);
    va_end(args);
}

void wi_log_asked(const char *word, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    line_print(word, format, args);
    va_end(args);
}

void wi_log_set_rank(int rank)
{
    __atomic_store_n(&log_rank, rank, __ATOMIC_RELAXED);
}

void wi_log_set_level(wi_log_level level)
{
    __atomic_store_n(&log_level, (int)level, __ATOMIC_RELAXED);
}
