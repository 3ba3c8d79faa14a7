/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of placement, free of everything else: ranks x GPUs with a
 * cost for each pair. assign.c finds the exact minimum of what can be summed
 * up; refine.c then improves what depends on pairs of ranks, without giving
 * any of that up.
 */
#ifndef WI_TOPO_ASSIGN_H
#define WI_TOPO_ASSIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "wharf/status.h"

/* GPUs are spread over these, if ranks are few: sockets, then NUMA nodes, then
 * the chips of MIG instances. */
#define WI_ASSIGN_LEVELS 3

/* How much even loads count. */
typedef enum wi_assign_balance {
    WI_ASSIGN_EVEN, /* before cost: as even as can be, +-1 if all is allowed */
    WI_ASSIGN_LAST  /* after cost */
} wi_assign_balance;

typedef struct wi_assign {
    int ranks;           /* at most WHARF_MAX_RANKS */
    int gpus;            /* at most WHARF_MAX_GPUS */
    const int32_t *cost; /* ranks x gpus, 0..WI_TOPO_FAR; -1: not allowed */
    wi_assign_balance balance;
    /* level[l][g]: the group that GPU g is in, named by the lowest GPU in it.
     * Level 0 holds the largest groups; those of a level are parts of those
     * of the level before. */
    const int *level[WI_ASSIGN_LEVELS];
    const int32_t *links;    /* gpus x gpus as in wi_topo_ask, or NULL */
    const uint32_t *traffic; /* ranks x ranks, or NULL: neighbours */
} wi_assign;

/*
 * gpu_of[r]: the GPU of rank r, -1 where none is allowed. The exact minimum of,
 * in this order under WI_ASSIGN_EVEN:
 *   unevenness: the sum over GPUs of load * (load + 1) / 2,
 *   cost: the sum over ranks,
 *   unevenness of the groups, from the smallest groups up,
 *   the sum of GPU indices.
 * WI_ASSIGN_LAST exchanges the first two. Ranks with equal rows of costs have
 * their GPUs in rank order.
 */
wharf_status wi_assign_solve(const wi_assign *problem, int *gpu_of);

/*
 * Moves and swaps ranks as long as that brings neighbours (or ranks with much
 * traffic) together, keeping unevenness and cost exactly; then for spread,
 * then for low indices at low ranks.
 */
wharf_status wi_assign_refine(const wi_assign *problem, int *gpu_of);

#endif
