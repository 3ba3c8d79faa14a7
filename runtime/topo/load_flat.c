/* SPDX-License-Identifier: MIT */
/*
 * The loader of builds without hwloc: GPUs by the kernel's list of PCI devices,
 * nothing about locality. Every distance is unknown, so plans are balanced and
 * in rank order, and say so.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/model.h"

#define PCI_DIRECTORY "/sys/bus/pci/devices"

static unsigned long attribute_read(const char *device, const char *name)
{
    char path[128];
    char text[32] = "";
    FILE *file;

    snprintf(path, sizeof path, PCI_DIRECTORY "/%.32s/%s", device, name);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(text, sizeof text, file))
        text[0] = 0;
    fclose(file);
    return strtoul(text, NULL, 16);
}

static bool is_gpu(const char *device)
{
    return wi_pci_is_gpu(attribute_read(device, "class") >> 8,
                         attribute_read(device, "vendor"));
}

wharf_status wi_topo_fill(const char *path, wharf_topo *topo)
{
    wharf_status status;
    struct dirent *entry;
    DIR *directory;

    if (path)
        return wi_fail(WHARF_EUNSUPPORTED, "build Wharf with hwloc >= 2.4",
                       "this build has no hwloc and cannot read %.100s", path);
    status = wi_topo_room(topo, 0, WHARF_MAX_GPUS);
    if (status != WHARF_OK)
        return status;
    wi_topo_note(topo, "this build has no hwloc: no distance is known");
    memset(topo->allowed, 0xff, sizeof topo->allowed);
    directory = opendir(PCI_DIRECTORY);
    if (!directory)
        return WHARF_OK; /* no PCI bus, no GPUs */
    while ((entry = readdir(directory)) && topo->gpus < WHARF_MAX_GPUS) {
        wi_topo_gpu *gpu = &topo->gpu[topo->gpus];
        if (strlen(entry->d_name) >= sizeof gpu->pci || !is_gpu(entry->d_name))
            continue;
        snprintf(gpu->pci, sizeof gpu->pci, "%.15s", entry->d_name);
        gpu->listed = true;
        gpu->node = -1;
        topo->gpus++;
    }
    closedir(directory);
    wi_topo_sort(topo);
    return WHARF_OK;
}
