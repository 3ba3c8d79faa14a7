/* SPDX-License-Identifier: MIT */
/* Kept mappings: when they serve, what bounds them, and that they are given
 * back. */
#include "t_group.h"

#include <mpi.h>

static size_t size_of(int rank)
{
    return 100000 + (size_t)rank * 1000;
}

static wharf_node *open_pool(wharf_switch pool, size_t bytes)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.pool = pool;
    options.pool_bytes = bytes;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    return node;
}

/* The same shape again is served by what was kept; both the counter and the
 * buffer say so, and all ranks alike. */
static void same_shape(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_ON, 0);
    int64_t hits = t_stats().pool_hits_count;
    wharf_buffer *buffer = t_attach(node, size_of(t_me), 0);

    T_EQ_INT(0, t_info(buffer, 0).pooled);
    t_share(node, buffer, 1);
    t_detach(buffer);
    T_CHECK(t_stats().pooled_bytes > 0);
    for (int round = 1; round <= 5; round++) {
        buffer = t_attach(node, size_of(t_me), 0);
        T_EQ_INT(1, t_info(buffer, t_me).pooled);
        T_EQ_INT(hits + round, t_stats().pool_hits_count);
        T_EQ_INT(0, t_stats().pooled_bytes);
        t_share(node, buffer, 1 + (uint64_t)round);
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

/* A shape that differs on one rank, in flags or in space, is another shape. */
static void other_shape(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_ON, 0);
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer;
    size_t other = size_of(t_me) + (t_me == t_ranks - 1 ? (1 << 22) : 0);

    t_detach(t_attach(node, size_of(t_me), 0));
    buffer = t_attach(node, other, 0);
    T_EQ_INT(0, t_info(buffer, 0).pooled);
    t_share(node, buffer, 7);
    t_detach(buffer);
    buffer = t_attach(node, size_of(t_me), WHARF_BUFFER_SAME_ADDRESS);
    T_EQ_INT(0, t_info(buffer, 0).pooled);
    t_share(node, buffer, 8);
    t_detach(buffer);
    options.space = WHARF_SPACE_HOST;
    T_OK(wharf_buffer_attach(node, size_of(t_me), &options, &buffer));
    T_EQ_INT(0, t_info(buffer, 0).pooled);
    t_share(node, buffer, 9);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* One kept mapping serves one buffer at a time. */
static void two_of_one_shape(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_ON, 0);
    wharf_buffer *a;
    wharf_buffer *b;

    t_detach(t_attach(node, size_of(t_me), 0));
    a = t_attach(node, size_of(t_me), 0);
    b = t_attach(node, size_of(t_me), 0);
    T_EQ_INT(1, t_info(a, 0).pooled);
    T_EQ_INT(0, t_info(b, 0).pooled);
    T_CHECK(t_segment(a, t_me, NULL) != t_segment(b, t_me, NULL));
    t_fill_mine(node, a, 10);
    t_fill_mine(node, b, 11);
    t_barrier();
    for (int rank = 0; rank < t_ranks; rank++) {
        t_check_segment(node, a, rank, 10);
        t_check_segment(node, b, rank, 11);
    }
    t_barrier();
    t_detach(a);
    t_detach(b);
    t_close(node);
    t_live_check(NULL);
}

static void switched_off(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_OFF, 0);
    wharf_stats empty = t_stats();
    int64_t hits = empty.pool_hits_count;

    for (int round = 0; round < 3; round++) {
        wharf_buffer *buffer = t_attach(node, size_of(t_me), 0);

        T_EQ_INT(0, t_info(buffer, 0).pooled);
        t_share(node, buffer, 12);
        t_detach(buffer);
        t_live_check(&empty);
        T_EQ_INT(0, t_stats().pooled_bytes);
    }
    T_EQ_INT(hits, t_stats().pool_hits_count);
    t_close(node);
    t_live_check(NULL);
}

/* What is kept stays within the bound: a buffer larger than it never is. */
static void bounded(void)
{
    enum { BOUND = 8 << 20, EACH = 3 << 20 };
    wharf_node *node = open_pool(WHARF_SWITCH_ON, BOUND);
    wharf_stats empty = t_stats();

    t_detach(t_attach(node, BOUND + 1, 0));
    T_EQ_INT(0, t_stats().pooled_bytes);
    t_live_check(&empty);
    for (int i = 0; i < 6; i++) {
        t_detach(t_attach(node, t_me == 0 ? EACH + (size_t)i * 65536 : 0, 0));
        T_CHECK(t_stats().pooled_bytes <= BOUND);
    }
    t_close(node);
    t_live_check(NULL);
}

static void trim(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_ON, 0);
    wharf_stats empty = t_stats();
    wharf_buffer *buffer;

    T_OK(wharf_pool_trim(node)); /* of nothing */
    t_detach(t_attach(node, size_of(t_me), 0));
    t_detach(t_attach(node, size_of(t_me) * 3, 0));
    T_CHECK(t_stats().live_blocks_owned + t_stats().live_blocks_imported > 0);
    T_OK(wharf_pool_trim(node));
    t_live_check(&empty);
    T_EQ_INT(0, t_stats().pooled_bytes);
    buffer = t_attach(node, size_of(t_me), 0);
    T_EQ_INT(0, t_info(buffer, 0).pooled);
    /* Trimming leaves alone what is in use. */
    T_OK(wharf_pool_trim(node));
    t_share(node, buffer, 13);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Record numbers start again for a buffer that came from the pool: a wait for
 * its first record must not pass because of records of its former life. */
static void events_start_again(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_ON, 0);

    for (int round = 0; round < 40; round++) {
        wharf_buffer *buffer = t_attach(node, size_of(t_me), 0);
        wharf_event *event = NULL;
        uint64_t number = 0;

        T_EQ_INT(round > 0, t_info(buffer, 0).pooled);
        T_OK(wharf_buffer_event(buffer, 0, &event));
        /* In every other round the owner records as early as it can. */
        if (round % 2 == 0) {
            T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, 1));
            T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, WHARF_LATEST));
            t_barrier();
        }
        if (t_me == 0) {
            for (uint64_t k = 1; k <= 6; k++) {
                T_OK(wharf_event_record(event, NULL, &number));
                T_EQ_INT(k, number);
            }
        }
        T_OK(wharf_event_synchronize(event, 6, 0));
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"same_shape", same_shape, T_ANY},
    {"other_shape", other_shape, T_ANY},
    {"two_of_one_shape", two_of_one_shape, T_ANY},
    {"switched_off", switched_off, T_ANY},
    {"bounded", bounded, T_ANY},
    {"trim", trim, T_ANY},
    {"events_start_again", events_start_again, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
