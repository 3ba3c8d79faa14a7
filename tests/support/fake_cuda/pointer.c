/* SPDX-License-Identifier: MIT */
/*
 * Entry points: what is known about a pointer.
 */
#include <string.h>

#include "fake.h"

static unsigned allowed_handles(const fc_region *r)
{
    if (r->kind == FC_R_VMM || r->kind == FC_R_POOL)
        return r->mem->header->handles;
    return 0;
}

static bool legacy_capable(const fc_region *r)
{
    return r->kind == FC_R_ALLOC && !(fc.config.caps & FC_CAP_NO_IPC);
}

static unsigned access_flags(const fc_region *r)
{
    fc_ctx *ctx = fc_ctx_current();
    uint64_t bit = ctx ? 1ull << ctx->phys : 0;

    if (r->kind != FC_R_VMM)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (r->writers & bit)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    return r->readers & bit ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                            : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

static void put64(void *data, uint64_t value)
{
    memcpy(data, &value, sizeof value);
}

static void put32(void *data, uint32_t value)
{
    memcpy(data, &value, sizeof value);
}

static void put_bool(void *data, bool value)
{
    *(unsigned char *)data = value;
}

/* The ordinal of the device, of the maker's for host memory. */
static int ordinal_for(const fc_region *r)
{
    const fc_ctx *ctx = fc_handle_peek(FC_K_CTX, r->ctx);

    if (r->phys >= 0)
        return fc_ordinal_of(r->phys); /* -1: hidden from this process */
    return ctx ? fc_ordinal_of(ctx->phys) : 0;
}

/* Where the CPU may use it: pinned, managed, or mapped for the CPU. */
static bool cpu_reaches(const fc_region *r)
{
    return r->kind == FC_R_HOST || r->kind == FC_R_REG ||
           r->kind == FC_R_MANAGED || (r->kind == FC_R_VMM && r->cpu);
}

static CUresult answer(const fc_region *r, uint64_t va, uint64_t base,
                       uint64_t bytes, CUpointer_attribute what, void *data)
{
    switch (what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put64(data, r->ctx); /* VMM memory: none */
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put32(data, r->phys < 0 && r->kind != FC_R_MANAGED
                        ? CU_MEMORYTYPE_HOST
                        : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put64(data, va);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!cpu_reaches(r))
            return CUDA_ERROR_INVALID_VALUE;
        put64(data, va);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        put_bool(data, false);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        /* Never used again, also where a place in a block is. */
        put64(data, r->units ? r->mem->header->sub[(base - r->va) / FC_UNIT]
                             : r->id << 32);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_bool(data, r->kind == FC_R_MANAGED);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put32(data, (uint32_t)ordinal_for(r));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_bool(data, legacy_capable(r));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put64(data, base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put64(data, bytes);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_bool(data, true);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put64(data, allowed_handles(r));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put32(data, access_flags(r));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put64(data, r->pool);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        put64(data, r->bytes);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put64(data, r->va);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put64(data, r->mem ? r->mem->header->id[0] : r->id);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* A reserved address without memory still answers some questions. */
static CUresult answer_reserved(uint64_t va, CUpointer_attribute what,
                                void *data)
{
    const fc_range *range = fc_range_at(va);

    if (!range || !range->reserved)
        return CUDA_ERROR_INVALID_VALUE;
    switch (what) {
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_bool(data, false);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put64(data, range->va);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put64(data, range->bytes);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult ask(uint64_t va, CUpointer_attribute what, void *data)
{
    const fc_region *r = fc_region_at(va);
    uint64_t base, bytes;

    if (!r || !fc_region_extent(r, va, &base, &bytes))
        return answer_reserved(va, what, data);
    if (r->kind == FC_R_VMM) {
        const fc_range *range = fc_range_at(va);

        /* The range is the reservation, the mapping is the piece of it. */
        base = range->va;
        bytes = range->bytes;
    }
    return answer(r, va, base, bytes, what, data);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                               CUdeviceptr ptr)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (!data)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    return fc_end(ask(ptr, attribute, data));
}

static size_t answer_size(CUpointer_attribute what)
{
    switch (what) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return 4;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return 1;
    default:
        return 8;
    }
}

/* Unlike the single form this one never fails for an unknown pointer: it
 * answers with zeros (-2 for the ordinal). */
CUresult cuPointerGetAttributes(unsigned int count,
                                CUpointer_attribute *attributes, void **data,
                                CUdeviceptr ptr)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (!attributes || !data)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i] < 1 ||
            attributes[i] > CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
            return fc_end(CUDA_ERROR_INVALID_VALUE);
        if (ask(ptr, attributes[i], data[i]) == CUDA_SUCCESS)
            continue;
        memset(data[i], 0, answer_size(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            put32(data[i], (uint32_t)-2);
    }
    return fc_end(r);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr ptr)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    (void)value;
    if (r != CUDA_SUCCESS)
        return r;
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !fc_region_at(ptr))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    return fc_end(r);
}
