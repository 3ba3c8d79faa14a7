/* SPDX-License-Identifier: MIT */
/* No driver, something else in its place, a wrong path: each a clear "no
 * device", at every attempt, and nothing kept. */
#include "device/device.h"

#include "base/stat.h"
#include "t_test.h"

static void no_device(const char *library, const char *said)
{
    wi_device_desc desc[1];
    wharf_error error;
    int count = -1;

    T_EQ_INT(0, setenv("WHARF_CUDA_DRIVER", library, 1));
    for (int i = 0; i < 2; i++) {
        T_STATUS(WHARF_ENODEV, wi_device_cuda.enumerate(desc, 1, &count));
        wharf_last_error(&error);
        T_CONTAINS(said, error.cause);
        T_CHECK(error.remedy[0] != '\0');
        T_EQ_INT(-1, count);
    }
}

int main(void)
{
    wi_device_desc desc[1];
    wi_device *device = NULL;
    wharf_error error;
    int count = -1;

    T_EQ_INT(0, setenv("WHARF_CUDA_DRIVER", "/nonexistent", 1));
    T_STATUS(WHARF_ENODEV, wi_device_cuda.enumerate(desc, 1, &count));
    wharf_last_error(&error);
    if (strstr(error.cause, "without CUDA"))
        T_SKIP("built without CUDA");
    no_device("/nonexistent", "/nonexistent");
    no_device("libc.so.6", "cuGetProcAddress");
    memset(desc, 0, sizeof desc);
    T_STATUS(WHARF_ENODEV, wi_device_cuda.open(desc, &device));
    T_EQ_PTR(NULL, device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_contexts));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
