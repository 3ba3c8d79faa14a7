/* SPDX-License-Identifier: MIT */
/*
 * The devices seam: one table of operations for each backend, one for each
 * kind of memory. The only CUDA calls of Wharf are behind this header.
 *
 * No slot is NULL: a backend that cannot do a thing fills the slot with a
 * function that says so. Functions that fill outputs do so on success only and
 * leave the error record filled on failure (base/error.h). Functions that give
 * back return nothing, accept what half-failed, and survive a ruined context
 * and a driver that was shut down.
 *
 * Contexts: every CUDA operation makes the device's primary context current
 * for its own duration and restores what it found, on every path, and switches
 * the thread's stream-capture mode to relaxed meanwhile. `make_current` is the
 * exception.
 *
 * Threads: a wi_device may be used by any number of threads; a wi_block and a
 * wi_range by one at a time.
 */
#ifndef WI_DEVICE_DEVICE_H
#define WI_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/sync_step.h"
#include "wharf/buffer.h"
#include "wharf/node.h"
#include "wharf/status.h"

/* ---- Devices ----------------------------------------------------------- */

#define WI_CAP_VMM 0x01u       /* VMM with POSIX descriptors */
#define WI_CAP_IPC 0x02u       /* legacy memory handles */
#define WI_CAP_IPC_EVENT 0x04u /* interprocess events */
#define WI_CAP_MEM_OPS 0x08u   /* stream memory operations */
#define WI_CAP_MAP_HOST 0x10u  /* can map page-locked host memory */
#define WI_CAP_MPS 0x20u       /* this process runs under MPS */
#define WI_CAP_FABRIC 0x40u    /* attribute only: what works is tried */
#define WI_CAP_HOST_VMM 0x80u  /* the same, VMM for memory of the host */

/* One device as one process sees it. Plain data; travels between ranks. */
typedef struct wi_device_desc {
    unsigned char uuid[16];
    int32_t ordinal;    /* in the process that enumerated it */
    int32_t mig;        /* 1: a MIG instance */
    int32_t exclusive;  /* 1: compute mode allows one process only */
    int32_t prohibited; /* 1: compute mode allows none */
    uint32_t caps;      /* WI_CAP_... */
    int32_t compute_major, compute_minor;
    int32_t driver_version; /* as cuDriverGetVersion, 13000 for 13.0 */
    uint64_t memory_bytes;
    char pci[16]; /* "0000:06:00.0" */
    char name[64];
} wi_device_desc;

/* How one device reaches another one. */
typedef struct wi_peer {
    bool reachable;
    bool known;      /* false: nobody told, reachable until an attach fails */
    int nvlinks;     /* 0: none or unknown */
    bool nvlink;     /* native atomics over the link: NVLink, not PCIe */
    char reason[96]; /* why not, or what was asked */
} wi_peer;

typedef struct wi_device wi_device;
typedef struct wi_event wi_event;

#define WI_EVENT_HANDLE_BYTES 64

/* ---- Signals between streams ------------------------------------------- */

typedef enum wi_sync_how {
    WI_SYNC_KERNEL = 1,  /* one small kernel; every kind */
    WI_SYNC_MEM_OPS = 2, /* one batch of stream memory operations; WRITE, WAIT
                            and EXPECT. Needs WI_CAP_MEM_OPS */
    WI_SYNC_HYBRID = 3   /* ADD by a kernel; TAKE waits by a memory operation
                            and subtracts by a kernel that finds the signal
                            there. Needs WI_CAP_MEM_OPS */
} wi_sync_how;

typedef struct wi_device_ops wi_device_ops;
typedef struct wi_memory_ops wi_memory_ops;
typedef struct wi_foreign_ops wi_foreign_ops; /* device/foreign.h */

/* Every backend's device starts with this. */
struct wi_device {
    const wi_device_ops *ops;
    wi_device_desc desc;
};

struct wi_device_ops {
    const char *name; /* "cuda", "host" */

    /* Devices this process can see: at most `most`. Loads the driver on its
     * first call; creates no context. WHARF_ENODEV says why there is none
     * (no driver, too old, mask empty, ...). */
    wharf_status (*enumerate)(wi_device_desc *devices, int most, int *count);

    /* Retains the device's primary context. */
    wharf_status (*open)(const wi_device_desc *desc, wi_device **device);
    void (*close)(wi_device *device);

    /* What was made on the device outlives its close, to the end of the
     * process: another process may still use it. */
    void (*keep)(wi_device *device);

    /* Makes the context current in the calling thread, for good. */
    wharf_status (*make_current)(wi_device *device);

    /* WHARF_OK, or WHARF_EFAULT when a kernel fault ruined the context. */
    wharf_status (*health)(wi_device *device);

    /* Can the first device reach memory of the other one, as far as this
     * process can tell? Both are found by UUID; one that is invisible here
     * makes the answer "not known, try". Needs no context and makes none. */
    void (*link)(const wi_device_desc *from, const wi_device_desc *to,
                 wi_peer *peer);

    /* Memory operations of a kind, or NULL with `reason` filled. */
    const wi_memory_ops *(*memory)(wi_device *device, wharf_handle_kind kind,
                                   char reason[96]);

    /* Synchronous small transfers, complete on return. read_words reads one
     * 64-bit word through each pointer, as cheaply as the backend can. */
    wharf_status (*write)(wi_device *device, void *to, const void *from,
                          size_t bytes);
    wharf_status (*read_words)(wi_device *device, const void *const *from,
                               int count, uint64_t *words);
    wharf_status (*fill_zero)(wi_device *device, void *to, size_t bytes);

    /* Small memory of this process's own, readable by its kernels. */
    wharf_status (*local_alloc)(wi_device *device, size_t bytes,
                                void **pointer);
    void (*local_free)(wi_device *device, void *pointer);

    /* All work of this process on the device is complete. WHARF_EFAULT if the
     * context is ruined. */
    wharf_status (*quiesce)(wi_device *device);

    /* WHARF_EARG unless the stream (NULL: the default one) belongs to the
     * device. */
    wharf_status (*check_stream)(wi_device *device, wharf_stream stream);

    /* Interprocess events. create + export at the recorder, open elsewhere
     * (export: WHARF_EUNSUPPORTED without WI_CAP_IPC_EVENT);
     * query: WHARF_OK complete, WHARF_ENOTREADY not. The host backend's events
     * are complete as soon as they are recorded. */
    wharf_status (*event_create)(wi_device *device, wi_event **event);
    wharf_status (*event_export)(wi_event *event,
                                 unsigned char handle[WI_EVENT_HANDLE_BYTES]);
    wharf_status (*event_open)(wi_device *device, const unsigned char *handle,
                               wi_event **event);
    wharf_status (*event_record)(wi_event *event, wharf_stream stream);
    wharf_status (*event_wait)(wi_event *event, wharf_stream stream);
    wharf_status (*event_query)(wi_event *event);
    void (*event_destroy)(wi_event *event);
    /* Lets go of an exported event that another process may still have open:
     * the driver keeps it until the process ends. */
    void (*event_abandon)(wi_event *event);

    /* Loads what `how` needs, and says WHARF_EUNSUPPORTED if the device cannot
     * do it. To be called before any stream can be waiting: loading may wait
     * for work of the context, which would then be waiting for us. */
    wharf_status (*sync_prepare)(wi_device *device, wi_sync_how how);

    /*
     * Enqueues steps: the signals first, then the waits (MEM_OPS: any order,
     * kept). Any count; may be captured into a graph, each replay then does
     * the same with the same values.
     *
     * timeout_ns, KERNEL only (0: none): a wait that lasts longer consumes
     * nothing, lets the stream go on, and sets *report (of report_alloc) to its
     * step's value + 1. report is NULL exactly if timeout_ns is 0.
     *
     * WHARF_EUNSUPPORTED for a timeout, or a kind of step, that `how` has not;
     * and always on the host backend, whose signals core makes itself.
     */
    wharf_status (*sync)(wi_device *device, wharf_stream stream,
                         wi_sync_how how, const wi_sync_step *steps, int count,
                         uint64_t timeout_ns, uint32_t *report);

    /* A stream of the device's own, by which read_words reads. What goes there
     * must not have to wait. NULL on the host backend. */
    wharf_stream (*own_stream)(wi_device *device);

    /* Is the stream (NULL: the default one) being captured into a graph? */
    wharf_status (*capturing)(wi_device *device, wharf_stream stream,
                              bool *capturing);

    /* Words of host memory, zero, that kernels of this process write and the
     * CPU reads, at one address for both. The CPU may go on looking after the
     * program has reset the device. */
    wharf_status (*report_alloc)(wi_device *device, size_t words,
                                 uint32_t **report);
    void (*report_free)(wi_device *device, uint32_t *report);

    /* Memory that the program had before. */
    const wi_foreign_ops *foreign;

    /* Where host memory lies, device/numa.h. */
    const struct wi_numa_ops *numa;

    /* Sums over memory, device/sum.h. */
    const struct wi_sum_ops *sums;

    /* Moving data, device/copy.h. */
    const struct wi_copy_ops *copy;
};

/* The backends: what core chooses from. */
extern const wi_device_ops wi_device_host;
extern const wi_device_ops wi_device_cuda; /* without nvcc: says so */

/* ---- Memory ------------------------------------------------------------ */

/* An owner's allocation, or a peer's import of it. */
typedef struct wi_block wi_block;

/* Address range in which blocks are mapped side by side. */
typedef struct wi_range {
    void *base;
    size_t bytes;
} wi_range;

typedef enum wi_access {
    WI_ACCESS_READ = 1,
    WI_ACCESS_READ_WRITE = 2
} wi_access;

/* Most pieces of a block that travels as fabric handles: as many as a wi_handle
 * carries, 64 bytes each. */
#define WI_FABRIC_PIECES 8

/* What travels: plain data beside descriptors. Fits a wi_parcel. */
typedef struct wi_handle {
    uint32_t kind;        /* wharf_handle_kind */
    uint32_t fds;         /* number of descriptors that go with it */
    uint64_t bytes;       /* size of the block */
    uint64_t chunk_bytes; /* size of every chunk but the last */
    uint64_t offset;      /* of the block in what the handle names */
    /* Legacy IPC handle, or a fabric handle of each piece. */
    unsigned char opaque[64 * WI_FABRIC_PIECES];
} wi_handle;

/* Most physical chunks of one block: one parcel carries its descriptors. */
#define WI_BLOCK_CHUNKS 64

struct wi_memory_ops {
    wharf_handle_kind kind;
    wharf_space space;
    bool ranges; /* blocks can be mapped side by side in a reserved range */
    int pieces;  /* most that a block's handle can name */

    /* Power of two to which block sizes and offsets in a range are rounded. */
    size_t (*granularity)(wi_device *device);

    /* Reserves addresses; `wish` NULL: anywhere, else exactly there or
     * WHARF_EUNSUPPORTED. Kinds without ranges: a range with base NULL. */
    wharf_status (*reserve)(wi_device *device, void *wish, size_t bytes,
                            wi_range *range);
    void (*unreserve)(wi_device *device, wi_range *range);

    /* Owner: physical memory of `bytes` (a multiple of the granularity), in
     * chunks of at most chunk_bytes (0: one piece). */
    wharf_status (*create)(wi_device *device, size_t bytes, size_t chunk_bytes,
                           wi_block **block);

    /* Owner: what others need. fds has room for WI_BLOCK_CHUNKS; the caller
     * closes them with wi_sys_close after sending. */
    wharf_status (*export_)(wi_device *device, wi_block *block,
                            wi_handle *handle, int *fds);

    /* Other rank: takes the fds in every case (closes them). */
    wharf_status (*import)(wi_device *device, const wi_handle *handle,
                           const int *fds, wi_block **block);

    /* Makes the block addressable, at range->base + offset for kinds with
     * ranges. Legacy imports and owners get the address that the driver
     * chooses; range is ignored. */
    wharf_status (*map)(wi_device *device, wi_block *block, wi_range *range,
                        size_t offset, wi_access access, void **pointer);

    /* Changes the access of a mapped block; WHARF_EUNSUPPORTED where the kind
     * has no protection. */
    wharf_status (*protect)(wi_device *device, wi_block *block,
                            wi_access access);

    /* Unmaps if mapped and gives the block back: for the owner its memory, for
     * others their import. NULL is ignored. */
    void (*destroy)(wi_device *device, wi_block *block);
};

#endif
