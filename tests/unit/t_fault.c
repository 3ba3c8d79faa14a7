/* SPDX-License-Identifier: MIT */
/* The fault hook itself: kinds, counting, once only, several threads. */
#include "base/fault.h"

#include <pthread.h>

#include "t_test.h"

#define THREADS 4
#define CALLS 2000

static int code;

static void check_unarmed(void)
{
    code = 99;
    T_CHECK(!wi_fault(WI_FAULT_SYS, "x", &code));
    T_EQ_INT(99, code);
    T_CHECK(!wi_fault_disarm(NULL));
}

static void check_one_kind(wi_fault_kind kind)
{
    const char *where = "before";

    wi_fault_arm(kind, 3, 40 + (int)kind);
    for (int i = 0; i < WI_FAULT_KINDS; i++)
        if (i != (int)kind)
            T_CHECK(!wi_fault((wi_fault_kind)i, "other", &code));
    T_EQ_INT(0, wi_fault_count());
    code = 99;
    T_CHECK(!wi_fault(kind, "first", &code));
    T_CHECK(!wi_fault(kind, "second", &code));
    T_EQ_INT(99, code);
    T_CHECK(wi_fault(kind, "third", &code));
    T_EQ_INT(40 + (int)kind, code);
    T_CHECK(!wi_fault(kind, "fourth", &code));
    T_EQ_INT(4, wi_fault_count());
    T_CHECK(wi_fault_disarm(&where));
    T_EQ_STR("third", where);

    /* Disarmed: neither failing nor counting. */
    T_CHECK(!wi_fault(kind, "fifth", &code));
    T_EQ_INT(4, wi_fault_count());
}

/* Arming again starts afresh. */
static void check_again(void)
{
    const char *where = "before";

    wi_fault_arm(WI_FAULT_MEM, 1, 0);
    T_CHECK(wi_fault(WI_FAULT_MEM, "a", &code));
    wi_fault_arm(WI_FAULT_MEM, 2, 0);
    T_EQ_INT(0, wi_fault_count());
    T_CHECK(!wi_fault(WI_FAULT_MEM, "b", &code));
    T_CHECK(!wi_fault_disarm(&where));
    T_EQ_PTR(NULL, where);
}

static void *many_calls(void *argument)
{
    long *fired = argument;
    int got;

    for (int i = 0; i < CALLS; i++)
        *fired += wi_fault(WI_FAULT_SYS, "thread", &got);
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREADS];
    long fired[THREADS] = {0};
    long sum = 0;

    wi_fault_arm(WI_FAULT_SYS, THREADS * CALLS / 2, 5);
    for (int i = 0; i < THREADS; i++)
        T_EQ_INT(0, pthread_create(&threads[i], NULL, many_calls, &fired[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += fired[i];
    }
    T_EQ_INT(1, sum);
    T_EQ_INT(THREADS * CALLS, wi_fault_count());
    T_CHECK(wi_fault_disarm(NULL));
}

int main(void)
{
    check_unarmed();
    for (int kind = 0; kind < WI_FAULT_KINDS; kind++)
        check_one_kind((wi_fault_kind)kind);
    check_again();
    check_threads();
    return 0;
}
