/* SPDX-License-Identifier: MIT */
/* What tests with several ranks share: see t_group.h. */
#define _GNU_SOURCE
#include "t_group.h"

#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int t_me = -1;
int t_ranks = 0;

static int argument_count;
static char **arguments;
static const char *volatile case_running = "";

/* Seconds that a case may take (or limit=S) before it counts as hung: less than
 * CTest's limit, so that the name of the case is known. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CASE_SECONDS = 200 };
#else
enum { CASE_SECONDS = 50 };
#endif

static void on_alarm(int signal)
{
    static const char text[] = "t_main: no end in sight of case ";
    const char *name = case_running;

    (void)signal;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 ||
        write(STDERR_FILENO, name, strlen(name)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        _exit(3);
    _exit(3);
}

t_mode t_mode_get(void)
{
    const char *backend = getenv("WHARF_BACKEND");
    const char *driver = getenv("WHARF_CUDA_DRIVER");

    if (backend == NULL || strcmp(backend, "cuda") != 0)
        return T_HOST;
    return driver != NULL && driver[0] != '\0' ? T_FAKE : T_GPU;
}

void t_arguments(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
}

long t_argument(const char *name, long preset)
{
    size_t length = strlen(name);

    for (int i = 1; i < argument_count; i++) {
        if (strncmp(arguments[i], name, length) == 0 &&
            arguments[i][length] == '=')
            return strtol(arguments[i] + length + 1, NULL, 0);
    }
    return preset;
}

static bool case_wanted(const char *name)
{
    bool named = false;

    for (int i = 1; i < argument_count; i++) {
        if (strchr(arguments[i], '=') != NULL)
            continue;
        if (strcmp(arguments[i], name) == 0)
            return true;
        named = true;
    }
    return !named;
}

static void case_run(const t_case *one)
{
    wharf_stats before = t_stats();

    case_running = one->name;
    /* Contexts of one GPU are made one after the other, those of the tests
     * beside this one too. */
    alarm((unsigned)t_argument("limit", t_mode_get() == T_GPU ? 2 * CASE_SECONDS
                                                              : CASE_SECONDS));
    one->run();
    t_barrier();
    t_live_check(&before);
    alarm(0);
    if (t_me == 0) {
        printf("ok %s\n", one->name);
        fflush(stdout);
    }
}

void t_mode_check(void)
{
    char uuids[1][48];

    /* So that a machine with GPUs does not turn an mp test into a gpu one. */
    if (t_mode_get() == T_HOST)
        setenv("WHARF_BACKEND", "host", 1);
    if (t_mode_get() == T_GPU && t_driver_list(uuids, 1) == 0)
        T_SKIP("no GPU here");
}

int t_main(int argc, char **argv, int thread_level, const t_case *cases)
{
    int provided = 0;
    int ran = 0;

    t_arguments(argc, argv);
    t_mode_check();
    signal(SIGALRM, on_alarm);
    T_CHECK(MPI_Init_thread(&argc, &argv, thread_level, &provided) == 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    if (provided < thread_level) {
        MPI_Finalize();
        T_SKIP("MPI gives thread level %d, not %d", provided, thread_level);
    }
    for (const t_case *one = cases; one->name != NULL; one++) {
        if (!(one->modes & (unsigned)t_mode_get()) || !case_wanted(one->name))
            continue;
        case_run(one);
        ran++;
    }
    MPI_Finalize();
    if (ran == 0)
        T_SKIP("no case of this test means something here");
    return 0;
}

/* ---- Checks ------------------------------------------------------------ */

void t_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

void t_check_refusal(const char *file, int line, const char *what,
                     wharf_status expected, wharf_status got, const char *part)
{
    wharf_error error;

    t_status(file, line, what, expected, got);
    wharf_last_error(&error);
    t_eq_int(file, line, "status in the record", expected, error.status);
    if (error.call[0] == '\0' || error.cause[0] == '\0')
        t_end(1, file, line, "%s: the record has no call or no cause", what);
    if (part != NULL)
        t_contains(file, line, "cause in the record", part, error.cause);
}

void t_check_failure(const char *file, int line, const char *what,
                     MPI_Comm comm, wharf_status expected, wharf_status got,
                     int rank, const char *part)
{
    struct {
        int status;
        wharf_error error;
    } mine, first;

    memset(&mine, 0, sizeof mine);
    mine.status = (int)got;
    wharf_last_error(&mine.error);
    first = mine;
    MPI_Bcast(&first, (int)sizeof first, MPI_BYTE, 0, comm);
    if (first.status != mine.status)
        t_end(1, file, line, "%s: %s here, %s on rank 0 of the communicator",
              what, wharf_status_name(got),
              wharf_status_name((wharf_status)first.status));
    t_check_refusal(file, line, what, expected, got, part);
    if (rank >= 0)
        t_eq_int(file, line, "rank in the record", rank, mine.error.rank);
    t_eq_int(file, line, "rank in rank 0's record", first.error.rank,
             mine.error.rank);
    t_eq_int(file, line, "native number in rank 0's record", first.error.native,
             mine.error.native);
    t_eq_str(file, line, "call in rank 0's record", first.error.call,
             mine.error.call);
    t_eq_str(file, line, "cause in rank 0's record", first.error.cause,
             mine.error.cause);
}

void t_check_same(const char *file, int line, const char *what, uint64_t value)
{
    uint64_t first = value;

    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (first != value)
        t_end(1, file, line, "%s: %#llx here, %#llx on rank 0", what,
              (unsigned long long)value, (unsigned long long)first);
}

/* ---- Objects ----------------------------------------------------------- */

wharf_node *t_open(void)
{
    wharf_node *node = NULL;

    T_OK(wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    T_CHECK(node != NULL);
    if (t_mode_get() == T_HOST)
        T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(node));
    else
        T_EQ_INT(WHARF_BACKEND_CUDA, wharf_node_backend(node));
    return node;
}

void t_close(wharf_node *node)
{
    T_OK(wharf_node_close(&node));
    T_CHECK(node == NULL);
}

wharf_buffer *t_attach(wharf_node *node, size_t size, unsigned flags)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;

    options.flags = flags;
    T_OK(wharf_buffer_attach(node, size, &options, &buffer));
    T_CHECK(buffer != NULL);
    return buffer;
}

void t_detach(wharf_buffer *buffer)
{
    T_OK(wharf_buffer_detach(&buffer));
    T_CHECK(buffer == NULL);
}

void *t_segment(const wharf_buffer *buffer, int rank, size_t *size)
{
    void *pointer = &pointer;
    size_t bytes = 1;

    T_OK(wharf_buffer_segment(buffer, rank, &pointer, &bytes));
    if (bytes == 0)
        T_CHECK(pointer == NULL);
    else
        T_CHECK(pointer != NULL && ((uintptr_t)pointer & 255) == 0);
    if (size != NULL)
        *size = bytes;
    return pointer;
}

wharf_buffer_info t_info(const wharf_buffer *buffer, int rank)
{
    wharf_buffer_info info;

    memset(&info, 0xa5, sizeof info);
    info.struct_size = sizeof info;
    T_OK(wharf_buffer_info_get(buffer, rank, &info));
    T_CHECK(memchr(info.reason, '\0', sizeof info.reason) != NULL);
    return info;
}

const wharf_node *t_place(const wharf_node *node, const wharf_buffer *buffer,
                          int rank)
{
    return t_info(buffer, rank).space == WHARF_SPACE_HOST ? NULL : node;
}

/* A different pattern for each (seed, rank). */
static uint64_t seed_of(uint64_t seed, int rank)
{
    return seed * 1000003 + (uint64_t)rank + 1;
}

void t_fill_mine(const wharf_node *node, const wharf_buffer *buffer,
                 uint64_t seed)
{
    int rank = wharf_node_rank(node);
    size_t size;
    void *mine = t_segment(buffer, rank, &size);

    t_dev_fill_pattern(t_place(node, buffer, rank), mine, size,
                       seed_of(seed, rank));
}

void t_check_segment(const wharf_node *node, const wharf_buffer *buffer,
                     int rank, uint64_t seed)
{
    size_t size;
    void *segment = t_segment(buffer, rank, &size);
    long long wrong = t_dev_check_pattern(t_place(node, buffer, rank), segment,
                                          size, seed_of(seed, rank));

    if (wrong >= 0)
        T_FAIL("segment of rank %d (%zu bytes) is wrong from byte %lld on",
               rank, size, wrong);
}

void t_share(const wharf_node *node, const wharf_buffer *buffer, uint64_t seed)
{
    MPI_Comm comm;

    T_OK(wharf_node_communicator(node, &comm));
    t_fill_mine(node, buffer, seed);
    MPI_Barrier(comm);
    for (int rank = 0; rank < wharf_node_size(node); rank++)
        t_check_segment(node, buffer, rank, seed);
    /* Nobody writes again before all have read. */
    MPI_Barrier(comm);
}

/* ---- What the process holds -------------------------------------------- */

wharf_stats t_stats(void)
{
    wharf_stats stats;

    memset(&stats, 0xa5, sizeof stats);
    stats.struct_size = sizeof stats;
    T_OK(wharf_stats_get(&stats));
    return stats;
}

void t_live_check(const wharf_stats *before)
{
    wharf_stats now = t_stats();

#define T_LIVE(name, text)                                                     \
    if ((strncmp(#name, "live_", 5) == 0 &&                                    \
         strcmp(#name, "live_communicators") != 0) ||                          \
        strcmp(#name, "pooled_bytes") == 0 ||                                  \
        strcmp(#name, "kept_bytes") == 0)                                      \
        T_EQ_INT(before != NULL ? before->name : 0, now.name);
    WHARF_STATS_LIST(T_LIVE)
#undef T_LIVE
}

static int count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    T_CHECK(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count - 3; /* ".", ".." and the directory itself */
}

static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    T_CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "/memfd:") != NULL ||
            strstr(line, "/dev/nvidia") != NULL)
            count++;
    }
    fclose(maps);
    return count;
}

t_holdings t_holdings_get(void)
{
    t_holdings holdings = {count_descriptors(), count_mappings()};

    return holdings;
}

void t_wait_stopped(int pid, int most_ms)
{
    struct timespec pause = {0, 1000000};
    char path[64], line[256], state = '?';

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int ms = 0; state != 'T'; ms++) {
        FILE *file = fopen(path, "r");
        const char *name_end = NULL;

        T_CHECK(file != NULL && ms < most_ms);
        if (fgets(line, sizeof line, file))
            name_end = strrchr(line, ')');
        fclose(file);
        T_CHECK(name_end != NULL);
        state = name_end[2];
        if (state != 'T')
            nanosleep(&pause, NULL);
    }
}

/* ---- Beside MPI --------------------------------------------------------- */

long long t_now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

void t_pause_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&time, NULL);
}

void *t_board(size_t bytes)
{
    int where[2] = {(int)getpid(), -1};
    char path[64];
    void *board;
    int fd;

    if (t_me == 0) {
        where[1] = memfd_create("board", MFD_CLOEXEC);
        T_CHECK(where[1] >= 0 && ftruncate(where[1], (off_t)bytes) == 0);
    }
    MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
    fd = open(path, O_RDWR | O_CLOEXEC);
    T_CHECK(fd >= 0);
    board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T_CHECK(board != MAP_FAILED);
    close(fd);
    t_barrier();
    if (t_me == 0)
        close(where[1]);
    return board;
}
