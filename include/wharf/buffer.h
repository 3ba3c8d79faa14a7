/* SPDX-License-Identifier: MIT */
/*
 * A buffer: one segment of memory a rank, every segment a plain pointer on
 * every rank.
 *
 * What one rank wrote another may read once the write is complete and the
 * reader knows: a record and a wait in streams (event.h, notify.h), or a
 * synchronize of the stream and then MPI. The return of a cudaMemcpy is not
 * enough: from pageable host memory it may return before the bytes are in the
 * GPU's memory, which shows where ranks share a GPU.
 */
#ifndef WHARF_BUFFER_H
#define WHARF_BUFFER_H

#include <stdio.h>

#include "wharf/base.h"
#include "wharf/node.h"
#include "wharf/status.h"

typedef struct wharf_buffer wharf_buffer;

/* Most buffers attached to one node at a time, most bytes of a buffer's name.
 */
#define WHARF_MAX_BUFFERS 4096
#define WHARF_MAX_BUFFER_NAME 31

/* Where segments live. */
typedef enum wharf_space {
    WHARF_SPACE_DEVICE = 0, /* memory of each rank's GPU (host backend: host) */
    WHARF_SPACE_HOST = 1    /* host memory, mapped for every rank's GPU */
} wharf_space;

/*
 * Flags of wharf_buffer_options.
 *
 *   CONTIGUOUS             segments adjacent in rank order, each size rounded
 *                          up to the granularity
 *   SAME_ADDRESS           same address on every rank, if the address ranges
 *                          allow it
 *   SAME_ADDRESS_REQUIRED  the same, or WHARF_EUNSUPPORTED
 *   ZERO                   every byte 0 after the attach
 *   READ_ONLY              only its own rank may write a segment; hardware
 *                          refuses others where it can, see
 *                          wharf_buffer_info.write_protected
 *
 * For host space alone; wharf_buffer_info tells what memory came of it and why:
 *
 *   NUMA_LOCAL             each segment lies on the NUMA node where its rank
 *                          calls the attach. Without it all of them lie where
 *                          the rank of the largest one does
 *   INTERLEAVE             the pages lie on all NUMA nodes in turn
 *   HUGE_PAGES             large pages, if the system has any
 *   WRITE_COMBINED         refused: no platform has such memory for more than
 *                          one process
 *
 * For wharf_buffer_attach_memory alone (memory.h):
 *
 *   STAGE_ALLOWED          what cannot be shared directly gets a mirror in
 *                          shared host memory
 *   EXPOSE_NEIGHBOURS      other ranks may reach what else lies in the driver's
 *                          block around the memory
 */
#define WHARF_BUFFER_CONTIGUOUS 0x1u
#define WHARF_BUFFER_SAME_ADDRESS 0x2u
#define WHARF_BUFFER_SAME_ADDRESS_REQUIRED 0x4u
#define WHARF_BUFFER_ZERO 0x8u
#define WHARF_BUFFER_READ_ONLY 0x10u
#define WHARF_BUFFER_STAGE_ALLOWED 0x20u
#define WHARF_BUFFER_EXPOSE_NEIGHBOURS 0x40u
#define WHARF_BUFFER_NUMA_LOCAL 0x80u
#define WHARF_BUFFER_INTERLEAVE 0x100u
#define WHARF_BUFFER_HUGE_PAGES 0x200u
#define WHARF_BUFFER_WRITE_COMBINED 0x400u

/* What kind of handle carries a buffer's memory between ranks. */
typedef enum wharf_handle_kind {
    WHARF_HANDLE_MEMFD = 0,    /* host memory, a descriptor */
    WHARF_HANDLE_VMM = 1,      /* CUDA physical memory, descriptors */
    WHARF_HANDLE_IPC = 2,      /* legacy CUDA IPC handle */
    WHARF_HANDLE_POOL = 3,     /* memory of a caller's exportable CUDA pool */
    WHARF_HANDLE_HOST_VMM = 4, /* CUDA physical memory of the host,
                                  descriptors */
    WHARF_HANDLE_FABRIC = 5    /* CUDA physical memory, fabric handles */
} wharf_handle_kind;

/** Options of an attach. Start from WHARF_BUFFER_OPTIONS_INIT. They must agree
 * on all ranks, the name included. */
typedef struct wharf_buffer_options {
    size_t struct_size;
    wharf_space space;
    unsigned flags;   /* WHARF_BUFFER_... or-ed */
    const char *name; /* for logs and listings, up to WHARF_MAX_BUFFER_NAME
                         bytes; NULL: none */
} wharf_buffer_options;

#define WHARF_BUFFER_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(wharf_buffer_options), WHARF_SPACE_DEVICE, 0, NULL              \
    }

/* How the calling rank reaches one segment. Start from WHARF_BUFFER_INFO_INIT.
 */
typedef struct wharf_buffer_info {
    size_t struct_size;
    wharf_handle_kind handle;
    wharf_space space;     /* where the memory really is */
    wharf_path path;       /* from the calling rank to the segment's rank */
    int owner;             /* node rank that allocated it, or whose memory it
                              is; -1: it is empty */
    int chunks;            /* physical pieces of the block it lies in */
    uint64_t chunk_bytes;  /* size of each of them but the last */
    uint64_t mapped_bytes; /* bytes the calling rank has mapped for the whole
                              buffer */
    int same_address;      /* 1: at the same address on every rank */
    int write_protected;   /* 1: the caller cannot write it, the hardware
                              refuses */
    int pooled;            /* 1: this attach reused kept mappings */
    char reason[WHARF_MAX_REASON + 1]; /* why this kind and path */
    int existing;                      /* 1: memory that its rank had before
                                          (wharf_buffer_attach_memory) */
    int mirrored;                      /* 1: other ranks see a copy of it, see
                                          wharf_buffer_sync_to */
} wharf_buffer_info;

#define WHARF_BUFFER_INFO_INIT                                                 \
    {                                                                          \
        sizeof(wharf_buffer_info), WHARF_HANDLE_MEMFD, WHARF_SPACE_DEVICE,     \
            WHARF_PATH_SAME_PROCESS, 0, 0, 0, 0, 0, 0, 0, {0}, 0, 0            \
    }

WHARF_BEGIN_DECLS

/**
 * Attaches a buffer: every rank gives the size of its segment and gets a
 * pointer to every rank's segment.
 *
 * Collective on node. Segments start 256-byte aligned (granularity aligned
 * with CONTIGUOUS or READ_ONLY). Contents are undefined unless
 * WHARF_BUFFER_ZERO: they may be what ranks of this node left in a buffer
 * detached before. What the owner of new memory wrote is read back through
 * every mapping before the call returns. On failure every rank returns the same
 * status, nothing stays allocated and the next attach works.
 *
 * @param node    an open node
 * @param size    bytes of the caller's segment, may be 0 and differ by rank;
 *                at most 64 TiB for all ranks together
 * @param options NULL for defaults
 * @param[out] buffer the buffer, to be given to wharf_buffer_detach; untouched
 *                    on failure
 * @return WHARF_OK; WHARF_EARG (NULL, unknown flag, size overflow);
 *         WHARF_EMISMATCH; WHARF_ESTATE; WHARF_ENOMEM, WHARF_EDEVMEM;
 *         WHARF_EUNSUPPORTED (SAME_ADDRESS_REQUIRED, CONTIGUOUS over legacy
 *         handles, WRITE_COMBINED); WHARF_EDEGRADED (strict); WHARF_ELIMIT;
 *         WHARF_EDATA; WHARF_EDRIVER, WHARF_EOS; WHARF_ETIMEDOUT; WHARF_EPEER,
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_attach(wharf_node *node, size_t size,
                    const wharf_buffer_options *options, wharf_buffer **buffer);

/**
 * Attaches several buffers in one exchange: all or none.
 *
 * Collective on node. As wharf_buffer_attach for each, for the cost of little
 * more than one.
 *
 * @param node    an open node
 * @param count   number of buffers, 1 .. 64, the same on all ranks
 * @param sizes   count sizes of the caller's segments, bytes
 * @param options count options, or NULL for defaults
 * @param[out] buffers count buffers; untouched on failure
 * @return as wharf_buffer_attach
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_attach_many(
    wharf_node *node, int count, const size_t *sizes,
    const wharf_buffer_options *options, wharf_buffer **buffers);

/**
 * Detaches a buffer: waits for the caller's own GPU work, closes every rank's
 * imports, then frees at the owners.
 *
 * Collective on the buffer's node, in the order of the other collectives. All
 * work of the calling process on its GPU is complete before the memory goes.
 * If a rank does not come before the deadline, or is dead, the call names it;
 * memory which that rank may still use is kept, counted (wharf_stats
 * kept_bytes) and given back at exit.
 *
 * @param[in,out] buffer set to NULL, except on WHARF_EMISMATCH and while it is
 *                       lent to workers
 * @return WHARF_OK; WHARF_EARG (NULL); WHARF_ESTATE (detached before; a rank
 *         lends it to a worker: nothing was done);
 *         WHARF_EMISMATCH (ranks are in different calls: nothing was done);
 *         WHARF_ETIMEDOUT; WHARF_EPEER; WHARF_EFAULT (context was ruined, all
 *         is released all the same)
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_detach(wharf_buffer **buffer);

/**
 * Pointer and size of a rank's segment, as the calling rank sees it.
 *
 * Local, any thread. Device space: a device pointer. Host space: valid on the
 * CPU and on the caller's GPU.
 *
 * @param buffer an attached buffer
 * @param rank 0 .. node size - 1
 * @param[out] pointer NULL for a segment of size 0; the argument may be NULL
 * @param[out] size    bytes asked for by that rank; the argument may be NULL
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_segment(
    const wharf_buffer *buffer, int rank, void **pointer, size_t *size);

/**
 * Start and whole size of the address range that holds all segments.
 *
 * Local, any thread. With CONTIGUOUS, size covers every segment without gaps
 * and is the sum of the rounded sizes. Legacy handles have no common range:
 * WHARF_EUNSUPPORTED if more than one GPU holds segments, or with READ_ONLY.
 *
 * @param buffer an attached buffer
 * @param[out] base the lowest address; NULL if every segment is empty
 * @param[out] size bytes
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EUNSUPPORTED
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_base(const wharf_buffer *buffer, void **base, size_t *size);

/**
 * How the calling rank reaches a segment, and why so.
 *
 * Local, any thread.
 *
 * @param buffer an attached buffer
 * @param rank 0 .. node size - 1
 * @param[in,out] info started from WHARF_BUFFER_INFO_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_info_get(
    const wharf_buffer *buffer, int rank, wharf_buffer_info *info);

/**
 * A table of all segment pointers, in rank order, readable by the caller's
 * kernels (in device memory; on the host backend in host memory).
 *
 * Local, any thread. Made at the first call. Owned by the buffer.
 *
 * @param buffer an attached buffer
 * @param[out] table node size pointers, as wharf_buffer_segment gives them
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EDEVMEM; WHARF_EDRIVER
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_buffer_pointer_table(wharf_buffer *buffer, void *const **table);

/**
 * The unit to which CONTIGUOUS and READ_ONLY round segment sizes.
 *
 * Local, any thread. A power of two, the same on all ranks of a node.
 *
 * @param node  an open node
 * @param space where the buffer would live
 * @param[out] bytes the granularity
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EUNSUPPORTED (no memory of
 *         this space can be shared on this node)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_buffer_granularity(
    const wharf_node *node, wharf_space space, size_t *bytes);

/**
 * Gives back all blocks that the node keeps mapped for reuse.
 *
 * Collective on node.
 *
 * @param node an open node
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE; WHARF_EMISMATCH; WHARF_ETIMEDOUT;
 *         WHARF_EPEER
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_pool_trim(wharf_node *node);

/**
 * The name of a handle kind, such as "vmm".
 *
 * Local, any thread.
 *
 * @param kind any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_handle_kind_name(wharf_handle_kind kind);

WHARF_END_DECLS

#endif
