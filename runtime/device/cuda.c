/* SPDX-License-Identifier: MIT */
/* The CUDA backend: contexts and the small transfers that attaching needs. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/stat.h"
#include "device/copy.h"
#include "device/cuda_device.h"
#include "device/foreign.h"
#include "device/numa.h"
#include "device/sum.h"

/* ---- Contexts ---------------------------------------------------------- */

/*
 * After cudaDeviceReset the runtime's next call makes another context at the
 * same address, in which the driver follows handles of the first one into freed
 * memory, and where their numbers may be somebody else's. Only the id differs.
 */
static bool context_gone(const wi_cuda *cuda)
{
    unsigned long long id = cuda->context_id;
    int code = (int)wi_driver.cuCtxGetId(cuda->context, &id);

    return code == CUDA_ERROR_CONTEXT_IS_DESTROYED || id != cuda->context_id;
}

wharf_status wi_cuda_check_context(const wi_cuda *cuda)
{
    wharf_status status = wi_driver_check();

    if (status != WHARF_OK || !context_gone(cuda))
        return status;
    return wi_driver_fail("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED,
                          "device %d", cuda->device);
}

wharf_status wi_cuda_enter(const wi_cuda *cuda, wi_cuda_visit *visit)
{
    wharf_status status = wi_cuda_check_context(cuda);
    CUcontext previous;

    memset(visit, 0, sizeof *visit);
    if (status != WHARF_OK)
        return status;
    status =
        WI_CU(cuCtxPushCurrent, (cuda->context), "device %d", cuda->device);
    if (status != WHARF_OK)
        return status;
    visit->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    status =
        WI_CU(cuThreadExchangeStreamCaptureMode, (&visit->mode), "relaxed");
    if (status != WHARF_OK) {
        WI_CU_BACK(cuCtxPopCurrent, (&previous));
        return status;
    }
    visit->pushed = true;
    visit->exchanged = true;
    return WHARF_OK;
}

/* Enqueuing is allowed in every capture mode, so that only the context has to
 * be right; it mostly is, and two calls are saved. */
wharf_status wi_cuda_stream_enter(const wi_cuda *cuda, wi_cuda_visit *visit)
{
    CUcontext current = NULL;
    wharf_status status = wi_cuda_check_context(cuda);

    memset(visit, 0, sizeof *visit);
    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuCtxGetCurrent, (&current), "device %d", cuda->device);
    if (status != WHARF_OK || current == cuda->context)
        return status;
    status =
        WI_CU(cuCtxPushCurrent, (cuda->context), "device %d", cuda->device);
    visit->pushed = status == WHARF_OK;
    return status;
}

bool wi_cuda_enter_back(const wi_cuda *cuda, wi_cuda_visit *visit)
{
    int code;

    memset(visit, 0, sizeof *visit);
    if (!wi_driver_alive())
        return false;
    code = (int)wi_driver.cuCtxPushCurrent(cuda->context);
    if (code != CUDA_SUCCESS)
        wi_driver_lost("cuCtxPushCurrent", code);
    visit->pushed = code == CUDA_SUCCESS;
    visit->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    code = (int)wi_driver.cuThreadExchangeStreamCaptureMode(&visit->mode);
    visit->exchanged = code == CUDA_SUCCESS;
    return !context_gone(cuda);
}

void wi_cuda_leave(const wi_cuda_visit *visit)
{
    CUstreamCaptureMode mode = visit->mode;
    CUcontext previous;

    if (visit->exchanged)
        WI_CU_BACK(cuThreadExchangeStreamCaptureMode, (&mode));
    if (visit->pushed)
        WI_CU_BACK(cuCtxPopCurrent, (&previous));
}

/* ---- Opening and closing ----------------------------------------------- */

wharf_status wi_cuda_granularity(const CUmemAllocationProp *prop,
                                 size_t *granularity)
{
    static const CUmemAllocationGranularity_flags flags[] = {
        CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED};
    size_t most = 1;

    for (int i = 0; i < 2; i++) {
        size_t got = 0;
        wharf_status status =
            WI_CU(cuMemGetAllocationGranularity, (&got, prop, flags[i]),
                  "location %d of type %d", prop->location.id,
                  (int)prop->location.type);

        if (status != WHARF_OK)
            return status;
        while (most < got)
            most *= 2;
    }
    *granularity = most;
    return WHARF_OK;
}

static wharf_status granularity_ask(CUmemLocation location, size_t *granularity)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = location};

    return wi_cuda_granularity(&prop, granularity);
}

static wharf_status device_granularity_ask(wi_cuda *cuda)
{
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                            .id = cuda->device};

    return cuda->base.desc.caps & WI_CAP_VMM
               ? granularity_ask(device, &cuda->granularity)
               : WHARF_OK;
}

/*
 * Can the driver make memory of the host that is shared? Asked when it is first
 * wanted. Sets host_granularity; ranges of addresses are aligned as the device
 * wants it.
 */
static bool host_vmm_works(wi_cuda *cuda, char reason[96])
{
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
                          .id = wi_numa_system.here()};
    wi_cuda_visit visit;
    size_t got = 0;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status == WHARF_OK) {
        status = granularity_ask(host, &got);
        wi_cuda_leave(&visit);
    }
    if (status == WHARF_OK && got <= cuda->granularity) {
        cuda->host_granularity = cuda->granularity;
        return true;
    }
    if (status == WHARF_OK)
        snprintf(reason, 96, "the driver makes host memory in pieces of %zu",
                 got);
    else
        snprintf(reason, 96, "%.95s", wi_error_record()->cause);
    return false;
}

/* What lives in the context, which is current. */
static wharf_status device_equip(wi_cuda *cuda)
{
    wharf_status status;
    void *words = NULL;
    int read_only = 0;

    status = WI_CU(cuStreamCreate, (&cuda->stream, CU_STREAM_NON_BLOCKING),
                   "non-blocking, device %d", cuda->device);
    if (status != WHARF_OK)
        return status;
    status =
        WI_CU(cuMemHostAlloc, (&words, WI_CUDA_WORDS * sizeof *cuda->words, 0),
              "%zu bytes", WI_CUDA_WORDS * sizeof *cuda->words);
    if (status != WHARF_OK)
        goto undo_stream;
    cuda->words = words;
    status = device_granularity_ask(cuda);
    if (status == WHARF_OK)
        status = wi_cuda_attribute(
            cuda->device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
            &read_only);
    if (status != WHARF_OK)
        goto undo_words;
    cuda->read_only_host = read_only != 0;
    return WHARF_OK;

undo_words:
    WI_CU_BACK(cuMemFreeHost, (cuda->words));
undo_stream:
    WI_CU_BACK(cuStreamDestroy, (cuda->stream));
    return status;
}

static wharf_status cuda_open(const wi_device_desc *desc, wi_device **device)
{
    wharf_status status = wi_driver_load();
    wi_cuda_visit visit;
    wi_cuda *cuda;

    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(cuda))
        return WHARF_ENOMEM;
    cuda->base.ops = &wi_device_cuda;
    cuda->base.desc = *desc;
    pthread_mutex_init(&cuda->lock, NULL);
    status = WI_CU(cuDeviceGet, (&cuda->device, desc->ordinal), "ordinal %d",
                   desc->ordinal);
    if (status != WHARF_OK)
        goto undo_new;
    status =
        WI_CU(cuDevicePrimaryCtxRetain, (&cuda->context, cuda->device),
              "device %d, %s, PCI %s", desc->ordinal, desc->name, desc->pci);
    if (status != WHARF_OK)
        goto undo_new;
    status = WI_CU(cuCtxGetId, (cuda->context, &cuda->context_id), "device %d",
                   cuda->device);
    if (status == WHARF_OK)
        status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_retain;
    status = device_equip(cuda);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_retain;
    wi_stat_add(WI_STAT_live_contexts, 1);
    *device = &cuda->base;
    return WHARF_OK;

undo_retain:
    WI_CU_BACK(cuDevicePrimaryCtxRelease, (cuda->device));
undo_new:
    pthread_mutex_destroy(&cuda->lock);
    wi_free(cuda);
    return status;
}

static void cuda_close(wi_device *device)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;

    if (!cuda)
        return;
    bool here = wi_cuda_enter_back(cuda, &visit);
    wi_cuda_copy_close(cuda, here);
    wi_cuda_sum_close(cuda);
    wi_cuda_kernels_unload(cuda);
    wi_cuda_report_close(cuda);
    if (here) {
        WI_CU_BACK(cuMemFreeHost, (cuda->words));
        WI_CU_BACK(cuStreamDestroy, (cuda->stream));
    }
    wi_cuda_leave(&visit);
    if (!__atomic_load_n(&cuda->keeps, __ATOMIC_RELAXED))
        WI_CU_BACK(cuDevicePrimaryCtxRelease, (cuda->device));
    wi_stat_add(WI_STAT_live_contexts, -1);
    pthread_mutex_destroy(&cuda->lock);
    wi_free(cuda);
}

/* The end of its context would be the end of all that was made in it. */
static void cuda_keep(wi_device *device)
{
    __atomic_store_n(&wi_cuda_of(device)->keeps, 1, __ATOMIC_RELAXED);
}

static wharf_status cuda_make_current(wi_device *device)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wharf_status status = wi_driver_check();

    if (status != WHARF_OK)
        return status;
    return WI_CU(cuCtxSetCurrent, (cuda->context), "device %d", cuda->device);
}

/*
 * Asking a stream, even an idle one of Wharf's own, reports a fault of any
 * kernel of the context once the GPU has told the driver of it.
 * cuCtxGetApiVersion and the like do not look, and cuCtxSynchronize would wait
 * for the application's work.
 */
static wharf_status cuda_health(wi_device *device)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);
    int code;

    if (status != WHARF_OK)
        return status;
    code = WI_CU_CODE(cuStreamQuery, (cuda->stream));
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
        status =
            wi_driver_fail("cuStreamQuery", code, "device %d", cuda->device);
    wi_cuda_leave(&visit);
    return status;
}

static wharf_status cuda_quiesce(wi_device *device)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuCtxSynchronize, (), "device %d", cuda->device);
    wi_cuda_leave(&visit);
    return status;
}

/* ---- Small transfers --------------------------------------------------- */

/*
 * Waits for what was put into the stream of small transfers. After a failure
 * too: what was started uses memory that the caller is about to give back.
 */
static wharf_status stream_finish(const wi_cuda *cuda, wharf_status status)
{
    if (status == WHARF_OK)
        status = WI_CU(cuStreamSynchronize, (cuda->stream), "device %d",
                       cuda->device);
    if (status != WHARF_OK)
        WI_CU_BACK(cuStreamSynchronize, (cuda->stream));
    return status;
}

static wharf_status cuda_write(wi_device *device, void *to, const void *from,
                               size_t bytes)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    status =
        WI_CU(cuMemcpyHtoDAsync, ((CUdeviceptr)to, from, bytes, cuda->stream),
              "%zu bytes to %p", bytes, to);
    status = stream_finish(cuda, status);
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    return status;
}

/* One copy a word into page-locked memory, one wait for all of them. */
static wharf_status words_read(const wi_cuda *cuda, const void *const *from,
                               int count, uint64_t *words)
{
    wharf_status status = WHARF_OK;
    int started = 0;

    while (started < count && status == WHARF_OK) {
        status = WI_CU(cuMemcpyDtoHAsync,
                       (&cuda->words[started], (CUdeviceptr)from[started],
                        sizeof *words, cuda->stream),
                       "a word from %p", from[started]);
        started += status == WHARF_OK;
    }
    status = stream_finish(cuda, status);
    if (status == WHARF_OK)
        memcpy(words, cuda->words, (size_t)count * sizeof *words);
    return status;
}

static wharf_status cuda_read_words(wi_device *device, const void *const *from,
                                    int count, uint64_t *words)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    for (int done = 0; done < count && status == WHARF_OK;
         done += WI_CUDA_WORDS) {
        int now = count - done < WI_CUDA_WORDS ? count - done : WI_CUDA_WORDS;

        status = words_read(cuda, from + done, now, words + done);
    }
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    return status;
}

static wharf_status cuda_fill_zero(wi_device *device, void *to, size_t bytes)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status;

    if (bytes == 0)
        return WHARF_OK;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    status = WI_CU(cuMemsetD8Async, ((CUdeviceptr)to, 0, bytes, cuda->stream),
                   "%zu bytes at %p", bytes, to);
    status = stream_finish(cuda, status);
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    return status;
}

static wharf_status cuda_local_alloc(wi_device *device, size_t bytes,
                                     void **pointer)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    CUdeviceptr got = 0;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuMemAlloc, (&got, bytes ? bytes : 1), "%zu bytes", bytes);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        *pointer = wi_cuda_pointer(got);
    return status;
}

static void cuda_local_free(wi_device *device, void *pointer)
{
    wi_cuda_visit visit;

    if (!pointer)
        return;
    if (wi_cuda_enter_back(wi_cuda_of(device), &visit))
        WI_CU_BACK(cuMemFree, ((CUdeviceptr)pointer));
    wi_cuda_leave(&visit);
}

/* ---- The table --------------------------------------------------------- */

static const wi_memory_ops *memory_find(wi_device *device,
                                        wharf_handle_kind kind, char reason[96])
{
    static const struct {
        wharf_handle_kind kind;
        uint32_t cap;
        const wi_memory_ops *ops;
        const char *without;
    } kinds[] = {
        {WHARF_HANDLE_VMM, WI_CAP_VMM, &wi_memory_vmm,
         "the GPU has no virtual memory management with descriptors"},
        {WHARF_HANDLE_IPC, WI_CAP_IPC, &wi_memory_ipc,
         "the GPU has no legacy memory handles"},
        {WHARF_HANDLE_MEMFD, WI_CAP_MAP_HOST, &wi_memory_host_cuda,
         "the GPU cannot map host memory"},
        {WHARF_HANDLE_HOST_VMM, WI_CAP_HOST_VMM, &wi_memory_host_vmm,
         "the driver makes no memory of the host that could be shared"},
    };

    if (kind == WHARF_HANDLE_FABRIC)
        return wi_cuda_fabric_works(wi_cuda_of(device), reason)
                   ? &wi_memory_fabric
                   : NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].kind != kind)
            continue;
        if (kind == WHARF_HANDLE_IPC && (device->desc.caps & kinds[i].cap) &&
            !wi_cuda_ipc_works(wi_cuda_of(device), reason))
            return NULL;
        if (kind == WHARF_HANDLE_HOST_VMM &&
            (device->desc.caps & kinds[i].cap) &&
            !host_vmm_works(wi_cuda_of(device), reason))
            return NULL;
        if (device->desc.caps & kinds[i].cap)
            return kinds[i].ops;
        wi_reason_set(reason, kinds[i].without);
        return NULL;
    }
    wi_reason_set(reason, "unknown kind of handle");
    return NULL;
}

/* What the driver refuses here is an answer and no failure: the record stays.
 */
static const wi_memory_ops *cuda_memory(wi_device *device,
                                        wharf_handle_kind kind, char reason[96])
{
    wharf_error kept = *wi_error_record();
    const wi_memory_ops *found = memory_find(device, kind, reason);

    *wi_error_record() = kept;
    return found;
}

static wharf_stream cuda_own_stream(wi_device *device)
{
    return wi_cuda_of(device)->stream;
}

const wi_device_ops wi_device_cuda = {
    .name = "cuda",
    .enumerate = wi_cuda_enumerate,
    .open = cuda_open,
    .close = cuda_close,
    .keep = cuda_keep,
    .make_current = cuda_make_current,
    .health = cuda_health,
    .link = wi_cuda_link,
    .memory = cuda_memory,
    .write = cuda_write,
    .read_words = cuda_read_words,
    .fill_zero = cuda_fill_zero,
    .local_alloc = cuda_local_alloc,
    .local_free = cuda_local_free,
    .quiesce = cuda_quiesce,
    .check_stream = wi_cuda_check_stream,
    .event_create = wi_cuda_event_create,
    .event_export = wi_cuda_event_export,
    .event_open = wi_cuda_event_open,
    .event_record = wi_cuda_event_record,
    .event_wait = wi_cuda_event_wait,
    .event_query = wi_cuda_event_query,
    .event_destroy = wi_cuda_event_destroy,
    .event_abandon = wi_cuda_event_abandon,
    .sync_prepare = wi_cuda_sync_prepare,
    .sync = wi_cuda_sync,
    .own_stream = cuda_own_stream,
    .capturing = wi_cuda_capturing,
    .report_alloc = wi_cuda_report_alloc,
    .report_free = wi_cuda_report_free,
    .foreign = &wi_foreign_cuda,
    .copy = &wi_copy_cuda,
    .sums = &wi_sums_cuda,
    .numa = &wi_numa_system,
};
