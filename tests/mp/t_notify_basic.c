/* SPDX-License-Identifier: MIT */
/* Notifies: who may do what, counts, deadlines, lifetimes, bad input. */
#include "t_group.h"

#include <mpi.h>
#include <time.h>

/* The mechanism of this run's environment may forbid what a case needs. */
static wharf_notify *create_as(wharf_node *node, int waiter,
                               wharf_mechanism mechanism)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_notify *notify = NULL;

    options.mechanism = mechanism;
    T_OK(wharf_notify_create(node, waiter, &options, &notify));
    T_CHECK(notify != NULL);
    return notify;
}

static wharf_notify *create(wharf_node *node, int waiter)
{
    return create_as(node, waiter, WHARF_MECHANISM_AUTO);
}

static void destroy(wharf_notify *notify)
{
    T_OK(wharf_notify_destroy(&notify));
    T_CHECK(notify == NULL);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* As many waits pass as there were records, from each recorder by itself. */
static void counts(void)
{
    wharf_node *node = t_open();

    for (int waiter = 0; waiter < t_ranks; waiter++) {
        wharf_notify *notify = create(node, waiter);

        T_EQ_INT(1, t_stats().live_notifies);
        if (t_me != waiter) {
            for (int i = 0; i <= t_me; i++)
                T_OK(wharf_notify_record(notify, NULL));
            t_stream_sync(node, NULL);
        }
        t_barrier();
        for (int from = t_ranks - 1; t_me == waiter && from >= 0; from--) {
            if (from == waiter)
                continue;
            for (int i = 0; i <= from; i++) {
                if (i % 2)
                    T_OK(wharf_notify_wait(notify, from, NULL, 0));
                else
                    T_OK(wharf_notify_wait_host(notify, from, 0));
                t_stream_sync(node, NULL);
            }
            /* All consumed. */
            T_REFUSES(WHARF_ETIMEDOUT, "no record of rank",
                      wharf_notify_wait_host(notify, from, 10));
        }
        t_barrier();
        destroy(notify);
    }
    t_close(node);
    t_live_check(NULL);
}

/* A wait that comes first holds until the record. */
static void wait_first(void)
{
    wharf_node *node = t_open();
    wharf_notify *there = create(node, 0);
    wharf_notify *back = create(node, t_ranks - 1);
    wharf_stream stream = t_stream_create(node);

    for (int i = 0; i < 50 && t_ranks > 1; i++) {
        if (t_me == 0) {
            T_OK(wharf_notify_wait(there, t_ranks - 1, stream, 0));
            T_OK(wharf_notify_record(back, stream));
        } else if (t_me == t_ranks - 1) {
            T_OK(wharf_notify_record(there, stream));
            T_OK(wharf_notify_wait(back, 0, stream, 0));
        }
    }
    t_stream_sync(node, stream);
    t_barrier();
    t_stream_destroy(node, stream);
    destroy(there);
    destroy(back);
    t_close(node);
    t_live_check(NULL);
}

static void roles(void)
{
    wharf_node *node = t_open();
    wharf_notify *notify = create(node, 0);
    wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;
    int other = t_me == 1 ? t_ranks - 1 : 1;

    if (t_me == 0) {
        T_REFUSES(WHARF_ESTATE, "waiter", wharf_notify_record(notify, NULL));
        T_REFUSES(WHARF_EARG, "from is 0",
                  wharf_notify_wait(notify, 0, NULL, 0));
        T_REFUSES(WHARF_EARG, "from is -1",
                  wharf_notify_wait(notify, -1, NULL, 0));
        T_REFUSES(WHARF_EARG, "from is",
                  wharf_notify_wait_host(notify, t_ranks, 0));
        T_REFUSES(WHARF_EARG, "timeout_ms is -5",
                  wharf_notify_wait(notify, other, NULL, -5));
        T_REFUSES(WHARF_EARG, "timeout_ms is -5",
                  wharf_notify_wait_host(notify, other, -5));
        T_OK(wharf_notify_check(notify));
    } else {
        T_REFUSES(WHARF_ESTATE, "rank 0 waits",
                  wharf_notify_wait(notify, other, NULL, 0));
        T_REFUSES(WHARF_ESTATE, "rank 0 waits",
                  wharf_notify_wait_host(notify, other, 0));
        T_REFUSES(WHARF_ESTATE, "rank 0 waits", wharf_notify_check(notify));
    }
    T_REFUSES(WHARF_EARG, "from is",
              wharf_notify_mechanism(notify, 0, &mechanism));
    T_REFUSES(WHARF_EARG, "mechanism is NULL",
              wharf_notify_mechanism(notify, 1, NULL));
    T_EQ_INT(WHARF_MECHANISM_AUTO, mechanism);
    T_OK(wharf_notify_mechanism(notify, 1, &mechanism));
    T_CHECK(mechanism != WHARF_MECHANISM_AUTO);
    T_SAME(mechanism);
    t_barrier();
    destroy(notify);
    t_close(node);
    t_live_check(NULL);
}

static void bad_handles(void)
{
    wharf_node *node = t_open();
    wharf_notify *notify = create(node, 0);
    wharf_notify *again = notify;

    destroy(notify);
    T_REFUSES(WHARF_ESTATE, "no live notify", wharf_notify_record(again, NULL));
    T_REFUSES(WHARF_ESTATE, "no live notify",
              wharf_notify_wait(again, 1, NULL, 0));
    T_REFUSES(WHARF_ESTATE, "no live notify",
              wharf_notify_wait_host(again, 1, 0));
    T_REFUSES(WHARF_ESTATE, "no live notify", wharf_notify_check(again));
    T_REFUSES(WHARF_ESTATE, "no live notify", wharf_notify_destroy(&again));
    T_CHECK(again == NULL);
    T_REFUSES(WHARF_EARG, "NULL", wharf_notify_destroy(&again));
    T_REFUSES(WHARF_EARG, "NULL", wharf_notify_destroy(NULL));
    T_REFUSES(WHARF_EARG, "NULL", wharf_notify_record(NULL, NULL));
    t_close(node);
    t_live_check(NULL);
}

/* Every rank refuses alike, and what comes next works. */
static void bad_arguments(void)
{
    wharf_node *node = t_open();
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_notify *notify = NULL;

    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "waiter is -1",
            wharf_notify_create(node, -1, NULL, &notify));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 1, "waiter is 99",
            wharf_notify_create(node, t_me == 1 ? 99 : 0, NULL, &notify));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, 1, "notify is NULL",
            wharf_notify_create(node, 0, NULL, t_me == 1 ? NULL : &notify));
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, 1, "waiter 1",
            wharf_notify_create(node, t_me == 1, NULL, &notify));
    options.mechanism = (wharf_mechanism)77;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "mechanism is 77",
            wharf_notify_create(node, 0, &options, &notify));
    options.mechanism = WHARF_MECHANISM_AUTO;
    options.capturable = (wharf_switch)9;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "capturable is 9",
            wharf_notify_create(node, 0, &options, &notify));
    options.capturable = t_me == 1 ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, 1, "capturable",
            wharf_notify_create(node, 0, &options, &notify));
    options.capturable = WHARF_SWITCH_UNSET;
    options.struct_size = 3;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "options",
            wharf_notify_create(node, 0, &options, &notify));
    T_CHECK(notify == NULL);
    T_REFUSES(WHARF_EARG, "NULL", wharf_notify_create(NULL, 0, NULL, &notify));

    /* A destroy that meets another call leaves the notify as it is. */
    notify = create(node, 0);
    if (t_me == 0) {
        wharf_event *event = NULL;

        T_STATUS(WHARF_EMISMATCH, wharf_event_create(node, 0, &event));
        T_CHECK(event == NULL);
    } else {
        T_STATUS(WHARF_EMISMATCH, wharf_notify_destroy(&notify));
        T_CHECK(notify != NULL);
    }
    if (t_me == 1)
        T_OK(wharf_notify_record(notify, NULL));
    if (t_me == 0)
        T_OK(wharf_notify_wait_host(notify, 1, 0));
    destroy(notify);
    t_close(node);
    t_live_check(NULL);
}

static void wrong_stream(void)
{
    wharf_node *node = t_open();
    wharf_notify *notify = create(node, 0);
    wharf_stream foreign = t_mode_get() == T_HOST
                               ? (wharf_stream)&notify
                               : t_foreign_stream_create(node);

    if (foreign != NULL) {
        if (t_me == 0)
            T_REFUSES(WHARF_EARG, "stream",
                      wharf_notify_wait(notify, 1, foreign, 0));
        else
            T_REFUSES(WHARF_EARG, "stream",
                      wharf_notify_record(notify, foreign));
    }
    if (foreign != NULL && t_mode_get() != T_HOST)
        t_foreign_stream_destroy(node, foreign);
    t_barrier();
    destroy(notify);
    t_close(node);
    t_live_check(NULL);
}

/* A rank that never records: the wait gives up, says so, and all goes on. */
static void deadlines(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 64, 0);
    wharf_notify *notify = create_as(node, 0, WHARF_MECHANISM_KERNEL);
    wharf_stream stream = t_stream_create(node);
    /* Without atomics a wait cannot take back that it was counted. */
    bool timed = t_mode_get() == T_HOST || t_place(node, buffer, t_me) != NULL;

    if (t_me == 0) {
        double start = now();

        T_REFUSES(WHARF_ETIMEDOUT, "rank 1",
                  wharf_notify_wait_host(notify, 1, 30));
        T_CHECK(now() - start >= 0.029);
        T_OK(wharf_notify_check(notify));
        start = now();
        if (t_mode_get() == T_HOST) {
            T_REFUSES(WHARF_ETIMEDOUT, "rank 1",
                      wharf_notify_wait(notify, 1, stream, 30));
        } else if (!timed) {
            T_REFUSES(WHARF_EUNSUPPORTED, "no timeout",
                      wharf_notify_wait(notify, 1, stream, 30));
        } else {
            T_OK(wharf_notify_wait(notify, 1, stream, 30));
            t_stream_sync(node, stream);
            T_REFUSES(WHARF_ETIMEDOUT, "rank 1", wharf_notify_check(notify));
        }
        if (timed)
            T_CHECK(now() - start >= 0.029);
        T_OK(wharf_notify_check(notify));
    }
    t_barrier();
    /* Nothing was consumed: one record, one wait, and no more. */
    if (t_me == 1) {
        T_OK(wharf_notify_record(notify, stream));
        t_stream_sync(node, stream);
    }
    t_barrier();
    if (t_me == 0) {
        T_OK(wharf_notify_wait(notify, 1, stream, timed ? 20000 : 0));
        t_stream_sync(node, stream);
        T_OK(wharf_notify_check(notify));
        T_REFUSES(WHARF_ETIMEDOUT, "rank 1",
                  wharf_notify_wait_host(notify, 1, 5));
    }
    t_barrier();
    t_stream_destroy(node, stream);
    destroy(notify);
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Words of destroyed notifies are used again, and start at zero. */
static void many(void)
{
    wharf_node *node = t_open();
    wharf_notify *notifies[40];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++)
            notifies[i] = create(node, i % t_ranks);
        T_EQ_INT(40, t_stats().live_notifies);
        for (int i = 0; i < 40; i++)
            if (t_me != i % t_ranks)
                T_OK(wharf_notify_record(notifies[i], NULL));
        t_stream_sync(node, NULL);
        t_barrier();
        /* Half of them leave records behind. */
        for (int i = 0; i < 40; i += 2) {
            for (int from = 0; t_me == i % t_ranks && from < t_ranks; from++)
                if (from != t_me)
                    T_OK(wharf_notify_wait_host(notifies[i], from, 0));
        }
        t_barrier();
        for (int i = 0; i < 40; i++)
            destroy(notifies[i]);
    }
    notifies[0] = create(node, 0);
    if (t_me == 0)
        T_STATUS(WHARF_ETIMEDOUT, wharf_notify_wait_host(notifies[0], 1, 5));
    destroy(notifies[0]);
    t_close(node);
    t_live_check(NULL);
}

static void closed_with_live(void)
{
    wharf_node *node = t_open();

    create(node, 0);
    create(node, 1);
    t_close(node);
    t_live_check(NULL);
}

static void mechanisms(void)
{
    wharf_node *node = t_open();

    for (int a = 0; a < t_ranks; a++)
        for (int b = 0; b < t_ranks; b++) {
            wharf_mechanism mechanism = WHARF_MECHANISM_AUTO;
            char reason[96] = "";

            T_OK(wharf_node_mechanism(node, a, b, &mechanism, reason));
            T_CHECK(reason[0] != '\0');
            T_SAME(mechanism);
            T_EQ_INT(t_mode_get() == T_HOST, mechanism == WHARF_MECHANISM_HOST);
            T_OK(wharf_node_mechanism(node, a, b, &mechanism, NULL));
        }
    T_REFUSES(WHARF_EARG, "a is -1",
              wharf_node_mechanism(node, -1, 0, NULL, NULL));
    T_REFUSES(WHARF_EARG, "mechanism is NULL",
              wharf_node_mechanism(node, 0, 0, NULL, NULL));
    T_EQ_STR("mem-ops", wharf_mechanism_name(WHARF_MECHANISM_MEM_OPS));
    T_EQ_STR("unknown", wharf_mechanism_name((wharf_mechanism)42));
    t_close(node);
}

static const t_case cases[] = {
    {"counts", counts, T_ANY},
    {"wait_first", wait_first, T_ANY},
    {"roles", roles, T_ANY},
    {"bad_handles", bad_handles, T_ANY},
    {"bad_arguments", bad_arguments, T_ANY},
    {"wrong_stream", wrong_stream, T_ANY},
    {"deadlines", deadlines, T_ANY},
    {"many", many, T_ANY},
    {"closed_with_live", closed_with_live, T_ANY},
    {"mechanisms", mechanisms, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
