/* SPDX-License-Identifier: MIT */
/*
 * The owner's side of wharf_join: a listening socket and a thread for each
 * published buffer. The thread touches nothing of the node: it hands out an
 * offer made beforehand, so it needs no lock and works whatever the rank does.
 */
#include "core/publish.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/trace.h"
#include "base/versioned.h"
#include "core/existing.h"
#include "core/visit.h"

#define UIDS_MOST 64

/* How long a joiner may take for its question, and for taking the offer while
 * others wait. */
#define QUESTION_MS 5000
#define OFFER_MS 2000

/* How often the thread looks for joiners that ask nothing. */
#define LOOK_MS 500

/* Connections that have asked nothing yet: of users that may join, and of
 * others, which take no place from those. Of the former the oldest gives way.
 */
#define ASKING_MOST 64
#define STRANGERS_MOST 16

/* While no connection can be accepted, how long until the next try: the
 * listener would wake the thread again at once. */
#define PAUSE_MS 100

typedef struct joiner {
    int socket;
    bool stranger; /* of a user that may not join */
    bool admitted;
    uid_t uid;
    pid_t pid;
    wi_deadline until; /* for its question */
} joiner;

struct wi_publication {
    char name[WHARF_MAX_PUBLISHED_NAME + 1];
    char note[WHARF_MAX_NOTE + 1];
    wi_offer *reading, *writing; /* writing NULL: not offered */
    uid_t uids[UIDS_MOST + 1];
    int uid_count;
    int listener;
    int stop; /* counter that wakes the thread */
    pthread_t thread;
    int admitted; /* of joiners; atomic, read by others */
    bool ever;    /* somebody was admitted; likewise */
    int count;    /* of joiners; the thread's own, as is what follows */
    int strangers;
    bool pausing; /* nothing is accepted until: */
    wi_deadline pause;
    joiner joiner[WHARF_MAX_JOINERS + ASKING_MOST + STRANGERS_MOST];
};

/* ---- Joiners, in the thread ---------------------------------------------- */

static bool may_join(const wi_publication *p, uid_t uid)
{
    for (int i = 0; i < p->uid_count; i++)
        if (p->uids[i] == uid)
            return true;
    return false;
}

/* Tells why not; whether it arrives does not matter. */
__attribute__((format(printf, 4, 5))) static void
refuse(int socket, wharf_status status, int native, const char *cause, ...)
{
    wi_join_answer answer = {.magic = WI_JOIN_MAGIC,
                             .word = WI_JOIN_REFUSED,
                             .status = (int32_t)status,
                             .native = native};
    va_list list;
    va_start(list, cause);
    vsnprintf(answer.cause, sizeof answer.cause, cause, list);
    va_end(list);
    wi_log(WI_LOG_INFO, "a joiner was refused: %s", answer.cause);
    wharf_ignore(wi_join_send(socket, &answer, sizeof answer));
}

static void drop(wi_publication *p, int index)
{
    joiner *one = &p->joiner[index];
    if (one->admitted)
        __atomic_sub_fetch(&p->admitted, 1, __ATOMIC_RELEASE);
    p->strangers -= one->stranger;
    wi_sys_close(&one->socket);
    *one = p->joiner[--p->count];
}

/* So that those who say nothing keep nobody out. */
static void drop_oldest_asking(wi_publication *p)
{
    int asking = 0, oldest = -1;
    for (int i = 0; i < p->count; i++) {
        const joiner *one = &p->joiner[i];
        if (one->admitted || one->stranger)
            continue;
        asking++;
        if (oldest < 0 || one->until < p->joiner[oldest].until)
            oldest = i;
    }
    if (asking >= ASKING_MOST)
        drop(p, oldest);
}

static void accept_one(wi_publication *p)
{
    joiner one = {.until = wi_deadline_in_ms(QUESTION_MS)};
    wharf_status status = wi_sys_accept(p->listener, &one.socket);
    p->pausing = status != WHARF_OK && status != WHARF_ENOTREADY;
    p->pause = wi_deadline_in_ms(PAUSE_MS);
    if (status != WHARF_OK)
        return;
    status = wi_join_peer(one.socket, &one.uid, &one.pid);
    one.stranger = !may_join(p, one.uid);
    if (status != WHARF_OK ||
        (one.stranger && p->strangers >= STRANGERS_MOST)) {
        wi_sys_close(&one.socket);
        return;
    }
    if (!one.stranger)
        drop_oldest_asking(p);
    p->strangers += one.stranger;
    p->joiner[p->count++] = one;
}

/* Whether it may go on; it is told why not. Comes after its question was read:
 * closing a socket with something unread in it would take back the answer. */
static bool admit(const wi_publication *p, const joiner *one,
                  const wi_join_question *question)
{
    if (!may_join(p, one->uid))
        refuse(one->socket, WHARF_EOS, EACCES, "\"%s\" is not for user %u",
               p->name, (unsigned)one->uid);
    else if (p->admitted >= WHARF_MAX_JOINERS)
        refuse(one->socket, WHARF_ELIMIT, 0, "%d programs have joined \"%s\"",
               WHARF_MAX_JOINERS, p->name);
    else if (question->version != WHARF_VERSION_NUMBER)
        refuse(one->socket, WHARF_EPROTOCOL, 0,
               "the owner runs Wharf %d, the joiner %u", WHARF_VERSION_NUMBER,
               question->version);
    else if (question->writable && !p->writing)
        refuse(one->socket, WHARF_EOS, EACCES,
               "\"%s\" is published for reading only", p->name);
    else
        return true;
    return false;
}

/* False: this one is done with. */
static bool answer_question(wi_publication *p, joiner *one)
{
    wi_join_question question;
    wharf_status status =
        wi_join_receive(one->socket, &question, sizeof question);
    if (status == WHARF_ENOTREADY)
        return true;
    if (status != WHARF_OK || question.magic != WI_JOIN_MAGIC ||
        !admit(p, one, &question))
        return false;
    wi_join_answer answer = {.magic = WI_JOIN_MAGIC, .word = WI_JOIN_ADMITTED};
    memcpy(answer.note, p->note, sizeof answer.note);
    if (wi_join_send(one->socket, &answer, sizeof answer) != WHARF_OK)
        return false;
    /* From here on it may hold memory. */
    one->admitted = true;
    __atomic_store_n(&p->ever, true, __ATOMIC_RELEASE);
    __atomic_add_fetch(&p->admitted, 1, __ATOMIC_RELEASE);
    const wi_offer *offer = question.writable ? p->writing : p->reading;
    if (wi_offer_send(offer, one->socket, wi_deadline_in_ms(OFFER_MS)) !=
        WHARF_OK)
        return false;
    wi_log(WI_LOG_INFO, "process %d has joined \"%s\"%s", (int)one->pid,
           p->name, question.writable ? " for writing" : "");
    return true;
}

/* One that has joined says nothing more: what comes is its end. */
static bool hear(wi_publication *p, joiner *one)
{
    if (!one->admitted)
        return answer_question(p, one);
    char any;
    if (wi_join_receive(one->socket, &any, sizeof any) == WHARF_ENOTREADY)
        return true;
    wi_log(WI_LOG_INFO, "process %d has left \"%s\"", (int)one->pid, p->name);
    return false;
}

/* False: the thread is to end. */
static bool serve_once(wi_publication *p)
{
    struct pollfd polls[2 + sizeof p->joiner / sizeof p->joiner[0]];
    p->pausing = p->pausing && !wi_deadline_passed(p->pause);
    polls[0] = (struct pollfd){.fd = p->stop, .events = POLLIN};
    polls[1] =
        (struct pollfd){.fd = p->pausing ? -1 : p->listener, .events = POLLIN};
    bool asked = true;
    for (int i = 0; i < p->count; i++) {
        polls[2 + i] =
            (struct pollfd){.fd = p->joiner[i].socket, .events = POLLIN};
        asked = asked && p->joiner[i].admitted;
    }
    int ms = p->pausing ? PAUSE_MS : asked ? -1 : LOOK_MS;
    if (poll(polls, 2 + (nfds_t)p->count, ms) < 0)
        return errno == EINTR;
    if (polls[0].revents)
        return false;
    /* Downwards, since dropping one moves the last into its place. */
    for (int i = p->count - 1; i >= 0; i--) {
        joiner *one = &p->joiner[i];
        bool late = !one->admitted && wi_deadline_passed(one->until);
        if (late || (polls[2 + i].revents && !hear(p, one)))
            drop(p, i);
    }
    if (polls[1].revents)
        accept_one(p);
    return true;
}

/* For all who hold the socket: a forked child has a copy of it. */
static void hang_up(int *socket)
{
    if (*socket >= 0)
        shutdown(*socket, SHUT_RDWR);
    wi_sys_close(socket);
}

static void *serve(void *argument)
{
    wi_publication *p = argument;
    const wi_join_answer revoked = {.magic = WI_JOIN_MAGIC,
                                    .word = WI_JOIN_REVOKED};
    wi_trace_thread("wharf joiners");
    wi_call_begin("answering joiners", -1);
    while (serve_once(p))
        continue;
    while (p->count > 0) {
        if (p->joiner[p->count - 1].admitted)
            wharf_ignore(wi_join_send(p->joiner[p->count - 1].socket, &revoked,
                                      sizeof revoked));
        hang_up(&p->joiner[p->count - 1].socket);
        p->count--;
    }
    wharf_ignore(wi_call_end(WHARF_OK));
    return NULL;
}

/* ---- Beginning and ending ------------------------------------------------ */

static wharf_status read_options(const wharf_publish_options *given,
                                 wi_publication *p, bool *writable)
{
    wharf_publish_options o = WHARF_PUBLISH_OPTIONS_INIT;
    if (given) {
        wharf_status status = wi_versioned_read(&o, sizeof o, given, "options");
        if (status != WHARF_OK)
            return status;
    }
    size_t length = o.note ? strnlen(o.note, WHARF_MAX_NOTE + 1) : 0;
    if (length > WHARF_MAX_NOTE)
        return wi_fail(WHARF_EARG, "shorten it",
                       "the note has more than %d bytes", WHARF_MAX_NOTE);
    if (o.uid_count < 0 || o.uid_count > UIDS_MOST ||
        (o.uid_count > 0 && !o.uids))
        return wi_fail(WHARF_EARG, "pass 0 to 64 users and their number",
                       "uid_count is %d%s", o.uid_count,
                       o.uids ? "" : ", uids is NULL");
    if (o.writable < 0 || o.writable > 1)
        return wi_fail(WHARF_EARG, "pass 0 or 1", "writable is %d", o.writable);
    if (length > 0)
        memcpy(p->note, o.note, length);
    p->uids[p->uid_count++] = geteuid();
    for (int i = 0; i < o.uid_count; i++)
        p->uids[p->uid_count++] = (uid_t)o.uids[i];
    *writable = o.writable == 1;
    return WHARF_OK;
}

/* What a joiner keeps must not go away under it, or become another's. */
static wharf_status check_lasting(const wharf_buffer *buffer)
{
    const wi_mapping *m = buffer->mapping;
    if (m->existing)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "publish a buffer of wharf_buffer_attach",
                       "buffer %llu \"%s\" is memory that its ranks may free "
                       "under a joiner",
                       (unsigned long long)buffer->serial, buffer->name);
    if (m->layout.blocks > 0 && m->way->ops->kind == WHARF_HANDLE_IPC)
        return wi_fail(WHARF_EUNSUPPORTED,
                       "use a GPU with virtual memory management, or "
                       "WHARF_SPACE_HOST",
                       "buffer %llu \"%s\" is shared by legacy handles, whose "
                       "memory goes with its owner",
                       (unsigned long long)buffer->serial, buffer->name);
    return WHARF_OK;
}

static wharf_status listen_at(wi_publication *p)
{
    struct sockaddr_un address;
    socklen_t length = wi_join_address(geteuid(), p->name, &address);
    wharf_status status = wi_sys_socket(SOCK_SEQPACKET, &p->listener);
    if (status == WHARF_OK)
        status = wi_sys_bind(p->listener, (struct sockaddr *)&address, length);
    if (status == WHARF_EOS && wi_sys_errno() == EADDRINUSE)
        return wi_fail(WHARF_ESTATE, "choose another name, or end the other",
                       "the name \"%s\" is taken on this machine", p->name);
    return status == WHARF_OK ? wi_sys_listen(p->listener, WHARF_MAX_JOINERS)
                              : status;
}

static void publication_free(wi_publication *p)
{
    hang_up(&p->listener);
    wi_sys_close(&p->stop);
    wi_offer_free(p->reading);
    wi_offer_free(p->writing);
    wi_free(p);
}

static wharf_status publication_new(wharf_buffer *buffer, const char *name,
                                    const wharf_publish_options *options,
                                    wi_publication **out)
{
    wi_publication *p;
    bool writable = false;
    if (!WI_NEW(p))
        return WHARF_ENOMEM;
    p->listener = p->stop = -1;
    memcpy(p->name, name, strlen(name) + 1);
    wharf_status status = read_options(options, p, &writable);
    if (status == WHARF_OK)
        status = wi_offer_make(buffer->node, 1, &buffer, true, &p->reading);
    if (status == WHARF_OK && writable)
        status = wi_offer_make(buffer->node, 1, &buffer, false, &p->writing);
    if (status == WHARF_OK)
        status = wi_sys_eventfd(&p->stop);
    if (status == WHARF_OK)
        status = listen_at(p);
    if (status == WHARF_OK)
        status = wi_thread_start(&p->thread, serve, p,
                                 "a thread that answers joiners");
    if (status != WHARF_OK) {
        publication_free(p);
        return status;
    }
    *out = p;
    return WHARF_OK;
}

void wi_publish_end(wharf_buffer *buffer)
{
    pthread_mutex_lock(&buffer->lock);
    wi_publication *p = buffer->published;
    buffer->published = NULL;
    pthread_mutex_unlock(&buffer->lock);
    if (!p)
        return;
    wi_sys_wake(p->stop);
    pthread_join(p->thread, NULL);
    int left = __atomic_load_n(&p->admitted, __ATOMIC_ACQUIRE);
    /* One that has left, or was cut off, may hold the memory all the same. */
    if (__atomic_load_n(&p->ever, __ATOMIC_ACQUIRE))
        __atomic_store_n(&buffer->seen_outside, true, __ATOMIC_RELEASE);
    if (left > 0)
        wi_log(WI_LOG_INFO,
               "\"%s\" is no longer published; %d programs that have joined "
               "keep its memory until they leave",
               p->name, left);
    publication_free(p);
    wi_stat_add(WI_STAT_live_published, -1);
}

bool wi_publish_seen(wharf_buffer *buffer)
{
    pthread_mutex_lock(&buffer->lock);
    bool published = buffer->published != NULL;
    pthread_mutex_unlock(&buffer->lock);
    return published ||
           __atomic_load_n(&buffer->seen_outside, __ATOMIC_ACQUIRE);
}

/* ---- The calls ----------------------------------------------------------- */

/* Under the buffer's lock. */
static wharf_status publish_locked(wharf_buffer *buffer, const char *name,
                                   const wharf_publish_options *options)
{
    if (buffer->published)
        return wi_fail(WHARF_ESTATE, "call wharf_buffer_unpublish first",
                       "buffer %llu is published as \"%s\" already",
                       (unsigned long long)buffer->serial,
                       buffer->published->name);
    wharf_status status =
        publication_new(buffer, name, options, &buffer->published);
    if (status == WHARF_OK)
        wi_stat_add(WI_STAT_live_published, 1);
    return status;
}

wharf_status wharf_buffer_publish(wharf_buffer *buffer, const char *name,
                                  const wharf_publish_options *options)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK)
        status = wi_join_check_name(name);
    if (status == WHARF_OK)
        status = wi_visit_refuse(buffer->node, "published buffers");
    if (status == WHARF_OK)
        status = check_lasting(buffer);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&buffer->lock);
    status = publish_locked(buffer, name, options);
    pthread_mutex_unlock(&buffer->lock);
    return wi_call_end(status);
}

wharf_status wharf_buffer_unpublish(wharf_buffer *buffer)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&buffer->lock);
    bool published = buffer->published != NULL;
    pthread_mutex_unlock(&buffer->lock);
    if (published)
        wi_publish_end(buffer);
    else
        status = wi_fail(WHARF_ESTATE, "call it on the rank that published",
                         "buffer %llu \"%s\" is not published by this rank",
                         (unsigned long long)buffer->serial, buffer->name);
    return wi_call_end(status);
}

wharf_status wharf_buffer_joiners(const wharf_buffer *buffer, int *count)
{
    wharf_status status = wi_buffer_local(__func__, buffer);
    if (status == WHARF_OK && !count)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "count is NULL");
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_buffer *guarded = (wharf_buffer *)buffer;
    pthread_mutex_lock(&guarded->lock);
    const wi_publication *p = guarded->published;
    *count = p ? __atomic_load_n(&p->admitted, __ATOMIC_ACQUIRE) : 0;
    pthread_mutex_unlock(&guarded->lock);
    return wi_call_end(WHARF_OK);
}
