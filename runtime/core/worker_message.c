/* SPDX-License-Identifier: MIT */
/*
 * Messages between a rank and its worker, and the notes of their watchers: one
 * packet each on a Unix socket that keeps their borders.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "core/worker.h"

/* Before every message: a packet of no bytes would look like the end. */
typedef struct message_head {
    uint32_t magic;
    uint32_t size;
} message_head;

#define MESSAGE_MAGIC UINT32_C(0x534d4857)

/* A sleeper is woken in some 5 us on idle cores and far more on a busy machine;
 * an answer that comes sooner is caught by looking. */
#define SPIN_NS 20000

/* With one core to run on, looking would only hold the other end up. */
static int64_t spin_ns(void)
{
    static int cores;
    int known = __atomic_load_n(&cores, __ATOMIC_RELAXED);
    if (known == 0) {
        cpu_set_t set;
        known =
            sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 2;
        __atomic_store_n(&cores, known, __ATOMIC_RELAXED);
    }
    return known > 1 ? SPIN_NS : 0;
}

/* The other end is gone: WHARF_EPEER; everything else as it is. */
static wharf_status end_told(wharf_status status)
{
    if (status == WHARF_OK || status == WHARF_ENOTREADY)
        return status;
    return wi_sys_peer_gone() ? WHARF_EPEER : status;
}

static wharf_status wait_for(int fd, short events, wi_deadline deadline)
{
    if (wi_deadline_run_out(deadline))
        return wi_fail(WHARF_ETIMEDOUT,
                       "allow more time, or see what the other end is doing",
                       events == POLLIN ? "no message came from the other end"
                                        : "the other end does not read its "
                                          "messages");
    return wi_sys_poll(fd, events, deadline);
}

wharf_status wi_message_send(int fd, const void *data, size_t size,
                             wi_deadline deadline, bool look)
{
    message_head head = {MESSAGE_MAGIC, (uint32_t)size};
    struct iovec iov[2] = {{&head, sizeof head}, {(void *)data, size}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = size ? 2 : 1};
    for (;;) {
        size_t sent;
        wharf_status status = end_told(wi_sys_sendmsg(fd, &message, &sent));
        if (status != WHARF_ENOTREADY || look)
            return status;
        status = wait_for(fd, POLLOUT, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

/* The look at a message's size and the taking of it are one step: another
 * thread's message, longer than the room, must not come between. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/* How long the next message is: WHARF_EARG when it does not fit,
 * WHARF_ENOTREADY when there is none, which may change at once. */
static wharf_status check_room(int fd, size_t capacity)
{
    message_head head;
    ssize_t got = recv(fd, &head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return WHARF_ENOTREADY;
    if (got != (ssize_t)sizeof head || head.size <= capacity)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "receive it with more room",
                   "the next message has %u bytes, there is room for %zu",
                   head.size, capacity);
}

/* One look at the socket. */
static wharf_status take(int fd, void *data, size_t capacity, size_t *size)
{
    message_head head = {0};
    struct iovec iov[2] = {{&head, sizeof head}, {data, capacity}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = capacity ? 2 : 1};
    size_t bytes = 0;
    pthread_mutex_lock(&taking);
    wharf_status status =
        capacity < WHARF_MAX_MESSAGE ? check_room(fd, capacity) : WHARF_OK;
    if (status == WHARF_OK)
        status = end_told(wi_sys_recvmsg(fd, &message, &bytes));
    pthread_mutex_unlock(&taking);
    if (status != WHARF_OK)
        return status;
    if (bytes == 0)
        return WHARF_EPEER;
    if (bytes < sizeof head || head.magic != MESSAGE_MAGIC ||
        head.size != bytes - sizeof head) {
        wi_log(WI_LOG_WARN,
               "%zu bytes that are no message came from the other end of a "
               "worker and were dropped",
               bytes);
        return WHARF_ENOTREADY;
    }
    if (size)
        *size = head.size;
    return WHARF_OK;
}

wharf_status wi_message_receive(int fd, void *data, size_t capacity,
                                size_t *size, wi_deadline deadline, bool look)
{
    int64_t until = 0;
    for (;;) {
        wharf_status status = take(fd, data, capacity, size);
        if (status != WHARF_ENOTREADY || look)
            return status;
        if (until == 0)
            until = wi_now_ns() + spin_ns();
        if (wi_now_ns() < until)
            continue;
        status = wait_for(fd, POLLIN, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

/* ---- Notes --------------------------------------------------------------- */

wharf_status wi_note_send(int fd, wi_note_kind kind, int number,
                          const wharf_error *record)
{
    wi_note note = {.magic = WI_NOTE_MAGIC, .kind = kind, .number = number};
    struct iovec iov = {&note, sizeof note};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t sent;
    if (record)
        note.record = *record;
    return end_told(wi_sys_sendmsg(fd, &message, &sent));
}

wharf_status wi_note_receive(int fd, wi_note *note)
{
    struct iovec iov = {note, sizeof *note};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t bytes = 0;
    wharf_status status = end_told(wi_sys_recvmsg(fd, &message, &bytes));
    if (status != WHARF_OK)
        return status;
    if (bytes == 0)
        return WHARF_EPEER;
    if (bytes != sizeof *note || note->magic != WI_NOTE_MAGIC)
        return wi_fail(WHARF_EPROTOCOL,
                       "run one version of Wharf on both sides",
                       "%zu bytes that make no sense came from the other end "
                       "of a worker",
                       bytes);
    note->record.call[sizeof note->record.call - 1] = '\0';
    note->record.cause[sizeof note->record.cause - 1] = '\0';
    note->record.remedy[sizeof note->record.remedy - 1] = '\0';
    return WHARF_OK;
}
