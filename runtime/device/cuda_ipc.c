/* SPDX-License-Identifier: MIT */
/*
 * Device memory of cuMemAlloc by legacy handles, for devices without virtual
 * memory management.
 *
 * A handle names a whole allocation of the driver, of which the block may be a
 * part, so its offset travels along. Block sizes are rounded to the unit of
 * the driver's small allocations: then a block shares its allocation with
 * nobody, and what a peer opens is the block and nothing else.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/cuda_device.h"

#define IPC_GRANULARITY ((size_t)2 << 20)

typedef struct ipc_block {
    wi_block base;    /* first; pointer is set from the start */
    CUdeviceptr open; /* imported: what cuIpcCloseMemHandle wants */
} ipc_block;

_Static_assert(sizeof(CUipcMemHandle) <= sizeof(((const wi_handle *)0)->opaque),
               "a memory handle fits the seam's room");

static size_t ipc_granularity(wi_device *device)
{
    (void)device;
    return IPC_GRANULARITY;
}

static wharf_status ipc_reserve(wi_device *device, void *wish, size_t bytes,
                                wi_range *range)
{
    (void)device;
    if (wish)
        return wi_fail(WHARF_EUNSUPPORTED, NULL,
                       "legacy handles are mapped where the driver chooses, "
                       "not at %p",
                       wish);
    range->base = NULL;
    range->bytes = bytes;
    return WHARF_OK;
}

static void ipc_unreserve(wi_device *device, wi_range *range)
{
    (void)device;
    if (range)
        range->bytes = 0;
}

static wharf_status ipc_create(wi_device *device, size_t bytes,
                               size_t chunk_bytes, wi_block **out)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    CUdeviceptr got = 0;
    wi_cuda_visit visit;
    ipc_block *block;
    wharf_status status;

    (void)chunk_bytes; /* one allocation, one handle */
    if (bytes == 0)
        return wi_fail(WHARF_EARG, NULL, "a block of 0 bytes");
    if (!WI_NEW(block))
        return WHARF_ENOMEM;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_new;
    status = WI_CU(cuMemAlloc, (&got, bytes), "%zu bytes, device %d", bytes,
                   cuda->device);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_new;
    block->base.bytes = bytes;
    block->base.owned = true;
    block->base.pointer = wi_cuda_pointer(got);
    wi_block_count(&block->base, WHARF_SPACE_DEVICE, 1);
    *out = &block->base;
    return WHARF_OK;

undo_new:
    wi_free(block);
    return status;
}

static wharf_status ipc_export(wi_device *device, wi_block *block,
                               wi_handle *handle, int *fds)
{
    CUdeviceptr at = (CUdeviceptr)block->pointer;
    CUdeviceptr start = 0;
    CUipcMemHandle native;
    size_t whole = 0;
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(wi_cuda_of(device), &visit);

    (void)fds;
    if (status != WHARF_OK)
        return status;
    status =
        WI_CU(cuMemGetAddressRange, (&start, &whole, at), "%p", block->pointer);
    if (status == WHARF_OK)
        status = WI_CU(cuIpcGetMemHandle, (&native, at), "%p, %zu bytes",
                       block->pointer, block->bytes);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        return status;
    memset(handle, 0, sizeof *handle);
    handle->kind = WHARF_HANDLE_IPC;
    handle->bytes = block->bytes;
    handle->chunk_bytes = block->bytes;
    handle->offset = at - start;
    memcpy(handle->opaque, &native, sizeof native);
    return WHARF_OK;
}

/* Peer access is switched on by the flag where it is needed, and never by
 * cuCtxEnablePeerAccess: that would be the application's to undo, and would
 * map all of its memory to the peer. */
static wharf_status ipc_import(wi_device *device, const wi_handle *handle,
                               const int *fds, wi_block **out)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wharf_status status = wi_handle_valid(handle, WHARF_HANDLE_IPC, 0);
    CUipcMemHandle native;
    wi_cuda_visit visit;
    ipc_block *block;

    (void)fds;
    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(block))
        return WHARF_ENOMEM;
    memcpy(&native, handle->opaque, sizeof native);
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_new;
    status = WI_CU(cuIpcOpenMemHandle,
                   (&block->open, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                   "%llu bytes on device %d", (unsigned long long)handle->bytes,
                   cuda->device);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_new;
    block->base.bytes = handle->bytes;
    block->base.pointer = wi_cuda_pointer(block->open + handle->offset);
    wi_block_count(&block->base, WHARF_SPACE_DEVICE, 1);
    *out = &block->base;
    return WHARF_OK;

undo_new:
    wi_free(block);
    return status;
}

/* Only a plain "not supported" or "not permitted" counts: whatever else goes
 * wrong now need not at the attach. */
static int ipc_try(const wi_cuda *cuda)
{
    CUdeviceptr at = 0;
    CUipcMemHandle handle;
    wi_cuda_visit visit;
    int code;

    if (wi_cuda_enter(cuda, &visit) != WHARF_OK)
        return 0;
    code = WI_CU_CODE(cuMemAlloc, (&at, IPC_GRANULARITY));
    if (code == CUDA_SUCCESS) {
        code = WI_CU_CODE(cuIpcGetMemHandle, (&handle, at));
        WI_CU_BACK(cuMemFree, (at));
    }
    wi_cuda_leave(&visit);
    return code == CUDA_ERROR_NOT_SUPPORTED || code == CUDA_ERROR_NOT_PERMITTED
               ? code
               : 0;
}

bool wi_cuda_ipc_works(wi_cuda *cuda, char reason[96])
{
    char text[64];
    int refused;

    pthread_mutex_lock(&cuda->lock);
    if (!cuda->ipc_tried) {
        cuda->ipc_refused = ipc_try(cuda);
        cuda->ipc_tried = true;
    }
    refused = cuda->ipc_refused;
    pthread_mutex_unlock(&cuda->lock);
    if (refused == 0)
        return true;
    wi_driver_describe(refused, text, sizeof text);
    snprintf(reason, 96, "no legacy handles here: %s", text);
    return false;
}

static wharf_status ipc_protect(wi_device *device, wi_block *block,
                                wi_access access)
{
    (void)device;
    (void)block;
    if (access == WI_ACCESS_READ_WRITE)
        return WHARF_OK;
    return wi_fail(WHARF_EUNSUPPORTED, NULL,
                   "memory of legacy handles cannot be made read-only");
}

static wharf_status ipc_map(wi_device *device, wi_block *block, wi_range *range,
                            size_t offset, wi_access access, void **pointer)
{
    wharf_status status = ipc_protect(device, block, access);

    (void)range;
    (void)offset;
    if (status == WHARF_OK)
        *pointer = block->pointer;
    return status;
}

static void ipc_destroy(wi_device *device, wi_block *base)
{
    const ipc_block *block = (const ipc_block *)base;
    wi_cuda_visit visit;

    if (!base)
        return;
    bool here = wi_cuda_enter_back(wi_cuda_of(device), &visit);
    if (here && base->owned)
        WI_CU_BACK(cuMemFree, ((CUdeviceptr)base->pointer));
    else if (here)
        WI_CU_BACK(cuIpcCloseMemHandle, (block->open));
    wi_cuda_leave(&visit);
    wi_block_count(base, WHARF_SPACE_DEVICE, -1);
    wi_free(base);
}

const wi_memory_ops wi_memory_ipc = {
    .kind = WHARF_HANDLE_IPC,
    .space = WHARF_SPACE_DEVICE,
    .ranges = false,
    .pieces = 1,
    .granularity = ipc_granularity,
    .reserve = ipc_reserve,
    .unreserve = ipc_unreserve,
    .create = ipc_create,
    .export_ = ipc_export,
    .import = ipc_import,
    .map = ipc_map,
    .protect = ipc_protect,
    .destroy = ipc_destroy,
};
