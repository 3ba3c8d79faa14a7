/* SPDX-License-Identifier: MIT */
/* Calling the driver from tests: see t_driver.h. */
#include "t_driver.h"

#include <dlfcn.h>

#include "t_test.h"

const char *t_driver_path(void)
{
    const char *path = getenv("WHARF_CUDA_DRIVER");

    return path != NULL && path[0] != '\0' ? path : "libcuda.so.1";
}

void t_driver_find(const char *name, void *slot)
{
    void *library = dlopen(t_driver_path(), RTLD_NOW | RTLD_LOCAL);
    void *symbol;

    if (library == NULL)
        T_FAIL("%s: %s", t_driver_path(), dlerror());
    symbol = dlsym(library, name);
    if (symbol == NULL)
        T_FAIL("%s: not in the driver library", name);
    memcpy(slot, &symbol, sizeof symbol);
}

void t_driver_must(int result, const char *call)
{
    if (result != 0)
        T_FAIL("%s: CUresult %d", call, result);
}
