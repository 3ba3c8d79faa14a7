/* SPDX-License-Identifier: MIT */
/*
 * Where host memory lies: NUMA nodes and page sizes, as the system gives them.
 * The same for both backends.
 */
#ifndef WI_DEVICE_NUMA_H
#define WI_DEVICE_NUMA_H

#include <stddef.h>

#include "wharf/status.h"

struct wi_block;

#define WI_NUMA_INTERLEAVED (-1)

typedef struct wi_numa_ops {
    /* The node that the calling thread runs on. */
    int (*here)(void);

    /* Owner of a block of WHARF_HANDLE_MEMFD, between create and map: the pages
     * of this part, rounded inwards to whole ones, come from a node, or from
     * all that the process may use in turn. Bound as a wish: a node that is
     * full is no failure. */
    wharf_status (*place)(struct wi_block *block, size_t offset, size_t bytes,
                          int node);

    /* Owner of such a block, then: wherever it is mapped, in large pages if the
     * system gives any. Says what it gives; with NULL only that. 0: none. */
    int (*enlarge)(struct wi_block *block, char reason[96]);
} wi_numa_ops;

extern const wi_numa_ops wi_numa_system;

#endif
