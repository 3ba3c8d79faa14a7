/* SPDX-License-Identifier: MIT */
/* An offer on its way: a run of bytes and its descriptors, in pieces that a
 * Unix socket takes. */
#define _GNU_SOURCE /* MSG_CTRUNC, ppoll */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/visit_wire.h"

/* Most of one message: bytes that every default socket buffer holds, and
 * descriptors that the kernel takes (SCM_MAX_FD). */
#define PIECE_BYTES 32768
#define PIECE_FDS 253

typedef struct piece_head {
    uint32_t magic;
    uint32_t fds; /* of this piece */
    uint64_t total_bytes;
    uint64_t at; /* of this piece's bytes in all */
    uint32_t bytes;
    uint32_t total_fds;
} piece_head;

typedef struct piece {
    piece_head head;
    unsigned char bytes[PIECE_BYTES];
} piece;

/* Room for descriptors, aligned as the macros want it. */
typedef union ancillary {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(PIECE_FDS * sizeof(int))];
} ancillary;

/* ---- Parcels --------------------------------------------------------------
 */

/* Room for `more` elements behind `used`; doubles. */
static wharf_status room_make(void **array, size_t *room, size_t used,
                              size_t more, size_t each)
{
    size_t wanted = *room ? *room : 256;
    if (used + more <= *room)
        return WHARF_OK;
    while (wanted < used + more)
        wanted *= 2;
    void *grown = wi_calloc(wanted, each);
    if (!grown)
        return WHARF_ENOMEM;
    if (used > 0)
        memcpy(grown, *array, used * each);
    wi_free(*array);
    *array = grown;
    *room = wanted;
    return WHARF_OK;
}

wharf_status wi_parcel_put(wi_visit_parcel *parcel, const void *part,
                           size_t bytes)
{
    size_t padded = (bytes + 7) & ~(size_t)7;
    void *array = parcel->bytes;
    wharf_status st =
        room_make(&array, &parcel->room, parcel->length, padded, 1);
    parcel->bytes = array;
    if (st != WHARF_OK)
        return st;
    if (bytes > 0)
        memcpy(parcel->bytes + parcel->length, part, bytes);
    parcel->length += padded;
    return WHARF_OK;
}

wharf_status wi_parcel_put_fd(wi_visit_parcel *parcel, int fd)
{
    size_t room = (size_t)parcel->fd_room;
    void *array = parcel->fds;
    wharf_status st =
        room_make(&array, &room, (size_t)parcel->count, 1, sizeof(int));
    parcel->fds = array;
    parcel->fd_room = (int)room;
    if (st == WHARF_OK)
        parcel->fds[parcel->count++] = fd;
    return st;
}

void wi_parcel_clear(wi_visit_parcel *parcel)
{
    for (int i = 0; i < parcel->count; i++)
        wi_sys_close(&parcel->fds[i]);
    wi_free(parcel->bytes);
    wi_free(parcel->fds);
    *parcel = (wi_visit_parcel){0};
}

wharf_status wi_visit_nonsense(const char *what, long long value)
{
    return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on both sides",
                   "what was received is no offer of buffers: %s %lld", what,
                   value);
}

wharf_status wi_cursor_take(wi_visit_cursor *cursor, void *to, size_t each,
                            size_t count)
{
    size_t left = cursor->parcel->length - cursor->at;
    if (count > left / each)
        return wi_visit_nonsense("it ends after byte",
                                 (long long)cursor->parcel->length);
    size_t bytes = each * count;
    size_t padded = (bytes + 7) & ~(size_t)7;
    if (padded > left)
        return wi_visit_nonsense("it ends after byte",
                                 (long long)cursor->parcel->length);
    if (bytes > 0)
        memcpy(to, cursor->parcel->bytes + cursor->at, bytes);
    cursor->at += padded;
    return WHARF_OK;
}

/* ---- Sockets --------------------------------------------------------------
 */

static wharf_status gone(void)
{
    return wi_fail(WHARF_EPEER, "see what the other process says",
                   "the process at the other end of the socket is gone");
}

static wharf_status wait_for(int socket, short events, wi_deadline deadline)
{
    struct pollfd poll_one = {.fd = socket, .events = events};
    if (wi_deadline_passed(deadline))
        return wi_fail(WHARF_ETIMEDOUT,
                       "see what the other process is doing, or allow more "
                       "time",
                       "the process at the other end of the socket does not %s",
                       events == POLLIN ? "send" : "receive");
    if (poll(&poll_one, 1, wi_deadline_poll_ms(deadline, 1000)) < 0 &&
        errno != EINTR)
        return wi_fail_os(errno, NULL, "poll of a Unix socket");
    return WHARF_OK;
}

/* The errno of the failed call that the record tells of. */
static int failed_errno(void)
{
    const wharf_error *record = wi_error_record();
    return record->source == WHARF_SOURCE_OS ? record->native : 0;
}

/* Too many descriptors of this user are in sockets: nothing tells when there
 * are fewer. */
static void pause_crowded(void)
{
    struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
}

/* WHARF_ENOTREADY: not now. */
static wharf_status piece_send(int socket, const piece *out, const int *fds,
                               bool *crowded)
{
    struct iovec iov = {.iov_base = (void *)out,
                        .iov_len = sizeof out->head + out->head.bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ancillary room;
    if (out->head.fds > 0) {
        size_t length = out->head.fds * sizeof(int);
        memset(&room, 0, sizeof room);
        message.msg_control = room.bytes;
        message.msg_controllen = CMSG_SPACE(length);
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(length);
        memcpy(CMSG_DATA(first), fds, length);
    }
    size_t sent;
    wharf_status st = wi_sys_sendmsg(socket, &message, &sent);
    *crowded = false;
    if (st == WHARF_OK || st == WHARF_ENOTREADY)
        return st;
    int errnum = failed_errno();
    if (errnum == EPIPE || errnum == ECONNRESET || errnum == ENOTCONN)
        return gone();
    *crowded = errnum == ETOOMANYREFS;
    return *crowded ? WHARF_ENOTREADY : st;
}

wharf_status wi_parcel_send_on(const wi_visit_parcel *parcel, int socket,
                               wi_sending *sending)
{
    piece *out;
    if (!WI_NEW(out))
        return WHARF_ENOMEM;
    wharf_status st = WHARF_OK;
    while (st == WHARF_OK &&
           (sending->at < parcel->length || sending->fd < parcel->count)) {
        size_t bytes = parcel->length - sending->at;
        int fds = parcel->count - sending->fd;
        out->head = (piece_head){
            .magic = WI_VISIT_MAGIC,
            .fds = (uint32_t)(fds < PIECE_FDS ? fds : PIECE_FDS),
            .total_bytes = parcel->length,
            .at = sending->at,
            .bytes = (uint32_t)(bytes < PIECE_BYTES ? bytes : PIECE_BYTES),
            .total_fds = (uint32_t)parcel->count,
        };
        memcpy(out->bytes, parcel->bytes + sending->at, out->head.bytes);
        st = piece_send(socket, out, parcel->fds + sending->fd,
                        &sending->crowded);
        if (st == WHARF_OK) {
            sending->at += out->head.bytes;
            sending->fd += (int)out->head.fds;
        }
    }
    wi_free(out);
    return st;
}

wharf_status wi_parcel_send(const wi_visit_parcel *parcel, int socket,
                            wi_deadline deadline)
{
    wi_sending sending = {0};
    for (;;) {
        wharf_status st = wi_parcel_send_on(parcel, socket, &sending);
        if (st != WHARF_ENOTREADY)
            return st;
        if (sending.crowded)
            pause_crowded();
        st = wait_for(socket, POLLOUT, deadline);
        if (st != WHARF_OK)
            return st;
    }
}

/* Takes the descriptors of a message into the parcel, all of them or none. */
static wharf_status take_fds(wi_visit_parcel *parcel, struct msghdr *message)
{
    wharf_status st = WHARF_OK;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
         c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            wi_sys_adopt(fd);
            if (st == WHARF_OK)
                st = wi_parcel_put_fd(parcel, fd);
            if (st != WHARF_OK)
                wi_sys_close(&fd);
        }
    }
    if (st == WHARF_OK && (message->msg_flags & MSG_CTRUNC))
        st = wi_fail_os(EMFILE,
                        "raise the limit of open files of this process "
                        "(ulimit -n)",
                        "no room for the descriptors of an offer");
    return st;
}

static wharf_status piece_receive(wi_visit_parcel *parcel, piece *in,
                                  int socket, wi_deadline deadline)
{
    struct iovec iov = {.iov_base = in, .iov_len = sizeof *in};
    ancillary room;
    for (;;) {
        struct msghdr message = {.msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = room.bytes,
                                 .msg_controllen = sizeof room.bytes};
        size_t bytes;
        wharf_status st = wi_sys_recvmsg(socket, &message, &bytes);
        if (st == WHARF_OK) {
            int before = parcel->count;
            st = take_fds(parcel, &message);
            if (st == WHARF_OK && bytes == 0)
                return gone();
            if (st == WHARF_OK &&
                (bytes < sizeof in->head || in->head.magic != WI_VISIT_MAGIC ||
                 bytes != sizeof in->head + in->head.bytes))
                st = wi_visit_nonsense("a piece of bytes", (long long)bytes);
            if (st == WHARF_OK &&
                in->head.fds != (uint32_t)(parcel->count - before))
                st = wi_visit_nonsense("descriptors missing of", in->head.fds);
            return st;
        }
        if (st != WHARF_ENOTREADY)
            return failed_errno() == ECONNRESET ? gone() : st;
        st = wait_for(socket, POLLIN, deadline);
        if (st != WHARF_OK)
            return st;
    }
}

/* The first piece says how much is to come; the others must say the same. */
static wharf_status piece_check(const wi_visit_parcel *parcel,
                                const piece_head *first, const piece_head *head)
{
    if (head->total_bytes < sizeof(wi_wire_head) ||
        head->total_bytes > WI_VISIT_BYTES || head->total_bytes % 8 != 0)
        return wi_visit_nonsense("bytes in all", (long long)head->total_bytes);
    if (head->total_fds > WI_VISIT_FDS)
        return wi_visit_nonsense("descriptors in all", head->total_fds);
    if (head->total_bytes != first->total_bytes ||
        head->total_fds != first->total_fds || head->at != parcel->length ||
        head->at > head->total_bytes || head->bytes % 8 != 0 ||
        head->bytes > head->total_bytes - head->at)
        return wi_visit_nonsense("a piece out of order at byte",
                                 (long long)head->at);
    /* Else a sender of empty pieces would keep us for ever. */
    if (head->bytes == 0 && head->fds == 0)
        return wi_visit_nonsense("an empty piece at byte", (long long)head->at);
    if (parcel->count > (int)head->total_fds)
        return wi_visit_nonsense("more descriptors than", head->total_fds);
    return WHARF_OK;
}

static bool is_complete(const wi_visit_parcel *parcel, const piece_head *first)
{
    return first->magic != 0 && parcel->length == first->total_bytes &&
           parcel->count == (int)first->total_fds;
}

wharf_status wi_parcel_receive(wi_visit_parcel *parcel, int socket,
                               wi_deadline deadline)
{
    piece_head first = {0};
    piece *in;
    if (!WI_NEW(in))
        return WHARF_ENOMEM;
    wharf_status st = WHARF_OK;
    while (st == WHARF_OK && !is_complete(parcel, &first)) {
        st = piece_receive(parcel, in, socket, deadline);
        if (st == WHARF_OK && first.magic == 0)
            first = in->head;
        if (st == WHARF_OK)
            st = piece_check(parcel, &first, &in->head);
        /* A multiple of 8, so no padding is added. */
        if (st == WHARF_OK)
            st = wi_parcel_put(parcel, in->bytes, in->head.bytes);
    }
    wi_free(in);
    if (st != WHARF_OK)
        wi_parcel_clear(parcel);
    return st;
}
