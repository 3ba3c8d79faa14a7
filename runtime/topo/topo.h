/* SPDX-License-Identifier: MIT */
/*
 * Which rank uses which GPU. The only hwloc calls of Wharf are behind this
 * header (load_hwloc.c, or load_flat.c where hwloc is missing at configure
 * time). Knows no MPI and no CUDA: core brings every rank's facts.
 *
 * core gathers one wi_topo_rank a rank and the union of all devices, lets one
 * rank of the node call wi_topo_plan_node, and broadcasts the plan: the
 * topology is loaded once per node, and all ranks have the same plan.
 */
#ifndef WI_TOPO_TOPO_H
#define WI_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wharf/node.h"
#include "wharf/status.h"
#include "wharf/topo.h"

#define WI_TOPO_CPUS 1024

/* One device of the node, in PCI order (then UUID order: MIG). */
typedef struct wi_topo_device {
    char uuid[48]; /* "GPU-..." or "MIG-..." */
    char pci[16];  /* "0000:06:00.0" */
    int32_t mig;
} wi_topo_device;

/* What one rank knows of itself. Plain data; travels between ranks. */
typedef struct wi_topo_rank {
    uint64_t cpus[WI_TOPO_CPUS / 64]; /* affinity mask, OS indices */
    uint64_t visible; /* bit d: device d of the node is visible to this rank */
    int32_t local_rank; /* of the launcher, -1: unknown */
    int32_t bound;      /* 1: the mask is a true subset of the online CPUs */
    int32_t listed;     /* entries of CUDA_VISIBLE_DEVICES, -1: not set */
} wi_topo_rank;

/* Fills all but `visible` for the calling process. Never fails. */
void wi_topo_rank_self(wi_topo_rank *rank);

/* One rank's line of the plan. Plain data; travels between ranks. */
typedef struct wi_topo_line {
    int32_t device;   /* index into devices, -1: none */
    int32_t distance; /* NUMA distance CPUs - GPU, 10 local, -1 unknown */
    char reason[96];
} wi_topo_line;

/* What is to be planned. */
typedef struct wi_topo_ask {
    int ranks;
    const wi_topo_rank *rank;
    int devices;
    const wi_topo_device *device;
    const int32_t *links; /* devices x devices, from row to column: 0 no peer
                             access, 1 over PCIe, 1 + NVLinks, -1 unknown;
                             NULL: nothing is known */
    wharf_placement placement;
    const char *device_map; /* explicit device map, "" or NULL for none */
    bool refuse_bad;        /* WHARF_EDEGRADED for a plan with a bad warning */
} wi_topo_ask;

/*
 * Loads this machine's topology and plans. `lines` has room for ask->ranks.
 * `warnings` (capacity bytes) gets one warning a line. WHARF_EARG or
 * WHARF_ECONFIG for a map that does not fit, WHARF_ENODEV when a rank sees no
 * device, WHARF_EDEGRADED under refuse_bad, where the cause is the warning.
 */
wharf_status wi_topo_plan_node(const wi_topo_ask *ask, wi_topo_line *lines,
                               char *warnings, size_t capacity);

/* A number that two ranks share if and only if (as good as) they hold the same
 * lines. */
uint64_t wi_topo_digest(int ranks, const wi_topo_line *lines);

/*
 * CPUs near a PCI device, as the kernel tells, without loading a topology.
 * `root` is "" or, in tests, a directory that holds a /sys. WHARF_EUNSUPPORTED
 * where the kernel does not tell.
 */
wharf_status wi_topo_near_cpus(const char *root, const char *pci,
                               uint64_t cpus[WI_TOPO_CPUS / 64]);

/* What a binding changed, so that it can be undone. Zero: nothing. */
typedef struct wi_topo_bound {
    int32_t thread;
    uint64_t before[WI_TOPO_CPUS / 64];
    uint64_t now[WI_TOPO_CPUS / 64];
} wi_topo_bound;

/*
 * Binds the calling thread to CPUs near its GPU, out of those that it may use:
 * to the part-th of `parts` shares, so that the ranks of one GPU do not sit on
 * each other; to all of them where there are fewer than parts. For ranks that
 * came unbound. `root` as above. WHARF_EUNSUPPORTED where no such CPU is
 * known. Nothing is changed on failure.
 */
wharf_status wi_topo_bind_near(const char *root, const char *pci, int part,
                               int parts, wi_topo_bound *bound);

/* Gives that thread its CPUs back, unless somebody has bound it anew since or
 * it has ended. Any thread. */
void wi_topo_unbind(wi_topo_bound *bound);

#endif
