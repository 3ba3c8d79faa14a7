/* SPDX-License-Identifier: MIT */
/*
 * Every allocation and system call of a worker's start, and of its join in the
 * worker, is made to fail once: the call fails and says why, or the worker
 * comes about all the same; nothing is left of it.
 *
 * Started as "fault KIND N" the program is the worker whose join has the N-th
 * call of a kind fail; its exit code tells the rank what came of it.
 */
#include "t_worker.h"

#include <errno.h>
#include <mpi.h>

#include "base/fault.h"

enum { REFUSED = 41, REFUSED_UNASKED, OVERCOME, FREE_OF_FAULTS };

static const int codes[] = {0, EMFILE};

static void worker_main(int argc, char **argv)
{
    wharf_worker *worker = NULL;
    bool fired;

    if (argc < 4 || strcmp(argv[1], "fault") != 0)
        return;
    t_arguments(argc, argv);
    wi_fault_arm((wi_fault_kind)atoi(argv[2]), atol(argv[3]),
                 codes[atoi(argv[2])]);
    wharf_status status = wharf_worker_join(NULL, &worker);

    fired = wi_fault_disarm(NULL);
    if (status == WHARF_OK)
        T_OK(wharf_worker_leave(&worker));
    T_CHECK(worker == NULL);
    t_live_check(NULL);
    if (status != WHARF_OK)
        exit(fired ? REFUSED : REFUSED_UNASKED);
    exit(fired ? OVERCOME : FREE_OF_FAULTS);
}

static wharf_node *node;
static wharf_buffer *buffers[2];

static void attach(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    options.space = WHARF_SPACE_HOST;
    node = t_open();
    buffers[0] = t_attach(node, 100000, 0);
    T_OK(wharf_buffer_attach(node, 5000, &options, &buffers[1]));
}

static void detach(void)
{
    t_barrier();
    t_detach(buffers[0]);
    t_detach(buffers[1]);
    t_close(node);
}

static void starts(void)
{
    const char *argv[] = {"true", NULL};
    long points = 0;

    attach();
    for (int kind = WI_FAULT_MEM; kind <= WI_FAULT_SYS; kind++) {
        bool fired = true;

        for (long n = 1; fired; n++) {
            wharf_worker_options options = t_worker_options(buffers, 2);
            wharf_stats before = t_stats();
            wharf_worker *worker = NULL;

            options.restarts = 0;
            wi_fault_arm((wi_fault_kind)kind, n, codes[kind]);
            wharf_status status =
                wharf_worker_start(node, argv, &options, &worker);

            fired = wi_fault_disarm(NULL);
            T_CHECK((status == WHARF_OK) == (worker != NULL));
            T_CHECK(fired || status == WHARF_OK);
            if (worker != NULL)
                T_OK(wharf_worker_stop(&worker, NULL));
            t_live_check(&before);
            points += fired;
        }
    }
    printf("rank %d: %ld points of a start\n", t_me, points);
    detach();
}

/* The exit code of a worker that joins with a fault. */
static int join_with(int kind, long n)
{
    char path[4096], number[24], which[24];
    const char *argv[] = {path, "fault", which, number, NULL};
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    wharf_worker_options options = t_worker_options(buffers, 2);
    wharf_worker_report report = WHARF_WORKER_REPORT_INIT;
    wharf_worker *worker = NULL;
    t_task none;

    T_CHECK(length > 0);
    path[length] = '\0';
    snprintf(which, sizeof which, "%d", kind);
    snprintf(number, sizeof number, "%ld", n);
    options.restarts = 0;
    T_OK(wharf_worker_start(node, argv, &options, &worker));
    T_STATUS(WHARF_ELIMIT,
             wharf_worker_receive(worker, &none, sizeof none, NULL, 0));
    T_OK(wharf_worker_stop(&worker, &report));
    T_EQ_INT(WHARF_DEATH_EXIT, report.last.how);
    return report.last.code;
}

static void joins(void)
{
    long refused = 0, overcome = 0;

    attach();
    for (int kind = WI_FAULT_MEM; kind <= WI_FAULT_SYS; kind++) {
        for (long n = 1 + t_me;; n += t_ranks) {
            int code = join_with(kind, n);

            if (code == FREE_OF_FAULTS)
                break;
            if (code != REFUSED && code != OVERCOME)
                T_FAIL("kind %d, call %ld: exit code %d", kind, n, code);
            refused += code == REFUSED;
            overcome += code == OVERCOME;
        }
    }
    T_CHECK(refused > 0);
    printf("rank %d: %ld points of a join, %ld overcome\n", t_me,
           refused + overcome, overcome);
    detach();
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"starts", starts, T_ANY},
        {"joins", joins, T_ANY},
        {NULL, NULL, 0},
    };

    setenv("WHARF_LOG", "none", 1);
    worker_main(argc, argv);
    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
