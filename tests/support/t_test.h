/* SPDX-License-Identifier: MIT */
/*
 * Assertions of the tests. They print what was expected and what came, with
 * file, line and rank, and end the process at once: the launcher then ends the
 * other ranks. They work in release builds and need no MPI: the rank is what
 * the launcher put into the environment, so they hold before MPI_Init, after
 * MPI_Finalize and in child processes too.
 *
 * A test is a program with a main; it returns 0 for success.
 */
#ifndef T_TEST_H
#define T_TEST_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wharf/status.h"

#define T_EXIT_SKIP 77

/* Rank in the job as text: "-" outside a launcher. */
static inline const char *t_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "PMIX_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] != '\0')
            return value;
    }
    return "-";
}

/* One write of one line, so that ranks do not mix; then the end. _exit, since
 * handlers of MPI or CUDA could hang in a state that the test has broken. */
static inline _Noreturn void t_end(int code, const char *file, int line,
                                   const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline _Noreturn void t_end(int code, const char *file, int line,
                                   const char *format, ...)
{
    char text[1600];
    va_list list;
    int length = snprintf(text, sizeof(text), "%s:%d: rank %s: %s", file, line,
                          t_rank(), code == T_EXIT_SKIP ? "skipped: " : "");

    va_start(list, format);
    vsnprintf(text + length, sizeof(text) - (size_t)length - 1, format, list);
    va_end(list);
    fflush(stdout);
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
    _exit(code);
}

static inline void t_eq_int(const char *file, int line, const char *what,
                            intmax_t expected, intmax_t got)
{
    if (expected != got)
        t_end(1, file, line, "%s: expected %jd (%#jx), got %jd (%#jx)", what,
              expected, (uintmax_t)expected, got, (uintmax_t)got);
}

static inline void t_eq_ptr(const char *file, int line, const char *what,
                            const void *expected, const void *got)
{
    if (expected != got)
        t_end(1, file, line, "%s: expected %p, got %p", what, expected, got);
}

static inline void t_eq_str(const char *file, int line, const char *what,
                            const char *expected, const char *got)
{
    if (expected == NULL || got == NULL || strcmp(expected, got) != 0)
        t_end(1, file, line, "%s: expected \"%s\", got \"%s\"", what,
              expected != NULL ? expected : "(NULL)",
              got != NULL ? got : "(NULL)");
}

static inline void t_contains(const char *file, int line, const char *what,
                              const char *part, const char *got)
{
    if (got == NULL || strstr(got, part) == NULL)
        t_end(1, file, line, "%s: expected to find \"%s\" in \"%s\"", what,
              part, got != NULL ? got : "(NULL)");
}

static inline void t_eq_mem(const char *file, int line, const char *what,
                            const void *expected, const void *got, size_t bytes)
{
    const unsigned char *a = expected, *b = got;

    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i])
            t_end(1, file, line, "%s: byte %zu of %zu: expected %#x, got %#x",
                  what, i, bytes, a[i], b[i]);
    }
}

static inline void t_status(const char *file, int line, const char *what,
                            wharf_status expected, wharf_status got)
{
    wharf_error error;
    char text[512] = "";

    if (expected == got)
        return;
    if (got != WHARF_OK) {
        wharf_last_error(&error);
        wharf_error_format(&error, text, sizeof(text));
    }
    t_end(1, file, line, "%s: expected %s, got %s%s%s", what,
          wharf_status_name(expected), wharf_status_name(got),
          text[0] != '\0' ? ": " : "", text);
}

#define T_CHECK(condition)                                                     \
    ((condition) ? (void)0                                                     \
                 : t_end(1, __FILE__, __LINE__, "not true: %s", #condition))
#define T_EQ_INT(expected, got)                                                \
    t_eq_int(__FILE__, __LINE__, #got, (intmax_t)(expected), (intmax_t)(got))
#define T_EQ_STR(expected, got)                                                \
    t_eq_str(__FILE__, __LINE__, #got, (expected), (got))
#define T_EQ_PTR(expected, got)                                                \
    t_eq_ptr(__FILE__, __LINE__, #got, (expected), (got))
#define T_EQ_MEM(expected, got, bytes)                                         \
    t_eq_mem(__FILE__, __LINE__, #got, (expected), (got), (bytes))
#define T_CONTAINS(part, got)                                                  \
    t_contains(__FILE__, __LINE__, #got, (part), (got))
#define T_OK(call) t_status(__FILE__, __LINE__, #call, WHARF_OK, (call))
#define T_STATUS(expected, call)                                               \
    t_status(__FILE__, __LINE__, #call, (expected), (call))
#define T_FAIL(...) t_end(1, __FILE__, __LINE__, __VA_ARGS__)

/* Not possible here: says why and ends with the exit code for "skipped". In a
 * test of several ranks every rank must come to the same conclusion. */
#define T_SKIP(...) t_end(T_EXIT_SKIP, __FILE__, __LINE__, __VA_ARGS__)

#endif
