/* SPDX-License-Identifier: MIT */
/*
 * Programs that connect to a published buffer and do not do as they should:
 * they keep nobody out, cost the owner nothing, and get no more than was
 * offered. They speak by hand here, over plain sockets, with the rank that
 * published; and so does an owner that offers what is not one buffer.
 */
#define _GNU_SOURCE
#include "t_group.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/publish.h"
#include "core/visit.h"

#define BYTES 100000

static const char *name_here(void)
{
    static char name[40];

    snprintf(name, sizeof name, "t_join_rude-%d", (int)getpid());
    return name;
}

static int connect_to(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = wi_join_address(geteuid(), name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    T_CHECK(fd >= 0);
    T_EQ_INT(0, connect(fd, (struct sockaddr *)&address, length));
    return fd;
}

static int listen_at(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = wi_join_address(geteuid(), name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    T_CHECK(fd >= 0);
    T_EQ_INT(0, bind(fd, (struct sockaddr *)&address, length));
    T_EQ_INT(0, listen(fd, 1));
    return fd;
}

/* Asks as a joiner does. The first descriptor that comes of it. */
static int ask(int socket)
{
    const wi_join_question question = {.magic = WI_JOIN_MAGIC,
                                       .version = WHARF_VERSION_NUMBER};
    static char bytes[70000], room[4096];
    int fd = -1;

    T_EQ_INT(sizeof question, write(socket, &question, sizeof question));
    for (int i = 0; i < 3 && fd < 0; i++) {
        struct iovec iov = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = room,
                                 .msg_controllen = sizeof room};

        T_CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) > 0);
        if (CMSG_FIRSTHDR(&message) != NULL)
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    }
    T_CHECK(fd >= 0);
    return fd;
}

static void join_and_leave(const char *name)
{
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_joined *joined = NULL;

    options.timeout_ms = 2000;
    T_OK(wharf_join(name, &options, &joined));
    T_OK(wharf_leave(&joined));
}

/* ---- Cases --------------------------------------------------------------- */

/* More silent ones than there is room for: whoever asks is answered. */
static void silent_crowd(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    int silent[2 * WHARF_MAX_JOINERS];

    T_OK(wharf_buffer_publish(buffer, name_here(), NULL));
    for (int i = 0; i < 2 * WHARF_MAX_JOINERS; i++) {
        silent[i] = connect_to(name_here());
        if (i % 16 == 0)
            join_and_leave(name_here());
    }
    join_and_leave(name_here());
    for (int i = 0; i < 2 * WHARF_MAX_JOINERS; i++)
        close(silent[i]);
    t_detach(buffer);
    t_close(node);
}

static double cpu_seconds(void)
{
    struct rusage used;

    T_EQ_INT(0, getrusage(RUSAGE_SELF, &used));
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* A connection that cannot be accepted waits; so does the owner's thread. */
static void owner_without_descriptors(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    int held[256], count = 0, waiting;
    struct rlimit limit, few;
    double before;

    T_OK(wharf_buffer_publish(buffer, name_here(), NULL));
    T_EQ_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
    few = limit;
    few.rlim_cur = 256;
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &few));
    while ((held[count] = dup(STDIN_FILENO)) >= 0)
        count++;
    close(held[--count]);
    waiting = connect_to(name_here());
    before = cpu_seconds();
    t_pause_us(500000);
    T_CHECK(cpu_seconds() - before < 0.1);
    while (count > 0)
        close(held[--count]);
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &limit));
    join_and_leave(name_here());
    close(waiting);
    t_detach(buffer);
    t_close(node);
}

/* One that hung up may have kept the memory: no later buffer comes into it. */
static void kept_after_hanging_up(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0), *next;
    int fd, socket, count = -1;
    char *kept;

    memset(t_segment(buffer, 0, NULL), 1, BYTES);
    T_OK(wharf_buffer_publish(buffer, name_here(), NULL));
    socket = connect_to(name_here());
    fd = ask(socket);
    kept = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    T_CHECK(kept != MAP_FAILED);
    close(fd);
    close(socket);
    for (int i = 0; i < 400 && count != 0; i++) {
        T_OK(wharf_buffer_joiners(buffer, &count));
        t_pause_us(5000);
    }
    T_EQ_INT(0, count);
    T_OK(wharf_buffer_unpublish(buffer));
    t_detach(buffer);
    next = t_attach(node, BYTES, 0);
    T_EQ_INT(0, t_info(next, 0).pooled);
    memset(t_segment(next, 0, NULL), 2, BYTES);
    T_EQ_INT(1, kept[BYTES / 2]);
    munmap(kept, BYTES);
    t_detach(next);
    t_close(node);
}

/* In a process of another user: what it may do with what it got. */
static int as_other_user(int fd)
{
    char path[40];
    int again;

    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR);
    if (again >= 0 || errno != EACCES)
        return 2;
    if (mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
        MAP_FAILED)
        return 3;
    return ftruncate(fd, 0) == 0 ? 4 : 0;
}

static void no_more_than_reading(void)
{
    static const uint32_t other = 65534;
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    int fd, socket, status = 0;
    pid_t pid;

    options.uids = &other;
    options.uid_count = 1;
    T_OK(wharf_buffer_publish(buffer, name_here(), &options));
    socket = connect_to(name_here());
    fd = ask(socket);
    if (geteuid() != 0)
        printf("only root can become another user: left out\n");
    else {
        pid = fork();
        if (pid == 0)
            _exit(as_other_user(fd));
        T_EQ_INT(pid, waitpid(pid, &status, 0));
        T_EQ_INT(0, status);
    }
    close(fd);
    close(socket);
    t_detach(buffer);
    t_close(node);
}

/* Nobody can take memory away under the ranks, the same user included. */
static void no_shorter(void)
{
    wharf_publish_options options = WHARF_PUBLISH_OPTIONS_INIT;
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    int fd, again, socket;
    char path[40];

    options.writable = 1;
    T_OK(wharf_buffer_publish(buffer, name_here(), &options));
    socket = connect_to(name_here());
    fd = ask(socket);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC); /* the same user may */
    T_CHECK(again >= 0);
    T_EQ_INT(-1, ftruncate(again, 0));
    T_EQ_INT(EPERM, errno);
    close(again);
    close(fd);
    close(socket);
    t_detach(buffer);
    t_close(node);
}

/* A forked child that lives on does not answer in the owner's place. */
static void forked(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    wharf_joined *joined = NULL;
    char byte;
    int socket;
    pid_t pid;

    T_OK(wharf_buffer_publish(buffer, name_here(), NULL));
    socket = connect_to(name_here());
    close(ask(socket));
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    T_OK(wharf_buffer_unpublish(buffer));
    T_REFUSES(WHARF_ENOTREADY, "published nothing",
              wharf_join(name_here(), NULL, &joined));
    /* What was said last, and the end. */
    while (recv(socket, &byte, 1, 0) > 0)
        continue;
    T_EQ_INT(0, kill(pid, SIGKILL));
    T_EQ_INT(pid, waitpid(pid, NULL, 0));
    close(socket);
    t_detach(buffer);
    t_close(node);
}

/* A limit of file sizes is an error that says so, and not the process's end. */
static void short_files(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    struct rlimit limit, small;

    T_EQ_INT(0, getrlimit(RLIMIT_FSIZE, &limit));
    small = limit;
    small.rlim_cur = 1 << 20;
    T_EQ_INT(0, setrlimit(RLIMIT_FSIZE, &small));
    T_REFUSES(WHARF_EOS, "File too large",
              wharf_buffer_attach(node, 8 << 20, NULL, &buffer));
    T_EQ_INT(0, setrlimit(RLIMIT_FSIZE, &limit));
    T_CHECK(buffer == NULL);
    buffer = t_attach(node, 8 << 20, 0);
    t_detach(buffer);
    t_close(node);
}

/* An owner that admits whoever comes, and sends what it likes. */
typedef struct rude_owner {
    int listener;
    wi_offer *offer;
} rude_owner;

static void *admit_one(void *argument)
{
    const wi_join_answer answer = {.magic = WI_JOIN_MAGIC,
                                   .word = WI_JOIN_ADMITTED};
    const rude_owner *owner = argument;
    wi_join_question question;
    int fd = accept(owner->listener, NULL, NULL);

    T_CHECK(fd >= 0);
    T_EQ_INT(sizeof question, read(fd, &question, sizeof question));
    T_EQ_INT(sizeof answer, write(fd, &answer, sizeof answer));
    T_OK(wi_offer_send(owner->offer, fd, WI_NEVER));
    T_EQ_INT(0, read(fd, &question, sizeof question)); /* it has left */
    close(fd);
    return NULL;
}

/* A joiner takes nothing but one buffer, and leaves nothing of it behind. */
static void not_one_buffer(void)
{
    wharf_node *node = t_open();
    wharf_buffer *both[] = {t_attach(node, BYTES, 0), t_attach(node, BYTES, 0)};
    rude_owner owner = {.listener = listen_at(name_here())};
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_joined *joined = NULL;

    options.timeout_ms = 10000;
    for (int count = 0; count <= 2; count += 2) {
        wharf_stats before;
        pthread_t thread;

        T_OK(wi_offer_make(node, count, both, true, &owner.offer));
        before = t_stats();
        T_EQ_INT(0, pthread_create(&thread, NULL, admit_one, &owner));
        T_REFUSES(WHARF_EPROTOCOL, "is not one buffer",
                  wharf_join(name_here(), &options, &joined));
        T_CHECK(joined == NULL);
        T_EQ_INT(0, pthread_join(thread, NULL));
        t_live_check(&before);
        wi_offer_free(owner.offer);
    }
    close(owner.listener);
    t_detach(both[0]);
    t_detach(both[1]);
    t_close(node);
    t_live_check(NULL);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"silent_crowd", silent_crowd, T_ANY},
        {"owner_without_descriptors", owner_without_descriptors, T_HOST},
        {"kept_after_hanging_up", kept_after_hanging_up, T_HOST},
        {"no_more_than_reading", no_more_than_reading, T_HOST},
        {"no_shorter", no_shorter, T_HOST},
        {"forked", forked, T_HOST},
        {"short_files", short_files, T_HOST},
        {"not_one_buffer", not_one_buffer, T_ANY},
        {NULL, NULL, 0},
    };

    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
