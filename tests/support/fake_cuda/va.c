/* SPDX-License-Identifier: MIT */
/*
 * Device addresses: ranges of address space that were handed out, the regions
 * of memory that lie in them, and the rights of each device.
 *
 * An address that was given back is the first to be handed out again for the
 * same size, because that is what catches whoever identifies memory by its
 * address. Processes start at different addresses, because that is what
 * catches whoever uses another process's pointer.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define ARENA_BYTES (256ull << 30)
#define RECENT 1024

static fc_range *ranges;
static size_t range_count, range_room;
static fc_region **regions; /* by address */
static size_t region_count, region_room;
static fc_range recent[RECENT]; /* given back, last one last */
static size_t recent_count;
static uint64_t start_va;
static uint64_t next_id;

/* Exactly there, or false. By system call: the thread sanitizer would keep
 * books of 256 GiB that nobody touches. */
static bool claim(uint64_t va, uint64_t bytes)
{
    uint64_t at = (uint64_t)syscall(SYS_mmap, va, bytes, PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS |
                                        MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                                    -1, 0);

    if (at == va)
        return true;
    if (at != UINT64_MAX) /* a kernel that takes the flag for a hint */
        syscall(SYS_munmap, at, bytes);
    return false;
}

bool fc_va_open(void)
{
    /* The second is for the thread sanitizer, which sits on the first. */
    static const uint64_t wishes[] = {0x300000000000u, 0x2000000000u};

    for (size_t i = 0; i < 2; i++)
        if (claim(wishes[i], ARENA_BYTES)) {
            fc.va_base = wishes[i];
            fc.va_bytes = ARENA_BYTES;
            start_va = wishes[i] + (uint64_t)(fc.pid % 97) * (2ull << 30);
            return true;
        }
    return false;
}

/* ---- Ranges ------------------------------------------------------------- */

/* Index of the first range that ends after va. */
static size_t range_index(uint64_t va)
{
    size_t lo = 0, hi = range_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (ranges[mid].va + ranges[mid].bytes > va)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static bool range_free(uint64_t va, uint64_t bytes)
{
    size_t i = range_index(va);

    return i == range_count || ranges[i].va >= va + bytes;
}

static bool in_arena(uint64_t va, uint64_t bytes)
{
    return va >= fc.va_base && bytes <= fc.va_bytes &&
           va - fc.va_base <= fc.va_bytes - bytes;
}

static uint64_t range_insert(uint64_t va, uint64_t bytes, bool reserved,
                             bool external)
{
    size_t i = range_index(va);

    if (range_count == range_room) {
        range_room = range_room ? range_room * 2 : 64;
        ranges = realloc(ranges, range_room * sizeof *ranges);
        if (!ranges)
            abort();
    }
    memmove(&ranges[i + 1], &ranges[i], (range_count - i) * sizeof *ranges);
    ranges[i] = (fc_range){va, bytes, reserved, external};
    range_count++;
    return va;
}

static uint64_t take_recent(uint64_t bytes, uint64_t align, bool reserved)
{
    for (size_t n = recent_count; n-- > 0;) {
        fc_range r = recent[n];

        if (r.bytes != bytes || r.va % align || r.reserved != reserved)
            continue;
        memmove(&recent[n], &recent[n + 1],
                (recent_count - n - 1) * sizeof *recent);
        recent_count--;
        if (range_free(r.va, bytes))
            return r.va;
    }
    return 0;
}

static uint64_t find_gap(uint64_t from, uint64_t bytes, uint64_t align)
{
    uint64_t va = (from + align - 1) / align * align;

    for (size_t i = range_index(va); in_arena(va, bytes); i++) {
        if (i == range_count || ranges[i].va >= va + bytes)
            return va;
        va = ranges[i].va + ranges[i].bytes;
        va = (va + align - 1) / align * align;
    }
    return 0;
}

static uint64_t take_wish(uint64_t want, uint64_t bytes, bool reserved)
{
    if (!range_free(want, bytes))
        return 0;
    if (in_arena(want, bytes))
        return range_insert(want, bytes, reserved, false);
    return claim(want, bytes) ? range_insert(want, bytes, reserved, true) : 0;
}

uint64_t fc_range_take(uint64_t want, uint64_t bytes, uint64_t align,
                       bool reserved)
{
    if (align < 2u << 20)
        align = 2u << 20;
    if (want && want % align == 0 && take_wish(want, bytes, reserved))
        return want;
    uint64_t va = take_recent(bytes, align, reserved);
    if (!va)
        va = find_gap(start_va, bytes, align);
    if (!va)
        va = find_gap(fc.va_base, bytes, align);
    return va ? range_insert(va, bytes, reserved, false) : 0;
}

void fc_range_give(uint64_t va)
{
    size_t i = range_index(va);

    if (ranges[i].external) {
        syscall(SYS_munmap, va, ranges[i].bytes);
    } else {
        if (recent_count == RECENT)
            memmove(recent, recent + 1, --recent_count * sizeof *recent);
        recent[recent_count++] = ranges[i];
    }
    range_count--;
    memmove(&ranges[i], &ranges[i + 1], (range_count - i) * sizeof *ranges);
}

fc_range *fc_range_at(uint64_t va)
{
    size_t i = range_index(va);

    return i < range_count && ranges[i].va <= va ? &ranges[i] : NULL;
}

bool fc_va_is_device(uint64_t va)
{
    return in_arena(va, 1) || fc_range_at(va);
}

/* ---- Regions ------------------------------------------------------------ */

static size_t region_index(uint64_t va)
{
    size_t lo = 0, hi = region_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (regions[mid]->va + regions[mid]->bytes > va)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

fc_region *fc_region_add(const fc_region *region)
{
    size_t i = region_index(region->va);
    fc_region *r = fc_zalloc(sizeof *r);

    if (region_count == region_room) {
        region_room = region_room ? region_room * 2 : 64;
        regions = realloc(regions, region_room * sizeof *regions);
        if (!regions)
            abort();
    }
    memmove(&regions[i + 1], &regions[i], (region_count - i) * sizeof *regions);
    *r = *region;
    r->id = ++next_id;
    regions[i] = r;
    region_count++;
    return r;
}

void fc_region_remove(uint64_t va)
{
    size_t i = region_index(va);

    free(regions[i]->units);
    free(regions[i]);
    region_count--;
    memmove(&regions[i], &regions[i + 1], (region_count - i) * sizeof *regions);
}

fc_region *fc_region_next(uint64_t va)
{
    size_t i = region_index(va);

    return i < region_count ? regions[i] : NULL;
}

fc_region *fc_region_at(uint64_t va)
{
    fc_region *r = fc_region_next(va);

    return r && r->va <= va ? r : NULL;
}

fc_region *fc_region_nth(size_t n)
{
    return n < region_count ? regions[n] : NULL;
}

size_t fc_region_count(void)
{
    return region_count;
}

bool fc_region_extent(const fc_region *r, uint64_t va, uint64_t *base,
                      uint64_t *bytes)
{
    uint64_t unit = (va - r->va) / FC_UNIT;

    *base = r->va;
    *bytes = r->bytes;
    if (!r->units)
        return true;
    while (unit > 0 && r->units[unit] == UINT32_MAX)
        unit--;
    if (!r->units[unit])
        return false;
    *base = r->va + unit * FC_UNIT;
    *bytes = r->units[unit];
    return va - *base < (*bytes + FC_UNIT - 1) / FC_UNIT * FC_UNIT;
}

bool fc_va_check(const char *call, uint64_t va, uint64_t bytes)
{
    if (!bytes || !fc_va_is_device(va))
        return true;
    for (uint64_t at = va; at < va + bytes;) {
        fc_region *r = fc_region_at(at);
        uint64_t base, size;

        if (!r || !fc_region_extent(r, at, &base, &size)) {
            fc_violate("%s: no memory at 0x%llx (in the %llu bytes from "
                       "0x%llx)",
                       call, (unsigned long long)at, (unsigned long long)bytes,
                       (unsigned long long)va);
            return false;
        }
        at = base + size;
    }
    return true;
}

/* ---- Access ------------------------------------------------------------- */

/* Why the device may not, or NULL. */
static const char *forbidden(const fc_region *r, int phys, bool write,
                             fc_engine engine)
{
    uint64_t bit = 1ull << phys;
    fc_ctx *ctx;

    switch (r->kind) {
    case FC_R_VMM:
        if (!(r->readers & bit))
            return "the device was given no access to this mapping";
        return write && !(r->writers & bit) ? "the mapping is read-only" : NULL;
    case FC_R_POOL:
        return r->phys == phys || engine == FC_COPY || r->readers & bit
                   ? NULL
                   : "the pool gives this device no access";
    case FC_R_ALLOC:
        if (r->phys == phys || engine == FC_COPY)
            return NULL; /* a copy without peer access is staged */
        ctx = fc.device[phys].primary;
        return ctx && ctx->peers & 1ull << r->phys
                   ? NULL
                   : "peer access to its device is not enabled";
    case FC_R_REG:
        return write && r->flags & CU_MEMHOSTREGISTER_READ_ONLY
                   ? "host memory registered read-only"
                   : NULL;
    default:
        return NULL;
    }
}

bool fc_pin_get(fc_pin *pin, int phys, uint64_t va, uint64_t bytes, bool write,
                fc_engine engine)
{
    bool fine = false;

    *pin = (fc_pin){.at = (unsigned char *)(uintptr_t)va, .bytes = bytes};
    pthread_mutex_lock(&fc.lock);
    fc_region *r = fc_region_at(va);
    const char *why = NULL;
    if (fc.ruined)
        goto out;
    if (r) {
        why = forbidden(r, phys, write, engine);
    } else if (fc_va_is_device(va)) {
        why = "nothing is mapped there";
    } else if (engine != FC_COPY) {
        why = "it is pageable host memory";
    } else {
        fine = true;
        /* Up to the next registered piece, which is looked at by itself. */
        r = fc_region_next(va);
        if (r && r->va - va < bytes)
            pin->bytes = r->va - va;
        goto out;
    }
    if (why) {
        fc_fault("%s of %llu bytes at 0x%llx by device %d: %s",
                 write ? "write" : "read", (unsigned long long)bytes,
                 (unsigned long long)va, phys, why);
        goto out;
    }
    fine = true;
    if (bytes > r->va + r->bytes - va)
        pin->bytes = r->va + r->bytes - va;
    if (r->mem) {
        pin->at = r->mem->data + r->offset + (va - r->va);
        pin->mem = r->mem;
        fc_phys_ref(r->mem);
    }
    if (r->phys >= 0 && r->phys != phys &&
        fc.device[phys].broken & 1ull << r->phys)
        pin->lost = true;
out:
    pthread_mutex_unlock(&fc.lock);
    return fine;
}

void fc_pin_put(fc_pin *pin, bool wrote)
{
    if (!pin->mem)
        return;
    if (wrote) {
        fc_header *h = pin->mem->header;

        __atomic_add_fetch(&h->doorbell, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&h->waiters, __ATOMIC_SEQ_CST))
            fc_bell_wait(pin->mem, 0, -1); /* wakes */
    }
    pthread_mutex_lock(&fc.lock);
    fc_phys_unref(pin->mem);
    pthread_mutex_unlock(&fc.lock);
}
