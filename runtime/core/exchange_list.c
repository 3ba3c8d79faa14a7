/* SPDX-License-Identifier: MIT */
/*
 * The caller's own part of an exchange: options, transfers, boxes. What can be
 * wrong on one rank alone is found here, before the ranks compare.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/mem.h"
#include "base/product.h"
#include "base/versioned.h"
#include "core/exchange.h"
#include "core/existing.h"

/* Which box of the caller's is looked at, for messages. */
typedef struct place {
    int transfer, set;
    const char *side; /* "send", "receive" */
} place;

/* ---- Options
 * -------------------------------------------------------------------- */

wharf_status wi_exchange_options_read(const wharf_exchange_options *options,
                                      wharf_exchange_options *known)
{
    *known = (wharf_exchange_options)WHARF_EXCHANGE_OPTIONS_INIT;
    if (!options)
        return WHARF_OK;
    wharf_status status =
        wi_versioned_read(known, sizeof *known, options, "options");
    if (status != WHARF_OK)
        return status;
    if (known->sets < 1 || known->sets > WHARF_MAX_EXCHANGE_SETS)
        return wi_fail(WHARF_EARG, "pass 1 to WHARF_MAX_EXCHANGE_SETS",
                       "options.sets is %d, not in 1 to %d", known->sets,
                       WHARF_MAX_EXCHANGE_SETS);
    if ((int)known->ready < 0 || known->ready > WHARF_SWITCH_OFF)
        return wi_fail(WHARF_EARG, "see wharf_switch", "options.ready is %d",
                       (int)known->ready);
    if ((int)known->capturable < 0 || known->capturable > WHARF_SWITCH_OFF)
        return wi_fail(WHARF_EARG, "see wharf_switch",
                       "options.capturable is %d", (int)known->capturable);
    return WHARF_OK;
}

/* ---- One box
 * -------------------------------------------------------------------- */

static wharf_status bad_box(const place *at, const char *remedy,
                            const char *what, unsigned long long value,
                            const char *against, unsigned long long limit)
{
    return wi_fail(
        WHARF_EARG, remedy, "transfer %d, %s box of set %d: %s %llu %s %llu",
        at->transfer, at->side, at->set, what, value, against, limit);
}

static wharf_status check_shape(const wharf_exchange_box *box,
                                const wi_exchange_half *half, const place *at)
{
    uint64_t bytes, rows, planes;
    uint64_t in_plane;
    if (!wi_product(half->width, half->rows, &bytes) ||
        !wi_product(bytes, half->planes, &bytes) ||
        !wi_product(half->rows - 1, half->pitch, &rows) ||
        !wi_product(half->planes - 1, half->plane, &planes) ||
        __builtin_add_overflow(rows, half->width, &in_plane) ||
        __builtin_add_overflow(planes, in_plane, &planes) ||
        __builtin_add_overflow(planes, half->offset, &planes) ||
        planes > INT64_MAX)
        return wi_fail(WHARF_EARG, "see wharf_exchange_box",
                       "transfer %d, %s box of set %d: %zu x %zu x %zu bytes "
                       "with pitches %zu and %zu go beyond every address space",
                       at->transfer, at->side, at->set, box->size[0],
                       box->size[1], box->size[2], box->pitch[0],
                       box->pitch[1]);
    if (half->rows > 1 && half->pitch < half->width)
        return bad_box(at, "pitches are in bytes", "pitch[0]", half->pitch,
                       "is smaller than the row of", half->width);
    if (half->planes > 1 && half->plane < in_plane)
        return bad_box(at, "pitches are in bytes", "pitch[1]", half->plane,
                       "is smaller than the plane of", in_plane);
    return WHARF_OK;
}

static wharf_status check_buffer(const wharf_exchange *x,
                                 const wharf_buffer *buffer, const place *at)
{
    char what[64];
    snprintf(what, sizeof what, "buffer of transfer %d, %s, set %d",
             at->transfer, at->side, at->set);
    wharf_status status = wi_handle_check(buffer, WI_HANDLE_BUFFER, what);
    if (status == WHARF_OK && buffer->node != x->node)
        status = wi_fail(WHARF_ESTATE, "pass a buffer of the exchange's node",
                         "the %s belongs to another node object", what);
    /* Others put into the mirror, which the caller does not read. */
    if (status == WHARF_OK && strcmp(at->side, "receive") == 0 &&
        wi_existing_is_mirror(buffer->mapping, x->node->rank))
        status = wi_fail(
            WHARF_EUNSUPPORTED, "receive into a buffer of wharf_buffer_attach",
            "the %s is mirrored: what others send would not arrive in "
            "the caller's memory",
            what);
    return status;
}

/* Rows, planes and pitches of a box that has no gaps there. */
static wi_exchange_half half_of(const wharf_exchange_box *box)
{
    wi_exchange_half half = {
        .serial = box->buffer ? box->buffer->serial : 0,
        .offset = box->offset,
        .width = box->size[0],
        .rows = box->size[1],
        .planes = box->size[2],
    };
    if (half.rows > 1)
        half.pitch = box->pitch[0] ? box->pitch[0] : half.width;
    if (half.planes > 1) {
        uint64_t row = half.rows > 1   ? half.pitch
                       : box->pitch[0] ? box->pitch[0]
                                       : half.width;
        half.plane = box->pitch[1] ? box->pitch[1] : half.rows * row;
    }
    return half;
}

static wharf_status read_box(wharf_exchange *x, const wharf_exchange_box *box,
                             const place *at, wi_exchange_half *out)
{
    if (!box || !box->size[0] || !box->size[1] || !box->size[2])
        return WHARF_OK;
    wharf_status status = check_buffer(x, box->buffer, at);
    if (status != WHARF_OK)
        return status;
    wi_exchange_half half = half_of(box);
    status = check_shape(box, &half, at);
    if (status != WHARF_OK)
        return status;
    uint64_t end = half.offset + wi_exchange_span(&half);
    uint64_t size = box->buffer->mapping->sizes[x->node->rank];
    if (end > size)
        return bad_box(at, "boxes lie in the caller's own segment",
                       "its end, byte", end, "is beyond the segment's size",
                       size);
    *out = half;
    return WHARF_OK;
}

/* ---- Transfers
 * ------------------------------------------------------------------ */

/* Whoever shares the memory must be able to write where it puts. */
static wharf_status check_writable(const wharf_exchange *x,
                                   const wharf_exchange_transfer *t,
                                   const wi_exchange_item *item, int index)
{
    if (item->node_rank < 0 || item->node_rank == x->node->rank)
        return WHARF_OK;
    for (int s = 0; s < x->sets; s++)
        if (item->receive[s].width &&
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has */
            t->receive[s].buffer->mapping->flags & WHARF_BUFFER_READ_ONLY)
            return wi_fail(WHARF_EUNSUPPORTED,
                           "receive into a buffer without "
                           "WHARF_BUFFER_READ_ONLY",
                           "transfer %d receives set %d into buffer \"%s\", "
                           "which rank %d may not write",
                           index, s, t->receive[s].buffer->name, t->peer);
    return WHARF_OK;
}

static wharf_status read_transfer(wharf_exchange *x,
                                  const wharf_exchange_transfer *t, int index,
                                  wi_exchange_item *item)
{
    int size = wi_group_size(x->group);
    item->peer = t->peer;
    item->send_id = t->send_id;
    item->receive_id = t->receive_id;
    item->node_rank = -1;
    if (t->peer == MPI_PROC_NULL)
        return WHARF_OK;
    if (t->peer < 0 || t->peer >= size)
        return wi_fail(WHARF_EARG, "pass a rank of comm, or MPI_PROC_NULL",
                       "transfer %d: peer is %d, comm has ranks 0 to %d", index,
                       t->peer, size - 1);
    if (t->send_id < 0 || t->receive_id < 0)
        return wi_fail(WHARF_EARG, "pass ids of 0 or more",
                       "transfer %d: send_id is %d and receive_id is %d", index,
                       t->send_id, t->receive_id);
    if (!x->node->settings.exchange_remote)
        item->node_rank = wi_group_node_rank(x->group, t->peer);
    wharf_status status = WHARF_OK;
    for (int s = 0; s < x->sets && status == WHARF_OK; s++) {
        place sends = {index, s, "send"}, receives = {index, s, "receive"};
        status =
            read_box(x, t->send ? &t->send[s] : NULL, &sends, &item->send[s]);
        if (status == WHARF_OK)
            status = read_box(x, t->receive ? &t->receive[s] : NULL, &receives,
                              &item->receive[s]);
    }
    return status == WHARF_OK ? check_writable(x, t, item, index) : status;
}

/* ---- All transfers together
 * ----------------------------------------------------- */

static wharf_status check_ids(const wharf_exchange *x, int one, int other)
{
    const wi_exchange_item *a = &x->item[one], *b = &x->item[other];
    if (a->peer != b->peer || a->peer == MPI_PROC_NULL)
        return WHARF_OK;
    bool sends = a->send_id == b->send_id &&
                 wi_exchange_any(a->send, x->sets) &&
                 wi_exchange_any(b->send, x->sets);
    bool receives = a->receive_id == b->receive_id &&
                    wi_exchange_any(a->receive, x->sets) &&
                    wi_exchange_any(b->receive, x->sets);
    if (!sends && !receives)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "give transfers between one pair different ids",
                   "transfers %d and %d both %s rank %d with %s_id %d", one,
                   other, sends ? "send to" : "receive from", a->peer,
                   sends ? "send" : "receive",
                   sends ? a->send_id : a->receive_id);
}

static wharf_status shares(int one, int other, int set, const char *side)
{
    return wi_fail(WHARF_EARG,
                   "receive every byte once, and not into what is sent",
                   "the receive box of transfer %d and the %s box of transfer "
                   "%d overlap in set %d",
                   one, side, other, set);
}

static wharf_status check_overlap(const wharf_exchange *x, int one, int other)
{
    const wi_exchange_item *a = &x->item[one], *b = &x->item[other];
    for (int s = 0; s < x->sets; s++) {
        if (one < other && wi_exchange_overlap(&a->receive[s], &b->receive[s]))
            return shares(one, other, s, "receive");
        if (wi_exchange_overlap(&a->receive[s], &b->send[s]))
            return shares(one, other, s, "send");
    }
    return WHARF_OK;
}

/* Every pair is compared, which a few dozen neighbours allow; lists of
 * thousands take a moment, once. */
static wharf_status check_together(const wharf_exchange *x)
{
    wharf_status status = WHARF_OK;
    for (int i = 0; i < x->items && status == WHARF_OK; i++)
        for (int k = 0; k < x->items && status == WHARF_OK; k++) {
            if (i < k)
                status = check_ids(x, i, k);
            if (status == WHARF_OK)
                status = check_overlap(x, i, k);
        }
    return status;
}

/* ---- The list
 * ------------------------------------------------------------------- */

static wharf_status check_count(const wharf_exchange *x,
                                const wi_exchange_ask *ask)
{
    if (ask->count < 0)
        return wi_fail(WHARF_EARG, "pass the number of transfers",
                       "count is %d", ask->count);
    if (ask->count > WHARF_MAX_EXCHANGE_TRANSFERS)
        return wi_fail(WHARF_ELIMIT, "make several exchanges",
                       "count is %d, at most %d are possible", ask->count,
                       WHARF_MAX_EXCHANGE_TRANSFERS);
    if (ask->count > 0 && !ask->transfers)
        return wi_fail(WHARF_EARG, "pass count transfers",
                       "transfers is NULL and count is %d", ask->count);
    if (ask->count > 0 && !x->group)
        return wi_fail(WHARF_EARG, "pass no transfers with MPI_COMM_NULL",
                       "comm is MPI_COMM_NULL and count is %d", ask->count);
    return WHARF_OK;
}

static wharf_status list_alloc(wharf_exchange *x)
{
    size_t items = (size_t)x->items, sets = (size_t)x->sets;
    x->item = wi_calloc(items, sizeof *x->item);
    x->halves = wi_calloc(2 * items * sets, sizeof *x->halves);
    x->boxes = wi_calloc(2 * items * sets, sizeof *x->boxes);
    if (!x->item || !x->halves || !x->boxes)
        return WHARF_ENOMEM;
    for (size_t i = 0; i < items; i++) {
        x->item[i].send = x->halves + 2 * i * sets;
        x->item[i].receive = x->item[i].send + sets;
        x->item[i].out = x->boxes + 2 * i * sets;
        x->item[i].in = x->item[i].out + sets;
    }
    return WHARF_OK;
}

wharf_status wi_exchange_list(wharf_exchange *x, const wi_exchange_ask *ask)
{
    wharf_status status = check_count(x, ask);
    if (status != WHARF_OK)
        return status;
    x->items = ask->count;
    status = list_alloc(x);
    for (int i = 0; i < x->items && status == WHARF_OK; i++)
        status = read_transfer(x, &ask->transfers[i], i, &x->item[i]);
    return status == WHARF_OK ? check_together(x) : status;
}
