/* SPDX-License-Identifier: MIT */
/* Memory of every kind: see t_memory.h. */
#include "t_memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t_device.h"
#include "t_driver.h"

/* Layouts of cuda.h, spelled plainly. */
typedef struct location {
    int type; /* 1: device */
    int id;
} location;

typedef struct allocation_prop {
    int type; /* 1: pinned */
    int handle_types;
    location where;
    void *unused;
    unsigned char flags[8];
} allocation_prop;

typedef struct access_desc {
    location where;
    int flags; /* 3: read and write */
} access_desc;

typedef struct pool_props {
    int type;
    int handle_types;
    location where;
    void *unused;
    size_t most;
    unsigned char reserved[56];
} pool_props;

enum { PINNED = 1, DEVICE = 1, DESCRIPTOR = 1, READ_WRITE = 3 };

static struct {
    int (*alloc)(t_device_ptr *, size_t);
    int (*free)(t_device_ptr);
    int (*alloc_host)(void **, size_t, unsigned);
    int (*free_host)(void *);
    int (*register_host)(void *, size_t, unsigned);
    int (*unregister_host)(void *);
    int (*alloc_managed)(t_device_ptr *, size_t, unsigned);
    int (*alloc_async)(t_device_ptr *, size_t, void *);
    int (*alloc_pool)(t_device_ptr *, size_t, void *, void *);
    int (*free_async)(t_device_ptr, void *);
    int (*pool_create)(void **, const pool_props *);
    int (*pool_destroy)(void *);
    int (*synchronize)(void *);
    int (*granularity)(size_t *, const allocation_prop *, int);
    int (*create)(unsigned long long *, size_t, const allocation_prop *,
                  unsigned long long);
    int (*release)(unsigned long long);
    int (*reserve)(t_device_ptr *, size_t, size_t, t_device_ptr,
                   unsigned long long);
    int (*unreserve)(t_device_ptr, size_t);
    int (*map)(t_device_ptr, size_t, size_t, unsigned long long,
               unsigned long long);
    int (*unmap)(t_device_ptr, size_t);
    int (*set_access)(t_device_ptr, size_t, const access_desc *, size_t);
    int (*primary_retain)(void **, int);
    int (*primary_release)(int);
    int (*get_handle)(t_handle *, t_device_ptr);
    int (*open_handle)(t_device_ptr *, t_handle, unsigned);
    int (*close_handle)(t_device_ptr);
    bool loaded;
} cu;

static void load(void)
{
    if (cu.loaded)
        return;
    t_driver_find("cuMemAlloc_v2", &cu.alloc);
    t_driver_find("cuMemFree_v2", &cu.free);
    t_driver_find("cuMemHostAlloc", &cu.alloc_host);
    t_driver_find("cuMemFreeHost", &cu.free_host);
    t_driver_find("cuMemHostRegister_v2", &cu.register_host);
    t_driver_find("cuMemHostUnregister", &cu.unregister_host);
    t_driver_find("cuMemAllocManaged", &cu.alloc_managed);
    t_driver_find("cuMemAllocAsync", &cu.alloc_async);
    t_driver_find("cuMemAllocFromPoolAsync", &cu.alloc_pool);
    t_driver_find("cuMemFreeAsync", &cu.free_async);
    t_driver_find("cuMemPoolCreate", &cu.pool_create);
    t_driver_find("cuMemPoolDestroy", &cu.pool_destroy);
    t_driver_find("cuStreamSynchronize", &cu.synchronize);
    t_driver_find("cuMemGetAllocationGranularity", &cu.granularity);
    t_driver_find("cuMemCreate", &cu.create);
    t_driver_find("cuMemRelease", &cu.release);
    t_driver_find("cuMemAddressReserve", &cu.reserve);
    t_driver_find("cuMemAddressFree", &cu.unreserve);
    t_driver_find("cuMemMap", &cu.map);
    t_driver_find("cuMemUnmap", &cu.unmap);
    t_driver_find("cuMemSetAccess", &cu.set_access);
    t_driver_find("cuDevicePrimaryCtxRetain", &cu.primary_retain);
    t_driver_find("cuDevicePrimaryCtxRelease_v2", &cu.primary_release);
    t_driver_find("cuIpcGetMemHandle", &cu.get_handle);
    t_driver_find("cuIpcOpenMemHandle_v2", &cu.open_handle);
    t_driver_find("cuIpcCloseMemHandle", &cu.close_handle);
    cu.loaded = true;
}

const char *t_kind_name(t_kind kind)
{
    static const char *const names[T_KINDS] = {
        "plain",  "small",      "pieces",  "pool",  "host",    "shared",
        "pinned", "registered", "managed", "async", "private", "other device"};

    return names[kind];
}

bool t_kind_on_host(t_kind kind)
{
    return kind == T_KIND_HOST || kind == T_KIND_SHARED ||
           kind == T_KIND_PINNED || kind == T_KIND_REGISTERED;
}

bool t_kind_possible(const wharf_node *node, t_kind kind)
{
    if (wharf_node_backend(node) == WHARF_BACKEND_HOST)
        return kind == T_KIND_HOST || kind == T_KIND_SHARED;
    return kind != T_KIND_OTHER_DEVICE || t_device_count(node) > 1;
}

static char *at(t_device_ptr pointer)
{
    return (char *)(uintptr_t)pointer;
}

/* ---- Mapped pieces ------------------------------------------------------- */

static int pieces_most = 8;

void t_memory_pieces(int most)
{
    pieces_most = most < T_PIECES_MOST ? most : T_PIECES_MOST;
}

static void map_piece(t_memory *m, const allocation_prop *prop, char *to,
                      size_t bytes)
{
    unsigned long long handle = 0;

    t_driver_must(cu.create(&handle, bytes, prop, 0), "cuMemCreate");
    t_driver_must(cu.map(t_driver_address(to), bytes, 0, handle, 0),
                  "cuMemMap");
    t_driver_must(cu.release(handle), "cuMemRelease");
    m->piece[m->pieces++] = bytes;
}

/* One granule, two, one, two, ... and what is left in the last one. */
static void map_pieces(const wharf_node *node, t_memory *m, int handle_types)
{
    allocation_prop prop = {.type = PINNED,
                            .handle_types = handle_types,
                            .where = {DEVICE, t_context_device(node)}};
    access_desc access = {prop.where, READ_WRITE};
    t_device_ptr base = 0;
    size_t unit = 0;

    t_driver_must(cu.granularity(&unit, &prop, 0),
                  "cuMemGetAllocationGranularity");
    m->whole = (m->whole + unit - 1) / unit * unit;
    t_driver_must(cu.reserve(&base, m->whole, 0, 0, 0), "cuMemAddressReserve");
    m->base = at(base);
    for (size_t done = 0; done < m->whole;) {
        size_t bytes = m->pieces % 2 == 0 ? unit : 2 * unit;

        if (m->pieces + 1 == pieces_most || bytes > m->whole - done)
            bytes = m->whole - done;
        map_piece(m, &prop, m->base + done, bytes);
        done += bytes;
    }
    t_driver_must(cu.set_access(base, m->whole, &access, 1), "cuMemSetAccess");
}

static void unmap_pieces(t_memory *m)
{
    char *to = m->base;

    for (int i = 0; i < m->pieces; i++) {
        t_driver_must(cu.unmap(t_driver_address(to), m->piece[i]),
                      "cuMemUnmap");
        to += m->piece[i];
    }
    t_driver_must(cu.unreserve(t_driver_address(m->base), m->whole),
                  "cuMemAddressFree");
}

/* ---- The others ---------------------------------------------------------- */

static void alloc_pool(const wharf_node *node, t_memory *m)
{
    pool_props props = {.type = PINNED,
                        .handle_types = DESCRIPTOR,
                        .where = {DEVICE, t_context_device(node)}};
    t_device_ptr base = 0;

    t_driver_must(cu.pool_create(&m->pool, &props), "cuMemPoolCreate");
    t_driver_must(cu.alloc_pool(&base, m->whole, m->pool, NULL),
                  "cuMemAllocFromPoolAsync");
    t_driver_must(cu.synchronize(NULL), "cuStreamSynchronize");
    m->base = at(base);
}

static int other_device(const wharf_node *node)
{
    return t_context_device(node) == 0 ? 1 : 0;
}

static void alloc_other(const wharf_node *node, t_memory *m)
{
    uintptr_t before = t_context_current(node);
    t_device_ptr base = 0;

    t_driver_must(cu.primary_retain(&m->context, other_device(node)),
                  "cuDevicePrimaryCtxRetain");
    t_context_set(node, (uintptr_t)m->context);
    t_driver_must(cu.alloc(&base, m->whole), "cuMemAlloc");
    m->base = at(base);
    t_dev_fill(node, m->base, 0x5b, m->whole);
    t_context_set(node, before);
}

static void free_other(const wharf_node *node, t_memory *m)
{
    uintptr_t before = t_context_current(node);

    t_context_set(node, (uintptr_t)m->context);
    t_driver_must(cu.free(t_driver_address(m->base)), "cuMemFree");
    t_context_set(node, before);
    t_driver_must(cu.primary_release(other_device(node)),
                  "cuDevicePrimaryCtxRelease");
}

static void map_shared(t_memory *m)
{
    void *base;

    m->fd = memfd_create("t_memory", MFD_CLOEXEC);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)m->whole) != 0)
        abort();
    base = mmap(NULL, m->whole, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (base == MAP_FAILED)
        abort();
    m->base = base;
}

static void alloc_host(t_memory *m)
{
    void *base = NULL;

    if (posix_memalign(&base, 4096, m->whole) != 0)
        abort();
    m->base = base;
    if (m->kind == T_KIND_REGISTERED)
        t_driver_must(cu.register_host(base, m->whole, 2), "cuMemHostRegister");
}

static void alloc(const wharf_node *node, t_memory *m)
{
    t_device_ptr base = 0;
    void *host = NULL;

    switch (m->kind) {
    case T_KIND_PLAIN:
        /* The driver's small allocations share blocks. */
        if (m->whole < 2u << 20)
            m->whole = 2u << 20;
        t_driver_must(cu.alloc(&base, m->whole), "cuMemAlloc");
        break;
    case T_KIND_SMALL:
        t_driver_must(cu.alloc(&base, m->whole), "cuMemAlloc");
        break;
    case T_KIND_MANAGED:
        t_driver_must(cu.alloc_managed(&base, m->whole, 1),
                      "cuMemAllocManaged");
        break;
    case T_KIND_ASYNC:
        t_driver_must(cu.alloc_async(&base, m->whole, NULL), "cuMemAllocAsync");
        t_driver_must(cu.synchronize(NULL), "cuStreamSynchronize");
        break;
    case T_KIND_PINNED:
        t_driver_must(cu.alloc_host(&host, m->whole, 2), "cuMemHostAlloc");
        base = t_driver_address(host);
        break;
    case T_KIND_PIECES:
        map_pieces(node, m, DESCRIPTOR);
        return;
    case T_KIND_PRIVATE:
        map_pieces(node, m, 0);
        return;
    case T_KIND_POOL:
        alloc_pool(node, m);
        return;
    case T_KIND_OTHER_DEVICE:
        alloc_other(node, m);
        return;
    case T_KIND_SHARED:
        map_shared(m);
        return;
    default:
        alloc_host(m);
        return;
    }
    m->base = at(base);
}

const wharf_node *t_memory_place(const wharf_node *node, const t_memory *memory)
{
    return t_kind_on_host(memory->kind) ? NULL : node;
}

t_memory t_memory_new(const wharf_node *node, t_kind kind, size_t offset,
                      size_t bytes, size_t rest)
{
    t_memory m = {.kind = kind, .bytes = bytes, .fd = -1};

    if (wharf_node_backend(node) == WHARF_BACKEND_CUDA)
        load();
    m.whole = offset + bytes + rest;
    alloc(node, &m);
    m.pointer = m.base + offset;
    if (kind != T_KIND_OTHER_DEVICE)
        t_dev_fill(t_memory_place(node, &m), m.base, 0x5b, m.whole);
    return m;
}

void t_memory_free(const wharf_node *node, t_memory *m)
{
    switch (m->kind) {
    case T_KIND_PLAIN:
    case T_KIND_SMALL:
    case T_KIND_MANAGED:
        t_driver_must(cu.free(t_driver_address(m->base)), "cuMemFree");
        break;
    case T_KIND_POOL:
    case T_KIND_ASYNC:
        t_driver_must(cu.free_async(t_driver_address(m->base), NULL),
                      "cuMemFreeAsync");
        t_driver_must(cu.synchronize(NULL), "cuStreamSynchronize");
        if (m->pool != NULL)
            t_driver_must(cu.pool_destroy(m->pool), "cuMemPoolDestroy");
        break;
    case T_KIND_PINNED:
        t_driver_must(cu.free_host(m->base), "cuMemFreeHost");
        break;
    case T_KIND_PIECES:
    case T_KIND_PRIVATE:
        unmap_pieces(m);
        break;
    case T_KIND_OTHER_DEVICE:
        free_other(node, m);
        break;
    case T_KIND_SHARED:
        munmap(m->base, m->whole);
        close(m->fd);
        break;
    default:
        if (m->kind == T_KIND_REGISTERED)
            t_driver_must(cu.unregister_host(m->base), "cuMemHostUnregister");
        free(m->base);
        break;
    }
    m->base = m->pointer = NULL;
}

/* ---- Handles of the program's own ---------------------------------------- */

t_handle t_memory_handle(const t_memory *memory)
{
    t_handle handle;

    t_driver_must(cu.get_handle(&handle, t_driver_address(memory->base)),
                  "cuIpcGetMemHandle");
    return handle;
}

void *t_handle_open(t_handle handle)
{
    t_device_ptr opened = 0;

    t_driver_must(cu.open_handle(&opened, handle, 1), "cuIpcOpenMemHandle");
    return at(opened);
}

void t_handle_close(void *opened)
{
    t_driver_must(cu.close_handle(t_driver_address(opened)),
                  "cuIpcCloseMemHandle");
}
