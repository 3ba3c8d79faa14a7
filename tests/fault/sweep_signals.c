/* SPDX-License-Identifier: MIT */
/* Scenarios of the sweep with notifies and barriers: see sweep.h. Rank 0 waits,
 * the last one records. */
#include "sweep.h"

#include <mpi.h>

static void open_node(state *s)
{
    sweep_node_open(s, WHARF_SWITCH_OFF);
}

static void close_all(state *s)
{
    if (s->notify != NULL)
        T_OK(wharf_notify_destroy(&s->notify));
    if (s->barrier != NULL)
        T_OK(wharf_barrier_destroy(&s->barrier));
    sweep_node_close(s);
}

static void nothing(state *s)
{
    (void)s;
}

static bool records(void)
{
    return t_me == t_ranks - 1;
}

/* ---- Notifies ---------------------------------------------------------- */

static wharf_status act_notify_create(state *s)
{
    return wharf_notify_create(s->node, 0, NULL, &s->notify);
}

/* By every mechanism that this machine has. */
static wharf_status create_as(state *s, wharf_mechanism mechanism)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;

    options.mechanism = mechanism;
    return wharf_notify_create(s->node, 0, &options, &s->notify);
}

static wharf_status act_notify_hybrid(state *s)
{
    return create_as(s, WHARF_MECHANISM_HYBRID);
}

static void check_notify(state *s)
{
    if (records())
        T_OK(wharf_notify_record(s->notify, NULL));
    if (t_me == 0)
        T_OK(wharf_notify_wait(s->notify, t_ranks - 1, NULL, 0));
    t_stream_sync(s->node, NULL);
    t_barrier();
}

static void prepare_notify(state *s)
{
    open_node(s);
    T_OK(act_notify_create(s));
}

static void prepare_mem_ops(state *s)
{
    open_node(s);
    T_OK(create_as(s, WHARF_MECHANISM_MEM_OPS));
}

static wharf_status act_notify_destroy(state *s)
{
    wharf_status status = wharf_notify_destroy(&s->notify);

    T_CHECK(s->notify == NULL);
    return status;
}

static wharf_status act_record(state *s)
{
    return records() ? wharf_notify_record(s->notify, NULL) : WHARF_OK;
}

static void check_recorded(state *s)
{
    if (t_me == 0)
        T_OK(wharf_notify_wait_host(s->notify, t_ranks - 1, 0));
    t_barrier();
}

static void recorded(state *s)
{
    if (records()) {
        T_OK(wharf_notify_record(s->notify, NULL));
        t_stream_sync(s->node, NULL);
    }
    t_barrier();
}

static void prepare_recorded(state *s)
{
    prepare_notify(s);
    recorded(s);
}

static void prepare_recorded_mem_ops(state *s)
{
    prepare_mem_ops(s);
    recorded(s);
}

static wharf_status act_wait(state *s)
{
    return t_me == 0 ? wharf_notify_wait(s->notify, t_ranks - 1, NULL, 0)
                     : WHARF_OK;
}

static wharf_status act_wait_host(state *s)
{
    return t_me == 0 ? wharf_notify_wait_host(s->notify, t_ranks - 1, 0)
                     : WHARF_OK;
}

static wharf_status act_synchronize(state *s)
{
    return wharf_stream_synchronize(s->node, NULL, 0);
}

/* A wait that failed has consumed nothing, one that passed has consumed one:
 * none is left now. */
static void check_consumed(state *s)
{
    t_stream_sync(s->node, NULL);
    if (t_me == 0)
        T_STATUS(WHARF_ETIMEDOUT,
                 wharf_notify_wait_host(s->notify, t_ranks - 1, 1));
    t_barrier();
}

/* ---- Barriers ---------------------------------------------------------- */

static wharf_status act_barrier_create(state *s)
{
    return wharf_barrier_create(s->node, 0, NULL, NULL, &s->barrier);
}

static wharf_status act_barrier_kernel(state *s)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;

    options.mechanism = WHARF_MECHANISM_KERNEL;
    return wharf_barrier_create(s->node, 0, NULL, &options, &s->barrier);
}

static void check_barrier(state *s)
{
    for (int i = 0; i < 3; i++)
        T_OK(wharf_barrier_enter(s->barrier, NULL));
    t_stream_sync(s->node, NULL);
    t_barrier();
}

static void prepare_barrier(state *s)
{
    open_node(s);
    T_OK(act_barrier_create(s));
}

static void prepare_barrier_kernel(state *s)
{
    open_node(s);
    T_OK(act_barrier_kernel(s));
}

static wharf_status act_barrier_destroy(state *s)
{
    wharf_status status = wharf_barrier_destroy(&s->barrier);

    T_CHECK(s->barrier == NULL);
    return status;
}

static wharf_status act_enter(state *s)
{
    return wharf_barrier_enter(s->barrier, NULL);
}

static wharf_status act_view(state *s)
{
    wharf_barrier_view view = {.members = -1};
    wharf_status status = wharf_barrier_view_get(s->barrier, &view);

    T_CHECK((status == WHARF_OK) == (view.members != -1));
    return status;
}

/* ---- A node that is closed with both ----------------------------------- */

static void prepare_both(state *s)
{
    prepare_notify(s);
    T_OK(act_barrier_create(s));
    check_notify(s);
    check_barrier(s);
}

static wharf_status act_close(state *s)
{
    wharf_status status = wharf_node_close(&s->node);

    T_CHECK(s->node == NULL);
    s->notify = NULL;
    s->barrier = NULL;
    return status;
}

const scenario signal_scenarios[] = {
    {"notify_create", open_node, act_notify_create, check_notify, close_all,
     T_ANY, false, false},
    {"notify_hybrid", open_node, act_notify_hybrid, check_notify, close_all,
     T_FAKE, false, false},
    {"notify_destroy", prepare_notify, act_notify_destroy, nothing, close_all,
     T_ANY, false, true},
    {"notify_record", prepare_notify, act_record, check_recorded, close_all,
     T_ANY, true, false},
    {"notify_record_mem_ops", prepare_mem_ops, act_record, check_recorded,
     close_all, T_FAKE, true, false},
    {"notify_wait", prepare_recorded, act_wait, check_consumed, close_all,
     T_ANY, true, false},
    {"notify_wait_mem_ops", prepare_recorded_mem_ops, act_wait, check_consumed,
     close_all, T_FAKE, true, false},
    {"notify_wait_host", prepare_recorded, act_wait_host, check_consumed,
     close_all, T_ANY, true, false},
    {"stream_synchronize", prepare_notify, act_synchronize, nothing, close_all,
     T_FAKE, true, false},
    {"barrier_create", open_node, act_barrier_create, check_barrier, close_all,
     T_ANY, false, false},
    {"barrier_kernel", open_node, act_barrier_kernel, check_barrier, close_all,
     T_FAKE, false, false},
    {"barrier_destroy", prepare_barrier, act_barrier_destroy, nothing,
     close_all, T_ANY, false, true},
    {"barrier_enter", prepare_barrier, act_enter, check_barrier, close_all,
     T_FAKE, true, false},
    {"barrier_view", prepare_barrier_kernel, act_view, check_barrier, close_all,
     T_FAKE, true, false},
    {"close_with_signals", prepare_both, act_close, nothing, close_all, T_ANY,
     false, true},
    {NULL, NULL, NULL, NULL, NULL, 0, false, false},
};
