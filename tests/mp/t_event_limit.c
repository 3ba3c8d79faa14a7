/* SPDX-License-Identifier: MIT */
/*
 * Events run out: what the pool keeps takes slots too, and gives them up before
 * a call is refused. Sees the internals, for nobody would make 65536 events in
 * a test.
 */
#include "t_group.h"

#include <mpi.h>
#include <string.h>

#include "core/core.h"

static uint8_t kept[WHARF_MAX_EVENTS];

/* All slots are taken, alike on every rank. */
static void use_up(wharf_node *node)
{
    memcpy(kept, node->slot_used, sizeof kept);
    memset(node->slot_used, 1, sizeof kept);
    node->slots_from = WHARF_MAX_EVENTS;
}

static void undo(wharf_node *node)
{
    for (int i = 0; i < WHARF_MAX_EVENTS; i++)
        node->slot_used[i] &= kept[i];
    node->slots_from = 0;
}

static void pool_gives_up(void)
{
    wharf_node *node = t_open();
    wharf_event *event = NULL, *more = NULL, *rest[16];
    wharf_buffer *buffer = t_attach(node, 5000, 0);

    t_detach(buffer);
    T_CHECK(t_stats().pooled_bytes > 0);
    use_up(node);
    T_OK(wharf_event_create(node, 0, &event));
    T_EQ_INT(0, t_stats().pooled_bytes);
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_synchronize(event, 1, 0));
    /* A buffer gave a slot for each rank; those are all there are. */
    T_CHECK(t_ranks <= 16);
    for (int i = 1; i < t_ranks; i++)
        T_OK(wharf_event_create(node, 0, &rest[i]));
    T_FAILS(MPI_COMM_WORLD, WHARF_ELIMIT, 0, "events are free",
            wharf_event_create(node, 0, &more));
    T_CHECK(more == NULL);
    for (int i = 1; i < t_ranks; i++)
        T_OK(wharf_event_destroy(&rest[i]));
    T_OK(wharf_event_destroy(&event));
    undo(node);
    buffer = t_attach(node, 5000, 0);
    t_share(node, buffer, 3);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"pool_gives_up", pool_gives_up, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
