/* SPDX-License-Identifier: MIT */
/*
 * Host memory that the GPU reaches too: the memfd memory of host_memory.c,
 * page-locked in each process that maps it, for all of its contexts. Pointers
 * are the same on the CPU and the GPU, or the kind is refused.
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "device/cuda_device.h"
#include "device/host_memory.h"

static wi_host_block *host_of(wi_block *block)
{
    return (wi_host_block *)block;
}

/* The driver says only that there is no memory; a limit of locked memory that
 * is too small is the commonest reason. */
static wharf_status lock_failed(int code, size_t bytes)
{
    struct rlimit limit;
    char text[112];

    if (code != CUDA_ERROR_OUT_OF_MEMORY && code != CUDA_ERROR_OPERATING_SYSTEM)
        return wi_driver_fail("cuMemHostRegister", code, "%zu bytes", bytes);
    wi_driver_describe(code, text, sizeof text);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
        return wi_fail_native(WHARF_ENOMEM, WHARF_SOURCE_CUDA, code,
                              "raise the limit of locked memory (ulimit -l)",
                              "cuMemHostRegister(%zu bytes, limit %llu): %s",
                              bytes, (unsigned long long)limit.rlim_cur, text);
    return wi_fail_native(WHARF_ENOMEM, WHARF_SOURCE_CUDA, code,
                          "ask for less host memory, or end other programs",
                          "cuMemHostRegister(%zu bytes): %s", bytes, text);
}

static wharf_status pointer_check(void *pointer)
{
    CUdeviceptr seen = 0;
    wharf_status status =
        WI_CU(cuMemHostGetDevicePointer, (&seen, pointer, 0), "%p", pointer);

    if (status != WHARF_OK || wi_cuda_pointer(seen) == pointer)
        return status;
    return wi_fail(WHARF_EUNSUPPORTED, NULL,
                   "the GPU sees host memory %p at %p: it has no address space "
                   "in common with the CPU",
                   pointer, wi_cuda_pointer(seen));
}

/* Page-locks a mapped block. */
static wharf_status block_lock(const wi_cuda *cuda, wi_host_block *block,
                               wi_access access)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    void *pointer = block->base.pointer;
    wi_cuda_visit visit;
    wharf_status status;
    int code;

    if (access == WI_ACCESS_READ)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    code = WI_CU_CODE(cuMemHostRegister, (pointer, block->base.bytes, flags));
    if (code != CUDA_SUCCESS) {
        status = lock_failed(code, block->base.bytes);
    } else {
        status = pointer_check(pointer);
        if (status != WHARF_OK)
            WI_CU_BACK(cuMemHostUnregister, (pointer));
    }
    wi_cuda_leave(&visit);
    block->locked = status == WHARF_OK;
    return status;
}

static void block_unlock(const wi_cuda *cuda, wi_host_block *block)
{
    wi_cuda_visit visit;

    if (!block->locked)
        return;
    if (wi_cuda_enter_back(cuda, &visit))
        WI_CU_BACK(cuMemHostUnregister, (block->base.pointer));
    wi_cuda_leave(&visit);
    block->locked = false;
}

/*
 * With what access pages are locked. The GPU's writes do not pass the CPU's
 * page tables, so memory that it may only read has to be locked as such; where
 * the device cannot, only the CPU is held off from writing.
 */
static wi_access lock_access(const wi_cuda *cuda, wi_access access)
{
    if (access == WI_ACCESS_READ && !cuda->read_only_host) {
        wi_log(WI_LOG_INFO,
               "read-only host memory: device %d (%s) cannot be held off from "
               "writing, only the CPU is",
               cuda->base.desc.ordinal, cuda->base.desc.name);
        return WI_ACCESS_READ_WRITE;
    }
    return access;
}

static size_t locked_granularity(wi_device *device)
{
    return wi_memory_host.granularity(device);
}

static wharf_status locked_reserve(wi_device *device, void *wish, size_t bytes,
                                   wi_range *range)
{
    return wi_memory_host.reserve(device, wish, bytes, range);
}

static void locked_unreserve(wi_device *device, wi_range *range)
{
    wi_memory_host.unreserve(device, range);
}

static wharf_status locked_create(wi_device *device, size_t bytes,
                                  size_t chunk_bytes, wi_block **block)
{
    return wi_memory_host.create(device, bytes, chunk_bytes, block);
}

static wharf_status locked_export(wi_device *device, wi_block *block,
                                  wi_handle *handle, int *fds)
{
    return wi_memory_host.export_(device, block, handle, fds);
}

static wharf_status locked_import(wi_device *device, const wi_handle *handle,
                                  const int *fds, wi_block **block)
{
    return wi_memory_host.import(device, handle, fds, block);
}

/* A guest's descriptor may be for reading alone (core/offer.c). */
static bool for_reading_alone(const wi_host_block *block)
{
    int mode = fcntl(block->fd, F_GETFL);

    return mode >= 0 && (mode & O_ACCMODE) == O_RDONLY;
}

/* Pages that cannot be written to are locked by some devices and systems only.
 * Without the lock kernels do not reach them, but the CPU does, which is what a
 * guest that looks at host memory needs. */
static wharf_status lock_for_reading(const wi_cuda *cuda, wi_host_block *block)
{
    if (cuda->read_only_host &&
        block_lock(cuda, block, WI_ACCESS_READ) == WHARF_OK)
        return WHARF_OK;
    wi_log(WI_LOG_INFO,
           "read-only host memory: device %d (%s) cannot page-lock it, so only "
           "the CPU reads it here",
           cuda->base.desc.ordinal, cuda->base.desc.name);
    return WHARF_OK;
}

/* What was done is undone by destroy, after a failure as well. */
static wharf_status locked_map(wi_device *device, wi_block *block,
                               wi_range *range, size_t offset, wi_access access,
                               void **pointer)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    bool alone = access == WI_ACCESS_READ && for_reading_alone(host_of(block));
    wi_access lock = alone ? access : lock_access(cuda, access);
    void *got = NULL;
    int64_t began = wi_now_ns(), mapped;
    wharf_status status =
        wi_memory_host.map(device, block, range, offset, lock, &got);

    mapped = wi_now_ns();
    if (status == WHARF_OK)
        status = alone ? lock_for_reading(cuda, host_of(block))
                       : block_lock(cuda, host_of(block), lock);
    wi_log(WI_LOG_DEBUG,
           "%zu bytes of host memory in us: mapped %lld, page-locked%s %lld",
           block->bytes, (long long)(mapped - began) / 1000,
           block->owned ? " and zeroed" : "",
           (long long)(wi_now_ns() - mapped) / 1000);
    if (status == WHARF_OK && access != lock)
        status = wi_memory_host.protect(device, block, access);
    if (status == WHARF_OK)
        *pointer = got;
    return status;
}

/* Locked pages keep the access that they were locked with. */
static wharf_status relock(wi_device *device, wi_block *base, wi_access access)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wharf_status status;

    block_unlock(cuda, host_of(base));
    status = wi_memory_host.protect(device, base, access);
    if (status == WHARF_OK)
        status = block_lock(cuda, host_of(base), access);
    return status;
}

/* On failure the block is as it was or, if not even that can be had, out of
 * the GPU's reach. */
static wharf_status locked_protect(wi_device *device, wi_block *base,
                                   wi_access access)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_access before =
        access == WI_ACCESS_READ ? WI_ACCESS_READ_WRITE : WI_ACCESS_READ;
    wharf_status status;

    if (!cuda->read_only_host) {
        (void)lock_access(cuda, access); /* says so */
        return wi_memory_host.protect(device, base, access);
    }
    status = relock(device, base, access);
    if (status != WHARF_OK) {
        wharf_error cause = *wi_error_record();

        wharf_ignore(relock(device, base, before));
        *wi_error_record() = cause;
    }
    return status;
}

static void locked_destroy(wi_device *device, wi_block *block)
{
    if (!block)
        return;
    block_unlock(wi_cuda_of(device), host_of(block));
    wi_memory_host.destroy(device, block);
}

const wi_memory_ops wi_memory_host_cuda = {
    .kind = WHARF_HANDLE_MEMFD,
    .space = WHARF_SPACE_HOST,
    .ranges = true,
    .pieces = 1,
    .granularity = locked_granularity,
    .reserve = locked_reserve,
    .unreserve = locked_unreserve,
    .create = locked_create,
    .export_ = locked_export,
    .import = locked_import,
    .map = locked_map,
    .protect = locked_protect,
    .destroy = locked_destroy,
};
