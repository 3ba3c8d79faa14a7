/* SPDX-License-Identifier: MIT */
/*
 * Ranks in different calls: an objection of one is no answer to the others, a
 * close beside another call closes nothing, and a rank that missed what the
 * others gave up on is found out before its objects are mixed with theirs.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdint.h>

static bool odd_one(void)
{
    return t_me == t_ranks - 1;
}

/* A wrong attach on one rank does not detach the others' buffer. */
static void objection_beside_detach(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    wharf_buffer *kept = buffer;
    wharf_buffer *none = NULL;

    if (odd_one())
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "attach",
                wharf_buffer_attach(node, SIZE_MAX, NULL, &none));
    else
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "attach",
                wharf_buffer_detach(&buffer));
    T_EQ_PTR(kept, buffer);
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static void objection_beside_close(void)
{
    wharf_node *node = t_open();
    wharf_node *kept = node;
    wharf_event *event = NULL;

    if (odd_one())
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "event_create",
                wharf_event_create(node, -1, &event));
    else
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "event_create",
                wharf_node_close(&node));
    T_EQ_PTR(kept, node);
    t_detach(t_attach(node, 100, 0));
    t_close(node);
    t_live_check(NULL);
}

/* A node whose calls are soon given up. Still long enough for ranks that do
 * come, on a loaded machine; with a GPU's driver, for its contexts. */
static wharf_node *open_hasty(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.timeout_ms = t_mode_get() == T_GPU ? 6000 : 1500;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    return node;
}

/* The odd rank has met the call that it missed; from here on all are in the
 * same calls, and are told that they no longer hold the same. */
static void found_out(wharf_node *node)
{
    wharf_buffer *buffer = NULL;
    wharf_event *event = NULL;

    t_barrier();
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, -1, "missed",
            wharf_buffer_attach(node, 4096, NULL, &buffer));
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, -1, "missed",
            wharf_event_create(node, 0, &event));
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, -1, "missed",
            wharf_pool_trim(node));
    t_close(node);
    t_live_check(NULL);
}

static void missed_detach(void)
{
    wharf_node *node = open_hasty();
    wharf_buffer *buffer = t_attach(node, 4096, 0);
    wharf_buffer *none = NULL;

    if (!odd_one()) {
        T_STATUS(WHARF_ETIMEDOUT, wharf_buffer_detach(&buffer));
        T_CHECK(buffer == NULL);
    }
    t_barrier();
    if (odd_one())
        T_STATUS(WHARF_ETIMEDOUT, wharf_buffer_attach(node, 1, NULL, &none));
    found_out(node);
}

static void missed_destroy(void)
{
    wharf_node *node = open_hasty();
    wharf_event *event = NULL;
    wharf_event *other = NULL;

    T_OK(wharf_event_create(node, 0, &event));
    if (!odd_one())
        T_STATUS(WHARF_ETIMEDOUT, wharf_event_destroy(&event));
    t_barrier();
    if (odd_one())
        T_STATUS(WHARF_ETIMEDOUT, wharf_event_create(node, 0, &other));
    found_out(node);
}

/* Late, but in the same call: all is as if it had come in time. */
static void late_detach(void)
{
    wharf_node *node = open_hasty();
    wharf_buffer *buffer = t_attach(node, 4096, 0);

    if (!odd_one())
        T_STATUS(WHARF_ETIMEDOUT, wharf_buffer_detach(&buffer));
    t_barrier();
    if (odd_one())
        T_STATUS(WHARF_ETIMEDOUT, wharf_buffer_detach(&buffer));
    T_CHECK(buffer == NULL);
    t_barrier();
    buffer = t_attach(node, 4096, 0);
    t_share(node, buffer, 2);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"objection_beside_detach", objection_beside_detach, T_ANY},
    {"objection_beside_close", objection_beside_close, T_ANY},
    {"missed_detach", missed_detach, T_ANY},
    {"missed_destroy", missed_destroy, T_ANY},
    {"late_detach", late_detach, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
