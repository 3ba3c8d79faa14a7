/* SPDX-License-Identifier: MIT */
/* The scenarios of the fault sweep: every collective call, and the local ones
 * that reach the driver. */
#include "sweep.h"

#include <mpi.h>

/* ---- Pieces of scenarios ----------------------------------------------- */

static void nothing(state *s)
{
    (void)s;
}

static void open_node(state *s)
{
    sweep_node_open(s, WHARF_SWITCH_OFF);
}

static void open_pool_node(state *s)
{
    wharf_buffer *buffer;

    sweep_node_open(s, WHARF_SWITCH_ON);
    buffer = t_attach(s->node, 6000 + (size_t)t_me, 0);
    t_fill_mine(s->node, buffer, 77);
    t_detach(buffer);
}

static void close_all(state *s)
{
    for (int i = 0; i < 3; i++) {
        if (s->buffers[i] != NULL)
            t_detach(s->buffers[i]);
        s->buffers[i] = NULL;
    }
    if (s->event != NULL)
        T_OK(wharf_event_destroy(&s->event));
    sweep_node_close(s);
}

/* ---- Open and close ---------------------------------------------------- */

static wharf_status act_open(state *s)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    options.timeout_ms = 5000;
    return wharf_node_open(MPI_COMM_WORLD, &options, &s->node);
}

static void check_open(state *s)
{
    wharf_buffer *buffer = t_attach(s->node, 3000, 0);

    t_share(s->node, buffer, 1);
    t_detach(buffer);
}

static void prepare_close(state *s)
{
    open_pool_node(s);
    s->buffers[0] = t_attach(s->node, 9000, 0);
    T_OK(wharf_event_create(s->node, 0, &s->event));
    if (t_me == 0)
        T_OK(wharf_event_record(s->event, NULL, NULL));
    T_OK(wharf_event_wait(s->event, 1, NULL));
}

static wharf_status act_close(state *s)
{
    wharf_status status = wharf_node_close(&s->node);

    T_CHECK(s->node == NULL);
    s->buffers[0] = NULL;
    s->event = NULL;
    return status;
}

/* ---- Attach ------------------------------------------------------------ */

static wharf_status attach(state *s, unsigned flags, wharf_space space,
                           size_t size)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    options.flags = flags;
    options.space = space;
    options.name = "sweep";
    return wharf_buffer_attach(s->node, size, &options, &s->buffers[0]);
}

static wharf_status act_attach(state *s)
{
    return attach(s, 0, WHARF_SPACE_DEVICE, 5000 + (size_t)t_me * 3000);
}

/* Memory on one rank only. */
static wharf_status act_attach_one(state *s)
{
    return attach(s, 0, WHARF_SPACE_DEVICE, t_me == t_ranks - 1 ? 70000 : 0);
}

static wharf_status act_attach_contiguous(state *s)
{
    return attach(s, WHARF_BUFFER_CONTIGUOUS, WHARF_SPACE_DEVICE, 5000);
}

static wharf_status act_attach_same_address(state *s)
{
    return attach(s, WHARF_BUFFER_SAME_ADDRESS_REQUIRED, WHARF_SPACE_DEVICE,
                  5000);
}

static wharf_status act_attach_wish(state *s)
{
    return attach(s, WHARF_BUFFER_SAME_ADDRESS, WHARF_SPACE_DEVICE, 5000);
}

static wharf_status act_attach_zero_read_only(state *s)
{
    return attach(s, WHARF_BUFFER_ZERO | WHARF_BUFFER_READ_ONLY,
                  WHARF_SPACE_DEVICE, 5000);
}

static wharf_status act_attach_host(state *s)
{
    return attach(s, WHARF_BUFFER_ZERO, WHARF_SPACE_HOST, 5000);
}

static wharf_status act_attach_pooled(state *s)
{
    return attach(s, 0, WHARF_SPACE_DEVICE, 6000 + (size_t)t_me);
}

static wharf_status act_attach_pooled_zero(state *s)
{
    return attach(s, WHARF_BUFFER_ZERO, WHARF_SPACE_DEVICE,
                  6000 + (size_t)t_me);
}

static wharf_status act_attach_many(state *s)
{
    wharf_buffer_options options[3] = {WHARF_BUFFER_OPTIONS_INIT,
                                       WHARF_BUFFER_OPTIONS_INIT,
                                       WHARF_BUFFER_OPTIONS_INIT};
    size_t sizes[3] = {4000, t_me == 0 ? 0 : 5000, 6000 + (size_t)t_me};

    options[1].space = WHARF_SPACE_HOST;
    options[2].flags = WHARF_BUFFER_SAME_ADDRESS;
    return wharf_buffer_attach_many(s->node, 3, sizes, options, s->buffers);
}

static void check_buffers(state *s)
{
    for (int i = 0; i < 3; i++) {
        if (s->buffers[i] != NULL)
            t_share(s->node, s->buffers[i], 10 + (uint64_t)i);
    }
}

/* ---- Detach and trim --------------------------------------------------- */

static void prepare_detach(state *s)
{
    open_node(s);
    T_OK(act_attach(s));
}

static void prepare_detach_to_pool(state *s)
{
    sweep_node_open(s, WHARF_SWITCH_ON);
    T_OK(act_attach(s));
}

static wharf_status act_detach(state *s)
{
    wharf_status status = wharf_buffer_detach(&s->buffers[0]);

    T_CHECK(s->buffers[0] == NULL);
    return status;
}

static wharf_status act_trim(state *s)
{
    return wharf_pool_trim(s->node);
}

/* ---- Events and local calls -------------------------------------------- */

static wharf_status act_event_create(state *s)
{
    return wharf_event_create(s->node, t_ranks - 1, &s->event);
}

static void check_event(state *s)
{
    if (t_me == t_ranks - 1)
        T_OK(wharf_event_record(s->event, NULL, NULL));
    T_OK(wharf_event_synchronize(s->event, 1, 0));
    T_OK(wharf_event_wait(s->event, WHARF_LATEST, NULL));
}

static void prepare_event(state *s)
{
    open_node(s);
    T_OK(act_event_create(s));
}

static wharf_status act_event_destroy(state *s)
{
    wharf_status status = wharf_event_destroy(&s->event);

    T_CHECK(s->event == NULL);
    return status;
}

/* The owner records; a record that failed has no number and may be repeated. */
static wharf_status act_record(state *s)
{
    if (t_me != t_ranks - 1)
        return WHARF_OK;
    return wharf_event_record(s->event, NULL, NULL);
}

static void prepare_recorded(state *s)
{
    /* Complete, and no rank has asked Wharf yet, which would then know. */
    prepare_event(s);
    if (t_me == t_ranks - 1)
        T_OK(wharf_event_record(s->event, NULL, NULL));
    t_stream_sync(s->node, NULL);
    t_barrier();
}

static wharf_status act_wait(state *s)
{
    return wharf_event_wait(s->event, 1, NULL);
}

static wharf_status act_synchronize(state *s)
{
    return wharf_event_synchronize(s->event, 1, 0);
}

static wharf_status act_query(state *s)
{
    return wharf_event_query(s->event, 1);
}

static wharf_status act_table(state *s)
{
    void *const *table = NULL;
    wharf_status status = wharf_buffer_pointer_table(s->buffers[0], &table);

    T_CHECK((status == WHARF_OK) == (table != NULL));
    return status;
}

const scenario scenarios[] = {
    {"open", nothing, act_open, check_open, close_all, T_ANY, false, false},
    {"close", prepare_close, act_close, nothing, close_all, T_ANY, false, true},
    {"attach", open_node, act_attach, check_buffers, close_all, T_ANY, false,
     false},
    {"attach_one", open_node, act_attach_one, check_buffers, close_all, T_ANY,
     false, false},
    {"attach_contiguous", open_node, act_attach_contiguous, check_buffers,
     close_all, T_ANY, false, false},
    {"attach_same_address", open_node, act_attach_same_address, check_buffers,
     close_all, T_ANY, false, false},
    {"attach_wish", open_node, act_attach_wish, check_buffers, close_all, T_ANY,
     false, false},
    {"attach_zero_read_only", open_node, act_attach_zero_read_only, nothing,
     close_all, T_ANY, false, false},
    {"attach_host", open_node, act_attach_host, check_buffers, close_all, T_ANY,
     false, false},
    {"attach_pooled", open_pool_node, act_attach_pooled, check_buffers,
     close_all, T_ANY, false, false},
    {"attach_pooled_zero", open_pool_node, act_attach_pooled_zero,
     check_buffers, close_all, T_ANY, false, false},
    {"attach_many", open_node, act_attach_many, check_buffers, close_all, T_ANY,
     false, false},
    {"detach", prepare_detach, act_detach, nothing, close_all, T_ANY, false,
     true},
    {"detach_to_pool", prepare_detach_to_pool, act_detach, nothing, close_all,
     T_ANY, false, true},
    {"trim", open_pool_node, act_trim, nothing, close_all, T_ANY, false, true},
    {"event_create", open_node, act_event_create, check_event, close_all, T_ANY,
     false, false},
    {"event_destroy", prepare_recorded, act_event_destroy, nothing, close_all,
     T_ANY, false, true},
    {"event_record", prepare_event, act_record, nothing, close_all, T_ANY, true,
     false},
    {"event_wait", prepare_recorded, act_wait, nothing, close_all, T_ANY, true,
     false},
    {"event_synchronize", prepare_recorded, act_synchronize, nothing, close_all,
     T_ANY, true, false},
    {"event_query", prepare_recorded, act_query, nothing, close_all, T_ANY,
     true, false},
    {"pointer_table", prepare_detach, act_table, nothing, close_all, T_ANY,
     true, false},
    {NULL, NULL, NULL, NULL, NULL, 0, false, false},
};
