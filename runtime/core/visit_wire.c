/* SPDX-License-Identifier: MIT */
/* An offer on its way: a run of bytes and its descriptors, in pieces that a
 * Unix socket takes. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/visit_wire.h"

/* Most of one message: bytes that every default socket buffer holds, and
 * descriptors that the kernel takes (SCM_MAX_FD). */
#define PIECE_BYTES 32768
#define PIECE_FDS WI_SYS_FDS

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

/* ---- Bundles ------------------------------------------------------------- */

wharf_status wi_bundle_put(wi_bundle *bundle, const void *part, size_t bytes)
{
    size_t padded = (bytes + 7) & ~(size_t)7;
    unsigned char *room = wi_grow(bundle->bytes, &bundle->room, bundle->length,
                                  bundle->length + padded, 1);
    if (!room)
        return WHARF_ENOMEM;
    bundle->bytes = room;
    if (bytes > 0)
        memcpy(bundle->bytes + bundle->length, part, bytes);
    bundle->length += padded;
    return WHARF_OK;
}

wharf_status wi_bundle_put_fd(wi_bundle *bundle, int fd)
{
    size_t count = (size_t)bundle->count;
    int *fds =
        wi_grow(bundle->fds, &bundle->fd_room, count, count + 1, sizeof *fds);
    if (!fds)
        return WHARF_ENOMEM;
    bundle->fds = fds;
    bundle->fds[bundle->count++] = fd;
    return WHARF_OK;
}

void wi_bundle_clear(wi_bundle *bundle)
{
    for (int i = 0; i < bundle->count; i++)
        wi_sys_close(&bundle->fds[i]);
    wi_free(bundle->bytes);
    wi_free(bundle->fds);
    *bundle = (wi_bundle){0};
}

wharf_status wi_visit_nonsense(const char *what, long long value)
{
    return wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on both sides",
                   "what was received is no offer of buffers: %s %lld", what,
                   value);
}

wharf_status wi_bundle_take(wi_bundle_cursor *cursor, void *to, size_t each,
                            size_t count)
{
    size_t left = cursor->bundle->length - cursor->at;
    if (count > left / each)
        return wi_visit_nonsense("it ends after byte",
                                 (long long)cursor->bundle->length);
    size_t bytes = each * count;
    size_t padded = (bytes + 7) & ~(size_t)7;
    if (padded > left)
        return wi_visit_nonsense("it ends after byte",
                                 (long long)cursor->bundle->length);
    if (bytes > 0)
        memcpy(to, cursor->bundle->bytes + cursor->at, bytes);
    cursor->at += padded;
    return WHARF_OK;
}

/* ---- Sockets ------------------------------------------------------------- */

static wharf_status gone(void)
{
    return wi_fail(WHARF_EPEER, "see what the other process says",
                   "the process at the other end of the socket is gone");
}

static wharf_status wait_for(int socket, short events, wi_deadline deadline)
{
    if (wi_deadline_run_out(deadline))
        return wi_fail(WHARF_ETIMEDOUT,
                       "see what the other process is doing, or allow more "
                       "time",
                       "the process at the other end of the socket does not %s",
                       events == POLLIN ? "send" : "receive");
    return wi_sys_poll(socket, events, deadline);
}

/* WHARF_ENOTREADY: not now. */
static wharf_status piece_send(int socket, const piece *out, const int *fds,
                               bool *crowded)
{
    struct iovec iov = {.iov_base = (void *)out,
                        .iov_len = sizeof out->head + out->head.bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    wi_sys_room room;
    size_t sent;
    wi_sys_fds_put(&message, &room, fds, (int)out->head.fds);
    wharf_status status = wi_sys_sendmsg(socket, &message, &sent);
    *crowded = false;
    if (status == WHARF_OK || status == WHARF_ENOTREADY)
        return status;
    if (wi_sys_peer_gone())
        return gone();
    *crowded = wi_sys_crowded();
    return *crowded ? WHARF_ENOTREADY : status;
}

wharf_status wi_bundle_send_on(const wi_bundle *bundle, int socket,
                               wi_sending *sending)
{
    piece *out;
    if (!WI_NEW(out))
        return WHARF_ENOMEM;
    wharf_status status = WHARF_OK;
    while (status == WHARF_OK &&
           (sending->at < bundle->length || sending->fd < bundle->count)) {
        size_t bytes = bundle->length - sending->at;
        int fds = bundle->count - sending->fd;
        out->head = (piece_head){
            .magic = WI_VISIT_MAGIC,
            .fds = (uint32_t)(fds < PIECE_FDS ? fds : PIECE_FDS),
            .total_bytes = bundle->length,
            .at = sending->at,
            .bytes = (uint32_t)(bytes < PIECE_BYTES ? bytes : PIECE_BYTES),
            .total_fds = (uint32_t)bundle->count,
        };
        memcpy(out->bytes, bundle->bytes + sending->at, out->head.bytes);
        status = piece_send(socket, out, bundle->fds + sending->fd,
                            &sending->crowded);
        if (status == WHARF_OK) {
            sending->at += out->head.bytes;
            sending->fd += (int)out->head.fds;
        }
    }
    wi_free(out);
    return status;
}

wharf_status wi_bundle_send(const wi_bundle *bundle, int socket,
                            wi_deadline deadline)
{
    wi_sending sending = {0};
    for (;;) {
        wharf_status status = wi_bundle_send_on(bundle, socket, &sending);
        if (status != WHARF_ENOTREADY)
            return status;
        if (sending.crowded)
            wi_sleep_ns(WI_NS_PER_MS);
        status = wait_for(socket, POLLOUT, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

/* Takes the descriptors of a message into the bundle, all of them or none. */
static wharf_status take_fds(wi_bundle *bundle, struct msghdr *message)
{
    int fds[PIECE_FDS];
    int count = wi_sys_fds_take(message, fds);
    wharf_status status = WHARF_OK;
    if (count < 0)
        return wi_fail_os(EMFILE,
                          "raise the limit of open files of this process "
                          "(ulimit -n)",
                          "no room for the descriptors of an offer");
    for (int i = 0; i < count; i++) {
        if (status == WHARF_OK)
            status = wi_bundle_put_fd(bundle, fds[i]);
        if (status != WHARF_OK)
            wi_sys_close(&fds[i]);
    }
    return status;
}

static wharf_status piece_receive(wi_bundle *bundle, piece *in, int socket,
                                  wi_deadline deadline)
{
    struct iovec iov = {.iov_base = in, .iov_len = sizeof *in};
    wi_sys_room room;
    for (;;) {
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        size_t bytes;
        wi_sys_fds_expect(&message, &room, PIECE_FDS);
        wharf_status status = wi_sys_recvmsg(socket, &message, &bytes);
        if (status == WHARF_OK) {
            int before = bundle->count;
            status = take_fds(bundle, &message);
            if (status == WHARF_OK && bytes == 0)
                return gone();
            if (status == WHARF_OK &&
                (bytes < sizeof in->head || in->head.magic != WI_VISIT_MAGIC ||
                 bytes != sizeof in->head + in->head.bytes))
                status =
                    wi_visit_nonsense("a piece of bytes", (long long)bytes);
            if (status == WHARF_OK &&
                in->head.fds != (uint32_t)(bundle->count - before))
                status =
                    wi_visit_nonsense("descriptors missing of", in->head.fds);
            return status;
        }
        if (status != WHARF_ENOTREADY)
            return wi_sys_peer_gone() ? gone() : status;
        status = wait_for(socket, POLLIN, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

/* The first piece says how much is to come; the others must say the same. */
static wharf_status piece_check(const wi_bundle *bundle,
                                const piece_head *first, const piece_head *head)
{
    if (head->total_bytes < sizeof(wi_wire_head) ||
        head->total_bytes > WI_VISIT_BYTES || head->total_bytes % 8 != 0)
        return wi_visit_nonsense("bytes in all", (long long)head->total_bytes);
    if (head->total_fds > WI_VISIT_FDS)
        return wi_visit_nonsense("descriptors in all", head->total_fds);
    if (head->total_bytes != first->total_bytes ||
        head->total_fds != first->total_fds || head->at != bundle->length ||
        head->at > head->total_bytes || head->bytes % 8 != 0 ||
        head->bytes > head->total_bytes - head->at)
        return wi_visit_nonsense("a piece out of order at byte",
                                 (long long)head->at);
    /* Else a sender of empty pieces would keep us for ever. */
    if (head->bytes == 0 && head->fds == 0)
        return wi_visit_nonsense("an empty piece at byte", (long long)head->at);
    if (bundle->count > (int)head->total_fds)
        return wi_visit_nonsense("more descriptors than", head->total_fds);
    return WHARF_OK;
}

static bool is_complete(const wi_bundle *bundle, const piece_head *first)
{
    return first->magic != 0 && bundle->length == first->total_bytes &&
           bundle->count == (int)first->total_fds;
}

wharf_status wi_bundle_receive(wi_bundle *bundle, int socket,
                               wi_deadline deadline)
{
    piece_head first = {0};
    piece *in;
    if (!WI_NEW(in))
        return WHARF_ENOMEM;
    wharf_status status = WHARF_OK;
    while (status == WHARF_OK && !is_complete(bundle, &first)) {
        status = piece_receive(bundle, in, socket, deadline);
        if (status == WHARF_OK && first.magic == 0)
            first = in->head;
        if (status == WHARF_OK)
            status = piece_check(bundle, &first, &in->head);
        /* A multiple of 8, so no padding is added. */
        if (status == WHARF_OK)
            status = wi_bundle_put(bundle, in->bytes, in->head.bytes);
    }
    wi_free(in);
    if (status != WHARF_OK)
        wi_bundle_clear(bundle);
    return status;
}
