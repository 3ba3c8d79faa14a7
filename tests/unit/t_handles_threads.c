/* SPDX-License-Identifier: MIT */
/* Handles of several threads at once, through every size of the table. */
#include "base/handles.h"
#include "base/stat.h"

#include <pthread.h>

#include "t_test.h"

#define THREADS 4
#define OBJECTS 100
#define ROUNDS 50

static char objects[THREADS][OBJECTS];

static void *work(void *argument)
{
    char *mine = argument;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OBJECTS; i++)
            if (wi_handle_add(&mine[i], WI_HANDLE_EVENT) != WHARF_OK)
                return mine;
        for (int i = 0; i < OBJECTS; i++) {
            if (wi_handle_check(&mine[i], WI_HANDLE_EVENT, "event"))
                return mine;
            wi_handle_remove(&mine[i]);
            if (wi_handle_check(&mine[i], WI_HANDLE_EVENT, "event") !=
                WHARF_ESTATE)
                return mine;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    void *back;

    for (int i = 0; i < THREADS; i++)
        T_EQ_INT(0, pthread_create(&threads[i], NULL, work, objects[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &back);
        T_EQ_PTR(NULL, back);
    }
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
