/* SPDX-License-Identifier: MIT */
/* Counters: what Wharf holds in this process, and what it did. */
#ifndef WHARF_STATS_H
#define WHARF_STATS_H

#include <stdio.h>

#include "wharf/base.h"
#include "wharf/status.h"

/*
 * Every counter: name, meaning. "live_" counters and pooled_bytes go up and
 * down, and are 0 when every node is closed; only a communicator that could not
 * be freed, since a rank had died or stayed away, remains in
 * live_communicators. (The duplicate that goes with a communicator of the
 * program is not counted.) The others only grow.
 */
#define WHARF_STATS_LIST(X)                                                    \
    X(live_nodes, "open nodes")                                                \
    X(live_buffers, "attached buffers")                                        \
    X(live_events, "events, those of buffers included")                        \
    X(live_notifies, "notifies")                                               \
    X(live_barriers, "stream barriers")                                        \
    X(live_exchanges, "neighbour exchanges")                                   \
    X(live_rings, "rings")                                                     \
    X(live_published, "buffers published for programs outside the job")        \
    X(live_joined, "published buffers joined")                                 \
    X(live_communicators, "MPI communicators made by Wharf and not freed")     \
    X(live_descriptors, "file descriptors held")                               \
    X(live_host_allocations, "blocks of host memory on the heap")              \
    X(live_host_map_bytes, "bytes of shared host memory mapped")               \
    X(live_ranges, "reserved address ranges")                                  \
    X(live_blocks_owned, "blocks allocated here for a GPU's ranks")            \
    X(live_blocks_imported, "blocks of other ranks mapped here")               \
    X(live_device_bytes_owned, "device bytes allocated here")                  \
    X(live_device_bytes_imported, "device bytes of other ranks mapped here")   \
    X(live_driver_events, "CUDA events created or opened")                     \
    X(live_contexts, "CUDA primary contexts retained")                         \
    X(pooled_bytes, "bytes of detached blocks kept mapped for reuse")          \
    X(kept_bytes, "bytes kept because a dead or silent rank may use them")     \
    X(attaches_count, "buffers attached since start")                          \
    X(pool_hits_count, "attaches served by kept mappings since start")         \
    X(agreements_count, "agreements between the ranks of a node since start")  \
    X(degraded_count, "attaches that took a slower path since start")          \
    X(live_workers, "worker processes watched over")                           \
    X(worker_starts_count, "worker processes started since start")             \
    X(worker_deaths_count, "worker processes that died since start")           \
    X(worker_messages_count, "messages to and from workers since start")

/* One field a counter, in the order of the list. Start from WHARF_STATS_INIT.
 */
typedef struct wharf_stats {
    size_t struct_size;
#define WHARF_STATS_FIELD(name, text) int64_t name;
    WHARF_STATS_LIST(WHARF_STATS_FIELD)
#undef WHARF_STATS_FIELD
} wharf_stats;

#define WHARF_STATS_ZERO(name, text) 0,
#define WHARF_STATS_INIT                                                       \
    {                                                                          \
        sizeof(wharf_stats), WHARF_STATS_LIST(WHARF_STATS_ZERO)                \
    }

WHARF_BEGIN_DECLS

/**
 * Reads all counters of the calling process.
 *
 * Local, any thread. Needs neither MPI nor an open node.
 *
 * @param[in,out] stats started from WHARF_STATS_INIT, filled
 * @return WHARF_OK; WHARF_EARG
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_stats_get(wharf_stats *stats);

/**
 * Prints all counters, one a line: value, name, meaning.
 *
 * Local, any thread. Needs neither MPI nor an open node.
 *
 * @param file where to print
 * @return WHARF_OK; WHARF_EARG; WHARF_EOS (writing failed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_stats_print(FILE *file);

WHARF_END_DECLS

#endif
