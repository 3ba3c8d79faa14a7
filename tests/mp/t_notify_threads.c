/* SPDX-License-Identifier: MIT */
/*
 * Notifies and barriers from several threads of a rank at a time, under
 * MPI_THREAD_MULTIPLE: each thread has a stream and uses one recorder's count,
 * or one barrier, which is what the headers allow.
 */
#include "t_group.h"

#include <mpi.h>
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 60, BYTES = 4096 };

/* Threads start without a current context; they take the main thread's. */
static uintptr_t context;

/* What one thread of one rank works with. */
typedef struct hand {
    wharf_node *node;
    wharf_buffer *data; /* BYTES of each thread in every segment */
    wharf_buffer *own;
    wharf_notify *there, *back;
    wharf_barrier *barrier;
    wharf_stream stream;
    int index;
} hand;

static char *place(const hand *h, wharf_buffer *buffer, int rank)
{
    return (char *)t_segment(buffer, rank, NULL) + (size_t)h->index * BYTES;
}

static unsigned char value_of(const hand *h, int round)
{
    return (unsigned char)(h->index * 80 + round + 1);
}

static void check_own(const hand *h, int round)
{
    t_stream_sync(h->node, h->stream);
    T_EQ_INT(-1, t_dev_check_value(t_place(h->node, h->own, t_me),
                                   place(h, h->own, t_me), BYTES,
                                   value_of(h, round)));
}

/* Rank 0 fills, all others read and say so; thread k of every rank by the k-th
 * pair of notifies. */
static void *notify_thread(void *argument)
{
    hand *h = argument;

    t_context_set(h->node, context);
    for (int round = 0; round < ROUNDS; round++) {
        if (t_me == 0) {
            t_stream_fill(h->node, h->stream, place(h, h->data, 0),
                          value_of(h, round), BYTES);
            T_OK(wharf_notify_record(h->there, h->stream));
            /* Waits of the stream and of the host in the order of records. */
            if (round % 3 == 0) {
                t_stream_sync(h->node, h->stream);
                T_OK(wharf_notify_wait_host(h->back, 1, 0));
            } else {
                T_OK(wharf_notify_wait(h->back, 1, h->stream, 0));
            }
        } else if (t_me == 1) {
            T_OK(wharf_notify_wait(h->there, 0, h->stream, 0));
            t_stream_copy(h->node, h->stream, place(h, h->own, t_me),
                          place(h, h->data, 0), BYTES);
            T_OK(wharf_notify_record(h->back, h->stream));
            if (round % 5 == 0)
                check_own(h, round);
        }
    }
    t_stream_sync(h->node, h->stream);
    t_context_set(h->node, 0);
    return NULL;
}

/* Thread k of all ranks in the k-th barrier: everybody fills its own part, and
 * reads its left neighbour's. */
static void *barrier_thread(void *argument)
{
    hand *h = argument;
    int left = (t_me + t_ranks - 1) % t_ranks;

    t_context_set(h->node, context);
    for (int round = 0; round < ROUNDS; round++) {
        t_stream_fill(h->node, h->stream, place(h, h->data, t_me),
                      value_of(h, round), BYTES);
        T_OK(wharf_barrier_enter(h->barrier, h->stream));
        t_stream_copy(h->node, h->stream, place(h, h->own, t_me),
                      place(h, h->data, left), BYTES);
        T_OK(wharf_barrier_enter(h->barrier, h->stream));
        if (round % 5 == 0)
            check_own(h, round);
    }
    t_stream_sync(h->node, h->stream);
    t_context_set(h->node, 0);
    return NULL;
}

/* One recorder's records come from one thread, each rank's from another, and
 * the waiter takes each recorder's in a thread of its own. */
static void *recorder_thread(void *argument)
{
    hand *h = argument;
    int from = h->index + 1;

    if (from >= t_ranks)
        return NULL;
    t_context_set(h->node, context);
    for (int round = 0; round < ROUNDS; round++) {
        if (t_me == from)
            T_OK(wharf_notify_record(h->there, h->stream));
        else if (t_me == 0 && round % 2)
            T_OK(wharf_notify_wait_host(h->there, from, 0));
        else if (t_me == 0) {
            T_OK(wharf_notify_wait(h->there, from, h->stream, 0));
            t_stream_sync(h->node, h->stream);
        }
    }
    t_stream_sync(h->node, h->stream);
    t_context_set(h->node, 0);
    return NULL;
}

static void in_threads(hand *hands, void *(*run)(void *))
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        T_CHECK(pthread_create(&threads[i], NULL, run, &hands[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        T_CHECK(pthread_join(threads[i], NULL) == 0);
    t_barrier();
}

static wharf_notify *notify_for(wharf_node *node, int waiter)
{
    wharf_notify *notify = NULL;

    T_OK(wharf_notify_create(node, waiter, NULL, &notify));
    return notify;
}

static void begin(hand *hands, wharf_node *node)
{
    wharf_buffer *data = t_attach(node, (size_t)THREADS * BYTES, 0);
    wharf_buffer *own = t_attach(node, (size_t)THREADS * BYTES, 0);

    context = t_context_current(node);
    for (int i = 0; i < THREADS; i++)
        hands[i] = (hand){.node = node,
                          .data = data,
                          .own = own,
                          .stream = t_stream_create(node),
                          .index = i};
}

static void end(hand *hands)
{
    wharf_node *node = hands[0].node;

    for (int i = 0; i < THREADS; i++)
        t_stream_destroy(node, hands[i].stream);
    t_detach(hands[0].own);
    t_detach(hands[0].data);
    t_close(node);
    t_live_check(NULL);
}

static void pairs_of_notifies(void)
{
    hand hands[THREADS];

    begin(hands, t_open());
    for (int i = 0; i < THREADS; i++) {
        hands[i].there = notify_for(hands[i].node, 1);
        hands[i].back = notify_for(hands[i].node, 0);
    }
    in_threads(hands, notify_thread);
    for (int i = 0; i < THREADS; i++) {
        T_OK(wharf_notify_destroy(&hands[i].back));
        T_OK(wharf_notify_destroy(&hands[i].there));
    }
    end(hands);
}

static void one_notify(void)
{
    hand hands[THREADS];
    wharf_notify *notify;

    begin(hands, t_open());
    notify = notify_for(hands[0].node, 0);
    for (int i = 0; i < THREADS; i++)
        hands[i].there = notify;
    in_threads(hands, recorder_thread);
    T_OK(wharf_notify_destroy(&notify));
    end(hands);
}

static void barriers(void)
{
    hand hands[THREADS];

    begin(hands, t_open());
    for (int i = 0; i < THREADS; i++)
        T_OK(wharf_barrier_create(hands[i].node, 0, NULL, NULL,
                                  &hands[i].barrier));
    in_threads(hands, barrier_thread);
    for (int i = 0; i < THREADS; i++)
        T_OK(wharf_barrier_destroy(&hands[i].barrier));
    end(hands);
}

static const t_case cases[] = {
    {"pairs_of_notifies", pairs_of_notifies, T_ANY},
    {"one_notify", one_notify, T_ANY},
    {"barriers", barriers, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_MULTIPLE, cases);
}
