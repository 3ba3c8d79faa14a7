/* SPDX-License-Identifier: MIT */
/*
 * Entry points: legacy memory handles. A handle names the process, its arena
 * and the allocation in it by number, so that one that outlived its allocation
 * is recognised even if the address and the place are in use again. What is
 * mapped by an open is the whole block.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

#define HANDLE_MAGIC 0x77686d68u

typedef struct mem_handle {
    uint32_t magic;
    int32_t pid;
    uint64_t cookie;
    uint64_t id; /* of the physical memory, first half */
    uint64_t serial;
    uint64_t place; /* in the arena file */
    int32_t fd;
    uint32_t unit; /* of the allocation in its block */
} mem_handle;

_Static_assert(sizeof(mem_handle) <= sizeof(CUipcMemHandle), "handle");

/* Open allocations by the pointer that was given out. */
typedef struct opened {
    struct opened *next;
    uint64_t va, serial, region;
    uint64_t ctx;
    uint32_t count;
} opened;

static opened *opens;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
    uint64_t base, bytes;
    mem_handle h = {.magic = HANDLE_MAGIC};
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (fc.config.caps & FC_CAP_NO_IPC)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    fc_region *found = fc_region_at(dptr);
    if (!handle || !found || found->kind != FC_R_ALLOC ||
        !fc_region_extent(found, dptr, &base, &bytes))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    h.unit = (uint32_t)((base - found->va) / FC_UNIT);
    h.pid = fc.pid;
    h.cookie = fc.cookie;
    h.id = found->mem->header->id[0];
    h.serial = found->mem->header->sub[h.unit];
    h.place = found->mem->offset;
    h.fd = fc_phys_arena_fd(found->phys);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
    return fc_end(r);
}

static CUresult handle_import(const mem_handle *h, fc_phys **mem)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE
                   ? CUDA_ERROR_OPERATING_SYSTEM
                   : CUDA_ERROR_INVALID_VALUE; /* its process is gone */
    CUresult r = fc_phys_import(fd, h->place, mem);
    close(fd);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE)
        return r;
    bool live = false;
    if (r == CUDA_SUCCESS) {
        fc_header *header = (*mem)->header;

        fc_phys_lock(header);
        live = header->legacy && header->id[0] == h->id &&
               h->unit < FC_BLOCK / FC_UNIT &&
               header->sub[h->unit] == h->serial;
        fc_phys_unlock(header);
        if (!live)
            fc_phys_unref(*mem);
    }
    if (live)
        return CUDA_SUCCESS;
    fc_violate("cuIpcOpenMemHandle: the handle is stale, its memory was freed");
    return CUDA_ERROR_INVALID_VALUE;
}

/* The region of this context that maps mem, or a new one; takes over the
 * reference to mem. */
static CUresult region_for(fc_ctx *ctx, fc_phys *mem, fc_region **found)
{
    for (size_t i = 0; i < fc_region_count(); i++) {
        fc_region *r = fc_region_nth(i);

        if (r->kind == FC_R_IPC && r->mem == mem && r->ctx == ctx->handle) {
            fc_phys_unref(mem);
            *found = r;
            return CUDA_SUCCESS;
        }
    }
    uint64_t va =
        fc_range_take(0, (mem->bytes + 4095) & ~(uint64_t)4095, 0, false);
    if (!va) {
        fc_phys_unref(mem);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fc_region region = {.kind = FC_R_IPC,
                        .va = va,
                        .bytes = mem->bytes,
                        .mem = mem,
                        .phys = mem->phys,
                        .ctx = ctx->handle};
    *found = fc_region_add(&region);
    return CUDA_SUCCESS;
}

static CUresult open_locked(fc_ctx *ctx, const mem_handle *h, uint64_t *va)
{
    fc_phys *mem;
    fc_region *region;
    CUresult r = handle_import(h, &mem);

    if (r != CUDA_SUCCESS)
        return r;
    if (mem->phys != ctx->phys &&
        !(fc.device[ctx->phys].peers & 1ull << mem->phys)) {
        fc_phys_unref(mem);
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    r = region_for(ctx, mem, &region);
    if (r != CUDA_SUCCESS)
        return r;
    fc_phys_opener(region->mem->header, h->serial, 1);
    region->opens++;
    *va = region->va + (uint64_t)h->unit * FC_UNIT;
    fc_live(FC_L_IPC_MEMORY, 1);
    for (opened *o = opens; o; o = o->next)
        if (o->va == *va && o->serial == h->serial) {
            o->count++;
            return CUDA_SUCCESS;
        }
    opened *o = fc_zalloc(sizeof *o);
    *o = (opened){opens, *va, h->serial, region->va, ctx->handle, 1};
    opens = o;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle,
                            unsigned int flags)
{
    mem_handle h;
    fc_ctx *ctx;
    uint64_t va;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&h, &handle, sizeof h);
    if (fc.config.caps & FC_CAP_NO_IPC)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    if (!dptr || h.magic != HANDLE_MAGIC ||
        flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (h.cookie == fc.cookie) {
        fc_violate("%s: in the exporting process", __func__);
        return fc_end(CUDA_ERROR_INVALID_CONTEXT);
    }
    r = open_locked(ctx, &h, &va);
    if (r == CUDA_SUCCESS)
        *dptr = va;
    return fc_end(r);
}

static void close_one(opened **at)
{
    opened *o = *at;
    fc_region *region = fc_region_at(o->region);

    fc_phys_opener(region->mem->header, o->serial, -1);
    fc_live(FC_L_IPC_MEMORY, -1);
    if (--region->opens == 0)
        fc_region_drop(region);
    if (--o->count == 0) {
        *at = o->next;
        free(o);
    }
}

static opened **open_find(uint64_t va)
{
    opened **at = &opens;

    while (*at && (*at)->va != va)
        at = &(*at)->next;
    return at;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    opened **at = open_find(dptr);
    if (*at && (*at)->ctx != ctx->handle) {
        fc_violate("%s: opened in another context", __func__);
        return fc_end(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (*at)
        r = fc_ctx_drain(ctx); /* the lock is open meanwhile */
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    at = open_find(dptr);
    if (!*at) {
        fc_violate("%s: 0x%llx is not open", __func__, dptr);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    close_one(at);
    return fc_end(r);
}

long fc_ipc_close_context(uint64_t ctx)
{
    long n = 0;

    for (opened **at = &opens; *at;) {
        if ((*at)->ctx == ctx) {
            close_one(at);
            n++;
        } else {
            at = &(*at)->next;
        }
    }
    return n;
}
