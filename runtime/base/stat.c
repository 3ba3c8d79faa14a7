/* SPDX-License-Identifier: MIT */
/* The counters of the process. Each is exact by itself; nobody reads several
 * as one state, so relaxed order is enough. */
#include "base/stat.h"

static int64_t counters[WI_STAT_COUNT]; /* atomic */

static const struct {
    const char *name;
    const char *text;
} labels[] = {
#define STAT_LABEL(name, text) {#name, text},
    WHARF_STATS_LIST(STAT_LABEL)
#undef STAT_LABEL
};

void wi_stat_add(wi_stat stat, int64_t delta)
{
    __atomic_fetch_add(&counters[stat], delta, __ATOMIC_RELAXED);
}

int64_t wi_stat_get(wi_stat stat)
{
    return __atomic_load_n(&counters[stat], __ATOMIC_RELAXED);
}

const char *wi_stat_name(wi_stat stat)
{
    return labels[stat].name;
}

const char *wi_stat_text(wi_stat stat)
{
    return labels[stat].text;
}
