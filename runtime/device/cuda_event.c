/* SPDX-License-Identifier: MIT */
/* Streams of the caller, and interprocess events on them. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/stat.h"
#include "device/cuda_device.h"

typedef struct cuda_event {
    wi_event base; /* first */
    CUevent event;
} cuda_event;

_Static_assert(sizeof(CUipcEventHandle) == WI_EVENT_HANDLE_BYTES,
               "an event handle fills the seam's room");

static wi_cuda *event_cuda(const wi_event *event)
{
    return wi_cuda_of(event->device);
}

static CUevent event_native(const wi_event *event)
{
    return ((const cuda_event *)event)->event;
}

/* Handles that stand for a stream of whatever context is current. */
static bool stream_is_special(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY ||
           stream == CU_STREAM_PER_THREAD;
}

/* The device of a context other than the primary one: a green context's
 * streams belong to the device all the same. */
static int context_device(CUcontext context, CUdevice *device)
{
    CUcontext popped;
    int code = WI_CU_CODE(cuCtxPushCurrent, (context));

    if (code != CUDA_SUCCESS)
        return code;
    code = WI_CU_CODE(cuCtxGetDevice, (device));
    WI_CU_BACK(cuCtxPopCurrent, (&popped));
    return code;
}

wharf_status wi_cuda_check_stream(wi_device *device, wharf_stream stream)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wharf_status status = wi_driver_check();
    CUcontext context = NULL;
    CUdevice other = -1;
    int code;

    if (status != WHARF_OK || stream_is_special(stream))
        return status;
    status = wi_cuda_check_context(cuda);
    if (status != WHARF_OK)
        return status;
    code = WI_CU_CODE(cuStreamGetCtx, (stream, &context));
    if (code == CUDA_SUCCESS && context == cuda->context)
        return WHARF_OK;
    if (code == CUDA_SUCCESS)
        code = context_device(context, &other);
    if (code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_CONTEXT)
        return wi_fail(WHARF_EARG, "pass a stream that is not destroyed",
                       "stream %p is no stream of this process",
                       (void *)stream);
    if (code != CUDA_SUCCESS)
        return wi_driver_fail("cuStreamGetCtx", code, "stream %p",
                              (void *)stream);
    if (other == cuda->device)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass a stream of this rank's GPU",
                   "stream %p belongs to device %d, this rank uses device %d",
                   (void *)stream, other, cuda->device);
}

static wharf_status event_new(wi_device *device, cuda_event **event)
{
    cuda_event *made;

    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    made->base.device = device;
    *event = made;
    return WHARF_OK;
}

wharf_status wi_cuda_event_create(wi_device *device, wi_event **event)
{
    wi_cuda *cuda = wi_cuda_of(device);
    unsigned flags = CU_EVENT_DISABLE_TIMING;
    wi_cuda_visit visit;
    cuda_event *made;
    wharf_status status = event_new(device, &made);

    if (status != WHARF_OK)
        return status;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_new;
    if (device->desc.caps & WI_CAP_IPC_EVENT)
        flags |= CU_EVENT_INTERPROCESS;
    status = WI_CU(cuEventCreate, (&made->event, flags), "flags %u, device %d",
                   flags, cuda->device);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_new;
    wi_stat_add(WI_STAT_live_driver_events, 1);
    *event = &made->base;
    return WHARF_OK;

undo_new:
    wi_free(made);
    return status;
}

wharf_status wi_cuda_event_export(wi_event *event,
                                  unsigned char handle[WI_EVENT_HANDLE_BYTES])
{
    wi_cuda *cuda = event_cuda(event);
    const wi_device_desc *desc = &event->device->desc;
    CUipcEventHandle native = {{0}};
    wi_cuda_visit visit;
    wharf_status status;

    if (!(desc->caps & WI_CAP_IPC_EVENT))
        return wi_fail(WHARF_EUNSUPPORTED, "hand over by a notify or a barrier",
                       "device %d (%s) has no interprocess events",
                       desc->ordinal, desc->name);
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuIpcGetEventHandle, (&native, event_native(event)),
                   "device %d", cuda->device);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        memcpy(handle, &native, sizeof native);
    return status;
}

wharf_status wi_cuda_event_open(wi_device *device, const unsigned char *handle,
                                wi_event **event)
{
    wi_cuda *cuda = wi_cuda_of(device);
    CUipcEventHandle native;
    wi_cuda_visit visit;
    cuda_event *made;
    wharf_status status = event_new(device, &made);

    if (status != WHARF_OK)
        return status;
    memcpy(&native, handle, sizeof native);
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        goto undo_new;
    status = WI_CU(cuIpcOpenEventHandle, (&made->event, native), "device %d",
                   cuda->device);
    wi_cuda_leave(&visit);
    if (status != WHARF_OK)
        goto undo_new;
    wi_stat_add(WI_STAT_live_driver_events, 1);
    *event = &made->base;
    return WHARF_OK;

undo_new:
    wi_free(made);
    return status;
}

/*
 * Is the stream being captured into a graph? Then an interprocess event needs
 * the external flags: it becomes a node of the graph that acts on the event at
 * each launch, instead of an edge inside the graph. The legacy default stream
 * is never captured, so it is not asked. The context is current.
 */
static wharf_status stream_captures(CUstream stream, bool *captures)
{
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    wharf_status status;

    *captures = false;
    if (!stream || stream == CU_STREAM_LEGACY)
        return WHARF_OK;
    status = WI_CU(cuStreamIsCapturing, (stream, &state), "stream %p",
                   (void *)stream);
    if (status == WHARF_OK)
        *captures = state != CU_STREAM_CAPTURE_STATUS_NONE;
    return status;
}

wharf_status wi_cuda_capturing(wi_device *device, wharf_stream stream,
                               bool *capturing)
{
    wi_cuda_visit visit;
    bool captures = false;
    wharf_status status = wi_cuda_stream_enter(wi_cuda_of(device), &visit);

    if (status != WHARF_OK)
        return status;
    status = stream_captures(stream, &captures);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        *capturing = captures;
    return status;
}

/* The driver records an event by streams of its own context only, which its
 * "invalid handle" does not say. */
static wharf_status record_failed(const wi_cuda *cuda, CUstream stream,
                                  const char *call, int code)
{
    CUcontext context = cuda->context;

    if (code == CUDA_ERROR_INVALID_HANDLE && !stream_is_special(stream) &&
        WI_CU_CODE(cuStreamGetCtx, (stream, &context)) == CUDA_SUCCESS &&
        context != cuda->context)
        return wi_fail_native(WHARF_EARG, WHARF_SOURCE_CUDA, code,
                              "pass a stream of the GPU's primary context, "
                              "which the runtime's streams are of",
                              "stream %p belongs to another context of device "
                              "%d, where no event of Wharf can be recorded",
                              (void *)stream, cuda->device);
    return wi_driver_fail(call, code, "stream %p", (void *)stream);
}

wharf_status wi_cuda_event_record(wi_event *event, wharf_stream stream)
{
    wi_cuda *cuda = event_cuda(event);
    CUevent native = event_native(event);
    const char *call = "cuEventRecord";
    wi_cuda_visit visit;
    bool captures;
    wharf_status status = wi_cuda_enter(cuda, &visit);
    int code = CUDA_SUCCESS;

    if (status != WHARF_OK)
        return status;
    status = stream_captures(stream, &captures);
    if (status == WHARF_OK && captures) {
        call = "cuEventRecordWithFlags";
        code = WI_CU_CODE(cuEventRecordWithFlags,
                          (native, stream, CU_EVENT_RECORD_EXTERNAL));
    } else if (status == WHARF_OK) {
        code = WI_CU_CODE(cuEventRecord, (native, stream));
    }
    if (code != CUDA_SUCCESS)
        status = record_failed(cuda, stream, call, code);
    wi_cuda_leave(&visit);
    return status;
}

wharf_status wi_cuda_event_wait(wi_event *event, wharf_stream stream)
{
    wi_cuda *cuda = event_cuda(event);
    wi_cuda_visit visit;
    bool captures;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = stream_captures(stream, &captures);
    if (status == WHARF_OK)
        status =
            WI_CU(cuStreamWaitEvent,
                  (stream, event_native(event),
                   captures ? CU_EVENT_WAIT_EXTERNAL : CU_EVENT_WAIT_DEFAULT),
                  "stream %p", (void *)stream);
    wi_cuda_leave(&visit);
    return status;
}

wharf_status wi_cuda_event_query(wi_event *event)
{
    wi_cuda *cuda = event_cuda(event);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);
    int code;

    if (status != WHARF_OK)
        return status;
    code = WI_CU_CODE(cuEventQuery, (event_native(event)));
    if (code == CUDA_ERROR_NOT_READY)
        status = WHARF_ENOTREADY;
    else if (code != CUDA_SUCCESS)
        status =
            wi_driver_fail("cuEventQuery", code, "device %d", cuda->device);
    wi_cuda_leave(&visit);
    return status;
}

void wi_cuda_event_destroy(wi_event *event)
{
    wi_cuda_visit visit;

    if (!event)
        return;
    if (wi_cuda_enter_back(event_cuda(event), &visit))
        WI_CU_BACK(cuEventDestroy, (event_native(event)));
    wi_cuda_leave(&visit);
    wi_cuda_event_abandon(event);
}

void wi_cuda_event_abandon(wi_event *event)
{
    if (!event)
        return;
    wi_stat_add(WI_STAT_live_driver_events, -1);
    wi_free(event);
}
