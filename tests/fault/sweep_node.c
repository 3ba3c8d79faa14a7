/* SPDX-License-Identifier: MIT */
/*
 * The nodes of the fault sweep. Opening one is by far the longest part of an
 * injection, so a node is used for several, as long as that shows the same:
 *   - what is swept makes as many calls on a used node as on a fresh one, so
 *     that none of them is made only the first time;
 *   - after each injection it still does, so that none has changed its ways.
 * Else the next injection has a fresh node. fresh=1: always.
 */
#include "base/fault.h"
#include "sweep.h"

#include <limits.h>
#include <mpi.h>
#include <string.h>

static wharf_node *spare; /* open, between two injections */
static bool keep;         /* a node that is given back becomes the spare one */
static bool taken;        /* prepare has asked for a node */
static long expected;     /* calls on a fresh node */

void sweep_node_open(state *s, wharf_switch pool)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    taken = true;
    s->node = spare;
    spare = NULL;
    if (s->node != NULL)
        return;
    options.pool = pool;
    options.timeout_ms = 5000;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &s->node));
}

void sweep_node_close(state *s)
{
    if (keep && spare == NULL) {
        spare = s->node;
        s->node = NULL;
    }
    if (s->node != NULL)
        T_OK(wharf_node_close(&s->node));
}

/* The scenario without a fault; how many calls of a kind it makes here. */
static long count_calls(const scenario *what, wi_fault_kind kind)
{
    long calls;
    state s;

    memset(&s, 0, sizeof s);
    what->prepare(&s);
    t_barrier();
    wi_fault_arm(kind, LONG_MAX, 0);
    T_OK(what->act(&s));
    calls = wi_fault_count();
    wi_fault_disarm(NULL);
    what->check(&s);
    what->finish(&s);
    return calls;
}

static bool on_all(bool mine)
{
    int yes = mine;

    MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return yes != 0;
}

void sweep_node_learn(const scenario *what, wi_fault_kind kind)
{
    sweep_node_forget();
    if (what->local || what->consumes || t_argument("fresh", 0))
        return;
    keep = true;
    taken = false;
    expected = count_calls(what, kind);
    if (!taken || !on_all(count_calls(what, kind) == expected))
        sweep_node_forget();
}

void sweep_node_ready(const scenario *what)
{
    state s;

    if (!keep || spare != NULL)
        return;
    memset(&s, 0, sizeof s);
    what->prepare(&s);
    what->finish(&s);
}

bool sweep_node_as_before(long calls)
{
    return on_all(calls == expected);
}

void sweep_node_retire(void)
{
    if (spare != NULL)
        T_OK(wharf_node_close(&spare));
}

void sweep_node_forget(void)
{
    keep = false;
    sweep_node_retire();
}
