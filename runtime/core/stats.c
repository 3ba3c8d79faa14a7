/* SPDX-License-Identifier: MIT */
/* The counters, as the public calls show them. */
#include "wharf/stats.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/stat.h"
#include "base/sys.h"
#include "base/versioned.h"

wharf_status wharf_stats_get(wharf_stats *stats)
{
    wi_call_begin(__func__, -1);
    wharf_stats now = {.struct_size = sizeof now};
#define READ(name, text) now.name = wi_stat_get(WI_STAT_##name);
    WHARF_STATS_LIST(READ)
#undef READ
    return wi_call_end(wi_versioned_write(stats, &now, sizeof now, "stats"));
}

wharf_status wharf_stats_print(FILE *file)
{
    wi_call_begin(__func__, -1);
    if (!file)
        return wi_call_end(
            wi_fail(WHARF_EARG, "pass an open file", "file is NULL"));
    for (int s = 0; s < WI_STAT_COUNT; s++)
        fprintf(file, "%16" PRId64 "  %-26s %s\n", wi_stat_get((wi_stat)s),
                wi_stat_name((wi_stat)s), wi_stat_text((wi_stat)s));
    return wi_call_end(wi_sys_flush(file, "the counters"));
}
