/* SPDX-License-Identifier: MIT */
/*
 * Memory in physical chunks: created by the owner, exported as descriptors (or
 * as fabric handles, cuda_fabric.c), mapped by everybody into one reserved
 * address range. Memory of a GPU, or of the host: the driver makes the latter
 * page-locked, and two to three times faster than it locks pages of ours
 * (cuda_host.c; H200, driver 580).
 *
 * Chunks, because the driver takes some 17 ms to map a peer's physical piece
 * of 512 MiB or more and a tenth of a millisecond for a smaller one (driver
 * 580); access is set once for the whole block.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/sys.h"
#include "device/cuda_vmm.h"
#include "device/host_memory.h"
#include "device/numa.h"

size_t wi_vmm_chunk_size(const wi_vmm_block *block, int index)
{
    size_t start = (size_t)index * block->chunk_bytes;
    size_t left = block->base.bytes - start;

    return left < block->chunk_bytes ? left : block->chunk_bytes;
}

static wharf_space space_of(const wi_vmm_block *block)
{
    return wi_vmm_on_host(block) ? WHARF_SPACE_HOST : WHARF_SPACE_DEVICE;
}

/* Where a block's memory is. */
static CUmemLocation location_of(const wi_cuda *cuda, const wi_vmm_block *block)
{
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                            .id = cuda->device};
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
                          .id = block->numa};

    return wi_vmm_on_host(block) ? host : device;
}

wi_vmm_block *wi_vmm_new(wharf_handle_kind kind, size_t bytes, bool owned)
{
    wi_vmm_block *block;

    if (!WI_NEW(block))
        return NULL;
    block->base.bytes = bytes;
    block->base.owned = owned;
    block->kind = kind;
    return block;
}

void wi_vmm_release(const wi_vmm_block *block)
{
    for (int i = 0; i < block->chunks; i++)
        WI_CU_BACK(cuMemRelease, (block->handles[i]));
}

static size_t vmm_granularity(wi_device *device)
{
    return wi_cuda_of(device)->granularity;
}

/* ---- Addresses --------------------------------------------------------- */

static wharf_status address_taken(void *wish, size_t bytes)
{
    return wi_fail(WHARF_EUNSUPPORTED, NULL,
                   "%zu bytes at address %p are not free in this process",
                   bytes, wish);
}

/*
 * A taken address is no error to the driver (580): it takes the wish for a
 * hint and answers with another address. Others refuse it as a bad value.
 */
static wharf_status range_take(size_t unit, void *wish, size_t bytes,
                               void **base)
{
    CUdeviceptr got = 0;
    int code = WI_CU_CODE(cuMemAddressReserve,
                          (&got, bytes, unit, (CUdeviceptr)wish, 0));

    if (wish && code == CUDA_ERROR_INVALID_VALUE)
        return address_taken(wish, bytes);
    if (code != CUDA_SUCCESS)
        return wi_driver_fail("cuMemAddressReserve", code, "%zu bytes at %p",
                              bytes, wish);
    if (wish && wi_cuda_pointer(got) != wish) {
        WI_CU_BACK(cuMemAddressFree, (got, bytes));
        return address_taken(wish, bytes);
    }
    *base = wi_cuda_pointer(got);
    return WHARF_OK;
}

/* Driver 580 serves a small reservation out of a range that it has already and
 * ignores the address asked for (seen up to 16 MiB, not from 32 MiB). */
#define WISH_LEAST ((size_t)1 << 30)

wharf_status wi_vmm_reserve(wi_device *device, size_t unit, void *wish,
                            size_t bytes, wi_range *range)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status;
    void *base = NULL;

    bytes = (bytes + unit - 1) & ~(unit - 1);
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    status = range_take(unit, wish, bytes, &base);
    if (status == WHARF_EUNSUPPORTED && wish && bytes < WISH_LEAST) {
        bytes = WISH_LEAST;
        status = range_take(unit, wish, bytes, &base);
    }
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        return status;
    wi_stat_add(WI_STAT_live_ranges, 1);
    range->base = base;
    range->bytes = bytes;
    return WHARF_OK;
}

static wharf_status vmm_reserve(wi_device *device, void *wish, size_t bytes,
                                wi_range *range)
{
    return wi_vmm_reserve(device, wi_cuda_of(device)->granularity, wish, bytes,
                          range);
}

void wi_vmm_unreserve(wi_device *device, wi_range *range)
{
    wi_cuda_visit visit;

    if (!range || !range->base)
        return;
    wi_cuda_enter_back(wi_cuda_of(device), &visit);
    WI_CU_BACK(cuMemAddressFree, ((CUdeviceptr)range->base, range->bytes));
    wi_cuda_leave(&visit);
    wi_stat_add(WI_STAT_live_ranges, -1);
    range->base = NULL;
    range->bytes = 0;
}

/* ---- Physical memory --------------------------------------------------- */

static wharf_status chunks_create(const wi_cuda *cuda, wi_vmm_block *block,
                                  int count)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = block->kind == WHARF_HANDLE_FABRIC
                                    ? CU_MEM_HANDLE_TYPE_FABRIC
                                    : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = location_of(cuda, block)};

    while (block->chunks < count) {
        size_t bytes = wi_vmm_chunk_size(block, block->chunks);
        wharf_status status = WI_CU(
            cuMemCreate, (&block->handles[block->chunks], bytes, &prop, 0),
            "%zu bytes, piece %d of %d, %s %d", bytes, block->chunks + 1, count,
            wi_vmm_on_host(block) ? "NUMA node" : "device", prop.location.id);

        if (status != WHARF_OK)
            return status;
        block->chunks++;
    }
    return WHARF_OK;
}

wharf_status wi_vmm_create(wi_device *device, wharf_handle_kind kind,
                           size_t granularity, size_t bytes, size_t chunk_bytes,
                           wi_block **out)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wi_vmm_block *block;
    wharf_status status;
    int count;

    if (bytes == 0 || bytes % granularity != 0)
        return wi_fail(WHARF_EARG, NULL,
                       "a block of %zu bytes is no multiple of %zu", bytes,
                       granularity);
    block = wi_vmm_new(kind, bytes, true);
    if (!block)
        return WHARF_ENOMEM;
    block->numa = wi_vmm_on_host(block) ? wi_numa_system.here() : 0;
    wi_block_divide(bytes, chunk_bytes, granularity, &block->chunk_bytes,
                    &count);
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_new;
    status = chunks_create(cuda, block, count);
    if (status != WHARF_OK)
        wi_vmm_release(block);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_new;
    wi_block_count(&block->base, space_of(block), 1);
    *out = &block->base;
    return WHARF_OK;

undo_new:
    wi_free(block);
    return status;
}

static wharf_status vmm_create(wi_device *device, size_t bytes,
                               size_t chunk_bytes, wi_block **out)
{
    return wi_vmm_create(device, WHARF_HANDLE_VMM,
                         wi_cuda_of(device)->granularity, bytes, chunk_bytes,
                         out);
}

void wi_cuda_adopt(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    wi_sys_adopt(fd);
}

static wharf_status chunk_export(const wi_vmm_block *block, int index, int *fd)
{
    int got = -1;
    wharf_status status = WI_CU(cuMemExportToShareableHandle,
                                (&got, block->handles[index],
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                                "piece %d of %d", index + 1, block->chunks);

    if (status != WHARF_OK)
        return status;
    wi_cuda_adopt(got);
    *fd = got;
    return WHARF_OK;
}

static wharf_status vmm_export(wi_device *device, wi_block *base,
                               wi_handle *handle, int *fds)
{
    const wi_vmm_block *block = wi_vmm_of(base);
    wi_cuda_visit visit;
    int made[WI_BLOCK_CHUNKS];
    int count = 0;
    wharf_status status = wi_cuda_enter(wi_cuda_of(device), &visit);

    if (status != WHARF_OK)
        return status;
    while (count < block->chunks && status == WHARF_OK) {
        status = chunk_export(block, count, &made[count]);
        count += status == WHARF_OK;
    }
    wi_cuda_leave(&visit);
    if (status != WHARF_OK) {
        while (count > 0)
            wi_sys_close(&made[--count]);
        return status;
    }
    memset(handle, 0, sizeof *handle);
    handle->kind = (uint32_t)block->kind;
    memcpy(handle->opaque, &block->numa, sizeof block->numa);
    handle->fds = (uint32_t)count;
    handle->bytes = base->bytes;
    handle->chunk_bytes = block->chunk_bytes;
    memcpy(fds, made, (size_t)count * sizeof *fds);
    return WHARF_OK;
}

/* The driver takes a descriptor in place of a pointer, and none of its own:
 * each is closed as soon as its chunk is imported. */
static wharf_status chunks_import(wi_vmm_block *block, int count, int *fds)
{
    while (block->chunks < count) {
        int i = block->chunks;
        wharf_status status =
            WI_CU(cuMemImportFromShareableHandle,
                  (&block->handles[i], wi_cuda_pointer((CUdeviceptr)fds[i]),
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                  "piece %d of %d, %zu bytes", i + 1, count,
                  wi_vmm_chunk_size(block, i));

        if (status != WHARF_OK)
            return status;
        wi_sys_close(&fds[i]);
        block->chunks++;
    }
    return WHARF_OK;
}

static wharf_status import_at(wi_device *device, wharf_handle_kind kind,
                              const wi_handle *handle, const int *given,
                              wi_block **out)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wharf_status status = wi_handle_valid(handle, kind, WI_BLOCK_CHUNKS);
    wi_vmm_block *block = NULL;
    wi_cuda_visit visit;
    int fds[WI_BLOCK_CHUNKS];

    for (int i = 0; i < WI_BLOCK_CHUNKS; i++)
        fds[i] = i < (int)handle->fds ? given[i] : -1;
    if (status != WHARF_OK)
        goto undo_fds;
    block = wi_vmm_new(kind, handle->bytes, false);
    if (!block) {
        status = WHARF_ENOMEM;
        goto undo_fds;
    }
    memcpy(&block->numa, handle->opaque, sizeof block->numa);
    block->chunk_bytes = handle->chunk_bytes;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_fds;
    status = chunks_import(block, (int)handle->fds, fds);
    if (status != WHARF_OK)
        wi_vmm_release(block);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_fds;
    wi_block_count(&block->base, space_of(block), 1);
    *out = &block->base;
    return WHARF_OK;

undo_fds:
    for (int i = 0; i < WI_BLOCK_CHUNKS; i++)
        wi_sys_close(&fds[i]);
    wi_free(block);
    return status;
}

static wharf_status vmm_import(wi_device *device, const wi_handle *handle,
                               const int *given, wi_block **out)
{
    return import_at(device, WHARF_HANDLE_VMM, handle, given, out);
}

/* ---- Mappings ---------------------------------------------------------- */

static CUmemAccess_flags access_flags(wi_access access)
{
    return access == WI_ACCESS_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                    : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* The CPU is given more than the device where a driver knows no memory that the
 * CPU may only read. The kernel's protection then holds off what would be
 * written by mistake. */
static wharf_status access_set(const wi_cuda *cuda, const wi_vmm_block *block,
                               CUdeviceptr at, wi_access access)
{
    CUmemAccessDesc desc[] = {
        {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->device},
         .flags = access_flags(access)},
        {.location = location_of(cuda, block), .flags = access_flags(access)}};
    size_t count = wi_vmm_on_host(block) ? 2 : 1;
    int code = WI_CU_CODE(cuMemSetAccess, (at, block->base.bytes, desc, count));

    if (code != CUDA_SUCCESS && wi_vmm_on_host(block) &&
        access == WI_ACCESS_READ) {
        desc[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        code = WI_CU_CODE(cuMemSetAccess, (at, block->base.bytes, desc, count));
        if (code == CUDA_SUCCESS &&
            mprotect((void *)at, block->base.bytes, PROT_READ) != 0)
            wi_log(WI_LOG_WARN,
                   "the CPU can write %zu bytes that it was to "
                   "read only: mprotect: %s",
                   block->base.bytes, strerror(errno));
    }
    if (code == CUDA_SUCCESS)
        return WHARF_OK;
    return wi_driver_fail("cuMemSetAccess", code, "%s, %zu bytes for device %d",
                          access == WI_ACCESS_READ ? "read" : "read and write",
                          block->base.bytes, cuda->device);
}

static void chunks_unmap(const wi_vmm_block *block, CUdeviceptr at, int count)
{
    for (int i = 0; i < count; i++)
        WI_CU_BACK(cuMemUnmap, (at + (size_t)i * block->chunk_bytes,
                                wi_vmm_chunk_size(block, i)));
}

static wharf_status chunks_map(const wi_cuda *cuda, const wi_vmm_block *block,
                               CUdeviceptr at, wi_access access)
{
    wharf_status status = WHARF_OK;
    int mapped = 0;

    while (mapped < block->chunks && status == WHARF_OK) {
        size_t bytes = wi_vmm_chunk_size(block, mapped);

        status = WI_CU(cuMemMap,
                       (at + (size_t)mapped * block->chunk_bytes, bytes, 0,
                        block->handles[mapped], 0),
                       "%zu bytes, piece %d of %d", bytes, mapped + 1,
                       block->chunks);
        mapped += status == WHARF_OK;
    }
    if (status == WHARF_OK)
        status = access_set(cuda, block, at, access);
    if (status != WHARF_OK)
        chunks_unmap(block, at, mapped);
    return status;
}

wharf_status wi_vmm_map(wi_device *device, wi_block *base, wi_range *range,
                        size_t offset, wi_access access, void **pointer)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    void *at = (char *)range->base + offset;
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = chunks_map(cuda, wi_vmm_of(base), (CUdeviceptr)at, access);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        return status;
    base->pointer = at;
    *pointer = at;
    return WHARF_OK;
}

wharf_status wi_vmm_protect(wi_device *device, wi_block *base, wi_access access)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status =
        access_set(cuda, wi_vmm_of(base), (CUdeviceptr)base->pointer, access);
    wi_cuda_leave(&visit);
    return status;
}

void wi_vmm_destroy(wi_device *device, wi_block *base)
{
    wi_vmm_block *block = wi_vmm_of(base);
    wi_cuda_visit visit;

    if (!base)
        return;
    wi_cuda_enter_back(wi_cuda_of(device), &visit);
    if (base->pointer)
        chunks_unmap(block, (CUdeviceptr)base->pointer, block->chunks);
    wi_vmm_release(block);
    wi_cuda_leave(&visit);
    wi_block_count(base, space_of(block), -1);
    wi_free(block);
}

const wi_memory_ops wi_memory_vmm = {
    .kind = WHARF_HANDLE_VMM,
    .space = WHARF_SPACE_DEVICE,
    .ranges = true,
    .pieces = WI_BLOCK_CHUNKS,
    .granularity = vmm_granularity,
    .reserve = vmm_reserve,
    .unreserve = wi_vmm_unreserve,
    .create = vmm_create,
    .export_ = vmm_export,
    .import = vmm_import,
    .map = wi_vmm_map,
    .protect = wi_vmm_protect,
    .destroy = wi_vmm_destroy,
};

/* ---- Of the host ------------------------------------------------------- */

/* What the parts of an attach cost. */
static void part_log(const char *what, size_t bytes, int64_t began)
{
    wi_log(WI_LOG_DEBUG, "%zu bytes of the driver's host memory %s in %lld us",
           bytes, what, (long long)(wi_now_ns() - began) / 1000);
}

static size_t host_vmm_granularity(wi_device *device)
{
    return wi_cuda_of(device)->host_granularity;
}

/* Before the driver says that the GPU's memory is not enough. */
static wharf_status host_vmm_reserve(wi_device *device, void *wish,
                                     size_t bytes, wi_range *range)
{
    wharf_status status = wi_host_memory_fits(bytes);

    return status == WHARF_OK ? vmm_reserve(device, wish, bytes, range)
                              : status;
}

static wharf_status host_vmm_create(wi_device *device, size_t bytes,
                                    size_t chunk_bytes, wi_block **out)
{
    int64_t began = wi_now_ns();
    wharf_status status = wi_host_memory_fits(bytes);

    if (status == WHARF_OK)
        status = wi_vmm_create(device, WHARF_HANDLE_HOST_VMM,
                               wi_cuda_of(device)->host_granularity, bytes,
                               chunk_bytes, out);
    part_log("made", bytes, began);
    return status;
}

static wharf_status host_vmm_export(wi_device *device, wi_block *base,
                                    wi_handle *handle, int *fds)
{
    int64_t began = wi_now_ns();
    wharf_status status = vmm_export(device, base, handle, fds);

    part_log("exported", base->bytes, began);
    return status;
}

static wharf_status host_vmm_import(wi_device *device, const wi_handle *handle,
                                    const int *given, wi_block **out)
{
    int64_t began = wi_now_ns();
    wharf_status status =
        import_at(device, WHARF_HANDLE_HOST_VMM, handle, given, out);

    part_log("imported", handle->bytes, began);
    return status;
}

static wharf_status host_vmm_map(wi_device *device, wi_block *base,
                                 wi_range *range, size_t offset,
                                 wi_access access, void **pointer)
{
    int64_t began = wi_now_ns();
    wharf_status status =
        wi_vmm_map(device, base, range, offset, access, pointer);

    part_log("mapped", base->bytes, began);
    return status;
}

const wi_memory_ops wi_memory_host_vmm = {
    .kind = WHARF_HANDLE_HOST_VMM,
    .space = WHARF_SPACE_HOST,
    .ranges = true,
    .pieces = WI_BLOCK_CHUNKS,
    .granularity = host_vmm_granularity,
    .reserve = host_vmm_reserve,
    .unreserve = wi_vmm_unreserve,
    .create = host_vmm_create,
    .export_ = host_vmm_export,
    .import = host_vmm_import,
    .map = host_vmm_map,
    .protect = wi_vmm_protect,
    .destroy = wi_vmm_destroy,
};
