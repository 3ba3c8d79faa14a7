/* SPDX-License-Identifier: MIT */
/* Which GPUs this process sees, what they can do, how they reach others.
 * Nothing here creates a context. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "device/cuda_device.h"
#include "device/nvml.h"

wharf_status wi_cuda_attribute(CUdevice device, CUdevice_attribute which,
                               int *value)
{
    int got = 0;
    int code = WI_CU_CODE(cuDeviceGetAttribute, (&got, which, device));

    /* The answer to an attribute that is younger than the driver: the oldest
     * that is let in, 12.0, knows those up to interprocess events. */
    if (code == CUDA_ERROR_INVALID_VALUE &&
        which > CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)
        got = 0;
    else if (code != CUDA_SUCCESS)
        return wi_driver_fail("cuDeviceGetAttribute", code,
                              "attribute %d of device %d", (int)which, device);
    *value = got;
    return WHARF_OK;
}

/*
 * Memory operations: their current form works on every device of these
 * drivers, with 64-bit operands where the attribute says so; the older
 * attribute tells of a form that the system's administrator has to switch on.
 * Legacy handles: Linux, and an address space common to host and devices.
 */
static const struct {
    CUdevice_attribute attribute;
    uint32_t cap;
} cap_attributes[] = {
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, WI_CAP_IPC},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, WI_CAP_IPC_EVENT},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, WI_CAP_MEM_OPS},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, WI_CAP_MAP_HOST},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, WI_CAP_MPS},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, WI_CAP_FABRIC},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
     WI_CAP_HOST_VMM},
};

static wharf_status device_caps(CUdevice device, uint32_t *caps)
{
    wharf_status status;
    int vmm = 0, fds = 0;
    uint32_t got = 0;

    for (size_t i = 0; i < sizeof cap_attributes / sizeof cap_attributes[0];
         i++) {
        int value = 0;

        status = wi_cuda_attribute(device, cap_attributes[i].attribute, &value);
        if (status != WHARF_OK)
            return status;
        if (value)
            got |= cap_attributes[i].cap;
    }
    status = wi_cuda_attribute(
        device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &vmm);
    if (status == WHARF_OK)
        status = wi_cuda_attribute(
            device,
            CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
            &fds);
    if (status != WHARF_OK)
        return status;
    if (vmm && fds)
        got |= WI_CAP_VMM;
    if (!(got & WI_CAP_VMM) || !(got & WI_CAP_MAP_HOST))
        got &= ~WI_CAP_HOST_VMM;
    *caps = got;
    return WHARF_OK;
}

static wharf_status device_place(CUdevice device, wi_device_desc *desc)
{
    int domain = 0, bus = 0, slot = 0, mode = 0;
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus},
        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &slot},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &desc->compute_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &desc->compute_minor},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        wharf_status status =
            wi_cuda_attribute(device, wanted[i].attribute, wanted[i].value);

        if (status != WHARF_OK)
            return status;
    }
    snprintf(desc->pci, sizeof desc->pci, "%04x:%02x:%02x.0",
             (unsigned)domain & 0xffff, (unsigned)bus & 0xff,
             (unsigned)slot & 0xff);
    desc->exclusive = mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
    desc->prohibited = mode == CU_COMPUTEMODE_PROHIBITED;
    return WHARF_OK;
}

/* For a MIG instance the current call tells its own UUID and the older one
 * that of the GPU that it is part of. */
static wharf_status device_uuid(CUdevice device, wi_device_desc *desc)
{
    CUuuid uuid = {{0}}, parent = {{0}};
    int code = WI_CU_CODE(cuDeviceGetUuid, (&uuid, device));

    if (code == CUDA_SUCCESS)
        code = WI_CU_CODE(parent_uuid, (&parent, device));
    if (code != CUDA_SUCCESS)
        return wi_driver_fail("cuDeviceGetUuid", code, "device %d", device);
    memcpy(desc->uuid, uuid.bytes, sizeof desc->uuid);
    desc->mig = memcmp(&parent, &uuid, sizeof uuid) != 0;
    return WHARF_OK;
}

static wharf_status device_describe(int ordinal, wi_device_desc *out)
{
    wi_device_desc desc = {.ordinal = ordinal};
    wharf_status status;
    CUdevice device = -1;
    size_t memory = 0;

    desc.driver_version = wi_driver.version;
    status = WI_CU(cuDeviceGet, (&device, ordinal), "ordinal %d", ordinal);
    if (status == WHARF_OK)
        status = device_uuid(device, &desc);
    if (status == WHARF_OK)
        status =
            WI_CU(cuDeviceGetName, (desc.name, (int)sizeof desc.name, device),
                  "device %d", ordinal);
    if (status == WHARF_OK)
        status =
            WI_CU(cuDeviceTotalMem, (&memory, device), "device %d", ordinal);
    if (status == WHARF_OK)
        status = device_place(device, &desc);
    if (status == WHARF_OK)
        status = device_caps(device, &desc.caps);
    if (status != WHARF_OK)
        return status;
    desc.name[sizeof desc.name - 1] = '\0';
    desc.memory_bytes = memory;
    *out = desc;
    return WHARF_OK;
}

wharf_status wi_cuda_enumerate(wi_device_desc *devices, int most, int *count)
{
    wharf_status status = wi_driver_load();
    int seen = 0;

    if (status != WHARF_OK)
        return status;
    status = WI_CU(cuDeviceGetCount, (&seen), "all devices");
    if (status != WHARF_OK)
        return status;
    if (seen == 0)
        return wi_driver_no_device(CUDA_ERROR_NO_DEVICE);
    if (seen > most)
        seen = most;
    for (int i = 0; i < seen && status == WHARF_OK; i++)
        status = device_describe(i, &devices[i]);
    if (status == WHARF_OK)
        *count = seen;
    return status;
}

/* A device as this process sees it; false if it does not. */
static bool device_find(const wi_device_desc *desc, CUdevice *device)
{
    int count = 0;

    if (WI_CU_CODE(cuDeviceGetCount, (&count)) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < count; i++) {
        CUuuid uuid = {{0}};
        CUdevice candidate = -1;

        if (WI_CU_CODE(cuDeviceGet, (&candidate, i)) == CUDA_SUCCESS &&
            WI_CU_CODE(cuDeviceGetUuid, (&uuid, candidate)) == CUDA_SUCCESS &&
            memcmp(uuid.bytes, desc->uuid, sizeof desc->uuid) == 0) {
            *device = candidate;
            return true;
        }
    }
    return false;
}

static void link_set(wi_peer *peer, bool reachable, const char *reason)
{
    peer->reachable = reachable;
    peer->known = true;
    wi_reason_set(peer->reason, reason);
}

/* Both devices are visible: the driver knows. A question that it does not
 * answer is left to the attach, which tries. */
static void link_ask(CUdevice from, CUdevice to, wi_peer *peer)
{
    int can = 0, atomics = 0;
    int code = WI_CU_CODE(cuDeviceCanAccessPeer, (&can, from, to));

    if (code != CUDA_SUCCESS) {
        char text[64];

        wi_driver_describe(code, text, sizeof text);
        peer->reachable = true;
        snprintf(peer->reason, sizeof peer->reason,
                 "not known, tried: cuDeviceCanAccessPeer: %.50s", text);
        return;
    }
    if (!can) {
        peer->nvlinks = 0;
        link_set(peer, false, "the driver offers no peer access");
        return;
    }
    code = WI_CU_CODE(
        cuDeviceGetP2PAttribute,
        (&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to));
    peer->nvlink = peer->nvlinks > 0 || (code == CUDA_SUCCESS && atomics);
    link_set(peer, true,
             peer->nvlink ? "peer access with native atomics: NVLink"
                          : "peer access without native atomics: PCIe");
    if (peer->nvlinks > 0)
        snprintf(peer->reason, sizeof peer->reason,
                 "peer access over %d NVLinks", peer->nvlinks);
}

void wi_cuda_link(const wi_device_desc *from, const wi_device_desc *to,
                  wi_peer *peer)
{
    CUdevice a = -1, b = -1;

    memset(peer, 0, sizeof *peer);
    if (memcmp(from->uuid, to->uuid, sizeof from->uuid) == 0) {
        link_set(peer, true, "the same GPU");
        return;
    }
    if (from->mig || to->mig) {
        link_set(peer, false, "MIG instances have no peer access");
        return;
    }
    if (wi_driver_check() != WHARF_OK) {
        link_set(peer, false, "forked child");
        return;
    }
    /* NVML does not look at CUDA_VISIBLE_DEVICES. */
    peer->nvlinks = wi_nvml_links(from->uuid, to->pci);
    if (device_find(from, &a) && device_find(to, &b)) {
        link_ask(a, b, peer);
        return;
    }
    peer->nvlink = peer->nvlinks > 0;
    peer->reachable = true;
    wi_reason_set(peer->reason,
                  peer->nvlink ? "not known, tried: NVLinks, but one of the "
                                 "GPUs is not visible here"
                               : "not known, tried: one of the GPUs is not "
                                 "visible here");
}
