/* SPDX-License-Identifier: MIT */
/* Unix sockets: nothing blocks, everything is close-on-exec, descriptors
 * travel and are counted where they arrive. */
#define _GNU_SOURCE
#include "base/stat.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "t_test.h"

static int64_t descriptors(void)
{
    return wi_stat_get(WI_STAT_live_descriptors);
}

static void check_flags(int fd)
{
    T_CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    T_CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* A listening socket under a name that the kernel chooses. */
static int listener(struct sockaddr_un *address, socklen_t *length, int backlog)
{
    int fd = -1;

    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    T_OK(wi_sys_socket(SOCK_SEQPACKET, &fd));
    check_flags(fd);
    T_OK(wi_sys_bind(fd, (struct sockaddr *)address, sizeof(sa_family_t)));
    *length = sizeof *address;
    T_EQ_INT(0, getsockname(fd, (struct sockaddr *)address, length));
    T_OK(wi_sys_listen(fd, backlog));
    return fd;
}

/* Sends bytes with a descriptor (-1: none); ENOTREADY is passed on. */
static wharf_status send_one(int fd, char *bytes, size_t count, int carried)
{
    struct iovec piece = {bytes, count};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {{0, 0, 0}};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    struct cmsghdr *head;
    size_t sent = 0;
    wharf_status status;

    if (carried >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &carried, sizeof carried);
    }
    status = wi_sys_sendmsg(fd, &message, &sent);
    T_EQ_INT(status == WHARF_OK ? count : 0, sent);
    return status;
}

static wharf_status receive_one(int fd, char *bytes, size_t capacity,
                                size_t *got, int *carried)
{
    struct iovec piece = {bytes, capacity};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    wharf_status status = wi_sys_recvmsg(fd, &message, got);
    struct cmsghdr *head;

    *carried = -1;
    if (status != WHARF_OK)
        return status;
    head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS)
        memcpy(carried, CMSG_DATA(head), sizeof *carried);
    return WHARF_OK;
}

static void check_travel(int sender, int receiver)
{
    char text[64];
    size_t got = 77;
    int memory = -1, carried = -1;
    int64_t before = descriptors();

    T_STATUS(WHARF_ENOTREADY,
             receive_one(receiver, text, sizeof text, &got, &carried));
    T_EQ_INT(77, got);
    T_OK(wi_sys_memfd("carried", 4096, &memory));
    T_OK(send_one(sender, (char[]){"parcel"}, 7, memory));
    wi_sys_close(&memory);
    T_OK(receive_one(receiver, text, sizeof text, &got, &carried));
    T_EQ_INT(7, got);
    T_EQ_STR("parcel", text);
    T_CHECK(carried >= 0);
    T_CHECK(fcntl(carried, F_GETFD) & FD_CLOEXEC);
    T_EQ_INT(before, descriptors());
    wi_sys_adopt(carried);
    T_EQ_INT(before + 1, descriptors());
    T_EQ_INT(4096, lseek(carried, 0, SEEK_END));

    /* Another owner takes it over and closes it. */
    wi_sys_disown(carried);
    T_EQ_INT(before, descriptors());
    close(carried);
}

/* A receiver that does not read: the sender is told to come again. */
static void check_full(int sender)
{
    static char block[4096];
    int sent = 0;

    while (send_one(sender, block, sizeof block, -1) == WHARF_OK)
        T_CHECK(++sent < 1000000);
    T_CHECK(sent > 0);
}

static void check_talk(void)
{
    struct sockaddr_un address;
    socklen_t length;
    int server = listener(&address, &length, 8);
    int client = -1, peer = -1;
    char byte;
    size_t got = 77;
    int carried;

    T_STATUS(WHARF_ENOTREADY, wi_sys_accept(server, &peer));
    T_EQ_INT(-1, peer);
    T_OK(wi_sys_socket(SOCK_SEQPACKET, &client));
    T_OK(wi_sys_connect(client, (struct sockaddr *)&address, length));
    T_OK(wi_sys_accept(server, &peer));
    check_flags(peer);
    T_EQ_INT(3, descriptors());
    check_travel(client, peer);
    check_travel(peer, client);
    check_full(client);

    /* A peer that is gone: end of file one way, an error the other way, and
     * no signal. */
    wi_sys_close(&client);
    while (receive_one(peer, &byte, 1, &got, &carried) == WHARF_OK && got > 0)
        continue;
    T_EQ_INT(0, got);
    T_STATUS(WHARF_EOS, send_one(peer, (char[]){"x"}, 1, -1));
    wi_sys_close(&peer);
    wi_sys_close(&server);
    T_EQ_INT(0, descriptors());
}

/* A backlog that is full: come again, then it works. */
static void check_backlog(void)
{
    struct sockaddr_un address;
    socklen_t length;
    int server = listener(&address, &length, 0);
    int clients[64];
    int count = 0, peer = -1;
    wharf_status status;

    do {
        T_CHECK(count < 64);
        T_OK(wi_sys_socket(SOCK_SEQPACKET, &clients[count]));
        status = wi_sys_connect(clients[count++], (struct sockaddr *)&address,
                                length);
    } while (status == WHARF_OK);
    T_EQ_INT(WHARF_ENOTREADY, status);
    T_OK(wi_sys_accept(server, &peer));
    T_OK(wi_sys_connect(clients[count - 1], (struct sockaddr *)&address,
                        length));
    while (count > 0)
        wi_sys_close(&clients[--count]);
    wi_sys_close(&peer);
    wi_sys_close(&server);

    T_OK(wi_sys_socket(SOCK_SEQPACKET, &peer));
    T_STATUS(WHARF_EOS,
             wi_sys_connect(peer, (struct sockaddr *)&address, length));
    wi_sys_close(&peer);
    T_EQ_INT(0, descriptors());
}

/* Sockets that others left blocking do not block Wharf. */
static void check_blocking(void)
{
    int pair[2];
    char byte;
    size_t got;
    int carried;

    T_EQ_INT(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    T_STATUS(WHARF_ENOTREADY, receive_one(pair[0], &byte, 1, &got, &carried));
    check_full(pair[0]);
    close(pair[0]);
    close(pair[1]);
}

static void check_random(void)
{
    unsigned char a[1000] = {0}, b[1000] = {0};

    T_OK(wi_sys_random(a, sizeof a));
    T_OK(wi_sys_random(b, sizeof b));
    T_CHECK(memcmp(a, b, sizeof a) != 0);
    T_CHECK(memcmp(a + 500, (char[500]){0}, 500) != 0);
    T_OK(wi_sys_random(NULL, 0));
}

int main(void)
{
    check_talk();
    check_backlog();
    check_blocking();
    check_random();
    return 0;
}
