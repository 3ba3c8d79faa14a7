/* SPDX-License-Identifier: MIT */
/* The other side of t_join: a program outside the job. It does not start MPI;
 * its first argument says what to do, the second is the name. */
#include "t_join.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "t_group.h"

static void say(char letter)
{
    T_EQ_INT(1, write(STDOUT_FILENO, &letter, 1));
}

/* The next order; 'q' when the ranks have ended. */
static char hear(void)
{
    char letter = 'q';

    return read(STDIN_FILENO, &letter, 1) == 1 ? letter : 'q';
}

static void check_everything(wharf_joined *joined, int ranks, uint64_t seed)
{
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    size_t size;

    T_OK(wharf_joined_node(joined, &node));
    T_OK(wharf_joined_buffer(joined, &buffer));
    T_EQ_INT(ranks, wharf_node_size(node));
    for (int r = 0; r < ranks; r++) {
        T_OK(wharf_buffer_segment(buffer, r, NULL, &size));
        T_EQ_INT(SEGMENT(r), size);
        t_check_segment(node, buffer, r, seed);
    }
}

/* Stays and does what it is told: c: all is published and as it should be;
 * r: revoked, g: owner gone, and the memory still readable; q: leave. */
static int stay(const char *name, int ranks, int wait_ms)
{
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_joined *joined = NULL;
    wharf_buffer *buffer = NULL, *again = NULL;
    wharf_node *node = NULL;
    wharf_status expected;

    options.wait_ms = wait_ms;
    T_OK(wharf_join(name, &options, &joined));
    T_EQ_STR("two words", wharf_joined_note(joined));
    T_OK(wharf_joined_buffer(joined, &buffer));
    T_OK(wharf_joined_node(joined, &node));
    check_everything(joined, ranks, SEED);
    say('j');
    for (char order = hear(); order != 'q'; order = hear()) {
        if (order == 'c') {
            T_OK(wharf_joined_check(joined));
            check_everything(joined, ranks, SEED);
        } else {
            expected = order == 'r' ? WHARF_ESTATE : WHARF_EPEER;
            T_REFUSES(expected, name, wharf_joined_check(joined));
            T_REFUSES(expected, name, wharf_joined_buffer(joined, &again));
            T_CHECK(again == NULL);
            for (int r = 0; r < ranks; r++)
                t_check_segment(node, buffer, r, SEED);
        }
        say(order);
    }
    T_OK(wharf_leave(&joined));
    T_CHECK(joined == NULL);
    t_live_check(NULL);
    return 0;
}

/* ---- What a reader cannot do --------------------------------------------- */

static void store_faults(volatile char *where)
{
    int status = 0;
    pid_t child = fork();

    T_CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *where = 1;
        _exit(0);
    }
    T_EQ_INT(child, waitpid(child, &status, 0));
    T_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static int read_only(const char *name)
{
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_joined *joined = NULL;
    wharf_buffer *buffer = NULL;
    wharf_error error;
    void *segment;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    T_OK(wharf_join(name, NULL, &joined));
    T_OK(wharf_joined_buffer(joined, &buffer));
    T_EQ_INT(1, t_info(buffer, 0).write_protected);
    T_OK(wharf_buffer_segment(buffer, 0, &segment, NULL));
    if (t_info(buffer, 0).space == WHARF_SPACE_HOST) {
        store_faults(segment);
        if (t_info(buffer, 0).handle == WHARF_HANDLE_MEMFD) {
            T_EQ_INT(-1, mprotect((void *)((uintptr_t)segment & ~(page - 1)),
                                  page, PROT_READ | PROT_WRITE));
            T_EQ_INT(EACCES, errno);
        }
    }
    T_OK(wharf_leave(&joined));
    options.writable = 1;
    T_REFUSES(WHARF_EOS, "for reading only",
              wharf_join(name, &options, &joined));
    wharf_last_error(&error);
    T_EQ_INT(EACCES, error.native);
    T_CHECK(joined == NULL);
    return 0;
}

static int writer(const char *name)
{
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_joined *joined = NULL;
    wharf_buffer *buffer = NULL;
    wharf_node *node = NULL;
    void *segment;

    options.writable = 1;
    T_OK(wharf_join(name, &options, &joined));
    T_OK(wharf_joined_buffer(joined, &buffer));
    T_OK(wharf_joined_node(joined, &node));
    T_OK(wharf_buffer_segment(buffer, 0, &segment, NULL));
    t_dev_fill(t_place(node, buffer, 0), segment, 42, 100);
    T_OK(wharf_leave(&joined));
    /* The same publication, joined by one who only reads. */
    T_OK(wharf_join(name, NULL, &joined));
    T_OK(wharf_joined_buffer(joined, &buffer));
    T_EQ_INT(1, t_info(buffer, 0).write_protected);
    T_OK(wharf_leave(&joined));
    return 0;
}

static int guest_calls(const char *name)
{
    wharf_joined *joined = NULL, *copy;
    wharf_buffer *buffer = NULL, *made = NULL;
    wharf_node *node = NULL;
    wharf_event *event = NULL;

    T_OK(wharf_join(name, NULL, &joined));
    T_OK(wharf_joined_buffer(joined, &buffer));
    T_OK(wharf_joined_node(joined, &node));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_buffer_attach(node, 8, NULL, &made));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_buffer_event(buffer, 0, &event));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_buffer_publish(buffer, "x", NULL));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_buffer_detach(&buffer));
    T_REFUSES(WHARF_ESTATE, "joined", wharf_node_close(&node));
    T_REFUSES(WHARF_EARG, "NULL", wharf_joined_buffer(joined, NULL));
    T_REFUSES(WHARF_EARG, "NULL", wharf_joined_node(joined, NULL));
    copy = joined;
    T_OK(wharf_leave(&joined));
    T_REFUSES(WHARF_ESTATE, "joined", wharf_joined_check(copy));
    T_REFUSES(WHARF_ESTATE, "joined", wharf_leave(&copy));
    T_REFUSES(WHARF_EARG, "NULL", wharf_leave(&copy));
    T_EQ_STR("", wharf_joined_note(NULL));
    t_live_check(NULL);
    return 0;
}

/* ---- Other users, strangers, crowds -------------------------------------- */

/* `uid`: becomes this user, and wants what root has published. */
static int other_user(const char *name, unsigned uid, int admitted)
{
    wharf_joined_options options = WHARF_JOINED_OPTIONS_INIT;
    wharf_joined *joined = NULL;
    wharf_error error;

    T_EQ_INT(0, setgid(uid));
    T_EQ_INT(0, setuid(uid));
    /* Under its own name there is nothing. */
    T_REFUSES(WHARF_ENOTREADY, "published nothing",
              wharf_join(name, NULL, &joined));
    options.uid = 0;
    if (admitted) {
        T_OK(wharf_join(name, &options, &joined));
        T_OK(wharf_joined_check(joined));
        T_OK(wharf_leave(&joined));
        return 0;
    }
    T_REFUSES(WHARF_EOS, "is not for user",
              wharf_join(name, &options, &joined));
    wharf_last_error(&error);
    T_EQ_INT(EACCES, error.native);
    return 0;
}

static int listener_at(const char *name, unsigned uid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                          "wharf.%u.%s", uid, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    T_CHECK(fd >= 0);
    T_EQ_INT(0, bind(fd, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                 (size_t)length)));
    T_EQ_INT(0, listen(fd, 5));
    return fd;
}

/* Takes a name of root's. */
static int squatter(const char *name, unsigned uid)
{
    T_EQ_INT(0, setgid(uid));
    T_EQ_INT(0, setuid(uid));
    int fd = listener_at(name, 0);

    say('l');
    while (hear() != 'q')
        continue;
    close(fd);
    return 0;
}

/* Owners that are none: one that is silent, one that talks nonsense. */
static int false_owner(const char *name)
{
    int fd = listener_at(name, (unsigned)geteuid());
    char question[64];

    say('l');
    for (char order = hear(); order != 'q'; order = hear()) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        T_CHECK(peer >= 0);
        if (order == 'n') {
            /* Closing with something unread would take the answer back. */
            T_CHECK(read(peer, question, sizeof question) > 0);
            T_EQ_INT(5, write(peer, "hello", 5));
        }
        if (order == 's') {
            say('s');
            hear();
        }
        close(peer);
    }
    close(fd);
    return 0;
}

static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                          "wharf.%u.%s", (unsigned)geteuid(), name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    T_CHECK(fd >= 0);
    T_EQ_INT(0, connect(fd, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                    (size_t)length)));
    return fd;
}

/* Connects and says nothing, or nonsense; real ones are served all the same. */
static int stranger(const char *name)
{
    wharf_joined *joined = NULL;
    char long_one[4096] = {1};
    int silent[8];

    for (int i = 0; i < 8; i++) {
        int fd = connect_to(name);

        T_EQ_INT(sizeof long_one, write(fd, long_one, sizeof long_one));
        close(fd);
        silent[i] = connect_to(name);
    }
    for (int i = 0; i < 20; i++) {
        T_OK(wharf_join(name, NULL, &joined));
        T_OK(wharf_leave(&joined));
    }
    for (int i = 0; i < 8; i++)
        close(silent[i]);
    return 0;
}

static int crowd(const char *name)
{
    wharf_joined *joined[WHARF_MAX_JOINERS + 1] = {0};

    for (int i = 0; i < WHARF_MAX_JOINERS; i++)
        T_OK(wharf_join(name, NULL, &joined[i]));
    T_REFUSES(WHARF_ELIMIT, "have joined",
              wharf_join(name, NULL, &joined[WHARF_MAX_JOINERS]));
    say('j');
    hear();
    for (int i = 0; i < WHARF_MAX_JOINERS; i++)
        T_OK(wharf_leave(&joined[i]));
    t_live_check(NULL);
    return 0;
}

int joiner_main(int argc, char **argv)
{
    const char *role = argv[2], *name = argv[3];
    unsigned number = argc > 4 ? (unsigned)atoi(argv[4]) : 0;

    alarm(60);
    if (strcmp(role, "stay") == 0)
        return stay(name, (int)number, argc > 5 ? atoi(argv[5]) : 0);
    if (strcmp(role, "read_only") == 0)
        return read_only(name);
    if (strcmp(role, "writer") == 0)
        return writer(name);
    if (strcmp(role, "guest_calls") == 0)
        return guest_calls(name);
    if (strcmp(role, "other_user") == 0)
        return other_user(name, number, argc > 5);
    if (strcmp(role, "squatter") == 0)
        return squatter(name, number);
    if (strcmp(role, "false_owner") == 0)
        return false_owner(name);
    if (strcmp(role, "stranger") == 0)
        return stranger(name);
    if (strcmp(role, "crowd") == 0)
        return crowd(name);
    T_FAIL("no role \"%s\"", role);
}
