/* SPDX-License-Identifier: MIT */
/*
 * A kernel of one rank ruins its context: every rank learns it from the next
 * collective, by name, and all can close and end.
 *
 * The context stays ruined until its process ends: argv[1] names one case.
 */
#include "t_group.h"

#include <mpi.h>
#include <string.h>

static wharf_node *node;
static int ruined;

static void ruin(void)
{
    if (t_me == ruined)
        T_CHECK(t_driver_ruin(node) != 0);
    t_barrier();
}

/* Nothing but close is left, and it leaves nothing. */
static void close_and_check(void)
{
    wharf_status status = wharf_node_close(&node);

    T_CHECK(status == WHARF_OK || status == WHARF_EFAULT);
    T_CHECK(node == NULL);
    t_live_check(NULL);
}

static void attach(void)
{
    wharf_buffer *buffer = NULL;

    ruin();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, NULL,
            wharf_buffer_attach(node, 100000, NULL, &buffer));
    T_CHECK(buffer == NULL);
    T_EQ_INT(WHARF_SCOPE_NODE, wharf_status_scope(WHARF_EFAULT));
    close_and_check();
}

static void detach(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, 0);

    t_share(node, buffer, 1);
    ruin();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, NULL,
            wharf_buffer_detach(&buffer));
    T_CHECK(buffer == NULL);
    T_EQ_INT(0, t_stats().live_buffers);
    close_and_check();
}

/* Close alone, with everything attached. */
static void close_only(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, WHARF_BUFFER_CONTIGUOUS);

    t_share(node, buffer, 2);
    t_detach(t_attach(node, 5000, 0));
    ruin();
    close_and_check();
}

/* Local calls of the ruined rank say it; those of the others go on as long as
 * they need nothing of it. A collective call then says it to all. */
static void local_calls(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, 0);
    wharf_event *event = NULL;
    size_t size;

    t_fill_mine(node, buffer, 3);
    T_OK(wharf_event_create(node, ruined, &event));
    if (t_me == ruined)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_wait(event, 1, NULL));
    T_OK(wharf_event_synchronize(event, 1, 0));
    ruin();
    t_segment(buffer, ruined, &size);
    T_EQ_INT(100000, size);
    if (t_me == ruined)
        T_REFUSES(WHARF_EFAULT, NULL, wharf_event_record(event, NULL, NULL));
    else
        t_check_segment(node, buffer, t_me, 3);
    t_barrier();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, NULL,
            wharf_event_destroy(&event));
    T_CHECK(event == NULL);
    close_and_check();
}

/* The hardware refuses a write to another rank's read-only segment, whatever
 * else it does to the writer; the segment keeps its bytes. */
static void write_protected(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, WHARF_BUFFER_READ_ONLY);
    int target = (ruined + 1) % t_ranks;

    t_share(node, buffer, 4);
    T_EQ_INT(t_me != target, t_info(buffer, target).write_protected);
    if (t_me == ruined)
        T_CHECK(t_driver_try_fill(node, t_segment(buffer, target, NULL), 0xff,
                                  4096) != 0);
    t_barrier();
    if (t_me == target)
        t_check_segment(node, buffer, target, 4);
    t_barrier();
    close_and_check();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"attach", attach},
        {"detach", detach},
        {"close_only", close_only},
        {"local_calls", local_calls},
        {"write_protected", write_protected},
    };

    t_arguments(argc, argv);
    t_mode_check();
    T_CHECK(t_mode_get() != T_HOST);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    ruined = (int)t_argument("ruined", t_ranks - 1);
    node = t_open();
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            MPI_Finalize();
            return 0;
        }
    }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
