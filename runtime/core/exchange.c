/* SPDX-License-Identifier: MIT */
/*
 * The life of an exchange. Creation has two circles of ranks that must agree:
 * the node, whose words for signals are taken by all of its ranks alike, and
 * the communicator, which may reach other nodes. They take turns: the node
 * meets, the communicator compares plans, the node takes words, and where a
 * communicator is wider than the node it agrees once more.
 */
#include "wharf/exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/exchange.h"

/* ---- Objects
 * -------------------------------------------------------------------- */

static void exchange_delete(wharf_exchange *x)
{
    if (!x)
        return;
    wi_exchange_far_drop(x);
    wi_exchange_stream_drop(x);
    wi_handle_remove(x);
    wi_group_close(x->group);
    wi_free(x->item);
    wi_free(x->halves);
    wi_free(x->boxes);
    wi_free(x->peer);
    wi_free(x->use);
    wi_free(x->run);
    wi_free(x);
}

static wharf_status exchange_new(wharf_node *node, const wi_exchange_ask *ask,
                                 wharf_exchange **out)
{
    wharf_exchange *x;
    if (!WI_NEW(x))
        return WHARF_ENOMEM;
    x->node = node;
    x->sets = ask->options.sets;
    x->forced = ask->options.ready == WHARF_SWITCH_ON;
    x->capturable = ask->options.capturable == WHARF_SWITCH_ON;
    x->peer = wi_calloc((size_t)node->size, sizeof *x->peer);
    x->run = wi_calloc((size_t)node->size, sizeof *x->run);
    wharf_status status = WHARF_ENOMEM;
    if (x->peer && x->run)
        status = wi_handle_add(x, WI_HANDLE_EXCHANGE);
    if (status != WHARF_OK) {
        exchange_delete(x);
        return status;
    }
    for (int r = 0; r < node->size; r++)
        x->run[r] =
            (wi_pad_run){.rank = r, .page = -1, .count = 2 * node->size};
    *out = x;
    return WHARF_OK;
}

/* ---- Peers on this node
 * --------------------------------------------------------- */

static wi_exchange_peer *peer_find(wharf_exchange *x, int node_rank)
{
    for (int p = 0; p < x->peers; p++)
        if (x->peer[p].node_rank == node_rank)
            return &x->peer[p];
    x->peer[x->peers] = (wi_exchange_peer){.node_rank = node_rank};
    return &x->peer[x->peers++];
}

static bool any_bytes(const wi_copy_box *boxes, int sets)
{
    for (int s = 0; s < sets; s++)
        if (boxes[s].width)
            return true;
    return false;
}

/* Is the proof in wharf/exchange.h good for puts of one rank to another,
 * which `answers` if it sends back? */
static bool needs_ready(const wharf_exchange *x, bool answers)
{
    return x->forced || x->sets < 2 || !answers;
}

static void peers_find(wharf_exchange *x)
{
    for (int i = 0; i < x->items; i++) {
        const wi_exchange_item *item = &x->item[i];
        bool sends = any_bytes(item->out, x->sets);
        bool receives = any_bytes(item->in, x->sets);
        if (item->node_rank < 0 || item->node_rank == x->node->rank ||
            (!sends && !receives))
            continue;
        wi_exchange_peer *peer = peer_find(x, item->node_rank);
        peer->sends |= sends;
        peer->receives |= receives;
    }
    for (int p = 0; p < x->peers; p++) {
        wi_exchange_peer *peer = &x->peer[p];
        peer->waits = peer->sends && needs_ready(x, peer->receives);
        peer->owes = peer->receives && needs_ready(x, peer->sends);
    }
}

/* Ranks of one GPU whose waiting kernels fit on it together, with room to
 * spare: each has up to 64 blocks. */
#define WAITING_MOST 8

/* Why kernels that wait on the rank's GPU are in the way of other ranks there;
 * NULL: they are not. */
static const char *crowded(const wharf_node *node, int rank)
{
    const wi_gpu *gpu = &node->gpu[node->gpu_of_rank[rank]];
    if (gpu->users > 1 && !(gpu->desc.caps & WI_CAP_MPS))
        return "several ranks share one of the two GPUs by time slices";
    return gpu->users > WAITING_MOST
               ? "waiting kernels of so many ranks would fill one of the GPUs"
               : NULL;
}

/* A rank waits for all its neighbours in one kernel. Where that would keep
 * other ranks from its GPU it waits by memory operations, even for a neighbour
 * that has a GPU to itself. */
static wharf_status choose_way(const wharf_exchange *x, int from, int to,
                               wi_signal_way *way)
{
    const wharf_node *node = x->node;
    wharf_mechanism wanted = (wharf_mechanism)node->settings.mechanism;
    const char *why = NULL;
    wi_signal_facts facts;
    wi_signal_facts_find(node, from, to, &facts);
    if (wanted == WHARF_MECHANISM_AUTO && !facts.host && facts.mem_ops_from &&
        facts.mem_ops_to) {
        why = crowded(node, from);
        why = why ? why : crowded(node, to);
    }
    wharf_status status = wi_signal_choose(
        &facts, why ? WHARF_MECHANISM_MEM_OPS : wanted, x->capturable, way);
    if (status == WHARF_OK && why)
        snprintf(way->reason, sizeof way->reason, "%s",
                 facts.same_gpu && !facts.mps
                     ? "one GPU shared by time slices, which a waiting kernel "
                       "would use up"
                     : why);
    return status;
}

/* Alike on both ranks of a pair. */
static wharf_status choose_ways(wharf_exchange *x)
{
    wharf_node *node = x->node;
    wharf_status status = WHARF_OK;
    for (int p = 0; p < x->peers && status == WHARF_OK; p++) {
        wi_exchange_peer *peer = &x->peer[p];
        status = choose_way(x, node->rank, peer->node_rank, &peer->to);
        if (status == WHARF_OK)
            status = choose_way(x, peer->node_rank, node->rank, &peer->from);
        if (status == WHARF_OK)
            wi_signal_tell_slow(node, node->rank, peer->node_rank, &peer->to);
    }
    return status;
}

/* ---- Words
 * ---------------------------------------------------------------------- */

uint32_t *wi_exchange_arrival(const wharf_exchange *x, int owner, int from)
{
    return wi_pad_word(x->node, &x->run[owner], from);
}

uint32_t *wi_exchange_readiness(const wharf_exchange *x, int owner, int from)
{
    return wi_pad_word(x->node, &x->run[owner], x->node->size + from);
}

static wharf_status words_start(const wharf_exchange *x)
{
    const wharf_node *node = x->node;
    const wi_device_ops *ops = node->device->ops;
    uint32_t first = wi_signal_first_epoch;
    wharf_status status = wi_pad_set(node, &x->run[node->rank], 0);
    for (int p = 0; p < x->peers && status == WHARF_OK; p++) {
        const wi_exchange_peer *peer = &x->peer[p];
        bool host = node->backend == WHARF_BACKEND_HOST;
        if (first == 0 || (!host && peer->from.counts))
            continue;
        status = ops->write(node->device,
                            wi_exchange_arrival(x, node->rank, peer->node_rank),
                            &first, sizeof first);
        if (status == WHARF_OK)
            status = ops->write(
                node->device,
                wi_exchange_readiness(x, node->rank, peer->node_rank), &first,
                sizeof first);
    }
    return status;
}

/* This rank's part, once words are taken. */
static wharf_status prepare(wharf_exchange *x)
{
    wharf_status status = choose_ways(x);
    if (status == WHARF_OK)
        status = words_start(x);
    if (status == WHARF_OK && x->node->backend != WHARF_BACKEND_HOST)
        status = wi_exchange_stream_prepare(x);
    if (status == WHARF_OK && x->group)
        status = wi_exchange_far_prepare(x);
    return status;
}

/* ---- Creation
 * ------------------------------------------------------------------- */

/* Plans are compared by the communicator. The status is alike on all ranks of
 * it; `met` is the node's, which a communicator that reaches further has to
 * learn. */
static wharf_status compare(wharf_exchange *x, wharf_status met,
                            wi_deadline deadline)
{
    if (!x || !x->group || (met != WHARF_OK && !wi_group_wider(x->group)))
        return met;
    wharf_status status = wi_group_open(x->group, met, deadline);
    return status == WHARF_OK ? wi_exchange_match(x, deadline) : status;
}

/* Words and what else a rank needs: alike on all ranks of the node. */
static wharf_status build(wharf_exchange *x, wharf_status own,
                          wi_deadline deadline)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): met with OK */
    wharf_node *node = x->node;
    wharf_status status = wi_comm_agree(node->comm, own, deadline);
    if (status != WHARF_OK)
        return status;
    peers_find(x);
    status = wi_pad_take(node, node->size, x->run, deadline);
    if (status != WHARF_OK)
        return status;
    status = wi_comm_agree(node->comm, prepare(x), deadline);
    if (status != WHARF_OK) {
        wi_pad_give(node, node->size, x->run);
        wi_pad_trim(node, deadline);
    }
    return status;
}

/*
 * The last word of communicators that reach further than the node: another
 * node may have failed. Then the words of its ranks here go back, those of
 * others' plans stay, and everybody must know which.
 */
static wharf_status conclude(wharf_exchange *x, wharf_status built,
                             wi_deadline deadline)
{
    wharf_node *node = x->node;
    int32_t outcome[WHARF_MAX_RANKS];
    wharf_status status = built;
    if (x->group && wi_group_wider(x->group))
        status = wi_group_agree(x->group, built, deadline);
    if (built != WHARF_OK)
        return status;
    wharf_error cause = *wi_error_record();
    int32_t mine = status;
    wharf_status told =
        wi_comm_allgather(node->comm, &mine, sizeof mine, outcome, deadline);
    if (told != WHARF_OK) {
        wi_pad_give(node, node->size, x->run);
        return told;
    }
    for (int r = 0; r < node->size; r++)
        if (outcome[r] != WHARF_OK) {
            wi_pad_give(node, 1, &x->run[r]);
            x->partial = true;
        }
    /* As on the ranks that have one: numbers of objects are alike. */
    if (status != WHARF_OK)
        node->serial++;
    *wi_error_record() = cause;
    return status;
}

static bool any_wider(const wi_meeting *all, int size)
{
    for (int r = 0; r < size; r++)
        if (all[r].size)
            return true;
    return false;
}

static wharf_status make_plan(wharf_exchange *x, wharf_status met, bool wider,
                              wi_deadline deadline)
{
    wharf_status status = compare(x, met, deadline);
    if (met == WHARF_OK)
        status = build(x, status, deadline);
    return wider ? conclude(x, status, deadline) : status;
}

/* A rank that failed before still needs a group, to tell the others. */
static wharf_status list(wharf_node *node, const wi_exchange_ask *ask,
                         wharf_status own, wharf_exchange **x)
{
    wharf_error cause = *wi_error_record();
    wharf_status status = exchange_new(node, ask, x);
    if (status == WHARF_OK && ask->comm != MPI_COMM_NULL)
        status = wi_group_new(ask->comm, node->comm, &(*x)->group);
    if (own != WHARF_OK) {
        *wi_error_record() = cause;
        return own;
    }
    return status == WHARF_OK ? wi_exchange_list(*x, ask) : status;
}

/* A rank that could not even list its transfers comes to what the others of
 * its communicator do after a failed meeting: make_plan's agreements. */
static void tell_others(wharf_node *node, const wi_exchange_ask *ask,
                        wharf_status met, wi_deadline deadline)
{
    wharf_error cause = *wi_error_record();
    wi_group *group = wi_group_spare(ask->comm, node->comm);
    if (group && wi_group_wider(group)) {
        *wi_error_record() = cause;
        wharf_ignore(wi_group_open(group, met, deadline));
        *wi_error_record() = cause;
        wharf_ignore(wi_group_agree(group, met, deadline));
    }
    wi_group_close(group);
    *wi_error_record() = cause;
}

wharf_status wi_exchange_make(wharf_node *node, const wi_exchange_ask *ask,
                              wharf_status own, wharf_exchange **out)
{
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_exchange *x = NULL;
    wi_meeting mine = {.call = WI_CALL_EXCHANGE_CREATE};
    mine.status = list(node, ask, own, &x);
    mine.size = x && x->group && wi_group_wider(x->group);
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    bool grouped = x && (x->group || ask->comm == MPI_COMM_NULL);
    if (status == WHARF_OK || (wi_all_came(status) && grouped))
        status = make_plan(x, status, any_wider(all, node->size), deadline);
    else if (wi_all_came(status) && ask->comm != MPI_COMM_NULL)
        tell_others(node, ask, status, deadline);
    if (status != WHARF_OK) {
        wharf_error cause = *wi_error_record();
        exchange_delete(x);
        *wi_error_record() = cause;
        return status;
    }
    x->serial = ++node->serial;
    x->next = node->exchanges;
    node->exchanges = x;
    wi_stat_add(WI_STAT_live_exchanges, 1);
    *out = x;
    return WHARF_OK;
}

wharf_status wharf_exchange_create(wharf_node *node, MPI_Comm comm, int count,
                                   const wharf_exchange_transfer *transfers,
                                   const wharf_exchange_options *options,
                                   wharf_exchange **exchange)
{
    wi_exchange_ask ask = {
        .comm = comm, .count = count, .transfers = transfers};
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    wharf_status own = wi_exchange_options_read(options, &ask.options);
    if (own == WHARF_OK && !exchange)
        own = wi_fail(WHARF_EARG, "pass the address of a variable",
                      "exchange is NULL");
    return wi_node_leave(node, wi_exchange_make(node, &ask, own, exchange));
}

/* ---- End
 * ------------------------------------------------------------------------ */

static void discard(wharf_exchange *x)
{
    wharf_node *node = x->node;
    for (wharf_exchange **at = &node->exchanges; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            break;
        }
    /* Given back by all ranks or none: else by the node's close. */
    if (!x->partial)
        wi_pad_give(node, node->size, x->run);
    exchange_delete(x);
    wi_stat_add(WI_STAT_live_exchanges, -1);
}

void wi_exchange_close_all(wharf_node *node)
{
    while (node->exchanges) {
        wi_log(WI_LOG_WARN,
               "exchange %llu was still there when its node was closed",
               (unsigned long long)node->exchanges->serial);
        discard(node->exchanges);
    }
}

static wharf_status check_idle(const wharf_exchange *x)
{
    if (!x->started || x->broken)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "finish the round first",
                   "round %llu of the exchange is started and not finished",
                   (unsigned long long)x->round);
}

/* After the meeting no stream of this node has work left that uses the words;
 * what goes to other nodes was over when it was finished. */
static wharf_status destroy_locked(wharf_exchange **out)
{
    wharf_exchange *x = *out;
    wharf_node *node = x->node;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {
        .call = WI_CALL_EXCHANGE_DESTROY,
        .serial = x->serial,
        .status = check_idle(x),
    };
    if (mine.status == WHARF_OK)
        mine.status = wi_signal_quiesce(node);
    wi_meeting all[WHARF_MAX_RANKS];
    /* Not all would come. What the words of such a plan say is for nobody. */
    wharf_status status = (wharf_status)mine.status;
    if (!x->partial)
        status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH || status == WHARF_ESTATE)
        return status;
    wharf_error cause = *wi_error_record();
    discard(x);
    *out = NULL;
    *wi_error_record() = cause;
    return status;
}

wharf_status wharf_exchange_destroy(wharf_exchange **exchange)
{
    wharf_status status =
        wi_exchange_enter(__func__, exchange ? *exchange : NULL);
    if (status == WHARF_OK) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): entered */
        wharf_node *node = (*exchange)->node;
        pthread_mutex_lock(&node->collective);
        status = destroy_locked(exchange);
        pthread_mutex_unlock(&node->collective);
    } else if (exchange) {
        *exchange = NULL;
    }
    return wi_call_end(status);
}
