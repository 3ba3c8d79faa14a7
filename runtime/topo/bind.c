/* SPDX-License-Identifier: MIT */
/* Binding a rank that came unbound to CPUs near its GPU. Asks the kernel, not
 * hwloc: every rank does this for itself, and a topology is loaded once a
 * node. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "topo/bits.h"
#include "topo/model.h"
#include "topo/topo.h"

/* The first line of a file, without its end; false if there is none. */
static bool line_read(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool got;
    if (!file)
        return false;
    got = fgets(text, (int)capacity, file) != NULL;
    fclose(file);
    if (!got)
        return false;
    text[strcspn(text, "\n")] = 0;
    return text[0] != 0;
}

wharf_status wi_topo_near_cpus(const char *root, const char *pci,
                               uint64_t cpus[WI_TOPO_CPUS / 64])
{
    uint64_t set[WI_TOPO_CPUS / 64];
    char path[512];
    char list[4096];
    unsigned part[4];
    wharf_status status;

    if (!wi_pci_parse(pci, strlen(pci), part))
        return wi_fail(WHARF_EARG, NULL, "\"%.20s\" is no PCI id", pci);
    snprintf(path, sizeof path,
             "%.400s/sys/bus/pci/devices/%04x:%02x:%02x.%x/local_cpulist", root,
             part[0], part[1], part[2], part[3]);
    if (!line_read(path, list, sizeof list))
        return wi_fail(WHARF_EUNSUPPORTED, "bind the ranks by the launcher",
                       "the kernel does not tell which CPUs are near %s", pci);
    status = wi_bits_parse(list, strlen(list), "local_cpulist", set);
    if (status == WHARF_OK)
        memcpy(cpus, set, sizeof set);
    return status;
}

/* Keeps the part-th of `parts` shares of a mask, by order of CPUs. */
static void share_keep(cpu_set_t *mask, int part, int parts)
{
    int count = CPU_COUNT(mask);
    int first = (int)((int64_t)count * part / parts);
    int last = (int)((int64_t)count * (part + 1) / parts);

    if (count < parts)
        return;
    for (int c = 0, seen = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, mask))
            continue;
        if (seen < first || seen >= last)
            CPU_CLR(c, mask);
        seen++;
    }
}

static void mask_store(const cpu_set_t *mask, uint64_t *cpus)
{
    memset(cpus, 0, sizeof(uint64_t[WI_TOPO_CPUS / 64]));
    for (int c = 0; c < CPU_SETSIZE && c < WI_TOPO_CPUS; c++)
        if (CPU_ISSET(c, mask))
            wi_bits_set(cpus, c);
}

static void mask_load(const uint64_t *cpus, cpu_set_t *mask)
{
    CPU_ZERO(mask);
    for (int c = 0; c < CPU_SETSIZE && c < WI_TOPO_CPUS; c++)
        if (wi_bits_has(cpus, c))
            CPU_SET(c, mask);
}

wharf_status wi_topo_bind_near(const char *root, const char *pci, int part,
                               int parts, wi_topo_bound *bound)
{
    uint64_t near[WI_TOPO_CPUS / 64] = {0};
    wi_topo_bound made = {.thread = (int32_t)syscall(SYS_gettid)};
    cpu_set_t mask;
    wharf_status status;

    if (parts < 1 || part < 0 || part >= parts)
        return wi_fail(WHARF_EARG, NULL, "share %d of %d does not exist", part,
                       parts);
    status = wi_topo_near_cpus(root, pci, near);
    if (status != WHARF_OK)
        return status;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask))
        return wi_fail_os(errno, NULL, "cannot read the CPU affinity");
    mask_store(&mask, made.before);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (c >= WI_TOPO_CPUS || !wi_bits_has(near, c))
            CPU_CLR(c, &mask);
    if (!CPU_COUNT(&mask))
        return wi_fail(WHARF_EUNSUPPORTED, "allow the rank CPUs near its GPU",
                       "this rank may use no CPU near %s", pci);
    share_keep(&mask, part, parts);
    if (sched_setaffinity(0, sizeof mask, &mask))
        return wi_fail_os(errno, NULL, "cannot set the CPU affinity");
    mask_store(&mask, made.now);
    *bound = made;
    return WHARF_OK;
}

void wi_topo_unbind(wi_topo_bound *bound)
{
    uint64_t cpus[WI_TOPO_CPUS / 64];
    cpu_set_t mask;

    if (!bound->thread)
        return;
    CPU_ZERO(&mask);
    if (!sched_getaffinity(bound->thread, sizeof mask, &mask)) {
        mask_store(&mask, cpus);
        if (!memcmp(cpus, bound->now, sizeof cpus)) {
            mask_load(bound->before, &mask);
            /* If it fails, the CPUs were taken away meanwhile. */
            if (sched_setaffinity(bound->thread, sizeof mask, &mask))
                wi_log(WI_LOG_DEBUG, "the CPU binding stays: %s",
                       strerror(errno));
        }
    }
    bound->thread = 0;
}
