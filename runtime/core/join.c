/* SPDX-License-Identifier: MIT */
/* A program outside the job: joins a published buffer, looks, leaves. And what
 * both sides of the connection say to each other. */
#define _GNU_SOURCE /* struct ucred */
#include "core/publish.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/sys.h"
#include "base/versioned.h"
#include "core/visit.h"

/* How long to wait before asking again for a name that is not there. */
#define AGAIN_NS (10 * WI_NS_PER_MS)

struct wharf_joined {
    char name[WHARF_MAX_PUBLISHED_NAME + 1];
    char note[WHARF_MAX_NOTE + 1];
    wharf_node *node; /* a guest's */
    int socket;
    pthread_mutex_t lock; /* guards what follows */
    wharf_status over;    /* WHARF_OK while it is published */
};

/* ---- Both sides ---------------------------------------------------------- */

wharf_status wi_join_check_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = name ? strnlen(name, WHARF_MAX_PUBLISHED_NAME + 1) : 0;
    if (length > 0 && length <= WHARF_MAX_PUBLISHED_NAME &&
        strspn(name, allowed) == length)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "use 1 to 63 characters of A-Z a-z 0-9 . _ -",
                   "the name is %s%.64s%s", name ? "\"" : "", name ? name : "",
                   name ? "\"" : "NULL");
}

socklen_t wi_join_address(uid_t uid, const char *name,
                          struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    /* The first byte stays 0: no file. */
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                          "wharf.%u.%s", (unsigned)uid, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)length);
}

wharf_status wi_join_peer(int socket, uid_t *uid, pid_t *pid)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return wi_fail_os(errno, NULL, "credentials of a Unix socket's peer");
    *uid = peer.uid;
    *pid = peer.pid;
    return WHARF_OK;
}

/* The connection's end, as it shows in a failed call. */
static wharf_status ended_or(wharf_status status)
{
    return status == WHARF_EOS && wi_sys_peer_gone() ? WHARF_EPEER : status;
}

wharf_status wi_join_send(int socket, const void *message, size_t bytes)
{
    struct iovec iov = {.iov_base = (void *)message, .iov_len = bytes};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t sent;
    return ended_or(wi_sys_sendmsg(socket, &header, &sent));
}

wharf_status wi_join_receive(int socket, void *message, size_t bytes)
{
    struct iovec iov = {.iov_base = message, .iov_len = bytes};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t got = 0;
    wharf_status status = ended_or(wi_sys_recvmsg(socket, &header, &got));
    if (status != WHARF_OK)
        return status;
    if (got == 0)
        return WHARF_EPEER;
    return got == bytes && !(header.msg_flags & MSG_TRUNC) ? WHARF_OK
                                                           : WHARF_EPROTOCOL;
}

/* ---- Asking -------------------------------------------------------------- */

typedef struct asking {
    const char *name;
    wharf_joined_options options;
    uid_t uid;
    int64_t timeout_ms;
    int socket;
} asking;

static wharf_status read_options(const wharf_joined_options *given, asking *a)
{
    wharf_joined_options o = WHARF_JOINED_OPTIONS_INIT;
    int64_t keep;
    wharf_status status = wi_join_check_name(a->name);
    if (status == WHARF_OK && given)
        status = wi_versioned_read(&o, sizeof o, given, "options");
    if (status != WHARF_OK)
        return status;
    if (o.wait_ms < 0 || o.wait_ms > 86400000 || o.timeout_ms < 0 ||
        o.timeout_ms > 86400000)
        return wi_fail(WHARF_EARG, "pass 0 to 86400000 ms",
                       "wait_ms is %d, timeout_ms is %d", o.wait_ms,
                       o.timeout_ms);
    if (o.writable < 0 || o.writable > 1)
        return wi_fail(WHARF_EARG, "pass 0 or 1", "writable is %d", o.writable);
    if ((int)o.keep_current < WHARF_SWITCH_UNSET ||
        (int)o.keep_current > WHARF_SWITCH_OFF)
        return wi_fail(WHARF_EARG, "pass a wharf_switch", "keep_current is %d",
                       (int)o.keep_current);
    status = wi_config_number(WI_SETTING_TIMEOUT_MS, &a->timeout_ms, NULL);
    if (status == WHARF_OK)
        status = wi_config_number(WI_SETTING_KEEP_CURRENT, &keep, NULL);
    if (status != WHARF_OK)
        return status;
    if (o.timeout_ms > 0)
        a->timeout_ms = o.timeout_ms;
    if (o.keep_current == WHARF_SWITCH_UNSET)
        o.keep_current = keep ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    a->uid = o.uid == WHARF_OWN_UID ? geteuid() : (uid_t)o.uid;
    a->options = o;
    return WHARF_OK;
}

static wharf_status no_answer(const asking *a)
{
    return wi_fail(WHARF_ETIMEDOUT,
                   "see what the owner is doing, or allow more time",
                   "the owner of \"%s\" does not answer within %lld ms",
                   a->name, (long long)a->timeout_ms);
}

/* Until somebody listens, as long as the caller is ready to wait. */
static wharf_status connect_to(asking *a)
{
    struct sockaddr_un address;
    socklen_t length = wi_join_address(a->uid, a->name, &address);
    wi_deadline appears = wi_deadline_in_ms(a->options.wait_ms);
    wi_deadline answers = WI_NEVER;
    wharf_status status = wi_sys_socket(SOCK_SEQPACKET, &a->socket);
    while (status == WHARF_OK) {
        status = wi_sys_connect(a->socket, (struct sockaddr *)&address, length);
        if (status == WHARF_OK)
            return WHARF_OK;
        if (status == WHARF_ENOTREADY) { /* it is there, its queue is full */
            if (answers == WI_NEVER)
                answers = wi_deadline_in_ms(a->timeout_ms);
            if (wi_deadline_run_out(answers))
                return no_answer(a);
        } else if (wi_sys_errno() == ECONNREFUSED) {
            if (a->options.wait_ms == 0 || wi_deadline_run_out(appears))
                return wi_fail(WHARF_ENOTREADY,
                               "publish it, or wait for it (wait_ms)",
                               "user %u has published nothing as \"%s\" on "
                               "this machine",
                               (unsigned)a->uid, a->name);
        } else {
            return status;
        }
        wi_sleep_ns(AGAIN_NS);
        status = WHARF_OK;
    }
    return status;
}

/* Anybody may have taken the name. */
static wharf_status check_owner(const asking *a)
{
    uid_t uid = 0;
    pid_t pid = 0;
    wharf_status status = wi_join_peer(a->socket, &uid, &pid);
    if (status != WHARF_OK || uid == a->uid)
        return status;
    return wi_fail_os(EACCES, "find out what process it is",
                      "the name \"%s\" of user %u is held by process %d of "
                      "user %u",
                      a->name, (unsigned)a->uid, (int)pid, (unsigned)uid);
}

static wharf_status owner_ended(const char *name)
{
    return wi_fail(WHARF_EPEER, "see what became of the job",
                   "the owner of \"%s\" has ended", name);
}

static wharf_status receive_answer(const asking *a, wi_join_answer *answer,
                                   wi_deadline deadline)
{
    for (;;) {
        wharf_status status =
            wi_join_receive(a->socket, answer, sizeof *answer);
        if (status == WHARF_EPEER)
            return owner_ended(a->name);
        if (status == WHARF_EPROTOCOL ||
            (status == WHARF_OK && answer->magic != WI_JOIN_MAGIC))
            return wi_fail(WHARF_EPROTOCOL,
                           "run one version of Wharf on both sides",
                           "what listens as \"%s\" is no owner of this "
                           "version's",
                           a->name);
        if (status != WHARF_ENOTREADY)
            return status;
        if (wi_deadline_run_out(deadline))
            return no_answer(a);
        status = wi_sys_poll(a->socket, POLLIN, deadline);
        if (status != WHARF_OK)
            return status;
    }
}

static wharf_status refused(const wi_join_answer *answer)
{
    if (answer->status == WHARF_EOS)
        return wi_fail_os(answer->native, "ask the owner for leave", "%.*s",
                          (int)sizeof answer->cause, answer->cause);
    wharf_status status =
        answer->status == WHARF_ELIMIT ? WHARF_ELIMIT : WHARF_EPROTOCOL;
    return wi_fail(status,
                   status == WHARF_ELIMIT ? "end one of them"
                                          : "run one version of Wharf on both "
                                            "sides",
                   "%.*s", (int)sizeof answer->cause, answer->cause);
}

static wharf_status ask(asking *a, wi_join_answer *answer, wi_deadline deadline)
{
    const wi_join_question question = {.magic = WI_JOIN_MAGIC,
                                       .version = WHARF_VERSION_NUMBER,
                                       .writable =
                                           (uint32_t)a->options.writable};
    /* A refusal may be on its way already, and the connection closed. */
    wharf_status status = wi_join_send(a->socket, &question, sizeof question);
    if (status != WHARF_OK && status != WHARF_EPEER)
        return status == WHARF_ENOTREADY ? no_answer(a) : status;
    status = receive_answer(a, answer, deadline);
    if (status != WHARF_OK || answer->word == WI_JOIN_ADMITTED)
        return status;
    return answer->word == WI_JOIN_REVOKED ? owner_ended(a->name)
                                           : refused(answer);
}

/* ---- Joined -------------------------------------------------------------- */

static wharf_status join(asking *a, wharf_joined *made)
{
    wi_join_answer answer;
    wharf_status status = connect_to(a);
    wi_deadline deadline = wi_deadline_in_ms(a->timeout_ms);
    if (status == WHARF_OK)
        status = check_owner(a);
    if (status == WHARF_OK)
        status = ask(a, &answer, deadline);
    if (status != WHARF_OK)
        return status;
    const wi_visit_wish wish = {
        .read_only = !a->options.writable,
        .keep_current = a->options.keep_current == WHARF_SWITCH_ON,
    };
    memcpy(made->note, answer.note, sizeof made->note);
    made->note[sizeof made->note - 1] = '\0';
    status = wi_visit_begin(a->socket, &wish, deadline, &made->node);
    if (status == WHARF_OK && wi_visit_buffers(made->node) != 1) {
        wi_visit_end(&made->node);
        status =
            wi_fail(WHARF_EPROTOCOL, "run one version of Wharf on both sides",
                    "\"%s\" is not one buffer", a->name);
    }
    return status;
}

static wharf_status join_new(asking *a, wharf_joined **joined)
{
    wharf_joined *made;
    if (!WI_NEW(made))
        return WHARF_ENOMEM;
    memcpy(made->name, a->name, strlen(a->name) + 1);
    wharf_status status = join(a, made);
    if (status == WHARF_OK) {
        status = wi_handle_add(made, WI_HANDLE_JOINED);
        if (status != WHARF_OK)
            wi_visit_end(&made->node);
    }
    if (status != WHARF_OK) {
        wi_sys_close(&a->socket);
        wi_free(made);
        return status;
    }
    wi_visit_hold(made->node, true);
    pthread_mutex_init(&made->lock, NULL);
    made->socket = a->socket;
    wi_stat_add(WI_STAT_live_joined, 1);
    *joined = made;
    return WHARF_OK;
}

wharf_status wharf_join(const char *name, const wharf_joined_options *options,
                        wharf_joined **joined)
{
    asking a = {.name = name, .socket = -1};
    wi_trace_decide();
    wi_call_begin(__func__, -1);
    wharf_status status = read_options(options, &a);
    if (status == WHARF_OK && !joined)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "joined is NULL");
    if (status == WHARF_OK)
        status = join_new(&a, joined);
    return wi_call_end(status);
}

/* What the owner has said since the last look. */
static wharf_status look(wharf_joined *joined)
{
    wi_join_answer answer;
    pthread_mutex_lock(&joined->lock);
    if (joined->over == WHARF_OK) {
        wharf_status status =
            wi_join_receive(joined->socket, &answer, sizeof answer);
        if (status == WHARF_OK && answer.word == WI_JOIN_REVOKED)
            joined->over = WHARF_ESTATE;
        else if (status != WHARF_ENOTREADY)
            joined->over = WHARF_EPEER;
    }
    wharf_status over = joined->over;
    pthread_mutex_unlock(&joined->lock);
    if (over == WHARF_ESTATE)
        return wi_fail(
            WHARF_ESTATE, "leave; what is mapped stays valid until then",
            "\"%s\" is no longer published by its owner", joined->name);
    return over == WHARF_EPEER ? owner_ended(joined->name) : WHARF_OK;
}

static wharf_status enter(const char *call, const wharf_joined *joined)
{
    wi_call_begin(call, -1);
    return wi_handle_check(joined, WI_HANDLE_JOINED, "joined buffer");
}

wharf_status wharf_joined_check(wharf_joined *joined)
{
    wharf_status status = enter(__func__, joined);
    if (status == WHARF_OK)
        status = look(joined);
    return wi_call_end(status);
}

wharf_status wharf_joined_buffer(wharf_joined *joined, wharf_buffer **buffer)
{
    wharf_status status = enter(__func__, joined);
    if (status == WHARF_OK && !buffer)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "buffer is NULL");
    if (status == WHARF_OK)
        status = look(joined);
    if (status == WHARF_OK)
        *buffer = wi_visit_buffer(joined->node, 0);
    return wi_call_end(status);
}

wharf_status wharf_joined_node(wharf_joined *joined, wharf_node **node)
{
    wharf_status status = enter(__func__, joined);
    if (status == WHARF_OK && !node)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "node is NULL");
    if (status == WHARF_OK)
        status = look(joined);
    if (status == WHARF_OK)
        *node = joined->node;
    return wi_call_end(status);
}

const char *wharf_joined_note(const wharf_joined *joined)
{
    wharf_status status = enter(__func__, joined);
    return wi_call_end(status) == WHARF_OK ? joined->note : "";
}

wharf_status wharf_leave(wharf_joined **joined)
{
    wharf_status status = enter(__func__, joined ? *joined : NULL);
    if (joined && status != WHARF_OK)
        *joined = NULL;
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_joined *old = *joined;
    *joined = NULL;
    wi_handle_remove(old);
    wi_visit_end(&old->node);
    wi_sys_close(&old->socket);
    pthread_mutex_destroy(&old->lock);
    wi_free(old);
    wi_stat_add(WI_STAT_live_joined, -1);
    return wi_call_end(WHARF_OK);
}
