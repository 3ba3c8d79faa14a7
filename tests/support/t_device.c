/* SPDX-License-Identifier: MIT */
/* Memory, streams and contexts for tests: see t_device.h. */
#include "t_device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t_driver.h"
#include "t_test.h"

/* The entry points used, with the types of cuda.h spelled plainly. */
static struct {
    int (*memcpy_htod)(t_device_ptr, const void *, size_t);
    int (*memcpy_dtoh)(void *, t_device_ptr, size_t);
    int (*memset_d8)(t_device_ptr, unsigned char, size_t);
    int (*memcpy_async)(t_device_ptr, t_device_ptr, size_t, void *);
    int (*memset_d8_async)(t_device_ptr, unsigned char, size_t, void *);
    int (*stream_create)(void **, unsigned);
    int (*stream_destroy)(void *);
    int (*stream_synchronize)(void *);
    int (*ctx_get_current)(void **);
    int (*ctx_set_current)(void *);
    int (*ctx_get_device)(int *);
    int (*ctx_synchronize)(void);
    int (*primary_retain)(void **, int);
    int (*primary_release)(int);
    int (*primary_get_state)(int, unsigned *, int *);
    int (*init)(unsigned);
    int (*device_get_uuid)(unsigned char *, int);
    int (*device_get)(int *, int);
    int (*device_get_count)(int *);
    int (*mem_get_info)(size_t *, size_t *);
} cu;

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void load(void)
{
    t_driver_find("cuMemcpyHtoD_v2", &cu.memcpy_htod);
    t_driver_find("cuMemcpyDtoH_v2", &cu.memcpy_dtoh);
    t_driver_find("cuMemsetD8_v2", &cu.memset_d8);
    t_driver_find("cuMemcpyAsync", &cu.memcpy_async);
    t_driver_find("cuMemsetD8Async", &cu.memset_d8_async);
    t_driver_find("cuStreamCreate", &cu.stream_create);
    t_driver_find("cuStreamDestroy_v2", &cu.stream_destroy);
    t_driver_find("cuStreamSynchronize", &cu.stream_synchronize);
    t_driver_find("cuCtxGetCurrent", &cu.ctx_get_current);
    t_driver_find("cuCtxSetCurrent", &cu.ctx_set_current);
    t_driver_find("cuCtxGetDevice", &cu.ctx_get_device);
    t_driver_find("cuCtxSynchronize", &cu.ctx_synchronize);
    t_driver_find("cuDevicePrimaryCtxRetain", &cu.primary_retain);
    t_driver_find("cuDevicePrimaryCtxRelease_v2", &cu.primary_release);
    t_driver_find("cuDevicePrimaryCtxGetState", &cu.primary_get_state);
    t_driver_find("cuInit", &cu.init);
    t_driver_find("cuDeviceGetUuid_v2", &cu.device_get_uuid);
    t_driver_find("cuDeviceGet", &cu.device_get);
    t_driver_find("cuDeviceGetCount", &cu.device_get_count);
    t_driver_find("cuMemGetInfo_v2", &cu.mem_get_info);
}

static bool on_device(const wharf_node *node)
{
    if (node == NULL || wharf_node_backend(node) != WHARF_BACKEND_CUDA)
        return false;
    pthread_once(&loaded, load);
    return true;
}

void t_dev_write(const wharf_node *node, void *to, const void *from,
                 size_t bytes)
{
    if (bytes == 0)
        return;
    if (!on_device(node)) {
        memcpy(to, from, bytes);
        return;
    }
    t_driver_must(cu.memcpy_htod(t_driver_address(to), from, bytes),
                  "cuMemcpyHtoD");
    /* The copy of small pageable blocks may return before it arrived. */
    t_driver_must(cu.ctx_synchronize(), "cuCtxSynchronize");
}

void t_dev_read(const wharf_node *node, void *to, const void *from,
                size_t bytes)
{
    if (bytes == 0)
        return;
    if (!on_device(node))
        memcpy(to, from, bytes);
    else
        t_driver_must(cu.memcpy_dtoh(to, t_driver_address(from), bytes),
                      "cuMemcpyDtoH");
}

void t_dev_fill(const wharf_node *node, void *to, unsigned char value,
                size_t bytes)
{
    if (bytes == 0)
        return;
    if (!on_device(node)) {
        memset(to, value, bytes);
        return;
    }
    /* Refused for memory of another context, which copies reach. */
    if (cu.memset_d8(t_driver_address(to), value, bytes) != 0) {
        unsigned char *values = malloc(bytes);

        if (values == NULL)
            abort();
        memset(values, value, bytes);
        t_dev_write(node, to, values, bytes);
        free(values);
        return;
    }
    t_driver_must(cu.ctx_synchronize(), "cuCtxSynchronize");
}

unsigned char t_pattern_byte(uint64_t seed, size_t offset)
{
    uint64_t x = (uint64_t)offset * UINT64_C(0x9e3779b97f4a7c15) + seed;

    x ^= x >> 31;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (unsigned char)(x >> 56);
}

/* Patterns go through host memory in pieces of this many bytes. */
enum { PIECE = 1 << 20 };

static unsigned char *piece_new(size_t bytes)
{
    unsigned char *piece = malloc(bytes < PIECE ? bytes + 1 : PIECE);

    if (piece == NULL)
        T_FAIL("no memory");
    return piece;
}

void t_dev_fill_pattern(const wharf_node *node, void *to, size_t bytes,
                        uint64_t seed)
{
    unsigned char *piece = piece_new(bytes);
    size_t at = 0;

    while (at < bytes) {
        size_t part = bytes - at < PIECE ? bytes - at : PIECE;

        for (size_t i = 0; i < part; i++)
            piece[i] = t_pattern_byte(seed, at + i);
        t_dev_write(node, (char *)to + at, piece, part);
        at += part;
    }
    free(piece);
}

/* First offset where the memory is not the pattern of `seed`, or not `value`
 * if `seed` is NULL; -1 if there is none. */
static long long check(const wharf_node *node, const void *from, size_t bytes,
                       const uint64_t *seed, unsigned char value)
{
    unsigned char *piece = piece_new(bytes);
    long long wrong = -1;
    size_t at = 0;

    while (at < bytes && wrong < 0) {
        size_t part = bytes - at < PIECE ? bytes - at : PIECE;

        t_dev_read(node, piece, (const char *)from + at, part);
        for (size_t i = 0; i < part && wrong < 0; i++) {
            if (piece[i] != (seed ? t_pattern_byte(*seed, at + i) : value))
                wrong = (long long)(at + i);
        }
        at += part;
    }
    free(piece);
    return wrong;
}

long long t_dev_check_pattern(const wharf_node *node, const void *from,
                              size_t bytes, uint64_t seed)
{
    return check(node, from, bytes, &seed, 0);
}

long long t_dev_check_value(const wharf_node *node, const void *from,
                            size_t bytes, unsigned char value)
{
    return check(node, from, bytes, NULL, value);
}

wharf_stream t_stream_create(const wharf_node *node)
{
    void *stream = NULL;

    /* 1: CU_STREAM_NON_BLOCKING, not ordered behind the default stream. */
    if (on_device(node))
        t_driver_must(cu.stream_create(&stream, 1), "cuStreamCreate");
    return stream;
}

void t_stream_destroy(const wharf_node *node, wharf_stream stream)
{
    if (on_device(node) && stream != NULL)
        t_driver_must(cu.stream_destroy(stream), "cuStreamDestroy");
}

void t_stream_sync(const wharf_node *node, wharf_stream stream)
{
    if (on_device(node))
        t_driver_must(cu.stream_synchronize(stream), "cuStreamSynchronize");
}

void t_stream_copy(const wharf_node *node, wharf_stream stream, void *to,
                   const void *from, size_t bytes)
{
    if (!on_device(node)) {
        memcpy(to, from, bytes);
        return;
    }
    /* Either may be host memory that the GPU can reach. */
    t_driver_must(cu.memcpy_async(t_driver_address(to), t_driver_address(from),
                                  bytes, stream),
                  "cuMemcpyAsync");
}

void t_stream_fill(const wharf_node *node, wharf_stream stream, void *to,
                   unsigned char value, size_t bytes)
{
    if (!on_device(node)) {
        memset(to, value, bytes);
        return;
    }
    t_driver_must(
        cu.memset_d8_async(t_driver_address(to), value, bytes, stream),
        "cuMemsetD8Async");
}

uintptr_t t_context_current(const wharf_node *node)
{
    void *context = NULL;

    if (on_device(node))
        t_driver_must(cu.ctx_get_current(&context), "cuCtxGetCurrent");
    return (uintptr_t)context;
}

void t_context_set(const wharf_node *node, uintptr_t context)
{
    if (on_device(node))
        t_driver_must(cu.ctx_set_current((void *)context), "cuCtxSetCurrent");
}

int t_context_device(const wharf_node *node)
{
    int device = -1;

    if (on_device(node) && t_context_current(node) != 0)
        t_driver_must(cu.ctx_get_device(&device), "cuCtxGetDevice");
    return device;
}

bool t_context_active(const wharf_node *node, int ordinal)
{
    unsigned flags = 0;
    int device = 0;
    int active = 0;

    if (!on_device(node))
        return false;
    t_driver_must(cu.device_get(&device, ordinal), "cuDeviceGet");
    t_driver_must(cu.primary_get_state(device, &flags, &active),
                  "cuDevicePrimaryCtxGetState");
    return active != 0;
}

/* Device of the foreign stream; its context is retained meanwhile. */
static int foreign_device;

wharf_stream t_foreign_stream_create(const wharf_node *node)
{
    int own = t_context_device(node);
    uintptr_t before = t_context_current(node);
    void *stream = NULL;
    void *context = NULL;

    if (t_device_count(node) < 2)
        return NULL;
    t_driver_must(cu.device_get(&foreign_device, own == 0 ? 1 : 0),
                  "cuDeviceGet");
    t_driver_must(cu.primary_retain(&context, foreign_device),
                  "cuDevicePrimaryCtxRetain");
    t_driver_must(cu.ctx_set_current(context), "cuCtxSetCurrent");
    t_driver_must(cu.stream_create(&stream, 1), "cuStreamCreate");
    t_context_set(node, before);
    return stream;
}

void t_foreign_stream_destroy(const wharf_node *node, wharf_stream stream)
{
    if (stream == NULL)
        return;
    t_stream_destroy(node, stream);
    t_driver_must(cu.primary_release(foreign_device),
                  "cuDevicePrimaryCtxRelease");
}

int t_device_count(const wharf_node *node)
{
    int count = 0;

    if (on_device(node))
        t_driver_must(cu.device_get_count(&count), "cuDeviceGetCount");
    return count;
}

/* In the child: writes every device's UUID as 16 bytes. */
static void list_devices(int out)
{
    int count = 0;

    if (dlopen(t_driver_path(), RTLD_NOW | RTLD_LOCAL) == NULL)
        _exit(0);
    pthread_once(&loaded, load);
    if (cu.init(0) != 0 || cu.device_get_count(&count) != 0)
        _exit(0);
    for (int i = 0; i < count; i++) {
        unsigned char uuid[16];
        int device;

        t_driver_must(cu.device_get(&device, i), "cuDeviceGet");
        t_driver_must(cu.device_get_uuid(uuid, device), "cuDeviceGetUuid");
        if (write(out, uuid, sizeof uuid) != (ssize_t)sizeof uuid)
            _exit(1);
    }
    _exit(0);
}

static void uuid_print(const unsigned char *uuid, char *text)
{
    text += sprintf(text, "GPU");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;

        text += sprintf(text, "%s%02x", dash ? "-" : "", uuid[i]);
    }
}

int t_driver_list(char (*uuids)[48], int most)
{
    unsigned char uuid[16];
    int ends[2];
    int count = 0;
    pid_t child;

    if (pipe(ends) != 0)
        T_FAIL("pipe failed");
    child = fork();
    if (child < 0)
        T_FAIL("fork failed");
    if (child == 0)
        list_devices(ends[1]);
    close(ends[1]);
    while (count < most && read(ends[0], uuid, 16) == 16)
        uuid_print(uuid, uuids[count++]);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return count;
}

bool t_driver_loaded(void)
{
    void *library = dlopen(t_driver_path(), RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

/* Calls a control of the fake driver; false if the driver is a real one, or
 * not loaded. */
static bool fake_control(const char *name)
{
    void *library = dlopen(t_driver_path(), RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, name) : NULL;
    void (*control)(void);

    if (symbol != NULL) {
        memcpy(&control, &symbol, sizeof control);
        control();
    }
    if (library != NULL)
        dlclose(library);
    return symbol != NULL;
}

int t_driver_try_fill(const wharf_node *node, void *to, unsigned char value,
                      size_t bytes)
{
    int result;

    if (!on_device(node))
        T_FAIL("no device to fill");
    fake_control("fakeCudaExpectFaults");
    result = cu.memset_d8(t_driver_address(to), value, bytes);
    return result != 0 ? result : cu.ctx_synchronize();
}

void t_driver_expect_leaks(void)
{
    fake_control("fakeCudaExpectLeaks");
}

void t_driver_reset(const wharf_node *node, bool again)
{
    int (*reset)(int);
    void *context = NULL;
    int device = t_context_device(node);

    T_CHECK(device >= 0);
    t_driver_find("cuDevicePrimaryCtxReset_v2", &reset);
    t_driver_must(reset(device), "cuDevicePrimaryCtxReset");
    if (!again)
        return;
    t_driver_must(cu.primary_retain(&context, device),
                  "cuDevicePrimaryCtxRetain");
    t_context_set(node, (uintptr_t)context);
}

/* A kernel that writes to address 0. */
static const char bad_kernel[] = ".version 7.0\n.target sm_70\n"
                                 ".address_size 64\n.visible .entry bad()\n{\n"
                                 ".reg .b64 %rd<2>;\nmov.u64 %rd1, 0;\n"
                                 "st.global.u64 [%rd1], %rd1;\nret;\n}\n";

static void launch_bad_kernel(void)
{
    int (*load_module)(void **, const void *);
    int (*get_function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned, unsigned, void *, void **, void **);
    void *module = NULL;
    void *function = NULL;

    t_driver_find("cuModuleLoadData", &load_module);
    t_driver_find("cuModuleGetFunction", &get_function);
    t_driver_find("cuLaunchKernel", &launch);
    t_driver_must(load_module(&module, bad_kernel), "cuModuleLoadData");
    t_driver_must(get_function(&function, module, "bad"),
                  "cuModuleGetFunction");
    t_driver_must(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                  "cuLaunchKernel");
}

int t_driver_ruin(const wharf_node *node)
{
    if (!on_device(node))
        T_FAIL("no device to ruin");
    if (!fake_control("fakeCudaRuinContext"))
        launch_bad_kernel();
    return cu.ctx_synchronize();
}

size_t t_device_free_bytes(const wharf_node *node)
{
    size_t free_bytes = 0;
    size_t total = 0;

    if (on_device(node))
        t_driver_must(cu.mem_get_info(&free_bytes, &total), "cuMemGetInfo");
    return free_bytes;
}
