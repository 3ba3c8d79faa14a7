/* SPDX-License-Identifier: MIT */
/* What the cuda_copy*.c files share: the state of copies of one device. */
#ifndef WI_DEVICE_CUDA_COPY_H
#define WI_DEVICE_CUDA_COPY_H

#include "device/copy.h"
#include "device/cuda_device.h"

/* Tickets of a page, a sector of the L2 cache each. */
#define WI_COPY_TICKETS 2048
#define WI_COPY_TICKET_STRIDE 32

typedef struct wi_copy_tickets {
    CUdeviceptr base;
    uint64_t taken[WI_COPY_TICKETS / 64];
    struct wi_copy_tickets *next;
} wi_copy_tickets;

/* Made by prepare; constant afterwards, but for the tickets. */
struct wi_cuda_copy {
    CUlibrary library;
    CUkernel few, many;
    uint32_t blocks_most;
    uint64_t most_pitch;      /* of the engines' strided copies */
    wi_copy_tickets *tickets; /* under the device's lock */
};

/* cuda_copy.c: the device's, or WHARF_EUNSUPPORTED without its kernels. */
wharf_status wi_cuda_copy_of(const wi_cuda *cuda,
                             const struct wi_cuda_copy **copy);
wharf_status wi_cuda_copy_ticket_take(wi_device *device, uint32_t **ticket);
void wi_cuda_copy_ticket_give(wi_device *device, uint32_t *ticket);

/* cuda_copy_engine.c; the device's context is current. */
wharf_status wi_cuda_copy_engine(uint64_t most_pitch, CUstream stream,
                                 const wi_copy_box *box);

/* cuda_copy_set.c */
wharf_status wi_cuda_copy_kernel(wi_cuda *cuda, CUstream stream,
                                 const wi_copy_box *box,
                                 const wi_sync_step *signal, uint32_t *ticket);
wharf_status wi_cuda_copy_set_make(wi_device *device, const wi_copy_plan *plan,
                                   wi_copy_set **set);
wharf_status wi_cuda_copy_set_launch(wi_copy_set *set, wharf_stream stream,
                                     uint32_t flags, uint32_t round,
                                     uint64_t timeout_ns, uint32_t *report);
void wi_cuda_copy_set_free(wi_copy_set *set);

#endif
