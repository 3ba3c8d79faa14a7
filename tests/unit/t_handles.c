/* SPDX-License-Identifier: MIT */
/* The set of live handles: answers for live, dead, foreign, wrong and NULL
 * ones; many at once; out of memory; nothing held when it is empty. */
#include "base/error.h"
#include "base/fault.h"
#include "base/handles.h"
#include "base/stat.h"

#include "t_test.h"

#define MANY 3000

static char objects[MANY][24];
static char alive[MANY];

static int64_t heap(void)
{
    return wi_stat_get(WI_STAT_live_host_allocations);
}

static void refuse(wharf_status expected, const void *object,
                   wi_handle_type type)
{
    wi_error_record()->status = WHARF_OK;
    T_STATUS(expected, wi_handle_check(object, type, "buffer"));
    T_EQ_INT(expected, wi_error_record()->status);
    T_CONTAINS("buffer", wi_error_record()->cause);
    T_CHECK(wi_error_record()->remedy[0] != '\0');
}

static void check_answers(void)
{
    refuse(WHARF_EARG, NULL, WI_HANDLE_BUFFER);
    refuse(WHARF_ESTATE, objects[0], WI_HANDLE_BUFFER);
    T_OK(wi_handle_add(objects[0], WI_HANDLE_BUFFER));
    T_OK(wi_handle_check(objects[0], WI_HANDLE_BUFFER, "buffer"));
    refuse(WHARF_ESTATE, objects[0], WI_HANDLE_NODE);
    refuse(WHARF_ESTATE, objects[0] + 1, WI_HANDLE_BUFFER);
    refuse(WHARF_ESTATE, (void *)1, WI_HANDLE_BUFFER);
    refuse(WHARF_EARG, NULL, WI_HANDLE_BUFFER);
    wi_handle_remove(objects[0]);
    refuse(WHARF_ESTATE, objects[0], WI_HANDLE_BUFFER);
    wi_handle_remove(objects[0]);
    wi_handle_remove(NULL);

    /* An address that is used again, by another type. */
    T_OK(wi_handle_add(objects[0], WI_HANDLE_EVENT));
    T_OK(wi_handle_check(objects[0], WI_HANDLE_EVENT, "event"));
    refuse(WHARF_ESTATE, objects[0], WI_HANDLE_BUFFER);
    wi_handle_remove(objects[0]);
    T_EQ_INT(0, heap());
}

static wi_handle_type type_of(int i)
{
    return (wi_handle_type)(1 + i % 3);
}

static void compare_all(void)
{
    for (int i = 0; i < MANY; i++)
        T_STATUS(alive[i] ? WHARF_OK : WHARF_ESTATE,
                 wi_handle_check(objects[i], type_of(i), "object"));
}

/* A fixed pseudo-random walk against an array that knows the truth. */
static void check_many(void)
{
    uint32_t state = 12345;

    for (int step = 0; step < 20 * MANY; step++) {
        int i;

        state = state * 1664525U + 1013904223U;
        i = (int)((state >> 8) % MANY);
        if (alive[i])
            wi_handle_remove(objects[i]);
        else
            T_OK(wi_handle_add(objects[i], type_of(i)));
        alive[i] = !alive[i];
        T_STATUS(alive[i] ? WHARF_OK : WHARF_ESTATE,
                 wi_handle_check(objects[i], type_of(i), "object"));
        if (step % 6000 == 0)
            compare_all();
    }
    compare_all();
    T_CHECK(heap() > 0);
    for (int i = 0; i < MANY; i++)
        wi_handle_remove(objects[i]);
    memset(alive, 0, sizeof alive);
    compare_all();
    T_EQ_INT(0, heap());
}

/* Growing fails: the new one is refused, the others stay. */
static void check_no_memory(void)
{
    int count;

    wi_fault_arm(WI_FAULT_MEM, 1, 0);
    T_STATUS(WHARF_ENOMEM, wi_handle_add(objects[0], WI_HANDLE_NODE));
    T_CHECK(wi_fault_disarm(NULL));
    refuse(WHARF_ESTATE, objects[0], WI_HANDLE_NODE);
    T_EQ_INT(0, heap());

    wi_fault_arm(WI_FAULT_MEM, 3, 0);
    for (count = 0; wi_handle_add(objects[count], WI_HANDLE_NODE) == WHARF_OK;)
        T_CHECK(++count < MANY);
    T_CHECK(wi_fault_disarm(NULL));
    T_EQ_INT(WHARF_ENOMEM, wi_error_record()->status);
    refuse(WHARF_ESTATE, objects[count], WI_HANDLE_NODE);
    T_OK(wi_handle_add(objects[count], WI_HANDLE_NODE));
    for (int i = 0; i <= count; i++) {
        T_OK(wi_handle_check(objects[i], WI_HANDLE_NODE, "node"));
        wi_handle_remove(objects[i]);
    }
    T_EQ_INT(0, heap());
}

int main(void)
{
    check_answers();
    check_many();
    check_no_memory();
    return 0;
}
