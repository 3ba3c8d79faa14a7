/* SPDX-License-Identifier: MIT */
/*
 * Planning which rank uses which GPU, on this machine or on a recorded one.
 *
 * wharf_node_open plans by itself; these calls show the same planner for any
 * machine and any binding, without MPI, without a GPU and without launching
 * anything. A plan is plain data: one line a rank, with its reason.
 *
 * Distances are NUMA distances as the firmware gives them: 10 is local, bigger
 * is farther, WHARF_DISTANCE_UNKNOWN is not known. A rank's distance to a GPU
 * is the smallest distance from one of the NUMA nodes that its CPUs belong to,
 * to a NUMA node that the GPU is attached to. NUMA nodes without CPUs (memory
 * of GPUs) count for neither. A rank that is not bound may run anywhere, so
 * its distance is that of the nearest CPU that it is allowed to use.
 */
#ifndef WHARF_TOPO_H
#define WHARF_TOPO_H

#include <stdio.h>

#include "wharf/base.h"
#include "wharf/node.h"
#include "wharf/status.h"

/* OS indices of CPUs and of NUMA nodes run from 0 to this, exclusive. */
#define WHARF_TOPO_INDICES 1024

#define WHARF_DISTANCE_LOCAL 10
#define WHARF_DISTANCE_UNKNOWN (-1)

/* A machine: its NUMA nodes, their distances, its GPUs. Never changes after
 * it is loaded. */
typedef struct wharf_topo wharf_topo;

/* One GPU of a machine. Start from WHARF_GPU_INIT. */
typedef struct wharf_gpu {
    size_t struct_size;
    char pci[16];  /* "0000:06:00.0" */
    char uuid[48]; /* "GPU-..." or "MIG-...", empty: not recorded */
    char name[64]; /* as far as the topology tells, may be empty */
    int numa_node; /* OS index of the (first) NUMA node that it is attached
                      to, -1: unknown */
    int package;   /* OS index of the socket of that NUMA node, -1: unknown */
    int mig;       /* 1: a MIG instance; instances of one GPU have its pci */
} wharf_gpu;

#define WHARF_GPU_INIT                                                         \
    {                                                                          \
        sizeof(wharf_gpu), {0}, {0}, {0}, 0, 0, 0                              \
    }

/* Where the CPUs of a rank are. */
typedef enum wharf_binding_kind {
    WHARF_BINDING_NONE = 0, /* not bound; set is not read */
    WHARF_BINDING_NUMA = 1, /* all CPUs of the NUMA nodes in set */
    WHARF_BINDING_CPU = 2   /* the CPUs in set */
} wharf_binding_kind;

/* Binding of one rank. Bit i % 64 of set[i / 64] is OS index i. */
typedef struct wharf_binding {
    wharf_binding_kind kind;
    uint64_t set[WHARF_TOPO_INDICES / 64];
} wharf_binding;

/* Why a rank has its GPU: name, number, the word that is printed. */
#define WHARF_REASON_LIST(X)                                                   \
    X(NONE, 0, "no GPU")              /* it sees none */                       \
    X(LOCAL, 1, "local")              /* a NUMA node of its own */             \
    X(SAME_SOCKET, 2, "same socket")  /* another NUMA node, its socket */      \
    X(REMOTE, 3, "remote")            /* another socket */                     \
    X(UNKNOWN, 4, "unknown locality") /* the GPU's NUMA node is not known */   \
    X(UNBOUND, 5, "unbound")          /* the rank may run anywhere */          \
    X(FORCED, 6, "forced")            /* device map, or it sees one only */    \
    X(NEAR_FULL, 7, "near one was full")

typedef enum wharf_reason {
#define WHARF_REASON_ENUM(name, number, text) WHARF_REASON_##name = number,
    WHARF_REASON_LIST(WHARF_REASON_ENUM)
#undef WHARF_REASON_ENUM
} wharf_reason;

/* One rank's line of a plan. */
typedef struct wharf_plan_line {
    int rank;
    int gpu;             /* index in PCI order, -1: none */
    int distance;        /* 10 = local, -1 = unknown or no GPU */
    int owner;           /* lowest rank with the same GPU, -1: no GPU */
    int users;           /* ranks with the same GPU, this one included */
    wharf_reason reason; /* see wharf_reason_name */
    char detail[72];     /* adds to the reason, may be empty */
    char pci[16];
    char uuid[48];
} wharf_plan_line;

/* Something about a plan that a person should know. */
typedef struct wharf_plan_warning {
    int bad; /* 1: refused under options.refuse_bad */
    char text[240];
} wharf_plan_warning;

/* Which rank uses which GPU. Read only; given back by wharf_plan_free. */
typedef struct wharf_plan {
    int ranks;
    int gpus;
    wharf_placement placement;
    int64_t cost;    /* sum of the distances; an unknown one counts 10, since
                        every CPU may be local, a rank without a GPU 0 */
    uint64_t digest; /* equal on all ranks that hold the same plan */
    const wharf_plan_line *line; /* one a rank, in rank order */
    int warnings;
    const wharf_plan_warning *warning;
} wharf_plan;

/* Options of wharf_plan_make. Start from WHARF_PLAN_OPTIONS_INIT. */
typedef struct wharf_plan_options {
    size_t struct_size;
    wharf_placement placement; /* see below */
    int refuse_bad;            /* 1: fail with WHARF_EDEGRADED where the plan
                                  would carry a warning that is `bad`: a rank
                                  without a GPU or far from its GPU, a list cut
                                  by a bad entry, GPUs shared by the map while
                                  others idle, a foreign topology */
    const char *device_map;  /* explicit map, one entry a rank, comma separated:
                                index in PCI order, UUID (or a unique start of
                                one) or PCI id; NULL or "": none */
    const char *visible;     /* the GPUs that each rank sees, one list a rank
                                separated by '/', each as in
                                CUDA_VISIBLE_DEVICES with indices in PCI order:
                                cut at the first bad entry; "-" is no list (sees
                                all), an empty list sees none; NULL: all see
                                all */
    const int32_t *links;    /* gpus x gpus: 0 no peer access, 1 over PCIe,
                                1 + NVLinks, below 0 unknown; NULL: what the
                                topology tells */
    const uint32_t *traffic; /* ranks x ranks, any unit: how much the two
                                exchange; NULL: neighbours in rank order */
    const wharf_gpu *gpu;    /* the driver's devices, instead of the topology's
                                GPUs: pci, uuid and mig are read; must be in
                                PCI, then UUID order */
    int gpus;                /* how many; 0 with gpu NULL */
} wharf_plan_options;

#define WHARF_PLAN_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(wharf_plan_options), WHARF_PLACEMENT_AUTO, 0, NULL, NULL, NULL, \
            NULL, NULL, 0                                                      \
    }

WHARF_BEGIN_DECLS

/**
 * Loads a machine: this one, or one recorded by hwloc as XML.
 *
 * Local, any thread. Takes 50 ms and more for this machine: load once.
 *
 * @param path      an XML file that hwloc wrote (format 1 or 2), or NULL for
 *                  this machine
 * @param[out] topo the machine, to be given to wharf_topo_free; untouched on
 *                  failure
 * @return WHARF_OK; WHARF_EARG (topo NULL); WHARF_EOS (file cannot be read);
 *         WHARF_ECONFIG (not a topology, or one that is broken);
 *         WHARF_ELIMIT (larger than any machine); WHARF_EUNSUPPORTED (this
 *         build has no hwloc and cannot read XML); WHARF_ENOMEM
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_topo_load(const char *path,
                                                       wharf_topo **topo);

/**
 * Gives a machine back. Plans made from it stay valid.
 *
 * Local, any thread; no other call may use the machine at the same time.
 *
 * @param[in,out] topo the machine; set to NULL. NULL or *topo NULL is ignored
 * @return nothing
 */
WHARF_API void wharf_topo_free(wharf_topo **topo);

/**
 * The number of GPUs of a machine.
 *
 * Local, any thread.
 *
 * @param topo the machine
 * @return 0 .. WHARF_MAX_GPUS, or -1 if topo is NULL
 */
WHARF_API int wharf_topo_gpus(const wharf_topo *topo);

/**
 * One GPU of a machine.
 *
 * Local, any thread.
 *
 * @param topo        the machine
 * @param index       0 .. wharf_topo_gpus - 1, in PCI order
 * @param[in,out] gpu started from WHARF_GPU_INIT, filled
 * @return WHARF_OK; WHARF_EARG
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_topo_gpu(const wharf_topo *topo,
                                                      int index,
                                                      wharf_gpu *gpu);

/**
 * Reads bindings such as "numa:0/numa:4,5/cpu:0-15/-", one entry a rank:
 * "numa:LIST" or "cpu:LIST" with OS indices, "-" for not bound.
 *
 * Local, any thread. Needs no machine: whether the CPUs exist is seen by
 * wharf_plan_make.
 *
 * @param text           the entries, separated by '/'
 * @param[out] bindings  array of the caller; undefined on failure
 * @param capacity       its length in entries
 * @param[out] ranks     the number of entries
 * @return WHARF_OK; WHARF_EARG (the cause names the entry); WHARF_ELIMIT (more
 *         entries than capacity, an index of WHARF_TOPO_INDICES or more)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_binding_parse(
    const char *text, wharf_binding *bindings, int capacity, int *ranks);

/**
 * Plans which rank uses which GPU.
 *
 * Local, any thread. A pure function of its arguments: the same on every rank
 * and in every run.
 *
 * A rank with an entry in the map gets that GPU, else a rank that sees exactly
 * one of several GPUs gets that one, else the placement decides:
 * - auto: every GPU gets the same number of ranks or one more, as far as the
 *   lists of visible GPUs allow; among all such plans the sum of distances is
 *   the least possible; among those, ranks that are neighbours (or exchange
 *   much) share a GPU or a link, ranks fewer than GPUs are spread over
 *   sockets, and the lowest indices win;
 * - closest: the sum of distances is the least possible; among those plans
 *   the loads are the most even, then as auto;
 * - block: ranks in order, as many on each GPU as auto would put there;
 * - round_robin: rank r on GPU r modulo GPUs.
 * Under block and round_robin a rank that does not see its GPU takes the next
 * one up that it sees.
 *
 * @param topo      the machine
 * @param ranks     1 .. WHARF_MAX_RANKS
 * @param bindings  one a rank; NULL: no rank is bound
 * @param options   NULL for defaults
 * @param[out] plan the plan, to be given to wharf_plan_free; untouched on
 *                  failure
 * @return WHARF_OK, also where a rank sees no GPU (its line says so);
 *         WHARF_EARG (an argument; a binding that names no CPU of the machine;
 *         a list or map whose entries are not one a rank; a map entry that is
 *         no GPU, not a unique one, or not visible to its rank); WHARF_ELIMIT;
 *         WHARF_EDEGRADED (refuse_bad); WHARF_ENOMEM
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_plan_make(
    const wharf_topo *topo, int ranks, const wharf_binding *bindings,
    const wharf_plan_options *options, wharf_plan **plan);

/**
 * Gives a plan back.
 *
 * Local, any thread; no other call may use the plan at the same time.
 *
 * @param[in,out] plan the plan; set to NULL. NULL or *plan NULL is ignored
 * @return nothing
 */
WHARF_API void wharf_plan_free(wharf_plan **plan);

/**
 * Prints a plan: a table for people, or JSON: one object with "ranks" (a list
 * of objects with "rank", "gpu_index" in PCI order, "pci", "distance",
 * "reason" and more), "cost", "digest" and "warnings" (a list of strings).
 *
 * Local, any thread.
 *
 * @param plan   the plan
 * @param file   where to print
 * @param format WHARF_FORMAT_TEXT or WHARF_FORMAT_JSON
 * @return WHARF_OK; WHARF_EARG; WHARF_EOS (writing failed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_plan_print(const wharf_plan *plan,
                                                        FILE *file,
                                                        wharf_format format);

/**
 * The word for a reason, such as "near one was full".
 *
 * Local, any thread.
 *
 * @param reason any value
 * @return a constant string; "unknown reason" for a value outside the list
 */
WHARF_API const char *wharf_reason_name(wharf_reason reason);

/**
 * The name of a placement, such as "round_robin".
 *
 * Local, any thread.
 *
 * @param placement any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_placement_name(wharf_placement placement);

WHARF_END_DECLS

#endif
