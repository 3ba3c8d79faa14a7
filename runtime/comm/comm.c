/* SPDX-License-Identifier: MIT */
/* Opening and closing the communicator of a node. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/sys.h"
#include "comm/private.h"

/* A rank that came to the opening just before another's deadline must not be
 * let into a blocking MPI call that the other will not enter: the step before
 * it has this much longer, so that only ranks that are all there pass it. */
#define GRACE_MS 1000

/* ---- storage of an opening ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wi_opening *abandoned;
/* Without memory a rank must still tell the others; one at a time. */
static wi_opening emergency;
static bool emergency_taken;

static wi_opening *opening_new(void)
{
    wi_opening *o;

    if (WI_NEW(o))
        return o;
    pthread_mutex_lock(&lock);
    if (!emergency_taken) {
        emergency_taken = true;
        memset(&emergency, 0, sizeof emergency);
        emergency.emergency = true;
        o = &emergency;
    }
    pthread_mutex_unlock(&lock);
    return o;
}

/* MPI may still write into an opening with a pending request. */
static void opening_end(wi_opening *o)
{
    pthread_mutex_lock(&lock);
    if (o->stuck && !o->emergency) {
        o->next = abandoned;
        abandoned = o;
    } else if (o->emergency) {
        emergency_taken = o->stuck;
    }
    pthread_mutex_unlock(&lock);
    if (o->stuck)
        return;
    wi_free(o->cards);
    wi_free(o->groups);
    if (!o->emergency)
        wi_free(o);
}

/* ---- agreement over MPI ---- */

wharf_status wi_opening_wait(wi_opening *o, const char *call)
{
    wharf_status status = wi_mpi_wait(&o->request, call, NULL, o->deadline);

    if (status == WHARF_ETIMEDOUT)
        o->stuck = true;
    return status;
}

/* The first numbers that ranks of different versions exchange: lowest failing
 * rank, lowest and (negated) highest protocol. This much never changes. */
wharf_status wi_opening_agree_start(wi_opening *o, MPI_Comm mpi, int rank,
                                    wharf_status mine)
{
    int code;

    o->numbers[0][0] = mine == WHARF_OK ? INT_MAX : rank;
    o->numbers[0][1] = WI_COMM_PROTOCOL;
    o->numbers[0][2] = -WI_COMM_PROTOCOL;
    code = MPI_Iallreduce(o->numbers[0], o->numbers[1], 3, MPI_INT64_T, MPI_MIN,
                          mpi, &o->request);
    return code == MPI_SUCCESS ? WHARF_OK : wi_mpi_fail(code, "MPI_Iallreduce");
}

wharf_status wi_opening_agree_end(wi_opening *o, MPI_Comm mpi, int rank,
                                  wharf_status mine)
{
    wharf_status status = wi_opening_wait(o, "MPI_Iallreduce");
    int code, failed;

    if (status != WHARF_OK)
        return status;
    if (o->numbers[1][1] != -o->numbers[1][2])
        return wi_fail(WHARF_EPROTOCOL, "use one version of Wharf on all ranks",
                       "ranks speak protocols %d to %d", (int)o->numbers[1][1],
                       (int)-o->numbers[1][2]);
    if (o->numbers[1][0] == INT_MAX)
        return WHARF_OK;
    failed = (int)o->numbers[1][0];
    if (failed == rank)
        wi_round_own_record(mine, &o->record);
    code = MPI_Ibcast(&o->record, (int)sizeof o->record, MPI_BYTE, failed, mpi,
                      &o->request);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Ibcast");
    status = wi_opening_wait(o, "MPI_Ibcast");
    if (status != WHARF_OK)
        return status;
    return wi_round_adopt(&o->record,
                          o->record.rank >= 0 ? o->record.rank : failed);
}

wharf_status wi_opening_agree(wi_opening *o, MPI_Comm mpi, int rank,
                              wharf_status mine)
{
    wharf_status status = wi_opening_agree_start(o, mpi, rank, mine);

    if (status != WHARF_OK)
        return status;
    return wi_opening_agree_end(o, mpi, rank, mine);
}

/* ---- the duplicate ---- */

/* o->whole, from the attribute or new. */
static wharf_status whole_get(wi_opening *o)
{
    wharf_status status = wi_dup_find(o->user, &o->whole);
    int code;

    if (status != WHARF_OK || o->whole != MPI_COMM_NULL)
        return status;
    code = MPI_Comm_idup(o->user, &o->whole, &o->request);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Comm_idup");
    status = wi_opening_wait(o, "MPI_Comm_idup");
    if (status != WHARF_OK)
        return status;
    o->fresh = true;
    MPI_Comm_set_errhandler(o->whole, MPI_ERRORS_RETURN);
    return WHARF_OK;
}

/* A boot id that could not be read for want of a descriptor would put this
 * rank on a node of its own. */
static wharf_status identity_check(const wi_identity *self)
{
    const char *remedy = self->boot_id[0] ? NULL : wi_sys_descriptors_short();

    return remedy ? wi_fail_os(EMFILE, remedy, "cannot read the boot id")
                  : WHARF_OK;
}

/* What a rank needs before the blocking calls. */
static wharf_status whole_prepare(wi_opening *o)
{
    wharf_status status = wi_dup_watch_finalize();

    MPI_Comm_rank(o->whole, &o->whole_rank);
    MPI_Comm_size(o->whole, &o->whole_size);
    wi_identity_self(&o->card.identity);
    o->card.leader = o->whole_rank;
    if (status == WHARF_OK && o->fresh)
        status = wi_dup_keep(o->user, o->whole);
    if (status != WHARF_OK)
        return status;
    if (o->emergency || !WI_NEW(o->comm))
        return WHARF_ENOMEM;
    o->cards = wi_calloc((size_t)o->whole_size, sizeof *o->cards);
    o->groups = wi_calloc((size_t)o->whole_size, sizeof *o->groups);
    return o->cards && o->groups ? identity_check(&o->card.identity)
                                 : WHARF_ENOMEM;
}

/* All ranks of the whole are there and able to go on, or none goes on. */
static wharf_status whole_gather(wi_opening *o)
{
    wharf_status status = whole_get(o);
    wi_deadline deadline = o->deadline;
    int code;

    if (status != WHARF_OK)
        return status;
    status = whole_prepare(o);
    status = wi_opening_agree(o, o->whole, o->whole_rank, status);
    if (status != WHARF_OK) {
        o->together = !o->stuck && status != WHARF_EMPI;
        return status;
    }
    code = MPI_Ibarrier(o->whole, &o->request);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Ibarrier");
    if (deadline != WI_NEVER &&
        deadline - wi_now_ns() < GRACE_MS * WI_NS_PER_MS)
        o->deadline = wi_deadline_in_ms(GRACE_MS);
    status = wi_opening_wait(o, "MPI_Ibarrier");
    o->deadline = deadline;
    return status;
}

/* After a failure before the ranks were split. If all agreed on it, a new
 * duplicate is freed, so that the next opening begins on every rank alike.
 * Else the ranks may differ in how far they got, and it is not used again. */
static void whole_undo(wi_opening *o)
{
    MPI_Comm kept = MPI_COMM_NULL;

    if (o->together && !o->fresh)
        return;
    wharf_ignore(wi_dup_find(o->user, &kept));
    if (kept != MPI_COMM_NULL)
        wi_dup_forget(o->user);
    if (o->together)
        MPI_Comm_free(&o->whole);
    else if (kept != MPI_COMM_NULL || o->stuck)
        wi_stat_add(WI_STAT_live_communicators, 1);
}

/* ---- the body ---- */

/* Node ranks are in the order of the whole's ranks, so their cards are the
 * group's in order. */
static wharf_status body_fill(wi_opening *o, size_t shared_bytes)
{
    wi_comm *comm = o->comm;
    int group = o->groups[o->whole_rank];
    int next = 0;

    comm->identities = wi_calloc((size_t)comm->size, sizeof *comm->identities);
    if (!comm->identities)
        return WHARF_ENOMEM;
    for (int i = 0; i < o->whole_size && next < comm->size; i++)
        if (o->groups[i] == group)
            comm->identities[next++] = o->cards[i].identity;
    wi_split_remark(o->cards, o->whole_size, o->groups, group, comm->remark,
                    sizeof comm->remark);
    if (comm->size > WHARF_MAX_RANKS)
        return wi_fail(WHARF_ELIMIT, "run fewer ranks on each node",
                       "the node has %d ranks, at most %d are supported",
                       comm->size, WHARF_MAX_RANKS);
    if (wi_channel_new(comm) != WHARF_OK)
        return WHARF_ENOMEM;
    return wi_control_layout(comm->size, shared_bytes, &comm->control_bytes,
                             &comm->shared_offset);
}

static void remark_add(wi_comm *comm, const char *text)
{
    size_t used = strlen(comm->remark);

    snprintf(comm->remark + used, sizeof comm->remark - used, "%s%s",
             used ? "; " : "", text);
}

/* What the ranks tell each other in the first round. */
typedef struct affinity {
    uint64_t cpus[16]; /* that the rank may run on */
    int32_t known;
    int32_t unused;
} affinity;

static affinity affinity_self(void)
{
    affinity own = {.known = 0};
    cpu_set_t set;

    _Static_assert(sizeof set >= sizeof own.cpus, "1024 CPUs");
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        memcpy(own.cpus, &set, sizeof own.cpus);
        own.known = 1;
    }
    return own;
}

/* Spinning for a peer pays only if the peer can run meanwhile. */
static bool cpus_suffice(const affinity *all, int size)
{
    int cpus = 0;

    for (int word = 0; word < 16; word++) {
        uint64_t any = 0;

        for (int r = 0; r < size; r++)
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): agreed on */
            any |= all[r].cpus[word];
        cpus += __builtin_popcountll(any);
    }
    for (int r = 0; r < size; r++)
        if (!all[r].known)
            return false;
    return cpus >= size;
}

/* The first round through the block. It decides, in one step for all, whether
 * the opening succeeded. */
static wharf_status body_finish(wi_opening *o)
{
    wi_comm *comm = o->comm;
    affinity own = affinity_self();
    affinity *all = wi_calloc((size_t)comm->size, sizeof *all);
    bool locked = true;
    wharf_status status;

    status = wi_round_collective(comm, WI_ROUND_OPEN, 0, &own, sizeof own, all,
                                 all ? WHARF_OK : WHARF_ENOMEM, o->deadline);
    if (status == WHARF_OK) {
        comm->spin = cpus_suffice(all, comm->size);
        for (int r = 0; r < comm->size; r++)
            locked = locked && comm->control->slots[r].presence != WI_PRESENT;
        if (!locked)
            remark_add(comm, "no file locks here: a dead rank is noticed by "
                             "its pid or at the deadline");
    }
    wi_free(all);
    return status;
}

/* Local part of giving a body up. */
static void body_free(wi_comm *comm)
{
    if (!comm)
        return;
    if (comm->control)
        wi_control_leave(comm);
    wi_channel_free(comm);
    wi_free(comm->identities);
    wi_free(comm);
}

/* Frees the node's communicator, a collective call, if all ranks are known to
 * do the same. Else it stays, counted, until MPI ends. */
static void node_free(MPI_Comm *node, int thread_level, bool together)
{
    if (*node == MPI_COMM_NULL)
        return;
    if (!wi_mpi_alive()) {
        wi_stat_add(WI_STAT_live_communicators, -1);
    } else if (together && wi_mpi_thread_allowed(thread_level)) {
        MPI_Comm_free(node);
        wi_stat_add(WI_STAT_live_communicators, -1);
    }
    *node = MPI_COMM_NULL;
}

/* On the node's communicator: connect, agree. */
static wharf_status node_connect(wi_opening *o, size_t shared_bytes)
{
    wi_comm *comm = o->comm;
    wharf_status status;

    comm->mpi = o->node;
    comm->lock_fd = -1;
    MPI_Comm_rank(comm->mpi, &comm->rank);
    wi_call_set_rank(comm->rank);
    MPI_Comm_size(comm->mpi, &comm->size);
    MPI_Query_thread(&comm->thread_level);
    status = body_fill(o, shared_bytes);
    status = wi_hello_run(o, status);
    if (o->stuck)
        return status;
    status = wi_opening_agree(o, comm->mpi, comm->rank, status);
    if (status != WHARF_OK)
        return status;
    return body_finish(o);
}

wharf_status wi_comm_open(MPI_Comm user, size_t shared_bytes,
                          wi_deadline deadline, wi_comm **comm)
{
    wharf_error before = *wi_error_record();
    wi_opening *o;
    wharf_status status = wi_mpi_usable(user);

    if (status != WHARF_OK)
        return status;
    o = opening_new();
    if (!o)
        return WHARF_ENOMEM;
    o->user = user;
    o->whole = o->node = MPI_COMM_NULL;
    o->deadline = deadline;
    status = whole_gather(o);
    if (status != WHARF_OK)
        goto undo_whole;
    status = wi_split_run(o);
    if (status != WHARF_OK)
        goto undo_whole;
    wi_stat_add(WI_STAT_live_communicators, 1);
    status = node_connect(o, shared_bytes);
    if (status != WHARF_OK)
        goto undo_node;
    *comm = o->comm;
    wi_registry_add(*comm);
    opening_end(o);
    *wi_error_record() = before;
    return WHARF_OK;

undo_node:
    /* The duplicate stays: ranks of other hosts may have succeeded. */
    node_free(&o->node, o->comm->thread_level,
              !o->stuck && status != WHARF_ETIMEDOUT && status != WHARF_EPEER &&
                  status != WHARF_EMPI);
    goto undo_body;
undo_whole:
    whole_undo(o);
undo_body:
    body_free(o->comm);
    opening_end(o);
    return status;
}

static void comm_end(wi_comm **comm, bool together)
{
    wi_comm *c = *comm;

    node_free(&c->mpi, c->thread_level, together);
    body_free(c);
    *comm = NULL;
}

wharf_status wi_comm_close(wi_comm **comm, wi_deadline deadline)
{
    wharf_status status = WHARF_OK;

    wi_registry_remove(*comm);
    /* After MPI_Finalize there is nobody to be waited for. */
    if (wi_mpi_alive())
        status = wi_round_collective(*comm, WI_ROUND_CLOSE, 0, NULL, 0, NULL,
                                     WHARF_OK, deadline);
    comm_end(comm, status == WHARF_OK);
    return status;
}

void wi_comm_leave(wi_comm **comm)
{
    wi_registry_remove(*comm);
    comm_end(comm, false);
}

/* ---- queries ---- */

int wi_comm_rank(const wi_comm *comm)
{
    return comm->rank;
}

int wi_comm_size(const wi_comm *comm)
{
    return comm->size;
}

MPI_Comm wi_comm_mpi(const wi_comm *comm)
{
    return comm->mpi;
}

const wi_identity *wi_comm_identity(const wi_comm *comm, int rank)
{
    return &comm->identities[rank];
}

const char *wi_comm_remark(const wi_comm *comm)
{
    return comm->remark;
}

void *wi_comm_shared(const wi_comm *comm)
{
    return (unsigned char *)comm->control + comm->shared_offset;
}
