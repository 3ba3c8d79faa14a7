/* SPDX-License-Identifier: MIT */
/* Scenarios of the sweep with neighbour exchanges: see sweep.h. A ring, and
 * each rank to itself. */
#include "sweep.h"

#include <mpi.h>

enum { BYTES = 4096, PART = 512 };

static wharf_exchange *exchange;

static void open_node(state *s)
{
    sweep_node_open(s, WHARF_SWITCH_OFF);
    s->buffers[0] = t_attach(s->node, BYTES, 0);
    t_dev_fill(s->node, t_segment(s->buffers[0], t_me, NULL),
               (unsigned char)(t_me + 1), PART);
    exchange = NULL;
    t_barrier();
}

static void finish(state *s)
{
    if (exchange != NULL)
        T_OK(wharf_exchange_destroy(&exchange));
    t_detach(s->buffers[0]);
    sweep_node_close(s);
}

static wharf_exchange_box box(const state *s, int part)
{
    return (wharf_exchange_box){
        s->buffers[0], (size_t)part * PART, {PART, 1, 1}, {0, 0}};
}

static wharf_status act_create(state *s)
{
    wharf_exchange_box out = box(s, 0), in = box(s, 1), self = box(s, 2);
    wharf_exchange_transfer transfers[] = {
        {(t_me + 1) % t_ranks, 0, 0, &out, NULL},
        {(t_me + t_ranks - 1) % t_ranks, 0, 0, NULL, &in},
        {t_me, 9, 9, &out, &self},
    };

    return wharf_exchange_create(s->node, MPI_COMM_WORLD, 3, transfers, NULL,
                                 &exchange);
}

static void check(state *s)
{
    const char *mine = t_segment(s->buffers[0], t_me, NULL);
    int left = (t_me + t_ranks - 1) % t_ranks;

    T_OK(wharf_exchange_run(exchange, NULL));
    T_OK(wharf_exchange_run(exchange, NULL));
    t_stream_sync(s->node, NULL);
    T_EQ_INT(-1, t_dev_check_value(s->node, mine + PART, PART,
                                   (unsigned char)(left + 1)));
    T_EQ_INT(-1, t_dev_check_value(s->node, mine + 2 * PART, PART,
                                   (unsigned char)(t_me + 1)));
    t_barrier();
}

static void prepare_plan(state *s)
{
    open_node(s);
    T_OK(act_create(s));
    check(s);
}

static wharf_status act_destroy(state *s)
{
    (void)s;
    wharf_status status = wharf_exchange_destroy(&exchange);

    T_CHECK(exchange == NULL);
    return status;
}

static void nothing(state *s)
{
    (void)s;
}

const scenario exchange_scenarios[] = {
    {"exchange_create", open_node, act_create, check, finish, T_ANY, false,
     false},
    {"exchange_destroy", prepare_plan, act_destroy, nothing, finish, T_ANY,
     false, true},
    {NULL, NULL, NULL, NULL, NULL, 0, false, false},
};
