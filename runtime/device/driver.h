/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver, loaded at run time: every call of it that Wharf makes goes
 * through the table below, so that the same binary runs without a driver, a
 * test can put another library in its place (WHARF_CUDA_DRIVER), and each call
 * can be made to fail.
 */
#ifndef WI_DEVICE_DRIVER_H
#define WI_DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "base/fault.h"
#include "wharf/status.h"

/*
 * Symbol, version of its signature. The version picks both the type of the
 * pointer and what cuGetProcAddress is asked for, so the two cannot disagree;
 * it is the one from before the _v2 names that cuda.h of CUDA 13 maps some of
 * them to, and all exist in driver 12.0.
 */
#define WI_DRIVER_LIST(X)                                                      \
    X(cuInit, 2000)                                                            \
    X(cuDriverGetVersion, 2020)                                                \
    X(cuGetErrorName, 6000)                                                    \
    X(cuGetErrorString, 6000)                                                  \
    X(cuDeviceGetCount, 2000)                                                  \
    X(cuDeviceGet, 2000)                                                       \
    X(cuDeviceGetName, 2000)                                                   \
    X(cuDeviceGetUuid, 11040)                                                  \
    X(cuDeviceTotalMem, 3020)                                                  \
    X(cuDeviceGetAttribute, 2000)                                              \
    X(cuDeviceCanAccessPeer, 4000)                                             \
    X(cuDeviceGetP2PAttribute, 8000)                                           \
    X(cuDevicePrimaryCtxRetain, 7000)                                          \
    X(cuDevicePrimaryCtxRelease, 11000)                                        \
    X(cuCtxPushCurrent, 4000)                                                  \
    X(cuCtxPopCurrent, 4000)                                                   \
    X(cuCtxSetCurrent, 4000)                                                   \
    X(cuCtxGetCurrent, 4000)                                                   \
    X(cuCtxGetDevice, 2000)                                                    \
    X(cuCtxGetId, 12000)                                                       \
    X(cuCtxSynchronize, 2000)                                                  \
    X(cuThreadExchangeStreamCaptureMode, 10010)                                \
    X(cuStreamCreate, 2000)                                                    \
    X(cuStreamDestroy, 4000)                                                   \
    X(cuStreamQuery, 2000)                                                     \
    X(cuStreamSynchronize, 2000)                                               \
    X(cuStreamGetCtx, 9020)                                                    \
    X(cuStreamIsCapturing, 10000)                                              \
    X(cuStreamWaitEvent, 3020)                                                 \
    X(cuStreamBatchMemOp, 11070)                                               \
    X(cuLibraryLoadData, 12000)                                                \
    X(cuLibraryUnload, 12000)                                                  \
    X(cuLibraryGetKernel, 12000)                                               \
    X(cuKernelGetFunction, 12000)                                              \
    X(cuFuncGetAttribute, 2020)                                                \
    X(cuLaunchKernelEx, 11060)                                                 \
    X(cuEventCreate, 2000)                                                     \
    X(cuEventDestroy, 4000)                                                    \
    X(cuEventRecord, 2000)                                                     \
    X(cuEventRecordWithFlags, 11010)                                           \
    X(cuEventQuery, 2000)                                                      \
    X(cuIpcGetEventHandle, 4010)                                               \
    X(cuIpcOpenEventHandle, 4010)                                              \
    X(cuIpcGetMemHandle, 4010)                                                 \
    X(cuIpcOpenMemHandle, 11000)                                               \
    X(cuIpcCloseMemHandle, 4010)                                               \
    X(cuMemGetInfo, 3020)                                                      \
    X(cuMemAlloc, 3020)                                                        \
    X(cuMemFree, 3020)                                                         \
    X(cuMemGetAddressRange, 3020)                                              \
    X(cuMemHostAlloc, 2020)                                                    \
    X(cuMemFreeHost, 2000)                                                     \
    X(cuMemHostRegister, 6050)                                                 \
    X(cuMemHostUnregister, 4000)                                               \
    X(cuMemHostGetDevicePointer, 3020)                                         \
    X(cuMemcpyAsync, 4000)                                                     \
    X(cuMemcpy2DAsync, 3020)                                                   \
    X(cuMemcpy3DAsync, 3020)                                                   \
    X(cuPointerGetAttributes, 7000)                                            \
    X(cuMemcpyHtoDAsync, 3020)                                                 \
    X(cuMemcpyDtoHAsync, 3020)                                                 \
    X(cuMemsetD8Async, 3020)                                                   \
    X(cuMemAddressReserve, 10020)                                              \
    X(cuMemAddressFree, 10020)                                                 \
    X(cuMemGetAllocationGranularity, 10020)                                    \
    X(cuMemCreate, 10020)                                                      \
    X(cuMemRelease, 10020)                                                     \
    X(cuMemMap, 10020)                                                         \
    X(cuMemUnmap, 10020)                                                       \
    X(cuMemSetAccess, 10020)                                                   \
    X(cuMemExportToShareableHandle, 10020)                                     \
    X(cuMemRetainAllocationHandle, 11000)                                      \
    X(cuMemGetAllocationPropertiesFromHandle, 10020)                           \
    X(cuMemPoolExportToShareableHandle, 11020)                                 \
    X(cuMemPoolExportPointer, 11020)                                           \
    X(cuMemPoolImportFromShareableHandle, 11020)                               \
    X(cuMemPoolImportPointer, 11020)                                           \
    X(cuMemPoolGetAccess, 11020)                                               \
    X(cuMemPoolSetAccess, 11020)                                               \
    X(cuMemPoolDestroy, 11020)                                                 \
    X(cuMemImportFromShareableHandle, 10020)

/* cuda.h defines some of the symbols as macros; they expand to the same name
 * here and at every use, so the members' real names do not matter. */
typedef struct wi_driver_table {
#define WI_DRIVER_MEMBER(symbol, version) PFN_##symbol##_v##version symbol;
    WI_DRIVER_LIST(WI_DRIVER_MEMBER)
#undef WI_DRIVER_MEMBER
    /* The older signature tells the parent's UUID for a MIG instance. */
    PFN_cuDeviceGetUuid_v9020 parent_uuid;
    int version; /* as cuDriverGetVersion, 13000 for 13.0 */
} wi_driver_table;

/* Filled by wi_driver_load, constant afterwards. */
extern wi_driver_table wi_driver;

/* Loads and initialises the driver, once for the process; any thread. Says
 * WHARF_ENODEV with the reason if there is none that can be used; a later call
 * tries again. WHARF_ESTATE in a forked child of a process that did this. */
wharf_status wi_driver_load(void);

/* WHARF_ESTATE in a forked child: the driver does not survive a fork. */
wharf_status wi_driver_check(void);

/* May give-back calls go to the driver? Not in a forked child. */
bool wi_driver_alive(void);

/* Fills the record for a failed call: "call(details): NAME (code): text",
 * with the status that the code stands for. */
wharf_status wi_driver_fail(const char *call, int code, const char *details,
                            ...) __attribute__((format(printf, 3, 4)));

/* The status that a code stands for, and what the user can do (or NULL). */
wharf_status wi_driver_status(int code, const char **remedy);

/* The WHARF_ENODEV of a process that sees no GPU. */
wharf_status wi_driver_no_device(int code);

/* "CUDA_ERROR_X (n): text" */
void wi_driver_describe(int code, char *text, size_t capacity);

/* Notes a give-back call that failed: quietly if the driver was shut down or
 * the context is ruined, when nothing can be given back any more. */
void wi_driver_lost(const char *call, int code);

/* One driver call, as its CUresult in an int. Asks for an injected fault. */
#define WI_CU_CODE(symbol, arguments)                                          \
    __extension__({                                                            \
        int wi_code_ = 0;                                                      \
        if (!wi_fault(WI_FAULT_DRIVER, #symbol, &wi_code_))                    \
            wi_code_ = (int)wi_driver.symbol arguments;                        \
        wi_code_;                                                              \
    })

/* One driver call, as a status, with the record filled on failure. The rest is
 * a printf format with arguments that says what was asked for. */
#define WI_CU(symbol, arguments, ...)                                          \
    __extension__({                                                            \
        int wi_code_ = 0;                                                      \
        if (!wi_fault(WI_FAULT_DRIVER, #symbol, &wi_code_))                    \
            wi_code_ = (int)wi_driver.symbol arguments;                        \
        wi_code_ == 0 ? WHARF_OK                                               \
                      : wi_driver_fail(#symbol, wi_code_, __VA_ARGS__);        \
    })

/* One call that gives something back: never made to fail, never made in a
 * forked child. */
#define WI_CU_BACK(symbol, arguments)                                          \
    do {                                                                       \
        if (wi_driver_alive()) {                                               \
            int wi_result_ = (int)wi_driver.symbol arguments;                  \
            if (wi_result_ != 0)                                               \
                wi_driver_lost(#symbol, wi_result_);                           \
        }                                                                      \
    } while (0)

#endif
