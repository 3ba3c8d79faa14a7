/* SPDX-License-Identifier: MIT */
/*
 * Entry points: modules, libraries, kernels and their launch. Any image loads;
 * every one holds every kernel of the table.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "futex.h"

typedef struct module {
    uint64_t handle;
    uint64_t ctx;  /* 0: a library, good for every context */
    uint64_t last; /* a library's module */
} module;

typedef struct function {
    uint64_t handle;
    uint64_t owner; /* module or library */
    const fc_kernel *kernel;
} function;

static fc_kernel *registered;

void fakeCudaRegisterKernel(const char *name, fake_cuda_kernel kernel,
                            const uint16_t *sizes, int count)
{
    fc_kernel *k = fc_zalloc(sizeof *k);

    pthread_mutex_lock(&fc.lock);
    *k = (fc_kernel){registered, name, kernel, sizes, count};
    registered = k;
    pthread_mutex_unlock(&fc.lock);
}

const fc_kernel *fc_kernel_find(const char *name)
{
    for (const fc_kernel *k = registered; k; k = k->next)
        if (!strcmp(k->name, name))
            return k;
    for (const fc_kernel *k = fc_kernel_table; k->name; k++)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}

/* ---- Loading ------------------------------------------------------------ */

static CUresult load(const char *call, const void *image, fc_kind kind,
                     uint64_t *handle)
{
    fc_ctx *ctx;
    CUresult r = fc_begin(call, kind == FC_K_MODULE ? FC_CTX : FC_INIT, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!image)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    module *m = fc_zalloc(sizeof *m);
    m->ctx = kind == FC_K_MODULE ? ctx->handle : 0;
    m->handle = fc_handle_new(kind, m);
    fc_live(kind == FC_K_MODULE ? FC_L_MODULE : FC_L_LIBRARY, 1);
    *handle = m->handle;
    return fc_end(r);
}

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    uint64_t handle;
    CUresult r = load(__func__, image, FC_K_MODULE, &handle);

    if (r == CUDA_SUCCESS)
        *out = (CUmodule)(uintptr_t)handle;
    return r;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image,
                            unsigned int count, CUjit_option *options,
                            void **values)
{
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return cuModuleLoadData(out, image);
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code,
                           CUjit_option *options, void **values,
                           unsigned int count, CUlibraryOption *lib_options,
                           void **lib_values, unsigned int lib_count)
{
    uint64_t handle;

    (void)options;
    (void)values;
    (void)count;
    (void)lib_options;
    (void)lib_values;
    (void)lib_count;
    CUresult r = load(__func__, code, FC_K_LIBRARY, &handle);
    if (r == CUDA_SUCCESS)
        *out = (CUlibrary)(uintptr_t)handle;
    return r;
}

static void drop_owned(void *object, void *user)
{
    function *f = object;

    if (f->owner != *(const uint64_t *)user)
        return;
    fc_handle_free(f->handle, false);
    free(f);
}

void fc_module_drop(void *object, bool with_context)
{
    module *m = object;

    fc_handle_each(FC_K_FUNCTION, drop_owned, &m->handle);
    fc_handle_each(FC_K_KERNEL, drop_owned, &m->handle);
    fc_handle_free(m->handle, with_context);
    fc_live(m->ctx ? FC_L_MODULE : FC_L_LIBRARY, -1);
    free(m);
}

bool fc_module_of(const void *object, uint64_t ctx)
{
    return ((const module *)object)->ctx == ctx;
}

static CUresult unload(const char *call, fc_kind kind, uint64_t handle)
{
    void *m;
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(kind, handle, call, &m);
    if (r == CUDA_SUCCESS)
        fc_module_drop(m, false);
    return fc_end(r);
}

CUresult cuModuleUnload(CUmodule handle)
{
    return unload(__func__, FC_K_MODULE, (uintptr_t)handle);
}

CUresult cuLibraryUnload(CUlibrary handle)
{
    return unload(__func__, FC_K_LIBRARY, (uintptr_t)handle);
}

/* ---- Functions ---------------------------------------------------------- */

typedef struct function_search {
    uint64_t owner;
    const fc_kernel *kernel;
    function *found;
} function_search;

static void function_match(void *object, void *user)
{
    function *f = object;
    function_search *s = user;

    if (f->owner == s->owner && f->kernel == s->kernel)
        s->found = f;
}

/* The same name gives the same handle, as long as the module lives. */
static CUresult function_get(fc_kind kind, uint64_t owner,
                             const fc_kernel *kernel, uint64_t *handle)
{
    function_search s = {owner, kernel, NULL};

    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    fc_handle_each(kind, function_match, &s);
    if (!s.found) {
        s.found = fc_zalloc(sizeof *s.found);
        s.found->owner = owner;
        s.found->kernel = kernel;
        s.found->handle = fc_handle_new(kind, s.found);
    }
    *handle = s.found->handle;
    return CUDA_SUCCESS;
}

static CUresult lookup(const char *call, fc_kind owner_kind, uint64_t owner,
                       fc_kind kind, const char *name, uint64_t *handle)
{
    void *m;
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(owner_kind, owner, call, &m);
    if (r == CUDA_SUCCESS && !name)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = function_get(kind, owner, fc_kernel_find(name), handle);
    return fc_end(r);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    uint64_t handle;
    CUresult r = lookup(__func__, FC_K_MODULE, (uintptr_t)m, FC_K_FUNCTION,
                        name, &handle);

    if (r == CUDA_SUCCESS)
        *out = (CUfunction)(uintptr_t)handle;
    return r;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    uint64_t handle;
    CUresult r = lookup(__func__, FC_K_LIBRARY, (uintptr_t)library, FC_K_KERNEL,
                        name, &handle);

    if (r == CUDA_SUCCESS)
        *out = (CUkernel)(uintptr_t)handle;
    return r;
}

/* A library is its own module here. */
CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    void *m;
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    (void)out;
    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_LIBRARY, (uintptr_t)library, __func__, &m);
    return fc_end(r == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : r);
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    void *found;
    uint64_t handle;
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_KERNEL, (uintptr_t)kernel, __func__, &found);
    if (r == CUDA_SUCCESS)
        r = function_get(FC_K_FUNCTION, ((function *)found)->owner,
                         ((function *)found)->kernel, &handle);
    if (r == CUDA_SUCCESS)
        *out = (CUfunction)(uintptr_t)handle;
    return fc_end(r);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction f)
{
    void *found;
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_FUNCTION, (uintptr_t)f, __func__, &found);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    default:
        *value = 0;
        break;
    }
    return fc_end(r);
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute,
                            int value)
{
    void *found;
    CUresult r = fc_begin(__func__, FC_CTX, NULL);

    (void)attribute;
    (void)value;
    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(fc_handle_get(FC_K_FUNCTION, (uintptr_t)f, __func__, &found));
}

CUresult cuFuncLoad(CUfunction f)
{
    return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                     int block_size,
                                                     size_t shared)
{
    (void)shared;
    if (block_size < 1 || block_size > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / block_size < 32 ? 2048 / block_size : 32;
    return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX, 0);
}

const fc_kernel *fc_function_kernel(uint64_t handle, const char *call,
                                    CUresult *r)
{
    void *found = fc_handle_peek(FC_K_KERNEL, handle);

    /* A kernel may stand where a function is asked for. */
    *r = CUDA_SUCCESS;
    if (!found)
        *r = fc_handle_get(FC_K_FUNCTION, handle, call, &found);
    return *r == CUDA_SUCCESS ? ((function *)found)->kernel : NULL;
}
