/* SPDX-License-Identifier: MIT */
/*
 * Rounds on the host backend: the calling thread copies, words are numbers of
 * rounds on which ranks sleep. A start puts what it can and never holds; what
 * its receivers are not ready for is put by finish.
 */
#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "core/exchange.h"

static uint32_t number_of(const wharf_exchange *x)
{
    return wi_signal_first_epoch + (uint32_t)x->round + 1;
}

static void say(uint32_t *word, uint32_t number)
{
    __atomic_store_n(word, number, __ATOMIC_RELEASE);
    wi_futex_wake(word);
}

/* ---- Waiting
 * -------------------------------------------------------------------- */

typedef struct awaited {
    const uint32_t *word;
    uint32_t number;
} awaited;

static bool has_come(void *argument)
{
    const awaited *a = argument;
    uint32_t now = __atomic_load_n(a->word, __ATOMIC_ACQUIRE);
    return (int32_t)(now - a->number) >= 0;
}

static wharf_status overdue(const wharf_exchange *x, int node_rank,
                            const char *what)
{
    wi_fail(WHARF_ETIMEDOUT,
            "let every rank make the round, then finish again; if a rank is "
            "only slow, raise WHARF_TIMEOUT_MS",
            "rank %d did not %s round %llu of the exchange before the deadline",
            node_rank, what, (unsigned long long)x->round);
    return wi_error_about(node_rank);
}

/* Holds until a peer's word shows this round. MPI moves meanwhile. */
static wharf_status hold(wharf_exchange *x, const uint32_t *word, int node_rank,
                         const char *what, wi_deadline deadline)
{
    awaited a = {word, number_of(x)};
    wharf_error kept = *wi_error_record();
    while (!has_come(&a)) {
        wi_deadline until = deadline;
        bool moves = false;
        wharf_status status = wi_exchange_far_move(x, &moves);
        if (status != WHARF_OK)
            return status;
        if (moves)
            until = wi_deadline_in_ms(1);
        status =
            wi_comm_wait(x->node->comm, node_rank, word, has_come, &a, until);
        if (status != WHARF_OK && status != WHARF_ETIMEDOUT)
            return status;
        if (status == WHARF_ETIMEDOUT && wi_deadline_run_out(deadline))
            return overdue(x, node_rank, what);
        /* That MPI had its turn is no failure. */
        *wi_error_record() = kept;
    }
    return WHARF_OK;
}

/* ---- Putting
 * -------------------------------------------------------------------- */

static void copy_box(const wi_copy_box *box)
{
    char *to = box->to;
    const char *from = box->from;
    for (uint64_t p = 0; p < box->planes; p++)
        for (uint64_t r = 0; r < box->rows; r++)
            memcpy(to + p * box->to_plane + r * box->to_pitch,
                   from + p * box->from_plane + r * box->from_pitch,
                   box->width);
}

/* All boxes for one rank of the node. */
static void put_to(const wharf_exchange *x, int node_rank)
{
    int set = wi_exchange_set(x);
    for (int i = 0; i < x->items; i++)
        if (x->item[i].node_rank == node_rank && x->item[i].out[set].width)
            copy_box(&x->item[i].out[set]);
}

/* Does the caller's put of this round wait for a peer's start, and does its own
 * start tell the peer? In the first round always: nothing came before it that
 * could prove anything. */
static bool waits(const wharf_exchange *x, const wi_exchange_peer *peer)
{
    return peer->waits || (x->round == 0 && peer->sends);
}

static bool owes(const wharf_exchange *x, const wi_exchange_peer *peer)
{
    return peer->owes || (x->round == 0 && peer->receives);
}

static bool is_ready(const wharf_exchange *x, const wi_exchange_peer *peer)
{
    awaited a = {wi_exchange_readiness(x, x->node->rank, peer->node_rank),
                 number_of(x)};
    return !waits(x, peer) || has_come(&a);
}

/* Puts to those that are ready; the first that is not, or NULL. */
static wi_exchange_peer *put_all(wharf_exchange *x)
{
    wi_exchange_peer *late = NULL;
    for (int p = 0; p < x->peers; p++) {
        wi_exchange_peer *peer = &x->peer[p];
        if (peer->put || !peer->sends)
            continue;
        if (!is_ready(x, peer)) {
            late = late ? late : peer;
            continue;
        }
        put_to(x, peer->node_rank);
        peer->put = true;
        say(wi_exchange_arrival(x, peer->node_rank, x->node->rank),
            number_of(x));
    }
    return late;
}

wharf_status wi_exchange_host_start(wharf_exchange *x)
{
    for (int p = 0; p < x->peers; p++) {
        x->peer[p].put = false;
        x->peer[p].came = false;
        if (owes(x, &x->peer[p]))
            say(wi_exchange_readiness(x, x->peer[p].node_rank, x->node->rank),
                number_of(x));
    }
    put_to(x, x->node->rank);
    put_all(x);
    return WHARF_OK;
}

/* No circle of ranks can wait for one another: a start, which makes its rank
 * ready, never holds, and puts come before waits for what others put. */
wharf_status wi_exchange_host_finish(wharf_exchange *x)
{
    wi_deadline deadline = wi_node_deadline(x->node);
    int me = x->node->rank;
    wi_exchange_peer *late;
    while ((late = put_all(x)) != NULL) {
        wharf_status status =
            hold(x, wi_exchange_readiness(x, me, late->node_rank),
                 late->node_rank, "start", deadline);
        if (status != WHARF_OK)
            return status;
    }
    for (int p = 0; p < x->peers; p++) {
        wi_exchange_peer *peer = &x->peer[p];
        if (peer->came || !peer->receives)
            continue;
        wharf_status status =
            hold(x, wi_exchange_arrival(x, me, peer->node_rank),
                 peer->node_rank, "put its boxes of", deadline);
        if (status != WHARF_OK)
            return status;
        peer->came = true;
    }
    return wi_exchange_far_finish(x, NULL, deadline);
}
