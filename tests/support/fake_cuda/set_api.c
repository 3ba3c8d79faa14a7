/* SPDX-License-Identifier: MIT */
/*
 * Entry points: filling memory. The host does not wait for any of them.
 */
#include "fake.h"

typedef struct fill_want {
    uint64_t dst, pitch, width, height; /* width in elements */
    uint32_t value, element;
} fill_want;

static CUresult fill_locked(const char *call, fc_ctx *ctx, const fill_want *w,
                            CUstream stream)
{
    fc_stream *s;
    CUresult r = fc_stream_mine(call, stream, ctx, &s);

    if (r != CUDA_SUCCESS || !w->width || !w->height)
        return r;
    if (w->dst % w->element)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t y = 0; y < w->height; y++) {
        uint64_t at = w->dst + y * w->pitch;

        if (!fc_va_is_device(at) && !fc_region_at(at))
            return CUDA_ERROR_INVALID_VALUE;
        if (!fc_va_check(call, at, w->width * w->element))
            return CUDA_ERROR_INVALID_VALUE;
    }
    fc_op *op = fc_op_new(FC_OP_SET, ctx->phys);
    op->u.set.dst = w->dst;
    op->u.set.pitch = w->pitch;
    op->u.set.width = w->width;
    op->u.set.height = w->height;
    op->u.set.value = w->value;
    op->u.set.element = w->element;
    return fc_submit(s, op);
}

static CUresult fill(const char *call, fill_want w, CUstream stream)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(call, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(fill_locked(call, ctx, &w, stream));
}

CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t n)
{
    return fill(__func__, (fill_want){dst, 0, n, 1, value, 1}, NULL);
}

CUresult cuMemsetD16(CUdeviceptr dst, unsigned short value, size_t n)
{
    return fill(__func__, (fill_want){dst, 0, n, 1, value, 2}, NULL);
}

CUresult cuMemsetD32(CUdeviceptr dst, unsigned int value, size_t n)
{
    return fill(__func__, (fill_want){dst, 0, n, 1, value, 4}, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n,
                         CUstream stream)
{
    return fill(__func__, (fill_want){dst, 0, n, 1, value, 1}, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n,
                          CUstream stream)
{
    return fill(__func__, (fill_want){dst, 0, n, 1, value, 2}, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n,
                          CUstream stream)
{
    return fill(__func__, (fill_want){dst, 0, n, 1, value, 4}, stream);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value,
                           size_t width, size_t height, CUstream stream)
{
    return fill(__func__, (fill_want){dst, pitch, width, height, value, 1},
                stream);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value,
                            size_t width, size_t height, CUstream stream)
{
    return fill(__func__, (fill_want){dst, pitch, width, height, value, 4},
                stream);
}
