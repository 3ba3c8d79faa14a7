/* SPDX-License-Identifier: MIT */
/*
 * Entry points: plain device memory. Allocations under 1 MiB share blocks of
 * 2 MiB, as they do with the real driver, so that a handle for one of them
 * opens its neighbours too.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define UNITS (FC_BLOCK / FC_UNIT)

static CUresult region_new(fc_ctx *ctx, uint64_t bytes, fc_region **made)
{
    fc_header wanted;
    fc_phys *mem;

    memset(&wanted, 0, sizeof wanted);
    wanted.bytes = bytes;
    wanted.legacy = 1;
    wanted.location = CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult r = fc_phys_new(ctx->phys, &wanted, &mem);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t va = fc_range_take(0, (bytes + 4095) & ~(uint64_t)4095, 0, false);
    if (!va) {
        fc_phys_unref(mem);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fc_region region = {.kind = FC_R_ALLOC,
                        .va = va,
                        .bytes = bytes,
                        .mem = mem,
                        .phys = ctx->phys,
                        .ctx = ctx->handle};
    *made = fc_region_add(&region);
    return CUDA_SUCCESS;
}

static void sub_set(fc_region *r, uint64_t unit, uint64_t serial)
{
    fc_phys_lock(r->mem->header);
    r->mem->header->sub[unit] = serial;
    fc_phys_unlock(r->mem->header);
}

/* First place in the block for that many units, or UNITS. */
static uint64_t block_gap(const fc_region *r, uint64_t units)
{
    uint64_t run = 0;

    for (uint64_t i = 0; i < UNITS; i++) {
        run = r->units[i] ? 0 : run + 1;
        if (run == units)
            return i + 1 - units;
    }
    return UNITS;
}

static CUresult small_alloc(fc_ctx *ctx, uint64_t bytes, uint64_t *va)
{
    uint64_t units = (bytes + FC_UNIT - 1) / FC_UNIT, at = UNITS;
    fc_region *r = NULL;

    for (size_t i = 0; i < fc_region_count() && at == UNITS; i++) {
        r = fc_region_nth(i);
        if (r->kind == FC_R_ALLOC && r->units && r->ctx == ctx->handle)
            at = block_gap(r, units);
    }
    if (at == UNITS) {
        CUresult e = region_new(ctx, FC_BLOCK, &r);

        if (e != CUDA_SUCCESS)
            return e;
        r->units = fc_zalloc(UNITS * sizeof *r->units);
        at = 0;
    }
    r->units[at] = (uint32_t)bytes;
    for (uint64_t i = 1; i < units; i++)
        r->units[at + i] = UINT32_MAX;
    sub_set(r, at, fc_random64() | 1);
    memset(r->mem->data + at * FC_UNIT, 0xfa, units * FC_UNIT);
    *va = r->va + at * FC_UNIT;
    return CUDA_SUCCESS;
}

static CUresult alloc_locked(fc_ctx *ctx, uint64_t bytes, uint64_t *va)
{
    fc_region *r;
    CUresult e;

    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes < FC_SMALL) {
        e = small_alloc(ctx, bytes, va);
    } else {
        e = region_new(ctx, bytes, &r);
        if (e == CUDA_SUCCESS) {
            sub_set(r, 0, fc_random64() | 1);
            *va = r->va;
        }
    }
    if (e == CUDA_SUCCESS)
        fc_live(FC_L_ALLOCATION, 1);
    return e;
}

CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytes)
{
    fc_ctx *ctx;
    uint64_t va;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = alloc_locked(ctx, bytes, &va);
    if (r == CUDA_SUCCESS)
        *dptr = va;
    return fc_end(r);
}

CUresult cuMemAllocPitch(CUdeviceptr *dptr, size_t *pitch, size_t width,
                         size_t height, unsigned int element)
{
    size_t p = (width + 511) / 512 * 512;

    (void)element;
    if (!pitch || !width || !height)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = cuMemAlloc(dptr, p * height);
    if (r == CUDA_SUCCESS)
        *pitch = p;
    return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr || !bytes || !flags)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    void *at = fc_host_pages(bytes);
    if (!at)
        return fc_end(CUDA_ERROR_OUT_OF_MEMORY);
    fc_region region = {.kind = FC_R_MANAGED,
                        .va = (uintptr_t)at,
                        .bytes = bytes,
                        .phys = -1,
                        .ctx = ctx->handle};
    fc_region_add(&region);
    fc_live(FC_L_ALLOCATION, 1);
    *dptr = (uintptr_t)at;
    return fc_end(r);
}

void fc_region_drop(fc_region *r)
{
    fc_phys *mem = r->mem;
    uint64_t va = r->va, bytes = r->bytes;
    fc_region_kind kind = r->kind;

    fc_region_remove(va);
    if (kind == FC_R_MANAGED || kind == FC_R_HOST)
        fc_host_unpages((void *)(uintptr_t)va, bytes);
    else if (kind != FC_R_REG && kind != FC_R_VMM)
        fc_range_give(va);
    if (mem)
        fc_phys_unref(mem);
}

/* The allocation in r that starts at base goes. */
static void alloc_drop(fc_region *r, uint64_t base)
{
    uint64_t unit = (base - r->va) / FC_UNIT;

    if (r->mem) {
        int pid = 0;
        uint64_t serial = r->mem->header->sub[unit];

        if (fc_phys_open_elsewhere(r->mem->header, serial, &pid))
            fc_violate("cuMemFree: process %d still has 0x%llx open", pid,
                       (unsigned long long)base);
        sub_set(r, unit, 0);
    }
    fc_live(FC_L_ALLOCATION, -1);
    if (!r->units) {
        fc_region_drop(r);
        return;
    }
    do
        r->units[unit++] = 0;
    while (unit < UNITS && r->units[unit] == UINT32_MAX);
    for (unit = 0; unit < UNITS; unit++)
        if (r->units[unit])
            return;
    fc_region_drop(r);
}

static CUresult free_locked(fc_ctx *ctx, uint64_t va)
{
    uint64_t base, bytes;
    fc_region *r = fc_region_at(va);

    if (r && r->kind == FC_R_POOL && r->va == va) {
        CUresult e = fc_ctx_drain(ctx);

        if (e == CUDA_SUCCESS)
            fc_pool_free_locked(va);
        return e;
    }
    if (!r || (r->kind != FC_R_ALLOC && r->kind != FC_R_MANAGED) ||
        !fc_region_extent(r, va, &base, &bytes) || base != va) {
        fc_violate("cuMemFree: 0x%llx is no live allocation%s",
                   (unsigned long long)va,
                   r && r->kind == FC_R_IPC ? ", but an open handle" : "");
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* The driver lets queued work finish first. The lock is open meanwhile. */
    fc_ctx *owner = fc_handle_peek(FC_K_CTX, r->ctx);
    CUresult e = fc_ctx_drain(owner ? owner : ctx);
    if (e != CUDA_SUCCESS)
        return e;
    r = fc_region_at(va);
    if (r)
        alloc_drop(r, va);
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr dptr)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr)
        return fc_end(CUDA_SUCCESS);
    return fc_end(free_locked(ctx, dptr));
}

CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    uint64_t used = fc_ledger_used(ctx->phys);
    if (total)
        *total = fc.config.memory;
    if (available)
        *available = used < fc.config.memory ? fc.config.memory - used : 0;
    return fc_end(r);
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    uint64_t start, bytes;
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *found = fc_region_at(dptr);
    if (!found || !fc_region_extent(found, dptr, &start, &bytes))
        return fc_end(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = start;
    if (size)
        *size = bytes;
    return fc_end(r);
}
