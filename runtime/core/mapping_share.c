/* SPDX-License-Identifier: MIT */
/*
 * How the blocks of new mappings get to every rank: owners create, write a
 * nonce into every chunk, export; handles travel; the others import, map, and
 * read the nonces back through their own mappings. A rank that fails goes on
 * to the end with the others, and all learn of it in the agreement there.
 */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/core.h"
#include "core/mapping.h"
#include "core/visit.h"

/*
 * The driver maps a peer's physical chunk of 512 MiB or more in 17 to 18 ms,
 * whatever its size, smaller ones in about 0.1 ms each (measured on two H200,
 * driver 580). So chunks stay below 512 MiB until their number costs more than
 * the jump, at some 16 GiB.
 */
#define CHUNK_BYTES (UINT64_C(510) << 20)
#define CHUNKED_MOST (UINT64_C(16) << 30)

/* What a parcel carries beside descriptors. */
typedef struct letter {
    int32_t status; /* of the owner's side */
    uint32_t pad;
    uint64_t nonce;
    wi_handle handle;
} letter;

_Static_assert(sizeof(letter) <= WI_PARCEL_BYTES, "a letter fits a parcel");

/* One block of one of the mappings, in the order in which all ranks count. */
typedef struct item {
    wi_mapping *mapping;
    int block;
} item;

typedef struct share {
    wharf_node *node;
    int count;
    item *items;
    int *senders;
    wi_parcel *parcels;  /* filled where this rank is the sender */
    wharf_status status; /* this rank's first failure, its record kept below */
    wharf_error record;
} share;

static void note_failure(share *s, wharf_status status)
{
    if (status != WHARF_OK && s->status == WHARF_OK) {
        s->status = status;
        s->record = *wi_error_record();
    }
}

/* Every chunk takes a descriptor, except by fabric handles. */
static uint64_t chunks_most(const wharf_node *node, const wi_memory_ops *ops)
{
    uint64_t most = (uint64_t)ops->pieces;
    uint64_t fds = (uint64_t)node->settings.parcel_fds;
    return ops->kind == WHARF_HANDLE_FABRIC || most < fds ? most : fds;
}

/* `bytes` and what was asked for are met but for the rounding that follows. */
static uint64_t chunk_bytes_for(const wharf_node *node, const wi_way *way,
                                uint64_t bytes)
{
    if (way->ops->pieces < 2)
        return 0;
    uint64_t most = chunks_most(node, way->ops);
    uint64_t unit = way->granularity;
    uint64_t least = ((bytes + most - 1) / most + unit - 1) / unit * unit;
    uint64_t asked = (uint64_t)node->settings.chunk_bytes;
    if (asked > 0)
        return asked > least ? asked : least;
    if (node->gpus < 2 || bytes > CHUNKED_MOST || least > CHUNK_BYTES)
        return 0;
    return CHUNK_BYTES;
}

/* Different for every block that this rank ever owns and for every rank; not a
 * secret. */
static uint64_t new_nonce(const wharf_node *node)
{
    static uint64_t count;
    uint64_t drawn = wi_mix(__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED)) +
                     ((uint64_t)node->rank << 48);
    return wi_mix((uint64_t)wi_now_ns() + drawn) | 1;
}

static int chunks_of(const wi_handle *handle)
{
    if (handle->chunk_bytes == 0)
        return 1;
    return (int)((handle->bytes + handle->chunk_bytes - 1) /
                 handle->chunk_bytes);
}

bool wi_mapping_write_protected(const wi_mapping *mapping, int block)
{
    if (mapping->existing)
        return (mapping->flags & WHARF_BUFFER_READ_ONLY) &&
               mapping->layout.block[block].owner != mapping->node->rank;
    if (mapping->flags & WI_MAPPING_FOR_READING)
        return mapping->way->ops->ranges;
    return (mapping->flags & WHARF_BUFFER_READ_ONLY) &&
           mapping->way->ops->ranges &&
           mapping->layout.block[block].sole_rank != mapping->node->rank;
}

/* ---- Owner's side ------------------------------------------------------- */

static wharf_status write_nonces(const item *it, bool erase)
{
    wi_mapping *m = it->mapping;
    wi_device *device = m->node->device;
    const wi_handle *handle = &m->handle[it->block];
    for (int c = 0; c < chunks_of(handle); c++) {
        uint64_t word = erase ? 0 : m->nonce[it->block] + (uint64_t)c;
        char *to =
            (char *)m->pointer[it->block] + (size_t)c * handle->chunk_bytes;
        wharf_status status =
            device->ops->write(device, to, &word, sizeof word);
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}

static wharf_status make_block(share *s, const item *it, wi_parcel *parcel)
{
    wi_mapping *m = it->mapping;
    const wi_memory_ops *ops = m->way->ops;
    wi_device *device = s->node->device;
    const wi_layout_block *block = &m->layout.block[it->block];
    wharf_status status = ops->create(
        device, block->bytes, chunk_bytes_for(s->node, m->way, block->bytes),
        &m->block[it->block]);
    if (status == WHARF_OK)
        status = wi_host_place(m, it->block);
    if (status != WHARF_OK)
        return status;
    status = ops->map(device, m->block[it->block], &m->range, block->offset,
                      WI_ACCESS_READ_WRITE, &m->pointer[it->block]);
    if (status != WHARF_OK)
        return status;
    /* A new memfd is zero, and each page of it is made at its first touch. */
    if (m->flags & WHARF_BUFFER_ZERO && ops->kind != WHARF_HANDLE_MEMFD) {
        status =
            device->ops->fill_zero(device, m->pointer[it->block], block->bytes);
        if (status != WHARF_OK)
            return status;
    }
    status = ops->export_(device, m->block[it->block], &m->handle[it->block],
                          parcel->fds);
    if (status != WHARF_OK)
        return status;
    parcel->count = (int)m->handle[it->block].fds;
    m->nonce[it->block] = new_nonce(s->node);
    return write_nonces(it, false);
}

static void pack(share *s)
{
    for (int i = 0; i < s->count; i++) {
        if (s->senders[i] != s->node->rank)
            continue;
        const item *it = &s->items[i];
        if (s->status == WHARF_OK)
            note_failure(s, make_block(s, it, &s->parcels[i]));
        letter mail = {
            .status = s->status,
            .nonce = it->mapping->nonce[it->block],
            .handle = it->mapping->handle[it->block],
        };
        memcpy(s->parcels[i].bytes, &mail, sizeof mail);
    }
}

/* ---- Other ranks' side --------------------------------------------------- */

static wharf_status take_block(share *s, const item *it, const letter *mail,
                               const wi_parcel *parcel)
{
    wi_mapping *m = it->mapping;
    const wi_memory_ops *ops = m->way->ops;
    wi_device *device = s->node->device;
    const wi_layout_block *block = &m->layout.block[it->block];
    if (mail->handle.kind != ops->kind || mail->handle.bytes != block->bytes ||
        mail->handle.fds != (uint32_t)parcel->count) {
        wi_parcel_drop(parcel);
        return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
                       "rank %d sent a handle of %llu bytes and %d "
                       "descriptors where %zu bytes were agreed",
                       block->owner, (unsigned long long)mail->handle.bytes,
                       parcel->count, block->bytes);
    }
    wi_visit_keep(m, it->block, parcel->fds, parcel->count);
    wharf_status status =
        ops->import(device, &mail->handle, parcel->fds, &m->block[it->block]);
    if (status != WHARF_OK)
        return status;
    m->handle[it->block] = mail->handle;
    m->nonce[it->block] = mail->nonce;
    return ops->map(device, m->block[it->block], &m->range, block->offset,
                    wi_mapping_write_protected(m, it->block)
                        ? WI_ACCESS_READ
                        : WI_ACCESS_READ_WRITE,
                    &m->pointer[it->block]);
}

static void take_parcel(void *argument, int index, const wi_parcel *parcel)
{
    share *s = argument;
    letter mail;
    memcpy(&mail, parcel->bytes, sizeof mail);
    if (mail.status != WHARF_OK || s->status != WHARF_OK) {
        wi_parcel_drop(parcel);
        return;
    }
    note_failure(s, take_block(s, &s->items[index], &mail, parcel));
}

/* ---- Data check ---------------------------------------------------------- */

static wharf_status compare_nonces(share *s, const uint64_t *words)
{
    /* Alike: the walk of check_data, behind the reading of the words. */
    int at = 0;
    for (int i = 0; i < s->count; i++) {
        if (s->senders[i] == s->node->rank)
            continue;
        wi_mapping *m = s->items[i].mapping;
        int b = s->items[i].block;
        for (int c = 0; c < chunks_of(&m->handle[b]); c++, at++)
            if (words[at] != m->nonce[b] + (uint64_t)c)
                return wi_fail(
                    WHARF_EDATA,
                    "the link between the two GPUs is not to be trusted: have "
                    "it checked (P2P, IOMMU/ACS settings)",
                    "what rank %d wrote does not arrive at rank %d through a "
                    "%s mapping of chunk %d",
                    s->senders[i], s->node->rank,
                    wharf_handle_kind_name(m->way->ops->kind), c);
    }
    return WHARF_OK;
}

/* Not so where another rank could not make, send or relay a block; that rank
 * brings its failure to the agreement. */
static bool all_mapped(const share *s)
{
    for (int i = 0; i < s->count; i++)
        if (!s->items[i].mapping->pointer[s->items[i].block])
            return false;
    return true;
}

static wharf_status check_data(share *s)
{
    int words = 0;
    for (int i = 0; i < s->count; i++)
        if (s->senders[i] != s->node->rank)
            words += chunks_of(&s->items[i].mapping->handle[s->items[i].block]);
    if (words == 0)
        return WHARF_OK;
    const void **from = wi_calloc((size_t)words, sizeof *from);
    uint64_t *read = wi_calloc((size_t)words, sizeof *read);
    wharf_status status = WHARF_ENOMEM;
    if (!from || !read)
        goto done;
    int at = 0;
    for (int i = 0; i < s->count; i++) {
        if (s->senders[i] == s->node->rank)
            continue;
        wi_mapping *m = s->items[i].mapping;
        int b = s->items[i].block;
        for (int c = 0; c < chunks_of(&m->handle[b]); c++)
            from[at++] =
                (char *)m->pointer[b] + (size_t)c * m->handle[b].chunk_bytes;
    }
    wi_device *device = s->node->device;
    status = device->ops->read_words(device, from, words, read);
    if (status == WHARF_OK)
        status = compare_nonces(s, read);
done:
    wi_free(from);
    wi_free(read);
    return status;
}

/* After all have read: nonces away where zeros were promised, and the owner's
 * own mappings of other ranks' segments closed for writing. */
static wharf_status finish_owned(share *s)
{
    for (int i = 0; i < s->count; i++) {
        if (s->senders[i] != s->node->rank)
            continue;
        const item *it = &s->items[i];
        wi_mapping *m = it->mapping;
        wharf_status status = WHARF_OK;
        if (m->flags & WHARF_BUFFER_ZERO)
            status = write_nonces(it, true);
        if (status == WHARF_OK && wi_mapping_write_protected(m, it->block))
            status = m->way->ops->protect(s->node->device, m->block[it->block],
                                          WI_ACCESS_READ);
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}

/* ---- All of it ----------------------------------------------------------- */

static wharf_status list_items(share *s, int count, wi_mapping **mappings)
{
    for (int i = 0; i < count; i++)
        s->count += mappings[i]->layout.blocks;
    size_t n = (size_t)s->count;
    s->items = wi_calloc(n, sizeof *s->items);
    s->senders = wi_calloc(n, sizeof *s->senders);
    s->parcels = wi_calloc(n, sizeof *s->parcels);
    if (!s->items || !s->senders || !s->parcels)
        return WHARF_ENOMEM;
    int at = 0;
    for (int i = 0; i < count; i++)
        for (int b = 0; b < mappings[i]->layout.blocks; b++, at++) {
            s->items[at] = (item){mappings[i], b};
            s->senders[at] = mappings[i]->layout.block[b].owner;
        }
    return WHARF_OK;
}

static void share_free(share *s)
{
    for (int i = 0; s->parcels && i < s->count; i++)
        wi_parcel_drop(&s->parcels[i]);
    wi_free(s->items);
    wi_free(s->senders);
    wi_free(s->parcels);
}

wharf_status wi_mapping_share(wharf_node *node, int count,
                              wi_mapping **mappings, wi_deadline deadline)
{
    share s = {.node = node};
    bool finish = false;
    for (int i = 0; i < count; i++)
        finish |= (mappings[i]->flags &
                   (WHARF_BUFFER_ZERO | WHARF_BUFFER_READ_ONLY)) != 0;
    wharf_status status =
        wi_comm_agree(node->comm, list_items(&s, count, mappings), deadline);
    if (status != WHARF_OK || s.count == 0)
        goto done;

    int64_t began = wi_now_ns();
    pack(&s);
    int64_t packed = wi_now_ns();
    note_failure(&s, wi_comm_exchange(node->comm, s.count, s.senders, s.parcels,
                                      take_parcel, &s, deadline));
    int64_t taken = wi_now_ns();
    if (s.status == WHARF_OK && all_mapped(&s))
        note_failure(&s, check_data(&s));
    int64_t checked = wi_now_ns();
    if (s.status != WHARF_OK)
        *wi_error_record() = s.record;
    status = wi_comm_agree(node->comm, s.status, deadline);
    if (status == WHARF_OK && finish)
        status = wi_comm_agree(node->comm, finish_owned(&s), deadline);
    wi_log(WI_LOG_DEBUG,
           "%d blocks shared in us: own made %lld, others' taken %lld, checked "
           "%lld, agreed %lld",
           s.count, (long long)(packed - began) / 1000,
           (long long)(taken - packed) / 1000,
           (long long)(checked - taken) / 1000,
           (long long)(wi_now_ns() - checked) / 1000);
done:
    share_free(&s);
    return status;
}
