/* SPDX-License-Identifier: MIT */
/* How boxes that go to other nodes are cut into messages. */
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/exchange_far.h"

bool wi_far_is(const wi_exchange_item *item)
{
    return item->node_rank < 0 && item->peer != MPI_PROC_NULL;
}

/* Messages between two ranks are met in order, so both sides list them by the
 * ids that they share. */
static int by_send(const void *a, const void *b)
{
    const wi_exchange_item *x = *(wi_exchange_item *const *)a;
    const wi_exchange_item *y = *(wi_exchange_item *const *)b;
    return x->peer != y->peer
               ? (x->peer > y->peer) - (x->peer < y->peer)
               : (x->send_id > y->send_id) - (x->send_id < y->send_id);
}

static int by_receive(const void *a, const void *b)
{
    const wi_exchange_item *x = *(wi_exchange_item *const *)a;
    const wi_exchange_item *y = *(wi_exchange_item *const *)b;
    return x->peer != y->peer ? (x->peer > y->peer) - (x->peer < y->peer)
                              : (x->receive_id > y->receive_id) -
                                    (x->receive_id < y->receive_id);
}

/* How a box is cut: `columns` bytes of `rows` rows of `planes` planes. */
typedef struct cut {
    uint64_t columns, rows, planes;
} cut;

static cut cut_of(const wi_copy_box *box, uint64_t piece)
{
    if (box->width > piece)
        return (cut){piece, 1, 1};
    if (box->width * box->rows > piece)
        return (cut){box->width, piece / box->width, 1};
    uint64_t planes = piece / (box->width * box->rows);
    return (cut){box->width, box->rows,
                 planes < box->planes ? planes : box->planes};
}

static uint64_t parts(uint64_t whole, uint64_t part)
{
    return (whole + part - 1) / part;
}

static uint64_t messages_of(const wi_copy_box *box, uint64_t piece)
{
    if (!box->width)
        return 0;
    cut c = cut_of(box, piece);
    return parts(box->width, c.columns) * parts(box->rows, c.rows) *
           parts(box->planes, c.planes);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Message `k` of a box, as a part of the caller's memory. */
static wi_remote_box message_of(const wi_exchange_item *item, int set,
                                bool sends, uint64_t piece, uint64_t k)
{
    const wi_copy_box *box = sends ? &item->out[set] : &item->in[set];
    cut c = cut_of(box, piece);
    uint64_t across = parts(box->width, c.columns);
    uint64_t down = parts(box->rows, c.rows);
    uint64_t column = k % across * c.columns;
    uint64_t row = k / across % down * c.rows;
    uint64_t plane = k / across / down * c.planes;
    uint64_t pitch = sends ? box->from_pitch : box->to_pitch;
    uint64_t pitch_plane = sends ? box->from_plane : box->to_plane;
    char *start = sends ? (char *)(uintptr_t)box->from : (char *)box->to;
    return (wi_remote_box){
        .peer = item->peer,
        .address = start + plane * pitch_plane + row * pitch + column,
        .width = least(c.columns, box->width - column),
        .rows = least(c.rows, box->rows - row),
        .planes = least(c.planes, box->planes - plane),
        .pitch = pitch,
        .plane = pitch_plane,
    };
}

static wharf_status load_fill(const wharf_exchange *x, int set, bool sends,
                              wi_exchange_item **order, int items,
                              wi_far_load *l)
{
    uint64_t piece = x->far->piece, total = 0;
    for (int i = 0; i < items; i++)
        total += messages_of(sends ? &order[i]->out[set] : &order[i]->in[set],
                             piece);
    if (total > WI_FAR_MESSAGES)
        return wi_fail(WHARF_ELIMIT,
                       "set WHARF_EXCHANGE_PIECE higher, or exchange less",
                       "%llu messages in one round, at most %d are possible",
                       (unsigned long long)total, WI_FAR_MESSAGES);
    l->box = wi_calloc((size_t)total, sizeof *l->box);
    l->copy = wi_calloc((size_t)total, sizeof *l->copy);
    if (!l->box || !l->copy)
        return WHARF_ENOMEM;
    for (int i = 0; i < items; i++) {
        uint64_t count = messages_of(
            sends ? &order[i]->out[set] : &order[i]->in[set], piece);
        for (uint64_t k = 0; k < count; k++)
            l->box[l->count++] = message_of(order[i], set, sends, piece, k);
    }
    return WHARF_OK;
}

wharf_status wi_far_cut(wharf_exchange *x)
{
    wi_exchange_item **order = wi_calloc((size_t)x->items, sizeof *order);
    int items = 0;
    wharf_status status = order ? WHARF_OK : WHARF_ENOMEM;
    for (int i = 0; status == WHARF_OK && i < x->items; i++)
        if (wi_far_is(&x->item[i]))
            order[items++] = &x->item[i];
    for (int sends = 0; sends < 2 && status == WHARF_OK; sends++) {
        qsort(order, (size_t)items, sizeof *order,
              sends ? by_send : by_receive);
        for (int s = 0; s < x->sets && status == WHARF_OK; s++)
            status = load_fill(x, s, sends, order, items,
                               sends ? &x->far->out[s] : &x->far->in[s]);
    }
    wi_free(order);
    return status;
}
