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

/* NULL is ignored. */
void wi_free(void *pointer);

/* One zeroed object of the pointer's type. */
#define WI_NEW(pointer) ((pointer) = wi_calloc(1, sizeof *(pointer)))

#endif
