/* SPDX-License-Identifier: MIT */
/*
 * A machine as the planner sees it: plain data, filled by a loader
 * (load_hwloc.c, load_flat.c) and never changed afterwards. What the planner
 * does not look at is not here.
 */
#ifndef WI_TOPO_MODEL_H
#define WI_TOPO_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "wharf/topo.h"

/* NUMA nodes that have CPUs. The largest machines sold have 64. */
#define WI_TOPO_NODES 256
#define WI_TOPO_CPU_WORDS (WHARF_TOPO_INDICES / 64)
#define WI_TOPO_NODE_WORDS (WI_TOPO_NODES / 64)

/* Distances above this are cut to it: it keeps the sums of assign.c exact, and
 * firmware tables end at 254. */
#define WI_TOPO_FAR 1000

/* Used where the firmware gives no distance table. */
#define WI_TOPO_SAME_NODE 10
#define WI_TOPO_SAME_PACKAGE 12
#define WI_TOPO_OTHER_PACKAGE 20

typedef struct wi_topo_numa {
    int os_index;
    int package; /* OS index, -1: unknown */
    uint64_t cpus[WI_TOPO_CPU_WORDS];
} wi_topo_numa;

typedef struct wi_topo_gpu {
    char pci[16];
    char uuid[48];
    char name[64];
    bool mig;
    bool listed; /* the topology knows it */
    int node;    /* index of its first node, -1: locality unknown */
    uint64_t nodes[WI_TOPO_NODE_WORDS]; /* node indices, all empty likewise */
} wi_topo_gpu;

struct wharf_topo {
    int nodes; /* 0: nothing is known of locality */
    wi_topo_numa *node;
    int32_t *distance; /* nodes x nodes, from row to column, 1..WI_TOPO_FAR */
    int gpus;
    wi_topo_gpu *gpu;                    /* in PCI order */
    int32_t *links;                      /* gpus x gpus, NULL: not recorded */
    uint64_t allowed[WI_TOPO_CPU_WORDS]; /* CPUs that may be used here */
    uint64_t blind[WHARF_TOPO_INDICES / 64]; /* NUMA nodes without CPUs, OS
                                                indices */
    bool foreign;    /* asked for this machine, and got another one's record */
    char notes[512]; /* loader's remarks, one a line */
};

/* Loads; no call bracket, so fit for use inside other calls. */
wharf_status wi_topo_load(const char *path, wharf_topo **topo);

/* The loader that was chosen at configure time fills an empty machine; what it
 * leaves behind on failure is freed by the caller. */
wharf_status wi_topo_fill(const char *path, wharf_topo *topo);

void wi_topo_release(wharf_topo *topo);

/* Appends a remark. */
void wi_topo_note(wharf_topo *topo, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for GPUs and for nodes, zeroed. */
wharf_status wi_topo_room(wharf_topo *topo, int nodes, int gpus);

/* Is a PCI device of this class and vendor a GPU? Display chips of management
 * controllers are VGA as well, hence the vendor. */
bool wi_pci_is_gpu(unsigned long class_id, unsigned long vendor);

/* Brings the GPUs into PCI order. */
void wi_topo_sort(wharf_topo *topo);

/* Distances without a firmware table. */
void wi_topo_guess_distances(wharf_topo *topo);

/* Order of PCI ids by domain, bus, device, function; text order for what is
 * no PCI id. */
int wi_pci_compare(const char *a, const char *b);

/* "0000:06:00.0", also without domain or function; false for anything else. */
bool wi_pci_parse(const char *text, size_t length, unsigned part[4]);

#endif
