/* SPDX-License-Identifier: MIT */
/* wharf_buffer_attach_memory and the copies between memory and its mirror. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/versioned.h"
#include "core/existing.h"
#include "core/signal.h"
#include "core/visit.h"
#include "wharf/memory.h"

#define FLAGS_EXISTING                                                         \
    (WHARF_BUFFER_STAGE_ALLOWED | WHARF_BUFFER_EXPOSE_NEIGHBOURS |             \
     WHARF_BUFFER_READ_ONLY)

static const struct {
    unsigned flag;
    const char *name;
} not_for_existing[] = {
    {WHARF_BUFFER_CONTIGUOUS, "CONTIGUOUS"},
    {WHARF_BUFFER_SAME_ADDRESS, "SAME_ADDRESS"},
    {WHARF_BUFFER_SAME_ADDRESS_REQUIRED, "SAME_ADDRESS_REQUIRED"},
    {WHARF_BUFFER_ZERO, "ZERO"},
    {WHARF_BUFFER_NUMA_LOCAL, "NUMA_LOCAL"},
    {WHARF_BUFFER_INTERLEAVE, "INTERLEAVE"},
    {WHARF_BUFFER_HUGE_PAGES, "HUGE_PAGES"},
    {WHARF_BUFFER_WRITE_COMBINED, "WRITE_COMBINED"},
};

/* One rank's call, up to where no rank can fail alone any more. */
typedef struct joining {
    wharf_node *node;
    wharf_buffer_options options;
    wi_foreign memory; /* kind NOTHING if there is none */
    bool mirrored;
    wharf_buffer *buffer;
    wi_mapping *mapping;
} joining;

/* ---- Checks of this rank's own arguments --------------------------------- */

static wharf_status check_options(const wharf_buffer_options *options)
{
    for (size_t i = 0; i < sizeof not_for_existing / sizeof not_for_existing[0];
         i++)
        if (options->flags & not_for_existing[i].flag)
            return wi_fail(WHARF_EARG,
                           "leave it out, or use wharf_buffer_attach",
                           "WHARF_BUFFER_%s is not for memory that exists",
                           not_for_existing[i].name);
    if (options->flags & ~FLAGS_EXISTING)
        return wi_fail(WHARF_EARG, "use the WHARF_BUFFER_ flags only",
                       "options.flags has unknown bits 0x%x",
                       options->flags & ~FLAGS_EXISTING);
    return wi_buffer_check_name(options->name);
}

static wharf_status check_size(const void *pointer, size_t size)
{
    wharf_status status = wi_buffer_check_size(size);
    if (status == WHARF_OK && size > 0 && !pointer)
        status = wi_fail(WHARF_EARG, "pass size 0 where there is no memory",
                         "pointer is NULL and size is %zu", size);
    return status;
}

/* Is any byte of it in [from, from + bytes)? Sizes may reach beyond the last
 * address. */
static bool overlaps(const char *pointer, size_t size, const void *from,
                     size_t bytes)
{
    uintptr_t a = (uintptr_t)pointer, b = (uintptr_t)from;
    return from && bytes && (b - a < size || a - b < bytes);
}

/* Blocks that this rank has from Wharf; what it gave itself may be given again.
 */
static const void *block_in(const wi_mapping *mapping, const char *pointer,
                            size_t size)
{
    const wharf_node *node = mapping->node;
    for (int b = 0; b < mapping->layout.blocks; b++)
        if (!(mapping->existing &&
              mapping->layout.block[b].owner == node->rank) &&
            overlaps(pointer, size, mapping->pointer[b],
                     mapping->layout.block[b].bytes))
            return mapping->pointer[b];
    return NULL;
}

static wharf_status check_not_wharfs(const wharf_node *node,
                                     const void *pointer, size_t size)
{
    for (const wharf_buffer *b = node->buffers; b; b = b->next)
        if (block_in(b->mapping, pointer, size))
            return wi_fail(WHARF_EARG,
                           "use wharf_buffer_segment of that buffer: all ranks "
                           "have this memory already",
                           "%p, %zu bytes: it lies in buffer %llu \"%s\"",
                           pointer, size, (unsigned long long)b->serial,
                           b->name);
    for (const wi_mapping *m = node->pool; m; m = m->next)
        if (block_in(m, pointer, size))
            return wi_fail(WHARF_EARG, "use memory that is not detached",
                           "%p, %zu bytes: it lies in a buffer that was "
                           "detached",
                           pointer, size);
    return WHARF_OK;
}

/* Can it go the direct way with these flags? Else why not. */
static const char *held_back(const wi_foreign *memory, unsigned flags)
{
    if (memory->kind == WI_FOREIGN_LEGACY && memory->neighbours &&
        !(flags & WHARF_BUFFER_EXPOSE_NEIGHBOURS))
        return "it shares a 2 MiB block with other allocations, which its "
               "handle would open too";
    if ((flags & WHARF_BUFFER_READ_ONLY) && memory->kind != WI_FOREIGN_PIECES)
        return "READ_ONLY: its kind of handle opens for writing, too";
    return NULL;
}

/* May this rank's memory be shared as the flags say, and how? WHARF_EARG,
 * WHARF_EUNSUPPORTED; *mirrored: only by a mirror. */
static wharf_status settle(const wi_foreign *memory, unsigned flags,
                           bool *mirrored)
{
    const char *why = NULL;
    *mirrored = false;
    if (memory->kind == WI_FOREIGN_NOTHING)
        return WHARF_OK;
    if (wi_foreign_direct(memory->kind))
        why = held_back(memory, flags);
    if (wi_foreign_direct(memory->kind) && !why)
        return WHARF_OK;
    *mirrored = true;
    if (flags & WHARF_BUFFER_STAGE_ALLOWED)
        return WHARF_OK;
    if (!why)
        return wi_foreign_refuse(memory);
    return wi_fail(WHARF_EUNSUPPORTED,
                   flags & WHARF_BUFFER_READ_ONLY
                       ? "leave READ_ONLY out, or allow a mirror "
                         "(WHARF_BUFFER_STAGE_ALLOWED)"
                       : "allocate 2 MiB or more, or pass "
                         "WHARF_BUFFER_EXPOSE_NEIGHBOURS or _STAGE_ALLOWED",
                   "%p, %zu bytes of %s: %s", (void *)memory->pointer,
                   memory->bytes, wi_foreign_name(memory->kind), why);
}

static wharf_status look(joining *j, void *pointer, size_t size,
                         const wharf_buffer_options *options,
                         wharf_buffer **buffer)
{
    wharf_node *node = j->node;
    wharf_status status = WHARF_OK;
    if (!buffer)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "buffer is NULL");
    if (options)
        status = wi_versioned_read(&j->options, sizeof j->options, options,
                                   "options");
    if (status == WHARF_OK)
        status = check_options(&j->options);
    if (status == WHARF_OK)
        status = check_size(pointer, size);
    if (status == WHARF_OK)
        status = wi_buffer_check_limit(node, 1);
    if (status != WHARF_OK || size == 0)
        return status;
    status = check_not_wharfs(node, pointer, size);
    if (status == WHARF_OK)
        status = node->device->ops->foreign->inspect(node->device, pointer,
                                                     size, &j->memory);
    if (status == WHARF_OK)
        status = settle(&j->memory, j->options.flags, &j->mirrored);
    return status;
}

/* ---- The call ------------------------------------------------------------ */

static wharf_status make_objects(joining *j)
{
    wharf_status status = wi_buffer_new(j->node, &j->buffer);
    if (status == WHARF_OK)
        status = wi_existing_new(j->node, &j->mapping);
    /* What it holds must not change while it is read on both sides. */
    if (status == WHARF_OK)
        status = wi_signal_quiesce(j->node);
    return status;
}

static wharf_status meet(joining *j, size_t size, wharf_status own,
                         wi_deadline deadline)
{
    wharf_node *node = j->node;
    wi_meeting mine = {.call = WI_CALL_ATTACH_MEMORY, .status = own};
    wi_meeting all[WHARF_MAX_RANKS];
    if (own == WHARF_OK) {
        mine.count = 1;
        mine.flags = j->options.flags;
        mine.size = size;
        if (j->options.name)
            strncpy(mine.name, j->options.name, sizeof mine.name - 1);
    }
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status != WHARF_OK)
        return status;
    j->mapping->flags = all[0].flags;
    j->mapping->existing->memory = j->memory;
    uint64_t total = 0;
    for (int r = 0; r < node->size; r++) {
        j->mapping->sizes[r] = all[r].size;
        total += all[r].size;
    }
    if (total > WI_LAYOUT_MOST)
        return wi_decided_alike(
            wi_fail(WHARF_EARG, "attach less",
                    "the segments add up to more than 64 TiB"));
    wi_existing_lay_out(j->mapping);
    return wi_decided_alike(wi_mapping_take_events(j->mapping));
}

static wharf_status refuse_degraded(void)
{
    char cause[160];
    snprintf(cause, sizeof cause, "%.150s", wi_error_record()->cause);
    return wi_fail(WHARF_EDEGRADED,
                   "mend the cause, or leave strict mode (WHARF_STRICT=0)",
                   "memory would be mirrored: %s", cause);
}

/* What the pair of GPUs does not allow goes through mirrors, if it may. */
static wharf_status share(joining *j, wi_deadline deadline)
{
    wharf_node *node = j->node;
    wi_existing *e = j->mapping->existing;
    bool other_way;
    wharf_status status =
        wi_existing_share(j->mapping, j->mirrored, deadline, &other_way);
    if (status == WHARF_OK || !other_way ||
        !(j->mapping->flags & WHARF_BUFFER_STAGE_ALLOWED))
        return status;
    if (node->settings.strict)
        return wi_decided_alike(refuse_degraded());
    snprintf(e->forced, sizeof e->forced, "%.95s", wi_error_record()->cause);
    if (node->rank == 0)
        wi_log(WI_LOG_WARN, "mirroring what the ranks attach: %s",
               wi_error_record()->cause);
    status = wi_existing_share(j->mapping, true, deadline, &other_way);
    if (status == WHARF_OK)
        wi_stat_add(WI_STAT_degraded_count, 1);
    return status;
}

static wharf_status attach_locked(joining *j, void *pointer, size_t size,
                                  const wharf_buffer_options *options,
                                  wharf_buffer **buffer)
{
    wharf_node *node = j->node;
    wi_deadline deadline = wi_node_deadline(node);
    wharf_status status = look(j, pointer, size, options, buffer);
    if (status == WHARF_OK)
        status = make_objects(j);
    bool shared = false;
    status = meet(j, size, status, deadline);
    if (status == WHARF_OK) {
        status = share(j, deadline);
        shared = true;
    }
    if (status == WHARF_OK) {
        *buffer = wi_buffer_admit(j->buffer, j->mapping, j->options.name);
        return WHARF_OK;
    }
    wi_buffer_drop(j->buffer);
    if (!shared) {
        wi_mapping_delete(j->mapping);
        return status;
    }
    wharf_error cause = *wi_error_record();
    wharf_ignore(wi_mapping_free(node, 1, &j->mapping, deadline));
    *wi_error_record() = cause;
    return status;
}

wharf_status wharf_buffer_attach_memory(wharf_node *node, void *pointer,
                                        size_t size,
                                        const wharf_buffer_options *options,
                                        wharf_buffer **buffer)
{
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    joining j = {.node = node, .options = WHARF_BUFFER_OPTIONS_INIT};
    return wi_node_leave(node,
                         attach_locked(&j, pointer, size, options, buffer));
}

/* ---- Copies -------------------------------------------------------------- */

static wharf_status check_part(const wi_mapping *mapping, size_t offset,
                               size_t *bytes)
{
    size_t size = (size_t)mapping->sizes[mapping->node->rank];
    if (offset <= size && *bytes == 0)
        *bytes = size - offset;
    if (offset <= size && *bytes <= size - offset)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass a part of the caller's own segment",
                   "%zu bytes from %zu on are not within the segment's %zu",
                   *bytes, offset, size);
}

static wharf_status sync_part(const wharf_buffer *buffer, bool to,
                              size_t offset, size_t bytes, wharf_stream stream)
{
    const wi_mapping *mapping = buffer->mapping;
    const wi_existing *e = mapping->existing;
    wi_device *device = buffer->node->device;
    if (!e)
        return wi_fail(WHARF_ESTATE, "leave the call out: the memory is shared",
                       "buffer %llu is not one of wharf_buffer_attach_memory",
                       (unsigned long long)buffer->serial);
    wharf_status status = check_part(mapping, offset, &bytes);
    if (status == WHARF_OK)
        status = device->ops->check_stream(device, stream);
    if (status != WHARF_OK || !e->mirror || bytes == 0)
        return status;
    if (!to && e->memory.read_only)
        return wi_fail(WHARF_EUNSUPPORTED, "attach memory that may be written",
                       "%p is mapped read-only in this process",
                       (void *)e->memory.pointer);
    char *memory = e->memory.pointer + offset;
    char *mirror = (char *)e->mirror + offset;
    return device->ops->foreign->copy(device, stream, &e->memory,
                                      to ? mirror : memory,
                                      to ? memory : mirror, bytes);
}

static wharf_status sync_any(const char *call, wharf_buffer *buffer, bool to,
                             size_t offset, size_t bytes, wharf_stream stream)
{
    wharf_status status = wi_buffer_local(call, buffer);
    if (status == WHARF_OK)
        status = sync_part(buffer, to, offset, bytes, stream);
    return wi_call_end(status);
}

wharf_status wharf_buffer_sync_to(wharf_buffer *buffer, size_t offset,
                                  size_t bytes, wharf_stream stream)
{
    return sync_any(__func__, buffer, true, offset, bytes, stream);
}

wharf_status wharf_buffer_sync_from(wharf_buffer *buffer, size_t offset,
                                    size_t bytes, wharf_stream stream)
{
    return sync_any(__func__, buffer, false, offset, bytes, stream);
}
