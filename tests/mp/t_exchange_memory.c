/* SPDX-License-Identifier: MIT */
/*
 * A rank without memory when an exchange is created, over a communicator that
 * reaches beyond its node: all ranks hear of it at once, on every node. Each
 * rank is a node of its own here, so that nodes agree by MPI alone.
 */
#include "t_group.h"

#include <mpi.h>

#include "base/fault.h"

/* Less than the deadline by far; for loaded machines. */
enum { DEADLINE_MS = 30000, SOON_MS = 8000 };

static wharf_node *node;
static wharf_buffer *cells;

static wharf_status create(MPI_Comm comm, wharf_exchange **exchange)
{
    wharf_exchange_box out = {.buffer = cells, .size = {512, 1, 1}};
    wharf_exchange_box in = {
        .buffer = cells, .offset = 512, .size = {512, 1, 1}};
    wharf_exchange_transfer transfer = {
        .peer = 1 - t_me, .send = &out, .receive = &in};

    return wharf_exchange_create(node, comm, 1, &transfer, NULL, exchange);
}

/* False once there was no n-th allocation. */
static bool fail_once(MPI_Comm comm, long nth)
{
    wharf_exchange *exchange = NULL;
    long long start;
    int fired = 0;
    wharf_status status;

    t_barrier();
    start = t_now_ms();
    if (t_me == 1)
        wi_fault_arm(WI_FAULT_MEM, nth, 0);
    status = create(comm, &exchange);
    if (t_me == 1)
        fired = wi_fault_disarm(NULL);
    if (t_now_ms() - start > SOON_MS)
        T_FAIL("allocation %ld failed and was waited for %lld ms: %s", nth,
               t_now_ms() - start, wharf_status_name(status));
    MPI_Bcast(&fired, 1, MPI_INT, 1, MPI_COMM_WORLD);
    T_SAME(status);
    if (!fired)
        T_OK(status);
    T_CHECK((status == WHARF_OK) == (exchange != NULL));
    if (status == WHARF_OK)
        T_OK(wharf_exchange_destroy(&exchange));
    else
        T_FAILS(MPI_COMM_WORLD, WHARF_ENOMEM, -1, NULL, status);
    return fired != 0;
}

static void sweep(bool fresh)
{
    wharf_stats before = t_stats();
    wharf_exchange *exchange = NULL;
    bool fired = true;
    long nth;

    for (nth = 1; fired; nth++) {
        MPI_Comm comm = MPI_COMM_WORLD;

        if (fresh)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        fired = fail_once(comm, nth);
        T_OK(create(comm, &exchange));
        T_OK(wharf_exchange_destroy(&exchange));
        if (fresh)
            MPI_Comm_free(&comm);
    }
    T_CHECK(nth > 5);
    t_live_check(&before);
}

static void each_allocation(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_exchange *exchange = NULL;

    options.timeout_ms = DEADLINE_MS;
    T_OK(wharf_node_open(MPI_COMM_SELF, &options, &node));
    cells = t_attach(node, 1024, 0);
    /* With the communicator's duplicate there, and without. */
    T_OK(create(MPI_COMM_WORLD, &exchange));
    T_OK(wharf_exchange_destroy(&exchange));
    sweep(false);
    sweep(true);
    t_detach(cells);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"each_allocation", each_allocation, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
