/* SPDX-License-Identifier: MIT */
/* Descriptors from rank to rank: many, few allowed, failing, given up. */
#include <errno.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/futex.h"
#include "base/stat.h"
#include "t_ranks.h"

#define RANKS 4
#define PARCELS 40
#define FDS 5

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

/* What a rank got: descriptors are read and closed at once, or kept. */
typedef struct taken {
    bool seen[PARCELS];
    int count;
    int fds;
    int keep; /* so many stay open */
    int kept[PARCELS * FDS];
} taken;

static int sender_of(int index)
{
    return index * 7 % RANKS;
}

static uint64_t content(int index, int i)
{
    return 0x5eed0000u + (uint64_t)(index * WI_PARCEL_FDS + i);
}

static void parcel_make(wi_parcel *parcel, int index, int count)
{
    memset(parcel->bytes, index + 1, sizeof parcel->bytes);
    parcel->count = count;
    for (int i = 0; i < count; i++) {
        uint64_t value = content(index, i);

        T_OK(wi_sys_memfd("parcel", sizeof value, &parcel->fds[i]));
        T_EQ_INT(sizeof value, pwrite(parcel->fds[i], &value, sizeof value, 0));
    }
}

static void parcel_end(wi_parcel *parcel)
{
    for (int i = 0; i < parcel->count; i++)
        wi_sys_close(&parcel->fds[i]);
}

static void take(void *argument, int index, const wi_parcel *parcel)
{
    taken *t = argument;

    T_CHECK(index >= 0 && index < PARCELS && !t->seen[index]);
    t->seen[index] = true;
    t->count++;
    for (size_t i = 0; i < sizeof parcel->bytes; i++)
        T_EQ_INT((index + 1) & 0xff, parcel->bytes[i]);
    for (int i = 0; i < parcel->count; i++) {
        uint64_t value = 0;
        int fd = parcel->fds[i];

        T_EQ_INT(sizeof value, pread(fd, &value, sizeof value, 0));
        T_EQ_INT(content(index, i), value);
        t->fds++;
        if (t->keep > 0)
            t->kept[--t->keep] = fd;
        else
            wi_sys_close(&fd);
    }
}

/* One exchange of `count` parcels with `fds` descriptors each, from all. */
static wharf_status exchange(wi_comm *comm, int count, int fds, taken *t,
                             wi_deadline deadline)
{
    static wi_parcel mine[PARCELS];
    int senders[PARCELS];
    wharf_status status;

    for (int i = 0; i < count; i++) {
        senders[i] = sender_of(i);
        if (senders[i] == comm->rank)
            parcel_make(&mine[i], i, fds);
    }
    status = wi_comm_exchange(comm, count, senders, mine, take, t, deadline);
    for (int i = 0; i < count; i++)
        if (senders[i] == comm->rank)
            parcel_end(&mine[i]);
    return status;
}

static int others_count(const wi_comm *comm, int count)
{
    int others = 0;

    for (int i = 0; i < count; i++)
        others += sender_of(i) != comm->rank;
    return others;
}

/* 200 descriptors in 40 parcels, several times; every one is the right one and
 * nothing stays open. */
static void many(wi_comm *comm, t_ranks *ranks)
{
    int64_t before = wi_stat_get(WI_STAT_live_descriptors);

    (void)ranks;
    for (int k = 0; k < 20; k++) {
        taken t = {.count = 0};

        T_OK(exchange(comm, PARCELS, FDS, &t, soon()));
        T_EQ_INT(others_count(comm, PARCELS), t.count);
        T_EQ_INT(others_count(comm, PARCELS) * FDS, t.fds);
        T_EQ_INT(before, wi_stat_get(WI_STAT_live_descriptors));
        if (k % 5 == 0)
            T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    }
}

/* The largest parcels. */
static void full(wi_comm *comm, t_ranks *ranks)
{
    taken t = {.count = 0};

    (void)ranks;
    T_OK(exchange(comm, 8, WI_PARCEL_FDS, &t, soon()));
    T_EQ_INT(others_count(comm, 8) * WI_PARCEL_FDS, t.fds);
}

static void limit_set(rlim_t most)
{
    struct rlimit limit;

    T_EQ_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = most;
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &limit));
}

/* Few open files are enough as long as the taker closes what it gets. */
static void few_files(wi_comm *comm, t_ranks *ranks)
{
    taken t = {.count = 0};

    (void)ranks;
    limit_set(64);
    T_OK(exchange(comm, PARCELS, 2, &t, soon()));
    T_EQ_INT(others_count(comm, PARCELS), t.count);
}

/* Each rank in turn cannot hold what it gets: it says so, with the remedy, and
 * all finish alike; then it works again. */
static void no_room(wi_comm *comm, t_ranks *ranks)
{
    int64_t before = wi_stat_get(WI_STAT_live_descriptors);

    (void)ranks;
    for (int victim = 0; victim < comm->size; victim++) {
        taken t = {.keep = comm->rank == victim ? 1000 : 0};
        int keep = t.keep = comm->rank == victim ? PARCELS * FDS : 0;
        wharf_status status;

        if (comm->rank == victim)
            limit_set(80);
        status = exchange(comm, PARCELS, FDS, &t, soon());
        T_EQ_INT(comm->rank == victim ? WHARF_EOS : WHARF_OK, status);
        T_STATUS(WHARF_EOS, wi_comm_agree(comm, status, soon()));
        T_EQ_INT(victim, wi_error_record()->rank);
        T_CONTAINS("ulimit -n", wi_error_record()->remedy);
        for (int i = t.keep; i < keep; i++)
            wi_sys_close(&t.kept[i]);
        T_EQ_INT(before, wi_stat_get(WI_STAT_live_descriptors));
        if (comm->rank == victim)
            limit_set(1024);
        t = (taken){.keep = 0};
        T_OK(exchange(comm, PARCELS, 1, &t, soon()));
        T_EQ_INT(others_count(comm, PARCELS), t.count);
    }
}

/* Every system call of an exchange fails once, on each rank in turn. */
static void faults(wi_comm *comm, t_ranks *ranks)
{
    int64_t before = wi_stat_get(WI_STAT_live_descriptors);

    (void)ranks;
    for (int victim = 0; victim < comm->size; victim++) {
        int32_t fired = 1, all[RANKS];

        for (long nth = 1; fired; nth++) {
            static wi_parcel mine[4];
            int senders[4] = {0, 1, 2, 3};
            taken t = {.count = 0};
            wharf_status status;

            parcel_make(&mine[comm->rank], comm->rank, 2);
            if (comm->rank == victim)
                wi_fault_arm(WI_FAULT_SYS, nth, EIO);
            status = wi_comm_exchange(comm, 4, senders, mine, take, &t, soon());
            fired = comm->rank == victim && wi_fault_disarm(NULL);
            parcel_end(&mine[comm->rank]);
            T_EQ_INT(fired ? WHARF_EOS : WHARF_OK, status);
            T_OK(wi_comm_allgather(comm, &fired, sizeof fired, all, soon()));
            fired = all[victim];
            T_EQ_INT(fired ? WHARF_EOS : WHARF_OK,
                     wi_comm_agree(comm, status, soon()));
            T_CHECK(fired || t.count == 3);
            T_EQ_INT(before, wi_stat_get(WI_STAT_live_descriptors));
            T_CHECK(nth < 200);
        }
    }
}

static void word_await(uint32_t *word, uint32_t least)
{
    uint32_t seen;

    while ((seen = __atomic_load_n(word, __ATOMIC_SEQ_CST)) < least)
        wi_futex_wait(word, seen, WI_NEVER, 100);
}

/* A rank stays away from an exchange that the others give up. It leaves it as
 * soon as it sees that, and what was under way does not get into the next. */
static void given_up(wi_comm *comm, t_ranks *ranks)
{
    int64_t before = wi_stat_get(WI_STAT_live_descriptors);

    for (int late = 0; late < comm->size; late++) {
        taken t = {.count = 0};
        uint32_t goal = (uint32_t)((late + 1) * (comm->size - 1));
        wharf_status status;

        if (comm->rank == late)
            word_await(&ranks->word, goal);
        status = exchange(comm, PARCELS, FDS, &t,
                          comm->rank == late ? soon() : wi_deadline_in_ms(30));
        if (comm->rank != late)
            T_EQ_INT(WHARF_ETIMEDOUT, status);
        T_STATUS(
            WHARF_ETIMEDOUT,
            wi_comm_agree(comm, status,
                          comm->rank == late ? soon() : wi_deadline_in_ms(30)));
        if (comm->rank != late) {
            __atomic_add_fetch(&ranks->word, 1, __ATOMIC_SEQ_CST);
            wi_futex_wake(&ranks->word);
        }
        t = (taken){.count = 0};
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
        T_OK(exchange(comm, PARCELS, FDS, &t, soon()));
        T_EQ_INT(others_count(comm, PARCELS), t.count);
        T_EQ_INT(before, wi_stat_get(WI_STAT_live_descriptors));
        T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    }
}

/* A success leaves the record of an earlier failure alone. */
static void record_kept(wi_comm *comm, t_ranks *ranks)
{
    taken t = {.count = 0};

    (void)ranks;
    wharf_ignore(wi_fail(WHARF_EDATA, NULL, "from before"));
    T_OK(exchange(comm, PARCELS, 1, &t, soon()));
    T_EQ_STR("from before", wi_error_record()->cause);
}

int main(void)
{
    t_ranks_run(RANKS, 0, many);
    t_ranks_run(RANKS, 0, full);
    t_ranks_run(RANKS, 0, few_files);
    t_ranks_run(RANKS, 0, no_room);
    t_ranks_run(RANKS, 0, faults);
    t_ranks_run(RANKS, 0, given_up);
    t_ranks_run(RANKS, 0, record_kept);
    return 0;
}
