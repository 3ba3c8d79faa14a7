/* SPDX-License-Identifier: MIT */
/*
 * Finding, checking and starting the CUDA driver. What its error codes mean to
 * a user is in driver_error.c.
 */
#include "device/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

#define DRIVER_LIBRARY "libcuda.so.1"

/* Event flags of capture, lazy IPC and relaxed capture mode are older; 12.0 is
 * the first that every feature was made for and tested with. */
#define DRIVER_OLDEST 12000

#define REMEDY_INSTALL "install the NVIDIA driver, or set WHARF_BACKEND=host"

wi_driver_table wi_driver;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static void *library; /* never closed once it was initialised: it has threads */
static bool watching_fork;
static int loaded; /* atomic; 1 once wi_driver may be used */
static int forked; /* atomic; 1 in a child of a process that loaded it */

static const struct {
    const char *symbol;
    int version;
    size_t offset;
} entries[] = {
#define DRIVER_ENTRY(symbol, version)                                          \
    {#symbol, version, offsetof(wi_driver_table, symbol)},
    WI_DRIVER_LIST(DRIVER_ENTRY)
#undef DRIVER_ENTRY
        {"cuDeviceGetUuid", 9020, offsetof(wi_driver_table, parent_uuid)},
};

#define ENTRIES (sizeof entries / sizeof entries[0])

/* A handler instead of comparing process ids at each call: the check then
 * costs a load, not a system call. */
static void child_after_fork(void)
{
    pthread_mutex_init(&load_lock, NULL);
    if (__atomic_load_n(&loaded, __ATOMIC_RELAXED))
        __atomic_store_n(&forked, 1, __ATOMIC_RELAXED);
}

bool wi_driver_alive(void)
{
    return __atomic_load_n(&loaded, __ATOMIC_ACQUIRE) &&
           !__atomic_load_n(&forked, __ATOMIC_RELAXED);
}

wharf_status wi_driver_check(void)
{
    if (!__atomic_load_n(&forked, __ATOMIC_RELAXED))
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE,
                   "start children by exec, or fork before the node is opened",
                   "this is a forked child of a process that uses CUDA, and "
                   "the CUDA driver does not survive a fork");
}

static wharf_status library_open(const char *path)
{
    const char *why;

    if (library)
        return WHARF_OK;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return WHARF_OK;
    why = dlerror();
    return wi_fail(WHARF_ENODEV, REMEDY_INSTALL,
                   "the CUDA driver library cannot be loaded: %s",
                   why ? why : path);
}

/* The two ages of cuGetProcAddress. */
typedef struct lookup {
    PFN_cuGetProcAddress_v12000 now;
    PFN_cuGetProcAddress_v11030 before;
} lookup;

static CUresult lookup_find(const lookup *get, const char *symbol, int version,
                            void **symbol_at)
{
    void *found = NULL;
    /* Said outright, so that it does not depend on how this file is compiled
     * that a NULL stream is the legacy default stream. */
    cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUresult code = CUDA_ERROR_NOT_FOUND;

    if (get->now)
        code = get->now(symbol, &found, version, flags, NULL);
    else if (get->before)
        code = get->before(symbol, &found, version, flags);
    *symbol_at = found;
    return code == CUDA_SUCCESS && !found ? CUDA_ERROR_NOT_FOUND : code;
}

static wharf_status lookup_open(const char *path, lookup *get)
{
    void *now = dlsym(library, "cuGetProcAddress_v2");
    void *before = dlsym(library, "cuGetProcAddress");

    if (!now && !before) {
        dlclose(library);
        library = NULL;
        return wi_fail(WHARF_ENODEV, REMEDY_INSTALL,
                       "%s is no CUDA driver, or one from before CUDA 11.3: "
                       "it lacks cuGetProcAddress",
                       path);
    }
    /* memcpy: ISO C has no conversion from object to function pointers. */
    memcpy(&get->now, &now, sizeof now);
    memcpy(&get->before, &before, sizeof before);
    return WHARF_OK;
}

static wharf_status version_check(const lookup *get, const char *path)
{
    void *found = NULL;
    const char *remedy = NULL;
    int version = 0;
    int code = lookup_find(get, "cuDriverGetVersion", 2020, &found);

    memcpy(&wi_driver.cuDriverGetVersion, &found, sizeof found);
    if (code == CUDA_SUCCESS)
        code = (int)wi_driver.cuDriverGetVersion(&version);
    if (code != CUDA_SUCCESS) {
        wi_driver_status(code, &remedy);
        return wi_fail_native(WHARF_ENODEV, WHARF_SOURCE_CUDA, code,
                              remedy ? remedy : REMEDY_INSTALL,
                              "%s does not tell its version: CUresult %d", path,
                              code);
    }
    if (version < DRIVER_OLDEST)
        return wi_fail(WHARF_ENODEV,
                       "install a newer NVIDIA driver (525 or later), or set "
                       "WHARF_BACKEND=host",
                       "the CUDA driver is too old: it supports CUDA %d.%d and "
                       "Wharf needs %d.%d",
                       version / 1000, version % 1000 / 10,
                       DRIVER_OLDEST / 1000, DRIVER_OLDEST % 1000 / 10);
    wi_driver.version = version;
    return WHARF_OK;
}

static wharf_status table_fill(const lookup *get, const char *path)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        void *found = NULL;

        if (lookup_find(get, entries[i].symbol, entries[i].version, &found) !=
            CUDA_SUCCESS)
            return wi_fail(WHARF_ENODEV, REMEDY_INSTALL,
                           "the CUDA driver %s lacks %s of CUDA %d.%d", path,
                           entries[i].symbol, entries[i].version / 1000,
                           entries[i].version % 1000 / 10);
        memcpy((char *)&wi_driver + entries[i].offset, &found, sizeof found);
    }
    return WHARF_OK;
}

wharf_status wi_driver_no_device(int code)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[96];

    wi_driver_describe(code, text, sizeof text);
    if (visible)
        return wi_fail_native(WHARF_ENODEV, WHARF_SOURCE_CUDA, code,
                              "name a GPU that nvidia-smi -L lists in "
                              "CUDA_VISIBLE_DEVICES, or unset it",
                              "no GPU is visible, CUDA_VISIBLE_DEVICES is "
                              "\"%.64s\": %s",
                              visible, text);
    return wi_fail_native(WHARF_ENODEV, WHARF_SOURCE_CUDA, code,
                          "check nvidia-smi -L and the rights on "
                          "/dev/nvidia*, or set WHARF_BACKEND=host",
                          "the CUDA driver finds no GPU: %s", text);
}

static wharf_status driver_init(void)
{
    int code = WI_CU_CODE(cuInit, (0));
    const char *remedy = NULL;
    char text[128];

    if (code == CUDA_SUCCESS)
        return WHARF_OK;
    if (code == CUDA_ERROR_NO_DEVICE)
        return wi_driver_no_device(code);
    wi_driver_describe(code, text, sizeof text);
    if (code == CUDA_ERROR_NOT_INITIALIZED)
        remedy = "if this is a forked child of a process that used CUDA: "
                 "start it by exec instead";
    else if (code == CUDA_ERROR_OUT_OF_MEMORY)
        remedy = "the driver reserves much address space: lift its limit "
                 "(ulimit -v)";
    else
        wi_driver_status(code, &remedy);
    return wi_fail_native(WHARF_ENODEV, WHARF_SOURCE_CUDA, code, remedy,
                          "the CUDA driver cannot be started: cuInit: %s",
                          text);
}

static wharf_status driver_start(void)
{
    const char *path = wi_config_text(WI_SETTING_CUDA_DRIVER);
    wharf_status status;
    lookup get = {NULL, NULL};

    if (!path || path[0] == '\0')
        path = DRIVER_LIBRARY;
    if (!watching_fork) {
        if (pthread_atfork(NULL, NULL, child_after_fork) != 0)
            return wi_fail(WHARF_ENOMEM, NULL, "pthread_atfork: no memory");
        watching_fork = true;
    }
    status = library_open(path);
    if (status == WHARF_OK)
        status = lookup_open(path, &get);
    if (status == WHARF_OK)
        status = version_check(&get, path);
    if (status == WHARF_OK)
        status = table_fill(&get, path);
    if (status == WHARF_OK)
        status = driver_init();
    if (status == WHARF_OK)
        wi_log(WI_LOG_DEBUG, "cuda driver %s: CUDA %d.%d", path,
               wi_driver.version / 1000, wi_driver.version % 1000 / 10);
    return status;
}

/*
 * A failure is not remembered: a driver that was refused for one reason may be
 * there at the next attempt, and each thread's record is filled anew.
 */
wharf_status wi_driver_load(void)
{
    wharf_status status = wi_driver_check();

    if (status != WHARF_OK || __atomic_load_n(&loaded, __ATOMIC_ACQUIRE))
        return status;
    pthread_mutex_lock(&load_lock);
    if (!loaded) {
        status = driver_start();
        if (status == WHARF_OK)
            __atomic_store_n(&loaded, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&load_lock);
    return status;
}
