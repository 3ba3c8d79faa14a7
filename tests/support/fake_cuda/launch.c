/* SPDX-License-Identifier: MIT */
/*
 * Entry points: kernel launches, and what the CPU versions of kernels call.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "futex.h"

static CUresult params_from_buffer(fc_op *op, const fc_kernel *k, void **extra)
{
    const unsigned char *from = NULL;
    size_t bytes = 0, at = 0;

    for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            from = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t *)extra[i + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    op->u.kernel.values = fc_zalloc(bytes);
    memcpy(op->u.kernel.values, from, bytes);
    for (int i = 0; i < k->count; i++) {
        size_t align = k->sizes[i] >= 8 ? 8 : k->sizes[i];

        at = (at + align - 1) / align * align;
        if (at + k->sizes[i] > bytes)
            return CUDA_ERROR_INVALID_VALUE;
        op->u.kernel.params[i] = op->u.kernel.values + at;
        at += k->sizes[i];
    }
    return CUDA_SUCCESS;
}

static CUresult params_from_list(fc_op *op, const fc_kernel *k, void **list)
{
    size_t bytes = 0;

    for (int i = 0; i < k->count; i++)
        bytes += (k->sizes[i] + 15u) / 16 * 16;
    if (k->count && !list)
        return CUDA_ERROR_INVALID_VALUE;
    op->u.kernel.values = fc_zalloc(bytes);
    bytes = 0;
    for (int i = 0; i < k->count; i++) {
        op->u.kernel.params[i] = op->u.kernel.values + bytes;
        memcpy(op->u.kernel.params[i], list[i], k->sizes[i]);
        bytes += (k->sizes[i] + 15u) / 16 * 16;
    }
    return CUDA_SUCCESS;
}

CUresult fc_kernel_op(const CUlaunchConfig *c, const fc_kernel *k, int phys,
                      void **params, void **extra, fc_op **made)
{
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    CUresult r;

    if (!c->gridDimX || !c->gridDimY || !c->gridDimZ || !threads ||
        threads > 1024 || c->gridDimY > 65535 || c->gridDimZ > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    fc_op *op = fc_op_new(FC_OP_KERNEL, phys);
    op->u.kernel.kernel = k;
    op->u.kernel.params = fc_zalloc((size_t)(k->count + 1) * sizeof(void *));
    if (extra)
        r = params_from_buffer(op, k, extra);
    else
        r = params_from_list(op, k, params);
    if (r != CUDA_SUCCESS) {
        fc_op_unref(op);
        return r;
    }
    op->u.kernel.launch =
        (fake_cuda_launch){{c->gridDimX, c->gridDimY, c->gridDimZ},
                           {c->blockDimX, c->blockDimY, c->blockDimZ},
                           c->sharedMemBytes,
                           (const void *const *)op->u.kernel.params,
                           NULL};
    *made = op;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
                          void **params, void **extra)
{
    fc_ctx *ctx;
    fc_stream *s;
    fc_op *op;
    CUresult r = fc_begin(__func__, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!config)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    r = fc_stream_mine(__func__, config->hStream, ctx, &s);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    const fc_kernel *k = fc_function_kernel((uintptr_t)f, __func__, &r);
    if (r == CUDA_SUCCESS)
        r = fc_kernel_op(config, k, ctx->phys, params, extra, &op);
    if (r == CUDA_SUCCESS)
        r = fc_submit(s, op);
    return fc_end(r);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy,
                        unsigned int gz, unsigned int bx, unsigned int by,
                        unsigned int bz, unsigned int shared, CUstream stream,
                        void **params, void **extra)
{
    CUlaunchConfig c;

    memset(&c, 0, sizeof c);
    c.gridDimX = gx;
    c.gridDimY = gy;
    c.gridDimZ = gz;
    c.blockDimX = bx;
    c.blockDimY = by;
    c.blockDimZ = bz;
    c.sharedMemBytes = shared;
    c.hStream = stream;
    return cuLaunchKernelEx(&c, f, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx,
                                   unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by,
                                   unsigned int bz, unsigned int shared,
                                   CUstream stream, void **params)
{
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params,
                          NULL);
}

/* ---- Running ------------------------------------------------------------ */

typedef struct running {
    fc_ctx *ctx;
    int phys;
} running;

void fc_kernel_run(fc_ctx *ctx, const fc_op *op)
{
    running now = {ctx, op->phys};
    fake_cuda_launch launch = op->u.kernel.launch;

    launch.internal = &now;
    op->u.kernel.kernel->run(&launch);
}

static bool pin(const fake_cuda_launch *l, fc_pin *p, uint64_t at,
                uint64_t bytes, bool write)
{
    const running *now = l->internal;

    return fc_pin_get(p, now->phys, at, bytes, write, FC_KERNEL);
}

int fakeCudaLoad(const fake_cuda_launch *launch, uint64_t from, void *to,
                 size_t bytes)
{
    unsigned char *out = to;

    while (bytes) {
        fc_pin p;

        if (!pin(launch, &p, from, bytes, false))
            return 0;
        if (p.lost)
            memset(out, 0xdb, p.bytes);
        else
            memcpy(out, p.at, p.bytes);
        fc_pin_put(&p, false);
        out += p.bytes;
        from += p.bytes;
        bytes -= p.bytes;
    }
    return 1;
}

int fakeCudaStore(const fake_cuda_launch *launch, uint64_t to, const void *from,
                  size_t bytes)
{
    const unsigned char *in = from;

    while (bytes) {
        fc_pin p;

        if (!pin(launch, &p, to, bytes, true))
            return 0;
        if (!p.lost)
            memcpy(p.at, in, p.bytes);
        fc_pin_put(&p, true);
        in += p.bytes;
        to += p.bytes;
        bytes -= p.bytes;
    }
    return 1;
}

int fakeCudaMove(const fake_cuda_launch *launch, uint64_t to, uint64_t from,
                 size_t bytes)
{
    while (bytes) {
        fc_pin a, b;

        if (!pin(launch, &a, to, bytes, true))
            return 0;
        if (!pin(launch, &b, from, bytes, false)) {
            fc_pin_put(&a, false);
            return 0;
        }
        uint64_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
        if (!a.lost && b.lost)
            memset(a.at, 0xdb, n);
        else if (!a.lost)
            memmove(a.at, b.at, n);
        fc_pin_put(&b, false);
        fc_pin_put(&a, true);
        to += n;
        from += n;
        bytes -= n;
    }
    return 1;
}

int fakeCudaLoad32(const fake_cuda_launch *launch, uint64_t from,
                   uint32_t *value)
{
    fc_pin p;

    if (from % 4 || !pin(launch, &p, from, 4, false))
        return 0;
    *value = p.lost
                 ? 0
                 : __atomic_load_n((uint32_t *)(void *)p.at, __ATOMIC_ACQUIRE);
    fc_pin_put(&p, false);
    return 1;
}

int fakeCudaStore32(const fake_cuda_launch *launch, uint64_t to, uint32_t value)
{
    fc_pin p;

    if (to % 4 || !pin(launch, &p, to, 4, true))
        return 0;
    if (!p.lost)
        __atomic_store_n((uint32_t *)(void *)p.at, value, __ATOMIC_RELEASE);
    fc_pin_put(&p, true);
    return 1;
}

int fakeCudaAdd32(const fake_cuda_launch *launch, uint64_t to, uint32_t value,
                  uint32_t *before)
{
    fc_pin p;

    if (to % 4 || !pin(launch, &p, to, 4, true))
        return 0;
    *before = p.lost ? 0
                     : __atomic_fetch_add((uint32_t *)(void *)p.at, value,
                                          __ATOMIC_ACQ_REL);
    fc_pin_put(&p, true);
    return 1;
}

static bool word_passes(uint32_t word, uint32_t value, bool equal)
{
    return equal ? word == value : (int32_t)(word - value) >= 0;
}

static int word_wait(const fake_cuda_launch *launch, uint64_t at,
                     uint32_t value, bool equal, uint64_t timeout_ns)
{
    const running *now = launch->internal;
    uint64_t start = fc_now_ns();
    int result = 0;
    fc_pin p;

    if (at % 4 || !pin(launch, &p, at, 4, false))
        return 0;
    for (int round = 0;; round++) {
        uint32_t seen =
            p.mem ? __atomic_load_n(&p.mem->header->doorbell, __ATOMIC_SEQ_CST)
                  : 0;
        uint32_t word = p.lost ? 0
                               : __atomic_load_n((uint32_t *)(void *)p.at,
                                                 __ATOMIC_ACQUIRE);

        if (word_passes(word, value, equal)) {
            result = 1;
            break;
        }
        if (__atomic_load_n(&now->ctx->dying, __ATOMIC_SEQ_CST))
            break;
        if (timeout_ns && fc_now_ns() - start >= timeout_ns) {
            result = -1;
            break;
        }
        fc_bell_wait(p.mem, seen, round);
    }
    fc_pin_put(&p, false);
    return result;
}

int fakeCudaWait32(const fake_cuda_launch *launch, uint64_t at, uint32_t value,
                   uint64_t timeout_ns)
{
    return word_wait(launch, at, value, false, timeout_ns);
}

int fakeCudaWaitEqual32(const fake_cuda_launch *launch, uint64_t at,
                        uint32_t value, uint64_t timeout_ns)
{
    return word_wait(launch, at, value, true, timeout_ns);
}
