/* SPDX-License-Identifier: MIT */
/*
 * Workers: they see the rank's buffers, answer, die in every way, and are there
 * again; the buffers keep their bytes, and nothing is left of any of them.
 *
 * Argument faults=N: deaths in the long case.
 */
#define _GNU_SOURCE
#include "t_worker.h"

#include <mpi.h>
#include <signal.h>

/* ---- Messages ------------------------------------------------------------ */

static void messages(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = t_worker_start(node, NULL);
    static char large[WHARF_MAX_MESSAGE + 1];
    t_task small = {0};
    size_t size = 77;

    T_EQ_INT(8, (intmax_t)t_ask(worker, T_ECHO, 8, 5).value);
    T_STATUS(WHARF_ENOTREADY, wharf_worker_receive(worker, &small, sizeof small,
                                                   &size, WHARF_NO_WAIT));
    T_REFUSES(WHARF_ETIMEDOUT, "no message",
              wharf_worker_receive(worker, &small, sizeof small, &size, 20));
    T_EQ_INT(77, (intmax_t)size);
    t_tell(worker, T_ECHO, 9, 6);
    T_REFUSES(WHARF_EARG, "room for 3",
              wharf_worker_receive(worker, &small, 3, &size, 0));
    T_OK(wharf_worker_receive(worker, large, sizeof large, &size, 0));
    T_EQ_INT((intmax_t)sizeof small, (intmax_t)size);
    T_REFUSES(WHARF_EARG, "the most is",
              wharf_worker_send(worker, large, sizeof large, 0));
    T_REFUSES(WHARF_EARG, "NULL", wharf_worker_send(worker, NULL, 4, 0));
    T_REFUSES(WHARF_EARG, "timeout_ms",
              wharf_worker_send(worker, large, 4, -2));
    T_EQ_INT(2, (intmax_t)t_report(worker).sent);
    T_EQ_INT(2, (intmax_t)t_report(worker).received);
    T_EQ_INT(WHARF_WORKER_RUNNING, (int)t_report(worker).state);
    t_worker_stop(worker);
    t_close(node);
}

/* Many under way; the worker answers in order. */
static void pipelined(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = t_worker_start(node, NULL);
    t_task answer;
    int sent = 0, got = 0;

    while (got < 300) {
        if (sent < 300 && sent < got + 20) {
            t_tell(worker, T_ECHO, sent++, 0);
            continue;
        }
        T_OK(wharf_worker_receive(worker, &answer, sizeof answer, NULL, 0));
        T_EQ_INT(got++, answer.value);
    }
    t_worker_stop(worker);
    t_close(node);
}

static void flooded(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = t_worker_start(node, NULL);
    t_task answer;
    uint64_t got = 0;
    int patience_ms = 0; /* until it has joined */

    t_tell(worker, T_FLOOD, 100000, 1);
    while (wharf_worker_receive(worker, &answer, sizeof answer, NULL,
                                patience_ms) == WHARF_OK) {
        patience_ms = 500;
        /* Some did not go, but none is out of order. */
        T_CHECK(got == 0 || answer.seed > got);
        got = answer.seed;
    }
    T_CHECK(got > 0);
    t_ask(worker, T_ECHO, 1, 2);
    t_worker_stop(worker);
    t_close(node);
}

/* ---- Buffers ------------------------------------------------------------- */

static wharf_buffer *attach_host(wharf_node *node, size_t size)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;

    options.space = WHARF_SPACE_HOST;
    options.name = "host";
    T_OK(wharf_buffer_attach(node, size, &options, &buffer));
    return buffer;
}

static void base_equals(wharf_worker *worker, wharf_buffer *buffer, int index,
                        int count)
{
    t_task answer;
    void *base = NULL;
    size_t size = 0;

    /* Pieces of legacy handles lie where the driver likes. */
    if (t_info(buffer, t_me).handle == WHARF_HANDLE_IPC)
        return;
    answer = t_ask(worker, T_BASE, index, 0);
    T_OK(wharf_buffer_base(buffer, &base, &size));
    T_CHECK(answer.numbers[1] == size);
    T_EQ_INT(count, (intmax_t)answer.numbers[2]);
    if (t_info(buffer, t_me).same_address)
        T_EQ_PTR(base, (void *)(uintptr_t)answer.numbers[0]);
}

static void buffers(void)
{
    wharf_node *node = t_open();
    wharf_buffer *list[3] = {
        t_attach(node, 300000 + 1000 * (size_t)t_me, T_SAME_ADDRESS),
        attach_host(node, 5000),
        t_attach(node, t_me == 0 ? 70000 : 0, 0),
    };
    wharf_worker_options options = t_worker_options(list, 3);
    wharf_worker *worker;

    for (int i = 0; i < 3; i++)
        t_share(node, list[i], 40 + (uint64_t)i);
    t_barrier();
    worker = t_worker_start(node, &options);
    for (int i = 0; i < 3; i++) {
        t_ask(worker, T_CHECK_ALL, i, 40 + (uint64_t)i);
        base_equals(worker, list[i], i, 3);
    }
    t_barrier();
    for (int i = 0; i < 3; i++)
        t_ask(worker, T_FILL_MINE, i, 50 + (uint64_t)i);
    t_barrier();
    for (int i = 0; i < 3; i++)
        for (int rank = 0; rank < t_ranks; rank++)
            t_check_segment(node, list[i], rank, 50 + (uint64_t)i);
    t_ask(worker, T_REFUSALS, 0, 0);
    t_barrier();
    t_worker_stop(worker);
    for (int i = 0; i < 3; i++)
        t_detach(list[i]);
    t_close(node);
}

static void lent_later(void)
{
    wharf_node *node = t_open();
    wharf_buffer *first = t_attach(node, 100000, 0);
    wharf_buffer *second = t_attach(node, 200000, 0);
    wharf_worker_options options = t_worker_options(&first, 1);
    wharf_worker *worker = t_worker_start(node, &options);
    t_task lost;

    t_share(node, second, 7);
    t_ask(worker, T_ECHO, 0, 0);
    T_OK(wharf_worker_lend(worker, second, 0));
    t_ask(worker, T_CHECK_ALL, 1, 7);
    /* Its successor has both. */
    t_tell(worker, T_DIE_SIGNAL, SIGKILL, 0);
    T_STATUS(WHARF_EWORKER,
             wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    t_ask(worker, T_CHECK_ALL, 1, 7);
    T_FAILS(MPI_COMM_WORLD, WHARF_ESTATE, 0, "lent to",
            wharf_buffer_detach(&second));
    T_CHECK(second != NULL);
    t_worker_stop(worker);
    t_barrier();
    t_detach(second);
    t_detach(first);
    t_close(node);
}

/* Descriptors that were not kept cannot be passed on; the owner's can. */
static void lend_off(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach_host(node, 5000);
    wharf_worker_options options = t_worker_options(&buffer, 1);
    const char *argv[] = {"true", NULL};
    const char *lend = getenv("WHARF_LEND");
    bool owner = t_info(buffer, 0).owner == t_me;
    wharf_worker *worker = NULL;

    if (lend != NULL && strcmp(lend, "off") == 0 && !owner)
        T_REFUSES(WHARF_EUNSUPPORTED, "cannot pass it on",
                  wharf_worker_start(node, argv, &options, &worker));
    else
        t_worker_stop(t_worker_start(node, &options));
    T_CHECK(worker == NULL);
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

/* ---- Deaths -------------------------------------------------------------- */

/* The order kills the worker; the death is told once, and is the one that was
 * meant; the next worker finds the buffers as they were. */
static void dies(wharf_worker *worker, t_order order, int value,
                 wharf_death how, int code, const char *part)
{
    int deaths = t_report(worker).deaths;
    wharf_worker_death death = WHARF_WORKER_DEATH_INIT;
    t_task lost;

    t_tell(worker, order, value, 0);
    T_REFUSES(WHARF_EWORKER, part,
              wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    T_OK(wharf_worker_death_get(worker, deaths + 1, &death));
    T_EQ_INT(how, death.how);
    if (code != INT32_MIN)
        T_EQ_INT(code, death.code);
    T_CONTAINS(part, death.cause);
    T_EQ_INT(1, death.joined);
    t_ask(worker, T_CHECK_ALL, 0, 3);
    /* The watcher may hear of the new one later than its first answer is here.
     */
    while (t_report(worker).state != WHARF_WORKER_RUNNING)
        usleep(1000);
    T_OK(wharf_worker_death_get(worker, deaths + 1, &death));
    T_CHECK(death.recover_us > 0);
    T_EQ_INT(deaths + 1, t_report(worker).deaths);
    T_EQ_INT(deaths + 2, t_report(worker).starts);
    t_wait_gone(death.pid);
}

static void deaths(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 100000, 0);
    wharf_worker_options options = t_worker_options(&buffer, 1);
    wharf_worker *worker;
    wharf_worker_report last = WHARF_WORKER_REPORT_INIT;

    /* The first use of a GPU takes its time. */
    options.silence_ms = t_mode_get() == T_GPU ? 2000 : T_SILENCE_MS;
    t_share(node, buffer, 3);
    t_barrier();
    worker = t_worker_start(node, &options);
    t_ask(worker, T_CHECK_ALL, 0, 3);
    dies(worker, T_DIE_SEGV, 0, WHARF_DEATH_SIGNAL, SIGSEGV, "signal 11");
    dies(worker, T_DIE_SIGNAL, SIGABRT, WHARF_DEATH_SIGNAL, SIGABRT,
         "signal 6");
    dies(worker, T_DIE_EXIT, 3, WHARF_DEATH_EXIT, 3, "exit code 3");
    dies(worker, T_HANG, 0, WHARF_DEATH_SILENCE, 0, "no answer for");
    t_ask(worker, T_SLOW, 2 * options.silence_ms, 0);
    if (t_mode_get() != T_HOST) {
        dies(worker, T_DIE_FAULT, 0, WHARF_DEATH_FAULT, INT32_MIN,
             "ruined CUDA context");
        dies(worker, T_DIE_TOLD, 0, WHARF_DEATH_FAULT, INT32_MIN,
             "found by the test");
    }
    T_OK(wharf_worker_print(worker, stdout));
    T_OK(wharf_worker_stop(&worker, &last));
    T_EQ_INT(t_mode_get() == T_HOST ? 4 : 6, last.deaths);
    T_EQ_INT(2, last.signals);
    T_EQ_INT(1, last.exits);
    T_EQ_INT(1, last.silences);
    T_CHECK(last.recover_least_us > 0 &&
            last.recover_most_us >= last.recover_least_us);
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

/* A death between two calls is told by the next one, whichever it is. */
static void told_once(void)
{
    wharf_node *node = t_open();
    wharf_worker *worker = t_worker_start(node, NULL);
    t_task task = {.order = T_ECHO}, lost;

    t_tell(worker, T_ECHO, 4, 4);
    t_tell(worker, T_DIE_EXIT, 9, 0);
    while (t_report(worker).starts < 2)
        usleep(1000);
    /* The answer that came before the death comes before its news. */
    T_OK(wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    T_EQ_INT(4, lost.value);
    T_STATUS(WHARF_EWORKER,
             wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
    t_ask(worker, T_ECHO, 5, 5);
    t_tell(worker, T_DIE_EXIT, 8, 0);
    while (t_report(worker).starts < 3)
        usleep(1000);
    T_STATUS(WHARF_EWORKER, wharf_worker_send(worker, &task, sizeof task, 0));
    t_ask(worker, T_ECHO, 6, 6);
    t_worker_stop(worker);
    t_close(node);
}

/* Nothing grows. */
static void many_deaths(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 100000, 0);
    wharf_worker_options options = t_worker_options(&buffer, 1);
    int faults = (int)t_argument("faults", 4);
    wharf_worker *worker;
    wharf_stats before, after;
    t_holdings held;
    t_task lost;

    options.restarts = -1;
    options.tag = WHARF_SWITCH_OFF;
    t_share(node, buffer, 3);
    t_barrier();
    worker = t_worker_start(node, &options);
    t_ask(worker, T_CHECK_ALL, 0, 3);
    before = t_stats();
    held = t_holdings_get();
    for (int i = 0; i < faults; i++) {
        bool fault = t_mode_get() != T_HOST;

        t_tell(worker, fault ? T_DIE_TOLD : T_DIE_SEGV, 0, 0);
        T_STATUS(WHARF_EWORKER,
                 wharf_worker_receive(worker, &lost, sizeof lost, NULL, 0));
        t_ask(worker, T_CHECK_ALL, 0, 3);
    }
    T_EQ_INT(faults, t_report(worker).deaths);
    /* The last one may still be on its way out, and the watcher at work on the
     * new one, whose answer is here already. */
    for (int ms = 0; ms < 5000; ms++) {
        after = t_stats();
        if (after.live_workers == before.live_workers &&
            after.live_descriptors == before.live_descriptors &&
            after.live_host_allocations <= before.live_host_allocations)
            break;
        usleep(1000);
    }
    T_EQ_INT(before.live_workers, after.live_workers);
    T_EQ_INT(before.live_descriptors, after.live_descriptors);
    T_CHECK(after.live_host_allocations <= before.live_host_allocations);
    T_EQ_INT(held.descriptors, t_holdings_get().descriptors);
    printf("rank %d: %d faults, at work again after %lld to %lld us\n", t_me,
           faults, (long long)t_report(worker).recover_least_us,
           (long long)t_report(worker).recover_most_us);
    t_worker_stop(worker);
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"messages", messages, T_ANY},       {"pipelined", pipelined, T_ANY},
        {"flooded", flooded, T_ANY},         {"buffers", buffers, T_ANY},
        {"lent_later", lent_later, T_ANY},   {"lend_off", lend_off, T_ANY},
        {"deaths", deaths, T_ANY},           {"told_once", told_once, T_ANY},
        {"many_deaths", many_deaths, T_ANY}, {NULL, NULL, 0},
    };

    t_worker_main(argc, argv);
    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
