/* SPDX-License-Identifier: MIT */
/*
 * Messages that are prepared once: two lanes, one of sends and one of receives,
 * each goes through its rounds one after the other, and through the messages of
 * a round in any order. Who calls lane_step is in remote_thread.c.
 */
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/mem.h"
#include "comm/private.h"
#include "comm/remote_private.h"

static int64_t numbers; /* highest number of a plan taken in this process */

int64_t wi_remote_propose(void)
{
    return __atomic_load_n(&numbers, __ATOMIC_RELAXED) + 1;
}

void wi_remote_take(int64_t number)
{
    int64_t seen = __atomic_load_n(&numbers, __ATOMIC_RELAXED);

    while (seen < number &&
           !__atomic_compare_exchange_n(&numbers, &seen, number, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* ---- Requests ---------------------------------------------------------- */

/* The plan's number, as large as the library's tags may be. */
static int tag_of(const wi_group *group, int64_t number)
{
    int *most = NULL, found = 0;

    MPI_Comm_get_attr(group->mpi, MPI_TAG_UB, &most, &found);
    return (int)(number % ((found ? (int64_t)*most : 32767) + 1));
}

/* Rows and planes as a type; bytes as they are. */
static int box_type(const wi_remote_box *box, MPI_Datatype *type, int *count)
{
    MPI_Datatype row = MPI_DATATYPE_NULL, plane = MPI_DATATYPE_NULL;
    int code;

    *type = MPI_BYTE;
    *count = (int)box->width;
    if (box->rows == 1 && box->planes == 1)
        return MPI_SUCCESS;
    *count = 1;
    code = MPI_Type_contiguous((int)box->width, MPI_BYTE, &row);
    if (code == MPI_SUCCESS)
        code = MPI_Type_create_hvector((int)box->rows, 1, (MPI_Aint)box->pitch,
                                       row, &plane);
    if (code == MPI_SUCCESS)
        code = MPI_Type_create_hvector((int)box->planes, 1,
                                       (MPI_Aint)box->plane, plane, type);
    if (row != MPI_DATATYPE_NULL)
        MPI_Type_free(&row);
    if (plane != MPI_DATATYPE_NULL)
        MPI_Type_free(&plane);
    return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

/* A request keeps what it needs of its type. */
static wharf_status request_make(const wi_remote *remote, const lane *l,
                                 const wi_remote_box *box, MPI_Request *request)
{
    MPI_Datatype type;
    int count;
    int code = box_type(box, &type, &count);

    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "making a datatype");
    if (l->sends)
        code = MPI_Send_init(box->address, count, type, box->peer, remote->tag,
                             remote->group->mpi, request);
    else
        code = MPI_Recv_init(box->address, count, type, box->peer, remote->tag,
                             remote->group->mpi, request);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    if (code == MPI_SUCCESS)
        return WHARF_OK;
    *request = MPI_REQUEST_NULL;
    return wi_mpi_fail(code, l->sends ? "MPI_Send_init" : "MPI_Recv_init");
}

static wharf_status lane_fill(const wi_remote *remote, lane *l,
                              const wi_remote_list *lists)
{
    wharf_status status = WHARF_OK;
    int most = 1;

    for (int s = 0; s < remote->sets; s++) {
        l->count[s] = lists[s].count;
        most = lists[s].count > most ? lists[s].count : most;
        l->request[s] =
            wi_calloc((size_t)lists[s].count, sizeof *l->request[s]);
        if (!l->request[s])
            return WHARF_ENOMEM;
        for (int i = 0; i < lists[s].count; i++)
            l->request[s][i] = MPI_REQUEST_NULL;
    }
    l->done = wi_calloc((size_t)most, sizeof *l->done);
    l->which = wi_calloc((size_t)most, sizeof *l->which);
    if (!l->done || !l->which)
        return WHARF_ENOMEM;
    for (int s = 0; s < remote->sets; s++)
        for (int i = 0; i < lists[s].count && status == WHARF_OK; i++)
            status =
                request_make(remote, l, &lists[s].box[i], &l->request[s][i]);
    return status;
}

/* ---- One lane ---------------------------------------------------------- */

static bool reached(const uint32_t *word, uint32_t number)
{
    return !word ||
           (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - number) >= 0;
}

static bool may_start(const lane *l)
{
    uint32_t number =
        l->sends ? l->base + (uint32_t)l->next + 1 : (uint32_t)l->round + 1;

    return reached(l->gate, number);
}

static void publish(const lane *l)
{
    __atomic_store_n(l->answer, l->base + (uint32_t)l->prefix,
                     __ATOMIC_RELEASE);
    wi_futex_wake(l->answer);
}

static wharf_status lane_begin(lane *l, int set)
{
    while (l->next < l->count[set] && may_start(l)) {
        int code = MPI_Start(&l->request[set][l->next]);

        if (code != MPI_SUCCESS)
            return wi_mpi_fail(code, "MPI_Start");
        l->next++;
    }
    return WHARF_OK;
}

static wharf_status lane_test(lane *l, int set)
{
    int before = l->prefix, done = 0;
    int code;

    if (l->prefix == l->next)
        return WHARF_OK;
    code = MPI_Testsome(l->next - l->prefix, l->request[set] + l->prefix, &done,
                        l->which, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS)
        return wi_mpi_fail(code, "MPI_Testsome");
    for (int i = 0; i < done; i++)
        l->done[before + l->which[i]] = 1;
    while (l->prefix < l->next && l->done[l->prefix])
        l->prefix++;
    if (l->prefix != before)
        publish(l);
    return WHARF_OK;
}

/* As far as it goes without waiting. */
static wharf_status lane_step(const wi_remote *remote, lane *l)
{
    while (l->round != remote->issued) {
        int set = (int)(l->round % (uint64_t)remote->sets);
        wharf_status status = lane_begin(l, set);

        if (status == WHARF_OK)
            status = lane_test(l, set);
        if (status != WHARF_OK || l->prefix < l->count[set])
            return status;
        l->base += (uint32_t)l->count[set];
        l->round++;
        l->next = 0;
        l->prefix = 0;
        memset(l->done, 0, (size_t)l->count[set]);
    }
    return WHARF_OK;
}

/* What streams wait for will not come: they go on, and the next call says
 * why. */
static void pretend(const wi_remote *remote, lane *l)
{
    uint32_t all = l->base;

    for (uint64_t r = l->round; r != remote->issued; r++)
        all += (uint32_t)l->count[r % (uint64_t)remote->sets];
    __atomic_store_n(l->answer, all, __ATOMIC_RELEASE);
    wi_futex_wake(l->answer);
}

wharf_status wi_remote_step(wi_remote *remote)
{
    wharf_status status = remote->status;

    if (status != WHARF_OK)
        return status;
    status = lane_step(remote, &remote->receives);
    if (status == WHARF_OK)
        status = lane_step(remote, &remote->sends);
    if (status == WHARF_OK)
        return WHARF_OK;
    remote->status = status;
    remote->record = *wi_error_record();
    pretend(remote, &remote->receives);
    pretend(remote, &remote->sends);
    return status;
}

bool wi_remote_idle(const wi_remote *remote)
{
    return remote->status != WHARF_OK ||
           (remote->sends.round == remote->issued &&
            remote->receives.round == remote->issued);
}

/* ---- Life -------------------------------------------------------------- */

/* False: a message is under way that nobody will meet. */
static bool lane_drop(const wi_remote *remote, lane *l)
{
    int set = (int)(l->round % (uint64_t)remote->sets);
    bool clean = l->prefix == l->next;

    if (!wi_mpi_alive())
        return false;
    for (int i = l->prefix; i < l->next; i++)
        if (!l->done[i] && !l->sends)
            MPI_Cancel(&l->request[set][i]);
    for (int s = 0; s < remote->sets; s++)
        for (int i = 0; l->request[s] && i < l->count[s]; i++)
            if (l->request[s][i] != MPI_REQUEST_NULL)
                MPI_Request_free(&l->request[s][i]);
    return clean;
}

static void lane_free(wi_remote *remote, lane *l)
{
    for (int s = 0; s < remote->sets; s++)
        wi_free(l->request[s]);
    wi_free(l->done);
    wi_free(l->which);
}

static void remote_delete(wi_remote *remote)
{
    lane_free(remote, &remote->sends);
    lane_free(remote, &remote->receives);
    pthread_cond_destroy(&remote->wake);
    pthread_mutex_destroy(&remote->lock);
    wi_free(remote);
}

wharf_status wi_remote_new(wi_group *group, const wi_remote_plan *plan,
                           int64_t number, wi_remote **out)
{
    wi_remote *remote;
    wharf_status status;

    if (!WI_NEW(remote))
        return WHARF_ENOMEM;
    pthread_mutex_init(&remote->lock, NULL);
    pthread_cond_init(&remote->wake, NULL);
    remote->group = group;
    remote->sets = plan->sets;
    remote->tag = tag_of(group, number);
    remote->sends =
        (lane){.sends = true, .gate = plan->filled, .answer = plan->sent};
    remote->receives = (lane){.gate = plan->begun, .answer = plan->arrived};
    status = lane_fill(remote, &remote->sends, plan->sends);
    if (status == WHARF_OK)
        status = lane_fill(remote, &remote->receives, plan->receives);
    if (status != WHARF_OK) {
        lane_drop(remote, &remote->sends);
        lane_drop(remote, &remote->receives);
        remote_delete(remote);
        return status;
    }
    wi_remote_employ(remote);
    *out = remote;
    return WHARF_OK;
}

bool wi_remote_free(wi_remote *remote)
{
    bool clean;

    if (!remote)
        return true;
    wi_remote_dismiss(remote);
    clean = lane_drop(remote, &remote->sends);
    clean &= lane_drop(remote, &remote->receives);
    remote_delete(remote);
    return clean;
}
