/* SPDX-License-Identifier: MIT */
/*
 * How the ranks of a node come to hold a socket to rank 0 each, and the
 * control block.
 *
 * Rank 0 listens on an abstract Unix socket whose name the kernel chooses, and
 * tells name and token over MPI. Anybody on the machine may connect to it. Who
 * is not of our user, does not show the token, or shows it with another
 * process's pid is dropped; nobody is waited for singly. Rank 0 in turn proves
 * itself with an answer that only travelled over MPI.
 */
#define _GNU_SOURCE /* struct ucred, ppoll */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sys.h"
#include "comm/private.h"

/* Connections that have not yet said who they are; the oldest goes first. */
#define PENDING (WHARF_MAX_RANKS + 64) /* all ranks at once, and strangers */
#define BACKLOG 4096
#define NAP_NS 100000

void (*wi_hello_test_hook)(const struct sockaddr_un *address, socklen_t bytes);

/* Rank to rank 0. */
typedef struct join {
    uint32_t magic;
    uint32_t protocol;
    int32_t rank;
    uint32_t unused;
    unsigned char token[16];
} join;

/* Rank 0 to rank, with the control block's descriptor if ok. */
typedef struct welcome {
    uint32_t magic;
    int32_t ok;
    uint64_t control_bytes;
    unsigned char answer[16];
} welcome;

/* Rank 0's side. */
typedef struct hub {
    wi_opening *o;
    int listener;
    int pending[PENDING]; /* in order of arrival */
    int pending_count;
    int joined; /* other ranks that are in */
} hub;

/* Takes the same time wherever the first difference is. */
static bool token_equal(const unsigned char *a, const unsigned char *b)
{
    unsigned char differs = 0;

    for (int i = 0; i < 16; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}

/* Is the process at the other end of our user, and if `rank` is not -1 and its
 * pid means something here, that rank's process? */
static bool peer_is(const wi_comm *comm, int socket, int rank)
{
    const wi_identity *own = &comm->identities[comm->rank];
    struct ucred peer = {0};
    socklen_t bytes = sizeof peer;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
        peer.uid != own->uid)
        return false;
    if (rank < 0 || own->pid_ns == 0 ||
        own->pid_ns != comm->identities[rank].pid_ns)
        return true;
    return peer.pid == comm->identities[rank].pid;
}

/* Rank 0 is not who it said it is: most likely one of the two has changed its
 * user since it was started. */
static wharf_status fail_other_process(const wi_comm *comm, int socket)
{
    struct ucred peer = {0};
    socklen_t bytes = sizeof peer;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return wi_fail_os(wi_sys_errno(), NULL, "who has the socket of rank 0");
    return wi_fail(WHARF_EOS,
                   "run all ranks of a node as one user, with one view of "
                   "processes",
                   "the socket of rank 0 belongs to another process (user %u, "
                   "pid %d; this rank is of user %u)",
                   (unsigned)peer.uid, (int)peer.pid,
                   (unsigned)comm->identities[comm->rank].uid);
}

static wharf_status hub_listen(hub *h)
{
    wi_invite *invite = &h->o->invite;
    struct sockaddr *address = (struct sockaddr *)&invite->address;
    socklen_t bytes = sizeof invite->address;
    wharf_status status;

    status = wi_sys_random(invite->token, sizeof invite->token);
    if (status == WHARF_OK)
        status = wi_sys_random(invite->answer, sizeof invite->answer);
    if (status == WHARF_OK)
        status = wi_sys_socket(SOCK_SEQPACKET, &h->listener);
    if (status != WHARF_OK)
        return status;
    /* The family alone: the kernel chooses a free abstract name. */
    invite->address.sun_family = AF_UNIX;
    status = wi_sys_bind(h->listener, address, sizeof(sa_family_t));
    if (status == WHARF_OK)
        status = wi_sys_listen(h->listener, BACKLOG);
    if (status == WHARF_OK && getsockname(h->listener, address, &bytes) != 0)
        status = wi_fail_os(errno, NULL, "getsockname of a Unix socket");
    if (status != WHARF_OK) {
        wi_sys_close(&h->listener);
        return status;
    }
    invite->address_bytes = bytes;
    invite->open = 1;
    if (wi_hello_test_hook)
        wi_hello_test_hook(&invite->address, bytes);
    return WHARF_OK;
}

static void pending_drop(hub *h, int at)
{
    wi_sys_close(&h->pending[at]);
    h->pending_count--;
    memmove(&h->pending[at], &h->pending[at + 1],
            (size_t)(h->pending_count - at) * sizeof h->pending[0]);
}

/* Takes what came to the listener. Out of descriptors: whoever said nothing
 * yet makes room. */
static wharf_status hub_accept(hub *h)
{
    for (;;) {
        int fd = -1;
        wharf_status status = wi_sys_accept(h->listener, &fd);

        if (status == WHARF_ENOTREADY)
            return WHARF_OK;
        if (status != WHARF_OK) {
            if (h->pending_count == 0 || wi_sys_errno() != EMFILE)
                return status;
            pending_drop(h, 0);
            continue;
        }
        if (!peer_is(h->o->comm, fd, -1)) {
            wi_sys_close(&fd);
            continue;
        }
        if (h->pending_count == PENDING)
            pending_drop(h, 0);
        h->pending[h->pending_count++] = fd;
    }
}

int wi_hello_join_rank(const void *data, size_t bytes,
                       const unsigned char token[16], int size)
{
    join said;

    if (bytes != sizeof said)
        return -1;
    memcpy(&said, data, sizeof said);
    if (said.magic != WI_COMM_MAGIC || said.protocol != WI_COMM_PROTOCOL ||
        said.rank <= 0 || said.rank >= size || !token_equal(said.token, token))
        return -1;
    return said.rank;
}

/* The rank that spoke and is not in yet, or -1. */
static int join_rank(const hub *h, int fd, const join *said, size_t bytes)
{
    const wi_comm *comm = h->o->comm;
    int rank = wi_hello_join_rank(said, bytes, h->o->invite.token, comm->size);

    if (rank < 0 || comm->channel.sockets[rank] >= 0 ||
        !peer_is(comm, fd, rank))
        return -1;
    return rank;
}

/* Reads what the pending ones said. Any descriptors that a stranger sent along
 * are thrown away by the kernel, for there is no room for them. */
static void hub_read(hub *h)
{
    for (int i = 0; i < h->pending_count;) {
        join said;
        size_t bytes = 0;
        struct iovec iov = {.iov_base = &said, .iov_len = sizeof said};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        wharf_status status = wi_sys_recvmsg(h->pending[i], &message, &bytes);
        int rank = -1;

        if (status == WHARF_ENOTREADY) {
            i++;
            continue;
        }
        if (status == WHARF_OK)
            rank = join_rank(h, h->pending[i], &said, bytes);
        if (rank >= 0) {
            h->o->comm->channel.sockets[rank] = h->pending[i];
            h->pending[i] = -1;
            h->joined++;
        }
        pending_drop(h, i);
    }
}

static wharf_status hub_serve(hub *h)
{
    wharf_status status = hub_accept(h);

    hub_read(h);
    return status;
}

/* Sleeps until something comes, not longer than a look at MPI may wait. */
static void hub_sleep(hub *h)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct pollfd polls[PENDING + 1];
    nfds_t count = 0;

    if (h->listener >= 0)
        polls[count++] = (struct pollfd){.fd = h->listener, .events = POLLIN};
    for (int i = 0; i < h->pending_count; i++)
        polls[count++] = (struct pollfd){.fd = h->pending[i], .events = POLLIN};
    ppoll(polls, count, &nap, NULL);
}

/* Rank 0 serves its socket while it waits for the agreement "all connected",
 * because a full backlog would keep a rank from connecting. */
static wharf_status hub_agree(hub *h, wharf_status mine)
{
    wi_opening *o = h->o;
    wi_comm *comm = o->comm;
    wharf_status served = mine;
    wharf_status status =
        wi_opening_agree_start(o, comm->mpi, comm->rank, mine);

    if (status != WHARF_OK)
        return status;
    for (;;) {
        status = wi_mpi_test(&o->request, "MPI_Iallreduce");
        if (status != WHARF_ENOTREADY || wi_deadline_passed(o->deadline))
            break;
        if (served == WHARF_OK)
            served = hub_serve(h);
        hub_sleep(h);
    }
    if (status == WHARF_OK || status == WHARF_ENOTREADY)
        status = wi_opening_agree_end(o, comm->mpi, comm->rank, mine);
    return status == WHARF_OK ? served : status;
}

/* All have connected and spoken: reads until all are in. */
static wharf_status hub_gather(hub *h)
{
    wi_comm *comm = h->o->comm;
    wharf_status status = WHARF_OK;

    while (status == WHARF_OK && h->joined < comm->size - 1) {
        status = hub_serve(h);
        if (status != WHARF_OK || h->joined == comm->size - 1)
            break;
        if (wi_deadline_passed(h->o->deadline)) {
            int r = 1;

            while (r < comm->size - 1 && comm->channel.sockets[r] >= 0)
                r++;
            return wi_alive_fail_late(comm, r, comm->size - 2 - h->joined);
        }
        hub_sleep(h);
    }
    return status;
}

static wharf_status send_patiently(int fd, const void *data, size_t bytes,
                                   const int *fds, int count,
                                   wi_deadline deadline)
{
    for (;;) {
        wharf_status status = wi_channel_send(fd, data, bytes, fds, count);
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        bool crowded = status == WHARF_EOS && wi_sys_crowded();

        if ((status != WHARF_ENOTREADY && !crowded) ||
            wi_deadline_passed(deadline))
            return status == WHARF_ENOTREADY
                       ? wi_fail(WHARF_ETIMEDOUT, NULL,
                                 "a Unix socket stayed full")
                       : status;
        poll(crowded ? NULL : &ready, crowded ? 0 : 1, 1);
    }
}

/* Tells every rank that is in how it went; ok: with the control block. */
static wharf_status hub_welcome(hub *h, int control_fd)
{
    wi_comm *comm = h->o->comm;
    welcome said = {.magic = WI_COMM_MAGIC,
                    .ok = control_fd >= 0,
                    .control_bytes = comm->control_bytes};
    wharf_status first = WHARF_OK;

    memcpy(said.answer, h->o->invite.answer, sizeof said.answer);
    for (int r = 1; r < comm->size; r++) {
        wharf_status status;

        if (comm->channel.sockets[r] < 0)
            continue;
        status = send_patiently(comm->channel.sockets[r], &said, sizeof said,
                                &control_fd, said.ok, h->o->deadline);
        if (status != WHARF_OK) {
            /* Its end of file tells the rank. */
            wi_sys_close(&comm->channel.sockets[r]);
            if (first == WHARF_OK)
                first = status;
        }
    }
    return first;
}

static void hub_end(hub *h)
{
    while (h->pending_count > 0)
        pending_drop(h, h->pending_count - 1);
    wi_sys_close(&h->listener);
}

static wharf_status invite_bcast(wi_opening *o)
{
    int code = MPI_Ibcast(&o->invite, (int)sizeof o->invite, MPI_BYTE, 0,
                          o->comm->mpi, &o->request);

    return code == MPI_SUCCESS ? wi_opening_wait(o, "MPI_Ibcast")
                               : wi_mpi_fail(code, "MPI_Ibcast");
}

static wharf_status hub_run(wi_opening *o, wharf_status mine)
{
    hub h = {.o = o, .listener = -1};
    wi_comm *comm = o->comm;
    wharf_status status;
    int control_fd = -1;

    o->invite.magic = WI_COMM_MAGIC;
    o->invite.protocol = WI_COMM_PROTOCOL;
    if (mine == WHARF_OK && comm->size > 1)
        mine = hub_listen(&h);
    status = invite_bcast(o);
    if (status == WHARF_OK)
        status = hub_agree(&h, mine);
    if (status == WHARF_OK)
        status = hub_gather(&h);
    /* All are in, or it failed: no stranger has business here any more. */
    hub_end(&h);
    if (status == WHARF_OK)
        status = wi_control_create(comm, &control_fd);
    if (comm->channel.sockets) {
        wharf_status sent = hub_welcome(&h, control_fd);

        if (status == WHARF_OK)
            status = sent;
    }
    if (status == WHARF_OK)
        status = wi_control_join(comm, control_fd);
    wi_sys_close(&control_fd);
    return status;
}

/* ---- the other ranks ---- */

static wharf_status other_unreachable(const wi_comm *comm)
{
    const char *remedy = NULL;

    /* Abstract names are per network namespace. */
    if (comm->identities[0].net_ns != comm->identities[comm->rank].net_ns)
        remedy = "start the ranks of a node in one network namespace";
    return wi_fail_os(ECONNREFUSED, remedy,
                      "rank %d cannot connect to the socket of rank 0",
                      comm->rank);
}

static wharf_status other_knock(wi_opening *o)
{
    wi_comm *comm = o->comm;
    int *fd = &comm->channel.sockets[0];
    join said = {.magic = WI_COMM_MAGIC,
                 .protocol = WI_COMM_PROTOCOL,
                 .rank = comm->rank};
    wharf_status status = wi_sys_socket(SOCK_SEQPACKET, fd);

    if (status != WHARF_OK)
        return status;
    for (;;) {
        status = wi_sys_connect(*fd, (struct sockaddr *)&o->invite.address,
                                o->invite.address_bytes);
        if (status != WHARF_ENOTREADY)
            break;
        if (wi_deadline_passed(o->deadline))
            return wi_alive_fail_late(comm, 0, 0);
        poll(NULL, 0, 1);
    }
    if (status == WHARF_EOS && wi_sys_errno() == ECONNREFUSED)
        return other_unreachable(comm);
    if (status != WHARF_OK)
        return status;
    if (!peer_is(comm, *fd, 0))
        return fail_other_process(comm, *fd);
    memcpy(said.token, o->invite.token, sizeof said.token);
    return send_patiently(*fd, &said, sizeof said, NULL, 0, o->deadline);
}

/* Rank 0 may take the connection for a stranger's and drop it before this rank
 * has said who it is; then it knocks again. */
static wharf_status other_connect(wi_opening *o)
{
    for (;;) {
        wharf_status status = other_knock(o);

        if (status != WHARF_EOS || !wi_sys_peer_gone() ||
            wi_deadline_passed(o->deadline))
            return status;
        wi_sys_close(&o->comm->channel.sockets[0]);
        poll(NULL, 0, 1);
    }
}

/* Waits for a message, or for the end of the connection. */
static wharf_status other_receive(wi_opening *o, welcome *said, int *fds,
                                  int *count, size_t *bytes)
{
    int fd = o->comm->channel.sockets[0];

    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        wharf_status status =
            wi_channel_receive(fd, said, sizeof *said, bytes, fds, count);

        if (status != WHARF_ENOTREADY)
            return status;
        if (wi_deadline_passed(o->deadline))
            return wi_alive_fail_late(o->comm, 0, 0);
        poll(&ready, 1, wi_deadline_poll_ms(o->deadline, 20));
    }
}

wharf_status wi_hello_welcome_check(const void *data, size_t bytes, int fds,
                                    const unsigned char answer[16],
                                    size_t control_bytes, int rank)
{
    welcome said = {0};

    if (fds < 0)
        return wi_fail_os(EMFILE,
                          "raise the limit of open files of this process "
                          "(ulimit -n)",
                          "no room for the control block's descriptor");
    if (bytes == sizeof said)
        memcpy(&said, data, sizeof said);
    if (bytes != sizeof said || said.magic != WI_COMM_MAGIC ||
        !token_equal(said.answer, answer) || !said.ok || fds != 1)
        return wi_fail(WHARF_EOS, NULL, "rank 0 made no control block");
    if (said.control_bytes != control_bytes)
        return wi_fail(WHARF_EMISMATCH, NULL,
                       "control block of %llu bytes at rank 0, %zu at rank %d",
                       (unsigned long long)said.control_bytes, control_bytes,
                       rank);
    return WHARF_OK;
}

/* Rank 0 drops a connection that it took for a silent stranger's when very
 * many came at once; then this rank knocks again. */
static wharf_status other_welcome(wi_opening *o, int *control_fd)
{
    wi_comm *comm = o->comm;
    int fds[WI_PARCEL_FDS];
    welcome said;
    size_t bytes = 0;
    int count = 0;
    wharf_status status;

    for (;;) {
        status = other_receive(o, &said, fds, &count, &bytes);
        if (status != WHARF_OK && !(status == WHARF_EOS && wi_sys_peer_gone()))
            return status;
        if (status == WHARF_OK && bytes > 0)
            break;
        wi_sys_close(&comm->channel.sockets[0]);
        poll(NULL, 0, 1);
        status = other_connect(o);
        if (status != WHARF_OK)
            return status;
    }
    status = wi_hello_welcome_check(&said, bytes, count, o->invite.answer,
                                    comm->control_bytes, comm->rank);
    if (status == WHARF_OK) {
        *control_fd = fds[0];
        return WHARF_OK;
    }
    for (int i = 0; i < count; i++)
        wi_sys_close(&fds[i]);
    return status;
}

static wharf_status other_run(wi_opening *o, wharf_status mine)
{
    wi_comm *comm = o->comm;
    int control_fd = -1;
    wharf_status status = invite_bcast(o);

    if (status != WHARF_OK)
        return status;
    /* If rank 0 failed there is nothing to connect to; its record will win. */
    if (mine == WHARF_OK && o->invite.open)
        mine = other_connect(o);
    status = wi_opening_agree(o, comm->mpi, comm->rank, mine);
    if (status == WHARF_OK)
        status = other_welcome(o, &control_fd);
    if (status == WHARF_OK)
        status = wi_control_join(comm, control_fd);
    wi_sys_close(&control_fd);
    return status;
}

wharf_status wi_hello_run(wi_opening *o, wharf_status mine)
{
    return o->comm->rank == 0 ? hub_run(o, mine) : other_run(o, mine);
}
