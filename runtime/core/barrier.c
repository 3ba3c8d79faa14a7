/* SPDX-License-Identifier: MIT */
/*
 * The life of a barrier: who its members are, by which mechanism they meet,
 * where its words lie. What a member does is in barrier_plan.c, how it enters
 * in barrier_enter.c.
 */
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/barrier.h"
#include "core/barrier_plan.h"
#include "core/core.h"
#include "core/signal.h"

/* ---- Arguments
 * ------------------------------------------------------------------ */

static wharf_status check_ranks(const wharf_node *node, int count,
                                const int *ranks)
{
    uint8_t seen[WHARF_MAX_RANKS] = {0};
    if (count < 0 || count > node->size)
        return wi_fail(WHARF_EARG, "pass 0 for all ranks, or how many",
                       "count is %d, the node has %d ranks", count, node->size);
    if ((count == 0) != (ranks == NULL))
        return wi_fail(WHARF_EARG, "pass count ranks, or NULL and 0 for all",
                       "count is %d and ranks is %s", count,
                       ranks ? "not NULL" : "NULL");
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= node->size)
            return wi_fail(WHARF_EARG, "pass node ranks",
                           "ranks[%d] is %d, the node has ranks 0 to %d", i,
                           ranks[i], node->size - 1);
        if (seen[ranks[i]]++)
            return wi_fail(WHARF_EARG, "name every rank once",
                           "rank %d is in the list of ranks twice", ranks[i]);
    }
    return WHARF_OK;
}

/* Two lists with one hash are not met in practice. */
static uint64_t hash_of(int count, const int *ranks)
{
    return wi_hash(WI_HASH_START, ranks, (size_t)count * sizeof *ranks);
}

static wharf_status compare_lists(const wi_meeting *all, int size)
{
    for (int r = 1; r < size; r++)
        if (all[r].size != all[0].size) {
            wi_fail(WHARF_EMISMATCH,
                    "pass the same list, in the same order, "
                    "on every rank of the node",
                    "rank %d passed another list of ranks than rank 0", r);
            return wi_error_about(r);
        }
    return WHARF_OK;
}

/* ---- Objects
 * -------------------------------------------------------------------- */

static void barrier_delete(wharf_barrier *barrier)
{
    if (!barrier)
        return;
    wi_handle_remove(barrier);
    pthread_mutex_destroy(&barrier->lock);
    wi_free(barrier->rank);
    wi_free(barrier->run);
    wi_free(barrier);
}

static wharf_status barrier_new(wharf_node *node, int count, const int *ranks,
                                wharf_barrier **out)
{
    wharf_barrier *barrier;
    if (!WI_NEW(barrier))
        return WHARF_ENOMEM;
    pthread_mutex_init(&barrier->lock, NULL);
    barrier->node = node;
    barrier->members = count ? count : node->size;
    barrier->me = -1;
    barrier->epoch = wi_signal_first_epoch;
    size_t n = (size_t)barrier->members;
    barrier->rank = wi_calloc(n, sizeof *barrier->rank);
    barrier->run = wi_calloc(n, sizeof *barrier->run);
    wharf_status status = WHARF_ENOMEM;
    if (barrier->rank && barrier->run)
        status = wi_handle_add(barrier, WI_HANDLE_BARRIER);
    if (status != WHARF_OK) {
        barrier_delete(barrier);
        return status;
    }
    for (int m = 0; m < barrier->members; m++) {
        barrier->rank[m] = count ? ranks[m] : m;
        barrier->run[m] = (wi_pad_run){.rank = barrier->rank[m], .page = -1};
        if (barrier->rank[m] == node->rank)
            barrier->me = m;
    }
    *out = barrier;
    return WHARF_OK;
}

/* ---- Mechanism
 * ------------------------------------------------------------------ */

/* What holds for every pair of members. */
typedef struct pairs {
    bool kernel;  /* a kernel is the best for it */
    bool mem_ops; /* memory operations are possible */
    bool atomics;
    bool slow;    /* kernels wait for time slices */
    int from, to; /* the first pair for which a kernel is not the best */
    char reason[WHARF_MAX_REASON + 1]; /* of that pair, else of the first one */
} pairs;

/* The first two members of each GPU: all pairs of two GPUs, or of one, are
 * alike. So many ranks cost no more than their GPUs. */
static int find_types(const wharf_barrier *barrier, int *type)
{
    int seen[WHARF_MAX_GPUS] = {0};
    int count = 0;
    for (int m = 0; m < barrier->members; m++)
        if (seen[barrier->node->gpu_of_rank[barrier->rank[m]]]++ < 2)
            type[count++] = barrier->rank[m];
    return count;
}

static void pairs_find(const wharf_barrier *barrier, pairs *p)
{
    int type[2 * WHARF_MAX_GPUS];
    int count = find_types(barrier, type);
    *p = (pairs){.kernel = true, .mem_ops = true, .atomics = true};
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            wi_signal_facts facts;
            wi_signal_way way;
            if (a == b)
                continue;
            wi_signal_facts_find(barrier->node, type[a], type[b], &facts);
            wharf_ignore(
                wi_signal_choose(&facts, WHARF_MECHANISM_AUTO, false, &way));
            bool best = way.mechanism == WHARF_MECHANISM_KERNEL && !way.slow;
            if (!p->reason[0] || (p->kernel && !best)) {
                memcpy(p->reason, way.reason, sizeof p->reason);
                p->from = type[a];
                p->to = type[b];
            }
            p->kernel &= best;
            p->mem_ops &= facts.mem_ops_from && facts.mem_ops_to;
            p->atomics &= wi_signal_atomics(&facts);
            p->slow |= facts.same_gpu && !facts.mps;
        }
}

static wharf_status choose_wanted(const pairs *p, wharf_mechanism wanted,
                                  wi_signal_way *way)
{
    const char *why = NULL;
    if (wanted == WHARF_MECHANISM_HOST)
        why = "it is that of the host backend only";
    else if (wanted != WHARF_MECHANISM_KERNEL && !p->mem_ops)
        why = "a GPU cannot do stream memory operations";
    else if (wanted == WHARF_MECHANISM_HYBRID && !p->atomics)
        why = "atomics do not reach all members' words";
    if (why)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "leave options.mechanism and WHARF_MECHANISM at auto",
                       "the mechanism %s was asked for: %s",
                       wharf_mechanism_name(wanted), why);
    way->mechanism = wanted;
    way->slow = wanted == WHARF_MECHANISM_KERNEL && p->slow;
    strcpy(way->reason, "asked for");
    return WHARF_OK;
}

/* Decides alike on every rank. One mechanism for all members. */
static wharf_status choose_way(wharf_barrier *barrier, wharf_mechanism wanted)
{
    wharf_node *node = barrier->node;
    wi_signal_way *way = &barrier->way;
    int group[WHARF_MAX_RANKS];
    pairs p;
    if (node->backend == WHARF_BACKEND_HOST) {
        way->mechanism = WHARF_MECHANISM_HOST;
        strcpy(way->reason, "host backend: shared memory and futexes");
        return WHARF_OK;
    }
    for (int m = 0; m < barrier->members; m++)
        group[m] = node->gpu_of_rank[barrier->rank[m]];
    pairs_find(barrier, &p);
    if (wanted != WHARF_MECHANISM_AUTO) {
        wharf_status status = choose_wanted(&p, wanted, way);
        if (status != WHARF_OK)
            return status;
    } else {
        bool crowded = wi_barrier_crowd(barrier->members, group) > 2;
        bool kernel = (p.kernel && !crowded) || !p.mem_ops;
        way->mechanism =
            kernel ? WHARF_MECHANISM_KERNEL : WHARF_MECHANISM_MEM_OPS;
        way->slow = kernel && p.slow;
        memcpy(way->reason, p.reason, sizeof way->reason);
        if (p.kernel && crowded)
            strcpy(way->reason, "more than two members on a GPU");
    }
    way->counts = p.atomics && way->mechanism != WHARF_MECHANISM_MEM_OPS;
    barrier->two_level = way->mechanism == WHARF_MECHANISM_MEM_OPS &&
                         wi_barrier_wants_levels(barrier->members, group);
    wi_signal_tell_slow(node, p.from, p.to, way);
    return WHARF_OK;
}

/* ---- Creation
 * ------------------------------------------------------------------- */

/* With pads there: what they can do is known now. */
static wharf_status build_on_pads(wharf_barrier *barrier,
                                  wharf_mechanism wanted, wi_deadline deadline)
{
    wharf_node *node = barrier->node;
    wharf_status status = wi_decided_alike(choose_way(barrier, wanted));
    if (status != WHARF_OK)
        return status;
    for (int m = 0; m < barrier->members; m++)
        barrier->run[m].count = wi_barrier_run_words(barrier, true);
    status = wi_pad_take(node, barrier->members, barrier->run, deadline);
    if (status != WHARF_OK)
        return status;
    status = wi_comm_agree(node->comm, wi_barrier_prepare(barrier), deadline);
    if (status == WHARF_OK)
        return WHARF_OK;
    wi_barrier_unprepare(barrier);
    wi_pad_give(node, barrier->members, barrier->run);
    return status;
}

static wharf_status build(wharf_barrier *barrier, wharf_mechanism wanted,
                          wi_deadline deadline)
{
    wharf_node *node = barrier->node;
    wi_pad_run first = {.rank = 0, .count = 1};
    wharf_status status = wi_pad_take(node, 1, &first, deadline);
    if (status != WHARF_OK)
        return status;
    wi_pad_give(node, 1, &first);
    status = build_on_pads(barrier, wanted, deadline);
    if (status != WHARF_OK)
        wi_pad_trim(node, deadline);
    return status;
}

static wharf_status check_create(const wharf_node *node, int count,
                                 const int *ranks,
                                 const wharf_notify_options *options,
                                 wharf_barrier *const *out,
                                 wharf_notify_options *known)
{
    wharf_status status = wi_signal_options(options, known);
    if (status == WHARF_OK && !out)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "barrier is NULL");
    if (status == WHARF_OK)
        status = check_ranks(node, count, ranks);
    return status;
}

static wharf_status create_locked(wharf_node *node, int count, const int *ranks,
                                  const wharf_notify_options *options,
                                  wharf_barrier **out)
{
    wi_deadline deadline = wi_node_deadline(node);
    wharf_notify_options known;
    wharf_barrier *barrier = NULL;
    wi_meeting mine = {.call = WI_CALL_BARRIER_CREATE, .count = count};
    mine.status = check_create(node, count, ranks, options, out, &known);
    if (mine.status == WHARF_OK) {
        mine.space = (uint32_t)known.mechanism;
        mine.flags = (uint32_t)known.capturable;
        mine.size = hash_of(count, ranks);
        mine.status = barrier_new(node, count, ranks, &barrier);
    }
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_OK)
        status = compare_lists(all, node->size);
    if (status == WHARF_OK)
        status = build(barrier, wi_signal_wanted(node, &known), deadline);
    if (status != WHARF_OK) {
        barrier_delete(barrier);
        return status;
    }
    barrier->serial = ++node->serial;
    barrier->next = node->barriers;
    node->barriers = barrier;
    wi_stat_add(WI_STAT_live_barriers, 1);
    *out = barrier;
    return WHARF_OK;
}

wharf_status wharf_barrier_create(wharf_node *node, int count, const int *ranks,
                                  const wharf_notify_options *options,
                                  wharf_barrier **barrier)
{
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    return wi_node_leave(node,
                         create_locked(node, count, ranks, options, barrier));
}

/* ---- End
 * ------------------------------------------------------------------------ */

static void discard(wharf_barrier *barrier)
{
    wharf_node *node = barrier->node;
    for (wharf_barrier **at = &node->barriers; *at; at = &(*at)->next)
        if (*at == barrier) {
            *at = barrier->next;
            break;
        }
    wi_barrier_unprepare(barrier);
    wi_pad_give(node, barrier->members, barrier->run);
    barrier_delete(barrier);
    wi_stat_add(WI_STAT_live_barriers, -1);
}

void wi_barrier_close_all(wharf_node *node)
{
    while (node->barriers) {
        wi_log(WI_LOG_WARN,
               "barrier %llu was still there when its node was closed",
               (unsigned long long)node->barriers->serial);
        discard(node->barriers);
    }
}

static wharf_status destroy_locked(wharf_barrier **out)
{
    wharf_barrier *barrier = *out;
    wharf_node *node = barrier->node;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {
        .call = WI_CALL_BARRIER_DESTROY,
        .serial = barrier->serial,
        .status = wi_signal_quiesce(node),
    };
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH)
        return status;
    discard(barrier);
    *out = NULL;
    return status;
}

wharf_status wharf_barrier_destroy(wharf_barrier **barrier)
{
    wi_call_begin(__func__, -1);
    wharf_status status = wi_handle_check(barrier ? *barrier : NULL,
                                          WI_HANDLE_BARRIER, "barrier");
    if (status == WHARF_OK) {
        wharf_node *node = (*barrier)->node;
        wi_call_set_rank(node->rank);
        pthread_mutex_lock(&node->collective);
        status = destroy_locked(barrier);
        pthread_mutex_unlock(&node->collective);
    } else if (barrier) {
        *barrier = NULL;
    }
    return wi_call_end(status);
}
