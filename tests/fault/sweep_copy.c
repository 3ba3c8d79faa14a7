/* SPDX-License-Identifier: MIT */
/* Scenarios of the sweep with copies: see sweep.h. The last rank copies from
 * and to rank 0. */
#include "sweep.h"

#include <mpi.h>

/* Of each segment; more than a kernel copies without a notify. */
enum { BYTES = 2 << 20 };

static void prepare(state *s)
{
    sweep_node_open(s, WHARF_SWITCH_OFF);
    for (int i = 0; i < 2; i++)
        s->buffers[i] = t_attach(s->node, BYTES, 0);
    T_OK(wharf_notify_create(s->node, 0, NULL, &s->notify));
    t_dev_fill(s->node, t_segment(s->buffers[0], t_me, NULL),
               (unsigned char)(t_me + 1), BYTES);
    t_barrier();
}

static void finish(state *s)
{
    T_OK(wharf_notify_destroy(&s->notify));
    for (int i = 0; i < 2; i++)
        t_detach(s->buffers[i]);
    sweep_node_close(s);
}

static bool copies(void)
{
    return t_me == t_ranks - 1;
}

static void *mine(const state *s, int which)
{
    return t_segment(s->buffers[which], t_me, NULL);
}

static wharf_status put(state *s, size_t bytes)
{
    return copies() ? wharf_put(s->buffers[1], 0, 0, mine(s, 0), bytes, NULL)
                    : WHARF_OK;
}

static wharf_status act_put(state *s)
{
    return put(s, 4096);
}

static wharf_status act_put_large(state *s)
{
    return put(s, BYTES);
}

/* From memory that the driver has to be asked about. */
static wharf_status act_put_pageable(state *s)
{
    static char plain[4096];

    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)t_ranks;
    return copies() ? wharf_put(s->buffers[1], 0, 0, plain, sizeof plain, NULL)
                    : WHARF_OK;
}

static wharf_status box(state *s, size_t width, size_t rows, size_t planes)
{
    wharf_box b = WHARF_BOX_INIT;

    b.width = width;
    b.rows = rows;
    b.planes = planes;
    b.from_pitch = b.to_pitch = width + 16;
    b.from_plane = b.to_plane = 2 * rows * (width + 16);
    return copies() ? wharf_put_box(s->buffers[1], 0, 0, mine(s, 0), &b, NULL)
                    : WHARF_OK;
}

static wharf_status act_put_columns(state *s)
{
    return box(s, 16, 100, 3);
}

static wharf_status act_put_faces(state *s)
{
    return box(s, 100000, 5, 2);
}

static wharf_status act_put_notify(state *s)
{
    return copies() ? wharf_put_notify(s->buffers[1], 0, 0, mine(s, 0), 4096,
                                       s->notify, NULL)
                    : WHARF_OK;
}

static void check_first(state *s)
{
    t_stream_sync(s->node, NULL);
    t_barrier();
    if (t_me == 0)
        T_EQ_INT(-1, t_dev_check_value(s->node, mine(s, 1), 16,
                                       (unsigned char)t_ranks));
    t_barrier();
}

static void check_notified(state *s)
{
    if (t_me == 0)
        T_OK(wharf_notify_wait_host(s->notify, t_ranks - 1, 0));
    check_first(s);
}

const scenario copy_scenarios[] = {
    {"put", prepare, act_put, check_first, finish, T_ANY, true, false},
    {"put_large", prepare, act_put_large, check_first, finish, T_ANY, true,
     false},
    {"put_pageable", prepare, act_put_pageable, check_first, finish, T_ANY,
     true, false},
    {"put_columns", prepare, act_put_columns, check_first, finish, T_ANY, true,
     false},
    {"put_faces", prepare, act_put_faces, check_first, finish, T_ANY, true,
     false},
    {"put_notify", prepare, act_put_notify, check_notified, finish, T_ANY, true,
     false},
    {NULL, NULL, NULL, NULL, NULL, 0, false, false},
};
