/* SPDX-License-Identifier: MIT */
/*
 * Signals and waits on streams of the caller: by the kernels of kernels.cu, by
 * stream memory operations, or by both. All of it may be captured into graphs.
 */
#include <string.h>

#include "base/error.h"
#include "device/cuda_device.h"

/* Most operations that the driver takes in one batch. */
#define BATCH_MOST 128

/* The fat binary of kernels.cu, made by the build. */
extern const unsigned char wi_kernels_image[];

_Static_assert(offsetof(wi_sync_args4, steps) ==
                   offsetof(wi_sync_args64, steps),
               "both kernels' parameters start alike");

static const char *how_name(wi_sync_how how)
{
    switch (how) {
    case WI_SYNC_KERNEL:
        return "kernel";
    case WI_SYNC_MEM_OPS:
        return "mem-ops";
    case WI_SYNC_HYBRID:
        return "hybrid";
    }
    return "unknown";
}

/* ---- Loading ----------------------------------------------------------- */

static wharf_status kernels_load(wi_cuda *cuda)
{
    const wi_cuda_kernel kernels[] = {{"wi_kernel_sync4", &cuda->sync4},
                                      {"wi_kernel_sync64", &cuda->sync64}};
    wharf_status status = wi_cuda_kernels_load(cuda, wi_kernels_image, kernels,
                                               2, &cuda->kernels);

    if (status == WHARF_OK)
        __atomic_store_n(&cuda->kernels_ready, 1, __ATOMIC_RELEASE);
    return status;
}

static wharf_status kernels_need(wi_cuda *cuda)
{
    wi_cuda_visit visit;
    wharf_status status;

    if (__atomic_load_n(&cuda->kernels_ready, __ATOMIC_ACQUIRE))
        return WHARF_OK;
    status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    if (!cuda->kernels)
        status = kernels_load(cuda);
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    return status;
}

void wi_cuda_kernels_unload(wi_cuda *cuda)
{
    if (cuda->kernels)
        WI_CU_BACK(cuLibraryUnload, (cuda->kernels));
    cuda->kernels = NULL;
    cuda->kernels_ready = 0;
}

wharf_status wi_cuda_sync_prepare(wi_device *device, wi_sync_how how)
{
    if (how != WI_SYNC_KERNEL && !(device->desc.caps & WI_CAP_MEM_OPS))
        return wi_fail(WHARF_EUNSUPPORTED,
                       "leave the mechanism to choice, or set it to kernel",
                       "%s was asked for and device %d (%s) has no stream "
                       "memory operations",
                       how_name(how), device->desc.ordinal, device->desc.name);
    return how == WI_SYNC_MEM_OPS ? WHARF_OK : kernels_need(wi_cuda_of(device));
}

/* ---- Kernels ----------------------------------------------------------- */

/* Where steps go, and what their waits do after a time. */
typedef struct target {
    const wi_cuda *cuda;
    CUstream stream;
    uint64_t timeout_ns;
    uint32_t *report;
} target;

/* One launch of 1 .. WI_SYNC_MANY steps. */
static wharf_status kernel_launch(const target *to, const wi_sync_step *steps,
                                  int count)
{
    CUkernel kernel = count <= WI_SYNC_FEW ? to->cuda->sync4 : to->cuda->sync64;
    wi_sync_args64 args;

    args.timeout_ns = to->timeout_ns;
    args.report = to->report;
    args.count = (uint32_t)count;
    args.unused = 0;
    memcpy(args.steps, steps, (size_t)count * sizeof *steps);
    return wi_cuda_launch(to->cuda, to->stream, kernel, &args, 1,
                          count <= 32 ? 32 : 64, true, "signals");
}

static wharf_status kernel_all(const target *to, const wi_sync_step *steps,
                               int count)
{
    wharf_status status = WHARF_OK;

    for (int done = 0; done < count && status == WHARF_OK;
         done += WI_SYNC_MANY) {
        int now = count - done < WI_SYNC_MANY ? count - done : WI_SYNC_MANY;

        status = kernel_launch(to, steps + done, now);
    }
    return status;
}

/* The steps of one kind. */
static wharf_status kernel_some(const target *to, const wi_sync_step *steps,
                                int count, wi_sync_kind kind)
{
    wi_sync_step some[WI_SYNC_MANY];
    wharf_status status = WHARF_OK;
    int held = 0;

    for (int i = 0; i < count && status == WHARF_OK; i++) {
        if (steps[i].kind != (uint32_t)kind)
            continue;
        some[held++] = steps[i];
        if (held == WI_SYNC_MANY) {
            status = kernel_launch(to, some, held);
            held = 0;
        }
    }
    if (status == WHARF_OK && held > 0)
        status = kernel_launch(to, some, held);
    return status;
}

/* ---- Memory operations ------------------------------------------------- */

typedef struct batch {
    CUstream stream;
    unsigned count;
    CUstreamBatchMemOpParams list[BATCH_MOST];
} batch;

static wharf_status batch_flush(batch *b)
{
    unsigned count = b->count;

    b->count = 0;
    if (count == 0)
        return WHARF_OK;
    return WI_CU(cuStreamBatchMemOp, (b->stream, count, b->list, 0),
                 "%u operations, stream %p", count, (void *)b->stream);
}

static CUstreamBatchMemOpParams *batch_next(batch *b)
{
    CUstreamBatchMemOpParams *next = &b->list[b->count++];

    memset(next, 0, sizeof *next);
    return next;
}

static void batch_write(batch *b, void *address, uint32_t value, unsigned flags)
{
    CUstreamBatchMemOpParams *next = batch_next(b);

    next->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    next->writeValue.address = (CUdeviceptr)address;
    next->writeValue.value = value;
    next->writeValue.flags = flags;
}

static void batch_wait(batch *b, void *address, uint32_t value, unsigned flags)
{
    CUstreamBatchMemOpParams *next = batch_next(b);

    next->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    next->waitValue.address = (CUdeviceptr)address;
    next->waitValue.value = value;
    next->waitValue.flags = flags;
}

/*
 * One step: at most two operations. A write is fenced unless told otherwise.
 * That of EXPECT need not be: nobody looks at the word again until this stream
 * signals that it came so far, and that signal is fenced.
 */
static void batch_step(batch *b, const wi_sync_step *step)
{
    switch (step->kind) {
    case WI_SYNC_WRITE:
        batch_write(b, step->address, step->value,
                    CU_STREAM_WRITE_VALUE_DEFAULT);
        break;
    case WI_SYNC_WAIT:
        batch_wait(b, step->address, step->value, CU_STREAM_WAIT_VALUE_GEQ);
        break;
    case WI_SYNC_TAKE: /* hybrid: a kernel takes it off afterwards */
        batch_wait(b, step->address, 1, CU_STREAM_WAIT_VALUE_GEQ);
        break;
    case WI_SYNC_EXPECT:
        batch_wait(b, step->address, step->value, CU_STREAM_WAIT_VALUE_EQ);
        batch_write(b, step->address, 0, CU_STREAM_WRITE_VALUE_DEFAULT);
        break;
    }
}

static wharf_status batch_all(CUstream stream, const wi_sync_step *steps,
                              int count)
{
    wharf_status status = WHARF_OK;
    batch b;

    b.stream = stream;
    b.count = 0;
    for (int i = 0; i < count && status == WHARF_OK; i++) {
        batch_step(&b, &steps[i]);
        if (b.count > BATCH_MOST - 2)
            status = batch_flush(&b);
    }
    return status == WHARF_OK ? batch_flush(&b) : status;
}

/* ---- The calls --------------------------------------------------------- */

/* All before anything is enqueued: half of a list must not run. */
static wharf_status steps_check(wi_sync_how how, const wi_sync_step *steps,
                                int count, uint64_t timeout_ns)
{
    static const unsigned allowed[] = {
        [WI_SYNC_KERNEL] = 1u << WI_SYNC_ADD | 1u << WI_SYNC_TAKE |
                           1u << WI_SYNC_WRITE | 1u << WI_SYNC_WAIT |
                           1u << WI_SYNC_EXPECT,
        [WI_SYNC_MEM_OPS] =
            1u << WI_SYNC_WRITE | 1u << WI_SYNC_WAIT | 1u << WI_SYNC_EXPECT,
        [WI_SYNC_HYBRID] = 1u << WI_SYNC_ADD | 1u << WI_SYNC_TAKE,
    };

    if (timeout_ns && how != WI_SYNC_KERNEL)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "wait without a timeout, or with the kernel mechanism",
                       "a wait with a timeout was asked for, and stream memory "
                       "operations (%s) have none",
                       how_name(how));
    for (int i = 0; i < count; i++) {
        if (steps[i].kind >= 32 || !(allowed[how] >> steps[i].kind & 1u))
            return wi_fail(WHARF_EUNSUPPORTED, NULL,
                           "step %d is of kind %u, which %s cannot do", i,
                           steps[i].kind, how_name(how));
    }
    return WHARF_OK;
}

static wharf_status hybrid_all(const target *to, const wi_sync_step *steps,
                               int count)
{
    wi_sync_step takes[WI_SYNC_MANY];
    wharf_status status = kernel_some(to, steps, count, WI_SYNC_ADD);
    int i = 0;

    /* In pieces, each waited for and then taken off: the order of the waits
     * does not matter, since all signals are out. */
    while (i < count && status == WHARF_OK) {
        int held = 0;

        for (; i < count && held < WI_SYNC_MANY; i++) {
            if (steps[i].kind == WI_SYNC_TAKE)
                takes[held++] = steps[i];
        }
        if (held == 0)
            break;
        status = batch_all(to->stream, takes, held);
        if (status == WHARF_OK)
            status = kernel_launch(to, takes, held);
    }
    return status;
}

wharf_status wi_cuda_sync(wi_device *device, wharf_stream stream,
                          wi_sync_how how, const wi_sync_step *steps, int count,
                          uint64_t timeout_ns, uint32_t *report)
{
    wi_cuda *cuda = wi_cuda_of(device);
    target to = {cuda, stream, timeout_ns, report};
    wi_cuda_visit visit;
    wharf_status status = steps_check(how, steps, count, timeout_ns);

    if (status == WHARF_OK)
        status = wi_cuda_sync_prepare(device, how);
    if (status == WHARF_OK)
        status = wi_cuda_stream_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    switch (how) {
    case WI_SYNC_KERNEL:
        status = kernel_all(&to, steps, count);
        break;
    case WI_SYNC_MEM_OPS:
        status = batch_all(stream, steps, count);
        break;
    case WI_SYNC_HYBRID:
        status = hybrid_all(&to, steps, count);
        break;
    }
    wi_cuda_leave(&visit);
    return status;
}
