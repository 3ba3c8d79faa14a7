/* SPDX-License-Identifier: MIT */
/* wharf_buffer_attach, attach_many, detach, and the pool's public call. */
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/versioned.h"
#include "core/core.h"
#include "core/publish.h"
#include "core/signal.h"
#include "core/visit.h"

#define ATTACH_MOST 64

#define FLAGS_KNOWN                                                            \
    (WHARF_BUFFER_CONTIGUOUS | WHARF_BUFFER_SAME_ADDRESS |                     \
     WHARF_BUFFER_SAME_ADDRESS_REQUIRED | WHARF_BUFFER_ZERO |                  \
     WHARF_BUFFER_READ_ONLY | FLAGS_HOST)

#define FLAGS_HOST                                                             \
    (WHARF_BUFFER_NUMA_LOCAL | WHARF_BUFFER_INTERLEAVE |                       \
     WHARF_BUFFER_HUGE_PAGES | WHARF_BUFFER_WRITE_COMBINED)

/* Everything that one attach needs before the ranks meet, so that afterwards
 * no rank can fail alone. */
typedef struct attaching {
    wharf_node *node;
    int count;
    wharf_buffer *made[ATTACH_MOST];
    wi_mapping *pooled[ATTACH_MOST]; /* from the pool, else NULL */
    wi_mapping *fresh[ATTACH_MOST];  /* the others, close together */
    wi_attach attach[ATTACH_MOST];
    wi_attach wanted[ATTACH_MOST]; /* of the fresh ones */
    int missing;
    wi_meeting *meetings; /* node size of them */
} attaching;

/* ---- Checks of this rank's own arguments --------------------------------- */

static wharf_status check_host_flags(const wharf_buffer_options *options)
{
    unsigned flags = options->flags & FLAGS_HOST;
    unsigned both = WHARF_BUFFER_NUMA_LOCAL | WHARF_BUFFER_INTERLEAVE;
    if (flags && options->space != WHARF_SPACE_HOST)
        return wi_fail(WHARF_EARG, "leave them out, or set space to host",
                       "options.flags 0x%x are for host space", flags);
    if ((flags & both) == both)
        return wi_fail(WHARF_EARG, "pass one of them",
                       "NUMA_LOCAL and INTERLEAVE contradict each other");
    if (flags & WHARF_BUFFER_WRITE_COMBINED)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "leave the flag out, or write to device memory through "
                       "copies",
                       "WRITE_COMBINED: the driver makes such memory for one "
                       "process alone (cuMemHostAlloc), and neither a memfd "
                       "nor its shareable host memory can be so");
    return WHARF_OK;
}

wharf_status wi_buffer_check_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    if (length <= WHARF_MAX_BUFFER_NAME)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "use a name of at most 31 bytes",
                   "options.name has %zu bytes", length);
}

static wharf_status check_options(const wharf_buffer_options *options)
{
    if (options->flags & ~FLAGS_KNOWN)
        return wi_fail(WHARF_EARG, "use the WHARF_BUFFER_ flags only",
                       "options.flags has unknown bits 0x%x",
                       options->flags & ~FLAGS_KNOWN);
    if (options->space != WHARF_SPACE_DEVICE &&
        options->space != WHARF_SPACE_HOST)
        return wi_fail(WHARF_EARG, "use WHARF_SPACE_DEVICE or WHARF_SPACE_HOST",
                       "options.space is %d", (int)options->space);
    wharf_status status = wi_buffer_check_name(options->name);
    return status == WHARF_OK ? check_host_flags(options) : status;
}

/* The caller's options in this library's shape. Elements of the caller's array
 * are as far apart as their struct_size says. */
static wharf_status read_options(int count, const wharf_buffer_options *options,
                                 wharf_buffer_options *known)
{
    static const wharf_buffer_options preset = WHARF_BUFFER_OPTIONS_INIT;
    const char *at = (const char *)options;
    for (int i = 0; i < count; i++) {
        known[i] = preset;
        if (!options)
            continue;
        wharf_status status =
            wi_versioned_read(&known[i], sizeof preset, at, "options");
        if (status == WHARF_OK)
            status = check_options(&known[i]);
        if (status != WHARF_OK)
            return status;
        at += ((const wharf_buffer_options *)at)->struct_size;
    }
    return WHARF_OK;
}

wharf_status wi_buffer_check_size(size_t size)
{
    if (size <= WI_LAYOUT_MOST)
        return WHARF_OK;
    if ((ptrdiff_t)size < 0)
        return wi_fail(WHARF_EARG, "pass 0 or more bytes",
                       "size %zu is a negative number (%td) or beyond every "
                       "address space",
                       size, (ptrdiff_t)size);
    return wi_fail(WHARF_EARG, "attach less", "size %zu is beyond 64 TiB",
                   size);
}

static wi_meeting meeting_of(int count, size_t size,
                             const wharf_buffer_options *options)
{
    wi_meeting meeting = {
        .call = WI_CALL_ATTACH,
        .count = count,
        .flags = options->flags,
        .space = (uint32_t)options->space,
        .size = size,
    };
    if (options->name)
        strncpy(meeting.name, options->name, sizeof meeting.name - 1);
    return meeting;
}

/* ---- Objects before the meeting ------------------------------------------ */

void wi_buffer_drop(wharf_buffer *buffer)
{
    if (!buffer)
        return;
    wi_handle_remove(buffer);
    pthread_mutex_destroy(&buffer->lock);
    wi_free(buffer);
}

static void attaching_discard(attaching *a)
{
    for (int i = 0; i < a->count; i++) {
        wi_buffer_drop(a->made[i]);
        wi_free(a->attach[i].sizes);
    }
    wi_free(a->meetings);
    wi_free(a);
}

wharf_status wi_buffer_new(wharf_node *node, wharf_buffer **out)
{
    wharf_buffer *buffer;
    if (!WI_NEW(buffer))
        return WHARF_ENOMEM;
    pthread_mutex_init(&buffer->lock, NULL);
    buffer->node = node;
    wharf_status status = wi_handle_add(buffer, WI_HANDLE_BUFFER);
    if (status != WHARF_OK) {
        wi_buffer_drop(buffer);
        return status;
    }
    *out = buffer;
    return WHARF_OK;
}

static wharf_status attaching_fill(attaching *a)
{
    size_t ranks = (size_t)a->node->size;
    a->meetings = wi_calloc(ranks, sizeof *a->meetings);
    if (!a->meetings)
        return WHARF_ENOMEM;
    for (int i = 0; i < a->count; i++) {
        a->attach[i].sizes = wi_calloc(ranks, sizeof(uint64_t));
        if (!a->attach[i].sizes)
            return WHARF_ENOMEM;
        wharf_status status = wi_buffer_new(a->node, &a->made[i]);
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}

wharf_status wi_buffer_check_limit(const wharf_node *node, int count)
{
    if (node->buffer_count + (uint32_t)count > WHARF_MAX_BUFFERS)
        return wi_fail(WHARF_ELIMIT, "detach some, or attach one larger buffer",
                       "%u buffers are attached to the node and %d more were "
                       "asked for; the most is %d",
                       node->buffer_count, count, WHARF_MAX_BUFFERS);
    return WHARF_OK;
}

/* ---- Meeting ------------------------------------------------------------- */

/* One meeting a buffer; the first one also compares the count, so the number
 * of meetings is the same on all ranks. Without memory for what the meeting
 * needs the rank could not even take part, hence the array on the stack. */
static wharf_status meet_all(attaching *a, wharf_node *node, int count,
                             const size_t *sizes,
                             const wharf_buffer_options *options,
                             wharf_status own, wi_deadline deadline)
{
    wi_meeting spare[WHARF_MAX_RANKS];
    wi_meeting *all = a && a->meetings ? a->meetings : spare;
    wharf_status status = WHARF_OK;
    for (int i = 0; status == WHARF_OK && i < (count > 0 ? count : 1); i++) {
        wi_meeting mine = {.call = WI_CALL_ATTACH, .count = count};
        if (own == WHARF_OK)
            mine = meeting_of(count, sizes[i], &options[i]);
        mine.status = own;
        status = wi_node_meet(node, &mine, all, deadline);
        if (status != WHARF_OK)
            return status;
        a->attach[i].flags = all[0].flags;
        a->attach[i].space = (wharf_space)all[0].space;
        for (int r = 0; r < node->size; r++)
            a->attach[i].sizes[r] = all[r].size;
    }
    return status;
}

/* ---- Memory -------------------------------------------------------------- */

static void take_pooled(attaching *a)
{
    a->missing = 0;
    for (int i = 0; i < a->count; i++) {
        a->pooled[i] = wi_pool_take(a->node, &a->attach[i]);
        if (!a->pooled[i])
            a->wanted[a->missing++] = a->attach[i];
    }
}

static void return_pooled(attaching *a)
{
    for (int i = 0; i < a->count; i++) {
        if (!a->pooled[i])
            continue;
        a->pooled[i]->next = a->node->pool;
        a->node->pool = a->pooled[i];
        wi_stat_add(WI_STAT_pooled_bytes, (int64_t)a->pooled[i]->most_bytes);
        a->pooled[i] = NULL;
    }
}

static wharf_status get_mappings(attaching *a, wi_deadline deadline)
{
    take_pooled(a);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): agreed on */
    if (a->missing == 0)
        return WHARF_OK;
    wharf_status status =
        wi_mapping_make(a->node, a->missing, a->wanted, a->fresh, deadline);
    if (status != WHARF_OK)
        return_pooled(a);
    if ((status != WHARF_EDEVMEM && status != WHARF_ENOMEM &&
         status != WHARF_EOS && status != WHARF_ELIMIT) ||
        !a->node->pool)
        return status;
    /* What the pool holds may be what is lacking. */
    status = wi_pool_empty(a->node, deadline);
    if (status != WHARF_OK)
        return status;
    take_pooled(a);
    return wi_mapping_make(a->node, a->missing, a->wanted, a->fresh, deadline);
}

/* Zeros for reused blocks; fresh ones have them. */
static wharf_status zero_pooled(attaching *a, wi_deadline deadline)
{
    bool any = false;
    wharf_status status = WHARF_OK;
    for (int i = 0; i < a->count; i++)
        if (a->pooled[i] && (a->attach[i].flags & WHARF_BUFFER_ZERO)) {
            any = true;
            if (status == WHARF_OK)
                status = wi_mapping_zero(a->pooled[i]);
        }
    if (!any)
        return WHARF_OK;
    status = wi_comm_agree(a->node->comm, status, deadline);
    if (status == WHARF_OK)
        return WHARF_OK;
    wharf_error cause = *wi_error_record();
    wharf_ignore(wi_mapping_free(a->node, a->missing, a->fresh, deadline));
    return_pooled(a);
    *wi_error_record() = cause;
    return status;
}

wharf_buffer *wi_buffer_admit(wharf_buffer *buffer, wi_mapping *mapping,
                              const char *name)
{
    wharf_node *node = buffer->node;
    buffer->mapping = mapping;
    buffer->serial = ++node->serial;
    if (name)
        strncpy(buffer->name, name, sizeof buffer->name - 1);
    for (int r = 0; r < node->size; r++)
        mapping->events[r].active = true;
    buffer->next = node->buffers;
    node->buffers = buffer;
    node->buffer_count++;
    wi_stat_add(WI_STAT_live_buffers, 1);
    wi_stat_add(WI_STAT_attaches_count, 1);
    return buffer;
}

static void hand_over(attaching *a, const wharf_buffer_options *options,
                      wharf_buffer **buffers)
{
    int fresh = 0;
    for (int i = 0; i < a->count; i++) {
        bool pooled = a->pooled[i] != NULL;
        buffers[i] = wi_buffer_admit(a->made[i],
                                     pooled ? a->pooled[i] : a->fresh[fresh++],
                                     options[i].name);
        a->made[i] = NULL;
        buffers[i]->pooled = pooled;
        if (pooled)
            wi_stat_add(WI_STAT_pool_hits_count, 1);
    }
}

/* ---- The calls ----------------------------------------------------------- */

static wharf_status check_arguments(const wharf_node *node, int count,
                                    const size_t *sizes,
                                    wharf_buffer *const *buffers)
{
    if (count < 1 || count > ATTACH_MOST)
        return wi_fail(WHARF_EARG, "attach 1 to 64 buffers in one call",
                       "count is %d", count);
    if (!sizes || !buffers)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "%s is NULL", sizes ? "buffer" : "sizes");
    for (int i = 0; i < count; i++) {
        wharf_status status = wi_buffer_check_size(sizes[i]);
        if (status != WHARF_OK)
            return status;
    }
    return wi_buffer_check_limit(node, count);
}

static wharf_status attach_locked(wharf_node *node, int count,
                                  const size_t *sizes,
                                  const wharf_buffer_options *options,
                                  wharf_buffer **buffers)
{
    wi_deadline deadline = wi_node_deadline(node);
    wharf_buffer_options known[ATTACH_MOST];
    wharf_status own = check_arguments(node, count, sizes, buffers);
    if (own == WHARF_OK)
        own = read_options(count, options, known);
    attaching *a = NULL;
    if (own == WHARF_OK && !WI_NEW(a))
        own = WHARF_ENOMEM;
    if (own == WHARF_OK) {
        a->node = node;
        a->count = count;
        own = attaching_fill(a);
    }
    wharf_status status = meet_all(a, node, count, sizes, known, own, deadline);
    if (status == WHARF_OK)
        status = get_mappings(a, deadline);
    if (status == WHARF_OK)
        status = zero_pooled(a, deadline);
    if (status == WHARF_OK)
        hand_over(a, known, buffers);
    if (a)
        attaching_discard(a);
    return status;
}

static wharf_status attach_any(const char *call, wharf_node *node, int count,
                               const size_t *sizes,
                               const wharf_buffer_options *options,
                               wharf_buffer **buffers)
{
    wharf_status status = wi_node_enter(call, node);
    if (status != WHARF_OK)
        return status;
    status = attach_locked(node, count, sizes, options, buffers);
    return wi_node_leave(node, status);
}

wharf_status wharf_buffer_attach(wharf_node *node, size_t size,
                                 const wharf_buffer_options *options,
                                 wharf_buffer **buffer)
{
    return attach_any(__func__, node, 1, &size, options, buffer);
}

wharf_status wharf_buffer_attach_many(wharf_node *node, int count,
                                      const size_t *sizes,
                                      const wharf_buffer_options *options,
                                      wharf_buffer **buffers)
{
    return attach_any(__func__, node, count, sizes, options, buffers);
}

static void unlink_buffer(wharf_node *node, wharf_buffer *buffer)
{
    for (wharf_buffer **at = &node->buffers; *at; at = &(*at)->next)
        if (*at == buffer) {
            *at = buffer->next;
            break;
        }
    node->buffer_count--;
    wi_stat_add(WI_STAT_live_buffers, -1);
}

void wi_buffer_discard(wharf_buffer *buffer)
{
    wharf_node *node = buffer->node;
    wi_publish_end(buffer);
    unlink_buffer(node, buffer);
    if (buffer->table)
        node->device->ops->local_free(node->device, buffer->table);
    wi_buffer_drop(buffer);
}

/* What workers map must not become another buffer's. */
static wharf_status check_lent(const wharf_buffer *buffer)
{
    int lent = __atomic_load_n(&buffer->lent, __ATOMIC_ACQUIRE);
    if (lent == 0)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "call wharf_worker_stop first",
                   "buffer %llu \"%s\" is lent to %d workers of this rank",
                   (unsigned long long)buffer->serial, buffer->name, lent);
}

/* Programs outside the job that have joined keep their mapping. */
static bool seen_by_others(const wi_meeting *all, int size)
{
    for (int r = 0; r < size; r++)
        if (all[r].size != 0)
            return true;
    return false;
}

static wharf_status detach_locked(wharf_buffer **out)
{
    wharf_buffer *buffer = *out;
    wharf_node *node = buffer->node;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {
        .call = WI_CALL_DETACH,
        .serial = buffer->serial,
        .status = check_lent(buffer),
        .size = wi_publish_seen(buffer), /* differs by rank */
    };
    if (mine.status == WHARF_OK)
        mine.status = wi_signal_quiesce(node);
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH || status == WHARF_ESTATE)
        return status;

    wharf_error cause = *wi_error_record();
    wi_mapping *mapping = buffer->mapping;
    wi_buffer_discard(buffer);
    *out = NULL;
    wharf_status freed;
    if (status == WHARF_OK && node->settings.pool && !mapping->existing &&
        !seen_by_others(all, node->size) &&
        mapping->most_bytes <= (uint64_t)node->settings.pool_bytes)
        freed = wi_pool_put(node, mapping, deadline);
    else
        freed = wi_mapping_free(node, 1, &mapping, deadline);
    if (status == WHARF_OK)
        return freed;
    *wi_error_record() = cause;
    return status;
}

wharf_status wharf_buffer_detach(wharf_buffer **buffer)
{
    wi_call_begin(__func__, -1);
    wharf_status status =
        wi_handle_check(buffer ? *buffer : NULL, WI_HANDLE_BUFFER, "buffer");
    if (status == WHARF_OK && wi_node_is_guest((*buffer)->node)) {
        status = wi_visit_refuse((*buffer)->node, "collective calls");
    } else if (status == WHARF_OK) {
        wharf_node *node = (*buffer)->node;
        wi_call_set_rank(node->rank);
        pthread_mutex_lock(&node->collective);
        status = detach_locked(buffer);
        pthread_mutex_unlock(&node->collective);
    } else if (buffer) {
        *buffer = NULL;
    }
    return wi_call_end(status);
}

wharf_status wharf_pool_trim(wharf_node *node)
{
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {.call = WI_CALL_POOL_TRIM};
    wi_meeting all[WHARF_MAX_RANKS];
    status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_OK)
        status = wi_pool_empty(node, deadline);
    return wi_node_leave(node, status);
}
