/* SPDX-License-Identifier: MIT */
/* Heap memory: counted, zeroed, and able to fail on demand in tests. */
#ifndef WI_BASE_MEM_H
#define WI_BASE_MEM_H

#include <stddef.h>

/* count * size zeroed bytes, or NULL with the error record filled
 * (WHARF_ENOMEM). count * size may not overflow: then NULL as well. A request
 * of 0 bytes gives a unique pointer. */
void *wi_calloc(size_t count, size_t size);

/* Copy of a string; NULL as above. */
char *wi_strdup(const char *text);

/* Room for `needed` elements of `size` bytes where `array` has *room, the first
 * `used` of them set: `array`, or a larger one in its stead. NULL as above, and
 * `array` stays. */
void *wi_grow(void *array, size_t *room, size_t used, size_t needed,
              size_t size);

/* NULL is ignored. */
void wi_free(void *pointer);

/* One zeroed object of the pointer's type. */
#define WI_NEW(pointer) ((pointer) = wi_calloc(1, sizeof *(pointer)))

#endif
