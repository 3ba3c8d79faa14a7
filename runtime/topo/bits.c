/* SPDX-License-Identifier: MIT */
/* Reading and writing lists of indices. No allocation, no global state: fit
 * for a fuzzer. */
#include "topo/bits.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "wharf/topo.h"

/* Longest piece of a user's text that is quoted in an error. */
#define BITS_QUOTE 40

/* One index; WHARF_TOPO_INDICES stands for "too large". */
static bool index_read(const char **at, const char *end, int *index)
{
    int value = 0;
    if (*at == end || **at < '0' || **at > '9')
        return false;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (**at - '0');
        if (value > WHARF_TOPO_INDICES)
            value = WHARF_TOPO_INDICES;
    }
    *index = value;
    return true;
}

static wharf_status list_refuse(const char *what, const char *text,
                                size_t length)
{
    int shown = length > BITS_QUOTE ? BITS_QUOTE : (int)length;
    return wi_fail(WHARF_EARG, "write indices and ranges such as 0-3,8",
                   "%s list \"%.*s\" is no list of indices", what, shown, text);
}

wharf_status wi_bits_parse(const char *text, size_t length, const char *what,
                           uint64_t *set)
{
    const char *at = text;
    const char *end = text + length;

    memset(set, 0, WHARF_TOPO_INDICES / 8);
    for (;;) {
        int first, last;
        if (!index_read(&at, end, &first))
            return list_refuse(what, text, length);
        last = first;
        if (at < end && *at == '-') {
            at++;
            if (!index_read(&at, end, &last) || last < first)
                return list_refuse(what, text, length);
        }
        if (last >= WHARF_TOPO_INDICES)
            return wi_fail(WHARF_ELIMIT, NULL,
                           "%s list \"%.*s\" has an index above %d", what,
                           length > BITS_QUOTE ? BITS_QUOTE : (int)length, text,
                           WHARF_TOPO_INDICES - 1);
        for (int i = first; i <= last; i++)
            wi_bits_set(set, i);
        if (at == end)
            return WHARF_OK;
        if (*at++ != ',')
            return list_refuse(what, text, length);
    }
}

char *wi_bits_format(const uint64_t *set, int bits, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < bits; i++) {
        int last = i;
        char piece[32];
        int length;
        if (!wi_bits_has(set, i))
            continue;
        while (last + 1 < bits && wi_bits_has(set, last + 1))
            last++;
        length = snprintf(piece, sizeof piece, last > i ? "%s%d-%d" : "%s%d",
                          used ? "," : "", i, last);
        /* Four bytes stay free for the mark of a cut list. */
        if (used + (size_t)length + 4 >= capacity) {
            if (used + 4 < capacity)
                memcpy(text + used, "...", 4);
            return text;
        }
        memcpy(text + used, piece, (size_t)length + 1);
        used += (size_t)length;
        i = last;
    }
    return text;
}
