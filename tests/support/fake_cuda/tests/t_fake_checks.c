/* SPDX-License-Identifier: MIT */
/*
 * The fake tells its caller off, and the process fails for it: each child does
 * one wrong thing, and its exit status is 86.
 */
#include "t_fake.h"

static void leak_memory(int unused)
{
    CUdeviceptr p;

    (void)unused;
    t_start(0);
    OK(d.cuMemAlloc(&p, 4));
}

static void leak_with_context(int unused)
{
    CUstream s;

    (void)unused;
    t_start(0);
    OK(d.cuStreamCreate(&s, 0));
    t_stop(0);
    EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, d.cuStreamQuery(s));
}

static void leak_wanted(int unused)
{
    d.fakeCudaExpectLeaks();
    leak_memory(unused);
}

static void double_free(int unused)
{
    CUdeviceptr p;

    (void)unused;
    t_start(0);
    OK(d.cuMemAlloc(&p, 8 << 20));
    OK(d.cuMemFree(p));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemFree(p));
    t_stop(0);
}

static void use_after_free(int unused)
{
    CUdeviceptr p;

    (void)unused;
    t_start(0);
    OK(d.cuMemAlloc(&p, 64));
    OK(d.cuMemFree(p));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemsetD8Async(p, 1, 4, NULL));
    t_stop(0);
}

static void no_context(int unused)
{
    CUdeviceptr p;

    (void)unused;
    OK(d.cuInit(0));
    EQ(CUDA_ERROR_INVALID_CONTEXT, d.cuMemAlloc(&p, 4));
}

static void wrong_context(int unused)
{
    CUstream s;
    CUdeviceptr p;

    (void)unused;
    t_start(0);
    OK(d.cuStreamCreate(&s, 0));
    OK(d.cuMemAlloc(&p, 4));
    t_start(1);
    EQ(CUDA_ERROR_INVALID_HANDLE, d.cuMemsetD8Async(p, 0, 4, s));
    t_stop(1);
    OK(d.cuStreamDestroy(s));
    CUcontext ctx;
    OK(d.cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(d.cuCtxSetCurrent(ctx));
    OK(d.cuMemFree(p));
    t_stop(0);
    OK(d.cuDevicePrimaryCtxRelease(0));
}

static void unwanted_fault(int unused)
{
    CUdeviceptr p;

    (void)unused;
    t_start(0);
    OK(d.cuMemAlloc(&p, 4096));
    OK(d.cuMemFree(p));
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    OK(d.cuMemAlloc(&p, 4096));
    t_start(1); /* peer access was not enabled */
    EQ(CUDA_SUCCESS, d.cuStreamWriteValue32(NULL, p, 1, 0));
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuCtxSynchronize());
}

static void ruined(int unused)
{
    CUdeviceptr p;

    (void)unused;
    t_start(0);
    OK(d.cuMemAlloc(&p, 4096));
    d.fakeCudaRuinContext();
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuMemFree(p));
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuCtxSynchronize());
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuDevicePrimaryCtxRelease(0));
}

static void forked(int unused)
{
    (void)unused;
    t_start(0);
    pid_t pid = fork();
    if (!pid) {
        CUdeviceptr p;

        EQ(CUDA_ERROR_NOT_INITIALIZED, d.cuMemAlloc(&p, 4));
        EQ(CUDA_ERROR_NOT_INITIALIZED, d.cuInit(0));
        exit(0); /* and reports no leak of its parent's */
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    EQ(0, WEXITSTATUS(status));
    t_stop(0);
}

static void after_the_end(void)
{
    CUdeviceptr p;

    EQ(CUDA_ERROR_DEINITIALIZED, d.cuMemAlloc(&p, 4));
}

static void late(int unused)
{
    (void)unused;
    atexit(after_the_end); /* before cuInit, so it runs after the driver's */
    t_start(0);
    t_stop(0);
}

static void reset(int unused)
{
    CUdeviceptr p;
    CUevent e;

    (void)unused;
    d.fakeCudaExpectLeaks();
    t_start(0);
    OK(d.cuMemAlloc(&p, 4096));
    OK(d.cuEventCreate(&e, 0));
    OK(d.cuDevicePrimaryCtxReset(0));
    EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, d.cuEventDestroy(e));
}

static void many(int unused)
{
    CUdeviceptr p;
    CUevent e;
    CUstream s;

    (void)unused;
    t_start(0);
    for (int i = 0; i < 10000; i++) {
        OK(d.cuMemAlloc(&p, (size_t)(1 + i % 3) << 20));
        OK(d.cuEventCreate(&e, 2));
        OK(d.cuStreamCreate(&s, 1));
        OK(d.cuStreamDestroy(s));
        OK(d.cuEventDestroy(e));
        OK(d.cuMemFree(p));
    }
    EQ(1, d.fakeCudaLive(NULL));
    t_stop(0);
}

int main(void)
{
    t_load();
    EQ(86, t_child(leak_memory, -1));
    EQ(86, t_child(leak_with_context, -1));
    EQ(0, t_child(leak_wanted, -1));
    EQ(86, t_child(double_free, -1));
    EQ(86, t_child(use_after_free, -1));
    EQ(86, t_child(no_context, -1));
    EQ(86, t_child(wrong_context, -1));
    EQ(86, t_child(unwanted_fault, -1));
    EQ(0, t_child(ruined, -1));
    EQ(0, t_child(forked, -1));
    EQ(0, t_child(late, -1));
    EQ(0, t_child(reset, -1));
    EQ(0, t_child(many, -1));
    setenv("WHARF_FAKE_LENIENT", "1", 1);
    EQ(0, t_child(leak_memory, -1));
    return 0;
}
