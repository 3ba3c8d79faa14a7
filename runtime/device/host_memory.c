/* SPDX-License-Identifier: MIT */
/*
 * Shared host memory: one memfd a block, mapped by all. Nothing has a name, so
 * nothing is left behind by a killed job.
 *
 * The pages come with the first touch, which puts them on the NUMA node of the
 * rank that uses them. Taking them at once (fallocate) would put all of them
 * on the owner's and cost some 200 ms a GiB; in its place wi_host_memory_fits
 * refuses what cannot be had.
 */
#include "device/host_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/sys.h"

static wi_host_block *host_of(wi_block *block)
{
    return (wi_host_block *)block;
}

static int access_prot(wi_access access)
{
    return access == WI_ACCESS_READ ? PROT_READ : PROT_READ | PROT_WRITE;
}

static size_t host_granularity(wi_device *device)
{
    (void)device;
    return (size_t)sysconf(_SC_PAGESIZE);
}

static wharf_status host_reserve(wi_device *device, void *wish, size_t bytes,
                                 wi_range *range)
{
    void *base = NULL;
    wharf_status status = wi_sys_reserve(wish, bytes, &base);

    (void)device;
    if (status != WHARF_OK)
        return status;
    range->base = base;
    range->bytes = bytes;
    return WHARF_OK;
}

static void host_unreserve(wi_device *device, wi_range *range)
{
    (void)device;
    if (!range || !range->base)
        return;
    wi_sys_unreserve(range->base, range->bytes);
    range->base = NULL;
    range->bytes = 0;
}

static wharf_status block_new(size_t bytes, bool owned, wi_host_block **block)
{
    wi_host_block *made;

    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    made->base.bytes = bytes;
    made->base.owned = owned;
    made->fd = -1;
    *block = made;
    return WHARF_OK;
}

static wharf_status host_create(wi_device *device, size_t bytes,
                                size_t chunk_bytes, wi_block **out)
{
    size_t page = host_granularity(device);
    wi_host_block *block;
    wharf_status status;

    (void)chunk_bytes; /* pages need no larger pieces */
    if (bytes == 0 || bytes % page != 0)
        return wi_fail(WHARF_EARG, NULL,
                       "a block of %zu bytes is no multiple of %zu", bytes,
                       page);
    status = wi_host_memory_fits(bytes);
    if (status != WHARF_OK)
        return status;
    status = block_new(bytes, true, &block);
    if (status != WHARF_OK)
        return status;
    status = wi_sys_memfd("wharf", bytes, &block->fd);
    if (status != WHARF_OK) {
        wi_free(block);
        return status;
    }
    wi_block_count(&block->base, WHARF_SPACE_HOST, 1);
    *out = &block->base;
    return WHARF_OK;
}

/* The caller gets a descriptor of its own to send and close. */
static wharf_status host_export(wi_device *device, wi_block *base,
                                wi_handle *handle, int *fds)
{
    int again;
    wharf_status status = wi_sys_duplicate(host_of(base)->fd, &again);

    (void)device;
    if (status != WHARF_OK)
        return status;
    memset(handle, 0, sizeof *handle);
    handle->kind = WHARF_HANDLE_MEMFD;
    handle->fds = 1;
    handle->bytes = base->bytes;
    handle->chunk_bytes = base->bytes;
    handle->opaque[0] = host_of(base)->large;
    fds[0] = again;
    return WHARF_OK;
}

/* A shorter file than announced would end in SIGBUS at some later access. */
static wharf_status memfd_check(int fd, const wi_handle *handle)
{
    struct stat stat;
    int code = 0;
    int result;

    if (wi_fault(WI_FAULT_SYS, "fstat", &code)) {
        errno = code;
        result = -1;
    } else {
        result = fstat(fd, &stat);
    }
    if (result != 0)
        return wi_fail_os(errno, NULL, "fstat of received descriptor %d", fd);
    if (!S_ISREG(stat.st_mode) || (uint64_t)stat.st_size < handle->bytes)
        return wi_fail(WHARF_EPROTOCOL, NULL,
                       "shared memory of %lld bytes was received in place of "
                       "%llu",
                       (long long)stat.st_size,
                       (unsigned long long)handle->bytes);
    return WHARF_OK;
}

static wharf_status host_import(wi_device *device, const wi_handle *handle,
                                const int *given, wi_block **out)
{
    wharf_status status = wi_handle_valid(handle, WHARF_HANDLE_MEMFD, 1);
    wi_host_block *block;
    int fd = handle->fds > 0 ? given[0] : -1;

    (void)device;
    if (status == WHARF_OK)
        status = memfd_check(fd, handle);
    if (status == WHARF_OK)
        status = block_new(handle->bytes, false, &block);
    if (status != WHARF_OK) {
        /* The rest only if the number of them is nonsense. */
        for (uint32_t i = 0; i < handle->fds && i < WI_BLOCK_CHUNKS; i++) {
            fd = given[i];
            wi_sys_close(&fd);
        }
        return status;
    }
    block->fd = fd;
    block->large = handle->opaque[0] == 1;
    wi_block_count(&block->base, WHARF_SPACE_HOST, 1);
    *out = &block->base;
    return WHARF_OK;
}

static wharf_status host_map(wi_device *device, wi_block *base, wi_range *range,
                             size_t offset, wi_access access, void **pointer)
{
    wi_host_block *block = host_of(base);
    void *got = NULL;
    wharf_status status =
        wi_sys_map(block->fd, 0, base->bytes, access_prot(access),
                   (char *)range->base + offset, &got);

    (void)device;
    if (status != WHARF_OK)
        return status;
    if (!base->owned)
        wi_sys_close(&block->fd);
    if (block->large) /* a wish: without it the pages are small */
        madvise(got, base->bytes, MADV_HUGEPAGE);
    base->pointer = got;
    *pointer = got;
    return WHARF_OK;
}

static wharf_status host_protect(wi_device *device, wi_block *base,
                                 wi_access access)
{
    (void)device;
    return wi_sys_protect(base->pointer, base->bytes, access_prot(access));
}

static void host_destroy(wi_device *device, wi_block *base)
{
    wi_host_block *block = host_of(base);

    (void)device;
    if (!base)
        return;
    if (base->pointer)
        wi_sys_unmap_fixed(base->pointer, base->bytes);
    wi_sys_close(&block->fd);
    wi_block_count(base, WHARF_SPACE_HOST, -1);
    wi_free(block);
}

const wi_memory_ops wi_memory_host = {
    .kind = WHARF_HANDLE_MEMFD,
    .space = WHARF_SPACE_HOST,
    .ranges = true,
    .pieces = 1,
    .granularity = host_granularity,
    .reserve = host_reserve,
    .unreserve = host_unreserve,
    .create = host_create,
    .export_ = host_export,
    .import = host_import,
    .map = host_map,
    .protect = host_protect,
    .destroy = host_destroy,
};
