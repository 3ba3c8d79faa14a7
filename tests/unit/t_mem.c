/* SPDX-License-Identifier: MIT */
/* Heap memory: zeroed, aligned, counted, checked for overflow. */
#include "base/error.h"
#include "base/mem.h"
#include "base/stat.h"

#include <stdalign.h>
#include <stdint.h>

#include "t_test.h"

static int64_t live(void)
{
    return wi_stat_get(WI_STAT_live_host_allocations);
}

static void check_zeroed(void)
{
    static const unsigned char zero[4096];
    unsigned char *block;

    /* Again and again: a block that was used before must be zeroed as well. */
    for (size_t bytes = 1; bytes <= sizeof zero; bytes *= 2) {
        for (int again = 0; again < 3; again++) {
            block = wi_calloc(bytes, 1);
            T_CHECK(block != NULL);
            T_EQ_INT(0, (uintptr_t)block % alignof(max_align_t));
            T_EQ_MEM(zero, block, bytes);
            memset(block, 0xa5, bytes);
            wi_free(block);
        }
    }
}

static void check_counted(void)
{
    struct pair {
        int a, b;
    } * pair;
    void *none, *nothing;
    char *copy;

    T_EQ_INT(0, live());
    T_CHECK(WI_NEW(pair) != NULL);
    T_EQ_INT(0, pair->a + pair->b);
    none = wi_calloc(0, 8);
    nothing = wi_calloc(8, 0);
    copy = wi_strdup("wharf");
    T_CHECK(none && nothing && none != nothing);
    T_EQ_STR("wharf", copy);
    T_EQ_INT(4, live());
    wi_free(pair);
    wi_free(none);
    wi_free(nothing);
    wi_free(copy);
    wi_free(NULL);
    T_EQ_INT(0, live());
}

/* One by one and at once: what was there stays, the rest is zero. */
static void check_grown(void)
{
    size_t room = 0, used = 0, moved = 0;
    int *array = NULL, *grown;

    for (int i = 0; i < 1000; i++) {
        grown = wi_grow(array, &room, used, used + 1, sizeof *grown);
        T_CHECK(grown != NULL && used < room);
        moved += grown != array;
        array = grown;
        T_EQ_INT(0, array[used]);
        array[used++] = i;
    }
    T_CHECK(moved < 10);
    T_EQ_PTR(array, wi_grow(array, &room, used, room, sizeof *array));
    grown = wi_grow(array, &room, used, 100000, sizeof *grown);
    T_CHECK(grown != NULL && room == 100000);
    for (int i = 0; i < 1000; i++)
        T_EQ_INT(i, grown[i]);
    for (size_t i = used; i < room; i++)
        T_EQ_INT(0, grown[i]);
    T_EQ_PTR(NULL, wi_grow(grown, &room, used, SIZE_MAX, sizeof *grown));
    T_EQ_INT(100000, room);
    T_EQ_INT(999, grown[999]);
    wi_free(grown);
    room = 0;
    array = wi_grow(NULL, &room, 0, 0, sizeof *array);
    T_CHECK(array != NULL);
    wi_free(array);
    T_EQ_INT(0, live());
}

static void refuse(size_t count, size_t size)
{
    wi_error_record()->status = WHARF_OK;
    T_EQ_PTR(NULL, wi_calloc(count, size));
    T_EQ_INT(WHARF_ENOMEM, wi_error_record()->status);
    T_CHECK(wi_error_record()->cause[0] != '\0');
    T_EQ_INT(0, live());
}

int main(void)
{
    check_zeroed();
    check_counted();
    check_grown();
    refuse(SIZE_MAX, 2);
    refuse(SIZE_MAX / 2 + 1, 2);
    refuse((size_t)1 << 32, (size_t)1 << 32);
    return 0;
}
