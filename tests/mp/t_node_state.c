/* SPDX-License-Identifier: MIT */
/*
 * MPI that was not started, that is over, and that ends while Wharf is in use:
 * errors and a quiet end, never a crash or a hang.
 *
 * argv[1] names one case, because each needs a process of its own.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    int provided = 0;

    T_CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) == 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
}

static void before_init(void)
{
    wharf_node *node = NULL;
    wharf_stats stats = t_stats();

    T_EQ_INT(WHARF_VERSION_NUMBER, wharf_version());
    T_EQ_INT(0, stats.live_nodes);
    T_REFUSES(WHARF_ESTATE, "MPI",
              wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    T_CHECK(node == NULL);
    t_live_check(NULL);
    start();
    node = t_open();
    t_close(node);
    t_live_check(NULL);
    MPI_Finalize();
}

static void after_finalize(void)
{
    wharf_node *node;

    start();
    node = t_open();
    t_close(node);
    node = NULL;
    MPI_Finalize();
    T_REFUSES(WHARF_ESTATE, "MPI",
              wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    T_CHECK(node == NULL);
    t_live_check(NULL);
}

/* Neither loading the library nor the host backend touches the driver. */
static void driver_untouched(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_buffer *buffer;

    T_CHECK(!t_driver_loaded());
    start();
    T_CHECK(!t_driver_loaded());
    options.backend = WHARF_BACKEND_HOST;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    buffer = t_attach(node, 3000, 0);
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    T_CHECK(!t_driver_loaded());
    MPI_Finalize();
}

static wharf_buffer *kept[2];

/* The process ends with a node open; the driver may clean up after it. */
static void end_untidy(void)
{
    t_driver_expect_leaks();
    MPI_Finalize();
}

/* A node with buffers, one in the pool, and an event. */
static wharf_node *fill(void)
{
    wharf_node *node;
    wharf_event *event = NULL;

    start();
    node = t_open();
    kept[0] = t_attach(node, 3000 + (size_t)t_me, 0);
    kept[1] = t_attach(node, 70000, WHARF_BUFFER_CONTIGUOUS);
    t_share(node, kept[0], 1);
    t_detach(t_attach(node, 12345, 0));
    T_OK(wharf_event_create(node, 0, &event));
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_wait(event, 1, NULL));
    return node;
}

/* Finalize with everything still attached, then close: what this rank alone can
 * give back goes; driver objects that others may still have open may stay. */
static void finalize_with_buffers(void)
{
    wharf_node *node = fill();
    wharf_stats stats;

    end_untidy();
    wharf_ignore(wharf_node_close(&node));
    T_CHECK(node == NULL);
    T_STATUS(WHARF_ESTATE, wharf_buffer_detach(&kept[0]));
    stats = t_stats();
    T_EQ_INT(0, stats.live_nodes);
    T_EQ_INT(0, stats.live_buffers);
    T_EQ_INT(0, stats.live_events);
    T_EQ_INT(0, stats.live_descriptors);
    T_EQ_INT(0, stats.live_communicators);
    T_EQ_INT(0, stats.pooled_bytes);
}

/* As above, and the program just ends. */
static void finalize_and_exit(void)
{
    fill();
    end_untidy();
}

/* exit() in the middle: MPI is finished by an exit handler, after or before
 * whatever handlers Wharf and the driver have. */
static void exit_with_buffers(void)
{
    fill();
    T_CHECK(atexit(end_untidy) == 0);
    exit(0);
}

/* The ordinary careless program: close without detach. */
static void close_then_finalize(void)
{
    wharf_node *node = fill();

    t_close(node);
    t_live_check(NULL);
    MPI_Finalize();
    T_STATUS(WHARF_ESTATE, wharf_buffer_detach(&kept[1]));
    t_live_check(NULL);
}

/* Two nodes over two communicators, one freed by the user, neither closed. */
static void finalize_two_nodes(void)
{
    wharf_node *node = NULL;
    MPI_Comm comm;

    fill();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    T_OK(wharf_node_open(comm, NULL, &node));
    kept[0] = t_attach(node, 100, 0);
    MPI_Comm_free(&comm);
    end_untidy();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"before_init", before_init},
        {"after_finalize", after_finalize},
        {"driver_untouched", driver_untouched},
        {"finalize_with_buffers", finalize_with_buffers},
        {"finalize_and_exit", finalize_and_exit},
        {"exit_with_buffers", exit_with_buffers},
        {"close_then_finalize", close_then_finalize},
        {"finalize_two_nodes", finalize_two_nodes},
    };

    t_mode_check();
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
