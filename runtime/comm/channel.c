/* SPDX-License-Identifier: MIT */
/* The sockets between rank 0 and the others: one message, with descriptors.
 * exchange.c builds the collective on it. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "comm/private.h"

_Static_assert(WI_PARCEL_FDS <= WI_SYS_FDS, "a parcel's fit one message");

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

wharf_status wi_channel_send(int socket, const void *data, size_t bytes,
                             const int *fds, int count)
{
    struct iovec iov = {.iov_base = (void *)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    wi_sys_room room;
    size_t sent = 0;

    wi_sys_fds_put(&message, &room, fds, count);
    return wi_sys_sendmsg(socket, &message, &sent);
}

wharf_status wi_channel_receive(int socket, void *data, size_t capacity,
                                size_t *bytes, int *fds, int *count)
{
    struct iovec iov = {.iov_base = data, .iov_len = capacity};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    wi_sys_room room;
    wharf_status status;

    wi_sys_fds_expect(&message, &room, WI_PARCEL_FDS);
    status = wi_sys_recvmsg(socket, &message, bytes);
    if (status == WHARF_OK)
        *count = wi_sys_fds_take(&message, fds);
    return status;
}

void wi_parcel_drop(const wi_parcel *parcel)
{
    for (int i = 0; i < parcel->count; i++) {
        int fd = parcel->fds[i];

        wi_sys_close(&fd);
    }
}
