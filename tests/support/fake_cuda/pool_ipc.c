/* SPDX-License-Identifier: MIT */
/*
 * Entry points: pools and their allocations in other processes. A pool's
 * descriptor is a memfd that says whose it is; a pointer's data name the
 * allocation in its arena, by number, as a legacy handle does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool.h"

#define POOL_MAGIC 0x77686d706f6f6cu
#define POINTER_MAGIC 0x77686d70u

typedef struct pool_card {
    uint64_t magic;
    uint64_t cookie;
    uint64_t pool;
    int32_t phys;
    uint32_t handles;
} pool_card;

typedef struct pointer_data {
    uint32_t magic;
    int32_t pid;
    uint64_t cookie;
    uint64_t pool;
    uint64_t id; /* of the physical memory, first half */
    uint64_t place;
    uint64_t bytes;
    int32_t fd;
} pointer_data;

_Static_assert(sizeof(pointer_data) <= sizeof(CUmemPoolPtrExportData),
               "pointer data");

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(p->handles & (unsigned)type) || p->imported)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    pool_card card = {POOL_MAGIC, fc.cookie, p->handle, p->phys, p->handles};
    int fd = memfd_create("fake_pool", MFD_CLOEXEC);
    if (fd < 0)
        return fc_end(CUDA_ERROR_OPERATING_SYSTEM);
    if (write(fd, &card, sizeof card) != (ssize_t)sizeof card) {
        close(fd);
        return fc_end(CUDA_ERROR_OPERATING_SYSTEM);
    }
    memcpy(out, &fd, sizeof fd);
    p->shared = true;
    return fc_end(r);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    pool_card card;
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (fc.config.caps & FC_CAP_NO_POOLS)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread((int)(intptr_t)handle, &card, sizeof card, 0) !=
            (ssize_t)sizeof card ||
        card.magic != POOL_MAGIC)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (card.cookie == fc.cookie) {
        fc_violate("%s: in the exporting process", __func__);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    if (card.phys >= fc.config.gpus || fc.device[card.phys].denied)
        return fc_end(CUDA_ERROR_OPERATING_SYSTEM);
    fc_pool *p = fc_pool_new(card.phys, false, card.handles);
    p->imported = true;
    p->cookie = card.cookie;
    p->origin = card.pool;
    *out = (CUmemoryPool)(uintptr_t)p->handle;
    return fc_end(r);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr ptr)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *region = fc_region_at(ptr);
    if (!out || !region || region->kind != FC_R_POOL || region->va != ptr ||
        !region->mem->creator ||
        !(region->mem->header->handles &
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    void *pool;
    r = fc_handle_get(FC_K_POOL, region->pool, __func__, &pool);
    /* The driver refuses as long as the pool's descriptor was not asked for. */
    if (r == CUDA_SUCCESS && !((fc_pool *)pool)->shared)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    pointer_data data = {POINTER_MAGIC,
                         fc.pid,
                         fc.cookie,
                         region->pool,
                         region->mem->header->id[0],
                         region->mem->offset,
                         region->bytes,
                         fc_phys_arena_fd(region->phys)};
    memset(out, 0, sizeof *out);
    memcpy(out, &data, sizeof data);
    return fc_end(r);
}

static CUresult data_import(const pointer_data *data, fc_phys **mem)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", data->pid, data->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? CUDA_ERROR_OPERATING_SYSTEM
                                                  : CUDA_ERROR_INVALID_VALUE;
    CUresult r = fc_phys_import(fd, data->place, mem);
    close(fd);
    if (r == CUDA_SUCCESS &&
        ((*mem)->header->id[0] != data->id || !(*mem)->header->pool)) {
        fc_phys_unref(*mem);
        fc_violate("cuMemPoolImportPointer: the data are stale, the memory was "
                   "freed");
        r = CUDA_ERROR_INVALID_VALUE;
    }
    return r;
}

static bool have_already(const fc_phys *mem)
{
    for (size_t i = 0; i < fc_region_count(); i++)
        if (fc_region_nth(i)->mem == mem)
            return true;
    return false;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle,
                                CUmemPoolPtrExportData *from)
{
    pointer_data data;
    fc_phys *mem;
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&data, from, sizeof data);
    if (!out || !p->imported || data.magic != POINTER_MAGIC ||
        data.cookie != p->cookie || data.pool != p->origin)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = data_import(&data, &mem);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    if (have_already(mem)) {
        /* The documentation does not say what a driver makes of it. */
        fc_violate("%s: this process has the allocation already", __func__);
        fc_phys_unref(mem);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    uint64_t va =
        fc_range_take(0, (mem->bytes + 4095) & ~(uint64_t)4095, 0, false);
    if (!va) {
        fc_phys_unref(mem);
        return fc_end(CUDA_ERROR_OUT_OF_MEMORY);
    }
    fc_region region = {.kind = FC_R_POOL,
                        .va = va,
                        .bytes = data.bytes,
                        .mem = mem,
                        .phys = mem->phys,
                        .readers = p->access,
                        .pool = p->handle};
    fc_region_add(&region);
    fc_live(FC_L_ALLOCATION, 1);
    *out = va;
    return fc_end(r);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                            CUmemLocation *where)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    if (r != CUDA_SUCCESS)
        return r;
    if (!flags || !where || where->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        where->id < 0 || where->id >= fc.visible_count)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    int phys = fc.visible[where->id];
    *flags = phys == p->phys || p->access & 1ull << phys
                 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return fc_end(r);
}
