/* SPDX-License-Identifier: MIT */
/*
 * The GPUs of a node: what every rank sees of them, and how they reach one
 * another. Taken once, at open; the plan is made from it.
 */
#ifndef WI_CORE_CENSUS_H
#define WI_CORE_CENSUS_H

#include "core/core.h"

/* What one rank brings. */
typedef struct wi_sighting {
    int32_t status;
    int32_t count;   /* devices that it may use */
    int32_t dropped; /* seen as well, in compute mode "prohibited" */
} wi_sighting;

/* All devices of the node, in PCI order (MIG instances of one GPU by UUID). */
typedef struct wi_census {
    int count;
    wi_device_desc device[WHARF_MAX_GPUS];
    int ordinal[WHARF_MAX_GPUS]; /* in the calling process, -1: unseen */
    wi_topo_rank *rank;          /* node size of them */
    wi_peer *link;               /* count * count: row reaches column */
} wi_census;

/* What this process sees and may use; devices has room for WHARF_MAX_GPUS. A
 * failure is in the sighting, for the others to see. */
void wi_census_look(wi_device_desc *devices, wi_sighting *sighting);

/* Collective: from what each rank sees to what the node has. `most` is the
 * largest count of any rank. A census that failed is given back all the same.
 */
wharf_status wi_census_take(wharf_node *node, wi_census *census,
                            const wi_device_desc *mine,
                            const wi_sighting *sightings, int most,
                            wi_deadline deadline);
void wi_census_free(wi_census *census);

/* Collective: plans, and fills lines, warnings, gpu, gpu_of_rank, peers. */
wharf_status wi_node_plan(wharf_node *node, const wi_census *census,
                          wi_deadline deadline);

/* Collective, under the setting `bind`: binds ranks that came unbound near
 * their GPUs. A rank that cannot be bound is a warning. */
wharf_status wi_node_bind(wharf_node *node, const wi_census *census,
                          wi_deadline deadline);

/* WHARF_EPROTOCOL, naming the first rank whose plan is not that of rank 0. */
wharf_status wi_digests_compare(const uint64_t *digests, int size);

#endif
