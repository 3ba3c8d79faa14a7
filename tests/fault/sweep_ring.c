/* SPDX-License-Identifier: MIT */
/* Scenarios of the sweep with rings, and with host memory that the driver
 * makes: see sweep.h. Rank 0 produces. */
#include "sweep.h"

#include <mpi.h>
#include <string.h>

/* A slot that an act has begun, and whose end failed. */
static bool begun;

static void open_node(state *s)
{
    begun = false;
    sweep_node_open(s, WHARF_SWITCH_OFF);
}

static void close_all(state *s)
{
    if (s->ring != NULL)
        T_OK(wharf_ring_destroy(&s->ring));
    if (s->buffers[0] != NULL)
        T_OK(wharf_buffer_detach(&s->buffers[0]));
    sweep_node_close(s);
}

static void nothing(state *s)
{
    (void)s;
}

static wharf_status create(state *s, wharf_ring_mode mode, wharf_space space)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    options.slots = 2;
    options.slot_bytes = 700000;
    options.mode = mode;
    options.space = space;
    return wharf_ring_create(s->node, &options, &s->ring);
}

static wharf_status act_create(state *s)
{
    return create(s, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
}

static wharf_status act_create_shared(state *s)
{
    return create(s, WHARF_RING_SHARED, WHARF_SPACE_HOST);
}

static wharf_status produce(state *s)
{
    wharf_status status = WHARF_OK;
    void *slot;

    if (!begun)
        status = wharf_ring_produce_begin(s->ring, NULL, &slot, NULL);
    if (status != WHARF_OK)
        return status;
    begun = true;
    status = wharf_ring_produce_end(s->ring, 64, NULL);
    begun = status != WHARF_OK;
    return status;
}

static wharf_status consume(state *s)
{
    wharf_status status = WHARF_OK;
    const void *slot;

    if (!begun)
        status = wharf_ring_consume_begin(s->ring, NULL, &slot, NULL);
    if (status != WHARF_OK)
        return status;
    begun = true;
    status = wharf_ring_consume_end(s->ring, NULL);
    begun = status != WHARF_OK;
    return status;
}

/* Four more slots, and the end. */
static void check_ring(state *s)
{
    for (int i = 0; t_me == 0 && i < 4; i++)
        T_OK(produce(s));
    if (t_me == 0)
        T_OK(wharf_ring_close(s->ring));
    while (t_me != 0) {
        wharf_status status = consume(s);

        if (status == WHARF_ECLOSED)
            break;
        T_OK(status);
    }
    t_stream_sync(s->node, NULL);
    t_barrier();
}

static void prepare_ring(state *s)
{
    open_node(s);
    T_OK(act_create(s));
}

static void prepare_filled(state *s)
{
    prepare_ring(s);
    for (int i = 0; t_me == 0 && i < 2; i++)
        T_OK(produce(s));
    t_stream_sync(s->node, NULL);
    t_barrier();
}

static wharf_status act_destroy(state *s)
{
    wharf_status status = wharf_ring_destroy(&s->ring);

    T_CHECK(s->ring == NULL);
    return status;
}

static wharf_status act_produce(state *s)
{
    return t_me == 0 ? produce(s) : WHARF_OK;
}

static wharf_status act_consume(state *s)
{
    return t_me == 0 ? WHARF_OK : consume(s);
}

static wharf_status act_leave(state *s)
{
    return t_me == 0 ? WHARF_OK : wharf_ring_leave(s->ring, NULL);
}

static void check_left(state *s)
{
    t_barrier();
    for (int i = 0; t_me == 0 && i < 4; i++)
        T_OK(produce(s));
    t_stream_sync(s->node, NULL);
    t_barrier();
}

static wharf_status act_close(state *s)
{
    wharf_status status = wharf_node_close(&s->node);

    T_CHECK(s->node == NULL);
    s->ring = NULL;
    return status;
}

/* ---- Host memory by the driver ------------------------------------------- */

static wharf_status act_attach_driver(state *s)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    options.space = WHARF_SPACE_HOST;
    return wharf_buffer_attach(s->node, 3 << 20, &options, &s->buffers[0]);
}

static void check_driver(state *s)
{
    memset(t_segment(s->buffers[0], t_me, NULL), t_me + 1, 3 << 20);
    t_barrier();
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_INT(-1,
                 t_dev_check_value(NULL, t_segment(s->buffers[0], rank, NULL),
                                   3 << 20, (unsigned char)(rank + 1)));
    t_barrier();
}

const scenario ring_scenarios[] = {
    {"ring_create", open_node, act_create, check_ring, close_all, T_ANY, false,
     false},
    {"ring_create_shared", open_node, act_create_shared, check_ring, close_all,
     T_ANY, false, false},
    {"ring_destroy", prepare_ring, act_destroy, nothing, close_all, T_ANY,
     false, true},
    {"ring_produce", prepare_ring, act_produce, check_ring, close_all, T_ANY,
     true, false},
    {"ring_consume", prepare_filled, act_consume, check_ring, close_all, T_ANY,
     true, false},
    {"ring_leave", prepare_filled, act_leave, check_left, close_all, T_ANY,
     true, false},
    {"ring_close_node", prepare_filled, act_close, nothing, close_all, T_ANY,
     false, true},
    {"attach_driver_host", open_node, act_attach_driver, check_driver,
     close_all, T_FAKE, false, false},
    {NULL, NULL, NULL, NULL, NULL, 0, false, false},
};
