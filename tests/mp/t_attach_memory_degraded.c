/* SPDX-License-Identifier: MIT */
/*
 * Memory that the ranks had before, on machines that cannot do all: argv[1]
 * names the machine, which the fake driver pretends to be by the environment
 * that memory.cmake gives with it.
 */
#include "attach_memory.h"

#include <mpi.h>
#include <string.h>

static wharf_node *open_strict(wharf_switch strict)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.strict = strict;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    return node;
}

/* Refused with `status` and `part`; mirrored if it may be, with a reason;
 * refused again by a strict node. */
static void pair_without(wharf_status status, const char *part)
{
    wharf_node *node = open_strict(WHARF_SWITCH_OFF);
    t_kind kinds[] = {T_KIND_PLAIN, T_KIND_PIECES, T_KIND_POOL};
    int64_t degraded = t_stats().degraded_count;
    wharf_buffer *buffer = NULL;

    for (int k = 0; k < 3; k++) {
        t_memory m = t_memory_new(node, kinds[k], 100, 3 << 20, 0);
        wharf_stats before = t_stats();

        t_mine_fill(node, &m, 5);
        T_FAILS(MPI_COMM_WORLD, status, -1, part,
                t_mine_attach(node, m.pointer, m.bytes, 0, &buffer));
        T_CHECK(buffer == NULL);
        t_live_check(&before);
        buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
        for (int r = 0; r < t_ranks; r++) {
            T_EQ_INT(1, t_info(buffer, r).mirrored);
            T_CONTAINS(part, t_info(buffer, r).reason);
        }
        t_mine_use(node, buffer, &m, 5);
        t_detach(buffer);
        T_EQ_INT(degraded + k + 1, t_stats().degraded_count);
        buffer = NULL;
        t_memory_free(node, &m);
    }
    t_close(node);

    node = open_strict(WHARF_SWITCH_ON);
    t_memory m = t_memory_new(node, T_KIND_PLAIN, 0, 3 << 20, 0);
    t_mine_fill(node, &m, 6);
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEGRADED, -1, part,
            t_mine_attach(node, m.pointer, m.bytes, STAGE, &buffer));
    T_CHECK(buffer == NULL);
    t_memory_free(node, &m);
    /* Memory that has no other way is what was asked for. */
    m = t_memory_new(node, T_KIND_HOST, 0, 5000, 0);
    t_mine_fill(node, &m, 7);
    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    t_mine_use(node, buffer, &m, 7);
    t_detach(buffer);
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

static void no_peers(void)
{
    pair_without(WHARF_EUNSUPPORTED, "does not reach");
}

static void broken_pair(void)
{
    pair_without(WHARF_EDATA, "is another one");
}

/* Where plain memory has no handles it is refused by name. */
static void no_ipc(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, T_KIND_PLAIN, 0, 3 << 20, 0);
    wharf_buffer *buffer = NULL;

    t_mine_fill(node, &m, 5);
    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, 0, "no handles here",
            t_mine_attach(node, m.pointer, m.bytes, 0, &buffer));
    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    t_mine_use(node, buffer, &m, 5);
    t_detach(buffer);
    t_memory_free(node, &m);
    m = t_memory_new(node, T_KIND_PIECES, 0, 3 << 20, 0);
    t_mine_fill(node, &m, 5);
    buffer = t_mine_attached(node, m.pointer, m.bytes, 0);
    t_mine_use(node, buffer, &m, 5);
    t_detach(buffer);
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

/* Nothing that a mirror could be made of. */
static void no_map_host(void)
{
    wharf_node *node = t_open();
    t_memory host = t_memory_new(node, T_KIND_HOST, 0, 3 << 20, 0);
    t_memory m = t_memory_new(node, T_KIND_PLAIN, 0, 3 << 20, 0);
    wharf_buffer *buffer = NULL;

    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, -1, "needs shared host memory",
            t_mine_attach(node, host.pointer, host.bytes, STAGE, &buffer));
    t_mine_fill(node, &m, 5);
    buffer = t_mine_attached(node, m.pointer, m.bytes, 0);
    t_mine_use(node, buffer, &m, 5);
    t_detach(buffer);
    t_memory_free(node, &m);
    t_memory_free(node, &host);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"no_peers", no_peers, T_FAKE},
    {"broken_pair", broken_pair, T_FAKE},
    {"no_ipc", no_ipc, T_FAKE},
    {"no_map_host", no_map_host, T_FAKE},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
