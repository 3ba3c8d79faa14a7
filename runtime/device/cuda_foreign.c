/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program had before, on its own side: what the driver tells
 * of a pointer, and what of it can travel. The other ranks' side is in
 * cuda_foreign_open.c.
 *
 * An allocation is known by the driver's number for it (BUFFER_ID), which is
 * never used again, while its address is.
 */
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "device/cuda_device.h"
#include "device/cuda_foreign.h"

/* The driver's unit of allocation: what is smaller shares one with others, and
 * a legacy handle opens all of it. */
#define DRIVER_BLOCK ((size_t)2 << 20)

/* ---- Questions about a pointer ------------------------------------------- */

/* Wide enough for every answer, zero where there is none. */
typedef struct facts {
    uint64_t type; /* CUmemorytype; 0: the driver does not know the memory */
    uint64_t managed;
    uint64_t pool;
    uint64_t legacy; /* has a legacy handle */
    uint64_t types;  /* of handles that it may have */
    uint64_t id;
    uint64_t start, bytes; /* allocation; of mapped pieces the reservation */
    int32_t ordinal;
} facts;

/* Codes that mean "no such memory" or "no such question". */
static bool is_answer(int code)
{
    return code == CUDA_SUCCESS || code == CUDA_ERROR_INVALID_VALUE ||
           code == CUDA_ERROR_NOT_FOUND || code == CUDA_ERROR_NOT_SUPPORTED ||
           code == CUDA_ERROR_INVALID_CONTEXT;
}

/*
 * All at once, by the call that answers with zeros for a pointer which the
 * driver does not know: a tool that reports failed calls has nothing to report.
 */
static wharf_status ask(const void *pointer, facts *found)
{
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    facts f = {.ordinal = -1};
    void *to[] = {&f.type, &f.managed, &f.pool,  &f.legacy, &f.types,
                  &f.id,   &f.start,   &f.bytes, &f.ordinal};
    int code =
        WI_CU_CODE(cuPointerGetAttributes,
                   (sizeof to / sizeof to[0], what, to, (CUdeviceptr)pointer));

    if (!is_answer(code))
        return wi_driver_fail("cuPointerGetAttributes", code, "%p", pointer);
    *found = code == CUDA_SUCCESS ? f : (facts){.ordinal = -1};
    return WHARF_OK;
}

/* The allocation of device memory, or the physical piece, around a pointer;
 * *whole 0: none. */
static wharf_status extent(const void *pointer, char **base, size_t *whole)
{
    CUdeviceptr start = 0;
    size_t bytes = 0;
    int code = WI_CU_CODE(cuMemGetAddressRange,
                          (&start, &bytes, (CUdeviceptr)pointer));

    if (!is_answer(code))
        return wi_driver_fail("cuMemGetAddressRange", code, "%p", pointer);
    *base = code == CUDA_SUCCESS ? wi_cuda_pointer(start) : NULL;
    *whole = code == CUDA_SUCCESS ? bytes : 0;
    return WHARF_OK;
}

static wharf_status retained(const void *pointer,
                             CUmemGenericAllocationHandle *handle, bool *known)
{
    int code = WI_CU_CODE(cuMemRetainAllocationHandle,
                          (handle, wi_cuda_pointer((CUdeviceptr)pointer)));

    if (!is_answer(code))
        return wi_driver_fail("cuMemRetainAllocationHandle", code, "%p",
                              pointer);
    *known = code == CUDA_SUCCESS;
    return WHARF_OK;
}

/* Mapped physical memory, and how it was made. */
static wharf_status is_mapped(const void *pointer, bool *mapped,
                              CUmemAllocationProp *made)
{
    CUmemGenericAllocationHandle handle = 0;
    wharf_status status = retained(pointer, &handle, mapped);

    if (status != WHARF_OK || !*mapped)
        return status;
    status = WI_CU(cuMemGetAllocationPropertiesFromHandle, (made, handle), "%p",
                   pointer);
    WI_CU_BACK(cuMemRelease, (handle));
    return status;
}

/* ---- Kinds --------------------------------------------------------------- */

/* Physical pieces from the pointer on, until the bytes are covered. */
static wharf_status walk_pieces(const wi_cuda *cuda, wi_foreign *memory)
{
    char *at = memory->pointer, *end = at + memory->bytes;

    memory->kind = WI_FOREIGN_PIECES;
    memory->pieces = 0;
    memory->base = NULL;
    while (at < end) {
        CUmemAllocationProp made = {0};
        bool mapped = false;
        char *base = NULL;
        size_t bytes = 0;
        wharf_status status = extent(at, &base, &bytes);

        if (status == WHARF_OK && bytes)
            status = is_mapped(at, &mapped, &made);
        if (status != WHARF_OK)
            return status;
        if (!mapped)
            return wi_fail(WHARF_EARG, "pass a size that is mapped throughout",
                           "size %zu is beyond the mapped memory: from byte "
                           "%zu on there is none",
                           memory->bytes, (size_t)(at - memory->pointer));
        if (made.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            memory->kind = WI_FOREIGN_PIECES_HOST;
        else if (made.location.id != cuda->base.desc.ordinal)
            memory->kind = WI_FOREIGN_OTHER_DEVICE;
        else if (!(made.requestedHandleTypes &
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) &&
                 memory->kind == WI_FOREIGN_PIECES)
            memory->kind = WI_FOREIGN_PIECES_PRIVATE;
        if (!memory->base)
            memory->base = base;
        if (++memory->pieces > WI_FOREIGN_PIECES_MOST)
            return wi_fail(WHARF_ELIMIT, "attach it in parts",
                           "%zu bytes lie in more than %d physical pieces",
                           memory->bytes, WI_FOREIGN_PIECES_MOST);
        if (bytes > memory->largest)
            memory->largest = bytes;
        at = base + bytes;
    }
    memory->whole = (size_t)(at - memory->base);
    return WHARF_OK;
}

/* Of one allocation, which `memory` then knows. */
static wharf_status allocation(wi_foreign *memory, void *base, size_t whole)
{
    memory->base = base;
    memory->whole = whole;
    if (whole == 0) { /* the driver does not tell, so nobody checks the end */
        memory->base = memory->pointer;
        memory->whole = memory->bytes;
    }
    memory->pieces = 1;
    memory->largest = memory->whole;
    return wi_foreign_within(memory->base, memory->whole, memory->pointer,
                             memory->bytes);
}

/* What a handle is made of must be known. */
static wharf_status device_allocation(wi_foreign *memory)
{
    char *base = NULL;
    size_t whole = 0;
    wharf_status status = extent(memory->pointer, &base, &whole);

    if (status != WHARF_OK)
        return status;
    if (whole == 0)
        return wi_fail(WHARF_EDRIVER, "report it with the driver's version",
                       "the driver does not tell the allocation around %p",
                       (void *)memory->pointer);
    return allocation(memory, base, whole);
}

static wi_foreign_kind without_handle(wi_cuda *cuda)
{
    char reason[96];

    return (cuda->base.desc.caps & WI_CAP_IPC) &&
                   wi_cuda_ipc_works(cuda, reason)
               ? WI_FOREIGN_IMPORTED
               : WI_FOREIGN_NO_HANDLE;
}

/* Pools come before pieces: what lies behind them is mapped physical memory,
 * too, but the driver's own. */
static wharf_status device_kind(wi_cuda *cuda, const facts *f,
                                wi_foreign *memory)
{
    bool ours = f->ordinal == cuda->base.desc.ordinal;
    CUmemAllocationProp made;
    bool mapped = false;
    wharf_status status = WHARF_OK;

    if (!f->pool && !f->legacy)
        status = is_mapped(memory->pointer, &mapped, &made);
    if (status != WHARF_OK)
        return status;
    if (mapped)
        return walk_pieces(cuda, memory);
    if (!ours)
        memory->kind = WI_FOREIGN_OTHER_DEVICE;
    else if (f->pool)
        memory->kind = f->types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                           ? WI_FOREIGN_POOL
                           : WI_FOREIGN_POOL_PRIVATE;
    else
        memory->kind = f->legacy ? WI_FOREIGN_LEGACY : without_handle(cuda);
    /* The driver tells nothing more of it from another GPU's context. */
    if (memory->kind == WI_FOREIGN_OTHER_DEVICE)
        return allocation(memory, wi_cuda_pointer((CUdeviceptr)f->start),
                          (size_t)f->bytes);
    memory->pool = wi_cuda_pointer((CUdeviceptr)f->pool);
    status = device_allocation(memory);
    memory->neighbours = memory->kind == WI_FOREIGN_LEGACY &&
                         (memory->whole < DRIVER_BLOCK ||
                          (uintptr_t)memory->base % DRIVER_BLOCK != 0);
    return status;
}

static wharf_status host_kind(const facts *f, wi_foreign *memory)
{
    CUmemAllocationProp made;
    bool mapped = false;
    wharf_status status = WHARF_OK;

    if (f->types != 0)
        status = is_mapped(memory->pointer, &mapped, &made);
    if (status != WHARF_OK)
        return status;
    memory->kind = mapped ? WI_FOREIGN_PIECES_HOST : WI_FOREIGN_PINNED;
    return allocation(memory, wi_cuda_pointer((CUdeviceptr)f->start),
                      (size_t)f->bytes);
}

static wharf_status known_kind(wi_cuda *cuda, const facts *f,
                               wi_foreign *memory)
{
    memory->id = f->id;
    if (f->managed) {
        memory->kind = WI_FOREIGN_MANAGED;
        return allocation(memory, wi_cuda_pointer((CUdeviceptr)f->start),
                          (size_t)f->bytes);
    }
    return f->type == CU_MEMORYTYPE_HOST ? host_kind(f, memory)
                                         : device_kind(cuda, f, memory);
}

static wharf_status cuda_inspect(wi_device *device, void *pointer, size_t bytes,
                                 wi_foreign *memory)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_foreign found = {.pointer = pointer, .bytes = bytes};
    facts f = {.type = 0};
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = ask(pointer, &f);
    if (status == WHARF_OK && f.type != 0)
        status = known_kind(cuda, &f, &found);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK && f.type == 0)
        status = wi_foreign_inspect_host(pointer, bytes, &found);
    if (status == WHARF_OK)
        *memory = found;
    return status;
}

static bool cuda_same(wi_device *device, const wi_foreign *memory)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    uint64_t id = 0;
    void *to = &id;
    wi_cuda_visit visit;
    int code = CUDA_ERROR_UNKNOWN;

    if (memory->id == 0 || !wi_driver_alive())
        return true;
    if (wi_cuda_enter_back(cuda, &visit) && visit.pushed)
        code = (int)wi_driver.cuPointerGetAttributes(
            1, &what, &to, (CUdeviceptr)memory->pointer);
    wi_cuda_leave(&visit);
    /* A ruined context knows nothing of any memory. */
    return code != CUDA_SUCCESS || id == memory->id;
}

/* ---- What travels -------------------------------------------------------- */

_Static_assert(sizeof(CUipcMemHandle) ==
                   sizeof(((const wi_foreign_card *)0)->opaque),
               "a legacy handle fills the card's room");
_Static_assert(sizeof(CUmemPoolPtrExportData) <=
                   sizeof(((const wi_foreign_card *)0)->opaque),
               "a pool's pointer fits the card");

static wharf_status present_legacy(const wi_foreign *memory,
                                   wi_foreign_card *card)
{
    CUipcMemHandle native = {{0}};
    wharf_status status =
        WI_CU(cuIpcGetMemHandle, (&native, (CUdeviceptr)memory->base),
              "%p, %zu bytes", (void *)memory->base, memory->whole);

    if (status == WHARF_OK)
        memcpy(card->opaque, &native, sizeof native);
    return status;
}

static wharf_status pass_pool(const wi_foreign *memory, int *fd)
{
    int got = -1;
    wharf_status status = WI_CU(cuMemPoolExportToShareableHandle,
                                (&got, (CUmemoryPool)memory->pool,
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                                "pool of %p", (void *)memory->pointer);

    if (status != WHARF_OK)
        return status;
    wi_cuda_adopt(got);
    *fd = got;
    return WHARF_OK;
}

/* The driver gives a pointer's data only once the descriptor of its pool has
 * been asked for; that need not stay open. */
static wharf_status present_pool(const wi_foreign *memory,
                                 wi_foreign_card *card)
{
    CUmemPoolPtrExportData native;
    int fd = -1;
    wharf_status status = pass_pool(memory, &fd);

    if (status != WHARF_OK)
        return status;
    wi_sys_close(&fd);
    memset(&native, 0, sizeof native);
    status = WI_CU(cuMemPoolExportPointer, (&native, (CUdeviceptr)memory->base),
                   "%p, %zu bytes", (void *)memory->base, memory->whole);
    if (status == WHARF_OK)
        memcpy(card->opaque, &native, sizeof native);
    return status;
}

static wharf_status cuda_present(wi_device *device, const wi_foreign *memory,
                                 wi_foreign_card *card)
{
    wi_foreign_card made = {
        .kind = (uint32_t)memory->kind,
        .pieces = memory->pieces,
        .offset = (uint64_t)(memory->pointer - memory->base),
        .bytes = memory->bytes,
        .whole = memory->whole,
        .id = memory->id,
    };
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(wi_cuda_of(device), &visit);

    if (status != WHARF_OK)
        return status;
    if (memory->kind == WI_FOREIGN_LEGACY)
        status = present_legacy(memory, &made);
    else if (memory->kind == WI_FOREIGN_POOL)
        status = present_pool(memory, &made);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        *card = made;
    return status;
}

/* The piece around `at`: its descriptor, and its end in *next. */
static wharf_status pass_piece(const char *at, uint32_t *pages, int *fd,
                               char **next)
{
    CUmemGenericAllocationHandle handle = 0;
    char *base = NULL;
    size_t bytes = 0;
    bool mapped = false;
    int got = -1;
    wharf_status status = extent(at, &base, &bytes);

    if (status == WHARF_OK && bytes > 0)
        status = retained(at, &handle, &mapped);
    if (status != WHARF_OK)
        return status;
    if (!mapped)
        return wi_fail(WHARF_ESTATE, "unmap nothing while it is attached",
                       "memory at %p was unmapped meanwhile", (const void *)at);
    status = WI_CU(cuMemExportToShareableHandle,
                   (&got, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "piece of %zu bytes at %p", bytes, (void *)base);
    WI_CU_BACK(cuMemRelease, (handle));
    if (status != WHARF_OK)
        return status;
    wi_cuda_adopt(got);
    *fd = got;
    *pages = (uint32_t)(bytes / WI_FOREIGN_PAGE);
    *next = base + bytes;
    return WHARF_OK;
}

static wharf_status pass_pieces(const wi_foreign *memory, char **cursor,
                                uint32_t *pages, int *fds, int *count)
{
    const char *end = memory->pointer + memory->bytes;
    char *at = *cursor ? *cursor : memory->pointer;
    wharf_status status = WHARF_OK;
    int n = 0;

    while (at < end && n < *count && status == WHARF_OK) {
        status = pass_piece(at, &pages[n], &fds[n], &at);
        n += status == WHARF_OK;
    }
    if (status != WHARF_OK) {
        while (n > 0)
            wi_sys_close(&fds[--n]);
        return status;
    }
    *cursor = at;
    *count = n;
    return WHARF_OK;
}

static wharf_status cuda_pass(wi_device *device, const wi_foreign *memory,
                              char **cursor, uint32_t *pages, int *fds,
                              int *count)
{
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(wi_cuda_of(device), &visit);

    if (status != WHARF_OK)
        return status;
    if (memory->kind == WI_FOREIGN_POOL) {
        status = pass_pool(memory, fds);
        pages[0] = 0;
        if (status == WHARF_OK)
            *count = 1;
    } else {
        status = pass_pieces(memory, cursor, pages, fds, count);
    }
    wi_cuda_leave(&visit);
    return status;
}

/* ---- Mirrors ------------------------------------------------------------- */

/* Copies of pageable memory are not ordered by a stream, so the stream is
 * waited for and the CPU copies: a mirror is host memory in any case. */
static wharf_status cuda_copy(wi_device *device, wharf_stream stream,
                              const wi_foreign *memory, void *to,
                              const void *from, size_t bytes)
{
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_check_stream(device, stream);

    if (status == WHARF_OK)
        status = wi_cuda_enter(wi_cuda_of(device), &visit);
    if (status != WHARF_OK)
        return status;
    if (memory->pageable)
        status = WI_CU(cuStreamSynchronize, (stream), "before a copy of %p",
                       (void *)memory->pointer);
    else
        status = WI_CU(cuMemcpyAsync,
                       ((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream),
                       "%zu bytes from %p to %p", bytes, from, to);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK && memory->pageable) {
        memcpy(to, from, bytes);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    return status;
}

const wi_foreign_ops wi_foreign_cuda = {
    .inspect = cuda_inspect,
    .present = cuda_present,
    .pass = cuda_pass,
    .open = wi_cuda_foreign_open,
    .add = wi_cuda_foreign_add,
    .map = wi_cuda_foreign_map,
    .close = wi_cuda_foreign_close,
    .same = cuda_same,
    .copy = cuda_copy,
};
