/* SPDX-License-Identifier: MIT */
/*
 * Where each rank's segment lies: pure arithmetic on sizes.
 *
 * The segments of one place (a GPU, or the host) lie in rank order in one
 * block of that place's owner; the blocks lie one after the other in one
 * address range. So a rank imports one block a GPU, whatever the number of
 * ranks. Two options cost more blocks: CONTIGUOUS needs a new one wherever
 * neighbours in rank order sit on different GPUs, READ_ONLY one a segment,
 * because access is set by whole blocks.
 */
#ifndef WI_CORE_LAYOUT_H
#define WI_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wharf/status.h"

/* Segments start at multiples of this, in bytes: a GPU's widest transaction,
 * and what cudaMalloc promises. */
#define WI_SEGMENT_ALIGN 256

/* Most bytes of a whole buffer: what a 47-bit address space can hold with room
 * for the rest of the process. */
#define WI_LAYOUT_MOST (UINT64_C(1) << 46)

typedef struct wi_layout_block {
    int owner;     /* node rank that allocates it */
    int place;     /* GPU index, or 0 on the host */
    int sole_rank; /* READ_ONLY: the rank whose segment it is; else -1 */
    size_t offset; /* in the range, a multiple of the granularity */
    size_t bytes;  /* a multiple of the granularity */
} wi_layout_block;

typedef struct wi_layout {
    int blocks;
    wi_layout_block *block;
    int *block_of_rank;     /* -1: empty segment */
    size_t *offset_of_rank; /* in the range */
    size_t bytes;           /* of the range */
} wi_layout;

typedef struct wi_layout_request {
    int ranks;
    const uint64_t *sizes; /* a rank */
    int places;
    const int *place_of_rank; /* NULL: all at place 0 */
    const int *owner_of_place;
    size_t granularity; /* power of two */
    bool contiguous;
    bool block_each; /* a block a segment */
} wi_layout_request;

/* WHARF_EARG when the whole is beyond WI_LAYOUT_MOST, WHARF_ENOMEM. */
wharf_status wi_layout_make(const wi_layout_request *request,
                            wi_layout *layout);
void wi_layout_free(wi_layout *layout);

#endif
