/* SPDX-License-Identifier: MIT */
/*
 * Entry points: copies and fills.
 *
 * Pageable host memory behaves as with the real driver: a source is read
 * before the call returns, a target is written before the call returns.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static bool pageable(uint64_t va)
{
    return !fc_va_is_device(va) && !fc_region_at(va);
}

static void stage(fc_copy *c)
{
    unsigned char *to = malloc(c->width * c->height * c->depth);

    if (!to)
        abort();
    c->staged = to;
    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height; y++) {
            memcpy(to,
                   (const void *)(uintptr_t)(c->src + z * c->src_slice +
                                             y * c->src_pitch),
                   c->width);
            to += c->width;
        }
}

static bool rows_exist(const char *call, uint64_t at, uint64_t pitch,
                       uint64_t slice, const fc_copy *c)
{
    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height; y++)
            if (!fc_va_check(call, at + z * slice + y * pitch, c->width))
                return false;
    return true;
}

/* `wait`: the call is a synchronous one. */
static CUresult copy_locked(const char *call, fc_ctx *ctx, const fc_copy *want,
                            CUstream stream, bool wait)
{
    fc_stream *s;
    CUresult r = fc_stream_mine(call, stream, ctx, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!want->width || !want->height || !want->depth)
        return CUDA_SUCCESS;
    if (!want->dst || !want->src ||
        !rows_exist(call, want->dst, want->dst_pitch, want->dst_slice, want) ||
        !rows_exist(call, want->src, want->src_pitch, want->src_slice, want))
        return CUDA_ERROR_INVALID_VALUE;
    fc_op *op = fc_op_new(FC_OP_COPY, ctx->phys);
    op->u.copy = *want;
    if (pageable(want->src) && !s->capture)
        stage(&op->u.copy);
    wait = (wait || pageable(want->dst)) && !s->capture;
    r = fc_submit(s, op);
    if (r == CUDA_SUCCESS && wait)
        r = fc_stream_drain(s);
    return r;
}

static CUresult copy(const char *call, const fc_copy *want, CUstream stream,
                     bool wait)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(call, FC_CTX | (wait ? FC_UNSAFE : 0u), &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(copy_locked(call, ctx, want, stream, wait));
}

static fc_copy line(uint64_t dst, uint64_t src, size_t bytes)
{
    return (fc_copy){
        .dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes)
{
    fc_copy c = line(dst, (uintptr_t)src, bytes);

    return copy(__func__, &c, NULL, true);
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes)
{
    fc_copy c = line((uintptr_t)dst, src, bytes);

    return copy(__func__, &c, NULL, true);
}

/* Between devices the host does not wait. */
CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    fc_copy c = line(dst, src, bytes);

    return copy(__func__, &c, NULL, false);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    fc_copy c = line(dst, src, bytes);

    return copy(__func__, &c, NULL, true);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                      CUcontext src_ctx, size_t bytes)
{
    fc_copy c = line(dst, src, bytes);

    if (!dst_ctx || !src_ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy(__func__, &c, NULL, false);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes,
                           CUstream stream)
{
    fc_copy c = line(dst, (uintptr_t)src, bytes);

    return copy(__func__, &c, stream, false);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes,
                           CUstream stream)
{
    fc_copy c = line((uintptr_t)dst, src, bytes);

    return copy(__func__, &c, stream, false);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                           CUstream stream)
{
    fc_copy c = line(dst, src, bytes);

    return copy(__func__, &c, stream, false);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                       CUstream stream)
{
    fc_copy c = line(dst, src, bytes);

    return copy(__func__, &c, stream, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                           CUcontext src_ctx, size_t bytes, CUstream stream)
{
    fc_copy c = line(dst, src, bytes);

    if (!dst_ctx || !src_ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy(__func__, &c, stream, false);
}

/* ---- Two and three dimensions ------------------------------------------- */

static CUresult side(CUmemorytype type, const void *host, CUdeviceptr device,
                     uint64_t *at)
{
    if (type == CU_MEMORYTYPE_HOST)
        *at = (uintptr_t)host;
    else if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
        *at = device;
    else
        return CUDA_ERROR_NOT_SUPPORTED; /* arrays */
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, fc_copy *c)
{
    CUresult r = side(p->srcMemoryType, p->srcHost, p->srcDevice, &c->src);

    if (r == CUDA_SUCCESS)
        r = side(p->dstMemoryType, p->dstHost, p->dstDevice, &c->dst);
    if (r != CUDA_SUCCESS)
        return r;
    c->src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    c->dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes;
    if (p->WidthInBytes > c->src_pitch || p->WidthInBytes > c->dst_pitch)
        return CUDA_ERROR_INVALID_VALUE;
    c->src += p->srcXInBytes + p->srcY * c->src_pitch;
    c->dst += p->dstXInBytes + p->dstY * c->dst_pitch;
    c->src_slice = c->dst_slice = 0;
    c->width = p->WidthInBytes;
    c->height = p->Height;
    c->depth = 1;
    c->staged = NULL;
    return r;
}

static CUresult copy_3d(const CUDA_MEMCPY3D_PEER *p, fc_copy *c)
{
    CUresult r = side(p->srcMemoryType, p->srcHost, p->srcDevice, &c->src);

    if (r == CUDA_SUCCESS)
        r = side(p->dstMemoryType, p->dstHost, p->dstDevice, &c->dst);
    if (r != CUDA_SUCCESS)
        return r;
    c->src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    c->dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes;
    if (p->WidthInBytes > c->src_pitch || p->WidthInBytes > c->dst_pitch)
        return CUDA_ERROR_INVALID_VALUE;
    c->src_slice = c->src_pitch * (p->srcHeight ? p->srcHeight : p->Height);
    c->dst_slice = c->dst_pitch * (p->dstHeight ? p->dstHeight : p->Height);
    c->src += p->srcXInBytes + p->srcY * c->src_pitch + p->srcZ * c->src_slice;
    c->dst += p->dstXInBytes + p->dstY * c->dst_pitch + p->dstZ * c->dst_slice;
    c->width = p->WidthInBytes;
    c->height = p->Height;
    c->depth = p->Depth;
    c->staged = NULL;
    return r;
}

/* The plain form lacks the contexts and is the same otherwise. */
static CUDA_MEMCPY3D_PEER as_peer(const CUDA_MEMCPY3D *p)
{
    CUDA_MEMCPY3D_PEER q;

    memset(&q, 0, sizeof q);
    q.srcXInBytes = p->srcXInBytes;
    q.srcY = p->srcY;
    q.srcZ = p->srcZ;
    q.srcMemoryType = p->srcMemoryType;
    q.srcHost = p->srcHost;
    q.srcDevice = p->srcDevice;
    q.srcPitch = p->srcPitch;
    q.srcHeight = p->srcHeight;
    q.dstXInBytes = p->dstXInBytes;
    q.dstY = p->dstY;
    q.dstZ = p->dstZ;
    q.dstMemoryType = p->dstMemoryType;
    q.dstHost = p->dstHost;
    q.dstDevice = p->dstDevice;
    q.dstPitch = p->dstPitch;
    q.dstHeight = p->dstHeight;
    q.WidthInBytes = p->WidthInBytes;
    q.Height = p->Height;
    q.Depth = p->Depth;
    return q;
}

CUresult fc_copy_from_3d(const CUDA_MEMCPY3D *p, fc_copy *c)
{
    CUDA_MEMCPY3D_PEER q = as_peer(p);

    return copy_3d(&q, c);
}

static CUresult run_2d(const char *call, const CUDA_MEMCPY2D *p,
                       CUstream stream, bool wait)
{
    fc_copy c;
    CUresult r = p ? copy_2d(p, &c) : CUDA_ERROR_INVALID_VALUE;

    return r == CUDA_SUCCESS ? copy(call, &c, stream, wait) : r;
}

static CUresult run_3d(const char *call, const CUDA_MEMCPY3D_PEER *p,
                       CUstream stream, bool wait)
{
    fc_copy c;
    CUresult r = p ? copy_3d(p, &c) : CUDA_ERROR_INVALID_VALUE;

    return r == CUDA_SUCCESS ? copy(call, &c, stream, wait) : r;
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *p)
{
    return run_2d(__func__, p, NULL, true);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *p)
{
    return run_2d(__func__, p, NULL, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream stream)
{
    return run_2d(__func__, p, stream, false);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *p)
{
    CUDA_MEMCPY3D_PEER q = as_peer(p);

    return run_3d(__func__, &q, NULL, true);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *p, CUstream stream)
{
    CUDA_MEMCPY3D_PEER q = as_peer(p);

    return run_3d(__func__, &q, stream, false);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
    return run_3d(__func__, p, NULL, true);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    return run_3d(__func__, p, stream, false);
}
