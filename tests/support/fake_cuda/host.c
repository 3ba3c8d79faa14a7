/* SPDX-License-Identifier: MIT */
/*
 * Entry points: page-locked host memory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "fake.h"

void *fc_host_pages(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

void fc_host_unpages(void *at, uint64_t bytes)
{
    munmap(at, bytes);
}

CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!pp || !bytes || flags & ~7u)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    void *at = fc_host_pages(bytes);
    if (!at)
        return fc_end(CUDA_ERROR_OUT_OF_MEMORY);
    fc_region region = {.kind = FC_R_HOST,
                        .va = (uintptr_t)at,
                        .bytes = bytes,
                        .phys = -1,
                        .ctx = ctx->handle,
                        .flags = flags};
    fc_region_add(&region);
    fc_live(FC_L_HOST_ALLOCATION, 1);
    *pp = at;
    return fc_end(r);
}

CUresult cuMemAllocHost(void **pp, size_t bytes)
{
    return cuMemHostAlloc(pp, bytes, 0);
}

CUresult cuMemFreeHost(void *p)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *found = fc_region_at((uintptr_t)p);
    if (!found || found->kind != FC_R_HOST || found->va != (uintptr_t)p) {
        fc_violate("%s: %p is no live host allocation", __func__, p);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    r = fc_ctx_drain(ctx); /* the lock is open meanwhile */
    found = fc_region_at((uintptr_t)p);
    if (r != CUDA_SUCCESS || !found)
        return fc_end(r);
    fc_region_drop(found);
    fc_live(FC_L_HOST_ALLOCATION, -1);
    return fc_end(r);
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    fc_ctx *ctx;
    uint64_t va = (uintptr_t)p;
    struct rlimit limit;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!p || !bytes || flags & ~0xfu)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (fc.config.caps & FC_CAP_NO_MAP_HOST ||
        flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    if (fc_va_is_device(va))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (fc.config.caps & FC_CAP_MEMLOCK &&
        getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < bytes)
        return fc_end(CUDA_ERROR_OUT_OF_MEMORY);
    fc_region *next = fc_region_next(va);
    if (next && next->va < va + bytes)
        return fc_end(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    fc_region region = {.kind = FC_R_REG,
                        .va = va,
                        .bytes = bytes,
                        .phys = -1,
                        .ctx = ctx->handle,
                        .flags = flags};
    fc_region_add(&region);
    fc_live(FC_L_HOST_REGISTRATION, 1);
    return fc_end(r);
}

CUresult cuMemHostUnregister(void *p)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *found = fc_region_at((uintptr_t)p);
    if (!found || found->kind != FC_R_REG || found->va != (uintptr_t)p) {
        fc_violate("%s: %p is not registered", __func__, p);
        return fc_end(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    }
    r = fc_ctx_drain(ctx); /* the lock is open meanwhile */
    found = fc_region_at((uintptr_t)p);
    if (r != CUDA_SUCCESS || !found)
        return fc_end(r);
    fc_region_drop(found);
    fc_live(FC_L_HOST_REGISTRATION, -1);
    return fc_end(r);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *dptr, void *p,
                                   unsigned int flags)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *found = fc_region_at((uintptr_t)p);
    if (!dptr || flags || !found || found->phys >= 0)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (fc.config.caps & FC_CAP_NO_MAP_HOST)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    *dptr = (uintptr_t)p;
    return fc_end(r);
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *found = fc_region_at((uintptr_t)p);
    if (!flags || !found || found->phys >= 0)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    *flags = found->flags;
    return fc_end(r);
}
