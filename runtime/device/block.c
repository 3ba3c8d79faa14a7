/* SPDX-License-Identifier: MIT */
/* What the kinds of memory have in common: counting, cutting, distrust. */
#include "device/block.h"

#include <stdio.h>

#include "base/error.h"
#include "base/stat.h"

void wi_block_count(const wi_block *block, wharf_space space, int direction)
{
    int64_t bytes = (int64_t)block->bytes * direction;

    wi_stat_add(block->owned ? WI_STAT_live_blocks_owned
                             : WI_STAT_live_blocks_imported,
                direction);
    /* Host memory is counted where it is mapped. */
    if (space == WHARF_SPACE_DEVICE)
        wi_stat_add(block->owned ? WI_STAT_live_device_bytes_owned
                                 : WI_STAT_live_device_bytes_imported,
                    bytes);
}

void wi_reason_set(char reason[96], const char *text)
{
    snprintf(reason, 96, "%s", text);
}

/*
 * Equal pieces, not full ones and a rest: the time to map a block is that of
 * its largest piece times their number. `most` gives way where it would need
 * more pieces than one parcel carries.
 */
void wi_block_divide(size_t bytes, size_t most, size_t granularity,
                     size_t *chunk, int *count)
{
    size_t units = (bytes + granularity - 1) / granularity;
    size_t most_units = most / granularity;
    size_t pieces = 1;
    size_t each;

    if (most != 0 && most_units == 0)
        most_units = 1;
    if (most_units != 0)
        pieces = (units + most_units - 1) / most_units;
    if (pieces > WI_BLOCK_CHUNKS)
        pieces = WI_BLOCK_CHUNKS;
    each = (units + pieces - 1) / pieces;
    *chunk = each * granularity;
    *count = (int)((units + each - 1) / each);
}

/* Do `pieces` pieces of chunk_bytes make up the block exactly? */
static bool pieces_fit(const wi_handle *handle, uint64_t pieces)
{
    return handle->chunk_bytes > 0 && handle->chunk_bytes <= handle->bytes &&
           (handle->bytes - 1) / handle->chunk_bytes + 1 == pieces;
}

static wharf_status handle_strange(const wi_handle *handle,
                                   wharf_handle_kind kind)
{
    return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
                   "a handle of kind %u with %u descriptors, %llu bytes in "
                   "chunks of %llu arrived where kind %d was expected",
                   handle->kind, handle->fds, (unsigned long long)handle->bytes,
                   (unsigned long long)handle->chunk_bytes, (int)kind);
}

wharf_status wi_handle_valid(const wi_handle *handle, wharf_handle_kind kind,
                             uint32_t most_fds)
{
    /* A legacy handle has no descriptor and names one piece. */
    if (handle->kind == (uint32_t)kind && handle->fds <= most_fds &&
        pieces_fit(handle, handle->fds ? handle->fds : 1))
        return WHARF_OK;
    return handle_strange(handle, kind);
}

wharf_status wi_handle_plain_valid(const wi_handle *handle,
                                   wharf_handle_kind kind, uint32_t most,
                                   int *pieces)
{
    uint64_t count = handle->chunk_bytes && handle->bytes
                         ? (handle->bytes - 1) / handle->chunk_bytes + 1
                         : 0;

    if (handle->kind != (uint32_t)kind || handle->fds != 0 || count > most ||
        !pieces_fit(handle, count))
        return handle_strange(handle, kind);
    *pieces = (int)count;
    return WHARF_OK;
}
