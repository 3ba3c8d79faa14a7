/* SPDX-License-Identifier: MIT */
/* Events: numbers, who may do what, deadlines, lifetimes. */
#include "t_group.h"

#include <mpi.h>
#include <time.h>

static wharf_node *open_timeout(int timeout_ms)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.timeout_ms = timeout_ms;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    return node;
}

static wharf_event *create(wharf_node *node, int owner)
{
    wharf_event *event = NULL;

    T_OK(wharf_event_create(node, owner, &event));
    T_CHECK(event != NULL);
    return event;
}

static void destroy(wharf_event *event)
{
    T_OK(wharf_event_destroy(&event));
    T_CHECK(event == NULL);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Records are numbered 1 up, for each event on its own. */
static void numbers(void)
{
    wharf_node *node = t_open();
    wharf_event *a = create(node, 0);
    wharf_event *b = create(node, t_ranks - 1);
    uint64_t number = 0;

    for (uint64_t k = 1; k <= 20; k++) {
        if (t_me == 0) {
            T_OK(wharf_event_record(a, NULL, &number));
            T_EQ_INT(k, number);
        }
        if (t_me == t_ranks - 1 && k % 2 == 0) {
            T_OK(wharf_event_record(b, NULL, &number));
            T_EQ_INT(k / 2, number);
        }
    }
    if (t_me == 0)
        T_OK(wharf_event_record(a, NULL, NULL));
    T_OK(wharf_event_synchronize(a, 21, 0));
    T_OK(wharf_event_synchronize(b, 10, 0));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(a, 22));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(b, 11));
    destroy(b);
    destroy(a);
    t_close(node);
    t_live_check(NULL);
}

/* Every rank waits for every record of every owner, any order. */
static void wait_from_every_rank(void)
{
    enum { MOST = 16, ROUNDS = 10 };
    wharf_node *node = t_open();
    wharf_event *events[MOST];
    wharf_stream stream = t_stream_create(node);

    T_CHECK(t_ranks <= MOST);
    for (int owner = 0; owner < t_ranks; owner++)
        events[owner] = create(node, owner);
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        T_OK(wharf_event_record(events[t_me], stream, NULL));
        for (int i = 0; i < t_ranks; i++)
            T_OK(wharf_event_wait(events[(t_me + i) % t_ranks], k, stream));
    }
    t_stream_sync(node, stream);
    /* What was waited for is complete. */
    for (int owner = 0; owner < t_ranks; owner++) {
        for (uint64_t k = 1; k <= ROUNDS; k++)
            T_OK(wharf_event_query(events[owner], k));
        T_OK(wharf_event_query(events[owner], WHARF_LATEST));
        T_OK(wharf_event_wait(events[owner], WHARF_LATEST, NULL));
        T_OK(wharf_event_wait(events[owner], 1, NULL));
    }
    t_stream_destroy(node, stream);
    for (int owner = 0; owner < t_ranks; owner++)
        destroy(events[owner]);
    t_close(node);
    t_live_check(NULL);
}

/* Not complete before the first record, whoever asks and however. */
static void nothing_recorded(void)
{
    wharf_node *node = t_open();
    wharf_event *event = create(node, 0);

    T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, WHARF_LATEST));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, 1));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, 1000000));
    T_STATUS(WHARF_ETIMEDOUT, wharf_event_synchronize(event, 1, 30));
    T_STATUS(WHARF_ETIMEDOUT, wharf_event_synchronize(event, WHARF_LATEST, 30));
    t_barrier();
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_synchronize(event, WHARF_LATEST, 0));
    T_OK(wharf_event_synchronize(event, 1, 20000));
    destroy(event);
    t_close(node);
    t_live_check(NULL);
}

/* A wait that timed out named the owner, and everything works on. */
static void timeout_then_on(void)
{
    /* Contexts on a real GPU are made within the deadline as well. */
    wharf_node *node = open_timeout(t_mode_get() == T_GPU ? 5000 : 1000);
    wharf_event *event = create(node, 0);
    wharf_buffer *buffer;
    double start = now();

    T_REFUSES(WHARF_ETIMEDOUT, "rank 0", wharf_event_wait(event, 1, NULL));
    T_CHECK(now() - start >= 0.99);
    T_REFUSES(WHARF_ETIMEDOUT, "rank 0",
              wharf_event_wait(event, WHARF_LATEST, NULL));
    t_close(node);
    node = open_timeout(20000);
    event = create(node, 0);
    T_STATUS(WHARF_ETIMEDOUT, wharf_event_synchronize(event, 1, 20));
    t_barrier();
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_wait(event, 1, NULL));
    T_OK(wharf_event_synchronize(event, 1, 0));
    buffer = t_attach(node, 100, 0);
    t_share(node, buffer, 1);
    t_detach(buffer);
    destroy(event);
    t_close(node);
    t_live_check(NULL);
}

static void wrong_arguments(void)
{
    wharf_node *node = t_open();
    wharf_event *event = NULL;
    wharf_event *mine;
    wharf_event *others;

    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "owner",
            wharf_event_create(node, -1, &event));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "owner",
            wharf_event_create(node, t_ranks, &event));
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "owner",
            wharf_event_create(node, t_me == t_ranks - 1 ? 1 : 0, &event));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, t_ranks - 1, NULL,
            wharf_event_create(node, 0, t_me == t_ranks - 1 ? NULL : &event));
    T_REFUSES(WHARF_EARG, "node", wharf_event_create(NULL, 0, &event));
    T_CHECK(event == NULL);
    mine = create(node, 0);
    others = create(node, 1);
    if (t_me == 1) {
        wharf_event *swap = mine;

        mine = others;
        others = swap;
    }
    T_REFUSES(WHARF_EARG, "event", wharf_event_record(NULL, NULL, NULL));
    T_REFUSES(WHARF_EARG, "event", wharf_event_wait(NULL, 1, NULL));
    T_REFUSES(WHARF_EARG, "event", wharf_event_query(NULL, 1));
    T_REFUSES(WHARF_EARG, "event", wharf_event_synchronize(NULL, 1, 0));
    T_REFUSES(WHARF_EARG, NULL, wharf_event_synchronize(mine, 1, -5));
    T_REFUSES(WHARF_EARG, "node", wharf_stream_synchronize(NULL, NULL, 0));
    T_REFUSES(WHARF_EARG, "timeout_ms is -5",
              wharf_stream_synchronize(node, NULL, -5));
    T_OK(wharf_stream_synchronize(node, NULL, 0));
    T_REFUSES(WHARF_EARG, NULL, wharf_event_destroy(NULL));
    T_REFUSES(WHARF_EARG, NULL, wharf_event_destroy(&event));
    T_REFUSES(WHARF_ESTATE, "rank", wharf_event_record(others, NULL, NULL));
    if (t_me > 1)
        T_REFUSES(WHARF_ESTATE, "rank 0", wharf_event_record(mine, NULL, NULL));
    destroy(t_me == 1 ? others : mine);
    destroy(t_me == 1 ? mine : others);
    t_close(node);
    t_live_check(NULL);
}

static void destroyed(void)
{
    wharf_node *node = t_open();
    wharf_event *event = create(node, 0);
    wharf_event *copy = event;

    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    destroy(event);
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_record(copy, NULL, NULL));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_wait(copy, 1, NULL));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_query(copy, 1));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_synchronize(copy, 1, 10));
    T_REFUSES(WHARF_ESTATE, "event", wharf_event_destroy(&copy));
    T_CHECK(copy == NULL);
    t_close(node);
    t_live_check(NULL);
}

/* A slot given back lies before one that is taken: the next two events get the
 * free one and one of their own. */
static void free_slot_before_a_taken_one(void)
{
    wharf_node *node = t_open();
    wharf_event *first = create(node, 0);
    wharf_event *kept = create(node, 0);
    wharf_event *again, *more;

    destroy(first);
    again = create(node, 0);
    more = create(node, 0);
    if (t_me == 0)
        T_OK(wharf_event_record(kept, NULL, NULL));
    T_OK(wharf_event_synchronize(kept, 1, 0));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(again, 1));
    T_STATUS(WHARF_ENOTREADY, wharf_event_query(more, 1));
    destroy(more);
    destroy(again);
    destroy(kept);
    t_close(node);
    t_live_check(NULL);
}

/* Created, never opened by anybody else, destroyed; and opened by all. */
static void create_destroy_cycles(void)
{
    wharf_node *node = t_open();
    wharf_stats before = t_stats();
    t_holdings holdings = {0, 0};

    for (int i = 0; i < 120; i++) {
        wharf_event *event = create(node, i % t_ranks);

        if (i == 20)
            holdings = t_holdings_get();
        if (i % 3 == 0 && t_me == i % t_ranks)
            T_OK(wharf_event_record(event, NULL, NULL));
        if (i % 3 == 0 && i % 2 == 0)
            T_OK(wharf_event_wait(event, 1, NULL));
        destroy(event);
    }
    t_live_check(&before);
    T_EQ_INT(holdings.descriptors, t_holdings_get().descriptors);
    t_close(node);
    t_live_check(NULL);
}

/* A buffer's events: owners, and not to be destroyed alone. */
static void events_of_a_buffer(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, t_me == 0 ? 0 : 4096, 0);

    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_event *event = NULL;
        wharf_event *again = NULL;
        wharf_event *copy;

        T_OK(wharf_buffer_event(buffer, rank, &event));
        T_OK(wharf_buffer_event(buffer, rank, &again));
        T_EQ_PTR(event, again);
        if (rank == t_me)
            T_OK(wharf_event_record(event, NULL, NULL));
        else
            T_REFUSES(WHARF_ESTATE, "rank",
                      wharf_event_record(event, NULL, NULL));
        T_OK(wharf_event_wait(event, 1, NULL));
        T_OK(wharf_event_synchronize(event, 1, 0));
        copy = event;
        T_REFUSES(WHARF_ESTATE, "buffer", wharf_event_destroy(&copy));
    }
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* A stream of another GPU is refused, and nothing is recorded or waited for. */
static void foreign_stream(void)
{
    wharf_node *node = t_open();
    wharf_event *event = create(node, 0);
    wharf_stream foreign = t_foreign_stream_create(node);
    uint64_t number = 77;

    if (t_me == 0 && foreign != NULL) {
        T_REFUSES(WHARF_EARG, "stream",
                  wharf_event_record(event, foreign, &number));
        T_EQ_INT(77, number);
        T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, 1));
    }
    if (t_me == 0) {
        T_OK(wharf_event_record(event, NULL, &number));
        T_EQ_INT(1, number);
    }
    if (foreign != NULL) {
        T_REFUSES(WHARF_EARG, "stream", wharf_event_wait(event, 1, foreign));
        T_REFUSES(WHARF_EARG, "stream",
                  wharf_stream_synchronize(node, foreign, 0));
    }
    T_OK(wharf_event_wait(event, 1, NULL));
    t_barrier();
    t_foreign_stream_destroy(node, foreign);
    destroy(event);
    t_close(node);
    t_live_check(NULL);
}

static void thousand_records(void)
{
    wharf_node *node = t_open();
    wharf_event *event = create(node, 0);
    wharf_stream stream = t_stream_create(node);
    wharf_stats before;

    if (t_me == 0)
        T_OK(wharf_event_record(event, stream, NULL));
    T_OK(wharf_event_wait(event, 1, stream));
    for (uint64_t k = 2; k <= 1000; k++) {
        if (t_me == 0) {
            uint64_t number = 0;

            T_OK(wharf_event_record(event, stream, &number));
            T_EQ_INT(k, number);
        }
        if (k % 97 == 0)
            T_OK(wharf_event_wait(event, k, stream));
        if (k == 500)
            before = t_stats();
    }
    T_OK(wharf_event_wait(event, 1000, stream));
    T_OK(wharf_event_synchronize(event, 1000, 0));
    T_OK(wharf_event_query(event, 3));
    /* Ringed driver events: their number does not grow with the records. */
    T_CHECK(t_stats().live_driver_events <= before.live_driver_events + 8);
    t_stream_sync(node, stream);
    t_stream_destroy(node, stream);
    destroy(event);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"numbers", numbers, T_ANY},
    {"wait_from_every_rank", wait_from_every_rank, T_ANY},
    {"nothing_recorded", nothing_recorded, T_ANY},
    {"timeout_then_on", timeout_then_on, T_ANY},
    {"wrong_arguments", wrong_arguments, T_ANY},
    {"destroyed", destroyed, T_ANY},
    {"free_slot_before_a_taken_one", free_slot_before_a_taken_one, T_ANY},
    {"create_destroy_cycles", create_destroy_cycles, T_ANY},
    {"events_of_a_buffer", events_of_a_buffer, T_ANY},
    {"foreign_stream", foreign_stream, T_CUDA},
    {"thousand_records", thousand_records, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
