/* SPDX-License-Identifier: MIT */
/*
 * Copies of the CUDA backend: loading the kernels, what a pointer points to,
 * tickets, and the table of operations.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/cuda_copy.h"

/* The fat binary of copy_kernels.cu, made by the build. */
extern const unsigned char wi_copy_kernels_image[];

/* ---- Preparing --------------------------------------------------------- */

/* Codes that say: this image does not run on this GPU with this driver. */
static bool image_refused(int code)
{
    return code == CUDA_ERROR_NO_BINARY_FOR_GPU ||
           code == CUDA_ERROR_INVALID_PTX ||
           code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           code == CUDA_ERROR_JIT_COMPILER_NOT_FOUND ||
           code == CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

/* copy->library stays NULL if the device cannot run them. */
static wharf_status kernels_load(const wi_cuda *cuda, struct wi_cuda_copy *copy)
{
    const wi_cuda_kernel kernels[] = {{"wi_kernel_copy_few", &copy->few},
                                      {"wi_kernel_copy_many", &copy->many}};
    wharf_error kept = *wi_error_record();
    wharf_status status = wi_cuda_kernels_load(cuda, wi_copy_kernels_image,
                                               kernels, 2, &copy->library);

    if (status == WHARF_OK)
        return WHARF_OK;
    if (!image_refused((int)wi_error_record()->native))
        return status;
    wi_log(WI_LOG_WARN, "all copies go by copy engines: %s",
           wi_error_record()->cause);
    *wi_error_record() = kept;
    return WHARF_OK;
}

/* Under the lock, in the context. */
static wharf_status page_add(wi_cuda *cuda, wi_copy_tickets **tickets)
{
    size_t bytes = (size_t)WI_COPY_TICKETS * WI_COPY_TICKET_STRIDE;
    wi_copy_tickets *page;
    wharf_status status;

    if (!WI_NEW(page))
        return WHARF_ENOMEM;
    status = WI_CU(cuMemAlloc, (&page->base, bytes), "%zu bytes", bytes);
    if (status != WHARF_OK)
        goto undo_page;
    status = WI_CU(cuMemsetD8Async, (page->base, 0, bytes, cuda->stream),
                   "%zu bytes of tickets", bytes);
    if (status == WHARF_OK)
        status = WI_CU(cuStreamSynchronize, (cuda->stream), "device %d",
                       cuda->device);
    if (status != WHARF_OK)
        goto undo_memory;
    page->next = *tickets;
    *tickets = page;
    return WHARF_OK;

undo_memory:
    WI_CU_BACK(cuStreamSynchronize, (cuda->stream));
    WI_CU_BACK(cuMemFree, (page->base));
undo_page:
    wi_free(page);
    return status;
}

/* Under the lock, in the context. */
static wharf_status copy_make(wi_cuda *cuda, uint32_t blocks_most)
{
    struct wi_cuda_copy *copy;
    int most_pitch = 0;
    wharf_status status;

    if (!WI_NEW(copy))
        return WHARF_ENOMEM;
    copy->blocks_most = blocks_most ? blocks_most : WI_COPY_BLOCKS;
    status = wi_cuda_attribute(cuda->device, CU_DEVICE_ATTRIBUTE_MAX_PITCH,
                               &most_pitch);
    if (status == WHARF_OK)
        status = page_add(cuda, &copy->tickets);
    if (status != WHARF_OK)
        goto undo_new;
    copy->most_pitch = (uint64_t)most_pitch;
    status = kernels_load(cuda, copy);
    if (status != WHARF_OK)
        goto undo_page;
    cuda->copy = copy;
    return WHARF_OK;

undo_page:
    WI_CU_BACK(cuMemFree, (copy->tickets->base));
    wi_free(copy->tickets);
undo_new:
    wi_free(copy);
    return status;
}

static wharf_status prepare(wi_device *device, uint32_t blocks_most,
                            bool *kernels)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    if (!cuda->copy)
        status = copy_make(cuda, blocks_most);
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        *kernels = cuda->copy->library != NULL;
    return status;
}

void wi_cuda_copy_close(wi_cuda *cuda, bool here)
{
    struct wi_cuda_copy *copy = cuda->copy;

    if (!copy)
        return;
    while (copy->tickets) {
        wi_copy_tickets *page = copy->tickets;

        copy->tickets = page->next;
        if (here)
            WI_CU_BACK(cuMemFree, (page->base));
        wi_free(page);
    }
    if (copy->library)
        WI_CU_BACK(cuLibraryUnload, (copy->library));
    wi_free(copy);
    cuda->copy = NULL;
}

wharf_status wi_cuda_copy_of(const wi_cuda *cuda,
                             const struct wi_cuda_copy **copy)
{
    if (!cuda->copy || !cuda->copy->library)
        return wi_fail(WHARF_EUNSUPPORTED, NULL,
                       "the copy kernels of device %d are not loaded",
                       cuda->device);
    *copy = cuda->copy;
    return WHARF_OK;
}

/* ---- Tickets ----------------------------------------------------------- */

/* A free one of a page, or NULL. */
static uint32_t *page_take(wi_copy_tickets *page)
{
    for (int w = 0; w < WI_COPY_TICKETS / 64; w++) {
        int bit;

        if (page->taken[w] == UINT64_MAX)
            continue;
        bit = __builtin_ctzll(~page->taken[w]);
        page->taken[w] |= UINT64_C(1) << bit;
        return wi_cuda_pointer(page->base + (CUdeviceptr)(w * 64 + bit) *
                                                WI_COPY_TICKET_STRIDE);
    }
    return NULL;
}

static uint32_t *any_take(wi_copy_tickets *page)
{
    uint32_t *got = NULL;

    for (; page && !got; page = page->next)
        got = page_take(page);
    return got;
}

wharf_status wi_cuda_copy_ticket_take(wi_device *device, uint32_t **ticket)
{
    wi_cuda *cuda = wi_cuda_of(device);
    const struct wi_cuda_copy *copy;
    wi_cuda_visit visit;
    uint32_t *got = NULL;
    wharf_status status = wi_cuda_copy_of(cuda, &copy);

    if (status == WHARF_OK)
        status = wi_cuda_enter(cuda, &visit);
    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&cuda->lock);
    got = any_take(cuda->copy->tickets);
    if (!got) {
        status = page_add(cuda, &cuda->copy->tickets);
        if (status == WHARF_OK)
            got = any_take(cuda->copy->tickets);
    }
    pthread_mutex_unlock(&cuda->lock);
    wi_cuda_leave(&visit);
    if (status == WHARF_OK)
        *ticket = got;
    return status;
}

void wi_cuda_copy_ticket_give(wi_device *device, uint32_t *ticket)
{
    wi_cuda *cuda = wi_cuda_of(device);
    CUdeviceptr at = (CUdeviceptr)ticket;
    CUdeviceptr bytes = (CUdeviceptr)WI_COPY_TICKETS * WI_COPY_TICKET_STRIDE;

    if (!ticket || !cuda->copy)
        return;
    pthread_mutex_lock(&cuda->lock);
    for (wi_copy_tickets *page = cuda->copy->tickets; page; page = page->next) {
        if (at < page->base || at >= page->base + bytes)
            continue;
        at = (at - page->base) / WI_COPY_TICKET_STRIDE;
        page->taken[at / 64] &= ~(UINT64_C(1) << at % 64);
        break;
    }
    pthread_mutex_unlock(&cuda->lock);
}

/* ---- What a pointer points to ------------------------------------------ */

typedef struct facts {
    unsigned type;     /* CUmemorytype, 0: unknown to the driver */
    int ordinal;       /* of the device */
    unsigned managed;  /* the driver writes one byte */
    CUcontext context; /* NULL: virtual memory management */
    CUdeviceptr here;  /* where kernels find it; 0: nowhere */
    unsigned access;   /* CU_POINTER_ATTRIBUTE_ACCESS_FLAG_... */
} facts;

static int facts_ask(const void *pointer, facts *f)
{
    /* In the order of what a driver may not know: that is left out. */
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
    void *values[] = {&f->type,    &f->ordinal, &f->managed,
                      &f->context, &f->here,    &f->access};
    int code = 0;

    for (unsigned count = 6; count >= 5; count--) {
        memset(f, 0, sizeof *f);
        code = WI_CU_CODE(cuPointerGetAttributes,
                          (count, names, values, (CUdeviceptr)pointer));
        if (code != CUDA_ERROR_INVALID_VALUE)
            break;
    }
    return code;
}

/*
 * Memory of another GPU. Mapped by virtual memory management it has rights of
 * its own for each GPU; for any other kind it would depend on who enabled which
 * peer in which context, and a wrong guess would be a fault.
 */
static wi_copy_place place_elsewhere(const facts *f)
{
    bool reached = !f->context && f->access;

    return reached ? WI_COPY_PLACE_PEER : WI_COPY_PLACE_FAR;
}

static void facts_judge(const wi_cuda *cuda, const void *pointer,
                        const facts *f, wi_copy_memory *memory)
{
    bool here = f->here == (CUdeviceptr)pointer;

    memory->read_only = f->access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ;
    if (f->type == 0)
        memory->place = WI_COPY_PLACE_PAGEABLE;
    else if (f->managed & 0xff)
        memory->place = WI_COPY_PLACE_FAR;
    else if (f->type == CU_MEMORYTYPE_HOST)
        memory->place = here ? WI_COPY_PLACE_HOST : WI_COPY_PLACE_FAR;
    else if (f->ordinal == cuda->base.desc.ordinal && here)
        memory->place = WI_COPY_PLACE_DEVICE;
    else
        memory->place = place_elsewhere(f);
}

static wharf_status look(wi_device *device, const void *pointer,
                         wi_copy_memory *memory)
{
    const wi_cuda *cuda = wi_cuda_of(device);
    wi_copy_memory found = {WI_COPY_PLACE_PAGEABLE, false};
    wi_cuda_visit visit;
    facts f;
    wharf_status status = wi_cuda_stream_enter(cuda, &visit);
    int code;

    if (status != WHARF_OK)
        return status;
    code = facts_ask(pointer, &f);
    wi_cuda_leave(&visit);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_INVALID_VALUE)
        return wi_driver_fail("cuPointerGetAttributes", code, "%p", pointer);
    if (code == CUDA_SUCCESS)
        facts_judge(cuda, pointer, &f, &found);
    *memory = found;
    return WHARF_OK;
}

/* ---- Copies ------------------------------------------------------------ */

static wharf_status copy_one(wi_device *device, wharf_stream stream,
                             wi_copy_by by, const wi_copy_box *box)
{
    wi_cuda *cuda = wi_cuda_of(device);
    uint64_t most_pitch = cuda->copy ? cuda->copy->most_pitch : 0;
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_stream_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = by == WI_COPY_BY_KERNEL
                 ? wi_cuda_copy_kernel(cuda, stream, box, NULL, NULL)
                 : wi_cuda_copy_engine(most_pitch, stream, box);
    wi_cuda_leave(&visit);
    return status;
}

static wharf_status copy_signal(wi_device *device, wharf_stream stream,
                                const wi_copy_box *box,
                                const wi_sync_step *signal, uint32_t *ticket)
{
    wi_cuda *cuda = wi_cuda_of(device);
    wi_cuda_visit visit;
    wharf_status status = wi_cuda_stream_enter(cuda, &visit);

    if (status != WHARF_OK)
        return status;
    status = wi_cuda_copy_kernel(cuda, stream, box, signal, ticket);
    wi_cuda_leave(&visit);
    return status;
}

const wi_copy_ops wi_copy_cuda = {
    .prepare = prepare,
    .look = look,
    .copy = copy_one,
    .copy_signal = copy_signal,
    .ticket_take = wi_cuda_copy_ticket_take,
    .ticket_give = wi_cuda_copy_ticket_give,
    .set_make = wi_cuda_copy_set_make,
    .set_launch = wi_cuda_copy_set_launch,
    .set_free = wi_cuda_copy_set_free,
};
