/* SPDX-License-Identifier: MIT */
/*
 * Workers that are no workers, what a worker is given, what becomes of its
 * output and of what it starts, and its end.
 */
#define _GNU_SOURCE
#include "t_worker.h"

#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

/* ---- Bad programs
 * ------------------------------------------------------------ */

static void not_started(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = NULL;
    const char *const programs[] = {"/nowhere/at/all", "no-such-program-here",
                                    "/", "/etc/passwd", ""};
    const char *none[] = {NULL};

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *argv[] = {programs[i], NULL};

        T_REFUSES(WHARF_EOS, "cannot start",
                  wharf_worker_start(node, argv, NULL, &worker));
    }
    T_REFUSES(WHARF_EARG, "argv",
              wharf_worker_start(node, NULL, NULL, &worker));
    T_REFUSES(WHARF_EARG, "argv[0]",
              wharf_worker_start(node, none, NULL, &worker));
    T_CHECK(worker == NULL);
    T_REFUSES(WHARF_ESTATE, "not started by", wharf_worker_join(NULL, &worker));
    t_close(node);
}

/* Ends with WHARF_ELIMIT after `restarts` restarts. */
static void gives_up(wharf_node *node, const char *const *argv, int join_ms,
                     wharf_death how, const char *part)
{
    wharf_worker_options options = t_worker_options(NULL, 0);
    wharf_worker *worker = NULL;
    wharf_worker_report report;
    wharf_worker_state state;
    long long start = t_now_ms();
    t_task lost;

    options.join_ms = join_ms;
    options.restarts = 2;
    options.backoff_ms = 40;
    T_OK(wharf_worker_start(node, argv, &options, &worker));
    T_STATUS(WHARF_EWORKER,
             wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    for (;;) {
        wharf_status status =
            wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0);

        if (status == WHARF_ELIMIT)
            break;
        T_STATUS(WHARF_EWORKER, status);
    }
    T_REFUSES(WHARF_ELIMIT, part,
              wharf_worker_send(worker, &lost, sizeof lost, 0));
    report = t_report(worker);
    T_EQ_INT(3, report.deaths);
    T_EQ_INT(3, report.starts);
    T_EQ_INT(how, report.last.how);
    T_EQ_INT(0, report.last.joined);
    T_CONTAINS(part, report.last.cause);
    T_OK(wharf_worker_state_get(worker, &state));
    T_EQ_INT(WHARF_WORKER_GIVEN_UP, state);
    T_CHECK(t_now_ms() - start >= 3 * join_ms * (how == WHARF_DEATH_ABSENCE));
    T_CHECK(t_now_ms() - start >= 40 + 80); /* doubled */
    t_worker_stop(worker);
}

static void never_at_work(void)
{
    wharf_node *node = t_open();
    const char *sleeps[] = {"sleep", "1000", NULL};
    const char *leaves[] = {"true", NULL};

    gives_up(node, sleeps, 60, WHARF_DEATH_ABSENCE, "did not join within 60");
    gives_up(node, leaves, 5000, WHARF_DEATH_EXIT, "before it had joined");
    t_close(node);
}

/* What a worker started goes with it. */
static void forks(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = t_worker_start(node, NULL);
    int child = (int)t_ask(worker, T_FORK, 0, 0).numbers[0];
    t_task lost;

    T_CHECK(child > 1 && kill(child, 0) == 0);
    t_tell(worker, T_DIE_SIGNAL, SIGSEGV, 0);
    T_STATUS(WHARF_EWORKER,
             wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    t_wait_gone(child);
    child = (int)t_ask(worker, T_FORK, 0, 0).numbers[0];
    t_worker_stop(worker);
    t_wait_gone(child);
    t_close(node);
}

static void stop_ignored(void)
{
    wharf_node *node = t_open();
    wharf_worker_options options = t_worker_options(NULL, 0);
    wharf_worker *worker;
    wharf_worker_report last = WHARF_WORKER_REPORT_INIT;
    int pid;

    options.stop_ms = 100;
    worker = t_worker_start(node, &options);
    t_ask(worker, T_IGNORE_STOP, 0, 0);
    pid = t_report(worker).pid;
    T_OK(wharf_worker_stop(&worker, &last));
    T_EQ_INT(WHARF_DEATH_SILENCE, last.last.how);
    T_CONTAINS("of the stop", last.last.cause);
    t_wait_gone(pid);
    t_close(node);
}

/* Before it can have joined; no end of it is a death. */
static void stopped_at_once(void)
{
    wharf_node *node = t_open();

    for (int i = 0; i < 5; i++) {
        wharf_worker *worker = t_worker_start(node, NULL);
        wharf_worker_report last = WHARF_WORKER_REPORT_INIT;

        usleep((unsigned)i * 700);
        T_OK(wharf_worker_stop(&worker, &last));
        T_EQ_INT(0, last.deaths);
    }
    t_close(node);
}

static void left_to_close(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 1000, 0);
    wharf_worker_options options = t_worker_options(&buffer, 1);
    wharf_worker *worker = t_worker_start(node, &options), *gone;
    int pid = (int)t_ask(worker, T_BASE, 0, 0).numbers[3];

    t_close(node);
    t_wait_gone(pid);
    gone = worker;
    T_REFUSES(WHARF_ESTATE, "no live worker", wharf_worker_stop(&gone, NULL));
}

/* ---- What a worker is given
 * --------------------------------------------------- */

static void nothing_else(void)
{
    wharf_node *node = t_open();
    int pipes[2];
    wharf_worker *worker;
    t_task answer;

    /* A descriptor that nobody closes at an exec. */
    T_CHECK(pipe(pipes) == 0);
    worker = t_worker_start(node, NULL);
    answer = t_ask(worker, T_DESCRIPTORS, 0, 0);
    T_EQ_INT(5, (intmax_t)answer.numbers[0]);
    T_EQ_INT(4, (intmax_t)answer.numbers[1]);
    T_EQ_INT(0, (intmax_t)t_ask(worker, T_VARIABLES, 0, 0).numbers[0]);
    close(pipes[0]);
    close(pipes[1]);
    t_worker_stop(worker);
    t_close(node);
}

/* What goes to one of this process's streams goes to memory meanwhile. */
typedef struct diversion {
    int stream, saved, memory;
} diversion;

static diversion divert(int stream)
{
    diversion d = {stream, dup(stream), memfd_create("output", MFD_CLOEXEC)};

    T_CHECK(d.memory >= 0 && d.saved >= 0 && dup2(d.memory, stream) >= 0);
    return d;
}

/* The text, to be freed. */
static char *divert_end(diversion *d)
{
    off_t size = lseek(d->memory, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);

    T_CHECK(dup2(d->saved, d->stream) >= 0);
    T_CHECK(text != NULL &&
            pread(d->memory, text, (size_t)size, 0) == (ssize_t)size);
    close(d->saved);
    close(d->memory);
    return text;
}

static int count_of(const char *part, const char *text)
{
    int count = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* Every line arrives once, tagged, and what has no end as a line of its own. */
static void output(void)
{
    wharf_node *node = t_open();
    char tag[64], part[192], *text;
    diversion out = divert(STDOUT_FILENO), err = divert(STDERR_FILENO);
    wharf_worker *worker = t_worker_start(node, NULL);

    t_ask(worker, T_LINES, 200, 0);
    snprintf(tag, sizeof tag, "[worker of rank %d, pid %d] ", t_me,
             t_report(worker).pid);
    t_worker_stop(worker);
    text = divert_end(&err);
    T_EQ_INT(200, count_of(tag, text));
    T_CONTAINS("err 199 of 200\n", text);
    free(text);
    text = divert_end(&out);
    T_EQ_INT(201, count_of(tag, text));
    snprintf(part, sizeof part, "%sout 199 of 200\n%sno end\n", tag, tag);
    T_CONTAINS(part, text);
    free(text);
    t_close(node);
}

/* ---- Threads
 * ------------------------------------------------------------------ */

static void *receive_all(void *argument)
{
    t_task answer;

    for (int i = 0; i < 200; i++)
        T_OK(wharf_worker_receive(argument, &answer, sizeof answer, NULL, 0));
    return NULL;
}

static void threads(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = t_worker_start(node, NULL);
    pthread_t receiver;

    T_CHECK(pthread_create(&receiver, NULL, receive_all, worker) == 0);
    for (int i = 0; i < 200; i++)
        t_tell(worker, T_ECHO, i, 0);
    T_CHECK(pthread_join(receiver, NULL) == 0);
    t_worker_stop(worker);
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"not_started", not_started, T_ANY},
        {"never_at_work", never_at_work, T_ANY},
        {"forks", forks, T_ANY},
        {"stop_ignored", stop_ignored, T_ANY},
        {"stopped_at_once", stopped_at_once, T_ANY},
        {"left_to_close", left_to_close, T_ANY},
        {"nothing_else", nothing_else, T_ANY},
        {"output", output, T_ANY},
        {"threads", threads, T_ANY},
        {NULL, NULL, 0},
    };

    t_worker_main(argc, argv);
    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
