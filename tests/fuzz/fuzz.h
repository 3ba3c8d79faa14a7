/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share. A target is a file with LLVMFuzzerTestOneInput;
 * it runs under libFuzzer or under fuzz_main.c. A check that fails aborts,
 * which both take for a crash and answer with the input.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/stat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                  \
    ((condition) ? (void)0 : fuzz_end(__FILE__, __LINE__, #condition))

static inline void fuzz_end(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
    abort();
}

/* Bit of a status, for sets of documented ones. */
#define FUZZ_BIT(status) (UINT64_C(1) << (status))

/* The status is WHARF_OK or in the set, and a failure left a full record.
 * Returns whether it is WHARF_OK. */
static inline bool fuzz_answer(wharf_status status, uint64_t documented)
{
    const wharf_error *record = wi_error_record();

    if (status == WHARF_OK)
        return true;
    FUZZ_CHECK((int)status > 0 && (int)status < 64);
    FUZZ_CHECK(documented & FUZZ_BIT(status));
    FUZZ_CHECK(record->status == status);
    FUZZ_CHECK(record->cause[0] != 0);
    FUZZ_CHECK(memchr(record->cause, 0, sizeof record->cause) != NULL);
    FUZZ_CHECK(memchr(record->remedy, 0, sizeof record->remedy) != NULL);
    return false;
}

/* A copy of exactly this size, so that a sanitizer sees reads past its end; a
 * NUL is added when it is to be a text. Given back by free(3). */
static inline void *fuzz_copy(const uint8_t *data, size_t size, bool text)
{
    char *copy = malloc(size + (text || size == 0));

    FUZZ_CHECK(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    if (text)
        copy[size] = 0;
    return copy;
}

static inline void fuzz_nothing_left(void)
{
    FUZZ_CHECK(wi_stat_get(WI_STAT_live_host_allocations) == 0);
    FUZZ_CHECK(wi_stat_get(WI_STAT_live_descriptors) == 0);
}

#endif
