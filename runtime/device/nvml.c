/* SPDX-License-Identifier: MIT */
/*
 * NVML, loaded at run time and only for a number in a report, so whatever goes
 * wrong here is answered by "unknown". Its header is no part of every CUDA
 * toolkit, hence the few declarations of its stable ABI below.
 */
#include "device/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"

/* NVML numbers links from 0; asking for one beyond the last is an error that
 * ends the loop. */
#define NVML_MOST_LINKS 64

#define NVML_REMOTE_SWITCH 2

/* nvmlPciInfo_t of the _v2 and _v3 calls. */
typedef struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned pci_device_id, pci_subsystem_id;
    char bus_id[32];
} nvml_pci;

typedef void *nvml_device;

static struct {
    int (*init)(void);
    int (*by_uuid)(const char *uuid, nvml_device *device);
    int (*link_state)(nvml_device device, unsigned link, unsigned *active);
    int (*link_pci)(nvml_device device, unsigned link, nvml_pci *pci);
    int (*link_type)(nvml_device device, unsigned link, unsigned *type);
} nvml;

static pthread_once_t nvml_once = PTHREAD_ONCE_INIT;
static int nvml_ready;

static int nvml_find(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);

    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Never shut down or closed: initialising costs tens of milliseconds, and the
 * application may use NVML itself. */
static void nvml_load(void)
{
    const char *stand_in = wi_config_text(WI_SETTING_CUDA_DRIVER);
    void *library;

    /* NVML knows nothing of the devices of another driver. */
    if (stand_in && stand_in[0] != '\0')
        return;
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    if (nvml_find(library, "nvmlInit_v2", &nvml.init) &&
        nvml_find(library, "nvmlDeviceGetHandleByUUID", &nvml.by_uuid) &&
        nvml_find(library, "nvmlDeviceGetNvLinkState", &nvml.link_state) &&
        nvml_find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                  &nvml.link_pci) &&
        nvml.init() == 0) {
        /* Since driver 465; without it a switch shows as no direct link. */
        nvml_find(library, "nvmlDeviceGetNvLinkRemoteDeviceType",
                  &nvml.link_type);
        nvml_ready = 1;
        return;
    }
    wi_log(WI_LOG_DEBUG, "nvml: found but unusable, NVLinks are not counted");
    dlclose(library);
}

static void uuid_print(const unsigned char u[16], char text[48])
{
    int at = snprintf(text, 48, "GPU-");

    for (int i = 0; i < 16; i++)
        at += snprintf(text + at, (size_t)(48 - at), "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

int wi_nvml_links(const unsigned char uuid[16], const char *pci)
{
    int direct = 0, by_switch = 0;
    nvml_device device;
    char text[48];

    pthread_once(&nvml_once, nvml_load);
    uuid_print(uuid, text);
    if (!nvml_ready || nvml.by_uuid(text, &device) != 0)
        return 0;
    for (unsigned link = 0; link < NVML_MOST_LINKS; link++) {
        unsigned active = 0, type = 0;
        nvml_pci remote;
        char other[32];

        if (nvml.link_state(device, link, &active) != 0)
            break;
        if (!active)
            continue;
        memset(&remote, 0, sizeof remote);
        if (nvml.link_pci(device, link, &remote) != 0)
            remote.bus = UINT_MAX;
        snprintf(other, sizeof other, "%04x:%02x:%02x.0", remote.domain,
                 remote.bus, remote.device);
        if (strcmp(other, pci) == 0)
            direct++;
        else if (nvml.link_type && nvml.link_type(device, link, &type) == 0 &&
                 type == NVML_REMOTE_SWITCH)
            by_switch++;
    }
    return direct ? direct : by_switch;
}
