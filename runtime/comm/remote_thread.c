/* SPDX-License-Identifier: MIT */
/*
 * Who drives messages: a thread where MPI allows several, which sleeps while
 * nothing is under way; otherwise whoever calls, when it calls. MPI cannot be
 * waited for by several messages and the words of streams at a time, so that
 * all look, with pauses that grow.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/trace.h"
#include "comm/private.h"
#include "comm/remote_private.h"

static const wi_pauses between_looks = {
    .yields = 100, .first_ns = 10000, .most_ns = 200000};

/* All that have a thread, for MPI_Finalize. */
static pthread_mutex_t employed_lock = PTHREAD_MUTEX_INITIALIZER;
static wi_remote *employed;

/* Something moved since this was last asked. */
static bool progressed(const wi_remote *remote, uint64_t *seen)
{
    uint64_t now =
        (uint64_t)remote->sends.base + remote->receives.base +
        (uint64_t)remote->sends.prefix + (uint64_t)remote->receives.prefix +
        (uint64_t)remote->sends.next + (uint64_t)remote->receives.next;
    bool moved = now != *seen;

    *seen = now;
    return moved;
}

/* ---- The thread -------------------------------------------------------- */

static void *drive(void *argument)
{
    wi_remote *remote = argument;
    wi_pauses pauses = between_looks;
    uint64_t seen = 0;

    wi_trace_thread("wharf messages");
    wi_call_begin("driving messages to other nodes", remote->group->node->rank);
    pthread_mutex_lock(&remote->lock);
    while (!remote->stop) {
        if (wi_remote_idle(remote) || remote->waiters) {
            pthread_cond_wait(&remote->wake, &remote->lock);
            pauses.taken = 0;
            continue;
        }
        if (wi_remote_step(remote) != WHARF_OK)
            wi_log(WI_LOG_WARN, "messages to other nodes stopped: %s",
                   remote->record.cause);
        if (progressed(remote, &seen))
            pauses.taken = 0;
        pthread_mutex_unlock(&remote->lock);
        wi_pauses_take(&pauses);
        pthread_mutex_lock(&remote->lock);
    }
    pthread_mutex_unlock(&remote->lock);
    wharf_ignore(wi_call_end(WHARF_OK));
    return NULL;
}

void wi_remote_employ(wi_remote *remote)
{
    remote->level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&remote->level);
    /* Without a thread it works as under a lower level. */
    if (remote->level < MPI_THREAD_MULTIPLE ||
        wi_thread_start(&remote->thread, drive, remote,
                        "a thread that drives messages") != WHARF_OK)
        return;
    remote->threaded = true;
    pthread_mutex_lock(&employed_lock);
    remote->next = employed;
    employed = remote;
    pthread_mutex_unlock(&employed_lock);
}

static void stop(wi_remote *remote)
{
    pthread_mutex_lock(&remote->lock);
    remote->stop = true;
    pthread_cond_signal(&remote->wake);
    pthread_mutex_unlock(&remote->lock);
    pthread_join(remote->thread, NULL);
}

void wi_remote_dismiss(wi_remote *remote)
{
    bool found = false;

    pthread_mutex_lock(&employed_lock);
    for (wi_remote **at = &employed; *at; at = &(*at)->next)
        if (*at == remote) {
            *at = remote->next;
            found = true;
            break;
        }
    pthread_mutex_unlock(&employed_lock);
    if (found)
        stop(remote);
}

void wi_remote_finalize(void)
{
    pthread_mutex_lock(&employed_lock);
    while (employed) {
        wi_remote *remote = employed;

        employed = remote->next;
        stop(remote);
    }
    pthread_mutex_unlock(&employed_lock);
}

bool wi_remote_threaded(const wi_remote *remote)
{
    return remote->threaded;
}

/* ---- Calls from outside ------------------------------------------------ */

/* The record of what broke it, in the calling thread. */
static wharf_status told(const wi_remote *remote)
{
    if (remote->status != WHARF_OK)
        *wi_error_record() = remote->record;
    return remote->status;
}

/* May the calling thread call MPI, and is there one? */
static wharf_status callable_check(const wi_remote *remote)
{
    if (!wi_mpi_alive())
        return wi_fail(WHARF_ESTATE, "make rounds before MPI_Finalize",
                       "MPI is finalised");
    if (!wi_mpi_thread_allowed(remote->level))
        return wi_fail(WHARF_ESTATE,
                       "call from the main thread, or initialise MPI with "
                       "MPI_THREAD_MULTIPLE",
                       "MPI may not be called from this thread");
    return WHARF_OK;
}

wharf_status wi_remote_start(wi_remote *remote)
{
    wharf_status status = callable_check(remote);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&remote->lock);
    remote->issued++;
    /* A first look: what needs no waiting is under way when this returns. */
    if (remote->status == WHARF_OK)
        wharf_ignore(wi_remote_step(remote));
    pthread_cond_signal(&remote->wake);
    status = told(remote);
    pthread_mutex_unlock(&remote->lock);
    return status;
}

wharf_status wi_remote_move(wi_remote *remote, bool *busy)
{
    wharf_status status = callable_check(remote);

    if (status != WHARF_OK)
        return status;
    pthread_mutex_lock(&remote->lock);
    if (!wi_remote_idle(remote))
        wharf_ignore(wi_remote_step(remote));
    status = told(remote);
    *busy = !wi_remote_idle(remote);
    pthread_mutex_unlock(&remote->lock);
    return status;
}

static wharf_status overdue(const wi_remote *remote)
{
    const lane *l = &remote->receives;
    const char *what = "came from";

    if (l->round == remote->issued) {
        l = &remote->sends;
        what = "was taken by";
    }
    return wi_fail(
        WHARF_ETIMEDOUT,
        "let every rank make the round, then finish again; if a "
        "rank is only slow, raise WHARF_TIMEOUT_MS",
        "in round %llu of the exchange message %d of %d %s no rank of "
        "another node before the deadline",
        (unsigned long long)l->round, l->prefix + 1,
        l->count[l->round % (uint64_t)remote->sets], what);
}

static void waiters_add(wi_remote *remote, int more)
{
    pthread_mutex_lock(&remote->lock);
    remote->waiters += more;
    pthread_cond_signal(&remote->wake);
    pthread_mutex_unlock(&remote->lock);
}

static wharf_status wait_here(wi_remote *remote, wi_deadline deadline)
{
    wi_pauses pauses = between_looks;
    int64_t next_watch = wi_now_ns() + WI_WATCH_NS;
    uint64_t seen = 0;

    for (;;) {
        bool busy;
        wharf_status status = wi_remote_move(remote, &busy);
        int64_t now;

        if (status != WHARF_OK || !busy)
            return status;
        now = wi_now_ns();
        if (now >= next_watch) {
            next_watch = now + WI_WATCH_NS;
            status = wi_comm_check_alive(remote->group->node, -1);
            if (status != WHARF_OK)
                return status;
        }
        if (deadline != WI_NEVER && now >= deadline)
            return overdue(remote);
        pthread_mutex_lock(&remote->lock);
        if (progressed(remote, &seen))
            pauses.taken = 0;
        pthread_mutex_unlock(&remote->lock);
        wi_pauses_take(&pauses);
    }
}

wharf_status wi_remote_wait(wi_remote *remote, wi_deadline deadline)
{
    wharf_status status;

    waiters_add(remote, 1);
    status = wait_here(remote, deadline);
    waiters_add(remote, -1);
    return status;
}
