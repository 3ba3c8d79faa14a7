/* SPDX-License-Identifier: MIT */
/*
 * Entry points: stream-ordered allocation and its pools, as far as a library
 * needs them that is handed such memory. An allocation is good at once; freeing
 * waits its turn in the stream. How they get to other processes is in
 * pool_ipc.c.
 */
#include <stdlib.h>
#include <string.h>

#include "pool.h"

static fc_pool *standard_pools[FC_MAX_DEVICES];

fc_pool *fc_pool_new(int phys, bool standard, unsigned handles)
{
    fc_pool *p = fc_zalloc(sizeof *p);

    p->phys = phys;
    p->standard = standard;
    p->handles = handles;
    p->handle = fc_handle_new(FC_K_POOL, p);
    if (!standard)
        fc_live(FC_L_POOL, 1);
    return p;
}

static fc_pool *pool_standard(int phys)
{
    if (!standard_pools[phys])
        standard_pools[phys] = fc_pool_new(phys, true, 0);
    return standard_pools[phys];
}

CUresult fc_pool_begin(const char *call, CUmemoryPool handle, fc_pool **p)
{
    void *found;
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (fc.config.caps & FC_CAP_NO_POOLS)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    r = fc_handle_get(FC_K_POOL, (uintptr_t)handle, call, &found);
    *p = found;
    return r == CUDA_SUCCESS ? r : fc_end(r);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (dev < 0 || dev >= fc.visible_count)
        return fc_end(CUDA_ERROR_INVALID_DEVICE);
    if (fc.config.caps & FC_CAP_NO_POOLS)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    *out = (CUmemoryPool)(uintptr_t)pool_standard(fc.visible[dev])->handle;
    return fc_end(r);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
    return cuDeviceGetDefaultMemPool(out, dev);
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (fc.config.caps & FC_CAP_NO_POOLS)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        props->location.id < 0 || props->location.id >= fc.visible_count)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    fc_pool *p = fc_pool_new(fc.visible[props->location.id], false,
                             (unsigned)props->handleTypes);
    *out = (CUmemoryPool)(uintptr_t)p->handle;
    return fc_end(r);
}

static uint64_t pool_used(const fc_pool *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < fc_region_count(); i++) {
        const fc_region *r = fc_region_nth(i);

        if (r->kind == FC_R_POOL && r->pool == p->handle)
            sum += r->bytes;
    }
    return sum;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    if (r != CUDA_SUCCESS)
        return r;
    if (p->standard)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (p->imported && pool_used(p) > 0)
        fc_violate("%s: memory of an imported pool is still open", __func__);
    fc_handle_free(p->handle, false);
    fc_live(FC_L_POOL, -1);
    free(p);
    return fc_end(r);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    (void)keep;
    return r == CUDA_SUCCESS ? fc_end(r) : r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute which,
                               void *value)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    if (r != CUDA_SUCCESS)
        return r;
    if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        memcpy(&p->threshold, value, sizeof p->threshold);
    return fc_end(r);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute which,
                               void *value)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);
    uint64_t wide;
    int narrow = 1;

    if (r != CUDA_SUCCESS)
        return r;
    switch (which) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(value, &p->threshold, sizeof p->threshold);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        wide = pool_used(p);
        memcpy(value, &wide, sizeof wide);
        break;
    default:
        memcpy(value, &narrow, sizeof narrow);
        break;
    }
    return fc_end(r);
}

static void access_set(const fc_pool *p)
{
    for (size_t i = 0; i < fc_region_count(); i++) {
        fc_region *r = fc_region_nth(i);

        if (r->kind == FC_R_POOL && r->pool == p->handle)
            r->readers = p->access;
    }
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *list,
                            size_t count)
{
    fc_pool *p;
    CUresult r = fc_pool_begin(__func__, handle, &p);

    if (r != CUDA_SUCCESS)
        return r;
    for (size_t i = 0; i < count; i++) {
        int id = list[i].location.id;

        if (list[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || id < 0 ||
            id >= fc.visible_count)
            return fc_end(CUDA_ERROR_INVALID_VALUE);
        uint64_t bit = 1ull << fc.visible[id];
        if (fc.visible[id] != p->phys && !(fc.device[p->phys].peers & bit))
            return fc_end(CUDA_ERROR_INVALID_DEVICE);
        p->access &= ~bit;
        if (list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            p->access |= bit;
    }
    access_set(p);
    return fc_end(r);
}

/* ---- Allocations -------------------------------------------------------- */

static CUresult alloc_from(const fc_pool *p, size_t bytes, uint64_t *out)
{
    fc_header wanted;
    fc_phys *mem;

    if (p->imported)
        return CUDA_ERROR_INVALID_VALUE; /* gives no memory of its own */
    memset(&wanted, 0, sizeof wanted);
    wanted.bytes = (bytes + 4095) & ~(size_t)4095;
    wanted.pool = 1;
    wanted.handles = p->handles;
    wanted.location = CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult r = fc_phys_new(p->phys, &wanted, &mem);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t va = fc_range_take(0, wanted.bytes, 0, false);
    if (!va) {
        fc_phys_unref(mem);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fc_region region = {.kind = FC_R_POOL,
                        .va = va,
                        .bytes = bytes,
                        .mem = mem,
                        .phys = p->phys,
                        .readers = p->access,
                        .pool = p->handle};
    fc_region_add(&region);
    fc_live(FC_L_ALLOCATION, 1);
    *out = va;
    return CUDA_SUCCESS;
}

static CUresult alloc_async(const char *call, CUdeviceptr *out, size_t bytes,
                            CUmemoryPool handle, CUstream stream)
{
    fc_ctx *ctx;
    fc_stream *s;
    void *p = NULL;
    uint64_t va;
    CUresult r = fc_begin(call, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (fc.config.caps & FC_CAP_NO_POOLS)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    r = fc_stream_mine(call, stream, ctx, &s);
    if (r == CUDA_SUCCESS && s->capture)
        r = CUDA_ERROR_NOT_SUPPORTED; /* no memory nodes */
    if (r == CUDA_SUCCESS && handle)
        r = fc_handle_get(FC_K_POOL, (uintptr_t)handle, call, &p);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    if (!out || !bytes)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = alloc_from(p ? p : pool_standard(ctx->phys), bytes, &va);
    if (r == CUDA_SUCCESS)
        *out = va;
    return fc_end(r);
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return alloc_async(__func__, out, bytes, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes,
                                 CUmemoryPool handle, CUstream stream)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_async(__func__, out, bytes, handle, stream);
}

void fc_pool_free_locked(uint64_t va)
{
    fc_region *r = fc_region_at(va);

    if (!r || r->kind != FC_R_POOL || r->va != va) {
        fc_violate("cuMemFreeAsync: 0x%llx was freed twice",
                   (unsigned long long)va);
        return;
    }
    int pid = 0;
    if (r->mem->creator && fc_phys_open_elsewhere(r->mem->header, 0, &pid))
        fc_violate("cuMemFree(Async): process %d still has 0x%llx open", pid,
                   (unsigned long long)va);
    fc_region_drop(r);
    fc_live(FC_L_ALLOCATION, -1);
}

void fc_pool_free_now(uint64_t va)
{
    pthread_mutex_lock(&fc.lock);
    fc_pool_free_locked(va);
    pthread_mutex_unlock(&fc.lock);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    fc_ctx *ctx;
    fc_stream *s;
    CUresult r = fc_begin(__func__, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_mine(__func__, stream, ctx, &s);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    fc_region *region = fc_region_at(dptr);
    if (!region || region->kind != FC_R_POOL || region->va != dptr) {
        fc_violate("%s: 0x%llx is no live pool allocation", __func__, dptr);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    fc_op *op = fc_op_new(FC_OP_FREE, ctx->phys);
    op->u.va = dptr;
    return fc_end(fc_submit(s, op));
}
