/* SPDX-License-Identifier: MIT */
/*
 * Names: Wharf leaves none behind and trips over nobody's. Files, directories
 * and sockets stand under every name that it could use; a job was killed just
 * before (names.sh runs the case `killed` for that).
 */
#define _GNU_SOURCE
#include "t_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm/private.h"

#define SQUATTERS 200
#define NAMES_MOST 512

static const char *const places[] = {"/dev/shm", "/tmp"};
enum { PLACES = 2 };

/* Where rank 0 last listened; abstract, chosen by the kernel. */
static struct sockaddr_un heard;
static socklen_t heard_bytes;

static void on_listen(const struct sockaddr_un *address, socklen_t bytes)
{
    heard = *address;
    heard_bytes = bytes;
}

/* One job at a time plants names or looks for them. No name is made for it. */
static int names_lock(void)
{
    int fd = -1;

    if (t_me == 0) {
        fd = open(places[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            T_EQ_INT(0, flock(fd, LOCK_EX));
    }
    t_barrier();
    return fd;
}

static void names_unlock(int fd)
{
    t_barrier();
    if (fd >= 0)
        close(fd);
}

static void use_node(uint64_t seed)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 20000, 0);

    t_share(node, buffer, seed);
    t_detach(buffer);
    t_close(node);
}

/* ---- Planted ------------------------------------------------------------ */

typedef struct planted {
    char path[100];
    bool made; /* else it was there: as good, and not ours to remove */
} planted;

/* A stale socket of a program that is gone: the name stays. */
static bool socket_make(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool made;

    T_CHECK(fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.99s", path);
    made = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return made;
}

static bool file_make(const char *path, mode_t mode)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    if (fd < 0)
        return false;
    T_EQ_INT(7, write(fd, "planted", 7));
    close(fd);
    return true;
}

static bool plant(const char *path, int kind)
{
    switch (kind % 5) {
    case 0:
        return file_make(path, 0600);
    case 1:
        return socket_make(path);
    case 2:
        return mkdir(path, 0700) == 0;
    case 3:
        return symlink("/nonexistent/target", path) == 0;
    default:
        return file_make(path, 0);
    }
}

/* Labels of its memory, and what a library of this name would choose. */
static int plant_all(planted *all)
{
    static const char *const names[] = {
        "wharf",      "wharf-control", "wharf.sock",         "wharf-socket",
        "sem.wharf",  "libwharf",      "memfd:wharf",        "wharf-0",
        "wharf-node", "wharf-pool",    "memfd:wharf-control"};
    int count = 0;

    for (int p = 0; p < PLACES; p++) {
        for (size_t n = 0; n < sizeof names / sizeof *names + 2; n++) {
            planted *one = &all[count];

            if (n < sizeof names / sizeof *names)
                snprintf(one->path, sizeof one->path, "%s/%s", places[p],
                         names[n]);
            else
                snprintf(one->path, sizeof one->path, "%s/wharf-%d", places[p],
                         (int)(n % 2 ? getpid() : (pid_t)getuid()));
            one->made = plant(one->path, count);
            T_CHECK(one->made || errno == EEXIST || errno == ENOENT ||
                    errno == EADDRINUSE);
            count++;
        }
    }
    return count;
}

/* What was planted is still there, untouched by Wharf. */
static void uproot(const planted *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].made)
            T_EQ_INT(0, remove(all[i].path));
}

/* A listener under an abstract name, or under one that the kernel chooses. */
static int squat(const struct sockaddr_un *address, socklen_t bytes)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    T_CHECK(fd >= 0);
    if (!address) {
        address = &any;
        bytes = sizeof(sa_family_t);
    }
    T_EQ_INT(0, bind(fd, (const struct sockaddr *)address, bytes));
    T_EQ_INT(0, listen(fd, 8));
    return fd;
}

static void nobody_came(int listener)
{
    T_EQ_INT(-1, accept(listener, NULL, NULL));
    T_CHECK(errno == EAGAIN);
    close(listener);
}

/* Whoever waits under the name of the node before is not taken for rank 0. */
static void names_reused(int *squatters)
{
    struct sockaddr_un before;
    int again = -1;

    use_node(2);
    before = heard;
    if (t_me == 0) {
        T_CHECK(heard_bytes > sizeof(sa_family_t));
        T_EQ_INT(0, heard.sun_path[0]);
        again = squat(&heard, heard_bytes);
    }
    t_barrier();
    for (int i = 0; i < 5; i++)
        use_node(3 + (uint64_t)i);
    if (t_me == 0) {
        T_CHECK(memcmp(&before, &heard, heard_bytes) != 0);
        nobody_came(again);
        for (int i = 0; i < SQUATTERS; i++)
            nobody_came(squatters[i]);
    }
}

static void planted_everywhere(void)
{
    static planted all[2 * PLACES * 16];
    int squatters[SQUATTERS];
    int count = 0, lock = names_lock();

    wi_hello_test_hook = t_me == 0 ? on_listen : NULL;
    if (t_me == 0) {
        count = plant_all(all);
        for (int i = 0; i < SQUATTERS; i++)
            squatters[i] = squat(NULL, 0);
    }
    t_barrier();
    use_node(1);
    names_reused(squatters);
    t_barrier();
    uproot(all, count);
    names_unlock(lock);
    wi_hello_test_hook = NULL;
}

/* ---- Nothing new --------------------------------------------------------- */

typedef struct names {
    int count;
    char name[NAMES_MOST][256];
} names;

static bool names_hold(const names *known, const char *name)
{
    for (int i = 0; i < known->count; i++)
        if (strcmp(known->name[i], name) == 0)
            return true;
    return false;
}

static void names_add(names *to, const char *name)
{
    if (names_hold(to, name))
        return;
    T_CHECK(to->count < NAMES_MOST);
    snprintf(to->name[to->count++], sizeof to->name[0], "%.255s", name);
}

static bool in_place(const char *path)
{
    for (int p = 0; p < PLACES; p++) {
        size_t length = strlen(places[p]);

        if (strncmp(path, places[p], length) == 0 && path[length] == '/')
            return true;
    }
    return false;
}

/* What this process has mapped or open there: other jobs have files of their
 * own, so a list of the directory would not do. */
static void names_used(names *to)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    char line[4096], link[300];

    T_CHECK(maps != NULL && fds != NULL);
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');

        line[strcspn(line, "\n")] = 0;
        if (path && in_place(path))
            names_add(to, path);
    }
    fclose(maps);
    while ((entry = readdir(fds))) {
        ssize_t length;

        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        length = readlink(link, line, 255);
        line[length > 0 ? length : 0] = 0;
        if (in_place(line))
            names_add(to, line);
    }
    closedir(fds);
}

/* Entries called after Wharf, whoever made them. */
static void names_listed(names *to)
{
    for (int p = 0; p < PLACES; p++) {
        DIR *directory = opendir(places[p]);
        struct dirent *entry;

        while (directory && (entry = readdir(directory)))
            if (strcasestr(entry->d_name, "wharf")) {
                char path[300];

                snprintf(path, sizeof path, "%s/%.255s", places[p],
                         entry->d_name);
                path[255] = 0;
                names_add(to, path);
            }
        if (directory)
            closedir(directory);
    }
}

static void check_nothing_new(const names *known, const char *when)
{
    static names now;

    now.count = 0;
    names_used(&now);
    names_listed(&now);
    for (int i = 0; i < now.count; i++)
        if (!names_hold(known, now.name[i]))
            T_FAIL("%s: %s is new", when, now.name[i]);
}

/* MPI makes its own files when it is first used. */
static void mpi_warm_up(void)
{
    for (int i = 0; i < 3; i++) {
        MPI_Comm copy, node;
        MPI_Request request;
        int all[64], one = i;

        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Comm_split_type(copy, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                            &node);
        MPI_Ibcast(&one, 1, MPI_INT, 0, node, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, copy);
        MPI_Iallreduce(&one, all, 1, MPI_INT, MPI_MAX, node, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&node);
        MPI_Comm_free(&copy);
    }
}

static void nothing_new(void)
{
    static names known;
    int lock = names_lock();
    wharf_node *node;
    wharf_buffer *buffer;

    mpi_warm_up();
    names_used(&known);
    names_listed(&known);
    t_barrier();
    node = t_open();
    check_nothing_new(&known, "opened");
    buffer = t_attach(node, 20000, 0);
    t_share(node, buffer, 1);
    check_nothing_new(&known, "attached");
    t_detach(buffer);
    check_nothing_new(&known, "detached");
    t_close(node);
    check_nothing_new(&known, "closed");
    names_unlock(lock);
}

/* ---- Killed -------------------------------------------------------------- */

/* Ends in the middle of everything, by a signal that nobody can catch. */
static void killed(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 20000, 0);

    t_share(node, buffer, 1);
    t_barrier();
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"planted_everywhere", planted_everywhere, T_ANY},
        {"nothing_new", nothing_new, T_ANY},
        {NULL, NULL, 0},
    };
    static const t_case deadly[] = {
        {"killed", killed, T_ANY},
        {NULL, NULL, 0},
    };
    bool die = argc > 1 && strcmp(argv[1], "killed") == 0;

    return t_main(argc, argv, MPI_THREAD_SINGLE, die ? deadly : cases);
}
