/* SPDX-License-Identifier: MIT */
/* Heap memory, counted in live_host_allocations. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/stat.h"

static void *block_get(const char *where, size_t count, size_t size)
{
    void *block = NULL;
    size_t bytes;
    int code;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        wi_fail(WHARF_ENOMEM, NULL,
                "%zu objects of %zu bytes exceed the address space", count,
                size);
        return NULL;
    }
    if (!wi_fault(WI_FAULT_MEM, where, &code))
        block = calloc(1, bytes ? bytes : 1);
    if (!block) {
        wi_fail(WHARF_ENOMEM, "free memory or raise the limit of this process",
                "no %zu bytes of host memory left on the heap", bytes);
        return NULL;
    }
    wi_stat_add(WI_STAT_live_host_allocations, 1);
    return block;
}

void *wi_calloc(size_t count, size_t size)
{
    return block_get("calloc", count, size);
}

char *wi_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = block_get("strdup", bytes, 1);

    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

/* Doubled at least, so that growing one by one costs no more than that. */
void *wi_grow(void *array, size_t *room, size_t used, size_t needed,
              size_t size)
{
    size_t wanted = *room < 32 ? 64 : 2 * *room;
    void *grown;

    if (array && needed <= *room)
        return array;
    if (wanted < needed)
        wanted = needed;
    grown = block_get("grow", wanted, size);
    if (!grown)
        return NULL;
    if (array && used > 0)
        memcpy(grown, array, used * size);
    wi_free(array);
    *room = wanted;
    return grown;
}

void wi_free(void *pointer)
{
    if (!pointer)
        return;
    wi_stat_add(WI_STAT_live_host_allocations, -1);
    free(pointer);
}
