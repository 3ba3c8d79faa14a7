/* SPDX-License-Identifier: MIT */
/*
 * The life of a mapping: made by all ranks together, freed by all together.
 * How its blocks are shared is in mapping_share.c, where it lies in
 * mapping_range.c.
 */
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/core.h"
#include "core/existing.h"
#include "core/mapping.h"
#include "core/visit.h"

void wi_mapping_delete(wi_mapping *mapping)
{
    if (!mapping)
        return;
    wi_visit_keep_drop(mapping);
    if (mapping->events)
        for (int r = 0; r < mapping->node->size; r++)
            wi_handle_remove(&mapping->events[r]);
    wi_layout_free(&mapping->layout);
    wi_free(mapping->sizes);
    wi_free(mapping->block);
    wi_free(mapping->handle);
    wi_free(mapping->pointer);
    wi_free(mapping->nonce);
    wi_free(mapping->events);
    wi_existing_delete(mapping->existing);
    wi_free(mapping);
}

void *wi_mapping_segment(const wi_mapping *mapping, int rank)
{
    int b = mapping->layout.block_of_rank[rank];
    if (b < 0)
        return NULL;
    size_t within =
        mapping->layout.offset_of_rank[rank] - mapping->layout.block[b].offset;
    return (char *)mapping->pointer[b] + within;
}

static wharf_status mapping_lay_out(wi_mapping *mapping)
{
    wharf_node *node = mapping->node;
    int owners[WHARF_MAX_GPUS] = {0};
    bool on_host = mapping->way->ops->space == WHARF_SPACE_HOST;
    for (int g = 0; g < node->gpus && !on_host; g++)
        owners[g] = node->gpu[g].owner;
    /* Host space: the owner's page-locking is the first touch, and puts the
     * pages on its NUMA node: that of whoever has most of them. */
    for (int r = 1; r < node->size && mapping->space == WHARF_SPACE_HOST; r++)
        if (mapping->sizes[r] > mapping->sizes[owners[0]])
            owners[0] = r;

    wi_layout_request request = {
        .ranks = node->size,
        .sizes = mapping->sizes,
        .places = on_host ? 1 : node->gpus,
        .place_of_rank = on_host ? NULL : node->gpu_of_rank,
        .owner_of_place = owners,
        .granularity = mapping->way->granularity,
        .contiguous = mapping->flags & WHARF_BUFFER_CONTIGUOUS,
        .block_each = mapping->flags & WHARF_BUFFER_READ_ONLY,
    };
    wharf_status status = wi_layout_make(&request, &mapping->layout);
    if (status != WHARF_OK)
        return status;

    uint64_t place_bytes[WHARF_MAX_GPUS] = {0};
    for (int b = 0; b < mapping->layout.blocks; b++) {
        const wi_layout_block *block = &mapping->layout.block[b];
        place_bytes[block->place] += block->bytes;
        if (place_bytes[block->place] > mapping->most_bytes)
            mapping->most_bytes = place_bytes[block->place];
    }
    return WHARF_OK;
}

static wharf_status mapping_new(wharf_node *node, const wi_way *way,
                                const wi_attach *attach, wi_mapping **out)
{
    wi_mapping *mapping;
    if (!WI_NEW(mapping))
        return WHARF_ENOMEM;
    mapping->node = node;
    mapping->way = way;
    mapping->space = attach->space;
    mapping->flags = attach->flags;
    mapping->first_slot = -1;
    memcpy(mapping->reason, way->reason, sizeof mapping->reason);
    wi_host_describe(mapping);

    size_t ranks = (size_t)node->size;
    wharf_status status = WHARF_ENOMEM;
    mapping->sizes = wi_calloc(ranks, sizeof *mapping->sizes);
    mapping->events = wi_calloc(ranks, sizeof *mapping->events);
    if (!mapping->sizes || !mapping->events)
        goto fail;
    memcpy(mapping->sizes, attach->sizes, ranks * sizeof *mapping->sizes);
    for (int r = 0; r < node->size; r++) {
        status = wi_handle_add(&mapping->events[r], WI_HANDLE_EVENT);
        if (status != WHARF_OK)
            goto fail;
    }
    status = mapping_lay_out(mapping);
    if (status != WHARF_OK)
        goto fail;

    size_t blocks = (size_t)mapping->layout.blocks;
    status = WHARF_ENOMEM;
    mapping->block = wi_calloc(blocks, sizeof(wi_block *));
    mapping->handle = wi_calloc(blocks, sizeof *mapping->handle);
    mapping->pointer = wi_calloc(blocks, sizeof *mapping->pointer);
    mapping->nonce = wi_calloc(blocks, sizeof *mapping->nonce);
    if (!mapping->block || !mapping->handle || !mapping->pointer ||
        !mapping->nonce)
        goto fail;
    *out = mapping;
    return WHARF_OK;

fail:
    wi_mapping_delete(mapping);
    return status;
}

/* The slots are replicated state: taken only once every rank has its mapping
 * object, so that no rank takes them alone. */
wharf_status wi_mapping_take_events(wi_mapping *mapping)
{
    wharf_node *node = mapping->node;
    if (mapping->flags & WI_MAPPING_NO_EVENTS)
        return WHARF_OK;
    wharf_status status =
        wi_event_slots_take(node, node->size, &mapping->first_slot);
    if (status != WHARF_OK)
        return status;
    for (int r = 0; r < node->size; r++)
        wi_event_init(&mapping->events[r], node, r, mapping->first_slot + r);
    return WHARF_OK;
}

/* Legacy handles have no common range; every rank finds the same. */
static wharf_status check_range_wishes(const wi_mapping *mapping)
{
    if (mapping->way->ops->ranges)
        return WHARF_OK;
    const char *remedy = "use a driver with virtual memory management, or "
                         "leave the flag out";
    if ((mapping->flags & WHARF_BUFFER_CONTIGUOUS) &&
        mapping->layout.blocks > 1)
        return wi_fail(WHARF_EUNSUPPORTED, remedy,
                       "CONTIGUOUS: legacy handles cannot be mapped side by "
                       "side");
    if (mapping->flags & WHARF_BUFFER_SAME_ADDRESS_REQUIRED)
        return wi_fail(WHARF_EUNSUPPORTED, remedy,
                       "SAME_ADDRESS_REQUIRED: the driver chooses the address "
                       "of a legacy handle");
    return WHARF_OK;
}

wharf_status wi_mapping_zero(wi_mapping *mapping)
{
    wharf_node *node = mapping->node;
    for (int b = 0; b < mapping->layout.blocks; b++) {
        const wi_layout_block *block = &mapping->layout.block[b];
        if (block->owner != node->rank)
            continue;
        /* The owner's own mapping is read-only where the segment is another
         * rank's: open it for the moment of the fill. */
        bool closed = wi_mapping_write_protected(mapping, b);
        wharf_status status = WHARF_OK;
        if (closed)
            status = mapping->way->ops->protect(node->device, mapping->block[b],
                                                WI_ACCESS_READ_WRITE);
        if (status != WHARF_OK)
            return status;
        status = node->device->ops->fill_zero(node->device, mapping->pointer[b],
                                              block->bytes);
        /* Closed again in any case: the mapping may go back to the pool. */
        wharf_status shut =
            closed ? mapping->way->ops->protect(node->device, mapping->block[b],
                                                WI_ACCESS_READ)
                   : WHARF_OK;
        if (status == WHARF_OK)
            status = shut;
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}

/* One try with one way. *other_way: the failure is one of the way, so another
 * one may do. */
static wharf_status make_once(wharf_node *node, const wi_way *way, int count,
                              const wi_attach *attach, wi_mapping **mappings,
                              wi_deadline deadline, bool *other_way)
{
    *other_way = false;
    wharf_status status = WHARF_OK;
    int64_t began = wi_now_ns();
    for (int i = 0; i < count && status == WHARF_OK; i++)
        status = mapping_new(node, way, &attach[i], &mappings[i]);
    status = wi_comm_agree(node->comm, status, deadline);
    for (int i = 0; i < count && status == WHARF_OK; i++) {
        status = wi_decided_alike(wi_mapping_take_events(mappings[i]));
        if (status == WHARF_OK)
            status = wi_decided_alike(check_range_wishes(mappings[i]));
    }
    int64_t objects = wi_now_ns();
    for (int i = 0; i < count && status == WHARF_OK; i++)
        status = wi_mapping_reserve(mappings[i], deadline);
    wi_log(WI_LOG_DEBUG, "%d mappings in us: objects %lld, addresses %lld",
           count, (long long)(objects - began) / 1000,
           (long long)(wi_now_ns() - objects) / 1000);
    if (status == WHARF_OK) {
        status = wi_mapping_share(node, count, mappings, deadline);
        *other_way = status == WHARF_EUNSUPPORTED || status == WHARF_EDATA;
    }
    if (status == WHARF_OK)
        return WHARF_OK;

    wharf_error cause = *wi_error_record();
    wharf_status undone = wi_mapping_free(node, count, mappings, deadline);
    if (wharf_status_scope(undone) == WHARF_SCOPE_NODE)
        return undone;
    *wi_error_record() = cause;
    return status;
}

static wharf_status refuse_degraded(const wi_way *way)
{
    return wi_fail(WHARF_EDEGRADED,
                   "mend the cause, or leave strict mode (WHARF_STRICT=0)",
                   "device memory would be replaced by %s: %s",
                   wharf_handle_kind_name(way->ops->kind), way->reason);
}

static wharf_status no_way(const char *space, const char *reason)
{
    return wi_fail(WHARF_EUNSUPPORTED, "see wharf-info for what is possible",
                   "memory of %s cannot be shared: %s", space, reason);
}

static void note_next_way(wharf_node *node, int next)
{
    wi_way *way = &node->device_way[next];
    char text[512];
    wharf_error_format(wi_error_record(), text, sizeof text);
    snprintf(way->reason, sizeof way->reason, "%.95s",
             wi_error_record()->cause);
    node->device_first = next;
    if (node->rank == 0)
        wi_log(WI_LOG_WARN, "trying %s handles from here on: %s",
               wharf_handle_kind_name(way->ops->kind), text);
}

static wharf_status make_any_way(wharf_node *node, int count,
                                 const wi_attach *attach, wi_mapping **mappings,
                                 wi_deadline deadline)
{
    bool other_way;
    if (attach[0].space == WHARF_SPACE_HOST && !node->host_way.ops)
        return wi_decided_alike(no_way("host space", node->host_way.reason));
    if (attach[0].space == WHARF_SPACE_HOST) {
        const wi_way *way;
        wharf_status status = wi_host_way(node, count, attach, &way, deadline);
        if (status != WHARF_OK)
            return status;
        return make_once(node, way, count, attach, mappings, deadline,
                         &other_way);
    }
    if (node->device_ways == 0)
        return wi_decided_alike(no_way("device space", node->host_way.reason));
    wharf_status status = WHARF_OK;
    for (int w = node->device_first; w < node->device_ways; w++) {
        const wi_way *way = &node->device_way[w];
        if (way->degraded && node->settings.strict)
            return wi_decided_alike(refuse_degraded(way));
        status =
            make_once(node, way, count, attach, mappings, deadline, &other_way);
        if (status == WHARF_OK && way->degraded)
            wi_stat_add(WI_STAT_degraded_count, count);
        if (!other_way || w + 1 == node->device_ways)
            return status;
        note_next_way(node, w + 1);
    }
    return status;
}

wharf_status wi_mapping_make(wharf_node *node, int count,
                             const wi_attach *attach, wi_mapping **mappings,
                             wi_deadline deadline)
{
    /* One call may mix spaces; each run of one space is made in one exchange,
     * and all is undone if a later run fails. */
    int done = 0;
    while (done < count) {
        int run = 1;
        while (done + run < count &&
               attach[done + run].space == attach[done].space)
            run++;
        wharf_status status =
            make_any_way(node, run, attach + done, mappings + done, deadline);
        if (status != WHARF_OK) {
            wharf_error cause = *wi_error_record();
            wharf_ignore(wi_mapping_free(node, done, mappings, deadline));
            *wi_error_record() = cause;
            return status;
        }
        done += run;
    }
    return WHARF_OK;
}

static void close_imports(wi_mapping *mapping)
{
    wharf_node *node = mapping->node;
    /* Before the agreement: a descriptor holds its memory, and the next attach
     * may need that. */
    wi_visit_keep_drop(mapping);
    if (mapping->existing)
        wi_existing_close_imports(mapping);
    for (int b = 0; !mapping->existing && b < mapping->layout.blocks; b++)
        if (mapping->layout.block[b].owner != node->rank) {
            mapping->way->ops->destroy(node->device, mapping->block[b]);
            mapping->block[b] = NULL;
        }
    if (mapping->first_slot >= 0)
        for (int r = 0; r < node->size; r++)
            wi_event_close_import(&mapping->events[r]);
}

/*
 * `safe`: every rank has closed its imports. If not, a silent rank may still
 * use the memory. Descriptors hold their memory until the last user is gone,
 * so only the owner's reference goes; a legacy handle's memory would be pulled
 * from under the other rank, so it stays, counted, until the process ends.
 */
static void free_owned(wi_mapping *mapping, bool safe)
{
    wharf_node *node = mapping->node;
    if (mapping->existing)
        wi_existing_free_owned(mapping);
    for (int b = 0; b < mapping->layout.blocks; b++) {
        if (!mapping->block[b])
            continue;
        if (safe || mapping->way->ops->kind != WHARF_HANDLE_IPC) {
            mapping->way->ops->destroy(node->device, mapping->block[b]);
        } else {
            node->device->ops->keep(node->device);
            wi_stat_add(WI_STAT_kept_bytes,
                        (int64_t)mapping->layout.block[b].bytes);
            wi_log(WI_LOG_WARN,
                   "%zu bytes of GPU memory are kept: a rank that did not "
                   "come may still use them",
                   mapping->layout.block[b].bytes);
        }
        mapping->block[b] = NULL;
    }
    if (mapping->first_slot >= 0) {
        for (int r = 0; r < node->size; r++)
            wi_event_fini(&mapping->events[r], safe);
        wi_event_slots_give(node, mapping->first_slot, node->size);
    }
    if (mapping->range.base)
        mapping->way->ops->unreserve(node->device, &mapping->range);
}

wharf_status wi_mapping_free(wharf_node *node, int count, wi_mapping **mappings,
                             wi_deadline deadline)
{
    for (int i = 0; i < count; i++)
        if (mappings[i])
            close_imports(mappings[i]);
    wharf_status status = wi_node_let_go(node, deadline);
    for (int i = 0; i < count; i++) {
        if (!mappings[i])
            continue;
        free_owned(mappings[i], wi_all_came(status));
        wi_mapping_delete(mappings[i]);
        mappings[i] = NULL;
    }
    return status;
}
