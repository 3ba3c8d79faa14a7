/* SPDX-License-Identifier: MIT */
/*
 * Host memory in which the GPU and this process's CPU meet: words that kernels
 * report to, and what messages to other nodes go through.
 *
 * The pages are this process's own, page-locked by the driver. Memory that the
 * driver allocates goes with the context, so that after a cudaDeviceReset the
 * next look of the CPU, by a call or a thread that drives messages, would end
 * the process. Shared ones: a private page may be replaced by a fork's copy
 * while the GPU keeps the old one.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "device/cuda_device.h"

/* In the device's list, under its lock. */
struct wi_cuda_report {
    struct wi_cuda_report *next;
    void *at;
    size_t bytes;
    bool drivers; /* allocated by the driver */
};

/* As the driver's code; the context is current. */
static int pages_lock(void *at, size_t bytes)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    CUdeviceptr seen = 0;
    int code = WI_CU_CODE(cuMemHostRegister, (at, bytes, flags));

    if (code != CUDA_SUCCESS)
        return code;
    code = WI_CU_CODE(cuMemHostGetDevicePointer, (&seen, at, 0));
    if (code == CUDA_SUCCESS && wi_cuda_pointer(seen) != at)
        code = CUDA_ERROR_NOT_SUPPORTED;
    if (code != CUDA_SUCCESS)
        WI_CU_BACK(cuMemHostUnregister, (at));
    return code;
}

/* Pages of this process, locked; NULL where they cannot be had. */
static void *pages_take(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char text[112];
    int code;

    if (at == MAP_FAILED)
        return NULL;
    code = pages_lock(at, bytes);
    if (code == CUDA_SUCCESS)
        return at;
    munmap(at, bytes);
    wi_driver_describe(code, text, sizeof text);
    wi_log(WI_LOG_DEBUG,
           "%zu bytes for reports come from the driver, locking pages: %s",
           bytes, text);
    return NULL;
}

/* The context is current. */
static wharf_status take(struct wi_cuda_report *report)
{
    unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    wharf_status status;

    report->at = pages_take(report->bytes);
    if (report->at)
        return WHARF_OK;
    report->drivers = true;
    status = WI_CU(cuMemHostAlloc, (&report->at, report->bytes, flags),
                   "%zu bytes", report->bytes);
    if (status == WHARF_OK)
        memset(report->at, 0, report->bytes);
    return status;
}

wharf_status wi_cuda_report_alloc(wi_device *device, size_t words,
                                  uint32_t **out)
{
    wi_cuda *cuda = wi_cuda_of(device);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct wi_cuda_report *report;
    wi_cuda_visit visit;
    wharf_status status;

    if (!WI_NEW(report))
        return WHARF_ENOMEM;
    report->bytes = (words ? words : 1) * sizeof **out;
    report->bytes = (report->bytes + page - 1) / page * page;
    status = wi_cuda_enter(cuda, &visit);
    if (status == WHARF_OK) {
        status = take(report);
        wi_cuda_leave(&visit);
    }
    if (status != WHARF_OK) {
        wi_free(report);
        return status;
    }
    pthread_mutex_lock(&cuda->lock);
    report->next = cuda->reports;
    cuda->reports = report;
    pthread_mutex_unlock(&cuda->lock);
    *out = report->at;
    return WHARF_OK;
}

static struct wi_cuda_report *list_take(wi_cuda *cuda, const void *at)
{
    struct wi_cuda_report *found = NULL;

    pthread_mutex_lock(&cuda->lock);
    for (struct wi_cuda_report **r = &cuda->reports; *r; r = &(*r)->next)
        if ((*r)->at == at) {
            found = *r;
            *r = found->next;
            break;
        }
    pthread_mutex_unlock(&cuda->lock);
    return found;
}

void wi_cuda_report_free(wi_device *device, uint32_t *words)
{
    wi_cuda *cuda = wi_cuda_of(device);
    struct wi_cuda_report *report = words ? list_take(cuda, words) : NULL;
    wi_cuda_visit visit;

    if (!report)
        return;
    bool here = wi_cuda_enter_back(cuda, &visit);
    if (here && report->drivers)
        WI_CU_BACK(cuMemFreeHost, (report->at));
    else if (here)
        WI_CU_BACK(cuMemHostUnregister, (report->at));
    wi_cuda_leave(&visit);
    if (!report->drivers)
        munmap(report->at, report->bytes);
    wi_free(report);
}

void wi_cuda_report_close(wi_cuda *cuda)
{
    while (cuda->reports) {
        struct wi_cuda_report *report = cuda->reports;

        cuda->reports = report->next;
        wi_free(report);
    }
}
