/* SPDX-License-Identifier: MIT */
/* Events and attaches from several threads, under MPI_THREAD_MULTIPLE. */
#include "t_group.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

/* New threads have no current context; whoever uses the driver itself in one
 * takes the main thread's. */
static uintptr_t context;

typedef struct waiter {
    wharf_node *node;
    wharf_event *event;
    uint64_t number;
    atomic_int passed;
    atomic_int entered;
} waiter;

static void *wait_thread(void *argument)
{
    waiter *w = argument;

    atomic_store(&w->entered, 1);
    T_OK(wharf_event_wait(w->event, w->number, NULL));
    atomic_store(&w->passed, 1);
    return NULL;
}

/* A wait that runs before its record holds: it passes only after the record
 * was issued, by another thread of the same rank or by another rank. */
static void wait_before_record(void)
{
    wharf_node *node = t_open();

    for (int owner = 0; owner < t_ranks; owner++) {
        waiter w = {.node = node, .number = 2};
        pthread_t thread;

        T_OK(wharf_event_create(node, owner, &w.event));
        if (t_me == owner)
            T_OK(wharf_event_record(w.event, NULL, NULL));
        t_barrier();
        T_CHECK(pthread_create(&thread, NULL, wait_thread, &w) == 0);
        while (!atomic_load(&w.entered))
            sched_yield();
        /* All ranks' threads are on their way in; none may be through, however
         * long they had. */
        for (int i = 0; i < 20; i++) {
            t_barrier();
            T_EQ_INT(0, atomic_load(&w.passed));
        }
        t_barrier();
        if (t_me == owner)
            T_OK(wharf_event_record(w.event, NULL, NULL));
        T_CHECK(pthread_join(thread, NULL) == 0);
        T_EQ_INT(1, atomic_load(&w.passed));
        T_OK(wharf_event_destroy(&w.event));
    }
    t_close(node);
    t_live_check(NULL);
}

enum { THREADS = 3, RECORDS = 200 };

typedef struct recorder {
    wharf_event *event;
    atomic_int *seen; /* RECORDS * THREADS + 1 flags */
} recorder;

static void *record_thread(void *argument)
{
    recorder *r = argument;

    for (int i = 0; i < RECORDS; i++) {
        uint64_t number = 0;

        T_OK(wharf_event_record(r->event, NULL, &number));
        T_CHECK(number >= 1 && number <= THREADS * RECORDS);
        /* No number twice. */
        T_EQ_INT(0, atomic_exchange(&r->seen[number], 1));
    }
    return NULL;
}

static void *wait_all_thread(void *argument)
{
    recorder *r = argument;

    for (uint64_t k = 1; k <= THREADS * RECORDS; k += 37) {
        T_OK(wharf_event_wait(r->event, k, NULL));
        T_OK(wharf_event_synchronize(r->event, k, 0));
        T_OK(wharf_event_query(r->event, k));
    }
    return NULL;
}

/* Several threads record one event while several threads of every other rank
 * wait for it. */
static void many_threads(void)
{
    static atomic_int seen[THREADS * RECORDS + 1];
    wharf_node *node = t_open();
    pthread_t threads[THREADS];
    recorder r = {NULL, seen};

    T_OK(wharf_event_create(node, 0, &r.event));
    for (int i = 0; i < THREADS; i++)
        T_CHECK(pthread_create(&threads[i], NULL,
                               t_me == 0 ? record_thread : wait_all_thread,
                               &r) == 0);
    for (int i = 0; i < THREADS; i++)
        T_CHECK(pthread_join(threads[i], NULL) == 0);
    T_OK(wharf_event_synchronize(r.event, THREADS * RECORDS, 0));
    T_STATUS(WHARF_ENOTREADY,
             wharf_event_query(r.event, THREADS * RECORDS + 1));
    T_OK(wharf_event_destroy(&r.event));
    t_close(node);
    t_live_check(NULL);
}

/* One handle, a stream for each thread. */
#define PER_THREAD ((wharf_stream)(uintptr_t)2)

typedef struct late {
    wharf_event *event;
    wharf_notify *notify;
} late;

/* A record that is complete once rank 1 has signalled. */
static void *late_thread(void *argument)
{
    late *l = argument;

    T_OK(wharf_notify_wait(l->notify, 1, PER_THREAD, 0));
    T_OK(wharf_event_record(l->event, PER_THREAD, NULL));
    return NULL;
}

static void *later_thread(void *argument)
{
    late *l = argument;

    T_OK(wharf_event_record(l->event, PER_THREAD, NULL));
    return NULL;
}

/* Records complete in the order of their numbers, on such streams too; the
 * second thread may well have the pthread_t of the first. */
static void per_thread_streams(void)
{
    wharf_node *node = t_open();
    pthread_t thread;
    late l;

    T_OK(wharf_event_create(node, 0, &l.event));
    T_OK(wharf_notify_create(node, 0, NULL, &l.notify));
    if (t_me == 0) {
        T_CHECK(pthread_create(&thread, NULL, late_thread, &l) == 0);
        T_CHECK(pthread_join(thread, NULL) == 0);
        T_CHECK(pthread_create(&thread, NULL, later_thread, &l) == 0);
        T_CHECK(pthread_join(thread, NULL) == 0);
        t_pause_us(20000);
        T_STATUS(WHARF_ENOTREADY, wharf_event_query(l.event, 2));
    }
    t_barrier();
    if (t_me == 1)
        T_OK(wharf_notify_record(l.notify, NULL));
    T_OK(wharf_event_synchronize(l.event, 2, 0));
    T_OK(wharf_event_query(l.event, 1));
    T_OK(wharf_notify_destroy(&l.notify));
    T_OK(wharf_event_destroy(&l.event));
    t_close(node);
    t_live_check(NULL);
}

typedef struct worker {
    MPI_Comm comm;
    int index;
} worker;

/* A node of the thread's own: its collectives are ordered by the thread. */
static void *attach_thread(void *argument)
{
    worker *w = argument;
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.keep_current = WHARF_SWITCH_ON;
    T_OK(wharf_node_open(w->comm, &options, &node));
    for (int i = 0; i < 15; i++) {
        wharf_buffer *buffer =
            t_attach(node, 3000 + (size_t)(w->index * 77 + i), 0);
        uint64_t seed = (uint64_t)(w->index * 1000 + i);

        t_context_set(node, context);
        t_fill_mine(node, buffer, seed);
        MPI_Barrier(w->comm);
        for (int rank = 0; rank < t_ranks; rank++)
            t_check_segment(node, buffer, rank, seed);
        MPI_Barrier(w->comm);
        t_context_set(node, 0);
        t_detach(buffer);
    }
    T_OK(wharf_node_close(&node));
    return NULL;
}

/* Two threads, a node each, at the same time. */
static void two_nodes_in_threads(void)
{
    wharf_node *node = t_open(); /* makes the context current */
    pthread_t threads[2];
    worker workers[2];

    context = t_context_current(node);
    for (int i = 0; i < 2; i++) {
        workers[i].index = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < 2; i++)
        T_CHECK(pthread_create(&threads[i], NULL, attach_thread, &workers[i]) ==
                0);
    for (int i = 0; i < 2; i++)
        T_CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&workers[i].comm);
    t_close(node);
    t_live_check(NULL);
}

typedef struct copier {
    wharf_node *node;
    wharf_buffer *buffer;
    atomic_int stop;
} copier;

static void *copy_thread(void *argument)
{
    copier *c = argument;
    int next = (t_me + 1) % t_ranks;

    t_context_set(c->node, context);
    while (!atomic_load(&c->stop))
        t_check_segment(c->node, c->buffer, next, 5);
    return NULL;
}

/* Copies out of one buffer go on in one thread while another creates and
 * destroys events and buffers. */
static void events_while_copying(void)
{
    wharf_node *node = t_open();
    copier c = {.node = node};
    pthread_t thread;

    context = t_context_current(node);
    c.buffer = t_attach(node, 40000, 0);
    t_fill_mine(node, c.buffer, 5);
    t_barrier();
    T_CHECK(pthread_create(&thread, NULL, copy_thread, &c) == 0);
    for (int i = 0; i < 30; i++) {
        wharf_event *event = NULL;

        T_OK(wharf_event_create(node, i % t_ranks, &event));
        if (t_me == i % t_ranks)
            T_OK(wharf_event_record(event, NULL, NULL));
        T_OK(wharf_event_wait(event, 1, NULL));
        T_OK(wharf_event_destroy(&event));
        t_detach(t_attach(node, 1000, 0));
    }
    atomic_store(&c.stop, 1);
    T_CHECK(pthread_join(thread, NULL) == 0);
    t_barrier();
    t_detach(c.buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"wait_before_record", wait_before_record, T_ANY},
    {"many_threads", many_threads, T_ANY},
    {"per_thread_streams", per_thread_streams, T_CUDA},
    {"two_nodes_in_threads", two_nodes_in_threads, T_ANY},
    {"events_while_copying", events_while_copying, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_MULTIPLE, cases);
}
