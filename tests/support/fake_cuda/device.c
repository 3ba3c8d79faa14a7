/* SPDX-License-Identifier: MIT */
/*
 * Entry points: start, versions, devices and what they can do.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

/* Threads of streams outlive a dlclose, so the code has to. */
static void stay_loaded(void)
{
    Dl_info self;

    if (dladdr(&fc, &self) && self.dli_fname)
        (void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static CUresult start_locked(void)
{
    bool zombie;

    if (fc.deinited)
        return CUDA_ERROR_DEINITIALIZED;
    if (fc.inited)
        return CUDA_SUCCESS;
    pid_t pid = getpid();
    fc.start = fc_process_start(pid, &zombie);
    fc.cookie = fc_random64();
    __atomic_store_n(&fc.pid, pid, __ATOMIC_RELAXED);
    CUresult r = fc_config_read();
    if (r != CUDA_SUCCESS)
        return r;
    if (!fc.va_base && !fc_va_open())
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = fc_state_open(fc.config.state_path);
    if (r != CUDA_SUCCESS)
        return r;
    stay_loaded();
    atexit(fc_exit_hook);
    fc.inited = true;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    pid_t owner = __atomic_load_n(&fc.pid, __ATOMIC_RELAXED);

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (owner && owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&fc.lock);
    return fc_end(start_locked());
}

CUresult cuDriverGetVersion(int *version)
{
    const char *caps = getenv("WHARF_FAKE_CAPS");
    const char *number = getenv("WHARF_FAKE_DRIVER");

    /* Answers before cuInit too, hence its own look at the environment. */
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = caps && strstr(caps, "old_driver") ? 11040 : 13000;
    if (number && *number)
        *version = atoi(number);
    return CUDA_SUCCESS;
}

/* Takes the lock and finds the device. */
static CUresult device_begin(const char *call, CUdevice dev, fc_device **d)
{
    CUresult r = fc_begin(call, FC_RUINED, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (dev < 0 || dev >= fc.visible_count)
        return fc_end(CUDA_ERROR_INVALID_DEVICE);
    *d = &fc.device[fc.visible[dev]];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    *count = fc.visible_count;
    return fc_end(r);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    fc_device *d;
    CUresult r = device_begin(__func__, ordinal, &d);

    if (r != CUDA_SUCCESS)
        return r;
    *device = ordinal;
    return fc_end(r);
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    fc_device *d;
    CUresult r = device_begin(__func__, dev, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (!name || len < 1)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)len, "%s", d->name);
    return fc_end(r);
}

/* The first form names the whole GPU, the second the MIG instance. */
#undef cuDeviceGetUuid
__attribute__((visibility("default"))) CUresult cuDeviceGetUuid(CUuuid *uuid,
                                                                CUdevice dev);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    fc_device *d;
    CUresult r = device_begin(__func__, dev, &d);

    if (r != CUDA_SUCCESS)
        return r;
    *uuid = d->parent;
    return fc_end(r);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    fc_device *d;
    CUresult r = device_begin(__func__, dev, &d);

    if (r != CUDA_SUCCESS)
        return r;
    *uuid = d->uuid;
    return fc_end(r);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice dev)
{
    fc_device *d;
    CUresult r = device_begin(__func__, dev, &d);

    if (r != CUDA_SUCCESS)
        return r;
    *bytes = fc.config.memory;
    return fc_end(r);
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    fc_device *d;
    CUresult r = device_begin(__func__, dev, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (!id || len < 13)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    snprintf(id, (size_t)len, "%s", d->pci);
    return fc_end(r);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    CUresult r = fc_begin(__func__, FC_RUINED, NULL);
    unsigned domain = 0, bus, slot, function = 0;

    if (r != CUDA_SUCCESS)
        return r;
    if (!id ||
        (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 &&
         (domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function)) < 2))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < fc.visible_count; i++)
        if (domain == 0 && slot == 0 &&
            fc.device[fc.visible[i]].bus == (int)bus) {
            *dev = i;
            return fc_end(CUDA_SUCCESS);
        }
    return fc_end(CUDA_ERROR_INVALID_DEVICE);
}

/* What depends on a switch: the value with the switch off, or 0 with it on. */
static const struct {
    CUdevice_attribute attribute;
    unsigned off; /* FC_CAP_... */
    int value;
} switched[] = {
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, FC_CAP_NO_VMM, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
     FC_CAP_NO_FD | FC_CAP_NO_VMM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, FC_CAP_NO_MEMOPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, FC_CAP_NO_MEMOPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, FC_CAP_NO_MEMOPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, FC_CAP_NO_MEMOPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, FC_CAP_NO_MEMOPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, FC_CAP_NO_MEMOPS, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, FC_CAP_NO_IPC_EVENT, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, FC_CAP_NO_MAP_HOST, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, FC_CAP_NO_MAP_HOST, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, FC_CAP_NO_MAP_HOST,
     1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, FC_CAP_NO_POOLS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
     FC_CAP_NO_POOLS | FC_CAP_NO_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
     FC_CAP_NO_VMM | FC_CAP_NO_HOST_VMM, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
     FC_CAP_NO_VMM | FC_CAP_NO_HOST_VMM, 1},
};

static const struct {
    CUdevice_attribute attribute;
    int value;
} fixed[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 8},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
};

static int compute_mode(const fc_device *d)
{
    if (d->prohibited)
        return CU_COMPUTEMODE_PROHIBITED;
    return fc.config.caps & FC_CAP_EXCLUSIVE ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS
                                             : CU_COMPUTEMODE_DEFAULT;
}

static int attribute_value(const fc_device *d, CUdevice_attribute attribute)
{
    unsigned caps = fc.config.caps;

    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return d->bus;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        return compute_mode(d);
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
        return caps & FC_CAP_MPS ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        return caps & (FC_CAP_FABRIC_MADE | FC_CAP_FABRIC_DENIED) &&
               !(caps & FC_CAP_FABRIC_UNSAID);
    default:
        break;
    }
    for (size_t i = 0; i < sizeof switched / sizeof switched[0]; i++)
        if (switched[i].attribute == attribute)
            return caps & switched[i].off ? 0 : switched[i].value;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (fixed[i].attribute == attribute)
            return fixed[i].value;
    return 0;
}

/* Drivers refuse attributes that came after them. */
static bool attribute_known(CUdevice_attribute attribute)
{
    int v = fc.config.driver_version;

    if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return false;
    if (attribute >= CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)
        return v >= 12000;
    if (attribute >= CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
        return v >= 10020;
    return true;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice dev)
{
    fc_device *d;
    CUresult r = device_begin(__func__, dev, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (!value || !attribute_known(attribute))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    *value = attribute_value(d, attribute);
    return fc_end(r);
}

/* Physical index of both; the lock is held on success. */
static CUresult pair_begin(const char *call, CUdevice a, CUdevice b, int *pa,
                           int *pb)
{
    fc_device *d;
    CUresult r = device_begin(call, a, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (b < 0 || b >= fc.visible_count)
        return fc_end(CUDA_ERROR_INVALID_DEVICE);
    *pa = fc.visible[a];
    *pb = fc.visible[b];
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    int a, b;
    CUresult r = pair_begin(__func__, dev, peer, &a, &b);

    if (r != CUDA_SUCCESS)
        return r;
    *can = fc.device[a].peers >> b & 1;
    return fc_end(r);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                 CUdevice src, CUdevice dst)
{
    int a, b;
    CUresult r = pair_begin(__func__, src, dst, &a, &b);

    if (r != CUDA_SUCCESS)
        return r;
    if (a == b)
        return fc_end(CUDA_ERROR_INVALID_DEVICE);
    bool peer = fc.device[a].peers >> b & 1;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = peer ? 0 : 1;
        break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = peer;
        break;
    default:
        *value = 0;
        break;
    }
    return fc_end(r);
}

CUresult cuDeviceGetNvSciSyncAttributes(void *list, CUdevice dev, int flags)
{
    (void)list;
    (void)dev;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}
