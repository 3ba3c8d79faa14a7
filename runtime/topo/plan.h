/* SPDX-License-Identifier: MIT */
/*
 * The planner: facts in, plan out, nothing else read or kept. The public
 * wharf_plan_make (offline.c) and the node's wi_topo_plan_node (live.c) differ
 * only in where the facts come from.
 */
#ifndef WI_TOPO_PLAN_H
#define WI_TOPO_PLAN_H

#include "topo/model.h"

/* What a rank brings. */
typedef struct wi_plan_rank {
    uint64_t cpus[WI_TOPO_CPU_WORDS];
    bool bound;
    uint64_t visible; /* bit g: GPU g of the input */
    bool cut;         /* its list of visible GPUs has a bad entry */
    char token[32];   /* that entry, as far as known */
    bool partial;     /* its binding names CPUs that are not here */
} wi_plan_rank;

typedef struct wi_plan_input {
    const wharf_topo *topo;
    int ranks;
    const wi_plan_rank *rank;
    int gpus;
    const wi_topo_gpu *gpu;
    const int32_t *links;
    const uint32_t *traffic;
    wharf_placement placement;
    const char *device_map;
    bool refuse_bad;
    int hosted; /* ranks that the launcher started on this host, as far as
                   known */
} wi_plan_input;

/* A plan with what the planner alone needs beside it. */
typedef struct wi_plan {
    wharf_plan made; /* first: wharf_plan_free casts back */
    wharf_plan_line *line;
    wharf_plan_warning *warning;
    int room; /* warnings allocated */
    const wi_plan_input *in;
    int32_t *distance; /* ranks x gpus, -1 unknown */
    int32_t *cost;     /* ranks x gpus, -1 not allowed */
    int *gpu_of;
    int *map; /* GPU that the map gives each rank, or NULL */
} wi_plan;

wharf_status wi_plan_make(const wi_plan_input *input, wharf_plan **plan);
void wi_plan_release(wharf_plan *plan);

/* The steps of wi_plan_make, in order. */
wharf_status wi_plan_policy(wi_plan *plan);   /* policy.c: fills gpu_of */
void wi_plan_explain(wi_plan *plan);          /* explain.c: fills the lines */
wharf_status wi_plan_warn(wi_plan *plan);     /* warn.c: fills the warnings */
uint64_t wi_plan_digest(const wi_plan *plan); /* explain.c */

/* Is this rank's GPU not the planner's choice: map, or one visible? */
bool wi_plan_forced(const wi_plan *plan, int rank);

/* local, same socket or remote, by where the rank's CPUs are. */
wharf_reason wi_plan_locality(const wi_plan *plan, int rank, int gpu);

/* Least known distance of a rank to a GPU that it sees, -1: none known. */
int wi_plan_nearest(const wi_plan *plan, int rank, int *gpu);

/* ---- Names of devices (map.c) ------------------------------------------- */

/*
 * Which device a token means: index in the array's order, UUID or a unique
 * start of one ("GPU-" and "MIG-" included), PCI id (unless several devices
 * have it). WHARF_EARG with a cause that says why not; quiet for none.
 */
wharf_status wi_device_find(const wi_topo_gpu *gpu, int gpus, const char *token,
                            size_t length, int *index);

/* Reads an explicit map into an array of `ranks`. Text "" or NULL is refused:
 * ask first. */
wharf_status wi_map_parse(const wi_topo_gpu *gpu, int gpus, const char *text,
                          int ranks, int *map);

/* Reads the lists of visible GPUs into rank[].visible and .cut. */
wharf_status wi_visible_parse(const wi_topo_gpu *gpu, int gpus,
                              const char *text, int ranks, wi_plan_rank *rank);

/* Entries of a list separated by `separator`; "" has one, empty. */
int wi_entries_count(const char *text, char separator);

/* Gives the locality of the machine's GPU with the same PCI id to a driver's
 * device; leaves it unknown where the machine has none. */
void wi_device_locate(const wharf_topo *topo, const char *pci, const char *uuid,
                      bool mig, wi_topo_gpu *gpu);

#endif
