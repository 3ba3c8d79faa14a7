/* SPDX-License-Identifier: MIT */
/*
 * Comparing plans: every rank sends each peer a description of its transfers
 * with it, and looks for the counterpart of each of its own sides. What does
 * not match is found by both ranks and told to all.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/exchange.h"

/* A transfer as it travels; 2 * sets halves follow: the sends, the receives. */
typedef struct card {
    int32_t index; /* in its rank's list */
    int32_t send_id, receive_id;
    int32_t unused;
} card;

/* What every rank tells every other one first: must agree. */
typedef struct greeting {
    int32_t sets, ready, capturable, remote;
    int64_t piece_bytes;
    /* Need not agree: */
    int64_t number; /* proposed for the plan */
    int64_t direct; /* MPI gets the rank's boxes as they are */
} greeting;

typedef struct matching {
    wharf_exchange *x;
    int size;
    int *bytes_to, *bytes_from;
    char *out; /* cards for all peers, in rank order */
    void *in;
    size_t *start; /* of each rank's cards in `in` */
} matching;

static size_t card_bytes(const wharf_exchange *x)
{
    return sizeof(card) + 2 * (size_t)x->sets * sizeof(wi_exchange_half);
}

/* ---- Settings that must agree
 * --------------------------------------------------- */

static wharf_status compare_greetings(const wharf_exchange *x,
                                      const greeting *all)
{
    for (int r = 1; r < wi_group_size(x->group); r++) {
        const struct {
            const char *name;
            long long has, first;
        } fields[] = {
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): agreed on */
            {"options.sets", all[r].sets, all[0].sets},
            {"options.ready", all[r].ready, all[0].ready},
            {"options.capturable", all[r].capturable, all[0].capturable},
            {"WHARF_EXCHANGE_REMOTE", all[r].remote, all[0].remote},
            {"WHARF_EXCHANGE_PIECE", all[r].piece_bytes, all[0].piece_bytes},
        };
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            if (fields[i].has == fields[i].first)
                continue;
            wi_fail(WHARF_EMISMATCH,
                    "pass the same options and environment on every rank of "
                    "the communicator",
                    "rank %d has %s %lld, rank 0 has %lld", r, fields[i].name,
                    fields[i].has, fields[i].first);
            return wi_error_about(wi_group_node_rank(x->group, r));
        }
    }
    return WHARF_OK;
}

static void greetings_use(wharf_exchange *x, const greeting *all)
{
    x->all_direct = true;
    for (int r = 0; r < wi_group_size(x->group); r++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): agreed on */
        x->all_direct &= all[r].direct != 0;
        if (all[r].number > x->number)
            x->number = all[r].number;
    }
    wi_remote_take(x->number);
}

static wharf_status greet(wharf_exchange *x, wi_deadline deadline)
{
    char reason[WHARF_MAX_REASON + 1];
    const wi_node_settings *settings = &x->node->settings;
    greeting mine = {
        .sets = x->sets,
        .ready = x->forced,
        .capturable = x->capturable,
        .remote = settings->exchange_remote != 0,
        .piece_bytes = settings->exchange_piece,
        .number = wi_remote_propose(),
        .direct = wi_exchange_far_direct(x, reason),
    };
    greeting *all = wi_calloc((size_t)wi_group_size(x->group), sizeof *all);
    wharf_status status =
        wi_group_agree(x->group, all ? WHARF_OK : WHARF_ENOMEM, deadline);
    if (status == WHARF_OK)
        status =
            wi_group_allgather(x->group, &mine, sizeof mine, all, deadline);
    if (status == WHARF_OK)
        status = compare_greetings(x, all);
    if (status == WHARF_OK)
        greetings_use(x, all);
    if (!wi_group_stuck(x->group))
        wi_free(all);
    return status;
}

/* ---- Cards
 * ---------------------------------------------------------------------- */

static wharf_status matching_begin(wharf_exchange *x, matching *m)
{
    *m = (matching){.x = x, .size = wi_group_size(x->group)};
    m->bytes_to = wi_calloc((size_t)m->size, sizeof(int));
    m->bytes_from = wi_calloc((size_t)m->size, sizeof(int));
    m->start = wi_calloc((size_t)m->size, sizeof *m->start);
    m->out = wi_calloc((size_t)x->items, card_bytes(x));
    return m->bytes_to && m->bytes_from && m->start && m->out ? WHARF_OK
                                                              : WHARF_ENOMEM;
}

static void matching_end(matching *m)
{
    if (wi_group_stuck(m->x->group))
        return;
    wi_free(m->bytes_to);
    wi_free(m->bytes_from);
    wi_free(m->start);
    wi_free(m->out);
    wi_free(m->in);
}

static void card_write(const wharf_exchange *x, int index, char *to)
{
    const wi_exchange_item *item = &x->item[index];
    size_t halves = (size_t)x->sets * sizeof(wi_exchange_half);
    card head = {
        .index = index,
        .send_id = item->send_id,
        .receive_id = item->receive_id,
    };
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, item->send, halves);
    memcpy(to + sizeof head + halves, item->receive, halves);
}

/* Sorted by peer, as MPI wants them. */
static void cards_write(matching *m)
{
    const wharf_exchange *x = m->x;
    size_t bytes = card_bytes(x), at = 0;
    for (int i = 0; i < x->items; i++)
        if (x->item[i].peer != MPI_PROC_NULL)
            m->bytes_to[x->item[i].peer] += (int)bytes;
    for (int r = 0; r < m->size; r++) {
        m->start[r] = at;
        at += (size_t)m->bytes_to[r];
    }
    for (int i = 0; i < x->items; i++)
        if (x->item[i].peer != MPI_PROC_NULL) {
            card_write(x, i, m->out + m->start[x->item[i].peer]);
            m->start[x->item[i].peer] += bytes;
        }
}

static void cards_find(matching *m)
{
    size_t at = 0;
    for (int r = 0; r < m->size; r++) {
        m->start[r] = at;
        at += (size_t)m->bytes_from[r];
    }
}

/* ---- Counterparts
 * --------------------------------------------------------------- */

/* A peer's transfer, as it came. */
typedef struct counterpart {
    card head;
    wi_exchange_half send[WHARF_MAX_EXCHANGE_SETS];
    wi_exchange_half receive[WHARF_MAX_EXCHANGE_SETS];
} counterpart;

static void card_read(const matching *m, int peer, int k, counterpart *out)
{
    size_t halves = (size_t)m->x->sets * sizeof(wi_exchange_half);
    const char *at =
        (const char *)m->in + m->start[peer] + (size_t)k * card_bytes(m->x);
    memcpy(&out->head, at, sizeof out->head);
    memcpy(out->send, at + sizeof out->head, halves);
    memcpy(out->receive, at + sizeof out->head + halves, halves);
}

/* Who sends what to whom, for messages: both ranks say the same of it. */
typedef struct edge {
    char from[64], to[64];
    int id, from_index, to_index;
} edge;

static edge edge_of(const matching *m, const wi_exchange_item *item, bool sends,
                    const counterpart *other)
{
    const wharf_exchange *x = m->x;
    int mine = (int)(item - x->item), me = wi_group_rank(x->group);
    int theirs = other ? other->head.index : -1;
    edge e = {
        .id = sends ? item->send_id : item->receive_id,
        .from_index = sends ? mine : theirs,
        .to_index = sends ? theirs : mine,
    };
    wi_group_rank_text(x->group, sends ? me : item->peer, e.from);
    wi_group_rank_text(x->group, sends ? item->peer : me, e.to);
    return e;
}

static wharf_status missing(const matching *m, const wi_exchange_item *item,
                            bool sends)
{
    edge e = edge_of(m, item, sends, NULL);
    if (sends)
        return wi_fail(WHARF_EMISMATCH,
                       "list the transfer on both ranks, with equal ids",
                       "%s sends to %s with send_id %d (its transfer %d), and "
                       "that rank receives nothing from it with receive_id %d",
                       e.from, e.to, e.id, e.from_index, e.id);
    return wi_fail(WHARF_EMISMATCH,
                   "list the transfer on both ranks, with equal ids",
                   "%s receives from %s with receive_id %d (its transfer %d), "
                   "and that rank sends nothing to it with send_id %d",
                   e.to, e.from, e.id, e.to_index, e.id);
}

static wharf_status unequal(const matching *m, const wi_exchange_item *item,
                            bool sends, const counterpart *other, int set)
{
    edge e = edge_of(m, item, sends, other);
    const wi_exchange_half *from = sends ? item->send : other->send;
    const wi_exchange_half *to = sends ? other->receive : item->receive;
    return wi_fail(WHARF_EMISMATCH, "give both boxes the same size",
                   "%s sends %llu bytes in set %d (transfer %d, id %d) and %s "
                   "receives %llu (its transfer %d)",
                   e.from, (unsigned long long)wi_exchange_bytes(&from[set]),
                   set, e.from_index, e.id, e.to,
                   (unsigned long long)wi_exchange_bytes(&to[set]), e.to_index);
}

static wharf_status unlike(const matching *m, const wi_exchange_item *item,
                           bool sends, const counterpart *other, int set)
{
    edge e = edge_of(m, item, sends, other);
    const wi_exchange_half *a = sends ? &item->send[set] : &other->send[set];
    const wi_exchange_half *b =
        sends ? &other->receive[set] : &item->receive[set];
    return wi_fail(
        WHARF_EMISMATCH, "give both boxes one shape, or one of them no gaps",
        "%s sends %llu x %llu x %llu bytes in set %d (transfer %d) "
        "and %s receives %llu x %llu x %llu (its transfer %d)",
        e.from, (unsigned long long)a->width, (unsigned long long)a->rows,
        (unsigned long long)a->planes, set, e.from_index, e.to,
        (unsigned long long)b->width, (unsigned long long)b->rows,
        (unsigned long long)b->planes, e.to_index);
}

static wharf_status fit(const matching *m, wi_exchange_item *item, bool sends,
                        const counterpart *other)
{
    const wi_exchange_half *from = sends ? item->send : other->send;
    const wi_exchange_half *to = sends ? other->receive : item->receive;
    wi_copy_box *box = sends ? item->out : item->in;
    for (int s = 0; s < m->x->sets; s++) {
        if (wi_exchange_bytes(&from[s]) != wi_exchange_bytes(&to[s]))
            return unequal(m, item, sends, other, s);
        if (from[s].width && !wi_exchange_join(&from[s], &to[s], &box[s]))
            return unlike(m, item, sends, other, s);
    }
    return WHARF_OK;
}

/* Where a peer's box, or the caller's, lies here; NULL on another node. */
static wharf_status locate(wharf_exchange *x, const wi_exchange_half *half,
                           int node_rank, char **out)
{
    const wharf_buffer *buffer = x->node->buffers;
    while (buffer && buffer->serial != half->serial)
        buffer = buffer->next;
    if (!buffer)
        return wi_fail(WHARF_ESTATE, "keep buffers attached on every rank",
                       "buffer %llu, which node rank %d names, is not attached "
                       "here",
                       (unsigned long long)half->serial, node_rank);
    *out =
        (char *)wi_mapping_segment(buffer->mapping, node_rank) + half->offset;
    for (int u = 0; u < x->uses; u++)
        if (x->use[u].serial == half->serial)
            return WHARF_OK;
    x->use[x->uses++] = (wi_exchange_use){buffer, half->serial};
    return WHARF_OK;
}

static wharf_status place(const matching *m, wi_exchange_item *item, bool sends,
                          const counterpart *other)
{
    wharf_exchange *x = m->x;
    wharf_status status = WHARF_OK;
    for (int s = 0; s < x->sets && status == WHARF_OK; s++) {
        wi_copy_box *box = sends ? &item->out[s] : &item->in[s];
        char *mine = NULL, *theirs = NULL;
        if (!box->width)
            continue;
        status = locate(x, sends ? &item->send[s] : &item->receive[s],
                        x->node->rank, &mine);
        if (status == WHARF_OK && sends && item->node_rank >= 0)
            status = locate(x, &other->receive[s], item->node_rank, &theirs);
        box->from = sends ? mine : NULL;
        box->to = sends ? theirs : mine;
    }
    return status;
}

static wharf_status match_side(const matching *m, wi_exchange_item *item,
                               bool sends)
{
    const wharf_exchange *x = m->x;
    counterpart other;
    if (!wi_exchange_any(sends ? item->send : item->receive, x->sets))
        return WHARF_OK;
    int cards = m->bytes_from[item->peer] / (int)card_bytes(x);
    for (int k = 0; k < cards; k++) {
        card_read(m, item->peer, k, &other);
        bool same = sends ? other.head.receive_id == item->send_id
                          : other.head.send_id == item->receive_id;
        if (!same ||
            !wi_exchange_any(sends ? other.receive : other.send, x->sets))
            continue;
        wharf_status status = fit(m, item, sends, &other);
        return status == WHARF_OK ? place(m, item, sends, &other) : status;
    }
    return missing(m, item, sends);
}

static wharf_status match_all(const matching *m)
{
    wharf_exchange *x = m->x;
    /* Each side names one buffer of the caller's and one of a peer's. */
    x->use = wi_calloc(4 * (size_t)x->items * (size_t)x->sets, sizeof *x->use);
    wharf_status status = x->use ? WHARF_OK : WHARF_ENOMEM;
    for (int i = 0; i < x->items && status == WHARF_OK; i++) {
        status = match_side(m, &x->item[i], true);
        if (status == WHARF_OK)
            status = match_side(m, &x->item[i], false);
    }
    return status;
}

wharf_status wi_exchange_match(wharf_exchange *x, wi_deadline deadline)
{
    matching m;
    wharf_status status = greet(x, deadline);
    if (status != WHARF_OK)
        return status;
    status = wi_group_agree(x->group, matching_begin(x, &m), deadline);
    if (status == WHARF_OK) {
        cards_write(&m);
        status = wi_group_alltoall(x->group, m.bytes_to, m.out, m.bytes_from,
                                   &m.in, deadline);
    }
    if (status == WHARF_OK) {
        cards_find(&m);
        status = wi_group_agree(x->group, match_all(&m), deadline);
    }
    matching_end(&m);
    return status;
}
