/* SPDX-License-Identifier: MIT */
/*
 * Entry points by name: cuGetProcAddress. Names carry no suffix, as with the
 * real driver, and where a later version of a function has other parameters,
 * the version that the caller names decides which one it gets.
 */
#include <string.h>

#include "fake.h"

#define P(name, version)                                                       \
    {                                                                          \
#name, version, (void *)(uintptr_t)name                                \
    }

/* Where versions differ in their parameters: the later first. */
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
#undef cuGetProcAddress
#define API __attribute__((visibility("default")))
API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);
API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev);
API CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx,
                               CUgreenCtx *green);
API CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
                              cuuint64_t flags);

static const struct {
    const char *name;
    int version; /* of the driver that brought it */
    void *entry;
} procs[] = {
    {"cuCtxCreate", 12050, (void *)(uintptr_t)cuCtxCreate_v4},
    {"cuCtxCreate", 3020, (void *)(uintptr_t)cuCtxCreate_v2},
    {"cuCtxGetDevice", 13000, (void *)(uintptr_t)cuCtxGetDevice_v2},
    {"cuCtxSynchronize", 13000, (void *)(uintptr_t)cuCtxSynchronize_v2},
    {"cuDeviceGetUuid", 11040, (void *)(uintptr_t)cuDeviceGetUuid_v2},
    {"cuDeviceGetUuid", 9020, (void *)(uintptr_t)cuDeviceGetUuid},
    {"cuEventElapsedTime", 12080, (void *)(uintptr_t)cuEventElapsedTime_v2},
    {"cuEventElapsedTime", 2000, (void *)(uintptr_t)cuEventElapsedTime},
    {"cuGetProcAddress", 12000, (void *)(uintptr_t)cuGetProcAddress_v2},
    {"cuGetProcAddress", 11030, (void *)(uintptr_t)cuGetProcAddress},
    {"cuGraphAddKernelNode", 12000, (void *)(uintptr_t)cuGraphAddKernelNode_v2},
    {"cuGraphInstantiate", 12000, (void *)(uintptr_t)cuGraphInstantiate},
    {"cuGraphInstantiateWithFlags", 11040,
     (void *)(uintptr_t)cuGraphInstantiateWithFlags},
    {"cuStreamGetCaptureInfo", 12030,
     (void *)(uintptr_t)cuStreamGetCaptureInfo_v3},
    {"cuStreamGetCtx", 12050, (void *)(uintptr_t)cuStreamGetCtx_v2},
    P(cuCtxDestroy, 4000),
    P(cuCtxDisablePeerAccess, 4000),
    P(cuCtxEnablePeerAccess, 4000),
    P(cuCtxGetApiVersion, 3020),
    P(cuCtxGetCurrent, 4000),
    P(cuCtxGetDevice, 2000),
    P(cuCtxGetFlags, 7000),
    P(cuCtxGetId, 12000),
    P(cuCtxGetStreamPriorityRange, 5050),
    P(cuCtxPopCurrent, 2000),
    P(cuCtxPushCurrent, 2000),
    P(cuCtxSetCurrent, 4000),
    P(cuCtxSynchronize, 2000),
    P(cuDeviceCanAccessPeer, 4000),
    P(cuDeviceGet, 2000),
    P(cuDeviceGetAttribute, 2000),
    P(cuDeviceGetByPCIBusId, 4010),
    P(cuDeviceGetCount, 2000),
    P(cuDeviceGetDefaultMemPool, 11020),
    P(cuDeviceGetMemPool, 11020),
    P(cuDeviceGetName, 2000),
    P(cuDeviceGetP2PAttribute, 8000),
    P(cuDeviceGetPCIBusId, 4010),
    P(cuDevicePrimaryCtxGetState, 7000),
    P(cuDevicePrimaryCtxRelease, 7000),
    P(cuDevicePrimaryCtxReset, 7000),
    P(cuDevicePrimaryCtxRetain, 7000),
    P(cuDevicePrimaryCtxSetFlags, 7000),
    P(cuDeviceTotalMem, 2000),
    P(cuDriverGetVersion, 2020),
    P(cuEventCreate, 2000),
    P(cuEventDestroy, 2000),
    P(cuEventQuery, 2000),
    P(cuEventRecord, 2000),
    P(cuEventRecordWithFlags, 11010),
    P(cuEventSynchronize, 2000),
    P(cuFuncGetAttribute, 2020),
    P(cuFuncLoad, 12040),
    P(cuFuncSetAttribute, 9000),
    P(cuGetErrorName, 6000),
    P(cuGetErrorString, 6000),
    P(cuGraphAddBatchMemOpNode, 11070),
    P(cuGraphAddEmptyNode, 10000),
    P(cuGraphAddEventRecordNode, 11010),
    P(cuGraphAddEventWaitNode, 11010),
    P(cuGraphAddHostNode, 10000),
    P(cuGraphAddMemcpyNode, 10000),
    P(cuGraphAddMemsetNode, 10000),
    P(cuGraphCreate, 10000),
    P(cuGraphDestroy, 10000),
    P(cuGraphExecDestroy, 10000),
    P(cuGraphGetNodes, 10000),
    P(cuGraphInstantiateWithParams, 12000),
    P(cuGraphLaunch, 10000),
    P(cuGraphNodeGetType, 10000),
    P(cuGraphUpload, 11010),
    P(cuInit, 2000),
    P(cuIpcCloseMemHandle, 4010),
    P(cuIpcGetEventHandle, 4010),
    P(cuIpcGetMemHandle, 4010),
    P(cuIpcOpenEventHandle, 4010),
    P(cuIpcOpenMemHandle, 4010),
    P(cuKernelGetFunction, 12000),
    P(cuLaunchCooperativeKernel, 9000),
    P(cuLaunchHostFunc, 10000),
    P(cuLaunchKernel, 4000),
    P(cuLaunchKernelEx, 11060),
    P(cuLibraryGetKernel, 12000),
    P(cuLibraryGetModule, 12000),
    P(cuLibraryLoadData, 12000),
    P(cuLibraryUnload, 12000),
    P(cuMemAddressFree, 10020),
    P(cuMemAddressReserve, 10020),
    P(cuMemAlloc, 2000),
    P(cuMemAllocAsync, 11020),
    P(cuMemAllocFromPoolAsync, 11020),
    P(cuMemAllocHost, 2000),
    P(cuMemAllocManaged, 6000),
    P(cuMemAllocPitch, 2000),
    P(cuMemCreate, 10020),
    P(cuMemExportToShareableHandle, 10020),
    P(cuMemFree, 2000),
    P(cuMemFreeAsync, 11020),
    P(cuMemFreeHost, 2000),
    P(cuMemGetAccess, 10020),
    P(cuMemGetAddressRange, 2000),
    P(cuMemGetAllocationGranularity, 10020),
    P(cuMemGetAllocationPropertiesFromHandle, 10020),
    P(cuMemGetInfo, 2000),
    P(cuMemHostAlloc, 2020),
    P(cuMemHostGetDevicePointer, 2020),
    P(cuMemHostGetFlags, 2030),
    P(cuMemHostRegister, 4000),
    P(cuMemHostUnregister, 4000),
    P(cuMemImportFromShareableHandle, 10020),
    P(cuMemMap, 10020),
    P(cuMemPoolCreate, 11020),
    P(cuMemPoolDestroy, 11020),
    P(cuMemPoolExportPointer, 11020),
    P(cuMemPoolExportToShareableHandle, 11020),
    P(cuMemPoolGetAccess, 11020),
    P(cuMemPoolGetAttribute, 11020),
    P(cuMemPoolImportFromShareableHandle, 11020),
    P(cuMemPoolImportPointer, 11020),
    P(cuMemPoolSetAccess, 11020),
    P(cuMemPoolSetAttribute, 11020),
    P(cuMemPoolTrimTo, 11020),
    P(cuMemRelease, 10020),
    P(cuMemRetainAllocationHandle, 11000),
    P(cuMemSetAccess, 10020),
    P(cuMemUnmap, 10020),
    P(cuMemcpy, 4000),
    P(cuMemcpy2D, 2000),
    P(cuMemcpy2DAsync, 2000),
    P(cuMemcpy2DUnaligned, 2000),
    P(cuMemcpy3D, 2000),
    P(cuMemcpy3DAsync, 2000),
    P(cuMemcpy3DPeer, 4000),
    P(cuMemcpy3DPeerAsync, 4000),
    P(cuMemcpyAsync, 4000),
    P(cuMemcpyDtoD, 2000),
    P(cuMemcpyDtoDAsync, 3000),
    P(cuMemcpyDtoH, 2000),
    P(cuMemcpyDtoHAsync, 2000),
    P(cuMemcpyHtoD, 2000),
    P(cuMemcpyHtoDAsync, 2000),
    P(cuMemcpyPeer, 4000),
    P(cuMemcpyPeerAsync, 4000),
    P(cuMemsetD16, 2000),
    P(cuMemsetD16Async, 3020),
    P(cuMemsetD2D32Async, 3020),
    P(cuMemsetD2D8Async, 3020),
    P(cuMemsetD32, 2000),
    P(cuMemsetD32Async, 3020),
    P(cuMemsetD8, 2000),
    P(cuMemsetD8Async, 3020),
    P(cuModuleGetFunction, 2000),
    P(cuModuleLoadData, 2000),
    P(cuModuleLoadDataEx, 2010),
    P(cuModuleLoadFatBinary, 2000),
    P(cuModuleUnload, 2000),
    P(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050),
    P(cuPointerGetAttribute, 4000),
    P(cuPointerGetAttributes, 7000),
    P(cuPointerSetAttribute, 6000),
    P(cuStreamAddCallback, 5000),
    P(cuStreamBatchMemOp, 8000),
    P(cuStreamBeginCapture, 10010),
    P(cuStreamBeginCaptureToGraph, 12030),
    P(cuStreamCreate, 2000),
    P(cuStreamCreateWithPriority, 5050),
    P(cuStreamDestroy, 2000),
    P(cuStreamEndCapture, 10000),
    P(cuStreamGetCtx, 9020),
    P(cuStreamGetDevice, 12080),
    P(cuStreamGetFlags, 5050),
    P(cuStreamGetId, 12000),
    P(cuStreamGetPriority, 5050),
    P(cuStreamIsCapturing, 10000),
    P(cuStreamQuery, 2000),
    P(cuStreamSynchronize, 2000),
    P(cuStreamWaitEvent, 3020),
    P(cuStreamWaitValue32, 8000),
    P(cuStreamWaitValue64, 9000),
    P(cuStreamWriteValue32, 8000),
    P(cuStreamWriteValue64, 9000),
    P(cuThreadExchangeStreamCaptureMode, 10010),
};

void *fc_proc_find(const char *name, int version, bool *newer)
{
    *newer = false;
    for (size_t i = 0; i < sizeof procs / sizeof procs[0]; i++) {
        if (strcmp(procs[i].name, name))
            continue;
        if (procs[i].version <= version)
            return procs[i].entry;
        *newer = true;
    }
    return NULL;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    int driver = 0;
    bool newer;

    if (!symbol || !pfn || flags & ~3ull)
        return CUDA_ERROR_INVALID_VALUE;
    cuDriverGetVersion(&driver);
    *pfn = fc_proc_find(symbol, version < driver ? version : driver, &newer);
    if (status)
        *status = *pfn    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : newer ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
                          cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}
