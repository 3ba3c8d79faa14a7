/* SPDX-License-Identifier: MIT */
/* Communicators of the user that may span nodes: duplicate, agreement, data. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/stat.h"
#include "comm/private.h"
#include "comm/remote_private.h"

/* ---- What a rank sees alone
 * ------------------------------------------------------------- */

/* node_ranks[r]: of rank r of the communicator, -1 where it is elsewhere. */
static wharf_status ranks_translate(MPI_Comm user, const wi_comm *node,
                                    int size, int *node_ranks)
{
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    int *ranks = wi_calloc((size_t)size, sizeof *ranks);
    int code;

    if (!ranks)
        return WHARF_ENOMEM;
    for (int r = 0; r < size; r++)
        ranks[r] = r;
    MPI_Comm_group(user, &all);
    MPI_Comm_group(node->mpi, &here);
    code = MPI_Group_translate_ranks(all, size, ranks, here, node_ranks);
    MPI_Group_free(&all);
    MPI_Group_free(&here);
    wi_free(ranks);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Group_translate_ranks");
    for (int r = 0; r < size; r++)
        if (node_ranks[r] == MPI_UNDEFINED)
            node_ranks[r] = -1;
    return WHARF_OK;
}

/* ---- Waiting ----------------------------------------------------------- */

/* A rank did not come: what is pending stays so, and nothing more is begun. */
static wharf_status get_stuck(wi_group *group, wharf_status status)
{
    group->stuck = true;
    group->record = *wi_error_record();
    return status;
}

/* WHARF_OK, or how the group got stuck. */
static wharf_status stuck_check(const wi_group *group)
{
    if (!group->stuck && !group->over)
        return WHARF_OK;
    *wi_error_record() = group->record;
    return group->record.status;
}

/* Waits for a call that was begun with `code`. */
static wharf_status group_end(wi_group *group, int code, const char *call,
                              wi_deadline deadline)
{
    wharf_status status;

    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, call);
    status = wi_mpi_wait(&group->request, call, group->node, deadline);
    return status == WHARF_ETIMEDOUT || status == WHARF_EPEER
               ? get_stuck(group, status)
               : status;
}

/* ---- Agreement --------------------------------------------------------- */

wharf_status wi_group_agree(wi_group *group, wharf_status mine,
                            wi_deadline deadline)
{
    wharf_status status = stuck_check(group);
    int code;

    if (status != WHARF_OK)
        return status;
    group->numbers[0] = mine == WHARF_OK ? INT_MAX : group->rank;
    code = MPI_Iallreduce(&group->numbers[0], &group->numbers[1], 1, MPI_INT,
                          MPI_MIN, group->mpi, &group->request);
    status = group_end(group, code, "MPI_Iallreduce", deadline);
    if (status != WHARF_OK || group->numbers[1] == INT_MAX)
        return status;
    if (group->numbers[1] == group->rank)
        wi_round_own_record(mine, &group->record);
    code = MPI_Ibcast(&group->record, (int)sizeof group->record, MPI_BYTE,
                      group->numbers[1], group->mpi, &group->request);
    status = group_end(group, code, "MPI_Ibcast", deadline);
    if (status != WHARF_OK)
        return status;
    return wi_round_adopt(&group->record, group->record.rank);
}

wharf_status wi_group_allgather(wi_group *group, const void *mine, size_t bytes,
                                void *all, wi_deadline deadline)
{
    wharf_status status = stuck_check(group);
    int code;

    if (status != WHARF_OK)
        return status;
    code = MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                          group->mpi, &group->request);
    return group_end(group, code, "MPI_Iallgather", deadline);
}

/* ---- Data to each rank ------------------------------------------------- */

/* Where each rank's bytes start; WHARF_ELIMIT beyond MPI's counts. */
static wharf_status starts_make(const int *bytes, int size, int *starts,
                                size_t *total)
{
    size_t sum = 0;

    for (int r = 0; r < size; r++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): agreed on */
        starts[r] = (int)sum;
        sum += (size_t)bytes[r];
        if (sum > INT_MAX)
            return wi_fail(WHARF_ELIMIT, "make fewer transfers",
                           "the description of the transfers exceeds 2 GiB");
    }
    *total = sum;
    return WHARF_OK;
}

static wharf_status alltoall_data(wi_group *group, const int *bytes_to,
                                  const void *data, const int *bytes_from,
                                  int *starts, void **got, wi_deadline deadline)
{
    int *starts_from = starts + group->size;
    size_t out = 0, in = 0;
    wharf_status status = starts_make(bytes_to, group->size, starts, &out);
    void *came;
    int code;

    if (status == WHARF_OK)
        status = starts_make(bytes_from, group->size, starts_from, &in);
    came = status == WHARF_OK ? wi_calloc(1, in) : NULL;
    if (status == WHARF_OK && !came)
        status = WHARF_ENOMEM;
    /* A rank that cannot go on says so before the others send to it. */
    status = wi_group_agree(group, status, deadline);
    if (status != WHARF_OK) {
        if (!group->stuck)
            wi_free(came);
        return status;
    }
    code = MPI_Ialltoallv(data, bytes_to, starts, MPI_BYTE, came, bytes_from,
                          starts_from, MPI_BYTE, group->mpi, &group->request);
    status = group_end(group, code, "MPI_Ialltoallv", deadline);
    if (status == WHARF_OK)
        *got = came;
    else if (!group->stuck)
        wi_free(came);
    return status;
}

wharf_status wi_group_alltoall(wi_group *group, const int *bytes_to,
                               const void *data, int *bytes_from, void **got,
                               wi_deadline deadline)
{
    int *starts = wi_calloc(2 * (size_t)group->size, sizeof *starts);
    wharf_status status =
        wi_group_agree(group, starts ? WHARF_OK : WHARF_ENOMEM, deadline);
    int code;

    if (status == WHARF_OK) {
        code = MPI_Ialltoall(bytes_to, 1, MPI_INT, bytes_from, 1, MPI_INT,
                             group->mpi, &group->request);
        status = group_end(group, code, "MPI_Ialltoall", deadline);
    }
    if (status == WHARF_OK)
        status = alltoall_data(group, bytes_to, data, bytes_from, starts, got,
                               deadline);
    if (!group->stuck)
        wi_free(starts);
    return status;
}

/* ---- Life -------------------------------------------------------------- */

static wharf_status duplicate(wi_group *group, bool *fresh,
                              wi_deadline deadline)
{
    wharf_status status = wi_dup_find(group->user, &group->mpi);
    int code;

    *fresh = false;
    if (status != WHARF_OK || group->mpi != MPI_COMM_NULL)
        return status;
    code = MPI_Comm_idup(group->user, &group->mpi, &group->request);
    status = group_end(group, code, "MPI_Comm_idup", deadline);
    if (status != WHARF_OK)
        return status;
    *fresh = true;
    MPI_Comm_set_errhandler(group->mpi, MPI_ERRORS_RETURN);
    status = wi_dup_watch_finalize();
    if (status == WHARF_OK)
        status = wi_dup_keep(group->user, group->mpi);
    return status;
}

/* All ranks do, or some would make the next duplicate without the others. */
static void duplicate_drop(wi_group *group)
{
    MPI_Comm kept = MPI_COMM_NULL;
    wharf_error cause = *wi_error_record();

    wharf_ignore(wi_dup_find(group->user, &kept));
    if (kept != MPI_COMM_NULL)
        wi_dup_forget(group->user);
    MPI_Comm_free(&group->mpi);
    group->record = cause;
    group->over = true;
    *wi_error_record() = cause;
}

wharf_status wi_group_new(MPI_Comm user, wi_comm *node, wi_group **out)
{
    wharf_status status = wi_mpi_usable(user);
    wi_group *group;

    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(group))
        return WHARF_ENOMEM;
    group->node = node;
    group->user = user;
    group->mpi = MPI_COMM_NULL;
    MPI_Comm_rank(user, &group->rank);
    MPI_Comm_size(user, &group->size);
    group->node_ranks =
        wi_calloc((size_t)group->size, sizeof *group->node_ranks);
    status = WHARF_ENOMEM;
    if (group->node_ranks)
        status = ranks_translate(user, node, group->size, group->node_ranks);
    if (status != WHARF_OK) {
        wi_group_close(group);
        return status;
    }
    for (int r = 0; r < group->size; r++)
        group->wider |= group->node_ranks[r] < 0;
    *out = group;
    return WHARF_OK;
}

wharf_status wi_group_open(wi_group *group, wharf_status mine,
                           wi_deadline deadline)
{
    wharf_error kept = *wi_error_record();
    bool fresh = false;
    wharf_status status = duplicate(group, &fresh, deadline);

    /* With a duplicate the others can be told, whatever failed. */
    if (status != WHARF_OK && (group->stuck || !fresh))
        return status;
    if (mine != WHARF_OK)
        *wi_error_record() = kept;
    else
        mine = status;
    status = wi_group_agree(group, mine, deadline);
    if (status != WHARF_OK && fresh && !group->stuck)
        duplicate_drop(group);
    return status;
}

/* For a rank without memory for a group; see wi_group_spare. */
static wi_group spare;
static bool spare_taken; /* atomic */

/* MPI may still write into a group with a pending request, and the ranks may
 * differ in how far they got with its duplicate. */
void wi_group_close(wi_group *group)
{
    if (!group)
        return;
    if (group->stuck) {
        wi_dup_forget(group->user);
        wi_stat_add(WI_STAT_live_communicators, 1);
        return;
    }
    if (group == &spare) {
        __atomic_store_n(&spare_taken, false, __ATOMIC_RELEASE);
        return;
    }
    wi_free(group->node_ranks);
    wi_free(group);
}

wi_group *wi_group_spare(MPI_Comm user, wi_comm *node)
{
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    MPI_Group rest = MPI_GROUP_NULL;
    int elsewhere = 0;

    if (wi_mpi_usable(user) != WHARF_OK ||
        __atomic_exchange_n(&spare_taken, true, __ATOMIC_ACQUIRE))
        return NULL;
    spare = (wi_group){.node = node, .user = user, .mpi = MPI_COMM_NULL};
    MPI_Comm_rank(user, &spare.rank);
    MPI_Comm_size(user, &spare.size);
    MPI_Comm_group(user, &all);
    MPI_Comm_group(node->mpi, &here);
    MPI_Group_difference(all, here, &rest);
    MPI_Group_size(rest, &elsewhere);
    MPI_Group_free(&all);
    MPI_Group_free(&here);
    if (rest != MPI_GROUP_EMPTY)
        MPI_Group_free(&rest);
    spare.wider = elsewhere > 0;
    return &spare;
}

int wi_group_rank(const wi_group *group)
{
    return group->rank;
}

int wi_group_size(const wi_group *group)
{
    return group->size;
}

bool wi_group_stuck(const wi_group *group)
{
    return group->stuck;
}

bool wi_group_wider(const wi_group *group)
{
    return group->wider;
}

int wi_group_node_rank(const wi_group *group, int rank)
{
    return group->node_ranks[rank];
}

const char *wi_group_rank_text(const wi_group *group, int rank, char text[64])
{
    int here = rank >= 0 && rank < group->size ? group->node_ranks[rank] : -1;

    if (here == rank)
        snprintf(text, 64, "rank %d", rank);
    else if (here >= 0)
        snprintf(text, 64, "rank %d (node rank %d)", rank, here);
    else
        snprintf(text, 64, "rank %d (another node)", rank);
    return text;
}
