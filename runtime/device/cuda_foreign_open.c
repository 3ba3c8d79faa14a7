/* SPDX-License-Identifier: MIT */
/*
 * Memory that another rank had before, opened here.
 *
 * Allocations behind a legacy handle or in a pool are opened once a process
 * and counted: the same one may be attached several times and in parts, by
 * several nodes. The table knows an allocation by its process and the driver's
 * number for it, never by an address: numbers are not used again, addresses
 * are. What the application has opened for itself is none of the table's
 * business; the driver counts that beside us (since 11.2).
 *
 * Physical pieces need no table, since a descriptor is the memory itself. They
 * are mapped side by side in a range of their own.
 */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/sys.h"
#include "device/cuda_device.h"
#include "device/cuda_foreign.h"

/* One allocation of another process, open here. Under table_lock. */
typedef struct opened {
    struct opened *next;
    unsigned long long context_id;
    uint32_t kind;
    uint64_t owner;
    uint64_t id;
    uint64_t whole;
    CUdeviceptr at;
    CUmemoryPool pool; /* of POOL */
    int count;
} opened;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static opened *table;

typedef struct foreign_block {
    wi_block base; /* first */
    wi_foreign_card card;
    uint64_t owner;
    wi_access access;
    opened *open; /* LEGACY, POOL */
    /* PIECES */
    CUdeviceptr range;
    size_t range_bytes;
    uint32_t mapped; /* pieces */
    size_t mapped_bytes;
    uint32_t *pages; /* of each piece */
} foreign_block;

static foreign_block *foreign_of(wi_block *block)
{
    return (foreign_block *)block;
}

/* ---- The table ----------------------------------------------------------- */

static opened *table_find(const wi_cuda *cuda, const foreign_block *block)
{
    for (opened *o = table; o; o = o->next)
        if (block->card.id != 0 && o->id == block->card.id &&
            o->owner == block->owner && o->context_id == cuda->context_id &&
            o->kind == block->card.kind && o->whole == block->card.whole)
            return o;
    return NULL;
}

static wharf_status open_legacy(const wi_cuda *cuda, const foreign_block *block,
                                opened *o)
{
    CUipcMemHandle native;

    memcpy(&native, block->card.opaque, sizeof native);
    return WI_CU(cuIpcOpenMemHandle,
                 (&o->at, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                 "%llu bytes of another rank on device %d",
                 (unsigned long long)block->card.whole, cuda->device);
}

/* A pool is at first open to its own GPU only. */
static wharf_status pool_allow(const wi_cuda *cuda, CUmemoryPool pool)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                          .id = cuda->device};
    CUmemAccessDesc desc = {.location = here,
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags now = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    wharf_status status = WI_CU(cuMemPoolGetAccess, (&now, pool, &here),
                                "device %d", cuda->device);

    if (status != WHARF_OK || now == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return status;
    return WI_CU(cuMemPoolSetAccess, (pool, &desc, 1), "device %d",
                 cuda->device);
}

static wharf_status open_pool(const wi_cuda *cuda, const foreign_block *block,
                              int fd, opened *o)
{
    CUmemPoolPtrExportData native;
    CUmemoryPool pool = NULL;
    wharf_status status =
        WI_CU(cuMemPoolImportFromShareableHandle,
              (&pool, wi_cuda_pointer((CUdeviceptr)fd),
               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              "pool of another rank, device %d", cuda->device);

    if (status != WHARF_OK)
        return status;
    memcpy(&native, block->card.opaque, sizeof native);
    status = pool_allow(cuda, pool);
    if (status == WHARF_OK)
        status = WI_CU(cuMemPoolImportPointer, (&o->at, pool, &native),
                       "%llu bytes", (unsigned long long)block->card.whole);
    if (status != WHARF_OK) {
        WI_CU_BACK(cuMemPoolDestroy, (pool));
        return status;
    }
    o->pool = pool;
    return WHARF_OK;
}

static wharf_status table_open(const wi_cuda *cuda, foreign_block *block,
                               int fd)
{
    opened *o = table_find(cuda, block);
    wharf_status status;

    if (o) {
        o->count++;
        block->open = o;
        return WHARF_OK;
    }
    if (!WI_NEW(o))
        return WHARF_ENOMEM;
    status = block->card.kind == WI_FOREIGN_POOL ? open_pool(cuda, block, fd, o)
                                                 : open_legacy(cuda, block, o);
    if (status != WHARF_OK) {
        wi_free(o);
        return status;
    }
    o->context_id = cuda->context_id;
    o->kind = block->card.kind;
    o->owner = block->owner;
    o->id = block->card.id;
    o->whole = block->card.whole;
    o->count = 1;
    o->next = table;
    table = o;
    block->open = o;
    return WHARF_OK;
}

/* Takes one of the counts; the last one closes. */
static wharf_status table_take(const wi_cuda *cuda, foreign_block *block,
                               int fd)
{
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&table_lock);
    status = table_open(cuda, block, fd);
    pthread_mutex_unlock(&table_lock);
    wi_cuda_leave(&visit);
    return status;
}

/* The context is current, if it is still `here`. */
static void table_give(foreign_block *block, bool here)
{
    opened *o = block->open;

    if (!o)
        return;
    block->open = NULL;
    pthread_mutex_lock(&table_lock);
    if (--o->count == 0) {
        for (opened **at = &table; *at; at = &(*at)->next)
            if (*at == o) {
                *at = o->next;
                break;
            }
        if (here && o->kind == WI_FOREIGN_POOL) {
            WI_CU_BACK(cuMemFree, (o->at));
            WI_CU_BACK(cuMemPoolDestroy, (o->pool));
        } else if (here) {
            WI_CU_BACK(cuIpcCloseMemHandle, (o->at));
        }
        wi_free(o);
    }
    pthread_mutex_unlock(&table_lock);
}

/* ---- Physical pieces ----------------------------------------------------- */

static wharf_status pieces_reserve(const wi_cuda *cuda, foreign_block *block)
{
    size_t unit = cuda->granularity ? cuda->granularity : 1;
    size_t bytes = (block->card.whole + unit - 1) & ~(unit - 1);
    wi_cuda_visit visit;
    wharf_status status;

    block->pages = wi_calloc(block->card.pieces, sizeof *block->pages);
    if (!block->pages)
        return WHARF_ENOMEM;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuMemAddressReserve,
                   (&block->range, bytes, cuda->granularity, 0, 0), "%zu bytes",
                   bytes);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        return status;
    block->range_bytes = bytes;
    wi_stat_add(WI_STAT_live_ranges, 1);
    return WHARF_OK;
}

/* Imports and maps one piece; the mapping keeps it, not the handle. */
static wharf_status piece_map(foreign_block *block, uint32_t pages, int fd)
{
    size_t bytes = (size_t)pages * WI_FOREIGN_PAGE;
    CUmemGenericAllocationHandle handle = 0;
    wharf_status status;

    if (bytes == 0 || block->mapped == block->card.pieces ||
        bytes > block->range_bytes - block->mapped_bytes)
        return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
                       "piece %u of %u has %zu bytes, more than the %zu "
                       "announced",
                       block->mapped + 1, block->card.pieces, bytes,
                       block->range_bytes - block->mapped_bytes);
    status = WI_CU(cuMemImportFromShareableHandle,
                   (&handle, wi_cuda_pointer((CUdeviceptr)fd),
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                   "piece %u of %u, %zu bytes", block->mapped + 1,
                   block->card.pieces, bytes);
    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuMemMap,
                   (block->range + block->mapped_bytes, bytes, 0, handle, 0),
                   "piece %u of %u, %zu bytes", block->mapped + 1,
                   block->card.pieces, bytes);
    WI_CU_BACK(cuMemRelease, (handle));
    if (status != WHARF_OK)
        return status;
    block->pages[block->mapped++] = pages;
    block->mapped_bytes += bytes;
    return WHARF_OK;
}

static wharf_status pieces_map(const wi_cuda *cuda, foreign_block *block,
                               const uint32_t *pages, const int *fds, int count)
{
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    for (int i = 0; i < count && status == WHARF_OK; i++)
        status = piece_map(block, pages[i], fds[i]);
    wi_cuda_leave(&visit);
    return status;
}

static wharf_status pieces_allow(const wi_cuda *cuda,
                                 const foreign_block *block)
{
    CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->device},
        .flags = block->access == WI_ACCESS_READ
                     ? CU_MEM_ACCESS_FLAGS_PROT_READ
                     : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status =
        WI_CU(cuMemSetAccess, (block->range, block->mapped_bytes, &desc, 1),
              "%zu bytes of another rank for device %d", block->mapped_bytes,
              cuda->device);
    wi_cuda_leave(&visit);
    return status;
}

static void pieces_close(foreign_block *block)
{
    CUdeviceptr at = block->range;

    for (uint32_t i = 0; i < block->mapped; i++) {
        size_t bytes = (size_t)block->pages[i] * WI_FOREIGN_PAGE;

        WI_CU_BACK(cuMemUnmap, (at, bytes));
        at += bytes;
    }
    if (block->range_bytes) {
        WI_CU_BACK(cuMemAddressFree, (block->range, block->range_bytes));
        wi_stat_add(WI_STAT_live_ranges, -1);
    }
}

/* ---- The seam's calls ---------------------------------------------------- */

static wharf_status card_check(const wi_foreign_card *card, wi_access access)
{
    if (!wi_foreign_direct((wi_foreign_kind)card->kind) || card->bytes == 0 ||
        card->whole < card->bytes || card->offset > card->whole - card->bytes ||
        card->pieces == 0 || card->pieces > WI_FOREIGN_PIECES_MOST)
        return wi_fail(
            WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
            "a card of kind %u with %u pieces, %llu of %llu bytes "
            "from %llu on makes no sense",
            card->kind, card->pieces, (unsigned long long)card->bytes,
            (unsigned long long)card->whole, (unsigned long long)card->offset);
    if (access == WI_ACCESS_READ && card->kind != WI_FOREIGN_PIECES)
        return wi_fail(WHARF_EUNSUPPORTED, NULL,
                       "%s cannot be opened read-only",
                       wi_foreign_name((wi_foreign_kind)card->kind));
    return WHARF_OK;
}

wharf_status wi_cuda_foreign_open(wi_device *device,
                                  const wi_foreign_card *card, uint64_t owner,
                                  wi_access access, wi_block **out)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    foreign_block *block;
    wharf_status status = card_check(card, access);

    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(block))
        return WHARF_ENOMEM;
    block->base.bytes = card->bytes;
    block->card = *card;
    block->owner = owner;
    block->access = access;
    wi_block_count(&block->base, WHARF_SPACE_DEVICE, 1);
    if (card->kind == WI_FOREIGN_LEGACY)
        status = table_take(cuda, block, -1);
    else if (card->kind == WI_FOREIGN_PIECES)
        status = pieces_reserve(cuda, block);
    if (status != WHARF_OK) {
        wi_cuda_foreign_close(device, &block->base);
        return status;
    }
    *out = &block->base;
    return WHARF_OK;
}

wharf_status wi_cuda_foreign_add(wi_device *device, wi_block *base,
                                 const uint32_t *pages, const int *fds,
                                 int count)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    foreign_block *block = foreign_of(base);
    wharf_status status;

    if (block->card.kind == WI_FOREIGN_PIECES)
        status = pieces_map(cuda, block, pages, fds, count);
    else if (block->card.kind == WI_FOREIGN_POOL && count == 1 && !block->open)
        status = table_take(cuda, block, fds[0]);
    else
        status =
            wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
                    "%d descriptors came with %s", count,
                    wi_foreign_name((wi_foreign_kind)block->card.kind));
    for (int i = 0; i < count; i++) {
        int fd = fds[i];

        wi_sys_close(&fd);
    }
    return status;
}

wharf_status wi_cuda_foreign_map(wi_device *device, wi_block *base,
                                 void **pointer)
{
    foreign_block *block = foreign_of(base);
    CUdeviceptr at = block->range;
    wharf_status status;

    if (block->card.kind == WI_FOREIGN_PIECES
            ? block->mapped != block->card.pieces ||
                  block->mapped_bytes != block->card.whole
            : !block->open)
        return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
                       "%u of %u pieces came, %zu of %llu bytes", block->mapped,
                       block->card.pieces, block->mapped_bytes,
                       (unsigned long long)block->card.whole);
    if (block->card.kind == WI_FOREIGN_PIECES) {
        status = pieces_allow(wi_cuda_of(device), block);
        if (status != WHARF_OK)
            return status;
    } else {
        at = block->open->at;
    }
    base->pointer = wi_cuda_pointer(at + block->card.offset);
    *pointer = base->pointer;
    return WHARF_OK;
}

void wi_cuda_foreign_close(wi_device *device, wi_block *base)
{
    foreign_block *block = foreign_of(base);
    wi_cuda_visit visit;

    if (!base)
        return;
    table_give(block, wi_cuda_enter_back(wi_cuda_of(device), &visit));
    pieces_close(block);
    wi_cuda_leave(&visit);
    wi_block_count(base, WHARF_SPACE_DEVICE, -1);
    wi_free(block->pages);
    wi_free(block);
}
