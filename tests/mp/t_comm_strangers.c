/* SPDX-License-Identifier: MIT */
/*
 * Strangers on the socket by which the ranks of a node meet: they get nothing
 * and hold nobody up. A forked child of rank 0 is the stranger; it starts as
 * soon as the socket listens and is in before the first rank.
 */
#define _GNU_SOURCE /* struct ucred */
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/stat.h"
#include "comm/private.h"
#include "t_test.h"

#define CROWD 300

static int me, ranks;
static pid_t stranger;
static int report[2]; /* the stranger writes what it got: "." nothing */

typedef void (*stranger_body)(const struct sockaddr_un *, socklen_t);
static stranger_body body;

static wi_deadline soon(void)
{
    return wi_deadline_in_ms(20000);
}

/* Waits for what rank 0 says to a stranger: the end of the connection, and no
 * descriptor. */
static void expect_nothing(int fd)
{
    char bytes[1000];
    char room[CMSG_SPACE(64 * sizeof(int))];
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = room,
                             .msg_controllen = sizeof room};
    ssize_t got = recvmsg(fd, &message, 0);

    if (got > 0) {
        fprintf(stderr, "a stranger got %zd bytes\n", got);
        _exit(1);
    }
    close(fd);
}

static int knock(const struct sockaddr_un *address, socklen_t bytes)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)address, bytes) != 0)
        _exit(2);
    return fd;
}

/* Tells the parent that this stranger has done what it came for. */
static void say_done(void)
{
    T_EQ_INT(1, write(report[1], ".", 1));
}

static void silent(const struct sockaddr_un *address, socklen_t bytes)
{
    int fd = knock(address, bytes);

    say_done();
    expect_nothing(fd);
}

static void leaves_early(const struct sockaddr_un *address, socklen_t bytes)
{
    close(knock(address, bytes));
    say_done();
}

/* All lengths around that of the real message, and much more. */
static void garbage(const struct sockaddr_un *address, socklen_t bytes)
{
    static const size_t lengths[] = {0, 1, 16, 31, 32, 33, 4096};
    static char noise[4096];
    int fds[7];

    memset(noise, 0xa5, sizeof noise);
    for (int i = 0; i < 7; i++) {
        fds[i] = knock(address, bytes);
        send(fds[i], noise, lengths[i], MSG_NOSIGNAL);
    }
    say_done();
    for (int i = 0; i < 7; i++)
        expect_nothing(fds[i]);
}

/* Everything right but the token. */
static void wrong_token(const struct sockaddr_un *address, socklen_t bytes)
{
    struct {
        uint32_t magic, protocol;
        int32_t rank;
        uint32_t unused;
        unsigned char token[16];
    } said = {WI_COMM_MAGIC, WI_COMM_PROTOCOL, 1, 0, {1, 2, 3}};
    int fd = knock(address, bytes);

    send(fd, &said, sizeof said, MSG_NOSIGNAL);
    say_done();
    expect_nothing(fd);
}

/* Sends descriptors that nobody asked for. */
static void gifts(const struct sockaddr_un *address, socklen_t bytes)
{
    int fd = knock(address, bytes);
    int fds[3] = {0, 1, 2};

    wharf_ignore(wi_channel_send(fd, "hello", 5, fds, 3));
    say_done();
    expect_nothing(fd);
}

static void crowd(const struct sockaddr_un *address, socklen_t bytes)
{
    static int fds[CROWD];

    for (int i = 0; i < CROWD; i++)
        fds[i] = knock(address, bytes);
    say_done();
    for (int i = 0; i < CROWD; i++)
        expect_nothing(fds[i]);
}

static void other_user(const struct sockaddr_un *address, socklen_t bytes)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(3);
    wrong_token(address, bytes);
}

static void on_listen(const struct sockaddr_un *address, socklen_t bytes)
{
    char seen;

    T_EQ_INT(0, address->sun_path[0]); /* abstract: no name on disk */
    T_EQ_INT(0, pipe(report));
    stranger = fork();
    T_CHECK(stranger >= 0);
    if (stranger == 0) {
        alarm(30);
        body(address, bytes);
        _exit(0);
    }
    /* The stranger is in before any rank. */
    T_EQ_INT(1, read(report[0], &seen, 1));
    close(report[0]);
    close(report[1]);
}

static void check_opening(stranger_body one)
{
    wi_comm *comm = NULL;
    int32_t all[64];
    int state;

    body = one;
    wi_hello_test_hook = me == 0 ? on_listen : NULL;
    T_OK(wi_comm_open(MPI_COMM_WORLD, 0, soon(), &comm));
    T_OK(wi_comm_allgather(comm, &me, sizeof me, all, soon()));
    for (int r = 0; r < ranks; r++)
        T_EQ_INT(r, all[r]);
    T_OK(wi_comm_close(&comm, soon()));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    if (me == 0) {
        T_EQ_INT(stranger, waitpid(stranger, &state, 0));
        T_EQ_INT(0, state);
    }
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check_opening(silent);
    check_opening(leaves_early);
    check_opening(garbage);
    check_opening(wrong_token);
    check_opening(gifts);
    check_opening(crowd);
    check_opening(other_user);
    MPI_Finalize();
    return 0;
}
