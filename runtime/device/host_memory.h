/* SPDX-License-Identifier: MIT */
/* Host memory as the host backend and, page-locked, the CUDA backend use it. */
#ifndef WI_DEVICE_HOST_MEMORY_H
#define WI_DEVICE_HOST_MEMORY_H

#include <stdbool.h>

#include "device/block.h"

typedef struct wi_host_block {
    wi_block base; /* first */
    int fd;        /* memfd; an importer's is closed once it is mapped */
    bool locked;   /* page-locked for the GPU (cuda_host.c) */
    bool large;    /* mapped with advice to use large pages */
} wi_host_block;

extern const wi_memory_ops wi_memory_host;

/* WHARF_ENOMEM if `bytes` more are plainly more than this process can get:
 * than the machine has available, or its control group is allowed. */
wharf_status wi_host_memory_fits(size_t bytes);

/* Bytes of memory of this machine; 0: unknown. */
uint64_t wi_host_memory_total(void);

#endif
