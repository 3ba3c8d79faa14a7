/* SPDX-License-Identifier: MIT */
/* Sets of small numbers (CPUs, NUMA nodes) as arrays of 64-bit words, and their
 * spelling as "0-3,8". */
#ifndef WI_TOPO_BITS_H
#define WI_TOPO_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wharf/status.h"

static inline void wi_bits_set(uint64_t *set, int bit)
{
    set[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static inline bool wi_bits_has(const uint64_t *set, int bit)
{
    return set[bit / 64] >> (bit % 64) & 1;
}

static inline bool wi_bits_meet(const uint64_t *a, const uint64_t *b, int words)
{
    for (int w = 0; w < words; w++)
        if (a[w] & b[w])
            return true;
    return false;
}

/* a within b? */
static inline bool wi_bits_within(const uint64_t *a, const uint64_t *b,
                                  int words)
{
    for (int w = 0; w < words; w++)
        if (a[w] & ~b[w])
            return false;
    return true;
}

static inline int wi_bits_count(const uint64_t *set, int words)
{
    int count = 0;
    for (int w = 0; w < words; w++)
        count += __builtin_popcountll(set[w]);
    return count;
}

/*
 * Reads `length` characters such as "0-3,8" into a cleared set of
 * WHARF_TOPO_INDICES bits. WHARF_EARG for anything else, an empty list
 * included; WHARF_ELIMIT for an index that does not fit; the cause names
 * `what`.
 */
wharf_status wi_bits_parse(const char *text, size_t length, const char *what,
                           uint64_t *set);

/* Spells the first `bits` bits of a set; ends in "..." where it was cut. */
char *wi_bits_format(const uint64_t *set, int bits, char *text,
                     size_t capacity);

#endif
