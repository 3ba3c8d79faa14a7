/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program had before Wharf: what it is, how it gets to other
 * processes, how it is copied to and from a mirror. A part of the devices seam,
 * pointed to by wi_device_ops.foreign.
 *
 * Nothing here ever frees or changes the program's memory. Rules of device.h
 * hold: outputs on success only, contexts restored, no slot NULL.
 */
#ifndef WI_DEVICE_FOREIGN_H
#define WI_DEVICE_FOREIGN_H

#include "device/device.h"

/* What a piece of memory is. Those up to POOL are shared directly. */
typedef enum wi_foreign_kind {
    WI_FOREIGN_NOTHING = 0, /* no byte */
    WI_FOREIGN_LEGACY,      /* cuMemAlloc: a legacy handle */
    WI_FOREIGN_PIECES,      /* cuMemMap: descriptors, one a piece */
    WI_FOREIGN_POOL,        /* of a pool with descriptors */
    WI_FOREIGN_HOST,        /* ordinary memory of the process */
    WI_FOREIGN_HOST_SHARED, /* a shared mapping of the program's own */
    WI_FOREIGN_STACK,
    WI_FOREIGN_PINNED, /* page-locked by the driver */
    WI_FOREIGN_MANAGED,
    WI_FOREIGN_POOL_PRIVATE,   /* of a pool without descriptors */
    WI_FOREIGN_PIECES_PRIVATE, /* cuMemMap without descriptors */
    WI_FOREIGN_PIECES_HOST,    /* cuMemMap of host memory */
    WI_FOREIGN_OTHER_DEVICE,   /* of a GPU that is not this rank's */
    WI_FOREIGN_IMPORTED,       /* opened from another process */
    WI_FOREIGN_NO_HANDLE,      /* cuMemAlloc where there are no handles */
    WI_FOREIGN_KINDS
} wi_foreign_kind;

/* One piece of memory, as its own process knows it. */
typedef struct wi_foreign {
    wi_foreign_kind kind;
    char *pointer;
    size_t bytes;
    char *base;      /* of the allocation, or of the first physical piece */
    size_t whole;    /* bytes from there on that another process opens */
    uint64_t id;     /* the driver's number of the allocation, 0: none */
    uint32_t pieces; /* that the bytes lie in */
    size_t largest;  /* of them, bytes */
    bool neighbours; /* its handle opens memory of other allocations too */
    bool read_only;  /* the process itself may not write it */
    bool pageable;   /* copies of it are not ordered by a stream */
    void *pool;      /* driver's handle, of pool memory */
} wi_foreign;

/* What travels of memory that is shared directly, descriptors aside. */
typedef struct wi_foreign_card {
    uint32_t kind;
    uint32_t pieces;
    uint64_t offset; /* of the memory in what is opened */
    uint64_t bytes;
    uint64_t whole; /* bytes that are opened */
    uint64_t id;
    unsigned char opaque[64];
} wi_foreign_card;

/* Most descriptors that pass and add take at a time, and the unit in which
 * sizes of physical pieces travel. */
#define WI_FOREIGN_PASS 60
#define WI_FOREIGN_PAGE 4096

/* Most physical pieces of one segment. */
#define WI_FOREIGN_PIECES_MOST 65536

typedef struct wi_foreign_ops {
    /* What is there? WHARF_EARG if some of the bytes are no memory of this
     * process, or lie beyond the allocation. bytes > 0. */
    wharf_status (*inspect)(wi_device *device, void *pointer, size_t bytes,
                            wi_foreign *memory);

    /* Owner of memory of a direct kind: what travels first. */
    wharf_status (*present)(wi_device *device, const wi_foreign *memory,
                            wi_foreign_card *card);

    /* Owner, PIECES and POOL: descriptors of the next pieces, at most *count,
     * which is 1 to WI_FOREIGN_PASS, and their sizes in pages; *count gets how
     * many. *cursor is NULL before the first call. The caller closes the
     * descriptors (wi_sys_close). */
    wharf_status (*pass)(wi_device *device, const wi_foreign *memory,
                         char **cursor, uint32_t *pages, int *fds, int *count);

    /* Other rank: begins to open. `owner` is a number of the process that the
     * card came from, different for each. */
    wharf_status (*open)(wi_device *device, const wi_foreign_card *card,
                         uint64_t owner, wi_access access, wi_block **block);

    /* Other rank: takes what pass gave, in its order; closes the fds in every
     * case. */
    wharf_status (*add)(wi_device *device, wi_block *block,
                        const uint32_t *pages, const int *fds, int count);

    /* Other rank, once all descriptors are there: where the memory is. */
    wharf_status (*map)(wi_device *device, wi_block *block, void **pointer);

    /* Gives an opened block back, in whatever state. NULL is ignored. */
    void (*close)(wi_device *device, wi_block *block);

    /* Owner: is it still the allocation that was inspected? */
    bool (*same)(wi_device *device, const wi_foreign *memory);

    /* Copies between `memory` and its mirror: in the stream, or at once where
     * the memory is pageable. Which of the two is `to` is the caller's. */
    wharf_status (*copy)(wi_device *device, wharf_stream stream,
                         const wi_foreign *memory, void *to, const void *from,
                         size_t bytes);
} wi_foreign_ops;

extern const wi_foreign_ops wi_foreign_host; /* foreign.c */
extern const wi_foreign_ops wi_foreign_cuda; /* cuda_foreign.c */
extern const wi_foreign_ops wi_foreign_none; /* foreign.c: of no device */

/* ---- For both backends (foreign.c) --------------------------------------- */

static inline bool wi_foreign_direct(wi_foreign_kind kind)
{
    return kind >= WI_FOREIGN_LEGACY && kind <= WI_FOREIGN_POOL;
}

/* "managed memory" */
const char *wi_foreign_name(wi_foreign_kind kind);

/* WHARF_EUNSUPPORTED with the name of the kind and what to do. */
wharf_status wi_foreign_refuse(const wi_foreign *memory);

/* inspect for memory that no driver knows. */
wharf_status wi_foreign_inspect_host(void *pointer, size_t bytes,
                                     wi_foreign *memory);

/* WHARF_OK if the bytes lie within `whole` bytes from base on. */
wharf_status wi_foreign_within(const void *base, size_t whole,
                               const void *pointer, size_t bytes);

#endif
