/* SPDX-License-Identifier: MIT */
/* What the files of the CUDA backend share. */
#ifndef WI_DEVICE_CUDA_DEVICE_H
#define WI_DEVICE_CUDA_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "device/block.h"
#include "device/device.h"
#include "device/driver.h"

/* Words that one read_words brings over before it has to synchronize. */
#define WI_CUDA_WORDS 512

typedef struct wi_cuda {
    wi_device base; /* first */
    CUdevice device;
    CUcontext context;             /* primary */
    unsigned long long context_id; /* tells it from a later one in its place */
    CUstream stream;         /* of Wharf's own small transfers, non-blocking */
    pthread_mutex_t lock;    /* one user of stream and words at a time */
    uint64_t *words;         /* page-locked, WI_CUDA_WORDS of them */
    size_t granularity;      /* of VMM; 0 without it */
    size_t host_granularity; /* of VMM of the host; 0 without it */
    bool fabric_tried;       /* under the lock; what follows is constant then */
    size_t fabric_granularity; /* of fabric handles; 0 without them */
    char fabric_refused[96];   /* then: why */
    bool read_only_host;       /* can page-lock what it may only read */
    bool ipc_tried;    /* under the lock: whether ipc_refused is known */
    int ipc_refused;   /* 0, or why legacy handles cannot be made */
    CUlibrary kernels; /* under the lock; NULL until they are loaded */
    CUkernel sync4;    /* set before kernels_ready, constant after */
    CUkernel sync64;
    int kernels_ready; /* atomic */
    CUlibrary sums;    /* cuda_sum.c, under the lock; NULL until prepared */
    CUkernel sum;
    int keeps; /* atomic: the context is not given back at close */
    struct wi_cuda_copy *copy;      /* cuda_copy.h; NULL until it is prepared */
    struct wi_cuda_report *reports; /* cuda_report.c, under the lock */
} wi_cuda;

static inline wi_cuda *wi_cuda_of(wi_device *device)
{
    return (wi_cuda *)device;
}

/* Host and device share one address space: the seam's pointers are the
 * driver's addresses. */
static inline void *wi_cuda_pointer(CUdeviceptr at)
{
    void *pointer;

    memcpy(&pointer, &at, sizeof pointer);
    return pointer;
}

/* Takes a descriptor that the driver made: it does not say that they are closed
 * on exec (cuda_vmm.c). */
void wi_cuda_adopt(int fd);

/* What wi_cuda_leave has to restore. */
typedef struct wi_cuda_visit {
    bool pushed;
    bool exchanged;
    CUstreamCaptureMode mode;
} wi_cuda_visit;

/*
 * Around all use of a device: makes its context current and lets calls that a
 * stream capture of this thread would forbid through (relaxed mode), and
 * restores both. On failure there is nothing to leave. Fails where the program
 * has reset the device: what was made in the context is gone with it.
 */
wharf_status wi_cuda_enter(const wi_cuda *cuda, wi_cuda_visit *visit);

/* The same for give-back paths: asks for no injected fault and goes on when
 * the context can no longer be made current. False where it is gone: streams,
 * events and memory that were made in it must not be given back any more, which
 * VMM's handles, mappings and addresses must be all the same. */
bool wi_cuda_enter_back(const wi_cuda *cuda, wi_cuda_visit *visit);

void wi_cuda_leave(const wi_cuda_visit *visit);

/* Fails where the program has reset the device. */
wharf_status wi_cuda_check_context(const wi_cuda *cuda);

/* Before enqueuing, which every capture mode allows: only the context is made
 * current, and mostly it is. */
wharf_status wi_cuda_stream_enter(const wi_cuda *cuda, wi_cuda_visit *visit);

/* cuda_enumerate.c */
wharf_status wi_cuda_enumerate(wi_device_desc *devices, int most, int *count);
void wi_cuda_link(const wi_device_desc *from, const wi_device_desc *to,
                  wi_peer *peer);
/* 0 for an attribute that this driver does not know. */
wharf_status wi_cuda_attribute(CUdevice device, CUdevice_attribute which,
                               int *value);

/* cuda_event.c */
wharf_status wi_cuda_check_stream(wi_device *device, wharf_stream stream);
wharf_status wi_cuda_event_create(wi_device *device, wi_event **event);
wharf_status wi_cuda_event_export(wi_event *event,
                                  unsigned char handle[WI_EVENT_HANDLE_BYTES]);
wharf_status wi_cuda_event_open(wi_device *device, const unsigned char *handle,
                                wi_event **event);
wharf_status wi_cuda_event_record(wi_event *event, wharf_stream stream);
wharf_status wi_cuda_event_wait(wi_event *event, wharf_stream stream);
wharf_status wi_cuda_event_query(wi_event *event);
void wi_cuda_event_destroy(wi_event *event);
void wi_cuda_event_abandon(wi_event *event);

wharf_status wi_cuda_capturing(wi_device *device, wharf_stream stream,
                               bool *capturing);

/* cuda_sync.c */
wharf_status wi_cuda_sync_prepare(wi_device *device, wi_sync_how how);
wharf_status wi_cuda_sync(wi_device *device, wharf_stream stream,
                          wi_sync_how how, const wi_sync_step *steps, int count,
                          uint64_t timeout_ns, uint32_t *report);

/* cuda_report.c */
wharf_status wi_cuda_report_alloc(wi_device *device, size_t words,
                                  uint32_t **report);
void wi_cuda_report_free(wi_device *device, uint32_t *report);
/* Forgets what was never given back, since a message under way may still be
 * written there: the memory stays. */
void wi_cuda_report_close(wi_cuda *cuda);

/* cuda_kernels.c: loads an image that the build made, and brings kernels of it
 * to the GPU, all or none; the context is current. */
typedef struct wi_cuda_kernel {
    const char *name;
    CUkernel *kernel;
} wi_cuda_kernel;
wharf_status wi_cuda_kernels_load(const wi_cuda *cuda,
                                  const unsigned char *image,
                                  const wi_cuda_kernel *kernels, int count,
                                  CUlibrary *library);
/* Launches one, with one parameter. `early`: it waits by itself for the end of
 * the stream's earlier work (early.cuh), and may overlap with it. `what` says
 * in an error what it does. A context of the device is current. */
wharf_status wi_cuda_launch(const wi_cuda *cuda, CUstream stream,
                            CUkernel kernel, void *parameter, uint32_t blocks,
                            uint32_t threads, bool early, const char *what);
/* Gives back what copies have loaded; as wi_cuda_kernels_unload. `here`: the
 * context is not gone. */
void wi_cuda_copy_close(wi_cuda *cuda, bool here);
void wi_cuda_sum_close(wi_cuda *cuda);
/* Unloads what sync has loaded; between wi_cuda_enter_back and leave. */
void wi_cuda_kernels_unload(wi_cuda *cuda);

/* cuda_ipc.c: can legacy handles be made here? No attribute tells, so this
 * tries, once. */
bool wi_cuda_ipc_works(wi_cuda *cuda, char reason[96]);

/* cuda_fabric.c: the same for fabric handles. */
bool wi_cuda_fabric_works(wi_cuda *cuda, char reason[96]);

/* The larger of the two granularities: blocks of the recommended one are
 * mapped with the largest pages. The context is current. */
wharf_status wi_cuda_granularity(const CUmemAllocationProp *prop,
                                 size_t *granularity);

/* The kinds of memory. */
extern const wi_memory_ops wi_memory_vmm;       /* cuda_vmm.c */
extern const wi_memory_ops wi_memory_fabric;    /* cuda_fabric.c */
extern const wi_memory_ops wi_memory_ipc;       /* cuda_ipc.c */
extern const wi_memory_ops wi_memory_host_vmm;  /* cuda_vmm.c */
extern const wi_memory_ops wi_memory_host_cuda; /* cuda_host.c */

#endif
