/* SPDX-License-Identifier: MIT */
/*
 * How memory that the ranks had before gets to all of them:
 *
 *   each makes what it can alone (a handle, or a mirror and its first copy) and
 *   reads some words -> agree -> all show their cards -> all open what a card
 *   is enough for -> descriptors fly, in rounds of one parcel a rank -> all map
 *   and compare the words -> agree
 *
 * The check only reads: unlike a nonce it cannot tell zeros of the right memory
 * from zeros of another, but the memory is the program's, and it must not see
 * a foreign byte even for a moment.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/existing.h"

/* What a parcel carries beside descriptors. */
typedef struct letter {
    int32_t status; /* of the sender */
    uint32_t pad;
    union {
        wi_handle mirror;
        uint32_t pages[WI_FOREIGN_PASS];
    } of;
} letter;

_Static_assert(sizeof(letter) <= WI_PARCEL_BYTES, "a letter fits a parcel");
_Static_assert(WI_FOREIGN_PASS <= WI_PARCEL_FDS, "so do its descriptors");

typedef struct share {
    wi_mapping *mapping;
    wharf_node *node;
    const wi_foreign_ops *foreign;
    const wi_memory_ops *host;
    char *cursor; /* of foreign->pass */
    wi_parcel *parcels;
    int senders[WHARF_MAX_RANKS]; /* of this round */
    int count;
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

static wharf_status agree(share *s, wi_deadline deadline)
{
    if (s->status != WHARF_OK)
        *wi_error_record() = s->record;
    return wi_comm_agree(s->node->comm, s->status, deadline);
}

static const wi_existing_card *card_of(const share *s, int rank)
{
    return &s->mapping->existing->card[rank];
}

/* ---- Mirrors ------------------------------------------------------------- */

static size_t mirror_bytes(const share *s, int rank)
{
    size_t unit = s->node->host_way.granularity;
    return ((size_t)s->mapping->sizes[rank] + unit - 1) & ~(unit - 1);
}

static wharf_status mirror_map(share *s, int block, wi_access access,
                               void **pointer)
{
    wi_mapping *m = s->mapping;
    wi_device *device = s->node->device;
    wi_range *range = &m->existing->range[block];
    wharf_status status = s->host->reserve(
        device, NULL, mirror_bytes(s, m->layout.block[block].owner), range);
    if (status != WHARF_OK)
        return status;
    return s->host->map(device, m->block[block], range, 0, access, pointer);
}

static wharf_status mirror_make(share *s)
{
    wi_mapping *m = s->mapping;
    wi_existing *e = m->existing;
    wi_device *device = s->node->device;
    int b = wi_existing_block(m, s->node->rank);
    if (!s->host)
        return wi_fail(
            WHARF_EUNSUPPORTED, "see wharf-info for what is possible",
            "a mirror needs shared host memory: %s", s->node->host_way.reason);
    wharf_status status = s->host->create(
        device, mirror_bytes(s, s->node->rank), 0, &m->block[b]);
    if (status == WHARF_OK)
        status = mirror_map(s, b, WI_ACCESS_READ_WRITE, &e->mirror);
    if (status == WHARF_OK)
        status = s->foreign->copy(device, device->ops->own_stream(device),
                                  &e->memory, e->mirror, e->memory.pointer,
                                  e->memory.bytes);
    if (status == WHARF_OK)
        status = device->ops->quiesce(device);
    return status;
}

/* ---- This rank's own side ------------------------------------------------ */

/* Evenly spread over the segment, the last one at its end. */
static size_t word_offset(const wi_existing_card *card, uint32_t i)
{
    return i + 1 == card->words ? card->last : card->first + i * card->stride;
}

/* At addresses that a word may have: `first` is where these begin in others'
 * mappings, too, for those differ by whole pages. */
static wharf_status read_own_words(share *s, wi_existing_card *card)
{
    const wi_existing *e = s->mapping->existing;
    const char *at = e->mirror ? e->mirror : e->memory.pointer;
    size_t first = (size_t)(-(uintptr_t)at) % sizeof(uint64_t);
    size_t fit = e->memory.bytes > first
                     ? (e->memory.bytes - first) / sizeof(uint64_t)
                     : 0;
    size_t count = fit < WI_EXISTING_WORDS ? fit : WI_EXISTING_WORDS;
    const void *from[WI_EXISTING_WORDS];
    if (count == 0)
        return WHARF_OK;
    card->words = (uint32_t)count;
    card->first = (uint32_t)first;
    card->stride = fit / count * sizeof(uint64_t);
    card->last = first + (fit - 1) * sizeof(uint64_t);
    for (uint32_t i = 0; i < card->words; i++)
        from[i] = at + word_offset(card, i);
    wi_device *device = s->node->device;
    return device->ops->read_words(device, from, (int)count, card->word);
}

static int pieces_a_parcel(const wharf_node *node)
{
    int64_t most = node->settings.parcel_fds;
    return most < WI_FOREIGN_PASS ? (int)most : WI_FOREIGN_PASS;
}

static uint32_t parcels_for(const wharf_node *node,
                            const wi_existing_card *card)
{
    uint32_t each = (uint32_t)pieces_a_parcel(node);
    if (card->mirrored || card->kind == WI_FOREIGN_POOL)
        return 1;
    if (card->kind == WI_FOREIGN_PIECES)
        return (card->memory.pieces + each - 1) / each;
    return 0;
}

static wharf_status make_own(share *s, bool mirrored, wi_existing_card *card)
{
    wi_mapping *m = s->mapping;
    wi_existing *e = m->existing;
    int b = wi_existing_block(m, s->node->rank);
    memset(card, 0, sizeof *card);
    if (b < 0)
        return WHARF_OK;
    card->kind = (uint32_t)e->memory.kind;
    card->mirrored = mirrored;
    /* Undone by it, whatever becomes of the rest. */
    e->card[s->node->rank].mirrored = mirrored;
    wharf_status status =
        mirrored
            ? mirror_make(s)
            : s->foreign->present(s->node->device, &e->memory, &card->memory);
    if (status != WHARF_OK)
        return status;
    m->pointer[b] = e->memory.pointer;
    card->neighbours = !mirrored && e->memory.neighbours;
    card->largest = e->memory.largest;
    card->parcels = parcels_for(s->node, card);
    return read_own_words(s, card);
}

/* ---- Who reaches whom ---------------------------------------------------- */

/* Every rank finds the same. */
static wharf_status check_reach(const share *s)
{
    const wharf_node *node = s->node;
    for (int r = 0; r < node->size; r++) {
        if (s->mapping->sizes[r] == 0 || card_of(s, r)->mirrored)
            continue;
        for (int q = 0; q < node->size; q++) {
            int from = node->gpu_of_rank[q], to = node->gpu_of_rank[r];
            const wi_peer *peer = &node->peers[from * node->gpus + to];
            if (from == to || peer->reachable)
                continue;
            return wi_fail(WHARF_EUNSUPPORTED,
                           "place these ranks on one GPU, or allow a mirror "
                           "(WHARF_BUFFER_STAGE_ALLOWED)",
                           "the GPU of rank %d does not reach memory of rank "
                           "%d: %s",
                           q, r, peer->reason);
        }
    }
    return WHARF_OK;
}

/* ---- Opening ------------------------------------------------------------- */

static wi_access access_of(const share *s)
{
    return s->mapping->flags & WHARF_BUFFER_READ_ONLY ? WI_ACCESS_READ
                                                      : WI_ACCESS_READ_WRITE;
}

static void open_others(share *s)
{
    wi_mapping *m = s->mapping;
    for (int r = 0; r < s->node->size && s->status == WHARF_OK; r++) {
        int b = wi_existing_block(m, r);
        if (r == s->node->rank || b < 0 || card_of(s, r)->mirrored)
            continue;
        note_failure(s,
                     s->foreign->open(
                         s->node->device, &card_of(s, r)->memory,
                         wi_identity_number(wi_comm_identity(s->node->comm, r)),
                         access_of(s), &m->block[b]));
    }
}

static wharf_status take_mirror(share *s, int block, const letter *mail,
                                const wi_parcel *parcel)
{
    wi_mapping *m = s->mapping;
    int owner = m->layout.block[block].owner;
    if (!s->host || m->block[block] ||
        mail->of.mirror.fds != (uint32_t)parcel->count ||
        mail->of.mirror.bytes != mirror_bytes(s, owner)) {
        wi_parcel_drop(parcel);
        return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on all ranks",
                       "rank %d sent a mirror of %llu bytes with %d "
                       "descriptors",
                       owner, (unsigned long long)mail->of.mirror.bytes,
                       parcel->count);
    }
    wharf_status status = s->host->import(s->node->device, &mail->of.mirror,
                                          parcel->fds, &m->block[block]);
    if (status == WHARF_OK)
        status = mirror_map(s, block, access_of(s), &m->pointer[block]);
    return status;
}

static void take_parcel(void *argument, int index, const wi_parcel *parcel)
{
    share *s = argument;
    int rank = s->senders[index];
    int block = wi_existing_block(s->mapping, rank);
    letter mail;
    memcpy(&mail, parcel->bytes, sizeof mail);
    if (mail.status != WHARF_OK || s->status != WHARF_OK) {
        wi_parcel_drop(parcel);
        return;
    }
    if (card_of(s, rank)->mirrored)
        note_failure(s, take_mirror(s, block, &mail, parcel));
    else
        note_failure(s, s->foreign->add(s->node->device,
                                        s->mapping->block[block], mail.of.pages,
                                        parcel->fds, parcel->count));
}

static void pack(share *s, int index)
{
    const wi_existing *e = s->mapping->existing;
    wi_parcel *parcel = &s->parcels[index];
    int b = wi_existing_block(s->mapping, s->node->rank);
    letter mail = {0};
    wharf_status status = s->status;
    parcel->count = 0;
    if (status == WHARF_OK && card_of(s, s->node->rank)->mirrored) {
        status = s->host->export_(s->node->device, s->mapping->block[b],
                                  &mail.of.mirror, parcel->fds);
        if (status == WHARF_OK)
            parcel->count = (int)mail.of.mirror.fds;
    } else if (status == WHARF_OK) {
        int count = pieces_a_parcel(s->node);
        status = s->foreign->pass(s->node->device, &e->memory, &s->cursor,
                                  mail.of.pages, parcel->fds, &count);
        if (status == WHARF_OK)
            parcel->count = count;
    }
    note_failure(s, status);
    mail.status = (int32_t)s->status;
    memcpy(parcel->bytes, &mail, sizeof mail);
}

/* One parcel of every rank that has that many; false when none has. */
static bool round_begin(share *s, uint32_t number, int *mine)
{
    s->count = 0;
    *mine = -1;
    for (int r = 0; r < s->node->size; r++) {
        if (card_of(s, r)->parcels <= number)
            continue;
        if (r == s->node->rank)
            *mine = s->count;
        s->senders[s->count++] = r;
    }
    return s->count > 0;
}

static wharf_status exchange_rounds(share *s, wi_deadline deadline)
{
    wharf_status status = WHARF_OK;
    int mine;
    for (uint32_t n = 0; status == WHARF_OK && round_begin(s, n, &mine); n++) {
        if (mine >= 0)
            pack(s, mine);
        note_failure(s, wi_comm_exchange(s->node->comm, s->count, s->senders,
                                         s->parcels, take_parcel, s, deadline));
        if (mine >= 0)
            wi_parcel_drop(&s->parcels[mine]);
        status = agree(s, deadline);
    }
    return status;
}

static void map_others(share *s)
{
    /* Alike: the walk of open_others, with another call at each stop. */
    wi_mapping *m = s->mapping;
    for (int r = 0; r < s->node->size && s->status == WHARF_OK; r++) {
        int b = wi_existing_block(m, r);
        if (r == s->node->rank || b < 0 || card_of(s, r)->mirrored)
            continue;
        note_failure(
            s, s->foreign->map(s->node->device, m->block[b], &m->pointer[b]));
    }
}

/* ---- Data check ---------------------------------------------------------- */

static wharf_status compare_words(share *s, int rank)
{
    const wi_existing_card *card = card_of(s, rank);
    const wi_mapping *m = s->mapping;
    const char *at = m->pointer[wi_existing_block(m, rank)];
    const void *from[WI_EXISTING_WORDS];
    uint64_t words[WI_EXISTING_WORDS];
    if (card->words == 0 || card->words > WI_EXISTING_WORDS)
        return WHARF_OK;
    for (uint32_t i = 0; i < card->words; i++)
        from[i] = at + word_offset(card, i);
    wi_device *device = s->node->device;
    wharf_status status =
        device->ops->read_words(device, from, (int)card->words, words);
    for (uint32_t i = 0; i < card->words && status == WHARF_OK; i++)
        if (words[i] != card->word[i])
            status = wi_fail(
                WHARF_EDATA,
                "write the memory on no rank meanwhile; else have the "
                "link between the GPUs checked (P2P, IOMMU/ACS)",
                "byte %llu of rank %d's memory is another one at rank "
                "%d",
                (unsigned long long)word_offset(card, i), rank, s->node->rank);
    return status;
}

static void compare_others(share *s)
{
    for (int r = 0; r < s->node->size && s->status == WHARF_OK; r++)
        if (r != s->node->rank && wi_existing_block(s->mapping, r) >= 0)
            note_failure(s, compare_words(s, r));
}

/* ---- All of it ----------------------------------------------------------- */

static wharf_status share_all(share *s, bool mirrored, wi_deadline deadline)
{
    wi_existing_card mine;
    s->parcels = wi_calloc((size_t)s->node->size, sizeof *s->parcels);
    note_failure(s, s->parcels ? make_own(s, mirrored, &mine) : WHARF_ENOMEM);
    wharf_status status = agree(s, deadline);
    if (status != WHARF_OK)
        return status;
    status = wi_comm_allgather(s->node->comm, &mine, sizeof mine,
                               s->mapping->existing->card, deadline);
    if (status == WHARF_OK)
        status = wi_decided_alike(check_reach(s));
    if (status != WHARF_OK)
        return status;
    open_others(s);
    status = exchange_rounds(s, deadline);
    if (status != WHARF_OK)
        return status;
    map_others(s);
    compare_others(s);
    return agree(s, deadline);
}

/* Back to before, on all ranks. */
static wharf_status undo(share *s, wi_deadline deadline)
{
    wi_existing_close_imports(s->mapping);
    wharf_status status = wi_node_let_go(s->node, deadline);
    wi_existing_free_owned(s->mapping);
    return status;
}

wharf_status wi_existing_share(wi_mapping *mapping, bool mirrored,
                               wi_deadline deadline, bool *other_way)
{
    wharf_node *node = mapping->node;
    share s = {.mapping = mapping,
               .node = node,
               .foreign = node->device->ops->foreign,
               .host = node->host_way.ops};
    *other_way = false;
    wharf_status status = share_all(&s, mirrored, deadline);
    wi_free(s.parcels);
    if (status == WHARF_OK)
        return WHARF_OK;
    wharf_error cause = *wi_error_record();
    wharf_status undone = undo(&s, deadline);
    if (wharf_status_scope(undone) == WHARF_SCOPE_NODE)
        return undone;
    *wi_error_record() = cause;
    *other_way = status == WHARF_EUNSUPPORTED || status == WHARF_EDATA;
    return status;
}
