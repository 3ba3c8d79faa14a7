/* SPDX-License-Identifier: MIT */
/* Where a mapping lies: one address range, the same on every rank if asked. */
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "core/core.h"
#include "core/mapping.h"

/*
 * First addresses drawn from a window that system and driver leave alone: well
 * above the heap, well below where libraries and anonymous memory go. What the
 * system chooses in one process lies among the libraries of the others, whose
 * places differ by randomisation, so such addresses are tried last; a sanitizer
 * may allow no others.
 */
#define WINDOW_TRIES 4
#define PROPOSALS 8
#define WINDOW_BASE (UINT64_C(0x60) << 40)
#define WINDOW_BYTES (UINT64_C(0x10) << 40)
#define WINDOW_STEP (UINT64_C(1) << 30)

static wharf_status reserve_here(wi_mapping *mapping, void *wish)
{
    wharf_node *node = mapping->node;
    return mapping->way->ops->reserve(node->device, wish, mapping->layout.bytes,
                                      &mapping->range);
}

/* A multiple of WINDOW_STEP, different at every call. */
static void *window_address(size_t bytes)
{
    static uint64_t count;
    uint64_t steps = WINDOW_BYTES / WINDOW_STEP;
    uint64_t needed = bytes / WINDOW_STEP + 1;
    if (needed >= steps)
        return NULL;
    uint64_t drawn = wi_mix(__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
    uint64_t step = wi_mix((uint64_t)wi_now_ns() ^ drawn) % (steps - needed);
    return (void *)(uintptr_t)(WINDOW_BASE + step * WINDOW_STEP);
}

static void unreserve(wi_mapping *mapping)
{
    if (mapping->range.base)
        mapping->way->ops->unreserve(mapping->node->device, &mapping->range);
    mapping->range = (wi_range){0};
}

/* Collective. *taken: every rank has the proposer's address; else *refused is
 * the lowest rank that could not take it, and nothing is reserved. */
static wharf_status propose(wi_mapping *mapping, int turn, wi_deadline deadline,
                            bool *taken, int *refused)
{
    wharf_node *node = mapping->node;
    int proposer = turn % node->size;
    uint64_t base = 0;
    void *wish =
        turn < WINDOW_TRIES ? window_address(mapping->layout.bytes) : NULL;
    if (node->rank == proposer && reserve_here(mapping, wish) == WHARF_OK)
        base = (uintptr_t)mapping->range.base;
    wharf_status status =
        wi_comm_bcast(node->comm, proposer, &base, sizeof base, deadline);
    if (status != WHARF_OK)
        return status;
    if (base && node->rank != proposer)
        wharf_ignore(reserve_here(mapping, (void *)(uintptr_t)base));

    uint32_t mine = mapping->range.base != NULL;
    uint32_t all[WHARF_MAX_RANKS];
    status = wi_comm_allgather(node->comm, &mine, sizeof mine, all, deadline);
    if (status != WHARF_OK)
        return status;
    *taken = true;
    for (int r = node->size - 1; r >= 0; r--)
        if (!all[r]) {
            *taken = false;
            *refused = r;
        }
    if (!*taken)
        unreserve(mapping);
    return WHARF_OK;
}

static wharf_status reserve_same(wi_mapping *mapping, wi_deadline deadline)
{
    int refused = -1;
    for (int i = 0; i < PROPOSALS; i++) {
        bool taken = false;
        wharf_status status = propose(mapping, i, deadline, &taken, &refused);
        if (status != WHARF_OK)
            return status;
        if (taken) {
            mapping->same_address = true;
            return WHARF_OK;
        }
    }
    if (!(mapping->flags & WHARF_BUFFER_SAME_ADDRESS_REQUIRED))
        return WHARF_OK;
    wi_fail(
        WHARF_EUNSUPPORTED,
        "attach it before other large allocations, or ask for SAME_ADDRESS",
        "SAME_ADDRESS_REQUIRED: rank %d has no free range of %zu bytes where "
        "the others have one",
        refused, mapping->layout.bytes);
    return wi_error_about(refused);
}

wharf_status wi_mapping_reserve(wi_mapping *mapping, wi_deadline deadline)
{
    if (mapping->layout.bytes == 0) {
        mapping->same_address = true; /* nothing that could differ */
        return WHARF_OK;
    }
    wharf_status status = WHARF_OK;
    if (mapping->way->ops->ranges &&
        (mapping->flags &
         (WHARF_BUFFER_SAME_ADDRESS | WHARF_BUFFER_SAME_ADDRESS_REQUIRED))) {
        status = reserve_same(mapping, deadline);
        if (status != WHARF_OK || mapping->same_address)
            return status;
    }
    status = reserve_here(mapping, NULL);
    return wi_comm_agree(mapping->node->comm, status, deadline);
}
