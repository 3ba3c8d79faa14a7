/* SPDX-License-Identifier: MIT */
/* The sockets between rank 0 and the others: one message, with descriptors.
 * exchange.c builds the collective on it. */
#define _GNU_SOURCE /* CMSG_SPACE, MSG_CTRUNC */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "comm/private.h"

/* Room for descriptors, aligned as the macros want it. */
typedef union ancillary {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(WI_PARCEL_FDS * sizeof(int))];
} ancillary;

wharf_status wi_channel_new(wi_comm *comm)
{
    wi_channel *c = &comm->channel;
    size_t size = (size_t)comm->size;

    c->sockets = wi_calloc(size, sizeof *c->sockets);
    for (size_t r = 0; c->sockets && r < size; r++)
        c->sockets[r] = -1;
    c->polls = wi_calloc(size, sizeof *c->polls);
    c->got = wi_calloc(size, sizeof *c->got);
    c->due = wi_calloc(size, sizeof *c->due);
    c->next = wi_calloc(size, sizeof *c->next);
    c->sent = wi_calloc(size, sizeof *c->sent);
    c->relay = wi_calloc(WI_RELAY, sizeof *c->relay);
    c->inbox = wi_calloc(1, sizeof *c->inbox);
    if (!c->sockets || !c->polls || !c->got || !c->due || !c->next ||
        !c->sent || !c->relay || !c->inbox)
        return WHARF_ENOMEM;
    return WHARF_OK;
}

void wi_channel_free(wi_comm *comm)
{
    wi_channel *c = &comm->channel;

    for (int r = 0; c->sockets && r < comm->size; r++)
        wi_sys_close(&c->sockets[r]);
    wi_free(c->sockets);
    wi_free(c->polls);
    wi_free(c->got);
    wi_free(c->due);
    wi_free(c->next);
    wi_free(c->sent);
    wi_free(c->relay);
    wi_free(c->inbox);
    memset(c, 0, sizeof *c);
}

int wi_channel_errno(void)
{
    const wharf_error *record = wi_error_record();

    return record->source == WHARF_SOURCE_OS ? record->native : 0;
}

wharf_status wi_channel_send(int socket, const void *data, size_t bytes,
                             const int *fds, int count)
{
    struct iovec iov = {.iov_base = (void *)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ancillary room;
    size_t sent = 0;

    if (count > 0) {
        size_t length = (size_t)count * sizeof(int);
        struct cmsghdr *head;

        memset(&room, 0, sizeof room);
        message.msg_control = room.bytes;
        message.msg_controllen = CMSG_SPACE(length);
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(length);
        memcpy(CMSG_DATA(head), fds, length);
    }
    return wi_sys_sendmsg(socket, &message, &sent);
}

/* Descriptors of a received message; all closed and -1 if some are missing. */
static int descriptors_take(struct msghdr *message, int *fds)
{
    int count = 0;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
         head = CMSG_NXTHDR(message, head)) {
        size_t length = head->cmsg_len - CMSG_LEN(0);

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(&fds[count], CMSG_DATA(head), length);
        for (size_t i = 0; i < length / sizeof(int); i++)
            wi_sys_adopt(fds[count++]);
    }
    if (!(message->msg_flags & MSG_CTRUNC))
        return count;
    while (count > 0)
        wi_sys_close(&fds[--count]);
    return -1;
}

wharf_status wi_channel_receive(int socket, void *data, size_t capacity,
                                size_t *bytes, int *fds, int *count)
{
    struct iovec iov = {.iov_base = data, .iov_len = capacity};
    ancillary room;
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    wharf_status status = wi_sys_recvmsg(socket, &message, bytes);

    if (status == WHARF_OK)
        *count = descriptors_take(&message, fds);
    return status;
}
