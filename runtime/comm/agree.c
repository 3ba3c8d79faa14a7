/* SPDX-License-Identifier: MIT */
/*
 * Collectives through the control block, one or more rounds each.
 *
 * Round k: every rank writes its part (of two, k & 1), then its sequence
 * number. Whoever sees all numbers at k decides "committed"; whoever runs out
 * of time or sees that a missing rank is dead decides "given up, because of
 * rank r". The decision is one compare-and-swap of one word, and everybody
 * obeys the word, the late rank included: no two ranks leave a round with
 * different answers.
 *
 * A part is written again two rounds later. After a committed round that is
 * safe, for all have come to the round between. After one that was given up
 * ("ragged") a rank may still be reading, so the next round begins by waiting
 * for all to have come to the last one, under the same deadline.
 *
 * A late rank meets the decisions of the rounds that it missed in the table of
 * the last WI_DECISIONS, one by one. Before the table would overflow, the
 * round is decided "lost", which is for good, as are deaths and departures.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/futex.h"
#include "base/stat.h"
#include "base/trace.h"
#include "comm/private.h"

_Static_assert(sizeof(wharf_error) <= WI_PART_BYTES, "a record fits a part");

/* A decision: round << 24 | ranks missing besides << 14 | rank << 4 | outcome.
 * 0 is none. */
typedef enum outcome {
    COMMITTED = 1,
    LATE = 2, /* the next round starts afresh */
    LOST = 3, /* from here on nothing succeeds */
    DEAD = 4,
    LEFT = 5
} outcome;

#define ROUND_SHIFT 24
#define MORE_SHIFT 14
#define RANK_SHIFT 4
#define FIELD_MASK 0x3ffu
#define ROUND_MASK (UINT64_MAX >> ROUND_SHIFT)

_Static_assert(WHARF_MAX_RANKS <= FIELD_MASK, "a rank fits its field");

static outcome decision_outcome(uint64_t decision)
{
    return (outcome)(decision & 0xf);
}

static int decision_rank(uint64_t decision)
{
    return (int)(decision >> RANK_SHIFT & FIELD_MASK);
}

static bool decision_is_for(uint64_t decision, uint64_t round)
{
    return decision != 0 && decision >> ROUND_SHIFT == (round & ROUND_MASK);
}

static uint64_t *decision_word(const wi_comm *comm, uint64_t round)
{
    return &comm->control->decisions[round % WI_DECISIONS];
}

/* The decision on a round; 0 if there is none yet. */
static uint64_t decision_get(const wi_comm *comm, uint64_t round)
{
    uint64_t decision =
        __atomic_load_n(decision_word(comm, round), __ATOMIC_SEQ_CST);

    return decision_is_for(decision, round) ? decision : 0;
}

/* Decides, unless somebody was faster; returns the decision that holds. */
static uint64_t decision_make(wi_comm *comm, uint64_t round, outcome how,
                              int rank, int more)
{
    uint64_t *word = decision_word(comm, round);
    uint64_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    uint64_t made = (round & ROUND_MASK) << ROUND_SHIFT |
                    (uint64_t)more << MORE_SHIFT |
                    (uint64_t)rank << RANK_SHIFT | (uint64_t)how;

    while (!decision_is_for(old, round))
        if (__atomic_compare_exchange_n(word, &old, made, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            wi_control_bump(comm);
            return made;
        }
    return old;
}

static bool rank_came(const wi_comm *comm, int rank, uint64_t round)
{
    return __atomic_load_n(&comm->control->slots[rank].seq, __ATOMIC_SEQ_CST) >=
           round;
}

/* A rank that has not come to `need` and cannot any more decides the round. A
 * rank may come just before it dies: its number is read again after. */
static uint64_t round_check_peers(wi_comm *comm, uint64_t round, uint64_t need,
                                  int first, wi_patience *patience)
{
    bool watch = wi_patience_watch(patience, comm);

    for (int r = first; r < comm->size; r++) {
        if (rank_came(comm, r, need))
            continue;
        if (wi_alive_left(comm, r)) {
            if (!rank_came(comm, r, need))
                return decision_make(comm, round, LEFT, r, 0);
        } else if (watch && wi_patience_covers(patience, comm, r) &&
                   wi_alive_dead(comm, r)) {
            if (!rank_came(comm, r, need))
                return decision_make(comm, round, DEAD, r, 0);
        }
    }
    return 0;
}

/* Gives the round up because of those that have not come to `need`. */
static uint64_t round_give_up(wi_comm *comm, uint64_t round, uint64_t need)
{
    uint64_t least = round;
    int late = -1, more = -1;

    for (int r = 0; r < comm->size; r++) {
        uint64_t seq =
            __atomic_load_n(&comm->control->slots[r].seq, __ATOMIC_SEQ_CST);

        if (seq >= need)
            continue;
        if (late < 0)
            late = r;
        more++;
        if (seq < least)
            least = seq;
    }
    if (late < 0) /* the last one came this very moment */
        return 0;
    return decision_make(comm, round,
                         round - least >= WI_DECISIONS - 2 ? LOST : LATE, late,
                         more);
}

static void round_sleep(wi_comm *comm, uint32_t turn, wi_deadline deadline,
                        int most_ms)
{
    wi_control *control = comm->control;

    __atomic_add_fetch(&control->sleepers, 1, __ATOMIC_SEQ_CST);
    wi_futex_wait(&control->turn, turn, deadline, most_ms);
    __atomic_sub_fetch(&control->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* Waits until all have come to `need` or `round` is decided. Returns the
 * decision, or 0 if need < round and all have come. The number of a rank is
 * stored before it looks at the others', so the last one sees all. */
static uint64_t round_wait(wi_comm *comm, uint64_t round, uint64_t need,
                           wi_deadline deadline)
{
    wi_patience patience;
    int first = 0; /* all below have come */

    wi_patience_begin(&patience, comm, true);
    for (;;) {
        uint32_t turn = __atomic_load_n(&comm->control->turn, __ATOMIC_SEQ_CST);
        uint64_t decision = decision_get(comm, round);

        if (decision)
            return decision;
        while (first < comm->size && rank_came(comm, first, need))
            first++;
        if (first == comm->size)
            return need == round ? decision_make(comm, round, COMMITTED, 0, 0)
                                 : 0;
        if (wi_patience_spins(&patience))
            continue;
        decision = round_check_peers(comm, round, need, first, &patience);
        if (!decision && wi_deadline_run_out(deadline))
            decision = round_give_up(comm, round, need);
        if (decision)
            return decision;
        round_sleep(comm, turn, deadline,
                    wi_patience_sleep_ms(&patience, comm));
    }
}

/* The status and record that a decision other than COMMITTED means. */
static wharf_status decision_fail(const wi_comm *comm, uint64_t decision)
{
    int rank = decision_rank(decision);
    int more = (int)(decision >> MORE_SHIFT & FIELD_MASK);

    /* Never out of the table, whatever a stray write left in the block. */
    if (rank >= comm->size)
        rank = comm->size - 1;
    if (decision_outcome(decision) == DEAD)
        return wi_alive_fail_dead(comm, rank);
    if (decision_outcome(decision) == LEFT)
        return wi_alive_fail_left(comm, rank);
    if (decision_outcome(decision) == LOST)
        return wi_alive_fail_lost(comm, rank);
    return wi_alive_fail_late(comm, rank, more);
}

/* Comes to the next round with a part (head.bytes may be more than `bytes`,
 * which is what goes into this round) and waits for its decision. */
static wharf_status round_run(wi_comm *comm, const wi_part_head *head,
                              const void *data, size_t bytes,
                              wi_deadline deadline)
{
    wi_slot *slot = &comm->control->slots[comm->rank];
    uint64_t round, decision;

    if (comm->broken)
        return decision_fail(comm, comm->broken);
    round = ++comm->round;
    decision = decision_get(comm, round);
    if (!decision && comm->ragged)
        decision = round_wait(comm, round, round - 1, deadline);
    if (!decision) {
        wi_part *part = &slot->parts[round & 1];

        part->head = *head;
        if (bytes)
            memcpy(part->data, data, bytes);
    }
    __atomic_store_n(&slot->seq, round, __ATOMIC_SEQ_CST);
    if (!decision)
        decision = round_wait(comm, round, round, deadline);
    comm->ragged = decision_outcome(decision) != COMMITTED;
    if (!comm->ragged)
        return WHARF_OK;
    /* Those who gave the round up may be waiting for this rank to come. */
    wi_control_bump(comm);
    if (decision_outcome(decision) != LATE)
        comm->broken = decision;
    return decision_fail(comm, decision);
}

wharf_status wi_round_peek(wi_comm *comm)
{
    uint64_t decision = comm->broken;

    if (!decision)
        decision = decision_get(comm, comm->round + 1);
    if (!decision || decision_outcome(decision) == COMMITTED)
        return WHARF_OK;
    return decision_fail(comm, decision);
}

void wi_comm_skip_missed(wi_comm *comm)
{
    wi_slot *slot = &comm->control->slots[comm->rank];
    uint64_t decision;

    while (!comm->broken && (decision = decision_get(comm, comm->round + 1))) {
        comm->ragged = true;
        if (decision_outcome(decision) != LATE)
            comm->broken = decision;
        __atomic_store_n(&slot->seq, ++comm->round, __ATOMIC_SEQ_CST);
        wi_control_bump(comm);
    }
}

static const wi_part *part_of(const wi_comm *comm, int rank)
{
    return &comm->control->slots[rank].parts[comm->round & 1];
}

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case WI_ROUND_ALLGATHER:
        return "an exchange of records";
    case WI_ROUND_BCAST:
        return "a broadcast";
    case WI_ROUND_AGREE:
        return "an agreement";
    case WI_ROUND_OPEN:
        return "opening the node";
    case WI_ROUND_CLOSE:
        return "closing the node";
    default:
        return "an unknown call";
    }
}

/* All ranks read the same parts, so all find the same mismatch. */
static wharf_status heads_compare(const wi_comm *comm)
{
    const wi_part_head *a = &part_of(comm, 0)->head;

    for (int r = 1; r < comm->size; r++) {
        const wi_part_head *b = &part_of(comm, r)->head;

        if (a->kind == b->kind && a->root == b->root && a->bytes == b->bytes)
            continue;
        wi_fail(WHARF_EMISMATCH,
                "make collective calls in the same order on every "
                "rank",
                "rank %d is at %s (%llu bytes), rank 0 at %s (%llu bytes)", r,
                kind_name(b->kind), (unsigned long long)b->bytes,
                kind_name(a->kind), (unsigned long long)a->bytes);
        return wi_error_about(r);
    }
    return WHARF_OK;
}

void wi_round_own_record(wharf_status status, wharf_error *record)
{
    if (wi_error_record()->status != status)
        wharf_ignore(wi_fail(status, NULL, "%s", wharf_status_text(status)));
    *record = *wi_error_record();
}

wharf_status wi_round_adopt(const wharf_error *record, int rank)
{
    wharf_error *own = wi_error_record();

    if (own != record)
        *own = *record;
    own->rank = rank;
    own->call[sizeof own->call - 1] = '\0';
    own->cause[sizeof own->cause - 1] = '\0';
    own->remedy[sizeof own->remedy - 1] = '\0';
    return own->status;
}

/* The lowest rank that brought a failure decides for all. */
static wharf_status parts_judge(const wi_comm *comm)
{
    wharf_status status = heads_compare(comm);

    for (int r = 0; status == WHARF_OK && r < comm->size; r++) {
        const wi_part *part = part_of(comm, r);
        wharf_error record;

        if (part->head.status == WHARF_OK)
            continue;
        memcpy(&record, part->data, sizeof record);
        record.status = (wharf_status)part->head.status;
        /* A record about another rank (a dead one) keeps that rank. */
        status = wi_round_adopt(&record, record.rank >= 0 ? record.rank : r);
    }
    return status;
}

static void parts_copy(const wi_comm *comm, const wi_part_head *head,
                       size_t offset, size_t piece, void *all)
{
    unsigned char *to = all;

    if (head->kind == WI_ROUND_BCAST) {
        if (comm->rank != (int)head->root)
            memcpy(to + offset, part_of(comm, (int)head->root)->data, piece);
        return;
    }
    for (int r = 0; all && r < comm->size; r++)
        memcpy(to + (size_t)r * head->bytes + offset, part_of(comm, r)->data,
               piece);
}

/* One collective in as many rounds as its bytes need. A failure that a rank
 * brings is told in the first; then there is no second. */
wharf_status wi_round_collective(wi_comm *comm, wi_round_kind kind, int root,
                                 const void *mine, size_t bytes, void *all,
                                 wharf_status status, wi_deadline deadline)
{
    WI_TRACE_SCOPE("agree");
    wi_part_head head = {
        .kind = kind, .root = (uint32_t)root, .bytes = bytes, .status = status};
    const unsigned char *from = mine;
    bool gives = kind != WI_ROUND_BCAST || comm->rank == root;
    size_t offset = 0;
    wharf_error record;

    wi_stat_add(WI_STAT_agreements_count, 1);
    if (status != WHARF_OK)
        wi_round_own_record(status, &record);
    do {
        size_t left = bytes - offset;
        size_t piece = left < WI_PART_BYTES ? left : WI_PART_BYTES;

        if (head.status != WHARF_OK)
            status = round_run(comm, &head, &record, sizeof record, deadline);
        else
            status = round_run(comm, &head, gives ? from + offset : NULL,
                               gives ? piece : 0, deadline);
        if (status == WHARF_OK)
            status = parts_judge(comm);
        if (status != WHARF_OK)
            return status;
        parts_copy(comm, &head, offset, piece, all);
        offset += piece;
    } while (offset < bytes);
    return WHARF_OK;
}

/* Tests make this rank's part of an agreement fail. */
static wharf_status status_inject(const char *where, wharf_status status)
{
    int code = 0;

    if (status == WHARF_OK && wi_fault(WI_FAULT_AGREE, where, &code))
        return wi_fail(WHARF_EOS, NULL, "injected failure in %s", where);
    return status;
}

wharf_status wi_comm_allgather(wi_comm *comm, const void *mine, size_t bytes,
                               void *all, wi_deadline deadline)
{
    return wi_round_collective(comm, WI_ROUND_ALLGATHER, 0, mine, bytes, all,
                               status_inject("wi_comm_allgather", WHARF_OK),
                               deadline);
}

wharf_status wi_comm_bcast(wi_comm *comm, int root, void *data, size_t bytes,
                           wi_deadline deadline)
{
    return wi_round_collective(comm, WI_ROUND_BCAST, root, data, bytes, data,
                               status_inject("wi_comm_bcast", WHARF_OK),
                               deadline);
}

#undef wi_comm_agree
wharf_status wi_comm_agree(wi_comm *comm, wharf_status mine,
                           wi_deadline deadline)
{
    return wi_round_collective(comm, WI_ROUND_AGREE, 0, NULL, 0, NULL,
                               status_inject("wi_comm_agree", mine), deadline);
}
