/* SPDX-License-Identifier: MIT */
/*
 * Entry points: contexts. Each thread has its own stack of them, held as
 * handles, so that a context destroyed by another thread is recognised.
 */
#include <stdlib.h>

#include "fake.h"

#define STACK 64

static __thread struct {
    uint64_t at[STACK];
    int depth;
    CUstreamCaptureMode mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL is 0 */
} stack;

CUstreamCaptureMode *fc_thread_mode(void)
{
    return &stack.mode;
}

fc_ctx *fc_ctx_current(void)
{
    if (!stack.depth)
        return NULL;
    return fc_handle_peek(FC_K_CTX, stack.at[stack.depth - 1]);
}

static fc_ctx *retired;
static unsigned long long ids;

static CUresult ctx_new(int phys, bool primary, unsigned flags, fc_ctx **made)
{
    if (fc.device[phys].denied)
        return CUDA_ERROR_OPERATING_SYSTEM; /* its file cannot be opened */
    if (fc.device[phys].prohibited)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (!fc_state_context(phys, 1))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    fc_ctx *ctx = fc_zalloc(sizeof *ctx);
    ctx->phys = phys;
    ctx->id = ++ids;
    ctx->primary = primary;
    ctx->flags = flags;
    ctx->handle = primary && fc.device[phys].primary_handle
                      ? fc_handle_again(fc.device[phys].primary_handle, ctx)
                      : fc_handle_new(FC_K_CTX, ctx);
    if (primary)
        fc.device[phys].primary_handle = ctx->handle;
    ctx->legacy = fc_stream_new(ctx, CU_STREAM_DEFAULT, 0);
    ctx->legacy->legacy = true;
    fc_live(FC_L_CONTEXT, 1);
    *made = ctx;
    return CUDA_SUCCESS;
}

static void ctx_free(fc_ctx *ctx)
{
    if (ctx->primary)
        fc_handle_hold(ctx->handle);
    else
        fc_handle_free(ctx->handle, true);
    fc_state_context(ctx->phys, -1);
    fc_ctx_destroy_objects(ctx);
    fc_live(FC_L_CONTEXT, -1);
    /* The object itself stays: threads of its streams may still look at it.
     * That is a hundred bytes for each context ever made. */
    ctx->next = retired;
    retired = ctx;
}

/* ---- Primary contexts --------------------------------------------------- */

static CUresult primary_begin(const char *call, CUdevice dev, unsigned need,
                              fc_device **d)
{
    CUresult r = fc_begin(call, need, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (dev < 0 || dev >= fc.visible_count)
        return fc_end(CUDA_ERROR_INVALID_DEVICE);
    *d = &fc.device[fc.visible[dev]];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    fc_device *d;
    CUresult r = primary_begin(__func__, dev, 0, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (!d->primary)
        r = ctx_new(fc.visible[dev], true, d->primary_flags, &d->primary);
    if (r == CUDA_SUCCESS) {
        d->primary_refs++;
        *ctx = (CUcontext)(uintptr_t)d->primary->handle;
    }
    return fc_end(r);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    fc_device *d;
    CUresult r = primary_begin(__func__, dev, FC_RUINED, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (d->primary_refs == 0) {
        fc_violate("%s: device %d has no primary context", __func__, dev);
        return fc_end(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (--d->primary_refs == 0 && d->primary) {
        fc_ctx *ctx = d->primary;

        d->primary = NULL;
        ctx_free(ctx);
    }
    return fc_end(fc.ruined);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    fc_device *d;
    CUresult r = primary_begin(__func__, dev, FC_RUINED, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (d->primary) {
        fc_ctx *ctx = d->primary;

        d->primary = NULL;
        ctx_free(ctx);
    }
    return fc_end(fc.ruined);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags,
                                    int *active)
{
    fc_device *d;
    CUresult r = primary_begin(__func__, dev, FC_RUINED, &d);

    if (r != CUDA_SUCCESS)
        return r;
    *flags = d->primary_flags;
    *active = d->primary != NULL;
    return fc_end(r);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    fc_device *d;
    CUresult r = primary_begin(__func__, dev, FC_RUINED, &d);

    if (r != CUDA_SUCCESS)
        return r;
    d->primary_flags = flags;
    if (d->primary)
        d->primary->flags = flags;
    return fc_end(r);
}

/* ---- Other contexts ----------------------------------------------------- */

static CUresult push(uint64_t handle)
{
    if (stack.depth == STACK)
        return CUDA_ERROR_INVALID_VALUE;
    stack.at[stack.depth++] = handle;
    return CUDA_SUCCESS;
}

#undef cuCtxCreate
__attribute__((visibility("default"))) CUresult
cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    fc_device *d;
    fc_ctx *ctx;
    CUresult r = primary_begin(__func__, dev, 0, &d);

    if (r != CUDA_SUCCESS)
        return r;
    r = ctx_new(fc.visible[dev], false, flags, &ctx);
    if (r == CUDA_SUCCESS) {
        *pctx = (CUcontext)(uintptr_t)ctx->handle;
        r = push(ctx->handle);
    }
    return fc_end(r);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params,
                        unsigned int flags, CUdevice dev)
{
    (void)params;
    return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxDestroy(CUcontext handle)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);
    void *ctx;

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, __func__, &ctx);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    if (((fc_ctx *)ctx)->primary) {
        fc_violate("%s: a primary context", __func__);
        return fc_end(CUDA_ERROR_INVALID_CONTEXT);
    }
    ctx_free(ctx);
    if (stack.depth && stack.at[stack.depth - 1] == (uintptr_t)handle)
        stack.depth--;
    return fc_end(fc.ruined);
}

CUresult cuCtxPushCurrent(CUcontext handle)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);
    void *ctx;

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, __func__, &ctx);
    if (r == CUDA_SUCCESS)
        r = push((uintptr_t)handle);
    return fc_end(r);
}

CUresult cuCtxPopCurrent(CUcontext *handle)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (!stack.depth) {
        fc_violate("%s: nothing to pop", __func__);
        return fc_end(CUDA_ERROR_INVALID_CONTEXT);
    }
    stack.depth--;
    if (handle)
        *handle = (CUcontext)(uintptr_t)stack.at[stack.depth];
    return fc_end(r);
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);
    void *ctx;

    if (r != CUDA_SUCCESS)
        return r;
    if (!handle) {
        if (stack.depth)
            stack.depth--;
        return fc_end(r);
    }
    r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, __func__, &ctx);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    if (!stack.depth)
        return fc_end(push((uintptr_t)handle));
    stack.at[stack.depth - 1] = (uintptr_t)handle;
    return fc_end(r);
}

CUresult cuCtxGetCurrent(CUcontext *handle)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    *handle =
        stack.depth ? (CUcontext)(uintptr_t)stack.at[stack.depth - 1] : NULL;
    return fc_end(r);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_QUIET | FC_RUINED, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    *device = fc_ordinal_of(ctx->phys);
    return fc_end(r);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    void *ctx = NULL;

    if (!handle)
        return cuCtxGetDevice(device);
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, __func__, &ctx);
    if (r == CUDA_SUCCESS)
        *device = fc_ordinal_of(((fc_ctx *)ctx)->phys);
    return fc_end(r);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_RUINED, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    *flags = ctx->flags;
    return fc_end(r);
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);
    void *ctx = fc_ctx_current();

    if (r != CUDA_SUCCESS)
        return r;
    if (handle)
        r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, __func__, &ctx);
    if (r == CUDA_SUCCESS && !ctx)
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (r == CUDA_SUCCESS)
        *id = ((fc_ctx *)ctx)->id;
    return fc_end(r);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    (void)handle;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return fc_end(r);
}

CUresult cuCtxSynchronize(void)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX | FC_UNSAFE, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(fc_ctx_drain(ctx));
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    void *ctx = NULL;

    if (!handle)
        return cuCtxSynchronize();
    CUresult r = fc_begin(__func__, FC_UNSAFE, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, __func__, &ctx);
    if (r == CUDA_SUCCESS)
        r = fc_ctx_drain(ctx);
    return fc_end(r);
}

/* ---- Peer access -------------------------------------------------------- */

static CUresult peer_begin(const char *call, CUcontext handle, fc_ctx **mine,
                           fc_ctx **other)
{
    CUresult r = fc_begin(call, FC_CTX, mine);
    void *ctx;

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, call, &ctx);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    *other = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    fc_ctx *mine, *other;
    CUresult r = peer_begin(__func__, handle, &mine, &other);

    if (r != CUDA_SUCCESS)
        return r;
    if (flags)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (mine->phys == other->phys)
        return fc_end(CUDA_ERROR_INVALID_DEVICE);
    if (!(fc.device[mine->phys].peers & 1ull << other->phys))
        return fc_end(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (mine->peers & 1ull << other->phys)
        return fc_end(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    mine->peers |= 1ull << other->phys;
    return fc_end(r);
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    fc_ctx *mine, *other;
    CUresult r = peer_begin(__func__, handle, &mine, &other);

    if (r != CUDA_SUCCESS)
        return r;
    if (!(mine->peers & 1ull << other->phys))
        return fc_end(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    mine->peers &= ~(1ull << other->phys);
    return fc_end(r);
}
