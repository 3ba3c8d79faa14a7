/* SPDX-License-Identifier: MIT */
/*
 * Copies by the copy engines: one call for what lies in one piece and for
 * strided shapes within the driver's limits, else one a plane or a row.
 */
#include <string.h>

#include "base/error.h"
#include "device/cuda_copy.h"

static wharf_status line(CUstream stream, const wi_copy_box *b)
{
    return WI_CU(cuMemcpyAsync,
                 ((CUdeviceptr)b->to, (CUdeviceptr)b->from, b->width, stream),
                 "%llu bytes, %p to %p", (unsigned long long)b->width, b->from,
                 b->to);
}

static wharf_status plane(CUstream stream, const wi_copy_box *b)
{
    CUDA_MEMCPY2D p;

    memset(&p, 0, sizeof p);
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    p.srcDevice = (CUdeviceptr)b->from;
    p.srcPitch = b->from_pitch;
    p.dstDevice = (CUdeviceptr)b->to;
    p.dstPitch = b->to_pitch;
    p.WidthInBytes = b->width;
    p.Height = b->rows;
    return WI_CU(cuMemcpy2DAsync, (&p, stream), "%llu x %llu bytes, %p to %p",
                 (unsigned long long)b->rows, (unsigned long long)b->width,
                 b->from, b->to);
}

static wharf_status volume(CUstream stream, const wi_copy_box *b)
{
    CUDA_MEMCPY3D p;

    memset(&p, 0, sizeof p);
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    p.srcDevice = (CUdeviceptr)b->from;
    p.srcPitch = b->from_pitch;
    p.srcHeight = b->from_plane / b->from_pitch;
    p.dstDevice = (CUdeviceptr)b->to;
    p.dstPitch = b->to_pitch;
    p.dstHeight = b->to_plane / b->to_pitch;
    p.WidthInBytes = b->width;
    p.Height = b->rows;
    p.Depth = b->planes;
    return WI_CU(cuMemcpy3DAsync, (&p, stream),
                 "%llu x %llu x %llu bytes, %p to %p",
                 (unsigned long long)b->planes, (unsigned long long)b->rows,
                 (unsigned long long)b->width, b->from, b->to);
}

/* With rows as planes: the engines want the wider steps outside. */
static wi_copy_box turned(const wi_copy_box *b)
{
    wi_copy_box t = *b;

    t.rows = b->planes;
    t.planes = b->rows;
    t.to_pitch = b->to_plane;
    t.to_plane = b->to_pitch;
    t.from_pitch = b->from_plane;
    t.from_plane = b->from_pitch;
    return t;
}

/* The box without its outermost dimension, so many steps in. */
static wi_copy_box row_of(const wi_copy_box *b, uint64_t row)
{
    wi_copy_box r = *b;

    r.to = (char *)b->to + row * b->to_pitch;
    r.from = (const char *)b->from + row * b->from_pitch;
    r.rows = r.planes = 1;
    return r;
}

static wi_copy_box plane_of(const wi_copy_box *b, uint64_t at)
{
    wi_copy_box p = *b;

    p.to = (char *)b->to + at * b->to_plane;
    p.from = (const char *)b->from + at * b->from_plane;
    p.planes = 1;
    return p;
}

/* The engines step from plane to plane by whole rows. */
static bool planes_step_by_rows(const wi_copy_box *b)
{
    return b->to_plane % b->to_pitch == 0 &&
           b->from_plane % b->from_pitch == 0 &&
           b->to_plane / b->to_pitch >= b->rows &&
           b->from_plane / b->from_pitch >= b->rows;
}

static wharf_status plane_or_rows(uint64_t most_pitch, CUstream stream,
                                  const wi_copy_box *b)
{
    wharf_status status = WHARF_OK;

    if (b->rows == 1)
        return line(stream, b);
    if (b->to_pitch <= most_pitch && b->from_pitch <= most_pitch)
        return plane(stream, b);
    for (uint64_t i = 0; i < b->rows && status == WHARF_OK; i++) {
        wi_copy_box row = row_of(b, i);

        status = line(stream, &row);
    }
    return status;
}

wharf_status wi_cuda_copy_engine(uint64_t most_pitch, CUstream stream,
                                 const wi_copy_box *box)
{
    wi_copy_box b = wi_copy_box_simple(box);
    wharf_status status = WHARF_OK;

    if (b.width == 0)
        return WHARF_OK;
    if (b.planes > 1 && b.to_plane < b.to_pitch)
        b = turned(&b);
    if (b.planes == 1)
        return plane_or_rows(most_pitch, stream, &b);
    if (b.to_pitch <= most_pitch && b.from_pitch <= most_pitch &&
        planes_step_by_rows(&b))
        return volume(stream, &b);
    for (uint64_t i = 0; i < b.planes && status == WHARF_OK; i++) {
        wi_copy_box one = plane_of(&b, i);

        status = plane_or_rows(most_pitch, stream, &one);
    }
    return status;
}
