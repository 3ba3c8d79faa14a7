/* SPDX-License-Identifier: MIT */
/* Products of sizes that a caller names. */
#ifndef WI_BASE_PRODUCT_H
#define WI_BASE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* a * b into *product, if that stays below 2^62: no memory is larger, and three
 * such numbers can be added. */
static inline bool wi_product(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product) && *product >> 62 == 0;
}

#endif
