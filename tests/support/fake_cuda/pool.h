/* SPDX-License-Identifier: MIT */
/* What the files of stream-ordered pools share. */
#ifndef FAKE_CUDA_POOL_H
#define FAKE_CUDA_POOL_H

#include "fake.h"

typedef struct fc_pool {
    uint64_t handle;
    int phys;
    bool standard; /* a device's default pool */
    unsigned handles;
    uint64_t access; /* devices, beside its own */
    uint64_t threshold;
    bool shared; /* its descriptor was asked for */
    /* Imported: the exporter's process and handle. Gives no memory. */
    bool imported;
    uint64_t cookie;
    uint64_t origin;
} fc_pool;

fc_pool *fc_pool_new(int phys, bool standard, unsigned handles);

/* Begins a call on a pool, as fc_begin. */
CUresult fc_pool_begin(const char *call, CUmemoryPool handle, fc_pool **p);

#endif
