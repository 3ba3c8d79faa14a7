/* SPDX-License-Identifier: MIT */
/* Memory in physical chunks: what descriptors (cuda_vmm.c) and fabric handles
 * (cuda_fabric.c) have in common. Private to the two files. */
#ifndef WI_DEVICE_CUDA_VMM_H
#define WI_DEVICE_CUDA_VMM_H

#include "device/cuda_device.h"

typedef struct wi_vmm_block {
    wi_block base; /* first */
    wharf_handle_kind kind;
    size_t chunk_bytes;
    int numa;   /* on the host: the system's number of the node */
    int chunks; /* handles held */
    CUmemGenericAllocationHandle handles[WI_BLOCK_CHUNKS];
} wi_vmm_block;

static inline wi_vmm_block *wi_vmm_of(wi_block *block)
{
    return (wi_vmm_block *)block;
}

static inline bool wi_vmm_on_host(const wi_vmm_block *block)
{
    return block->kind == WHARF_HANDLE_HOST_VMM;
}

/* The last chunk may be smaller. */
size_t wi_vmm_chunk_size(const wi_vmm_block *block, int index);

/* A block without chunks, not counted yet; NULL: WHARF_ENOMEM. */
wi_vmm_block *wi_vmm_new(wharf_handle_kind kind, size_t bytes, bool owned);
/* Releases the chunks' handles; the context is current. */
void wi_vmm_release(const wi_vmm_block *block);

/* As the slots of wi_memory_ops, for chunks and addresses in units of
 * `granularity`. */
wharf_status wi_vmm_reserve(wi_device *device, size_t granularity, void *wish,
                            size_t bytes, wi_range *range);
void wi_vmm_unreserve(wi_device *device, wi_range *range);
wharf_status wi_vmm_create(wi_device *device, wharf_handle_kind kind,
                           size_t granularity, size_t bytes, size_t chunk_bytes,
                           wi_block **block);
wharf_status wi_vmm_map(wi_device *device, wi_block *block, wi_range *range,
                        size_t offset, wi_access access, void **pointer);
wharf_status wi_vmm_protect(wi_device *device, wi_block *block,
                            wi_access access);
void wi_vmm_destroy(wi_device *device, wi_block *block);

#endif
