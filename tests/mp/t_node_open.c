/* SPDX-License-Identifier: MIT */
/* Opening and closing nodes over communicators of every sort; nothing stays. */
#include "t_group.h"

#include <mpi.h>

/* Opens a node on a communicator, uses it once, closes it. */
static void use_node(MPI_Comm comm, uint64_t seed)
{
    wharf_node *node = NULL;
    wharf_buffer *buffer;
    MPI_Comm inside;
    int rank;
    int size;
    int got;

    T_OK(wharf_node_open(comm, NULL, &node));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    T_EQ_INT(rank, wharf_node_rank(node));
    T_EQ_INT(size, wharf_node_size(node));
    T_OK(wharf_node_communicator(node, &inside));
    MPI_Comm_size(inside, &got);
    T_EQ_INT(size, got);
    MPI_Comm_rank(inside, &got);
    T_EQ_INT(rank, got);
    T_CHECK(inside != comm);
    buffer = t_attach(node, 1000 + (size_t)rank, 0);
    t_share(node, buffer, seed);
    t_detach(buffer);
    t_close(node);
}

/* Open and close are repeatable without a trace. */
static void many_times(void)
{
    t_holdings before = {0, 0};
    int64_t communicators = 0;

    for (int i = 0; i < 25; i++) {
        use_node(MPI_COMM_WORLD, (uint64_t)i);
        t_live_check(NULL);
        if (i == 4) {
            before = t_holdings_get();
            communicators = t_stats().live_communicators;
        }
    }
    T_EQ_INT(before.descriptors, t_holdings_get().descriptors);
    T_EQ_INT(before.mappings, t_holdings_get().mappings);
    T_EQ_INT(communicators, t_stats().live_communicators);
}

static void self(void)
{
    for (int i = 0; i < 5; i++)
        use_node(MPI_COMM_SELF, (uint64_t)i);
    t_live_check(NULL);
}

/* Halves that go their own ways, in reverse rank order too. */
static void sub_communicators(void)
{
    MPI_Comm half;
    MPI_Comm reversed;
    int64_t before = t_stats().live_communicators;

    MPI_Comm_split(MPI_COMM_WORLD, t_me % 2, t_me, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -t_me, &reversed);
    for (int i = 0; i < 3; i++) {
        use_node(half, 10);
        use_node(reversed, 11);
    }
    /* Only one half opens; the other does nothing. */
    if (t_me % 2 == 0)
        use_node(half, 12);
    MPI_Comm_free(&half);
    MPI_Comm_free(&reversed);
    T_EQ_INT(before, t_stats().live_communicators);
    t_live_check(NULL);
}

/* Nodes at once, over the same and over different ranks; each may have given
 * this rank another GPU. */
static void several_at_once(void)
{
    wharf_node *nodes[3] = {NULL};
    wharf_buffer *buffers[3];
    uintptr_t contexts[3];

    for (int i = 0; i < 3; i++) {
        T_OK(wharf_node_open(i == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD, NULL,
                             &nodes[i]));
        contexts[i] = t_context_current(nodes[i]);
    }
    T_CHECK(nodes[0] != nodes[2]);
    T_EQ_INT(3, t_stats().live_nodes);
    for (int i = 0; i < 3; i++) {
        /* Whatever is current, the memory is of the node's own GPU. */
        buffers[i] = t_attach(nodes[i], 5000 + 1000 * (size_t)i,
                              i == 2 ? WHARF_BUFFER_CONTIGUOUS : 0);
        t_context_set(nodes[i], contexts[i]);
        t_fill_mine(nodes[i], buffers[i], (uint64_t)i);
    }
    t_barrier();
    for (int i = 0; i < 3; i++) {
        t_context_set(nodes[i], contexts[i]);
        for (int rank = 0; rank < wharf_node_size(nodes[i]); rank++)
            t_check_segment(nodes[i], buffers[i], rank, (uint64_t)i);
    }
    t_barrier();
    t_detach(buffers[0]);
    t_close(nodes[0]);
    t_context_set(nodes[2], contexts[2]);
    t_share(nodes[2], buffers[2], 4);
    t_detach(buffers[2]);
    t_close(nodes[2]);
    t_detach(buffers[1]);
    t_close(nodes[1]);
    t_live_check(NULL);
}

/* The user's communicator may go before the node does. */
static void communicator_freed_first(void)
{
    wharf_node *node = NULL;
    wharf_buffer *buffer;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    T_OK(wharf_node_open(comm, NULL, &node));
    buffer = t_attach(node, 3000, 0);
    MPI_Comm_free(&comm);
    t_share(node, buffer, 5);
    t_detach(buffer);
    buffer = t_attach(node, 4000, 0);
    t_share(node, buffer, 6);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Traffic of the user on the same communicator is not disturbed: a receive
 * from anyone with any tag posted before stays unmatched by Wharf. */
static void user_traffic(void)
{
    MPI_Request request;
    MPI_Status status;
    int from = (t_me + t_ranks - 1) % t_ranks;
    int got = -1;

    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
              &request);
    use_node(MPI_COMM_WORLD, 7);
    T_EQ_INT(-1, got);
    t_barrier();
    MPI_Send(&t_me, 1, MPI_INT, (t_me + 1) % t_ranks, 99, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    T_EQ_INT(from, got);
    T_EQ_INT(99, status.MPI_TAG);
}

/* The user's error handler and the world stay as they were. */
static void error_handler_kept(void)
{
    MPI_Errhandler before;
    MPI_Errhandler after;

    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    use_node(MPI_COMM_WORLD, 8);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    T_CHECK(before == after);
    MPI_Errhandler_free(&before);
    MPI_Errhandler_free(&after);
}

/* Ranks that come late: the others wait for them. */
static void latecomer(void)
{
    for (int late = 0; late < t_ranks; late++) {
        if (t_me == late) {
            for (int i = 0; i < 20; i++)
                use_node(MPI_COMM_SELF, 9);
        }
        use_node(MPI_COMM_WORLD, 10);
    }
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"many_times", many_times, T_ANY},
    {"self", self, T_ANY},
    {"sub_communicators", sub_communicators, T_ANY},
    {"several_at_once", several_at_once, T_ANY},
    {"communicator_freed_first", communicator_freed_first, T_ANY},
    {"user_traffic", user_traffic, T_ANY},
    {"error_handler_kept", error_handler_kept, T_ANY},
    {"latecomer", latecomer, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
