/* SPDX-License-Identifier: MIT */
/* Numbers that stand for data: to compare it, not to keep it from anybody. */
#ifndef WI_BASE_HASH_H
#define WI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a: goes on from `hash`, which is WI_HASH_START at first. */
#define WI_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t wi_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        /* The analyzer takes later bytes for unset. NOLINTNEXTLINE */
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Spreads what differs in few bits over all of them; one-to-one. The step of
 * splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t wi_mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
