/* SPDX-License-Identifier: MIT */
/*
 * Inside the fake driver: the objects, and who may touch them when.
 *
 * One mutex, fc.lock, guards every object of the process. An entry point takes
 * it in fc_begin and gives it back in fc_end; the thread of a stream takes it
 * between operations and lets go while an operation runs. What is shared with
 * other processes (headers of allocations, event states, the state file) has
 * its own locks or is atomic; order: fc.lock, then those.
 * Device memory is mapped twice: its device address lies in a range that the
 * CPU cannot touch, so a host access through a device pointer faults here as
 * it does with a GPU; the bytes themselves are mapped elsewhere, and every
 * access goes through fc_pin, which checks the rights of the device.
 */
#ifndef FC_FAKE_H
#define FC_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#pragma GCC visibility push(default)
#include <cuda.h>

#include "fake_cuda.h"
#pragma GCC visibility pop

#define FC_MAX_DEVICES 64
#define FC_HOST_ARENA FC_MAX_DEVICES /* index of the arena for host memory */
#define FC_BLOCK (2u << 20)          /* small allocations share such blocks */
#define FC_UNIT 512u                 /* granularity within a block */
#define FC_SMALL (1u << 20)          /* from here on: a block of its own */
#define FC_OPENERS 512

/* ---- Configuration (config.c) ------------------------------------------- */

#define FC_CAP_NO_VMM 0x0001u
#define FC_CAP_NO_MEMOPS 0x0002u
#define FC_CAP_NO_IPC_EVENT 0x0004u
#define FC_CAP_NO_IPC 0x0008u
#define FC_CAP_EXCLUSIVE 0x0010u
#define FC_CAP_OLD_DRIVER 0x0020u
#define FC_CAP_MPS 0x0040u
#define FC_CAP_FABRIC 0x0080u
#define FC_CAP_MIG 0x0100u
#define FC_CAP_NO_FD 0x0200u
#define FC_CAP_NO_MAP_HOST 0x0400u
#define FC_CAP_NO_POOLS 0x0800u
#define FC_CAP_REVERSE_PCI 0x1000u
#define FC_CAP_PROHIBITED 0x2000u
#define FC_CAP_FABRIC_DENIED 0x4000u
#define FC_CAP_NO_HOST_VMM 0x8000u
#define FC_CAP_HOST_VMM_DENIED 0x10000u
#define FC_CAP_MEMLOCK 0x20000u
#define FC_CAP_FABRIC_NO_EXPORT 0x80000u
#define FC_CAP_FABRIC_NO_IMPORT 0x100000u
#define FC_CAP_FABRIC_UNSAID 0x200000u
/* With any of the switches but "denied" memory can be made. */
#define FC_CAP_FABRIC_MADE 0x380080u

typedef struct fc_ctx fc_ctx;
typedef struct fc_stream fc_stream;
typedef struct fc_event fc_event;
typedef struct fc_op fc_op;
typedef struct fc_phys fc_phys;
typedef struct fc_graph fc_graph;
typedef struct fc_capture fc_capture;

typedef struct fc_device {
    CUuuid uuid;   /* of the MIG instance in MIG mode */
    CUuuid parent; /* of the whole GPU */
    char pci[16];
    int bus;
    char name[96];
    bool denied;
    bool prohibited; /* by its compute mode */
    uint64_t peers;  /* attribute says yes, by physical index */
    uint64_t broken; /* and data does not arrive */
    fc_ctx *primary;
    uint64_t primary_handle; /* of the first and of all later ones; 0: none */
    int primary_refs;        /* a reset leaves them */
    unsigned primary_flags;
} fc_device;

typedef struct fc_config {
    unsigned caps;
    int driver_version;
    int gpus; /* physical index 0..gpus-1 */
    uint64_t memory;
    size_t granularity;
    bool lenient;
    const char *state_path;
} fc_config;

/* ---- The process -------------------------------------------------------- */

typedef enum fc_kind {
    FC_K_CTX = 1,
    FC_K_STREAM,
    FC_K_EVENT,
    FC_K_HANDLE, /* physical memory: CUmemGenericAllocationHandle */
    FC_K_MODULE,
    FC_K_LIBRARY,
    FC_K_FUNCTION,
    FC_K_KERNEL,
    FC_K_GRAPH,
    FC_K_NODE,
    FC_K_EXEC,
    FC_K_POOL
} fc_kind;

typedef enum fc_live_kind {
    FC_L_CONTEXT,
    FC_L_ALLOCATION,
    FC_L_HANDLE,
    FC_L_RESERVATION,
    FC_L_MAPPING,
    FC_L_IPC_MEMORY,
    FC_L_IPC_EVENT,
    FC_L_STREAM,
    FC_L_EVENT,
    FC_L_HOST_ALLOCATION,
    FC_L_HOST_REGISTRATION,
    FC_L_MODULE,
    FC_L_LIBRARY,
    FC_L_GRAPH,
    FC_L_EXEC,
    FC_L_POOL,
    FC_L_KINDS
} fc_live_kind;

typedef struct fc_global {
    pthread_mutex_t lock;
    bool inited;
    bool deinited;
    pid_t pid;
    uint64_t start; /* of this process, from /proc */
    uint64_t cookie;
    CUresult ruined; /* 0, or what every call answers from now on */
    fc_config config;
    fc_device device[FC_MAX_DEVICES]; /* by physical index */
    int visible[FC_MAX_DEVICES];      /* ordinal -> physical index */
    int visible_count;
    uint64_t va_base, va_bytes;
    long live[FC_L_KINDS];
    long orphans[FC_L_KINDS]; /* destroyed with their context, not freed */
} fc_global;

extern fc_global fc;

void *fc_zalloc(size_t bytes); /* never NULL: a test aborts instead */
uint64_t fc_now_ns(void);
uint64_t fc_random64(void);

CUresult fc_config_read(void);
int fc_ordinal_of(int phys); /* -1: not visible */

/* ---- Checks (check.c) --------------------------------------------------- */

void fc_violate(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Under fc.lock: an illegal access by `device`; ruins the process's contexts.
 */
void fc_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fc_live(fc_live_kind kind, int change);
void fc_exit_hook(void);

#define FC_INIT 0x0u
#define FC_CTX 0x1u    /* a current context is needed */
#define FC_QUIET 0x2u  /* and lacking one is no violation */
#define FC_RUINED 0x4u /* works in a ruined process too */
#define FC_UNSAFE 0x8u /* not allowed while a stream captures */

/* Takes fc.lock on CUDA_SUCCESS only. *ctx, if wanted: current context, NULL.
 */
CUresult fc_begin(const char *call, unsigned need, fc_ctx **ctx);
CUresult fc_end(CUresult result);

/* ---- Handles (handle.c) ------------------------------------------------- */

uint64_t fc_handle_new(fc_kind kind, void *object);
void *fc_handle_peek(fc_kind kind, uint64_t handle); /* NULL, quietly */
/* CUDA_ERROR_INVALID_HANDLE, counted as a violation, or, with no new context in
 * the old one's place, CUDA_ERROR_CONTEXT_IS_DESTROYED, not counted. */
CUresult fc_handle_get(fc_kind kind, uint64_t handle, const char *call,
                       void **object);
void fc_handle_free(uint64_t handle, bool with_context);
void fc_handle_hold(uint64_t handle); /* a primary context's, for the next */
uint64_t fc_handle_again(uint64_t handle, void *object);
/* Calls `visit` for every live object of a kind; it may free that one. */
void fc_handle_each(fc_kind kind, void (*visit)(void *object, void *user),
                    void *user);

/* ---- State shared by the processes of a job (state.c) ------------------- */

CUresult fc_state_open(const char *path);
void fc_state_leave(void);
bool fc_process_alive(int pid, uint64_t start);
uint64_t fc_process_start(int pid, bool *zombie);
CUresult fc_ledger_take(const uint64_t id[2], int phys, uint64_t bytes);
void fc_ledger_hold(const uint64_t id[2], int phys, uint64_t bytes);
void fc_ledger_drop(const uint64_t id[2]);
uint64_t fc_ledger_used(int phys);
/* False: exclusive mode and another process has the device. */
bool fc_state_context(int phys, int change);
int fc_state_contexts(int phys);

/* ---- Physical memory (phys.c) ------------------------------------------- */

typedef struct fc_opener {
    int32_t pid;
    uint32_t count;
    uint64_t start;
    uint64_t sub; /* serial of a legacy allocation; 0: holds the whole */
} fc_opener;

/* First FC_HEADER bytes of an allocation, seen by every process that has it. */
typedef struct fc_header {
    uint64_t magic;
    uint64_t id[2];
    uint64_t cookie; /* of the process that made it */
    uint64_t bytes;
    int32_t phys;     /* device, or -1: host memory */
    int32_t numa;     /* host memory: node */
    uint32_t legacy;  /* made by cuMemAlloc */
    uint32_t handles; /* CUmemAllocationHandleType mask */
    uint32_t doorbell;
    uint32_t waiters;
    uint32_t location; /* CUmemLocationType */
    uint32_t pool;
    pthread_mutex_t lock; /* guards openers and sub */
    fc_opener opener[FC_OPENERS];
    uint64_t sub[FC_BLOCK / FC_UNIT]; /* legacy: serials by offset */
} fc_header;

#define FC_HEADER ((size_t)65536)

struct fc_phys {
    fc_phys *next;
    fc_header *header;
    unsigned char *data;
    uint64_t bytes;
    int phys; /* -1: host */
    int refs;
    bool creator;
    uint64_t offset; /* in the arena file */
};

CUresult fc_phys_new(int phys, const fc_header *wanted, fc_phys **made);
CUresult fc_phys_export(fc_phys *p, int *fd);
CUresult fc_phys_import(int fd, uint64_t offset, fc_phys **found);
void fc_phys_ref(fc_phys *p);
void fc_phys_unref(fc_phys *p);
int fc_phys_arena_fd(int phys);
/* Maps the memory for the CPU, over what is at that address. */
bool fc_phys_map_at(fc_phys *p, void *at, int prot);
void fc_phys_lock(fc_header *header);
void fc_phys_unlock(fc_header *header);
/* Opener table of other processes. serial 0: any. */
bool fc_phys_open_elsewhere(fc_header *header, uint64_t serial, int *pid);
bool fc_phys_opener(fc_header *header, uint64_t serial, int change);

/* ---- Device addresses (va.c) -------------------------------------------- */

typedef enum fc_region_kind {
    FC_R_ALLOC, /* cuMemAlloc */
    FC_R_IPC,   /* legacy import */
    FC_R_VMM,   /* cuMemMap */
    FC_R_POOL,  /* cuMemAllocAsync */
    FC_R_HOST,  /* cuMemHostAlloc */
    FC_R_REG,   /* cuMemHostRegister */
    FC_R_MANAGED
} fc_region_kind;

typedef struct fc_region {
    fc_region_kind kind;
    uint64_t va, bytes;
    fc_phys *mem;              /* NULL for plain host memory */
    uint64_t offset;           /* into mem */
    int phys;                  /* device, -1: host */
    uint64_t readers, writers; /* VMM: devices */
    bool cpu;                  /* VMM host memory: mapped for the CPU */
    uint64_t ctx;              /* handle of the context that made it */
    unsigned flags;
    uint32_t *units; /* blocks: for each unit of FC_UNIT bytes the length of
                        the allocation that starts there, ~0 for its other
                        units, 0 free */
    uint32_t opens;  /* legacy import: references */
    uint64_t id;     /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    uint64_t pool;   /* handle of the pool */
} fc_region;

typedef struct fc_range {
    uint64_t va, bytes;
    bool reserved; /* by cuMemAddressReserve */
    bool external; /* outside the arena */
} fc_range;

bool fc_va_open(void);
/* Address space; want 0: anywhere. 0 when there is none. */
uint64_t fc_range_take(uint64_t want, uint64_t bytes, uint64_t align,
                       bool reserved);
void fc_range_give(uint64_t va);
fc_range *fc_range_at(uint64_t va); /* the range that holds va */
bool fc_va_is_device(uint64_t va);  /* in the arena or in any range */

fc_region *fc_region_add(const fc_region *region);
void fc_region_remove(uint64_t va);
fc_region *fc_region_at(uint64_t va);   /* that holds va, or NULL */
fc_region *fc_region_next(uint64_t va); /* first that ends after va */
fc_region *fc_region_nth(size_t n);
size_t fc_region_count(void);
/* The allocation around va within the region: blocks are divided. False: a
 * hole. */
bool fc_region_extent(const fc_region *r, uint64_t va, uint64_t *base,
                      uint64_t *bytes);

typedef enum fc_engine { FC_COPY, FC_KERNEL, FC_MEMOP } fc_engine;

/* A piece of memory held in place while a stream uses it. */
typedef struct fc_pin {
    unsigned char *at;
    uint64_t bytes; /* contiguous from at, at most what was asked for */
    fc_phys *mem;
    bool lost; /* the link is broken: writes vanish, reads are rubbish */
} fc_pin;

/* Without fc.lock. False: illegal, and the process is ruined. */
bool fc_pin_get(fc_pin *pin, int phys, uint64_t va, uint64_t bytes, bool write,
                fc_engine engine);
void fc_pin_put(fc_pin *pin, bool wrote);

/* Under fc.lock, at the time of a call: does every byte of a device range
 * exist? Host addresses pass. */
bool fc_va_check(const char *call, uint64_t va, uint64_t bytes);

/* Gives a region's address range and its hold on the memory back. */
void fc_region_drop(fc_region *r);
void *fc_host_pages(uint64_t bytes);
void fc_host_unpages(void *at, uint64_t bytes);
/* Closes what a context has open; how many that were. */
long fc_ipc_close_context(uint64_t ctx);
void fc_pool_free_now(uint64_t va); /* without fc.lock */
void fc_pool_free_locked(uint64_t va);

/* ---- Contexts (ctx.c) --------------------------------------------------- */

struct fc_ctx {
    uint64_t handle;
    fc_ctx *next; /* once it is destroyed */
    int phys;
    unsigned long long id; /* different for every context */
    bool primary, dying;   /* dying: streams give up their waits */
    unsigned flags;
    uint64_t peers; /* enabled, by physical index */
    fc_stream *legacy;
    fc_stream *per_thread; /* of each thread that has used it */
    fc_stream *streams;    /* created ones */
};

fc_ctx *fc_ctx_current(void);
void fc_ctx_destroy_objects(fc_ctx *ctx);
CUstreamCaptureMode *fc_thread_mode(void);

/* ---- Streams (stream.c) ------------------------------------------------- */

typedef struct fc_point {
    fc_stream *stream; /* counted reference */
    uint64_t ticket;
} fc_point;

struct fc_stream {
    uint64_t handle; /* 0: a context's own stream */
    fc_ctx *ctx;
    fc_stream *next;
    uint64_t user; /* the thread of a per-thread one */
    int refs;
    unsigned flags;
    int priority;
    bool legacy;
    bool running; /* has a thread */
    bool closing;
    uint64_t id;
    fc_op *head, *tail;
    uint64_t submitted, done;
    pthread_cond_t changed;
    fc_capture *capture;
    struct fc_node **capture_deps;
    int capture_dep_count;
};

typedef enum fc_op_kind {
    FC_OP_EMPTY,
    FC_OP_COPY,
    FC_OP_SET,
    FC_OP_MEMOPS,
    FC_OP_RECORD,
    FC_OP_WAIT,
    FC_OP_HOST,
    FC_OP_KERNEL,
    FC_OP_GRAPH,
    FC_OP_FREE /* cuMemFreeAsync */
} fc_op_kind;

typedef struct fc_copy {
    uint64_t dst, src; /* of the first byte */
    uint64_t dst_pitch, src_pitch, dst_slice, src_slice;
    uint64_t width, height, depth;
    unsigned char *staged; /* copy of a pageable source, packed */
} fc_copy;

struct fc_op {
    fc_op *next;
    int refs;
    fc_op_kind kind;
    int phys;
    uint64_t ticket;
    fc_point *deps;
    int dep_count;
    union {
        fc_copy copy;
        struct {
            uint64_t dst, pitch, width, height; /* in elements, bytes */
            uint32_t value, element;
        } set;
        struct {
            CUstreamBatchMemOpParams *list;
            unsigned count;
        } memops;
        struct {
            fc_event *event; /* counted reference */
            uint64_t seq;    /* 0: found when it runs */
        } event;
        struct {
            CUhostFn fn;
            CUstreamCallback callback;
            CUstream stream;
            void *user;
        } host;
        struct {
            const struct fc_kernel *kernel;
            fake_cuda_launch launch;
            void **params;
            unsigned char *values;
        } kernel;
        struct fc_exec *exec; /* counted reference */
        uint64_t va;
    } u;
};

CUresult fc_stream_find(const char *call, CUstream handle, fc_stream **stream);
/* As find, and the stream must belong to the current context. */
CUresult fc_stream_mine(const char *call, CUstream handle, fc_ctx *ctx,
                        fc_stream **stream);
fc_stream *fc_stream_new(fc_ctx *ctx, unsigned flags, int priority);
void fc_stream_unref(fc_stream *s);
fc_op *fc_op_new(fc_op_kind kind, int phys);
void fc_op_unref(fc_op *op);
/* Queues op, or adds it to the capture; takes over the reference. */
CUresult fc_submit(fc_stream *s, fc_op *op);
/* Waits for all work queued so far; lets go of fc.lock meanwhile. */
CUresult fc_stream_drain(fc_stream *s);
CUresult fc_ctx_drain(fc_ctx *ctx);
bool fc_stream_busy(const fc_stream *s);
void fc_stream_close(fc_stream *s);
void fc_op_run(fc_ctx *ctx, fc_op *op); /* here and now, without fc.lock */

/* ---- Copies, memory operations, kernels --------------------------------- */

void fc_copy_run(int phys, const fc_copy *copy);
CUresult fc_copy_from_3d(const CUDA_MEMCPY3D *p, fc_copy *copy);
void fc_set_run(const fc_op *op);
CUresult fc_memops_op(const char *call, fc_ctx *ctx,
                      const CUstreamBatchMemOpParams *list, unsigned count,
                      fc_op **made);
void fc_memops_run(fc_ctx *ctx, const fc_op *op);
void fc_kernel_run(fc_ctx *ctx, const fc_op *op);
/* Sleeps until the memory may have changed, at most a short while that grows
 * with `round`; mem NULL: plain host memory. */
void fc_bell_wait(fc_phys *mem, uint32_t seen, int round);

typedef struct fc_kernel {
    struct fc_kernel *next;
    const char *name;
    fake_cuda_kernel run;
    const uint16_t *sizes;
    int count;
} fc_kernel;

const fc_kernel *fc_kernel_find(const char *name);
/* Under fc.lock: the kernel that a CUfunction or CUkernel names. */
const fc_kernel *fc_function_kernel(uint64_t handle, const char *call,
                                    CUresult *r);
CUresult fc_kernel_op(const CUlaunchConfig *config, const fc_kernel *kernel,
                      int phys, void **params, void **extra, fc_op **made);
void fc_module_drop(void *module, bool with_context);
bool fc_module_of(const void *module, uint64_t ctx);
extern const fc_kernel fc_kernel_table[]; /* fake_kernels.c; ends with NULL */

/* fake_copy_kernels.c */
void fc_kernel_copy_few(const fake_cuda_launch *launch);
void fc_kernel_copy_many(const fake_cuda_launch *launch);
extern const uint16_t fc_copy_few_sizes[1];
extern const uint16_t fc_copy_many_sizes[1];

/* ---- Events (event.c) --------------------------------------------------- */

#define FC_EVENT_RING 32

/* Lives in the heap, or in shared memory for an interprocess event. */
typedef struct fc_event_state {
    uint32_t bell;
    uint32_t waiters;
    uint64_t issued; /* records asked for so far */
    uint64_t seq[FC_EVENT_RING];
    uint64_t ns[FC_EVENT_RING];
} fc_event_state;

struct fc_event {
    uint64_t handle;
    uint64_t ctx; /* handle of its context */
    int phys;
    int refs;
    unsigned flags;
    bool imported;
    fc_event_state *state;
    struct fc_ipc_event *ipc; /* ipc_event.c, NULL if not interprocess */
    fc_capture *capture;      /* recorded in a capture last */
    uint64_t capture_id;
    struct fc_node **capture_deps;
    int capture_dep_count;
};

fc_event *fc_event_new(fc_ctx *ctx, unsigned flags);
void fc_event_unref(fc_event *e);
bool fc_event_done(const fc_event_state *state, uint64_t seq);
void fc_event_complete(fc_event *e, uint64_t seq);
void fc_event_wait(fc_ctx *ctx, fc_event *e, uint64_t seq);
void fc_event_destroy(fc_event *e, bool with_context);

CUresult fc_ipc_event_create(struct fc_ipc_event **ipc, fc_event_state **state);
void fc_ipc_event_destroy(struct fc_ipc_event *ipc, bool imported);
void fc_ipc_event_free(struct fc_ipc_event *ipc);
bool fc_ipc_event_peer_alive(struct fc_ipc_event *ipc);

/* ---- Graphs (graph.c, capture.c) ---------------------------------------- */

typedef struct fc_node {
    uint64_t handle;
    fc_op *op; /* counted reference */
    struct fc_node **deps;
    int dep_count;
    bool mark; /* scratch of a walk */
} fc_node;

struct fc_graph {
    uint64_t handle;
    fc_node **nodes;
    int count;
};

typedef struct fc_exec {
    uint64_t handle;
    int refs;
    fc_op **ops; /* counted references */
    int count;
    fc_point last; /* launches of one exec never overlap */
} fc_exec;

struct fc_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    pthread_t thread;
    fc_stream *origin;
    fc_graph *graph;
    bool own_graph; /* not made by the caller */
    bool invalid;
    int streams; /* joined, origin included */
    fc_capture *next;
};

fc_graph *fc_graph_new(void);
fc_node *fc_graph_add(fc_graph *g, fc_op *op, fc_node *const *deps, int count);
void fc_graph_free(fc_graph *g);
void fc_exec_unref(fc_exec *x);
CUresult fc_capture_add(fc_stream *s, fc_op *op);
CUresult fc_capture_record(fc_stream *s, fc_event *e);
CUresult fc_capture_join(fc_stream *s, fc_event *e);
/* CUDA_SUCCESS, or the error of a call that a capture forbids (and the capture
 * is invalid then). */
CUresult fc_capture_guard(const char *call);
void fc_capture_break(fc_stream *s);
void fc_capture_drop(fc_stream *s);

/* ---- Entry points by name (proc.c) -------------------------------------- */

void *fc_proc_find(const char *name, int version, bool *newer);

#endif
