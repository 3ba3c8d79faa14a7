/* SPDX-License-Identifier: MIT */
/* The counters behind wharf_stats: process-wide, atomic. */
#ifndef WI_BASE_STAT_H
#define WI_BASE_STAT_H

#include <stdint.h>

#include "wharf/stats.h"

typedef enum wi_stat {
#define WI_STAT_ENUM(name, text) WI_STAT_##name,
    WHARF_STATS_LIST(WI_STAT_ENUM)
#undef WI_STAT_ENUM
        WI_STAT_COUNT
} wi_stat;

void wi_stat_add(wi_stat stat, int64_t delta);
int64_t wi_stat_get(wi_stat stat);
const char *wi_stat_name(wi_stat stat);
const char *wi_stat_text(wi_stat stat);

#endif
