/* SPDX-License-Identifier: MIT */
/*
 * The machine that the environment describes: masks, peers, switches.
 */
#include "t_fake.h"

#define MIB ((size_t)1 << 20)

static CUuuid uuid_of(int ordinal)
{
    CUuuid u;

    OK(d.cuDeviceGetUuid_v2(&u, ordinal));
    return u;
}

/* With `digits` hexadecimal digits, dashes not counted. */
static void uuid_text(char *text, const char *head, CUuuid u, int digits)
{
    text += sprintf(text, "%s", head);
    for (int i = 0; i < digits; i++) {
        unsigned byte = (unsigned char)u.bytes[i / 2];

        if (i == 8 || i == 12 || i == 16 || i == 20)
            *text++ = '-';
        *text++ = "0123456789abcdef"[i % 2 ? byte & 15 : byte >> 4];
    }
    *text = '\0';
}

static CUuuid every[4]; /* without a mask */

static void learn(int fd)
{
    int n;

    OK(d.cuInit(0));
    OK(d.cuDeviceGetCount(&n));
    EQ(4, n);
    for (int i = 0; i < n; i++) {
        CUuuid u = uuid_of(i);

        t_send(fd, &u, sizeof u);
    }
}

static const char *want; /* physical indices in order */

static void masked(int unused)
{
    CUresult r = d.cuInit(0);
    int n, size = (int)strlen(want);

    (void)unused;
    if (!size) {
        EQ(CUDA_ERROR_NO_DEVICE, r);
        return;
    }
    OK(r);
    OK(d.cuDeviceGetCount(&n));
    EQ(size, n);
    for (int i = 0; i < n; i++) {
        CUuuid u = uuid_of(i);

        CHECK(!memcmp(&u, &every[want[i] - '0'], sizeof u));
    }
}

static void mask(const char *value, const char *expected)
{
    setenv("CUDA_VISIBLE_DEVICES", value, 1);
    want = expected;
    int status = t_child(masked, -1);
    if (status)
        fprintf(stderr, "with the mask \"%s\"\n", value);
    EQ(0, status);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_masks(void)
{
    int pair[2];
    char one[64], two[64], both[160];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    EQ(0, t_child(learn, pair[0]));
    t_receive(pair[1], every, sizeof every);
    close(pair[0]);
    close(pair[1]);
    mask("0,1,2,3", "0123");
    mask("2,0", "20");
    mask(" 3 , 1", "31");
    mask("", "");
    mask("-1", "");
    mask("1,9,2", "1");
    mask("1,x,2", "1");
    mask("1,2,1", "");
    uuid_text(one, "GPU-", every[3], 32);
    mask(one, "3");
    uuid_text(two, "GPU-", every[1], 6);
    sprintf(both, "%s,%s", one, two);
    mask(both, "31");
    mask("GPU-", "");
    mask("GPU-00000000", "");
}

static void peers(int unused)
{
    CUdeviceptr p;
    CUcontext other;
    int can, word = 6;

    (void)unused;
    t_start(0);
    OK(d.cuDeviceCanAccessPeer(&can, 0, 1));
    EQ(1, can);
    OK(d.cuDeviceCanAccessPeer(&can, 0, 2));
    EQ(0, can);
    OK(d.cuDeviceCanAccessPeer(&can, 2, 3));
    EQ(1, can);
    OK(d.cuMemAlloc(&p, MIB));
    OK(d.cuMemcpyHtoD(p, &word, sizeof word));
    t_start(3);
    EQ(CUDA_SUCCESS, d.cuDevicePrimaryCtxRetain(&other, 0));
    EQ(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, d.cuCtxEnablePeerAccess(other, 0));
    OK(d.cuDevicePrimaryCtxRelease(0));
    OK(d.cuMemcpyDtoH(&word, p, sizeof word)); /* staged */
    EQ(6, word);
    t_stop(3);
    t_start(1); /* says it can, and the data does not arrive */
    OK(d.cuMemcpyHtoD(p, &(int){7}, sizeof(int)));
    OK(d.cuMemcpyDtoH(&word, p, sizeof word));
    CHECK(word != 7);
    t_stop(1);
    OK(d.cuDevicePrimaryCtxRetain(&other, 0));
    OK(d.cuCtxSetCurrent(other));
    OK(d.cuDevicePrimaryCtxRelease(0));
    OK(d.cuMemcpyDtoH(&word, p, sizeof word));
    EQ(6, word);
    OK(d.cuMemFree(p));
    t_stop(0);
}

static void mig(int unused)
{
    int n;
    char pci[16], name[64];

    (void)unused;
    OK(d.cuInit(0));
    OK(d.cuDeviceGetCount(&n));
    EQ(1, n); /* one instance a process */
    CUuuid u = uuid_of(0);
    OK(d.cuDeviceGetPCIBusId(pci, sizeof pci, 0));
    CHECK(!strcmp(pci, "0000:06:00.0"));
    OK(d.cuDeviceGetName(name, sizeof name, 0));
    CHECK(strstr(name, "MIG"));
    if (want[0] == '=')
        return;
    uuid_text(name, "MIG-", u, 32);
    CHECK(strcmp(name, want));
}

static void denied(int unused)
{
    CUcontext ctx;
    int n;

    (void)unused;
    OK(d.cuInit(0));
    OK(d.cuDeviceGetCount(&n));
    EQ(4, n);
    OK(d.cuDevicePrimaryCtxRetain(&ctx, 0));
    EQ(CUDA_ERROR_OPERATING_SYSTEM, d.cuDevicePrimaryCtxRetain(&ctx, 1));
    OK(d.cuDevicePrimaryCtxRelease(0));
}

static void none(int unused)
{
    (void)unused;
    EQ(CUDA_ERROR_NO_DEVICE, d.cuInit(0));
}

static int attribute(CUdevice_attribute which)
{
    int value;

    OK(d.cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static void without(int unused)
{
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp p;
    CUdeviceptr va;
    CUevent e;
    CUipcMemHandle m;

    (void)unused;
    t_start(0);
    EQ(0, attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
    EQ(0, attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
    EQ(0, attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED));
    EQ(1, attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED));
    memset(&p, 0, sizeof p);
    EQ(CUDA_ERROR_NOT_SUPPORTED, d.cuMemCreate(&h, 2 * MIB, &p, 0));
    EQ(CUDA_ERROR_NOT_SUPPORTED, d.cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    EQ(CUDA_ERROR_NOT_SUPPORTED,
       d.cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(d.cuMemAlloc(&va, 4));
    EQ(CUDA_ERROR_NOT_SUPPORTED, d.cuIpcGetMemHandle(&m, va));
    EQ(CUDA_ERROR_NOT_SUPPORTED, d.cuStreamWriteValue32(NULL, va, 1, 0));
    OK(d.cuMemFree(va));
    t_stop(0);
}

static void old(int unused)
{
    int version;
    void *found;
    CUdriverProcAddressQueryResult how;

    (void)unused;
    OK(d.cuDriverGetVersion(&version));
    EQ(11040, version);
    EQ(CUDA_ERROR_NOT_FOUND,
       d.cuGetProcAddress("cuLibraryLoadData", &found, 13000, 0, &how));
    EQ(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, how);
    OK(d.cuGetProcAddress("cuMemAlloc", &found, 13000, 0, &how));
    EQ(CUDA_ERROR_NOT_FOUND,
       d.cuGetProcAddress("cuMemAlloc_v2", &found, 13000, 0, &how));
    EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, how);
}

static void first(int fd)
{
    t_start(0);
    t_meet(fd);
    t_meet(fd);
    t_stop(0);
}

static void second(int fd)
{
    CUcontext ctx;

    OK(d.cuInit(0));
    t_meet(fd);
    EQ(CU_COMPUTEMODE_EXCLUSIVE_PROCESS,
       attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE));
    EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, d.cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(d.cuDevicePrimaryCtxRetain(&ctx, 1));
    OK(d.cuDevicePrimaryCtxRelease(1));
    t_meet(fd);
}

static void test_exclusive(void)
{
    char state[] = "fake_state_XXXXXX";
    int fd = mkstemp(state);

    CHECK(fd >= 0);
    setenv("WHARF_FAKE_STATE", state, 1);
    setenv("WHARF_FAKE_CAPS", "exclusive", 1);
    t_two(first, second);
    unsetenv("WHARF_FAKE_STATE");
    EQ(0, unlink(state));
    close(fd);
}

int main(void)
{
    t_load();
    setenv("WHARF_FAKE_DEVICES", "4", 1);
    test_masks();
    setenv("WHARF_FAKE_PEERS", "broken:0-1,2-3", 1);
    EQ(0, t_child(peers, -1));
    unsetenv("WHARF_FAKE_PEERS");
    setenv("WHARF_FAKE_DENY", "1", 1);
    EQ(0, t_child(denied, -1));
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    EQ(0, t_child(none, -1));
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("WHARF_FAKE_DENY");
    setenv("WHARF_FAKE_CAPS", "mig", 1);
    want = "MIG-other";
    EQ(0, t_child(mig, -1));
    setenv("WHARF_FAKE_CAPS", "no_vmm,no_memops,no_ipc_event,no_ipc,mps", 1);
    EQ(0, t_child(without, -1));
    setenv("WHARF_FAKE_CAPS", "old_driver", 1);
    EQ(0, t_child(old, -1));
    test_exclusive();
    return 0;
}
