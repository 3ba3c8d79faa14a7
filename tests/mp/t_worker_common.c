/* SPDX-License-Identifier: MIT */
/* The worker's program of the tests, and how their ranks talk to it. */
#define _GNU_SOURCE
#include "t_worker.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static wharf_worker *me;
static wharf_node *node;
static int fds_at_start, fd_most;

/* ---- The worker ---------------------------------------------------------- */

/* That of opendir is not counted. */
static void count_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    const struct dirent *entry;

    T_CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] == '.' || fd == dirfd(list))
            continue;
        fds_at_start++;
        if (fd > fd_most)
            fd_most = fd;
    }
    closedir(list);
}

static int launcher_variables(void)
{
    static const char *const starts[] = {"OMPI_", "PMIX_", "PMI_"};
    int count = 0;

    for (char **e = environ; *e != NULL; e++)
        for (int i = 0; i < 3; i++)
            count += strncmp(*e, starts[i], strlen(starts[i])) == 0;
    return count + (getenv("WHARF_WORKER") != NULL);
}

static wharf_buffer *buffer_get(int index)
{
    wharf_buffer *buffer = NULL;

    T_OK(wharf_worker_buffer(me, index, &buffer));
    return buffer;
}

static void check_all(t_task *task)
{
    wharf_buffer *buffer = buffer_get(task->value);

    for (int rank = 0; rank < wharf_node_size(node); rank++)
        t_check_segment(node, buffer, rank, task->seed);
}

static void give_base(t_task *task)
{
    void *base = NULL;
    size_t size = 0;

    T_OK(wharf_buffer_base(buffer_get(task->value), &base, &size));
    task->numbers[0] = (uintptr_t)base;
    task->numbers[1] = size;
    task->numbers[2] = (uint64_t)wharf_worker_buffers(me);
    task->numbers[3] = (uint64_t)getpid();
}

static void flood(t_task *task)
{
    uint64_t went = 0;

    for (int i = 0; i < task->value; i++) {
        t_task one = {.order = T_FLOOD, .seed = (uint64_t)i};

        went +=
            wharf_worker_send(me, &one, sizeof one, WHARF_NO_WAIT) == WHARF_OK;
    }
    task->numbers[0] = went;
}

static void fork_one(t_task *task)
{
    pid_t pid = fork();

    if (pid == 0) {
        for (;;)
            pause();
    }
    task->numbers[0] = (uint64_t)pid;
}

static void lines(const t_task *task)
{
    for (int i = 0; i < task->value; i++) {
        printf("out %d of %d\n", i, task->value);
        fprintf(stderr, "err %d of %d\n", i, task->value);
    }
    printf("no end");
    fflush(stdout);
}

static void refusals(void)
{
    wharf_buffer *buffer = buffer_get(0), *other = NULL;
    wharf_event *event = NULL;
    wharf_worker *worker = NULL;
    wharf_node *same = node;
    const char *argv[] = {"true", NULL};
    wharf_link link = WHARF_LINK_INIT;
    wharf_device device = WHARF_DEVICE_INIT;
    void *const *table = NULL;
    MPI_Comm comm;

    T_REFUSES(WHARF_ESTATE, "guest",
              wharf_buffer_attach(node, 64, NULL, &other));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_buffer_detach(&buffer));
    T_CHECK(buffer != NULL && other == NULL);
    T_REFUSES(WHARF_ESTATE, "guest", wharf_buffer_event(buffer, 0, &event));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_event_create(node, 0, &event));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_pool_trim(node));
    T_REFUSES(WHARF_ESTATE, "guest", wharf_node_communicator(node, &comm));
    T_REFUSES(WHARF_ESTATE, "guest",
              wharf_worker_start(node, argv, NULL, &worker));
    T_REFUSES(WHARF_ESTATE, "worker", wharf_node_close(&same));
    T_REFUSES(WHARF_ESTATE, "own end", wharf_worker_lend(me, buffer, 0));
    T_REFUSES(WHARF_ESTATE, "joined already", wharf_worker_join(NULL, &worker));
    T_CHECK(same == node && worker == NULL && event == NULL);
    T_OK(wharf_node_link(node, 0, wharf_node_size(node) - 1, &link));
    T_OK(wharf_node_device(node, wharf_node_rank(node), &device));
    T_OK(wharf_buffer_pointer_table(buffer, &table));
    T_CHECK(table != NULL);
    T_OK(wharf_node_print(node, stderr, WHARF_FORMAT_TEXT));
    T_OK(wharf_node_print(node, stderr, WHARF_FORMAT_JSON));
    t_info(buffer, wharf_node_size(node) - 1);
}

static _Noreturn void die_by_fault(bool told)
{
    wharf_buffer *buffer = buffer_get(0);
    void *const *table = NULL;
    int native = t_driver_ruin(node);

    T_CHECK(native != 0);
    if (told)
        wharf_worker_fault(me, native, "found by the test");
    T_STATUS(WHARF_EFAULT, wharf_buffer_pointer_table(buffer, &table));
    for (;;)
        pause();
}

static _Noreturn void hang(void)
{
    for (;;)
        pause();
}

static void die(const t_task *task)
{
    volatile int *nowhere =
        mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    switch (task->order) {
    case T_DIE_SIGNAL:
        signal(task->value, SIG_DFL);
        raise(task->value);
        hang();
    case T_DIE_SEGV:
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
        *nowhere = 1;
        hang();
    case T_DIE_EXIT:
        _exit(task->value);
    case T_DIE_FAULT:
        die_by_fault(false);
    case T_DIE_TOLD:
        die_by_fault(true);
    default:
        hang();
    }
}

static void obey(t_task *task, bool *stays)
{
    switch (task->order) {
    case T_CHECK_ALL:
        check_all(task);
        break;
    case T_FILL_MINE:
        t_fill_mine(node, buffer_get(task->value), task->seed);
        break;
    case T_BASE:
        give_base(task);
        break;
    case T_SLOW:
        for (int ms = 0; ms < task->value; ms += 20) {
            t_pause_us(20000);
            T_OK(wharf_worker_alive(me));
        }
        break;
    case T_FLOOD:
        flood(task);
        return; /* the rank counts what came */
    case T_FORK:
        fork_one(task);
        break;
    case T_DESCRIPTORS:
        task->numbers[0] = (uint64_t)fds_at_start;
        task->numbers[1] = (uint64_t)fd_most;
        break;
    case T_VARIABLES:
        task->numbers[0] = (uint64_t)launcher_variables();
        break;
    case T_LINES:
        lines(task);
        break;
    case T_REFUSALS:
        refusals();
        break;
    case T_IGNORE_STOP:
        *stays = true;
        break;
    case T_ECHO:
        break;
    default:
        die(task);
    }
    T_OK(wharf_worker_send(me, task, sizeof *task, 0));
}

void t_worker_main(int argc, char **argv)
{
    bool stays = false;
    t_task task;
    size_t size;
    wharf_status status;

    if (argc < 2 || strcmp(argv[1], "worker") != 0)
        return;
    count_descriptors();
    t_arguments(argc, argv);
    status = wharf_worker_join(NULL, &me);
    if (status == WHARF_ECLOSED)
        exit(0); /* stopped before it had begun */
    T_OK(status);
    T_OK(wharf_worker_node(me, &node));
    while ((status = wharf_worker_receive(me, &task, sizeof task, &size, 0)) ==
           WHARF_OK) {
        T_EQ_INT((intmax_t)sizeof task, (intmax_t)size);
        obey(&task, &stays);
    }
    T_STATUS(WHARF_ECLOSED, status);
    if (stays)
        hang();
    T_OK(wharf_worker_leave(&me));
    t_live_check(NULL);
    exit(0);
}

/* ---- The rank ------------------------------------------------------------ */

wharf_worker_options t_worker_options(wharf_buffer *const *buffers, int count)
{
    wharf_worker_options options = WHARF_WORKER_OPTIONS_INIT;

    options.buffers = buffers;
    options.buffer_count = count;
    /* A GPU's context takes its time to come and to go. */
    options.stop_ms = 60000;
    return options;
}

wharf_worker *t_worker_start(wharf_node *on,
                             const wharf_worker_options *options)
{
    const char *argv[] = {"/proc/self/exe", "worker", NULL};
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    const wharf_worker_options plain = t_worker_options(NULL, 0);
    wharf_worker *worker = NULL;

    T_CHECK(length > 0);
    path[length] = '\0';
    argv[0] = path;
    T_OK(wharf_worker_start(on, argv, options ? options : &plain, &worker));
    T_CHECK(worker != NULL);
    return worker;
}

void t_worker_stop(wharf_worker *worker)
{
    int pid = t_report(worker).pid;

    T_OK(wharf_worker_stop(&worker, NULL));
    T_CHECK(worker == NULL);
    if (pid > 0)
        t_wait_gone(pid);
}

void t_tell(wharf_worker *worker, t_order order, int value, uint64_t seed)
{
    t_task task = {.order = (int)order, .value = value, .seed = seed};

    T_OK(wharf_worker_send(worker, &task, sizeof task, 0));
}

t_task t_ask(wharf_worker *worker, t_order order, int value, uint64_t seed)
{
    t_task answer = {0};
    size_t size = 0;

    t_tell(worker, order, value, seed);
    T_OK(wharf_worker_receive(worker, &answer, sizeof answer, &size, 0));
    T_EQ_INT((intmax_t)sizeof answer, (intmax_t)size);
    T_EQ_INT((int)order, answer.order);
    T_CHECK(seed == answer.seed);
    return answer;
}

wharf_worker_report t_report(wharf_worker *worker)
{
    wharf_worker_report report = WHARF_WORKER_REPORT_INIT;

    T_OK(wharf_worker_report_get(worker, &report));
    return report;
}

/* One that waits to be waited for by init counts as gone. */
static bool is_gone(int pid)
{
    char path[40], state = 'Z';
    FILE *file;

    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z';
}

void t_wait_gone(int pid)
{
    for (int ms = 0; ms < 10000; ms += 5) {
        if (is_gone(pid))
            return;
        t_pause_us(5000);
    }
    T_FAIL("process %d is still there", pid);
}
