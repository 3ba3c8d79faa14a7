/* SPDX-License-Identifier: MIT */
/* The counters: names in the order of the public struct, exact under threads.
 */
#include "base/stat.h"

#include <pthread.h>

#include "t_test.h"

#define THREADS 4
#define ADDS 10000

static void check_names(void)
{
    static const char *const names[] = {
#define NAME(name, text) #name,
        WHARF_STATS_LIST(NAME)
#undef NAME
    };

    T_EQ_INT(sizeof names / sizeof names[0], WI_STAT_COUNT);
    for (int i = 0; i < WI_STAT_COUNT; i++) {
        T_EQ_STR(names[i], wi_stat_name((wi_stat)i));
        T_CHECK(wi_stat_text((wi_stat)i)[0] != '\0');
        T_EQ_INT(0, wi_stat_get((wi_stat)i));
        for (int j = 0; j < i; j++)
            T_CHECK(strcmp(names[i], names[j]) != 0);
    }
}

static void *add(void *argument)
{
    (void)argument;
    for (int i = 0; i < ADDS; i++) {
        wi_stat_add(WI_STAT_live_nodes, 1);
        wi_stat_add(WI_STAT_kept_bytes, -3);
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        T_EQ_INT(0, pthread_create(&threads[i], NULL, add, NULL));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    T_EQ_INT(THREADS * ADDS, wi_stat_get(WI_STAT_live_nodes));
    T_EQ_INT(-3 * THREADS * ADDS, wi_stat_get(WI_STAT_kept_bytes));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_buffers));
}

int main(void)
{
    check_names();
    check_threads();
    return 0;
}
