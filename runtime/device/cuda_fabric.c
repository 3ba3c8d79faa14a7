/* SPDX-License-Identifier: MIT */
/*
 * Memory in physical chunks whose handles are plain bytes: fabric handles. They
 * need no descriptor to be passed, and reach other hosts of one memory domain
 * (GPUs whose NVLinks meet in one fabric).
 *
 * Whether they work no attribute tells: it says yes where the process has no
 * channel of the system's import/export service, and then memory cannot be
 * created (H200, driver 580). So they are tried, once a device: created,
 * exported, imported. What only another process's import would show is found
 * by the first attach, at the node's opening.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/cuda_vmm.h"

_Static_assert(sizeof(CUmemFabricHandle) * WI_FABRIC_PIECES ==
                   sizeof(((const wi_handle *)0)->opaque),
               "a block's fabric handles fill the seam's room");

/* ---- Trying ------------------------------------------------------------ */

/* A step that failed, in a few words: `what` and the driver's name for it. */
static int step_failed(const char *what, int code, char reason[96])
{
    const char *name = NULL;

    if (wi_driver.cuGetErrorName)
        wi_driver.cuGetErrorName((CUresult)code, &name);
    snprintf(reason, 96, "%s fails: %.40s (%d)%s", what,
             name ? name : "CUresult", code,
             code == CUDA_ERROR_NOT_PERMITTED ? ", no IMEX channel?" : "");
    return code;
}

/* One piece there and back; 0, or the driver's code with the reason filled. */
static int round_trip(size_t bytes, const CUmemAllocationProp *prop,
                      char reason[96])
{
    CUmemGenericAllocationHandle made = 0, came = 0;
    CUmemFabricHandle shown;
    int code = WI_CU_CODE(cuMemCreate, (&made, bytes, prop, 0));

    if (code != CUDA_SUCCESS)
        return step_failed("creating", code, reason);
    memset(&shown, 0, sizeof shown);
    code = WI_CU_CODE(cuMemExportToShareableHandle,
                      (&shown, made, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    if (code != CUDA_SUCCESS) {
        step_failed("exporting", code, reason);
        goto undo_made;
    }
    code = WI_CU_CODE(cuMemImportFromShareableHandle,
                      (&came, &shown, CU_MEM_HANDLE_TYPE_FABRIC));
    if (code != CUDA_SUCCESS)
        step_failed("importing", code, reason);
    else
        WI_CU_BACK(cuMemRelease, (came));
undo_made:
    WI_CU_BACK(cuMemRelease, (made));
    return code;
}

/* The context is current. */
static void fabric_try(wi_cuda *cuda)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->device}};
    size_t granularity = 0;
    wharf_status status = wi_cuda_granularity(&prop, &granularity);

    if (status != WHARF_OK)
        snprintf(cuda->fabric_refused, sizeof cuda->fabric_refused, "%.95s",
                 wi_error_record()->cause);
    else if (round_trip(granularity, &prop, cuda->fabric_refused) ==
             CUDA_SUCCESS)
        cuda->fabric_granularity = granularity;
}

bool wi_cuda_fabric_works(wi_cuda *cuda, char reason[96])
{
    wi_cuda_visit visit;
    wharf_status status = WHARF_OK;

    pthread_mutex_lock(&cuda->lock);
    if (!cuda->fabric_tried) {
        status = wi_cuda_enter(cuda, &visit);
        if (status == WHARF_OK) {
            fabric_try(cuda);
            wi_cuda_leave(&visit);
            cuda->fabric_tried = true;
        } else {
            snprintf(reason, 96, "%.95s", wi_error_record()->cause);
        }
    }
    pthread_mutex_unlock(&cuda->lock);
    if (status == WHARF_OK && !cuda->fabric_granularity)
        memcpy(reason, cuda->fabric_refused, sizeof cuda->fabric_refused);
    return status == WHARF_OK && cuda->fabric_granularity;
}

/* ---- The kind ---------------------------------------------------------- */

static size_t fabric_granularity(wi_device *device)
{
    return wi_cuda_of(device)->fabric_granularity;
}

static wharf_status fabric_reserve(wi_device *device, void *wish, size_t bytes,
                                   wi_range *range)
{
    return wi_vmm_reserve(device, fabric_granularity(device), wish, bytes,
                          range);
}

/* No more pieces than the handle has room for: they grow instead. */
static wharf_status fabric_create(wi_device *device, size_t bytes,
                                  size_t chunk_bytes, wi_block **out)
{
    size_t unit = fabric_granularity(device);
    size_t least = bytes / WI_FABRIC_PIECES + (bytes % WI_FABRIC_PIECES != 0);

    least = (least + unit - 1) / unit * unit;
    if (chunk_bytes != 0 && chunk_bytes < least)
        chunk_bytes = least;
    return wi_vmm_create(device, WHARF_HANDLE_FABRIC, unit, bytes, chunk_bytes,
                         out);
}

static CUmemFabricHandle *piece_of(unsigned char *opaque, int piece)
{
    return (CUmemFabricHandle *)(opaque +
                                 (size_t)piece * sizeof(CUmemFabricHandle));
}

static wharf_status fabric_export(wi_device *device, wi_block *base,
                                  wi_handle *handle, int *fds)
{
    const wi_vmm_block *block = wi_vmm_of(base);
    wi_handle made = {.kind = WHARF_HANDLE_FABRIC,
                      .bytes = base->bytes,
                      .chunk_bytes = block->chunk_bytes};
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(wi_cuda_of(device), &visit);

    (void)fds;
    if (status != WHARF_OK)
        return status;
    for (int i = 0; i < block->chunks && status == WHARF_OK; i++)
        status = WI_CU(cuMemExportToShareableHandle,
                       (piece_of(made.opaque, i), block->handles[i],
                        CU_MEM_HANDLE_TYPE_FABRIC, 0),
                       "fabric, piece %d of %d", i + 1, block->chunks);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        *handle = made;
    return status;
}

static wharf_status pieces_import(wi_vmm_block *block, const wi_handle *handle,
                                  int count)
{
    wi_handle shown = *handle;

    while (block->chunks < count) {
        int i = block->chunks;
        wharf_status status =
            WI_CU(cuMemImportFromShareableHandle,
                  (&block->handles[i], piece_of(shown.opaque, i),
                   CU_MEM_HANDLE_TYPE_FABRIC),
                  "fabric, piece %d of %d, %zu bytes", i + 1, count,
                  wi_vmm_chunk_size(block, i));

        if (status != WHARF_OK)
            return status;
        block->chunks++;
    }
    return WHARF_OK;
}

static wharf_status fabric_import(wi_device *device, const wi_handle *handle,
                                  const int *fds, wi_block **out)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    int count = 0;
    wharf_status status = wi_handle_plain_valid(handle, WHARF_HANDLE_FABRIC,
                                                WI_FABRIC_PIECES, &count);
    wi_cuda_visit visit;
    wi_vmm_block *block;

    (void)fds;
    if (status != WHARF_OK)
        return status;
    block = wi_vmm_new(WHARF_HANDLE_FABRIC, handle->bytes, false);
    if (!block)
        return WHARF_ENOMEM;
    block->chunk_bytes = handle->chunk_bytes;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_new;
    status = pieces_import(block, handle, count);
    if (status != WHARF_OK)
        wi_vmm_release(block);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_new;
    wi_block_count(&block->base, WHARF_SPACE_DEVICE, 1);
    *out = &block->base;
    return WHARF_OK;

undo_new:
    wi_free(block);
    return status;
}

const wi_memory_ops wi_memory_fabric = {
    .kind = WHARF_HANDLE_FABRIC,
    .space = WHARF_SPACE_DEVICE,
    .ranges = true,
    .pieces = WI_FABRIC_PIECES,
    .granularity = fabric_granularity,
    .reserve = fabric_reserve,
    .unreserve = wi_vmm_unreserve,
    .create = fabric_create,
    .export_ = fabric_export,
    .import = fabric_import,
    .map = wi_vmm_map,
    .protect = wi_vmm_protect,
    .destroy = wi_vmm_destroy,
};
