/* SPDX-License-Identifier: MIT */
/* What the driver's error codes mean to a user: status, remedy, words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "device/driver.h"

#define REMEDY_RUINED                                                          \
    "end this process; compute-sanitizer finds the kernel that did it"

/*
 * Codes, status, remedy. A range, since the codes of one meaning are
 * neighbours in cuda.h. The first that matches counts; all others are
 * WHARF_EDRIVER without a remedy.
 */
static const struct {
    int first, last;
    wharf_status status;
    const char *remedy;
} meanings[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, WHARF_EDEVMEM,
     "ask for less, or free what this or another process holds on the GPU"},
    {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, WHARF_ESTATE,
     "close the node before the process exits: the driver was shut down"},
    {CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY, WHARF_ENODEV,
     "take the toolkit's stubs directory out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE, WHARF_ENODEV,
     "set the GPU's compute mode to default (nvidia-smi -c 0), use MPS, or "
     "one rank a GPU"},
    {CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, WHARF_EDRIVER,
     "likely the job's device cgroup, or the rights of /dev/nvidia*, deny this "
     "GPU: allow it, or mask it"},
    {CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE, WHARF_ENODEV,
     "check nvidia-smi -L, CUDA_VISIBLE_DEVICES and the job's device cgroup"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE, WHARF_EFAULT,
     "the GPU's memory is failing: see nvidia-smi -q -d ECC"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE,
     WHARF_EFAULT, "an NVLink is failing: see nvidia-smi nvlink -e"},
    {CUDA_ERROR_CONTAINED, CUDA_ERROR_CONTAINED, WHARF_EFAULT, REMEDY_RUINED},
    {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, WHARF_EFAULT,
     REMEDY_RUINED},
    {CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, WHARF_EFAULT,
     REMEDY_RUINED},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED,
     WHARF_EFAULT,
     "close the node and open another; do not call cudaDeviceReset while a "
     "node is open"},
    {CUDA_ERROR_ASSERT, CUDA_ERROR_ASSERT, WHARF_EFAULT, REMEDY_RUINED},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_LAUNCH_FAILED, WHARF_EFAULT,
     REMEDY_RUINED},
    {CUDA_ERROR_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK, WHARF_EFAULT,
     REMEDY_RUINED},
    {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED, WHARF_EUNSUPPORTED,
     NULL},
    {CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY, WHARF_EDRIVER,
     "the system's GPU services (fabric manager) are not ready: see dmesg"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
     WHARF_EDRIVER, "kernel module and libcuda differ: reboot, or reload it"},
    {CUDA_ERROR_MPS_CONNECTION_FAILED, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
     WHARF_EDRIVER, "see the log of nvidia-cuda-mps-control"},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, CUDA_ERROR_MPS_CLIENT_TERMINATED,
     WHARF_EFAULT,
     "a fault of another MPS client can end this one: see the "
     "log of nvidia-cuda-mps-control"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, WHARF_ESTATE,
     "end the stream capture first, or capture in relaxed mode"},
};

wharf_status wi_driver_status(int code, const char **remedy)
{
    *remedy = NULL;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (code >= meanings[i].first && code <= meanings[i].last) {
            *remedy = meanings[i].remedy;
            return meanings[i].status;
        }
    }
    return WHARF_EDRIVER;
}

void wi_driver_describe(int code, char *text, size_t capacity)
{
    const char *name = NULL;
    const char *words = NULL;

    /* Both leave NULL behind for a code that the driver does not know. */
    if (wi_driver.cuGetErrorName)
        wi_driver.cuGetErrorName((CUresult)code, &name);
    if (wi_driver.cuGetErrorString)
        wi_driver.cuGetErrorString((CUresult)code, &words);
    snprintf(text, capacity, "%s (%d)%s%s", name ? name : "CUresult", code,
             words ? ": " : "", words ? words : "");
}

/* How much is left says more than "out of memory", if the failed call had a
 * context. */
static void describe_memory(char *text, size_t capacity)
{
    size_t left, total;
    CUcontext current = NULL;

    if (wi_driver_alive() &&
        wi_driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current &&
        wi_driver.cuMemGetInfo(&left, &total) == CUDA_SUCCESS)
        snprintf(text, capacity, "; %zu of %zu bytes are free", left, total);
}

wharf_status wi_driver_fail(const char *call, int code, const char *details,
                            ...)
{
    char what[96], meaning[96], memory[64] = "";
    const char *remedy, *no_descriptors = NULL;
    wharf_status status = wi_driver_status(code, &remedy);
    va_list args;

    va_start(args, details);
    vsnprintf(what, sizeof what, details, args);
    va_end(args);
    wi_driver_describe(code, meaning, sizeof meaning);
    if (status == WHARF_EDRIVER)
        no_descriptors = wi_sys_descriptors_short();
    /* Calls by other names may run where the current context is the caller's,
     * or one that is gone. */
    if (status == WHARF_EDEVMEM && strncmp(call, "cuMem", 5) == 0)
        describe_memory(memory, sizeof memory);
    return wi_fail_native(status, WHARF_SOURCE_CUDA, code,
                          no_descriptors ? no_descriptors : remedy,
                          "%s(%s): %s%s", call, what, meaning, memory);
}

void wi_driver_lost(const char *call, int code)
{
    const char *remedy;
    wharf_status status = wi_driver_status(code, &remedy);
    bool expected = status == WHARF_EFAULT || code == CUDA_ERROR_DEINITIALIZED;
    char text[128];

    if (!wi_log_on(expected ? WI_LOG_DEBUG : WI_LOG_WARN))
        return;
    wi_driver_describe(code, text, sizeof text);
    wi_log(expected ? WI_LOG_DEBUG : WI_LOG_WARN, "giving back failed, %s: %s",
           call, text);
}
