/* SPDX-License-Identifier: MIT */
/*
 * What every backend's blocks and events start with. Each kind of memory puts
 * its own fields behind; nobody outside runtime/device looks inside.
 */
#ifndef WI_DEVICE_BLOCK_H
#define WI_DEVICE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

struct wi_block {
    size_t bytes;
    bool owned;    /* allocated here, not imported */
    void *pointer; /* where it is mapped, or NULL */
};

struct wi_event {
    wi_device *device;
};

/* Counts a block in (1), when it comes to life, or out (-1). */
void wi_block_count(const wi_block *block, wharf_space space, int direction);

/* The reasons of wi_peer and wi_device_ops.memory. */
void wi_reason_set(char reason[96], const char *text);

/* What chunks a block of `bytes` is cut into: *count pieces of *chunk bytes,
 * the last one smaller or equal. */
void wi_block_divide(size_t bytes, size_t most, size_t granularity,
                     size_t *chunk, int *count);

/* Is what a peer sent a handle of that kind that makes sense? WHARF_EPROTOCOL
 * otherwise: such a thing is never sent by this version. */
wharf_status wi_handle_valid(const wi_handle *handle, wharf_handle_kind kind,
                             uint32_t most_fds);

/* The same for a handle whose pieces are named in it and not by descriptors;
 * *pieces gets their number. */
wharf_status wi_handle_plain_valid(const wi_handle *handle,
                                   wharf_handle_kind kind, uint32_t most,
                                   int *pieces);

#endif
