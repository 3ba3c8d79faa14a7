/* SPDX-License-Identifier: MIT */
/* Collectives over the control block, when every rank comes. */
#include "base/error.h"
#include "base/fault.h"
#include "base/futex.h"
#include "base/stat.h"
#include "t_ranks.h"

#define RANKS 3

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

static unsigned char pattern(int rank, size_t i, unsigned salt)
{
    return (unsigned char)(i * 131 + i / 251 + (unsigned)rank * 29 + salt);
}

static void gather_size(wi_comm *comm, size_t bytes, unsigned salt)
{
    unsigned char *mine = wi_calloc(bytes, 1);
    unsigned char *all = wi_calloc(bytes, (size_t)comm->size);

    for (size_t i = 0; i < bytes; i++)
        mine[i] = pattern(comm->rank, i, salt);
    T_OK(wi_comm_allgather(comm, mine, bytes, all, soon()));
    for (int r = 0; r < comm->size; r++)
        for (size_t i = 0; i < bytes; i++)
            if (all[(size_t)r * bytes + i] != pattern(r, i, salt))
                T_FAIL("byte %zu of %zu of rank %d", i, bytes, r);
    wi_free(mine);
    wi_free(all);
}

/* Sizes around that of a part, and far beyond. */
static void gather_sizes(wi_comm *comm, t_ranks *ranks)
{
    static const size_t sizes[] = {0,
                                   1,
                                   24,
                                   WI_PART_BYTES - 1,
                                   WI_PART_BYTES,
                                   WI_PART_BYTES + 1,
                                   2 * WI_PART_BYTES,
                                   1000003};

    (void)ranks;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        gather_size(comm, sizes[i], i);
}

static void broadcasts(wi_comm *comm, t_ranks *ranks)
{
    static unsigned char data[100001];

    (void)ranks;
    for (int root = 0; root < comm->size; root++) {
        memset(data, comm->rank == root ? 7 + root : 0, sizeof data);
        T_OK(wi_comm_bcast(comm, root, data, sizeof data, soon()));
        for (size_t i = 0; i < sizeof data; i++)
            T_EQ_INT(7 + root, data[i]);
    }
}

/* Each round's data are that round's, however fast the others go on. */
static void many_rounds(wi_comm *comm, t_ranks *ranks)
{
    int64_t before = wi_stat_get(WI_STAT_agreements_count);
    uint64_t all[RANKS];

    (void)ranks;
    for (uint64_t k = 0; k < 10000; k++) {
        uint64_t mine = k * 10 + (uint64_t)comm->rank;

        T_OK(wi_comm_allgather(comm, &mine, sizeof mine, all, soon()));
        for (int r = 0; r < comm->size; r++)
            T_EQ_INT(k * 10 + (uint64_t)r, all[r]);
        if (k % 100 == 0)
            T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    }
    T_EQ_INT(10100, wi_stat_get(WI_STAT_agreements_count) - before);
}

/* Every set of failing ranks: the lowest one's record, on all. */
static void lowest_wins(wi_comm *comm, t_ranks *ranks)
{
    for (unsigned set = 1; set < 1u << RANKS; set++) {
        int lowest = __builtin_ctz(set);
        wharf_status mine = WHARF_OK, agreed;
        wharf_error *record = wi_error_record();

        memset(record, 0, sizeof *record);
        record->rank = -1;
        if (set >> comm->rank & 1)
            mine =
                wi_fail((wharf_status)(WHARF_ENOMEM + comm->rank), "a remedy",
                        "failed with %d of set %u", comm->rank, set);
        agreed = wi_comm_agree(comm, mine, soon());
        T_EQ_INT(WHARF_ENOMEM + lowest, agreed);
        ranks->records[comm->rank] = *record;
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
        T_EQ_INT(lowest, ranks->records[0].rank);
        T_EQ_STR("a remedy", ranks->records[0].remedy);
        T_CONTAINS("failed with", ranks->records[0].cause);
        T_EQ_MEM(&ranks->records[0], &ranks->records[comm->rank],
                 sizeof(wharf_error));
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    }
}

/* A status without a record of it still says something. */
static void no_record(wi_comm *comm, t_ranks *ranks)
{
    (void)ranks;
    T_STATUS(
        WHARF_EDATA,
        wi_comm_agree(comm, comm->rank == 1 ? WHARF_EDATA : WHARF_OK, soon()));
    T_EQ_INT(1, wi_error_record()->rank);
    T_EQ_INT(WHARF_EDATA, wi_error_record()->status);
    T_CHECK(wi_error_record()->cause[0]);
}

/* Ranks in different calls learn so, and go on afterwards. */
static void mismatch(wi_comm *comm, t_ranks *ranks)
{
    static unsigned char data[5000], all[RANKS * 5000];
    wharf_status status;

    (void)ranks;
    if (comm->rank == 2)
        status = wi_comm_agree(comm, WHARF_OK, soon());
    else
        status = wi_comm_allgather(comm, data, 5000, all, soon());
    T_EQ_INT(WHARF_EMISMATCH, status);
    T_EQ_INT(2, wi_error_record()->rank);
    T_CONTAINS("rank 2 is at an agreement", wi_error_record()->cause);
    status = wi_comm_allgather(comm, data, comm->rank == 1 ? 3000 : 100, all,
                               soon());
    T_EQ_INT(WHARF_EMISMATCH, status);
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
}

static void injected(wi_comm *comm, t_ranks *ranks)
{
    (void)ranks;
    for (int victim = 0; victim < comm->size; victim++) {
        if (comm->rank == victim)
            wi_fault_arm(WI_FAULT_AGREE, 2, 0);
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
        T_STATUS(WHARF_EOS, wi_comm_agree(comm, WHARF_OK, soon()));
        T_EQ_INT(victim, wi_error_record()->rank);
        T_CONTAINS("injected", wi_error_record()->cause);
        if (comm->rank == victim)
            T_CHECK(wi_fault_disarm(NULL));
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    }
}

static void shared_bytes(wi_comm *comm, t_ranks *ranks)
{
    uint32_t *words = wi_comm_shared(comm);

    (void)ranks;
    T_EQ_INT(0, (uintptr_t)words % 4096);
    for (int i = 0; i < 1024; i++)
        if (words[i] != 0 && i >= comm->size)
            T_FAIL("word %d is %u", i, words[i]);
    words[comm->rank] = 100 + (uint32_t)comm->rank;
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    for (int r = 0; r < comm->size; r++)
        T_EQ_INT(100 + r, words[r]);
}

static bool word_set(void *argument)
{
    return __atomic_load_n((uint32_t *)argument, __ATOMIC_ACQUIRE) != 0;
}

/* A wait that is answered, and one that is not. */
static void waits(wi_comm *comm, t_ranks *ranks)
{
    uint32_t *word = wi_comm_shared(comm);

    (void)ranks;
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    if (comm->rank == 1) {
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        wi_futex_wake(word);
    }
    T_OK(wi_comm_wait(comm, comm->rank == 1 ? -1 : 1, word, word_set, word,
                      soon()));
    word += 1;
    T_STATUS(WHARF_ETIMEDOUT, wi_comm_wait(comm, 1, word, word_set, word,
                                           wi_deadline_in_ms(20)));
    T_EQ_INT(1, wi_error_record()->rank);
    T_STATUS(WHARF_ETIMEDOUT, wi_comm_wait(comm, -1, word, word_set, word,
                                           wi_deadline_in_ms(0)));
    for (int r = 0; r < comm->size; r++)
        T_OK(wi_comm_check_alive(comm, r));
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
}

static void alone(wi_comm *comm, t_ranks *ranks)
{
    gather_sizes(comm, ranks);
    T_OK(wi_comm_exchange(comm, 0, NULL, NULL, NULL, NULL, soon()));
    T_STATUS(WHARF_EDATA, wi_comm_agree(comm, WHARF_EDATA, soon()));
}

int main(void)
{
    t_ranks_run(RANKS, 0, gather_sizes);
    t_ranks_run(RANKS, 0, broadcasts);
    t_ranks_run(RANKS, 0, many_rounds);
    t_ranks_run(RANKS, 0, lowest_wins);
    t_ranks_run(RANKS, 0, no_record);
    t_ranks_run(RANKS, 0, mismatch);
    t_ranks_run(RANKS, 0, injected);
    t_ranks_run(RANKS, 0, shared_bytes);
    t_ranks_run(RANKS, 0, waits);
    t_ranks_run(1, 0, alone);
    return 0;
}
