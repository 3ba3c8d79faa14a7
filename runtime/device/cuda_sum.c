/* SPDX-License-Identifier: MIT */
/* Sums over memory by a kernel, see sum.h. */
#include "base/error.h"
#include "device/cuda_device.h"
#include "device/sum.h"
#include "device/sum_step.h"

/* The fat binary of sum_kernels.cu, made by the build. */
extern const unsigned char wi_sum_kernels_image[];

static wharf_status sum_prepare(wi_device *device)
{
    wi_cuda *cuda = wi_cuda_of(device);
    const wi_cuda_kernel kernel = {"wi_kernel_sum", &cuda->sum};
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    if (!cuda->sums)
        status = wi_cuda_kernels_load(cuda, wi_sum_kernels_image, &kernel, 1,
                                      &cuda->sums);
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    return status;
}

void wi_cuda_sum_close(wi_cuda *cuda)
{
    if (cuda->sums)
        WI_CU_BACK(cuLibraryUnload, (cuda->sums));
    cuda->sums = NULL;
}

static wharf_status launch(wi_device *device, wharf_stream stream,
                           wi_sum_args *args)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_stream_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = wi_cuda_launch(cuda, stream, cuda->sum, args, 1, WI_SUM_THREADS,
                            false, "a sum");
    wi_cuda_leave(&visit);
    return status;
}

static wharf_status sum_store(wi_device *device, wharf_stream stream,
                              const void *from, size_t bytes, uint64_t *sum)
{
    wi_sum_args args = {.from = from, .bytes = bytes, .sum = sum};

    return launch(device, stream, &args);
}

static wharf_status sum_compare(wi_device *device, wharf_stream stream,
                                const void *from, size_t bytes,
                                const uint64_t *sum, uint32_t *report,
                                uint32_t value)
{
    wi_sum_args args = {.from = from, .bytes = bytes, .report = report};

    args.sum = (uint64_t *)(uintptr_t)sum; /* only read, with a report */
    args.value = value;
    return launch(device, stream, &args);
}

const wi_sum_ops wi_sums_cuda = {
    .prepare = sum_prepare,
    .store = sum_store,
    .compare = sum_compare,
};
