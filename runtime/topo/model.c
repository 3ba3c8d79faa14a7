/* SPDX-License-Identifier: MIT */
/* The machine: making, asking, giving back. */
#include "topo/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/versioned.h"

#define PCI_CLASS_VGA 0x0300
#define PCI_CLASS_3D 0x0302
#define PCI_VENDOR_NVIDIA 0x10de

wharf_status wi_topo_load(const char *path, wharf_topo **topo)
{
    wharf_topo *made;
    wharf_status status;

    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    status = wi_topo_fill(path, made);
    if (status != WHARF_OK) {
        wi_topo_release(made);
        return status;
    }
    *topo = made;
    return WHARF_OK;
}

void wi_topo_release(wharf_topo *topo)
{
    if (!topo)
        return;
    wi_free(topo->node);
    wi_free(topo->distance);
    wi_free(topo->gpu);
    wi_free(topo->links);
    wi_free(topo);
}

wharf_status wi_topo_room(wharf_topo *topo, int nodes, int gpus)
{
    topo->node = wi_calloc((size_t)nodes, sizeof *topo->node);
    topo->distance =
        wi_calloc((size_t)nodes * (size_t)nodes, sizeof *topo->distance);
    topo->gpu = wi_calloc((size_t)gpus, sizeof *topo->gpu);
    if (!topo->node || !topo->distance || !topo->gpu)
        return WHARF_ENOMEM;
    return WHARF_OK;
}

void wi_topo_note(wharf_topo *topo, const char *format, ...)
{
    size_t used = strlen(topo->notes);
    va_list list;

    if (used + 2 >= sizeof topo->notes)
        return;
    if (used)
        topo->notes[used++] = '\n';
    va_start(list, format);
    vsnprintf(topo->notes + used, sizeof topo->notes - used, format, list);
    va_end(list);
}

void wi_topo_guess_distances(wharf_topo *topo)
{
    for (int a = 0; a < topo->nodes; a++)
        for (int b = 0; b < topo->nodes; b++) {
            int distance = WI_TOPO_OTHER_PACKAGE;
            if (a == b)
                distance = WI_TOPO_SAME_NODE;
            else if (topo->node[a].package >= 0 &&
                     topo->node[a].package == topo->node[b].package)
                distance = WI_TOPO_SAME_PACKAGE;
            topo->distance[a * topo->nodes + b] = distance;
        }
}

static bool hex_read(const char **at, const char *end, int most, unsigned *part)
{
    int digits = 0;
    unsigned value = 0;
    for (; *at < end && digits < most; (*at)++, digits++) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value * 16 + (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (unsigned)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            value = value * 16 + (unsigned)(c - 'A' + 10);
        else
            break;
    }
    *part = value;
    return digits > 0;
}

bool wi_pci_is_gpu(unsigned long class_id, unsigned long vendor)
{
    return class_id == PCI_CLASS_3D ||
           (class_id == PCI_CLASS_VGA && vendor == PCI_VENDOR_NVIDIA);
}

bool wi_pci_parse(const char *text, size_t length, unsigned part[4])
{
    const char *at = text;
    const char *end = text + length;
    unsigned a, b, c;

    if (!hex_read(&at, end, 8, &a) || at == end || *at++ != ':' ||
        !hex_read(&at, end, 2, &b))
        return false;
    if (at < end && *at == ':') {
        at++;
        if (!hex_read(&at, end, 2, &c))
            return false;
    } else { /* bus:device, domain 0 */
        c = b;
        b = a;
        a = 0;
    }
    if (b > 0xff || c > 0x1f)
        return false;
    part[0] = a;
    part[1] = b;
    part[2] = c;
    part[3] = 0;
    if (at == end)
        return true;
    return *at++ == '.' && hex_read(&at, end, 1, &part[3]) && at == end &&
           part[3] < 8;
}

int wi_pci_compare(const char *a, const char *b)
{
    unsigned pa[4], pb[4];
    if (!wi_pci_parse(a, strlen(a), pa) || !wi_pci_parse(b, strlen(b), pb))
        return strcmp(a, b);
    for (int i = 0; i < 4; i++)
        if (pa[i] != pb[i])
            return pa[i] < pb[i] ? -1 : 1;
    return 0;
}

static int by_pci(const void *a, const void *b)
{
    return wi_pci_compare(((const wi_topo_gpu *)a)->pci,
                          ((const wi_topo_gpu *)b)->pci);
}

void wi_topo_sort(wharf_topo *topo)
{
    qsort(topo->gpu, (size_t)topo->gpus, sizeof *topo->gpu, by_pci);
}

wharf_status wharf_topo_load(const char *path, wharf_topo **topo)
{
    wi_call_begin("wharf_topo_load", -1);
    if (!topo)
        return wi_call_end(wi_fail(WHARF_EARG, NULL, "topo is NULL"));
    return wi_call_end(wi_topo_load(path, topo));
}

void wharf_topo_free(wharf_topo **topo)
{
    if (!topo)
        return;
    wi_topo_release(*topo);
    *topo = NULL;
}

int wharf_topo_gpus(const wharf_topo *topo)
{
    return topo ? topo->gpus : -1;
}

static wharf_status gpu_read(const wharf_topo *topo, int index, wharf_gpu *gpu)
{
    const wi_topo_gpu *from;
    wharf_gpu full = {0};

    if (!topo)
        return wi_fail(WHARF_EARG, NULL, "topo is NULL");
    if (index < 0 || index >= topo->gpus)
        return wi_fail(WHARF_EARG, NULL, "index %d is outside 0..%d", index,
                       topo->gpus - 1);
    from = &topo->gpu[index];
    memcpy(full.pci, from->pci, sizeof full.pci);
    memcpy(full.uuid, from->uuid, sizeof full.uuid);
    memcpy(full.name, from->name, sizeof full.name);
    full.numa_node = from->node < 0 ? -1 : topo->node[from->node].os_index;
    full.package = from->node < 0 ? -1 : topo->node[from->node].package;
    full.mig = from->mig;
    return wi_versioned_write(gpu, &full, sizeof full, "gpu");
}

wharf_status wharf_topo_gpu(const wharf_topo *topo, int index, wharf_gpu *gpu)
{
    wi_call_begin("wharf_topo_gpu", -1);
    return wi_call_end(gpu_read(topo, index, gpu));
}
