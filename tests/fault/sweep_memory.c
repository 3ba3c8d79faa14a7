/* SPDX-License-Identifier: MIT */
/* Scenarios of the fault sweep: memory that the ranks had before. */
#include "sweep.h"
#include "t_memory.h"

#include <mpi.h>

#define BYTES ((size_t)70001)

static t_memory memory;

static uint64_t seed(int rank)
{
    return 500 + (uint64_t)rank;
}

/* A node, and memory of a kind on each rank. */
static void prepare(state *s, t_kind kind)
{
    sweep_node_open(s, WHARF_SWITCH_OFF);
    if (!t_kind_possible(s->node, kind))
        kind = T_KIND_HOST;
    memory = t_memory_new(s->node, kind, 300, BYTES, 0);
    t_dev_fill_pattern(t_memory_place(s->node, &memory), memory.pointer, BYTES,
                       seed(t_me));
}

static void prepare_direct(state *s)
{
    static const t_kind kinds[] = {T_KIND_PLAIN, T_KIND_PIECES, T_KIND_POOL};

    prepare(s, kinds[t_me % 3]);
}

static void prepare_mirrors(state *s)
{
    static const t_kind kinds[] = {T_KIND_HOST, T_KIND_MANAGED, T_KIND_PINNED};

    prepare(s, kinds[t_me % 3]);
}

static wharf_status act(state *s)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    /* What a direct kind fails with must not turn into a mirror. */
    options.flags = t_kind_on_host(memory.kind) || memory.kind > T_KIND_POOL
                        ? WHARF_BUFFER_STAGE_ALLOWED
                        : 0;
    options.name = "sweep";
    return wharf_buffer_attach_memory(s->node, memory.pointer, BYTES, &options,
                                      &s->buffers[0]);
}

static void check(state *s)
{
    for (int rank = 0; rank < t_ranks; rank++) {
        void *at = NULL;

        T_OK(wharf_buffer_segment(s->buffers[0], rank, &at, NULL));
        T_EQ_INT(-1, t_dev_check_pattern(t_place(s->node, s->buffers[0], rank),
                                         at, BYTES, seed(rank)));
    }
    t_barrier();
}

static void finish(state *s)
{
    if (s->buffers[0] != NULL)
        t_detach(s->buffers[0]);
    s->buffers[0] = NULL;
    t_memory_free(s->node, &memory);
    sweep_node_close(s);
}

static void prepare_attached(state *s)
{
    prepare_direct(s);
    T_OK(act(s));
}

static wharf_status act_detach(state *s)
{
    wharf_status status = wharf_buffer_detach(&s->buffers[0]);

    T_CHECK(s->buffers[0] == NULL);
    return status;
}

static void nothing(state *s)
{
    (void)s;
}

static void prepare_mirrored(state *s)
{
    prepare_mirrors(s);
    T_OK(act(s));
}

static wharf_status act_sync(state *s)
{
    wharf_status status = wharf_buffer_sync_to(s->buffers[0], 1, 0, NULL);

    return status == WHARF_OK
               ? wharf_buffer_sync_from(s->buffers[0], 0, 5, NULL)
               : status;
}

const scenario memory_scenarios[] = {
    {"attach_memory", prepare_direct, act, check, finish, T_ANY, false, false},
    {"attach_memory_mirrors", prepare_mirrors, act, check, finish, T_ANY, false,
     false},
    {"detach_memory", prepare_attached, act_detach, nothing, finish, T_ANY,
     false, true},
    {"sync_memory", prepare_mirrored, act_sync, check, finish, T_ANY, true,
     false},
    {NULL, NULL, NULL, NULL, NULL, 0, false, false},
};
