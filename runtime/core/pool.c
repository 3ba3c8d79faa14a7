/* SPDX-License-Identifier: MIT */
/*
 * Detached mappings kept for the next attach of the same shape. The pool is
 * replicated: every rank puts, takes and evicts the same mappings in the same
 * collective calls, so a hit needs no exchange.
 */
#include <string.h>

#include "base/stat.h"
#include "core/core.h"

static bool same_shape(const wi_mapping *mapping, const wi_attach *attach)
{
    /* ZERO is done anew at each attach; it is no part of the shape. */
    unsigned shape = ~WHARF_BUFFER_ZERO;
    return mapping->space == attach->space &&
           (mapping->flags & shape) == (attach->flags & shape) &&
           memcmp(mapping->sizes, attach->sizes,
                  (size_t)mapping->node->size * sizeof *mapping->sizes) == 0;
}

wi_mapping *wi_pool_take(wharf_node *node, const wi_attach *attach)
{
    for (wi_mapping **at = &node->pool; *at; at = &(*at)->next) {
        wi_mapping *mapping = *at;
        if (!same_shape(mapping, attach))
            continue;
        *at = mapping->next;
        mapping->next = NULL;
        mapping->flags = attach->flags;
        wi_stat_add(WI_STAT_pooled_bytes, -(int64_t)mapping->most_bytes);
        return mapping;
    }
    return NULL;
}

/* Unlinks what exceeds the bound, the oldest first; returns how many. */
static int evict(wharf_node *node, uint64_t bound, wi_mapping **out, int most)
{
    uint64_t kept = 0;
    int evicted = 0;
    wi_mapping **at = &node->pool;
    while (*at) {
        wi_mapping *mapping = *at;
        if (mapping->most_bytes <= bound - kept) {
            kept += mapping->most_bytes;
            at = &mapping->next;
            continue;
        }
        if (evicted == most)
            break;
        *at = mapping->next;
        mapping->next = NULL;
        wi_stat_add(WI_STAT_pooled_bytes, -(int64_t)mapping->most_bytes);
        out[evicted++] = mapping;
    }
    return evicted;
}

static wharf_status shrink(wharf_node *node, uint64_t bound,
                           wi_deadline deadline)
{
    wi_mapping *out[32];
    for (;;) {
        int n = evict(node, bound, out, 32);
        if (n == 0)
            return WHARF_OK;
        wharf_status status = wi_mapping_free(node, n, out, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

wharf_status wi_pool_put(wharf_node *node, wi_mapping *mapping,
                         wi_deadline deadline)
{
    mapping->next = node->pool;
    node->pool = mapping;
    for (int r = 0; r < node->size; r++)
        wi_event_deactivate(&mapping->events[r]);
    wi_stat_add(WI_STAT_pooled_bytes, (int64_t)mapping->most_bytes);
    return shrink(node, (uint64_t)node->settings.pool_bytes, deadline);
}

wharf_status wi_pool_empty(wharf_node *node, wi_deadline deadline)
{
    /* A bound of 0 would let empty mappings stay: take them all. */
    while (node->pool) {
        wi_mapping *mapping = node->pool;
        node->pool = mapping->next;
        wi_stat_add(WI_STAT_pooled_bytes, -(int64_t)mapping->most_bytes);
        wharf_status status = wi_mapping_free(node, 1, &mapping, deadline);
        if (status != WHARF_OK && status != WHARF_ETIMEDOUT)
            return status;
    }
    return WHARF_OK;
}
