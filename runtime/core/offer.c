/* SPDX-License-Identifier: MIT */
/* The lender's side: what a guest needs to know of a node and of buffers. */
#include <string.h>
#include <sys/resource.h>

#include "base/config.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/visit_wire.h"

struct wi_offer {
    wi_bundle bundle;
};

/* Descriptors of one imported block. */
struct wi_kept {
    int count;
    int *fds;
};

/* ---- Ranks: what is kept at an attach ------------------------------------ */

/* All of this process; atomic. */
static long kept_in_all;

/* A quarter of what the process may have, so that nothing else is short. */
static bool kept_may(int more)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    long most = limit.rlim_cur > 4096 ? 1024 : (long)limit.rlim_cur / 4;
    return __atomic_load_n(&kept_in_all, __ATOMIC_RELAXED) + more <= most;
}

static bool keep_wanted(const wi_mapping *mapping)
{
    int64_t off;
    return !(mapping->flags & WI_MAPPING_NO_EVENTS) &&
           wi_config_number(WI_SETTING_LEND, &off, NULL) == WHARF_OK && !off;
}

static void kept_close(wi_kept *kept)
{
    for (int i = 0; i < kept->count; i++)
        wi_sys_close(&kept->fds[i]);
    __atomic_sub_fetch(&kept_in_all, kept->count, __ATOMIC_RELAXED);
    wi_free(kept->fds);
    *kept = (wi_kept){0};
}

void wi_visit_keep(wi_mapping *mapping, int block, const int *fds, int count)
{
    if (count == 0 || !keep_wanted(mapping) || !kept_may(count))
        return;
    if (!mapping->kept)
        mapping->kept =
            wi_calloc((size_t)mapping->layout.blocks, sizeof *mapping->kept);
    if (!mapping->kept)
        return;
    wi_kept *kept = &mapping->kept[block];
    kept->fds = wi_calloc((size_t)count, sizeof *kept->fds);
    if (!kept->fds)
        return;
    while (kept->count < count &&
           wi_sys_duplicate(fds[kept->count], &kept->fds[kept->count]) ==
               WHARF_OK) {
        kept->count++;
        __atomic_add_fetch(&kept_in_all, 1, __ATOMIC_RELAXED);
    }
    if (kept->count < count)
        kept_close(kept);
}

void wi_visit_keep_drop(wi_mapping *mapping)
{
    for (int b = 0; mapping->kept && b < mapping->layout.blocks; b++)
        kept_close(&mapping->kept[b]);
    wi_free(mapping->kept);
    mapping->kept = NULL;
}

/* ---- Blocks -------------------------------------------------------------- */

static wharf_status copies_of(const wi_kept *kept, int *fds)
{
    for (int i = 0; i < kept->count; i++) {
        wharf_status status = wi_sys_duplicate(kept->fds[i], &fds[i]);
        if (status == WHARF_OK)
            continue;
        while (i-- > 0)
            wi_sys_close(&fds[i]);
        return status;
    }
    return WHARF_OK;
}

static wharf_status cannot_pass_on(const wi_mapping *mapping, int block)
{
    return wi_fail(WHARF_EUNSUPPORTED,
                   "lend it on the owner, or set WHARF_LEND=keep (and ulimit "
                   "-n high enough) before the attach",
                   "rank %d imported this %s memory from rank %d and cannot "
                   "pass it on: no descriptor of it was kept",
                   mapping->node->rank,
                   wharf_handle_kind_name(mapping->way->ops->kind),
                   mapping->layout.block[block].owner);
}

/* Handle and descriptors of one block. What was imported is not exported
 * again: a driver refuses that. */
static wharf_status lend_block(const wi_mapping *mapping, int block,
                               wi_handle *handle, int *fds)
{
    const wharf_node *node = mapping->node;
    const wi_memory_ops *ops = mapping->way->ops;
    bool owned = mapping->layout.block[block].owner == node->rank;
    *handle = mapping->handle[block];
    /* Plain bytes, which are good as long as the owner has the memory. */
    if (ops->kind == WHARF_HANDLE_IPC || ops->kind == WHARF_HANDLE_FABRIC)
        return WHARF_OK;
    if (owned)
        return ops->export_(node->device, mapping->block[block], handle, fds);
    if (mapping->kept && mapping->kept[block].count > 0)
        return copies_of(&mapping->kept[block], fds);
    return cannot_pass_on(mapping, block);
}

/* Descriptors of shared host memory open it for writing, whatever its mapping
 * is to be; for guests that may only read they are opened anew. */
static wharf_status for_reading(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        int again;
        wharf_status status = wi_sys_reopen_reading(fds[i], &again);
        if (status != WHARF_OK)
            return status;
        wi_sys_close(&fds[i]);
        fds[i] = again;
    }
    return WHARF_OK;
}

static wharf_status put_block(wi_bundle *bundle, const wi_mapping *mapping,
                              int block, bool read_only)
{
    const wi_layout_block *at = &mapping->layout.block[block];
    wi_wire_block out = {
        .owner = at->owner,
        .place = at->place,
        .sole_rank = at->sole_rank,
        .offset = at->offset,
        .bytes = at->bytes,
    };
    int fds[WI_BLOCK_CHUNKS];
    wharf_status status = lend_block(mapping, block, &out.handle, fds);
    if (status != WHARF_OK)
        return status;
    int count = (int)out.handle.fds, done = 0;
    if (read_only && mapping->way->ops->kind == WHARF_HANDLE_MEMFD)
        status = for_reading(fds, count);
    while (done < count && status == WHARF_OK) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): lent */
        status = wi_bundle_put_fd(bundle, fds[done]);
        done += status == WHARF_OK;
    }
    while (done < count)
        wi_sys_close(&fds[done++]);
    return status == WHARF_OK ? wi_bundle_put(bundle, &out, sizeof out)
                              : status;
}

/* ---- Buffers and the node ------------------------------------------------ */

static wharf_status put_buffer(wi_bundle *bundle, const wharf_buffer *buffer,
                               bool read_only)
{
    const wi_mapping *m = buffer->mapping;
    size_t ranks = (size_t)m->node->size;
    if (m->existing)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "lend a buffer of wharf_buffer_attach",
                       "buffer %llu \"%s\" is memory that its ranks had "
                       "before (wharf_buffer_attach_memory)",
                       (unsigned long long)buffer->serial, buffer->name);
    wi_wire_buffer out = {
        .serial = buffer->serial,
        .base = (uintptr_t)m->range.base,
        .bytes = m->layout.bytes,
        .kind = (uint32_t)m->way->ops->kind,
        .space = (uint32_t)m->space,
        .flags = m->flags,
        .blocks = m->layout.blocks,
        .same_address = m->same_address,
        .pooled = buffer->pooled,
        .read_only = read_only,
    };
    memcpy(out.name, buffer->name, sizeof out.name);
    memcpy(out.reason, m->reason, sizeof out.reason);
    uint64_t offsets[WHARF_MAX_RANKS];
    int32_t blocks[WHARF_MAX_RANKS];
    for (size_t r = 0; r < ranks; r++) {
        offsets[r] = m->layout.offset_of_rank[r];
        blocks[r] = m->layout.block_of_rank[r];
    }
    wharf_status status = wi_bundle_put(bundle, &out, sizeof out);
    if (status == WHARF_OK)
        status = wi_bundle_put(bundle, m->sizes, ranks * sizeof *m->sizes);
    if (status == WHARF_OK)
        status = wi_bundle_put(bundle, offsets, ranks * sizeof *offsets);
    if (status == WHARF_OK)
        status = wi_bundle_put(bundle, blocks, ranks * sizeof *blocks);
    for (int b = 0; b < m->layout.blocks && status == WHARF_OK; b++)
        status = put_block(bundle, m, b, read_only);
    return status;
}

/* Tells nodes apart whose offers meet at one guest. */
static uint64_t node_mark(const wharf_node *node)
{
    return (uintptr_t)node ^ ((uint64_t)node->rank << 52);
}

static wharf_status put_node(wi_bundle *bundle, const wharf_node *node,
                             int buffers)
{
    size_t ranks = (size_t)node->size, gpus = (size_t)node->gpus;
    wi_wire_head head = {
        .magic = WI_VISIT_MAGIC,
        .version = WHARF_VERSION_NUMBER,
        .node = node_mark(node),
        .rank = node->rank,
        .size = node->size,
        .gpus = node->gpus,
        .backend = (int32_t)node->backend,
        .buffers = buffers,
        .timeout_ms = node->settings.timeout_ms,
    };
    memcpy(head.backend_reason, node->backend_reason,
           sizeof head.backend_reason);
    int32_t gpu_of_rank[WHARF_MAX_RANKS];
    for (size_t r = 0; r < ranks; r++)
        gpu_of_rank[r] = node->gpu_of_rank[r];
    wharf_status status = wi_bundle_put(bundle, &head, sizeof head);
    if (status == WHARF_OK)
        status = wi_bundle_put(bundle, node->gpu, gpus * sizeof *node->gpu);
    if (status == WHARF_OK)
        status = wi_bundle_put(bundle, node->peers,
                               gpus * gpus * sizeof *node->peers);
    if (status == WHARF_OK)
        status =
            wi_bundle_put(bundle, gpu_of_rank, ranks * sizeof *gpu_of_rank);
    if (status == WHARF_OK)
        status =
            wi_bundle_put(bundle, node->lines, ranks * sizeof *node->lines);
    return status;
}

static wharf_status offer_fill(wi_offer *offer, const wharf_node *node,
                               int count, wharf_buffer *const *buffers,
                               bool read_only)
{
    wharf_status status = put_node(&offer->bundle, node, count);
    for (int i = 0; i < count && status == WHARF_OK; i++) {
        status = wi_handle_check(buffers[i], WI_HANDLE_BUFFER, "buffer");
        if (status == WHARF_OK && buffers[i]->node != node)
            status =
                wi_fail(WHARF_EARG, "lend buffers of the node that is passed",
                        "buffer %d belongs to another node", i);
        if (status == WHARF_OK && buffers[i]->mapping->existing)
            status =
                wi_fail(WHARF_EUNSUPPORTED,
                        "attach a buffer with wharf_buffer_attach and lend "
                        "that",
                        "buffer \"%s\" is memory that its ranks had before "
                        "and may free",
                        buffers[i]->name);
        if (status == WHARF_OK)
            status = put_buffer(&offer->bundle, buffers[i], read_only);
    }
    if (status != WHARF_OK)
        return status;
    if (offer->bundle.length > WI_VISIT_BYTES ||
        offer->bundle.count > WI_VISIT_FDS)
        return wi_fail(WHARF_ELIMIT, "lend fewer buffers at a time",
                       "an offer of %d buffers needs %zu bytes and %d "
                       "descriptors; the most is %zu and %d",
                       count, offer->bundle.length, offer->bundle.count,
                       WI_VISIT_BYTES, WI_VISIT_FDS);
    int32_t fds = offer->bundle.count;
    memcpy(offer->bundle.bytes + offsetof(wi_wire_head, fds), &fds, sizeof fds);
    return WHARF_OK;
}

wharf_status wi_offer_make(const wharf_node *node, int count,
                           wharf_buffer *const *buffers, bool read_only,
                           wi_offer **offer)
{
    wi_offer *made;
    if (count < 0 || count > WI_VISIT_BUFFERS || (count > 0 && !buffers))
        return wi_fail(WHARF_EARG, "pass the buffers and their number",
                       "%d buffers are to be lent", count);
    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    wharf_status status = offer_fill(made, node, count, buffers, read_only);
    if (status != WHARF_OK) {
        wi_offer_free(made);
        return status;
    }
    *offer = made;
    return WHARF_OK;
}

void wi_offer_free(wi_offer *offer)
{
    if (!offer)
        return;
    wi_bundle_clear(&offer->bundle);
    wi_free(offer);
}

int wi_offer_descriptors(const wi_offer *offer)
{
    return offer->bundle.count;
}

wharf_status wi_offer_send(const wi_offer *offer, int socket,
                           wi_deadline deadline)
{
    return wi_bundle_send(&offer->bundle, socket, deadline);
}

wharf_status wi_offer_send_on(const wi_offer *offer, int socket,
                              wi_sending *sending)
{
    return wi_bundle_send_on(&offer->bundle, socket, sending);
}
