/* SPDX-License-Identifier: MIT */
/* Ranks that come late or not at all: everybody leaves each round with the
 * same answer, the late rank too, and the next round starts afresh. */
#include <sched.h>

#include "base/error.h"
#include "base/futex.h"
#include "t_ranks.h"

#define RANKS 3

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

static void word_await(uint32_t *word, uint32_t least)
{
    uint32_t seen;

    while ((seen = __atomic_load_n(word, __ATOMIC_SEQ_CST)) < least)
        wi_futex_wait(word, seen, WI_NEVER, 100);
}

static void word_add(uint32_t *word)
{
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    wi_futex_wake(word);
}

static void check_late(wharf_status status, int rank)
{
    T_EQ_INT(WHARF_ETIMEDOUT, status);
    T_EQ_INT(rank, wi_error_record()->rank);
    T_CONTAINS("did not come", wi_error_record()->cause);
}

/* The deadline of a round that rank `late` and perhaps higher ones miss: rank 0
 * gives up as soon as those below have come, so that no clock decides who is
 * named. */
static wi_deadline giving_up(const wi_comm *comm, int late)
{
    if (comm->rank != 0)
        return soon();
    for (int r = 1; r < late; r++)
        while (__atomic_load_n(&comm->control->slots[r].seq,
                               __ATOMIC_SEQ_CST) <= comm->round)
            sched_yield();
    return wi_deadline_in_ms(0);
}

static void check_works(wi_comm *comm)
{
    uint64_t mine = (uint64_t)comm->rank + 5, all[RANKS];

    for (int k = 0; k < 5; k++) {
        T_OK(wi_comm_allgather(comm, &mine, sizeof mine, all, soon()));
        for (int r = 0; r < comm->size; r++)
            T_EQ_INT(r + 5, all[r]);
    }
}

/* Rank 1 comes when the others have given up; its answer is theirs. */
static void once(wi_comm *comm, t_ranks *ranks)
{
    if (comm->rank == 1)
        word_await(&ranks->word, RANKS - 1);
    check_late(wi_comm_agree(comm, WHARF_OK, giving_up(comm, 1)), 1);
    if (comm->rank != 1)
        word_add(&ranks->word);
    check_works(comm);
}

/* The others give up several rounds; the late rank meets each. */
static void several(wi_comm *comm, t_ranks *ranks)
{
    if (comm->rank == 1)
        word_await(&ranks->word, RANKS - 1);
    for (int k = 0; k < 7; k++)
        check_late(wi_comm_agree(comm, WHARF_OK, giving_up(comm, 1)), 1);
    if (comm->rank != 1)
        word_add(&ranks->word);
    check_works(comm);
}

/* A large exchange is given up in the middle: rank 2 stops after the first
 * round of it, all leave it alike. */
static void stopped(wi_comm *comm, t_ranks *ranks)
{
    static unsigned char mine[50 * WI_PART_BYTES];
    static unsigned char all[RANKS * sizeof mine];

    check_works(comm);
    if (comm->rank == 2) {
        word_add(&ranks->word);
        raise(SIGSTOP);
        word_add(&ranks->word);
    } else {
        word_await(&ranks->word, 1);
    }
    check_late(
        wi_comm_allgather(comm, mine, sizeof mine, all, giving_up(comm, 2)), 2);
    /* Until it goes on: it may not have stopped yet. */
    while (comm->rank == 0 &&
           __atomic_load_n(&ranks->word, __ATOMIC_SEQ_CST) < 2) {
        kill(ranks->pids[2], SIGCONT);
        sched_yield();
    }
    check_works(comm);
}

/* Two late ranks are named as one and another. */
static void two_late(wi_comm *comm, t_ranks *ranks)
{
    if (comm->rank != 0)
        word_await(&ranks->word, 1);
    check_late(wi_comm_agree(comm, WHARF_OK, giving_up(comm, 1)), 1);
    T_CONTAINS("and 1 more", wi_error_record()->cause);
    if (comm->rank == 0)
        word_add(&ranks->word);
    check_works(comm);
}

/* Data of a round that was given up never reach anybody, and a rank that is
 * slow to copy is not overrun: many rounds with deadlines that often pass. */
static void ragged(wi_comm *comm, t_ranks *ranks)
{
    int given_up = 0;

    for (uint64_t k = 0; k < 3000; k++) {
        uint64_t mine[100], all[RANKS][100];
        wharf_status status;

        for (int i = 0; i < 100; i++)
            mine[i] = k * 1000 + (uint64_t)(comm->rank * 100 + i);
        if (k % 7 == (uint64_t)comm->rank)
            sched_yield();
        status = wi_comm_allgather(comm, mine, sizeof mine, all,
                                   k % 3 ? soon() : wi_deadline_in_ms(0));
        if (status == WHARF_OK) {
            for (int r = 0; r < comm->size; r++)
                for (int i = 0; i < 100; i++)
                    T_EQ_INT(k * 1000 + (uint64_t)(r * 100 + i), all[r][i]);
        } else {
            T_EQ_INT(WHARF_ETIMEDOUT, status);
            given_up++;
        }
        ranks->numbers[comm->rank] =
            ranks->numbers[comm->rank] * 31 + (uint64_t)status;
    }
    /* The same answers in the same order on all ranks. */
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    T_EQ_INT(ranks->numbers[0], ranks->numbers[comm->rank]);
    T_CHECK(given_up < 3000);
}

/* After very many missed rounds nothing succeeds any more, on any rank: the
 * status says that the node is what is dead. */
static void check_lost(wharf_status status)
{
    T_EQ_INT(WHARF_EPEER, status);
    T_EQ_INT(1, wi_error_record()->rank);
    T_CONTAINS("lost", wi_error_record()->cause);
}

static void lost(wi_comm *comm, t_ranks *ranks)
{
    int k = 0;

    if (comm->rank == 1)
        word_await(&ranks->word, RANKS - 1);
    for (; !comm->broken; k++) {
        wharf_status status = wi_comm_agree(comm, WHARF_OK, giving_up(comm, 1));

        if (comm->broken)
            check_lost(status);
        else
            check_late(status, 1);
    }
    T_EQ_INT(WI_DECISIONS - 2, k);
    if (comm->rank != 1)
        word_add(&ranks->word);
    check_lost(wi_comm_agree(comm, WHARF_OK, soon()));
}

int main(void)
{
    t_ranks_run(RANKS, 0, once);
    t_ranks_run(RANKS, 0, several);
    t_ranks_run(RANKS, 0, stopped);
    t_ranks_run(RANKS, 0, two_late);
    t_ranks_run(RANKS, 0, ragged);
    t_ranks_run(RANKS, 0, lost);
    return 0;
}
