/* SPDX-License-Identifier: MIT */
/*
 * Loading and launching the library's kernels. They are loaded as a library of
 * the driver's, which holds them for every context: a stream of another context
 * of this device takes them as well.
 */
#include "base/error.h"
#include "device/cuda_device.h"

/*
 * Finds one kernel and brings it to the GPU. By default the driver does that
 * at the first launch, and may then wait for all work of the context, a wait
 * for a peer included; asking for the function and for an attribute of it
 * does it now.
 */
static wharf_status kernel_find(const wi_cuda *cuda, CUlibrary library,
                                const wi_cuda_kernel *wanted)
{
    CUfunction function = NULL;
    int registers = 0;
    wharf_status status =
        WI_CU(cuLibraryGetKernel, (wanted->kernel, library, wanted->name), "%s",
              wanted->name);

    if (status == WHARF_OK)
        status = WI_CU(cuKernelGetFunction, (&function, *wanted->kernel),
                       "%s, device %d", wanted->name, cuda->device);
    if (status == WHARF_OK)
        status = WI_CU(cuFuncGetAttribute,
                       (&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
                       "%s, device %d", wanted->name, cuda->device);
    return status;
}

wharf_status wi_cuda_kernels_load(const wi_cuda *cuda,
                                  const unsigned char *image,
                                  const wi_cuda_kernel *kernels, int count,
                                  CUlibrary *library)
{
    /* The image is a constant of this library: the driver need not copy it. */
    CUlibraryOption options[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
    int preserved = 1;
    void *values[] = {&preserved};
    CUlibrary made = NULL;
    wharf_status status = WI_CU(
        cuLibraryLoadData, (&made, image, NULL, NULL, 0, options, values, 1),
        "%s, device %d of compute capability %d.%d", kernels[0].name,
        cuda->device, cuda->base.desc.compute_major,
        cuda->base.desc.compute_minor);

    if (status != WHARF_OK)
        return status;
    for (int i = 0; i < count && status == WHARF_OK; i++)
        status = kernel_find(cuda, made, &kernels[i]);
    if (status != WHARF_OK) {
        WI_CU_BACK(cuLibraryUnload, (made));
        return status;
    }
    *library = made;
    return WHARF_OK;
}

/* A kernel of a library stands for the function that it is in the stream's
 * context. The attribute is one of compute capability 9.0 and later. */
wharf_status wi_cuda_launch(const wi_cuda *cuda, CUstream stream,
                            CUkernel kernel, void *parameter, uint32_t blocks,
                            uint32_t threads, bool early, const char *what)
{
    void *parameters[] = {parameter};
    CUlaunchAttribute overlap = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .value.programmaticStreamSerializationAllowed = 1,
    };
    CUlaunchConfig config = {
        .gridDimX = blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = stream,
        .attrs = &overlap,
        .numAttrs = early && cuda->base.desc.compute_major >= 9 ? 1 : 0,
    };

    return WI_CU(cuLaunchKernelEx,
                 (&config, (CUfunction)kernel, parameters, NULL),
                 "%s, %u blocks, stream %p", what, blocks, (void *)stream);
}
