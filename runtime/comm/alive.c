/* SPDX-License-Identifier: MIT */
/*
 * Who is alive, and how to wait for somebody who may not be.
 *
 * Every rank holds a lock on its own byte of the control block, through an
 * open file description of its own. The kernel drops it whenever the process
 * ends, kill -9 included, and anybody can ask for it, across pid namespaces.
 */
#define _GNU_SOURCE /* F_OFD_SETLK, F_OFD_GETLK */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/spawn.h"
#include "comm/private.h"

#define SPIN_NS 15000
#define WATCH_LEAST 32
#define POKE_NS WI_NS_PER_MS
/* Ranks that wait for long poke less often. */
#define LONG_NS WI_NS_PER_S
#define SLEEP_MS 20

#define CLOSE_REMEDY "close the node on every rank that is left"

static struct flock byte_of(int rank)
{
    struct flock byte = {0};

    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = rank;
    byte.l_len = 1;
    return byte;
}

bool wi_alive_lock(wi_comm *comm)
{
    struct flock byte = byte_of(comm->rank);

    return fcntl(comm->lock_fd, F_OFD_SETLK, &byte) == 0;
}

static uint32_t presence_of(const wi_comm *comm, int rank)
{
    return __atomic_load_n(&comm->control->slots[rank].presence,
                           __ATOMIC_SEQ_CST);
}

bool wi_alive_left(const wi_comm *comm, int rank)
{
    return presence_of(comm, rank) >= WI_LEFT;
}

/* Has the process ended? A forked child of it would still hold the lock, so
 * the pid is asked too where it means something here. A pidfd tells of an end
 * that nobody has reaped yet. */
static bool process_gone(const wi_comm *comm, int rank)
{
    const wi_identity *own = &comm->identities[comm->rank];
    const wi_identity *other = &comm->identities[rank];
    struct pollfd poll_end = {.events = POLLIN};
    bool gone;

    if (own->pid_ns == 0 || own->pid_ns != other->pid_ns)
        return false;
    poll_end.fd = wi_spawn_pidfd(other->pid);
    if (poll_end.fd < 0)
        return errno == ESRCH;
    gone = poll(&poll_end, 1, 0) == 1;
    close(poll_end.fd);
    return gone;
}

bool wi_alive_dead(const wi_comm *comm, int rank)
{
    uint32_t presence = presence_of(comm, rank);
    struct flock byte = byte_of(rank);
    bool gone = false;

    if (rank == comm->rank || presence >= WI_LEFT)
        return false;
    if (presence == WI_LOCKED && comm->lock_fd >= 0 &&
        fcntl(comm->lock_fd, F_OFD_GETLK, &byte) == 0)
        gone = byte.l_type == F_UNLCK;
    if (!gone)
        gone = process_gone(comm, rank);
    /* It says good-bye before it drops the lock: look again. */
    return gone && !wi_alive_left(comm, rank);
}

wharf_status wi_alive_fail_dead(const wi_comm *comm, int rank)
{
    const wi_identity *who = &comm->identities[rank];

    wi_fail(WHARF_EPEER, CLOSE_REMEDY, "rank %d (pid %d on %s) died", rank,
            who->pid, who->host);
    return wi_error_about(rank);
}

wharf_status wi_alive_fail_left(const wi_comm *comm, int rank)
{
    const wi_identity *who = &comm->identities[rank];
    const char *how = presence_of(comm, rank) == WI_FINALIZED
                          ? "finalised MPI with the node open"
                          : "has closed the node";

    wi_fail(WHARF_EPEER, CLOSE_REMEDY, "rank %d (pid %d on %s) %s", rank,
            who->pid, who->host, how);
    return wi_error_about(rank);
}

wharf_status wi_alive_fail_lost(const wi_comm *comm, int rank)
{
    const wi_identity *who = &comm->identities[rank];

    wi_fail(WHARF_EPEER, CLOSE_REMEDY,
            "rank %d (pid %d on %s) missed so many collective "
            "calls in a row that it counts as lost",
            rank, who->pid, who->host);
    return wi_error_about(rank);
}

wharf_status wi_alive_fail_late(const wi_comm *comm, int rank, int more)
{
    const wi_identity *who = &comm->identities[rank];
    char others[40] = "";

    if (more > 0)
        snprintf(others, sizeof others, " and %d more", more);
    wi_fail(WHARF_ETIMEDOUT,
            "check that every rank makes the same calls; if it "
            "is only slow, raise WHARF_TIMEOUT_MS",
            "rank %d (pid %d on %s)%s did not come before the "
            "deadline",
            rank, who->pid, who->host, others);
    return wi_error_about(rank);
}

void wi_patience_begin(wi_patience *patience, const wi_comm *comm,
                       bool collective)
{
    int64_t now = wi_now_ns();

    patience->begin = now;
    patience->spin_until = comm->spin ? now + SPIN_NS : now;
    patience->next_watch = now + WI_WATCH_NS;
    patience->next_poke = now;
    patience->turns = 0;
    patience->watched = comm->rank;
    patience->pokes = false;
    patience->asks = collective;
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Reads the clock every 16th time only. */
bool wi_patience_spins(wi_patience *patience)
{
    if (patience->spin_until == 0)
        return false;
    cpu_relax();
    if (++patience->turns % 16 == 0 && wi_now_ns() >= patience->spin_until)
        patience->spin_until = 0;
    return true;
}

int wi_patience_sleep_ms(wi_patience *patience, const wi_comm *comm)
{
    int64_t now;

    if (patience->asks) {
        patience->pokes =
            wi_mpi_alive() && wi_mpi_thread_allowed(comm->thread_level);
        patience->asks = false;
    }
    if (!patience->pokes)
        return SLEEP_MS;
    now = wi_now_ns();
    if (now >= patience->next_poke) {
        wi_mpi_poke(comm);
        patience->next_poke = now + POKE_NS;
    }
    return now - patience->begin < LONG_NS ? 1 : 4;
}

/* Ranks that are looked at in one turn. */
static int watch_width(const wi_comm *comm)
{
    int eighth = (comm->size + 7) / 8;

    return eighth < WATCH_LEAST ? WATCH_LEAST : eighth;
}

bool wi_patience_watch(wi_patience *patience, const wi_comm *comm)
{
    int64_t now = wi_now_ns();

    if (now < patience->next_watch)
        return false;
    patience->next_watch = now + WI_WATCH_NS;
    patience->watched = (patience->watched + watch_width(comm)) % comm->size;
    return true;
}

bool wi_patience_covers(const wi_patience *patience, const wi_comm *comm,
                        int rank)
{
    int ahead = rank - patience->watched;

    return (ahead < 0 ? ahead + comm->size : ahead) < watch_width(comm);
}

wharf_status wi_comm_check_alive(const wi_comm *comm, int rank)
{
    int first = rank < 0 ? 0 : rank, last = rank < 0 ? comm->size - 1 : rank;

    for (int r = first; r <= last; r++)
        if (wi_alive_dead(comm, r))
            return wi_alive_fail_dead(comm, r);
    return WHARF_OK;
}

bool wi_comm_gone(const wi_comm *comm, int rank)
{
    return wi_alive_left(comm, rank) || wi_alive_dead(comm, rank);
}

/* WHARF_EPEER if a rank that we wait for cannot answer any more. Ranks that
 * left matter only when they are waited for by number. */
static wharf_status peers_check(const wi_comm *comm, int rank,
                                wi_patience *patience)
{
    bool watch = wi_patience_watch(patience, comm);

    if (rank >= 0) {
        if (wi_alive_left(comm, rank))
            return wi_alive_fail_left(comm, rank);
        if (watch && wi_alive_dead(comm, rank))
            return wi_alive_fail_dead(comm, rank);
        return WHARF_OK;
    }
    for (int r = 0; watch && r < comm->size; r++)
        if (wi_patience_covers(patience, comm, r) && wi_alive_dead(comm, r))
            return wi_alive_fail_dead(comm, r);
    return WHARF_OK;
}

static wharf_status fail_overdue(const wi_comm *comm, int rank)
{
    if (rank >= 0)
        return wi_alive_fail_late(comm, rank, 0);
    return wi_fail(WHARF_ETIMEDOUT,
                   "if a rank is only slow, raise "
                   "WHARF_TIMEOUT_MS",
                   "what was waited for did not come before the deadline");
}

wharf_status wi_comm_wait(wi_comm *comm, int rank, const uint32_t *word,
                          bool (*done)(void *argument), void *argument,
                          wi_deadline deadline)
{
    wi_patience patience;

    if (done(argument))
        return WHARF_OK;
    wi_patience_begin(&patience, comm, false);
    for (;;) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        wharf_status status;

        if (done(argument))
            return WHARF_OK;
        if (wi_patience_spins(&patience))
            continue;
        status = peers_check(comm, rank, &patience);
        if (status != WHARF_OK)
            return done(argument) ? WHARF_OK : status;
        if (wi_deadline_run_out(deadline))
            return fail_overdue(comm, rank);
        wi_futex_wait(word, seen, deadline,
                      wi_patience_sleep_ms(&patience, comm));
    }
}
