/* SPDX-License-Identifier: MIT */
/* Memory that the program had before: names, remedies, and what the system
 * tells of memory that no driver knows. */
#include "device/foreign.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/sys.h"

#define OR_STAGE ", or allow a mirror (WHARF_BUFFER_STAGE_ALLOWED)"

static const struct {
    const char *name;
    const char *remedy;
} kinds[WI_FOREIGN_KINDS] = {
    [WI_FOREIGN_NOTHING] = {"nothing", NULL},
    [WI_FOREIGN_LEGACY] = {"memory of cudaMalloc", NULL},
    [WI_FOREIGN_PIECES] = {"mapped physical memory", NULL},
    [WI_FOREIGN_POOL] = {"memory of an exportable pool", NULL},
    [WI_FOREIGN_HOST] =
        {"ordinary host memory",
         "use wharf_buffer_attach with WHARF_SPACE_HOST" OR_STAGE},
    [WI_FOREIGN_HOST_SHARED] =
        {"a shared mapping of the program's own",
         "use wharf_buffer_attach with WHARF_SPACE_HOST" OR_STAGE},
    [WI_FOREIGN_STACK] = {"memory on a stack",
                          "use memory that outlives the function" OR_STAGE},
    [WI_FOREIGN_PINNED] =
        {"page-locked host memory",
         "use wharf_buffer_attach with WHARF_SPACE_HOST" OR_STAGE},
    [WI_FOREIGN_MANAGED] = {"managed memory",
                            "allocate it with cudaMalloc" OR_STAGE},
    [WI_FOREIGN_POOL_PRIVATE] = {"memory of a pool without descriptors",
                                 "create the pool with POSIX descriptors, or "
                                 "use cudaMalloc" OR_STAGE},
    [WI_FOREIGN_PIECES_PRIVATE] = {"mapped physical memory without descriptors",
                                   "create it with POSIX descriptors as handle "
                                   "type" OR_STAGE},
    [WI_FOREIGN_PIECES_HOST] =
        {"physical host memory of the driver",
         "use wharf_buffer_attach with WHARF_SPACE_HOST" OR_STAGE},
    [WI_FOREIGN_OTHER_DEVICE] = {"memory of a GPU that is not this rank's",
                                 "let the rank of that GPU attach it" OR_STAGE},
    [WI_FOREIGN_IMPORTED] =
        {"memory opened from another process",
         "let the process that allocated it attach it" OR_STAGE},
    [WI_FOREIGN_NO_HANDLE] = {"memory of cudaMalloc, which has no handles here",
                              "use wharf_buffer_attach" OR_STAGE},
};

const char *wi_foreign_name(wi_foreign_kind kind)
{
    if (kind < WI_FOREIGN_NOTHING || kind >= WI_FOREIGN_KINDS)
        return "memory of an unknown kind";
    return kinds[kind].name;
}

wharf_status wi_foreign_refuse(const wi_foreign *memory)
{
    return wi_fail(WHARF_EUNSUPPORTED, kinds[memory->kind].remedy,
                   "%p, %zu bytes: %s cannot be opened by another process",
                   (void *)memory->pointer, memory->bytes,
                   wi_foreign_name(memory->kind));
}

wharf_status wi_foreign_within(const void *base, size_t whole,
                               const void *pointer, size_t bytes)
{
    size_t before = (size_t)((const char *)pointer - (const char *)base);
    size_t left = before < whole ? whole - before : 0;

    if (bytes <= left)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass a size that the allocation has",
                   "size %zu is beyond the allocation, which has %zu bytes "
                   "from %p on (%zu in all)",
                   bytes, left, pointer, whole);
}

/* ---- What the system tells ----------------------------------------------- */

typedef struct area {
    uintptr_t from, to;
    bool read, write, shared, stack;
} area;

/* One line of the system's list; false at its end. */
static bool next_area(FILE *maps, area *found)
{
    char line[512];
    char mode[5];
    unsigned long from, to;
    bool whole;

    do {
        if (!fgets(line, sizeof line, maps))
            return false;
        whole = strchr(line, '\n') != NULL;
        /* The rest of a long name says nothing. */
        for (int c = 0; !whole && c != '\n' && c != EOF;)
            c = fgetc(maps);
        /* NOLINTNEXTLINE(cert-err34-c): the kernel writes what fits */
    } while (sscanf(line, "%lx-%lx %4s", &from, &to, mode) != 3);
    found->from = from;
    found->to = to;
    found->read = mode[0] == 'r';
    found->write = mode[1] == 'w';
    found->shared = mode[3] == 's';
    found->stack = strstr(line, "[stack") != NULL;
    return true;
}

/* The system names the main thread's stack only. */
static bool on_own_stack(uintptr_t at)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;

    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return false;
    if (pthread_attr_getstack(&attributes, &low, &bytes) != 0)
        bytes = 0;
    pthread_attr_destroy(&attributes);
    return at - (uintptr_t)low < bytes;
}

static wharf_status maps_open(FILE **maps)
{
    int code = 0;

    *maps = NULL;
    if (wi_fault(WI_FAULT_SYS, "fopen", &code))
        errno = code;
    else
        *maps = fopen("/proc/self/maps", "re");
    return *maps ? WHARF_OK
                 : wi_fail_os(errno, NULL,
                              "/proc/self/maps, to learn what memory is there");
}

wharf_status wi_foreign_inspect_host(void *pointer, size_t bytes,
                                     wi_foreign *memory)
{
    uintptr_t at = (uintptr_t)pointer, end = at + bytes;
    wi_foreign found = {.kind = WI_FOREIGN_HOST,
                        .pointer = pointer,
                        .bytes = bytes,
                        .base = pointer,
                        .whole = bytes,
                        .pieces = 1,
                        .largest = bytes,
                        .pageable = true};
    area a;
    FILE *maps;
    wharf_status status = maps_open(&maps);

    if (status != WHARF_OK)
        return status;
    while (at < end && next_area(maps, &a) && a.from <= at) {
        if (a.to <= at)
            continue;
        if (!a.read)
            break;
        found.read_only |= !a.write;
        if (a.shared)
            found.kind = WI_FOREIGN_HOST_SHARED;
        if (a.stack)
            found.kind = WI_FOREIGN_STACK;
        at = a.to;
    }
    fclose(maps);
    if (at < end || end < (uintptr_t)pointer)
        return wi_fail(WHARF_EARG,
                       "pass memory that is allocated and was not freed",
                       "%p, %zu bytes: there is no memory from byte %zu on "
                       "(freed, never allocated, or a bad size)",
                       pointer, bytes, (size_t)(at - (uintptr_t)pointer));
    if (on_own_stack((uintptr_t)pointer))
        found.kind = WI_FOREIGN_STACK;
    *memory = found;
    return WHARF_OK;
}

/* ---- Backends that cannot ------------------------------------------------ */

static wharf_status none(void)
{
    return wi_fail(WHARF_EUNSUPPORTED, NULL,
                   "this backend shares no device memory");
}

static wharf_status none_inspect(wi_device *device, void *pointer, size_t bytes,
                                 wi_foreign *memory)
{
    (void)device;
    (void)pointer;
    (void)bytes;
    (void)memory;
    return none();
}

static wharf_status none_present(wi_device *device, const wi_foreign *memory,
                                 wi_foreign_card *card)
{
    (void)device;
    (void)memory;
    (void)card;
    return none();
}

static wharf_status none_pass(wi_device *device, const wi_foreign *memory,
                              char **cursor, uint32_t *pages, int *fds,
                              int *count)
{
    (void)device;
    (void)memory;
    (void)cursor;
    (void)pages;
    (void)fds;
    (void)count;
    return none();
}

static wharf_status none_open(wi_device *device, const wi_foreign_card *card,
                              uint64_t owner, wi_access access,
                              wi_block **block)
{
    (void)device;
    (void)card;
    (void)owner;
    (void)access;
    (void)block;
    return none();
}

static wharf_status none_add(wi_device *device, wi_block *block,
                             const uint32_t *pages, const int *fds, int count)
{
    (void)device;
    (void)block;
    (void)pages;
    for (int i = 0; i < count; i++) {
        int fd = fds[i];
        wi_sys_close(&fd);
    }
    return none();
}

static wharf_status none_map(wi_device *device, wi_block *block, void **pointer)
{
    (void)device;
    (void)block;
    (void)pointer;
    return none();
}

static void none_close(wi_device *device, wi_block *block)
{
    (void)device;
    (void)block;
}

static bool none_same(wi_device *device, const wi_foreign *memory)
{
    (void)device;
    (void)memory;
    return true;
}

static wharf_status none_copy(wi_device *device, wharf_stream stream,
                              const wi_foreign *memory, void *to,
                              const void *from, size_t bytes)
{
    (void)device;
    (void)stream;
    (void)memory;
    (void)to;
    (void)from;
    (void)bytes;
    return none();
}

const wi_foreign_ops wi_foreign_none = {
    .inspect = none_inspect,
    .present = none_present,
    .pass = none_pass,
    .open = none_open,
    .add = none_add,
    .map = none_map,
    .close = none_close,
    .same = none_same,
    .copy = none_copy,
};

/* ---- The host backend ---------------------------------------------------- */

static wharf_status host_inspect(wi_device *device, void *pointer, size_t bytes,
                                 wi_foreign *memory)
{
    (void)device;
    return wi_foreign_inspect_host(pointer, bytes, memory);
}

static wharf_status host_copy(wi_device *device, wharf_stream stream,
                              const wi_foreign *memory, void *to,
                              const void *from, size_t bytes)
{
    wharf_status status = device->ops->check_stream(device, stream);

    (void)memory;
    if (status != WHARF_OK)
        return status;
    memcpy(to, from, bytes);
    /* Ordered like everything that the host backend does. */
    return device->ops->quiesce(device);
}

const wi_foreign_ops wi_foreign_host = {
    .inspect = host_inspect,
    .present = none_present,
    .pass = none_pass,
    .open = none_open,
    .add = none_add,
    .map = none_map,
    .close = none_close,
    .same = none_same,
    .copy = host_copy,
};
