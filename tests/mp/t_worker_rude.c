/* SPDX-License-Identifier: MIT */
/*
 * Workers that do not do as they should, and callers that do not: nothing that
 * one process does or leaves undone may hold up the rank's own calls.
 *
 * Started as "rude MODE" this program is such a worker.
 */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include "t_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "core/worker.h"

/* After the library's next look at an empty socket, a message comes. */
static int late_socket = -1;

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    ssize_t got = recvfrom(fd, buffer, size, flags, NULL, NULL);

    if (got < 0 && (flags & MSG_PEEK) && late_socket >= 0) {
        T_OK(wi_message_send(late_socket, "longer", 6, WI_NEVER, false));
        late_socket = -1;
        errno = EAGAIN;
    }
    return got;
}

/* What becomes of the library's writes to the rank's stdout. */
typedef enum manner { PLAIN, PIECEMEAL, FAILING } manner;

static _Atomic manner stdout_is = PLAIN;
static _Atomic int writes; /* while it is not plain */

/* -1 with errno, or how much of it is to go. */
static ssize_t disturb(size_t size)
{
    static const int codes[] = {EINTR, EAGAIN};

    if (writes++ == 1000)
        T_FAIL("the same is written again and again");
    if (stdout_is == PIECEMEAL && writes % 4 > 2)
        return 1;
    if (stdout_is == PIECEMEAL && writes % 4 == 0)
        return (ssize_t)size;
    errno = stdout_is == FAILING ? EIO : codes[writes % 4 - 1];
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)bytes, size};

    if (fd == STDOUT_FILENO && stdout_is != PLAIN) {
        ssize_t some = disturb(size);

        if (some < 0)
            return some;
        part.iov_len = (size_t)some;
    }
    return writev(fd, &part, 1);
}

/* ---- The workers --------------------------------------------------------- */

static void no_more_addresses(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    struct rlimit limit = {0, RLIM_INFINITY};

    T_CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + (16 << 20));
    T_EQ_INT(0, setrlimit(RLIMIT_AS, &limit));
}

static void rude_main(int argc, char **argv)
{
    wharf_worker *worker = NULL;
    char any[64];
    size_t size;

    if (argc < 3 || strcmp(argv[1], "rude") != 0)
        return;
    if (strcmp(argv[2], "deaf") == 0) { /* asks for all and takes nothing */
        T_OK(wi_note_send(WI_WORKER_CONTROL, WI_NOTE_HELLO,
                          WHARF_VERSION_NUMBER, NULL));
        for (;;)
            pause();
    }
    T_OK(wharf_worker_join(NULL, &worker));
    if (strcmp(argv[2], "first") == 0)
        T_OK(wharf_worker_send(worker, "!", 1, 0));
    if (strcmp(argv[2], "lines") == 0)
        for (int i = 0; i < 20000; i++)
            printf("line %d\n", i);
    if (strcmp(argv[2], "few") == 0)
        printf("one\ntwo\nthree\n");
    if (strcmp(argv[2], "left") == 0) {
        T_OK(wharf_worker_leave(&worker));
        for (;;)
            pause();
    }
    if (strcmp(argv[2], "poor") == 0)
        no_more_addresses();
    fflush(stdout);
    while (wharf_worker_receive(worker, any, sizeof any, &size, 0) ==
           WHARF_OK) {
        if (strcmp(argv[2], "slow") == 0)
            t_pause_us(250000);
        T_OK(wharf_worker_send(worker, any, size, 0));
    }
    T_OK(wharf_worker_leave(&worker));
    exit(0);
}

static wharf_worker *start(wharf_node *node, const char *mode,
                           const wharf_worker_options *options)
{
    char path[4096] = "";
    const char *argv[] = {path, "rude", mode, NULL};
    wharf_worker *worker = NULL;

    T_CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    T_OK(wharf_worker_start(node, argv, options, &worker));
    return worker;
}

static void expect_echo(wharf_worker *worker)
{
    char any[8] = "";

    T_OK(wharf_worker_send(worker, "x", 1, 0));
    T_OK(wharf_worker_receive(worker, any, sizeof any, NULL, 0));
    T_EQ_INT('x', any[0]);
}

/* ---- Cases
 * -------------------------------------------------------------------
 */

/* Whoever has a message of a worker's knows that it has joined. */
static void at_work_after_a_message(void)
{
    wharf_node *node = t_open();
    long rounds = t_argument("rounds", 40);

    for (long i = 0; i < rounds; i++) {
        wharf_worker *worker = start(node, "first", NULL);
        wharf_worker_state state;
        char any;

        T_OK(wharf_worker_receive(worker, &any, 1, NULL, 0));
        T_OK(wharf_worker_state_get(worker, &state));
        T_EQ_INT(WHARF_WORKER_RUNNING, state);
        t_worker_stop(worker);
    }
    t_close(node);
}

/* A message that does not fit stays, whenever it comes. */
static void comes_after_the_look(void)
{
    int end[2];
    char room[8] = "";
    size_t size = 0;

    T_EQ_INT(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end));
    late_socket = end[0];
    wi_call_begin("wharf_worker_receive", 0);
    T_REFUSES(WHARF_EARG, "6 bytes, there is room for 3",
              wi_call_end(wi_message_receive(end[1], room, 3, &size,
                                             wi_deadline_in_ms(5000), false)));
    T_EQ_INT(-1, late_socket);
    T_OK(wi_message_receive(end[1], room, sizeof room, &size, WI_NEVER, false));
    T_EQ_INT(6, (intmax_t)size);
    T_EQ_STR("longer", room);
    close(end[0]);
    close(end[1]);
}

/* A process that has closed its end and lives on is silent. */
static void left_and_stays(void)
{
    wharf_node *node = t_open();
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    wharf_worker *worker;
    long long before = t_now_ms();
    char any;

    options.silence_ms = T_SILENCE_MS;
    options.restarts = 0;
    worker = start(node, "left", &options);
    T_REFUSES(WHARF_ELIMIT, "no answer",
              wharf_worker_receive(worker, &any, 1, NULL, 0));
    T_CHECK(t_now_ms() - before < 10 * T_SILENCE_MS + 2000);
    T_EQ_INT(1, t_report(worker).silences);
    T_OK(wharf_worker_stop(&worker, NULL));
    t_close(node);
}

/* Plays the batch system, which stops a job's processes and lets them go on,
 * the rank before its worker. */
static pid_t stop_for_a_while(pid_t rank, pid_t worker)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    t_pause_us(100000);
    kill(rank, SIGSTOP);
    kill(worker, SIGSTOP);
    t_pause_us(900000);
    kill(rank, SIGCONT);
    t_pause_us(50000);
    kill(worker, SIGCONT);
    _exit(0);
}

/* The time for which all were stopped is neither the worker's silence nor the
 * caller's patience. */
static void all_stopped(void)
{
    enum { MS = 700 };
    wharf_node *node = t_open();
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    wharf_worker *worker;
    char any[8];

    options.silence_ms = MS;
    worker = start(node, "slow", &options);
    expect_echo(worker);
    pid_t batch = stop_for_a_while(getpid(), t_report(worker).pid);

    T_OK(wharf_worker_send(worker, "x", 1, 0));
    T_OK(wharf_worker_receive(worker, any, sizeof any, NULL, MS));
    T_CHECK(waitpid(batch, NULL, 0) == batch);
    T_EQ_INT(0, t_report(worker).deaths);
    t_worker_stop(worker);
    t_close(node);
}

/* More than a socket holds, for one that reads nothing of it. */
static void deaf(void)
{
    enum { EACH = 64, TIMES = 12 };
    wharf_node *node = t_open();
    wharf_buffer *buffers[EACH * TIMES];
    size_t sizes[EACH];
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    wharf_worker *worker;
    long long before;

    for (int i = 0; i < EACH; i++)
        sizes[i] = 64;
    for (int i = 0; i < TIMES; i++)
        T_OK(wharf_buffer_attach_many(node, EACH, sizes, NULL,
                                      buffers + (ptrdiff_t)i * EACH));
    options.buffers = buffers;
    options.buffer_count = EACH * TIMES;
    options.stop_ms = 100;
    options.join_ms = 20000;
    options.restarts = 0;
    worker = start(node, "deaf", &options);
    t_pause_us(200000);
    before = t_now_ms();
    T_OK(wharf_worker_stop(&worker, NULL));
    T_CHECK(t_now_ms() - before < 5000);

    /* And its death is heard of. */
    worker = start(node, "deaf", &options);
    t_pause_us(200000);
    before = t_now_ms();
    T_EQ_INT(0, kill(t_report(worker).pid, SIGKILL));
    T_REFUSES(WHARF_ELIMIT, "signal 9",
              wharf_worker_receive(worker, sizes, 1, NULL, 10000));
    T_CHECK(t_now_ms() - before < 5000);
    T_OK(wharf_worker_stop(&worker, NULL));
    t_barrier();
    for (int i = 0; i < EACH * TIMES; i++)
        T_OK(wharf_buffer_detach(&buffers[i]));
    t_close(node);
}

/* A buffer that a worker cannot map is not lent; the next one is, also when
 * nobody waited for the answer any more. */
static void poor(void)
{
    wharf_node_options slow = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_buffer *large, *small;
    wharf_worker *worker;
    int pid;

    slow.timeout_ms = 1000;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &slow, &node));
    large = t_attach(node, 64 << 20, 0);
    small = t_attach(node, 4096, 0);
    worker = start(node, "poor", NULL);
    expect_echo(worker);
    pid = t_report(worker).pid;
    T_REFUSES(WHARF_ENOMEM, "reserve", wharf_worker_lend(worker, large, 0));
    T_REFUSES(WHARF_ENOMEM, "reserve", wharf_worker_lend(worker, large, 1));
    T_EQ_INT(0, kill(pid, SIGSTOP));
    t_wait_stopped(pid, 5000);
    T_REFUSES(WHARF_ETIMEDOUT, "has not mapped",
              wharf_worker_lend(worker, large, 0));
    T_EQ_INT(0, kill(pid, SIGCONT));
    T_OK(wharf_worker_lend(worker, small, 0));
    expect_echo(worker);
    t_barrier();
    T_OK(wharf_buffer_detach(&large)); /* lent to nobody */
    T_STATUS(WHARF_ESTATE, wharf_buffer_detach(&small));
    t_worker_stop(worker);
    t_barrier();
    t_detach(small);
    t_close(node);
}

/* ---- The rank's own streams ---------------------------------------------- */

typedef struct diversion {
    int saved, from;
} diversion;

/* stdout is a pipe that is as small as pipes can be, and full soon. */
static diversion divert(int flags)
{
    diversion d;
    int ends[2];

    fflush(stdout);
    T_EQ_INT(0, pipe2(ends, O_CLOEXEC));
    T_CHECK(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
    if (flags)
        T_EQ_INT(0, fcntl(ends[1], F_SETFL, flags));
    d.saved = dup(STDOUT_FILENO);
    d.from = ends[0];
    T_CHECK(d.saved >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0);
    close(ends[1]);
    return d;
}

static void divert_end(const diversion *d)
{
    T_CHECK(dup2(d->saved, STDOUT_FILENO) >= 0);
    close(d->saved);
}

static void full_stdout(void)
{
    wharf_node *node = t_open();
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    diversion d = divert(0);
    wharf_worker *worker;
    long long before;

    options.stop_ms = 100;
    worker = start(node, "lines", &options);
    t_pause_us(300000);
    before = t_now_ms();
    T_OK(wharf_worker_stop(&worker, NULL));
    T_CHECK(t_now_ms() - before < 5000);
    divert_end(&d);
    close(d.from);
    t_close(node);
}

typedef struct reading {
    int from;
    long lines;
} reading;

/* A slow reader, which expects every line once and in its order. */
static void *read_lines(void *argument)
{
    reading *r = argument;
    FILE *file = fdopen(r->from, "r");
    char line[256];

    T_CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *number = strstr(line, "] line ");

        T_CHECK(number != NULL);
        T_EQ_INT(r->lines, atol(number + 7));
        if (r->lines++ == 1000)
            t_pause_us(300000);
    }
    fclose(file);
    return NULL;
}

static void read_slowly(int flags)
{
    wharf_node *node = t_open();
    diversion d = divert(flags);
    reading r = {.from = d.from};
    wharf_worker *worker = start(node, "lines", NULL);
    pthread_t reader;

    T_EQ_INT(0, pthread_create(&reader, NULL, read_lines, &r));
    expect_echo(worker); /* comes when all lines are written */
    t_worker_stop(worker);
    divert_end(&d);
    T_EQ_INT(0, pthread_join(reader, NULL));
    T_EQ_INT(20000, r.lines);
    t_close(node);
}

static void slow_stdout(void)
{
    read_slowly(0);
}

static void slow_stdout_nonblocking(void)
{
    read_slowly(O_NONBLOCK);
}

/* Three lines of a worker while stdout does what it may; what came, the tags
 * left out. */
static void write_few(wharf_node *node, manner how, char *text, size_t room)
{
    int memory = memfd_create("output", MFD_CLOEXEC), saved, pid;
    char line[128], tag[64];
    wharf_worker *worker;

    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    T_CHECK(memory >= 0 && saved >= 0 && dup2(memory, STDOUT_FILENO) >= 0);
    writes = 0;
    stdout_is = how;
    worker = start(node, "few", NULL);
    expect_echo(worker);
    pid = t_report(worker).pid;
    t_worker_stop(worker);
    stdout_is = PLAIN;
    T_CHECK(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    snprintf(tag, sizeof tag, "[worker of rank %d, pid %d] ", t_me, pid);
    FILE *file = fdopen(memory, "r");

    T_CHECK(file != NULL);
    rewind(file);
    for (text[0] = '\0'; fgets(line, sizeof line, file) != NULL;) {
        size_t length = strlen(text);

        T_CONTAINS(tag, line);
        snprintf(text + length, room - length, "%s", line + strlen(tag));
    }
    fclose(file);
}

/* In pieces and after interruptions every line comes whole; a stream that
 * takes nothing is asked once a line, and holds up nobody. */
static void odd_stdout(void)
{
    wharf_node *node = t_open();
    char text[256];

    write_few(node, PIECEMEAL, text, sizeof text);
    T_EQ_STR("one\ntwo\nthree\n", text);
    T_EQ_INT(3 * 4, writes);
    write_few(node, FAILING, text, sizeof text);
    T_EQ_STR("", text);
    T_EQ_INT(3, writes);
    t_close(node);
}

/* ---- Arguments ----------------------------------------------------------- */

static void arguments(void)
{
    wharf_node *node = t_open();
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;
    wharf_worker_report report = {0};
    wharf_worker *worker = start(node, "echo", NULL), *same = worker, *no;
    const char *argv[] = {"true", NULL};
    static char any[65536]; /* with SIZE_MAX all of it may be asked for */

    T_REFUSES(WHARF_EARG, "struct_size", wharf_worker_stop(&worker, &report));
    T_EQ_PTR(same, worker);
    expect_echo(worker);
    T_OK(wharf_worker_send(worker, "x", 1, 0));
    T_OK(wharf_worker_receive(worker, any, SIZE_MAX, NULL, 0));
    no = NULL;
    options.read_only = 2;
    T_REFUSES(WHARF_EARG, "read_only",
              wharf_worker_start(node, argv, &options, &no));
    T_CHECK(no == NULL);
    t_worker_stop(worker);
    t_close(node);
}

static void names(void)
{
    T_EQ_STR("given up", wharf_worker_state_name(WHARF_WORKER_GIVEN_UP));
    T_EQ_STR("unknown", wharf_worker_state_name((wharf_worker_state)5));
    T_EQ_STR("silence", wharf_death_name(WHARF_DEATH_SILENCE));
    T_EQ_STR("unknown", wharf_death_name((wharf_death)-1));
}

/* Full, but for so many: the remedy is about descriptors. */
static void few_descriptors(void)
{
    wharf_node *node = t_open();
    struct rlimit limit, few;
    wharf_worker *worker = NULL;
    const char *argv[] = {"true", NULL};
    int held[256], count = 0;
    wharf_error error;

    T_EQ_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
    few = limit;
    few.rlim_cur = 256;
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &few));
    while ((held[count] = dup(STDIN_FILENO)) >= 0)
        count++;
    for (int room = 0; room < 16; room++) {
        wharf_status status = wharf_worker_start(node, argv, NULL, &worker);

        if (status == WHARF_OK)
            break;
        T_STATUS(WHARF_EOS, status);
        wharf_last_error(&error);
        T_CONTAINS("ulimit -n", error.remedy);
        close(held[--count]);
    }
    while (count > 0)
        close(held[--count]);
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &limit));
    T_CHECK(worker != NULL);
    T_OK(wharf_worker_stop(&worker, NULL));
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"at_work_after_a_message", at_work_after_a_message, T_ANY},
        {"comes_after_the_look", comes_after_the_look, T_HOST},
        {"left_and_stays", left_and_stays, T_ANY},
        {"all_stopped", all_stopped, T_HOST},
        {"deaf", deaf, T_HOST},
        {"poor", poor, T_HOST},
        {"full_stdout", full_stdout, T_HOST},
        {"slow_stdout", slow_stdout, T_HOST},
        {"slow_stdout_nonblocking", slow_stdout_nonblocking, T_HOST},
        {"odd_stdout", odd_stdout, T_HOST},
        {"arguments", arguments, T_ANY},
        {"names", names, T_HOST},
        {"few_descriptors", few_descriptors, T_HOST},
        {NULL, NULL, 0},
    };

    rude_main(argc, argv);
    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
