/* SPDX-License-Identifier: MIT */
/* Where each rank's segment lies; see layout.h. */
#include "core/layout.h"

#include "base/error.h"
#include "base/mem.h"

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

static int place_of(const wi_layout_request *request, int rank)
{
    return request->place_of_rank ? request->place_of_rank[rank] : 0;
}

/* Rounding adds less than one granularity and one alignment a rank, so a sum
 * of sizes under the bound cannot overflow later. */
static wharf_status check_total(const wi_layout_request *request)
{
    uint64_t total = 0;
    for (int r = 0; r < request->ranks; r++) {
        if (request->sizes[r] > WI_LAYOUT_MOST - total)
            return wi_fail(WHARF_EARG, "attach less",
                           "the segments of ranks 0 to %d add up to more than "
                           "64 TiB",
                           r);
        total += request->sizes[r];
    }
    return WHARF_OK;
}

static wi_layout_block *add_block(const wi_layout_request *request,
                                  wi_layout *layout, int rank)
{
    int place = place_of(request, rank);
    wi_layout_block *block = &layout->block[layout->blocks++];
    block->place = place;
    block->owner = request->owner_of_place[place];
    block->sole_rank = request->block_each ? rank : -1;
    block->offset = layout->bytes;
    block->bytes = 0;
    return block;
}

static void put_segment(wi_layout *layout, int rank, size_t offset)
{
    layout->block_of_rank[rank] = layout->blocks - 1;
    layout->offset_of_rank[rank] = offset;
}

/* Segments in rank order, each rounded up to the granularity. */
static void lay_in_rank_order(const wi_layout_request *request,
                              wi_layout *layout)
{
    wi_layout_block *block = NULL;
    for (int r = 0; r < request->ranks; r++) {
        size_t bytes = round_up(request->sizes[r], request->granularity);
        if (bytes == 0) {
            layout->offset_of_rank[r] = layout->bytes;
            continue;
        }
        if (!block || request->block_each ||
            block->place != place_of(request, r))
            block = add_block(request, layout, r);
        put_segment(layout, r, layout->bytes);
        block->bytes += bytes;
        layout->bytes += bytes;
    }
}

/* One block a place, its segments close together. */
static void lay_by_place(const wi_layout_request *request, wi_layout *layout)
{
    for (int p = 0; p < request->places; p++) {
        wi_layout_block *block = NULL;
        for (int r = 0; r < request->ranks; r++) {
            if (place_of(request, r) != p || request->sizes[r] == 0)
                continue;
            if (!block)
                block = add_block(request, layout, r);
            put_segment(layout, r, block->offset + block->bytes);
            block->bytes += round_up(request->sizes[r], WI_SEGMENT_ALIGN);
        }
        if (!block)
            continue;
        block->bytes = round_up(block->bytes, request->granularity);
        layout->bytes += block->bytes;
    }
}

wharf_status wi_layout_make(const wi_layout_request *request, wi_layout *layout)
{
    wharf_status status = check_total(request);
    if (status != WHARF_OK)
        return status;

    wi_layout made = {0};
    size_t ranks = (size_t)request->ranks;
    made.block = wi_calloc(ranks, sizeof *made.block);
    made.block_of_rank = wi_calloc(ranks, sizeof *made.block_of_rank);
    made.offset_of_rank = wi_calloc(ranks, sizeof *made.offset_of_rank);
    if (!made.block || !made.block_of_rank || !made.offset_of_rank) {
        wi_layout_free(&made);
        return WHARF_ENOMEM;
    }
    for (int r = 0; r < request->ranks; r++)
        made.block_of_rank[r] = -1;
    if (request->contiguous || request->block_each)
        lay_in_rank_order(request, &made);
    else
        lay_by_place(request, &made);
    *layout = made;
    return WHARF_OK;
}

void wi_layout_free(wi_layout *layout)
{
    wi_free(layout->block);
    wi_free(layout->block_of_rank);
    wi_free(layout->offset_of_rank);
    *layout = (wi_layout){0};
}
