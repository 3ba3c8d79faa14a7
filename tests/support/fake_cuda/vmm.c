/* SPDX-License-Identifier: MIT */
/*
 * Entry points: physical memory and reserved addresses.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

typedef struct mem_handle {
    uint64_t handle;
    fc_phys *mem;
    int count;
    CUmemAllocationProp prop;
} mem_handle;

static CUresult vmm_begin(const char *call)
{
    CUresult r = fc_begin(call, 0, NULL);

    if (r == CUDA_SUCCESS && fc.config.caps & FC_CAP_NO_VMM)
        r = fc_end(CUDA_ERROR_NOT_SUPPORTED);
    return r;
}

static bool is_host(CUmemLocationType type)
{
    return type == CU_MEM_LOCATION_TYPE_HOST ||
           type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Physical index of a location, -1 for host memory. */
static CUresult location_phys(const CUmemLocation *where, int *phys)
{
    if (is_host(where->type)) {
        if (fc.config.caps & FC_CAP_NO_HOST_VMM)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && where->id != 0)
            return CUDA_ERROR_INVALID_VALUE; /* one node */
        *phys = -1;
        return CUDA_SUCCESS;
    }
    if (where->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (where->id < 0 || where->id >= fc.visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *phys = fc.visible[where->id];
    return fc.device[*phys].denied ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult prop_check(const CUmemAllocationProp *prop, int *phys)
{
    unsigned types = (unsigned)prop->requestedHandleTypes;
    unsigned known =
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;

    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || types & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
        fc.config.caps & FC_CAP_NO_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (types & CU_MEM_HANDLE_TYPE_FABRIC &&
        !(fc.config.caps & FC_CAP_FABRIC_MADE))
        return CUDA_ERROR_NOT_PERMITTED; /* no channel, whatever the
                                            attribute says */
    return location_phys(&prop->location, phys);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                       const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    int phys;
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    if (!granularity || !prop || (unsigned)option > 1)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = location_phys(&prop->location, &phys);
    if (r == CUDA_SUCCESS)
        *granularity = fc.config.granularity;
    return fc_end(r);
}

static mem_handle *handle_add(fc_phys *mem, const CUmemAllocationProp *prop)
{
    mem_handle *h = fc_zalloc(sizeof *h);

    h->mem = mem;
    h->count = 1;
    h->prop = *prop;
    h->handle = fc_handle_new(FC_K_HANDLE, h);
    fc_live(FC_L_HANDLE, 1);
    return h;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    int phys;
    fc_header wanted;
    fc_phys *mem;
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    if (!handle || !prop || flags || !size ||
        size & (fc.config.granularity - 1))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = prop_check(prop, &phys);
    if (r == CUDA_SUCCESS && phys < 0 &&
        fc.config.caps & FC_CAP_HOST_VMM_DENIED)
        r = CUDA_ERROR_NOT_PERMITTED;
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    memset(&wanted, 0, sizeof wanted);
    wanted.bytes = size;
    wanted.handles = (uint32_t)prop->requestedHandleTypes;
    wanted.location = (uint32_t)prop->location.type;
    wanted.numa = prop->location.id;
    r = fc_phys_new(phys, &wanted, &mem);
    if (r == CUDA_SUCCESS)
        *handle = handle_add(mem, prop)->handle;
    return fc_end(r);
}

static CUresult handle_begin(const char *call, uint64_t handle, mem_handle **h)
{
    void *found;
    CUresult r = vmm_begin(call);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_HANDLE, handle, call, &found);
    *h = found;
    if (r == CUDA_ERROR_INVALID_HANDLE)
        r = CUDA_ERROR_INVALID_VALUE; /* what the driver answers for these */
    return r == CUDA_SUCCESS ? r : fc_end(r);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    mem_handle *h;
    CUresult r = handle_begin(__func__, handle, &h);

    if (r != CUDA_SUCCESS)
        return r;
    fc_live(FC_L_HANDLE, -1);
    if (--h->count == 0) {
        fc_handle_free(handle, false);
        fc_phys_unref(h->mem);
        free(h);
    }
    return fc_end(r);
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                       CUmemGenericAllocationHandle handle)
{
    mem_handle *h;
    CUresult r = handle_begin(__func__, handle, &h);

    if (r != CUDA_SUCCESS)
        return r;
    *prop = h->prop;
    return fc_end(r);
}

typedef struct handle_search {
    fc_phys *mem;
    mem_handle *found;
} handle_search;

static void handle_match(void *object, void *user)
{
    mem_handle *h = object;
    handle_search *s = user;

    if (h->mem == s->mem)
        s->found = h;
}

/* What a process knows about memory that it did not create. */
static CUmemAllocationProp prop_of(const fc_phys *mem)
{
    CUmemAllocationProp prop;

    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = (CUmemAllocationHandleType)mem->header->handles;
    prop.location.type = (CUmemLocationType)mem->header->location;
    prop.location.id =
        mem->phys >= 0 ? fc_ordinal_of(mem->phys) : mem->header->numa;
    return prop;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                     void *addr)
{
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *region = fc_region_at((uintptr_t)addr);
    if (!handle || !region || region->kind != FC_R_VMM)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    handle_search s = {region->mem, NULL};
    fc_handle_each(FC_K_HANDLE, handle_match, &s);
    if (s.found) {
        s.found->count++;
        fc_live(FC_L_HANDLE, 1);
    } else {
        CUmemAllocationProp prop = prop_of(region->mem);

        fc_phys_ref(region->mem);
        s.found = handle_add(region->mem, &prop);
    }
    *handle = s.found->handle;
    return fc_end(r);
}

/* ---- Passing on --------------------------------------------------------- */

/* A fabric handle is the process and descriptor, good while its exporter
 * lives. */
typedef struct fabric_handle {
    int32_t pid;
    int32_t fd;
    uint64_t place;
    uint64_t id;
} fabric_handle;

CUresult cuMemExportToShareableHandle(void *out,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    mem_handle *h;
    int fd;
    CUresult r = handle_begin(__func__, handle, &h);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags || !(h->mem->header->handles & (unsigned)type))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        r = fc_phys_export(h->mem, &fd);
        if (r == CUDA_SUCCESS)
            memcpy(out, &fd, sizeof fd);
        return fc_end(r);
    }
    if (fc.config.caps & FC_CAP_FABRIC_NO_EXPORT)
        return fc_end(CUDA_ERROR_NOT_PERMITTED);
    if (!h->mem->creator)
        return fc_end(CUDA_ERROR_NOT_PERMITTED); /* imported */
    fabric_handle f = {fc.pid, fc_phys_arena_fd(h->mem->phys), h->mem->offset,
                       h->mem->header->id[0]};
    memset(out, 0, sizeof(CUmemFabricHandle));
    memcpy(out, &f, sizeof f);
    return fc_end(r);
}

static CUresult import_fabric(const void *from, fc_phys **mem)
{
    fabric_handle f;
    char path[48];

    if (!(fc.config.caps & FC_CAP_FABRIC_MADE))
        return CUDA_ERROR_NOT_PERMITTED;
    memcpy(&f, from, sizeof f);
    if (fc.config.caps & FC_CAP_FABRIC_NO_IMPORT && f.pid != fc.pid)
        return CUDA_ERROR_NOT_PERMITTED; /* a channel that is not ours */
    snprintf(path, sizeof path, "/proc/%d/fd/%d", f.pid, f.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = fc_phys_import(fd, f.place, mem);
    close(fd);
    if (r == CUDA_SUCCESS && (*mem)->header->id[0] != f.id) {
        fc_phys_unref(*mem);
        r = CUDA_ERROR_INVALID_VALUE;
    }
    return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                        void *os_handle,
                                        CUmemAllocationHandleType type)
{
    fc_phys *mem;
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    if (!handle)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        int fd = (int)(intptr_t)os_handle;
        off_t place = lseek(fd, 0, SEEK_CUR);

        if (fc.config.caps & FC_CAP_NO_FD)
            r = CUDA_ERROR_NOT_SUPPORTED;
        else if (place < 0)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            r = fc_phys_import(fd, (uint64_t)place, &mem);
    } else if (type == CU_MEM_HANDLE_TYPE_FABRIC && os_handle) {
        r = import_fabric(os_handle, &mem);
    } else {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    CUmemAllocationProp prop = prop_of(mem);
    *handle = handle_add(mem, &prop)->handle;
    return fc_end(r);
}

/* ---- Addresses ---------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                             CUdeviceptr addr, unsigned long long flags)
{
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    if (!ptr || !size || size & (fc.config.granularity - 1) || flags ||
        alignment & (alignment - 1))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (alignment < fc.config.granularity)
        alignment = fc.config.granularity;
    uint64_t va = fc_range_take(addr, size, alignment, true);
    if (!va)
        return fc_end(CUDA_ERROR_OUT_OF_MEMORY);
    fc_live(FC_L_RESERVATION, 1);
    *ptr = va;
    return fc_end(r);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    fc_range *range = fc_range_at(ptr);
    if (!range || !range->reserved || range->va != ptr ||
        range->bytes != size) {
        fc_violate("%s: 0x%llx + 0x%zx is no reserved range", __func__, ptr,
                   size);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    fc_region *inside = fc_region_next(ptr);
    if (inside && inside->va < ptr + size) {
        fc_violate("%s: memory is still mapped at 0x%llx", __func__,
                   (unsigned long long)inside->va);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    fc_range_give(ptr);
    fc_live(FC_L_RESERVATION, -1);
    return fc_end(r);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    mem_handle *h;
    CUresult r = handle_begin(__func__, handle, &h);

    if (r != CUDA_SUCCESS)
        return r;
    fc_range *range = fc_range_at(ptr);
    if (flags || offset || size != h->mem->bytes ||
        ptr & (fc.config.granularity - 1) || !range || !range->reserved ||
        ptr + size > range->va + range->bytes)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    fc_region *other = fc_region_next(ptr);
    if (other && other->va < ptr + size) {
        fc_violate("%s: memory is already mapped at 0x%llx", __func__,
                   (unsigned long long)other->va);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    fc_region region = {.kind = FC_R_VMM,
                        .va = ptr,
                        .bytes = size,
                        .mem = h->mem,
                        .phys = h->mem->phys};
    fc_phys_ref(h->mem);
    fc_region_add(&region);
    fc_live(FC_L_MAPPING, 1);
    return fc_end(r);
}

/* Do whole mappings, side by side, make up the range? */
static bool whole_mappings(uint64_t ptr, uint64_t size)
{
    uint64_t at = ptr;

    while (at < ptr + size) {
        fc_region *r = fc_region_at(at);

        if (!r || r->kind != FC_R_VMM || r->va != at)
            return false;
        at += r->bytes;
    }
    return size && at == ptr + size;
}

/* False where the process has no room for the mapping (ulimit -v). */
static bool cpu_protect(fc_region *r, int prot)
{
    void *at = (void *)(uintptr_t)r->va;
    bool done = true;

    if (prot == PROT_NONE)
        mmap(at, r->bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else if (r->cpu)
        mprotect(at, r->bytes, prot);
    else
        done = fc_phys_map_at(r->mem, at, prot);
    r->cpu = done && prot != PROT_NONE;
    return done;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    if (!whole_mappings(ptr, size)) {
        fc_violate("%s: 0x%llx + 0x%zx is not made of whole mappings", __func__,
                   ptr, size);
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    }
    for (uint64_t at = ptr; at < ptr + size;) {
        fc_region *region = fc_region_at(at);

        at += region->bytes;
        if (region->cpu)
            cpu_protect(region, PROT_NONE);
        fc_region_drop(region);
        fc_live(FC_L_MAPPING, -1);
    }
    return fc_end(r);
}

/* ---- Access ------------------------------------------------------------- */

static CUresult access_check(uint64_t ptr, uint64_t size,
                             const CUmemAccessDesc *d)
{
    int phys;
    CUresult r = location_phys(&d->location, &phys);

    if (r != CUDA_SUCCESS)
        return r;
    if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        d->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = ptr; at < ptr + size;) {
        fc_region *region = fc_region_at(at);

        if (phys < 0 && region->phys >= 0)
            return CUDA_ERROR_INVALID_VALUE; /* the CPU has no way there */
        if (phys >= 0 && region->phys >= 0 && phys != region->phys &&
            !(fc.device[phys].peers & 1ull << region->phys))
            return CUDA_ERROR_INVALID_DEVICE;
        at += region->bytes;
    }
    return CUDA_SUCCESS;
}

static CUresult access_apply(uint64_t ptr, uint64_t size,
                             const CUmemAccessDesc *d)
{
    static const int prots[] = {PROT_NONE, PROT_READ, 0,
                                PROT_READ | PROT_WRITE};
    int phys = -1;

    (void)location_phys(&d->location, &phys);
    for (uint64_t at = ptr; at < ptr + size;) {
        fc_region *region = fc_region_at(at);

        at += region->bytes;
        if (phys < 0) {
            if (!cpu_protect(region, prots[d->flags]))
                return CUDA_ERROR_OUT_OF_MEMORY;
            continue;
        }
        region->readers &= ~(1ull << phys);
        region->writers &= ~(1ull << phys);
        if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            region->readers |= 1ull << phys;
        if (d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            region->writers |= 1ull << phys;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size,
                        const CUmemAccessDesc *desc, size_t count)
{
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    if (!desc || !count || !whole_mappings(ptr, size))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = access_check(ptr, size, &desc[i]);
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = access_apply(ptr, size, &desc[i]);
    return fc_end(r);
}

CUresult cuMemGetAccess(unsigned long long *flags,
                        const CUmemLocation *location, CUdeviceptr ptr)
{
    int phys;
    CUresult r = vmm_begin(__func__);

    if (r != CUDA_SUCCESS)
        return r;
    fc_region *region = fc_region_at(ptr);
    if (!flags || !location || !region || region->kind != FC_R_VMM)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = location_phys(location, &phys);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    if (phys < 0)
        *flags = region->cpu ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
    else if (region->writers & 1ull << phys)
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    else
        *flags =
            region->readers & 1ull << phys ? CU_MEM_ACCESS_FLAGS_PROT_READ : 0;
    return fc_end(r);
}
