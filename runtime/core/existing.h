/* SPDX-License-Identifier: MIT */
/*
 * Buffers of memory that their ranks had before (wharf_buffer_attach_memory).
 *
 * Such a mapping has one block for each rank that has memory, and each block
 * has a kind of its own: shared directly (device/foreign.h) or a mirror in host
 * memory (the node's host way). mapping->block holds what this rank opened of
 * others, and for itself its mirror or nothing; mapping->pointer is what
 * wharf_buffer_segment gives: for the own rank the caller's own pointer.
 *
 * Files: buffer_memory.c (the calls), existing.c (life and queries),
 * existing_share.c (how it gets to the other ranks).
 */
#ifndef WI_CORE_EXISTING_H
#define WI_CORE_EXISTING_H

#include "core/core.h"
#include "device/copy.h"
#include "device/foreign.h"

/* Words of each segment that are read on both sides and compared. */
#define WI_EXISTING_WORDS 16

/* What the ranks show each other of their memory. */
typedef struct wi_existing_card {
    wi_foreign_card memory; /* zero if it is mirrored */
    uint32_t kind;          /* wi_foreign_kind as it was found */
    uint32_t mirrored;
    uint32_t neighbours; /* others reach them through it */
    uint32_t parcels;    /* messages with descriptors */
    uint64_t largest;    /* physical piece */
    uint32_t words;      /* in `word`: at first, first + stride, ..., last */
    uint32_t first;
    uint64_t stride;
    uint64_t last;
    uint64_t word[WI_EXISTING_WORDS];
} wi_existing_card;

struct wi_existing {
    wi_foreign memory;      /* this rank's */
    void *mirror;           /* this rank's, NULL: none */
    wi_existing_card *card; /* node size of them */
    wi_range *range;        /* of each block: addresses of a mirror here */
    char forced[96];        /* why all are mirrored; else empty */
};

/* Block of a rank's memory, or -1. */
static inline int wi_existing_block(const wi_mapping *mapping, int rank)
{
    return mapping->layout.block_of_rank[rank];
}

/* Do the other ranks see a copy of the rank's memory? */
static inline bool wi_existing_is_mirror(const wi_mapping *mapping, int rank)
{
    return mapping->existing && mapping->existing->card[rank].mirrored;
}

/* Local: a mapping without memory, room for one block a rank. */
wharf_status wi_existing_new(wharf_node *node, wi_mapping **mapping);
/* Frees what the object holds beside the mapping's own parts. */
void wi_existing_delete(wi_existing *existing);

/* Local, alike on all ranks: sizes, which lie in mapping->sizes, become blocks.
 */
void wi_existing_lay_out(wi_mapping *mapping);

/*
 * Collective: the blocks get to every rank. On failure nothing of it is left,
 * every rank has the same status, and it may be tried again. *other_way: a
 * mirror of everything may do (set existing->forced).
 */
wharf_status wi_existing_share(wi_mapping *mapping, bool mirrored,
                               wi_deadline deadline, bool *other_way);

/* Parts of wi_mapping_free: what was opened of others; what this rank made. */
void wi_existing_close_imports(wi_mapping *mapping);
void wi_existing_free_owned(wi_mapping *mapping);

/* Where a block is, for copies by this rank's GPU. */
wi_copy_place wi_existing_place(const wi_mapping *mapping, int block);

/* What wharf_buffer_info_get says of one rank's segment. */
void wi_existing_info(const wi_mapping *mapping, int rank,
                      wharf_buffer_info *info);

#endif
