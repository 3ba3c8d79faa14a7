/* SPDX-License-Identifier: MIT */
/*
 * Device memory in one process: what is given out, what is shared, what is
 * known about a pointer, and that the CPU cannot touch it.
 */
#include "t_fake.h"

#define MIB ((size_t)1 << 20)

static void test_copy_and_reuse(void)
{
    CUdeviceptr a, b;
    char out[64] = "written by the host", in[64] = "";

    OK(d.cuMemAlloc(&a, 4 * MIB));
    OK(d.cuMemcpyHtoD(a + 100, out, sizeof out));
    OK(d.cuMemcpyDtoH(in, a + 100, sizeof in));
    CHECK(!memcmp(in, out, sizeof in));
    OK(d.cuMemFree(a));
    OK(d.cuMemAlloc(&b, 4 * MIB));
    EQ(a, b); /* the same address at once */
    OK(d.cuMemcpyDtoH(in, b, sizeof in));
    CHECK((unsigned char)in[0] == 0xfa); /* and not zero */
    OK(d.cuMemFree(b));
}

static void test_small_share_a_block(void)
{
    CUdeviceptr a, b, base, mapping;
    size_t size, whole;

    OK(d.cuMemAlloc(&a, 1000));
    OK(d.cuMemAlloc(&b, 2000));
    EQ(a + 1024, b);
    OK(d.cuMemGetAddressRange(&base, &size, b + 1999));
    EQ(b, base);
    EQ(2000, size);
    OK(d.cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                               b));
    OK(d.cuPointerGetAttribute(&whole, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, b));
    EQ(a, mapping);
    EQ(2 * MIB, whole);
    OK(d.cuMemFree(a));
    EQ(CUDA_ERROR_NOT_FOUND, d.cuMemGetAddressRange(&base, &size, a));
    OK(d.cuMemFree(b));
}

static void test_info(void)
{
    CUdeviceptr a, b;
    size_t before, after, total;

    OK(d.cuMemGetInfo(&before, &total));
    EQ(64 * MIB, total);
    OK(d.cuMemAlloc(&a, 40 * MIB));
    OK(d.cuMemGetInfo(&after, &total));
    EQ(before - 40 * MIB, after);
    EQ(CUDA_ERROR_OUT_OF_MEMORY, d.cuMemAlloc(&b, 40 * MIB));
    OK(d.cuMemFree(a));
    OK(d.cuMemAlloc(&b, 60 * MIB));
    OK(d.cuMemFree(b));
}

static void test_kinds(void)
{
    CUdeviceptr pool, managed, seen;
    void *pinned;
    unsigned type;
    bool legacy;
    CUipcMemHandle h;

    OK(d.cuMemAllocAsync(&pool, 4096, NULL));
    OK(d.cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(d.cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr all[] = {pool, managed, (CUdeviceptr)(uintptr_t)pinned};
    for (int i = 0; i < 3; i++) {
        OK(d.cuPointerGetAttribute(
            &legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, all[i]));
        EQ(0, legacy);
        EQ(CUDA_ERROR_INVALID_VALUE, d.cuIpcGetMemHandle(&h, all[i]));
    }
    OK(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                               all[2]));
    EQ(CU_MEMORYTYPE_HOST, type);
    OK(d.cuMemHostGetDevicePointer(&seen, pinned, 0));
    OK(d.cuMemsetD8Async(seen, 7, 4096, NULL));
    OK(d.cuStreamSynchronize(NULL));
    EQ(7, ((unsigned char *)pinned)[4095]);
    OK(d.cuMemFreeAsync(pool, NULL));
    OK(d.cuMemFree(managed));
    OK(d.cuMemFreeHost(pinned));
    OK(d.cuCtxSynchronize());
}

static void test_registered(void)
{
    static char host[8192];
    CUdeviceptr p;

    OK(d.cuMemHostRegister(host, sizeof host, CU_MEMHOSTREGISTER_DEVICEMAP));
    EQ(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
       d.cuMemHostRegister(host, 4096, 0));
    OK(d.cuMemHostGetDevicePointer(&p, host + 10, 0));
    OK(d.cuMemsetD8Async(p, 3, 10, NULL));
    OK(d.cuStreamSynchronize(NULL));
    EQ(3, host[19]);
    EQ(0, host[20]);
    OK(d.cuMemHostUnregister(host));
}

static void host_touch(int fd)
{
    CUdeviceptr a;

    (void)fd;
    t_start(0);
    OK(d.cuMemAlloc(&a, MIB));
    *(volatile char *)(uintptr_t)a = 1;
}

static void one_process(int fd)
{
    (void)fd;
    EQ(0, d.fakeCudaCalls());
    EQ(CUDA_ERROR_NOT_INITIALIZED, d.cuDeviceGetCount(&(int){0}));
    t_start(0);
    test_copy_and_reuse();
    test_small_share_a_block();
    test_info();
    test_kinds();
    test_registered();
    EQ(1, d.fakeCudaLive(NULL)); /* the context */
    t_stop(0);
}

int main(void)
{
    setenv("WHARF_FAKE_MEMORY", "64m", 1);
    t_load();
    EQ(0, t_child(one_process, -1));
    EQ(0, t_child(host_touch, -1) < 1); /* a signal, or what a sanitizer makes
                                           of it */
    return 0;
}
