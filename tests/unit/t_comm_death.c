/* SPDX-License-Identifier: MIT */
/* A rank is killed, or leaves, while the others wait for it: all learn it with
 * the rank, long before the deadline, and from then on at once. */
#include "base/error.h"
#include "t_ranks.h"

#define RANKS 3

/* Which rank dies, and where. */
static int victim;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(30000);
}

static void check_gone(wharf_status status, const char *part)
{
    T_EQ_INT(WHARF_EPEER, status);
    T_EQ_INT(victim, wi_error_record()->rank);
    T_CONTAINS(part, wi_error_record()->cause);
}

static void check_broken(wi_comm *comm, const char *part)
{
    int32_t mine = 1, all[RANKS];

    for (int k = 0; k < 3; k++) {
        check_gone(wi_comm_agree(comm, WHARF_OK, soon()), part);
        check_gone(wi_comm_allgather(comm, &mine, sizeof mine, all, soon()),
                   part);
        check_gone(wi_comm_bcast(comm, 0, &mine, sizeof mine, soon()), part);
        check_gone(wi_comm_exchange(comm, 0, NULL, NULL, NULL, NULL, soon()),
                   part);
    }
}

static void die(const wi_comm *comm)
{
    if (comm->rank == victim)
        raise(SIGKILL);
}

static void in_agree(wi_comm *comm, t_ranks *ranks)
{
    int64_t begin;

    (void)ranks;
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    die(comm);
    begin = wi_now_ns();
    check_gone(wi_comm_agree(comm, WHARF_OK, soon()), "died");
    /* The deadline is 30 s: this only tells "noticed" from "gave up". */
    T_CHECK(wi_now_ns() - begin < 10000000000);
    check_broken(comm, "died");
}

/* It dies with its number written: that round may succeed, the next does
 * not. */
static void after_coming(wi_comm *comm, t_ranks *ranks)
{
    wharf_status status;

    (void)ranks;
    status = wi_comm_agree(comm, WHARF_OK, soon());
    T_EQ_INT(WHARF_OK, status);
    die(comm);
    for (int k = 0; k < 100 && status == WHARF_OK; k++)
        status = wi_comm_agree(comm, WHARF_OK, soon());
    check_gone(status, "died");
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

static void in_wait(wi_comm *comm, t_ranks *ranks)
{
    die(comm);
    check_gone(wi_comm_wait(comm, victim, &ranks->word, never, NULL, soon()),
               "died");
    check_gone(wi_comm_wait(comm, -1, &ranks->word, never, NULL, soon()),
               "died");
    check_gone(wi_comm_check_alive(comm, victim), "died");
    for (int r = 0; r < comm->size; r++)
        if (r != victim)
            T_OK(wi_comm_check_alive(comm, r));
}

static void give_back(void *argument, int index, const wi_parcel *parcel)
{
    int *taken = argument;

    (void)index;
    for (int i = 0; i < parcel->count; i++) {
        int fd = parcel->fds[i];

        wi_sys_close(&fd);
    }
    (*taken)++;
}

/* Everybody sends; the victim sends nothing. Then all agree on the death. */
static void in_exchange(wi_comm *comm, t_ranks *ranks)
{
    static wi_parcel mine[RANKS];
    int senders[RANKS] = {0, 1, 2}, taken = 0, fd = -1;
    wharf_status status;

    (void)ranks;
    die(comm);
    T_OK(wi_sys_memfd("t", 4096, &fd));
    mine[comm->rank].count = 1;
    mine[comm->rank].fds[0] = fd;
    status =
        wi_comm_exchange(comm, RANKS, senders, mine, give_back, &taken, soon());
    T_CHECK(status == WHARF_OK || status == WHARF_EPEER);
    check_gone(wi_comm_agree(comm, status, soon()), "died");
    T_CHECK(taken < RANKS);
    wi_sys_close(&fd);
    check_broken(comm, "died");
}

/* Closing is no death, but nobody waits for who has gone. */
static void leaves(wi_comm *comm, t_ranks *ranks)
{
    T_OK(wi_comm_agree(comm, WHARF_OK, soon()));
    if (comm->rank == victim) {
        wi_control_leave(comm);
        return;
    }
    check_gone(wi_comm_agree(comm, WHARF_OK, soon()), "has closed the node");
    check_broken(comm, "has closed the node");
    check_gone(wi_comm_wait(comm, victim, &ranks->word, never, NULL, soon()),
               "has closed the node");
    T_OK(wi_comm_check_alive(comm, victim));
}

/* A forked child of the victim keeps its lock and sockets open; the pid tells
 * all the same. It outlives the test of the others: they end it. */
static void with_child(wi_comm *comm, t_ranks *ranks)
{
    if (comm->rank == victim) {
        pid_t child = fork();

        if (child == 0) {
            alarm(T_RANKS_GUARD_S);
            pause();
        }
        ranks->numbers[victim] = (uint64_t)child;
        raise(SIGKILL);
    }
    check_gone(wi_comm_agree(comm, WHARF_OK, soon()), "died");
    if (comm->rank == 0)
        T_EQ_INT(0, kill((pid_t)ranks->numbers[victim], SIGKILL));
}

int main(void)
{
    static const t_ranks_body bodies[] = {in_agree, after_coming, in_wait,
                                          in_exchange};

    for (victim = 0; victim < RANKS; victim++) {
        for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
            t_ranks_run(RANKS, 1u << victim, bodies[i]);
        t_ranks_run(RANKS, 0, leaves);
    }
    victim = 1;
    t_ranks_run(RANKS, 1u << victim, with_child);
    return 0;
}
