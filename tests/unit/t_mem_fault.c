/* SPDX-License-Identifier: MIT */
/* Allocations that fail on demand: each of a sequence once, nothing leaked. */
#include "base/error.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/stat.h"

#include "t_test.h"

typedef struct thing {
    char *name;
    int *numbers;
} thing;

/* Three allocations, undone in reverse. */
static thing *thing_make(void)
{
    thing *made;

    if (!WI_NEW(made))
        return NULL;
    made->name = wi_strdup("thing");
    if (!made->name)
        goto undo_new;
    made->numbers = wi_calloc(10, sizeof *made->numbers);
    if (!made->numbers)
        goto undo_name;
    return made;

undo_name:
    wi_free(made->name);
undo_new:
    wi_free(made);
    return NULL;
}

static void thing_free(thing *made)
{
    wi_free(made->numbers);
    wi_free(made->name);
    wi_free(made);
}

int main(void)
{
    static const char *const expected[] = {"calloc", "strdup", "calloc"};
    const char *where;
    thing *made;
    long nth;

    for (nth = 1;; nth++) {
        wi_error_record()->status = WHARF_OK;
        wi_fault_arm(WI_FAULT_MEM, nth, 0);
        made = thing_make();
        if (!wi_fault_disarm(&where))
            break;
        T_CHECK(made == NULL);
        T_CHECK(nth <= 3);
        T_EQ_STR(expected[nth - 1], where);
        T_EQ_INT(nth, wi_fault_count());
        T_EQ_INT(WHARF_ENOMEM, wi_error_record()->status);
        T_CHECK(wi_error_record()->remedy[0] != '\0');
        T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    }
    T_EQ_INT(4, nth);
    T_EQ_PTR(NULL, where);
    T_CHECK(made != NULL);
    T_EQ_INT(3, wi_stat_get(WI_STAT_live_host_allocations));
    thing_free(made);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
