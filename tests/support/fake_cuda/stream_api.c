/* SPDX-License-Identifier: MIT */
/*
 * Entry points: streams and host functions.
 */
#include <stdlib.h>

#include "fake.h"

static CUresult create(const char *call, CUstream *stream, unsigned flags,
                       int priority)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(call, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (priority > 0)
        priority = 0;
    if (priority < -5)
        priority = -5;
    fc_stream *s = fc_stream_new(ctx, flags, priority);
    s->handle = fc_handle_new(FC_K_STREAM, s);
    s->next = ctx->streams;
    ctx->streams = s;
    fc_live(FC_L_STREAM, 1);
    *stream = (CUstream)(uintptr_t)s->handle;
    return fc_end(r);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return create(__func__, stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
                                    int priority)
{
    return create(__func__, stream, flags, priority);
}

CUresult cuStreamDestroy(CUstream handle)
{
    CUresult r = fc_begin(__func__, 0, NULL);
    void *found;

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_STREAM, (uintptr_t)handle, __func__, &found);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    fc_stream *s = found;
    for (fc_stream **at = &s->ctx->streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    fc_handle_free(s->handle, false);
    fc_live(FC_L_STREAM, -1);
    fc_stream_close(s);
    return fc_end(r);
}

/* Finds a stream under the lock; with `ends_capture`, the call is one that a
 * capturing stream forbids. */
static CUresult begin(const char *call, CUstream handle, bool ends_capture,
                      fc_stream **s)
{
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_find(call, handle, s);
    if (r == CUDA_SUCCESS && ends_capture && (*s)->capture) {
        fc_capture_break(*s);
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return r == CUDA_SUCCESS ? r : fc_end(r);
}

CUresult cuStreamQuery(CUstream handle)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, true, &s);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(fc_stream_busy(s) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, true, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!s->legacy)
        return fc_end(fc_stream_drain(s));
    /* The default stream is behind all blocking ones. */
    r = fc_submit(s, fc_op_new(FC_OP_EMPTY, s->ctx->phys));
    if (r == CUDA_SUCCESS)
        r = fc_stream_drain(s);
    return fc_end(r);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, false, &s);

    if (r != CUDA_SUCCESS)
        return r;
    *ctx = (CUcontext)(uintptr_t)s->ctx->handle;
    return fc_end(r);
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
    if (green)
        *green = NULL;
    return cuStreamGetCtx(handle, ctx);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, false, &s);

    if (r != CUDA_SUCCESS)
        return r;
    *device = fc_ordinal_of(s->ctx->phys);
    return fc_end(r);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, false, &s);

    if (r != CUDA_SUCCESS)
        return r;
    *flags = s->flags;
    return fc_end(r);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, false, &s);

    if (r != CUDA_SUCCESS)
        return r;
    *priority = s->priority;
    return fc_end(r);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    fc_stream *s;
    CUresult r = begin(__func__, handle, false, &s);

    if (r != CUDA_SUCCESS)
        return r;
    *id = s->id;
    return fc_end(r);
}

/* ---- Host functions ----------------------------------------------------- */

static CUresult host_op(const char *call, CUstream handle, CUhostFn fn,
                        CUstreamCallback callback, void *user)
{
    fc_ctx *ctx;
    fc_stream *s;
    CUresult r = fc_begin(call, 0, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_find(call, handle, &s);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    fc_op *op = fc_op_new(FC_OP_HOST, s->ctx->phys);
    op->u.host.fn = fn;
    op->u.host.callback = callback;
    op->u.host.stream = handle;
    op->u.host.user = user;
    return fc_end(fc_submit(s, op));
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *user)
{
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    return host_op(__func__, stream, fn, NULL, user);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback,
                             void *user, unsigned int flags)
{
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return host_op(__func__, stream, NULL, callback, user);
}
