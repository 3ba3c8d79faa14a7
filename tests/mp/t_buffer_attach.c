/* SPDX-License-Identifier: MIT */
/*
 * Attach and detach with sizes of every sort: what each rank writes into its
 * own segment is what every other rank reads through its pointer.
 */
#include "t_group.h"

#include <mpi.h>

/* Attaches with a size per rank, shares a pattern and checks what the queries
 * say. */
static void attach_sizes(size_t (*size_of)(int rank), uint64_t seed)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, size_of(t_me), 0);
    wharf_stats held = t_stats();

    T_EQ_INT(1, held.live_nodes);
    T_EQ_INT(1, held.live_buffers);
    for (int rank = 0; rank < t_ranks; rank++) {
        size_t size;

        t_segment(buffer, rank, &size);
        T_EQ_INT(size_of(rank), size);
    }
    t_share(node, buffer, seed);
    t_detach(buffer);
    T_EQ_INT(0, t_stats().live_buffers);
    t_close(node);
    t_live_check(NULL);
}

static size_t equal(int rank)
{
    (void)rank;
    return 1 << 20;
}

static size_t different(int rank)
{
    return (size_t)(rank + 1) * 70001 + 13;
}

static size_t some_empty(int rank)
{
    return rank % 2 ? 0 : (size_t)(rank + 1) * 4096;
}

static size_t first_only(int rank)
{
    return rank == 0 ? 300007 : 0;
}

static size_t last_only(int rank)
{
    return rank == t_ranks - 1 ? 300007 : 0;
}

static size_t tiny(int rank)
{
    return (size_t)(2 * rank + 1);
}

/* Several chunks of any chunk size and of the test's own copy pieces, not a
 * multiple of any. */
static size_t big(int rank)
{
    return ((size_t)5 << 20) + (size_t)rank * 4097 + 1;
}

static void sizes_equal(void)
{
    attach_sizes(equal, 1);
}

static void sizes_different(void)
{
    attach_sizes(different, 2);
}

static void sizes_some_empty(void)
{
    attach_sizes(some_empty, 3);
}

static void sizes_first_only(void)
{
    attach_sizes(first_only, 4);
}

static void sizes_last_only(void)
{
    attach_sizes(last_only, 5);
}

static void sizes_tiny(void)
{
    attach_sizes(tiny, 6);
}

static void sizes_big(void)
{
    attach_sizes(big, 7);
}

/* A buffer without a byte is still a buffer. */
static void sizes_all_zero(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 0, 0);
    void *base = &base;
    void *const *table = NULL;
    size_t size = 1;

    T_OK(wharf_buffer_base(buffer, &base, &size));
    T_CHECK(base == NULL);
    T_EQ_INT(0, size);
    for (int rank = 0; rank < t_ranks; rank++) {
        t_segment(buffer, rank, &size);
        T_EQ_INT(0, size);
        t_info(buffer, rank);
    }
    T_OK(wharf_buffer_pointer_table(buffer, &table));
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Segments do not overlap, and lie in the range that base tells. */
static void segments_apart(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, different(t_me), 0);
    void *base = NULL;
    size_t whole = 0;
    wharf_status status = wharf_buffer_base(buffer, &base, &whole);

    if (t_info(buffer, t_me).handle == WHARF_HANDLE_IPC &&
        wharf_node_gpus(node) > 1)
        T_EQ_INT(WHARF_EUNSUPPORTED, status);
    else
        T_EQ_INT(WHARF_OK, status);
    for (int a = 0; a < t_ranks; a++) {
        size_t a_size;
        uintptr_t at = (uintptr_t)t_segment(buffer, a, &a_size);

        if (status == WHARF_OK) {
            T_CHECK(at >= (uintptr_t)base);
            T_CHECK(at + a_size <= (uintptr_t)base + whole);
        }
        for (int b = 0; b < a; b++) {
            size_t b_size;
            uintptr_t other = (uintptr_t)t_segment(buffer, b, &b_size);

            T_CHECK(at + a_size <= other || other + b_size <= at);
        }
    }
    t_detach(buffer);
    t_close(node);
}

/* Everybody writes into somebody else's segment; its rank reads it. */
static void write_to_others(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, different(t_me), 0);
    int next = (t_me + 1) % t_ranks;
    size_t size;
    void *there = t_segment(buffer, next, &size);
    void *mine;

    t_dev_fill_pattern(t_place(node, buffer, next), there, size,
                       900 + (uint64_t)next);
    t_barrier();
    mine = t_segment(buffer, t_me, &size);
    T_EQ_INT(-1, t_dev_check_pattern(t_place(node, buffer, t_me), mine, size,
                                     900 + (uint64_t)t_me));
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

/* Many buffers at once, detached in another order than attached. */
static void several_at_once(void)
{
    enum { COUNT = 6 };
    static const int order[COUNT] = {3, 0, 5, 1, 4, 2};
    wharf_node *node = t_open();
    wharf_buffer *buffers[COUNT];

    for (int i = 0; i < COUNT; i++)
        buffers[i] = t_attach(node, different(t_me) + (size_t)i * 511, 0);
    for (int i = 0; i < COUNT; i++)
        t_fill_mine(node, buffers[i], 40 + (uint64_t)i);
    t_barrier();
    for (int i = 0; i < COUNT; i++) {
        for (int j = i; j < COUNT; j++) {
            for (int rank = 0; rank < t_ranks; rank++)
                t_check_segment(node, buffers[order[j]], rank,
                                40 + (uint64_t)order[j]);
        }
        t_barrier();
        t_detach(buffers[order[i]]);
        T_EQ_INT(COUNT - 1 - i, t_stats().live_buffers);
    }
    t_close(node);
    t_live_check(NULL);
}

/* The table holds what wharf_buffer_segment gives, and is made once. */
static void pointer_table(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, some_empty(t_me), 0);
    void *const *table = NULL;
    void *const *again = NULL;
    void *copy[64];

    T_CHECK(t_ranks <= 64);
    T_OK(wharf_buffer_pointer_table(buffer, &table));
    T_OK(wharf_buffer_pointer_table(buffer, &again));
    T_EQ_PTR((const void *)table, (const void *)again);
    t_dev_read(node, copy, (const void *)table,
               (size_t)t_ranks * sizeof copy[0]);
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_PTR(t_segment(buffer, rank, NULL), copy[rank]);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* What _info says must fit the node and the other queries. */
static void info_fields(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, different(t_me), 0);

    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_buffer_info info = t_info(buffer, rank);
        wharf_device device = WHARF_DEVICE_INIT;
        wharf_link link = WHARF_LINK_INIT;

        T_EQ_INT(sizeof info, info.struct_size);
        T_OK(wharf_node_device(node, rank, &device));
        T_OK(wharf_node_link(node, t_me, rank, &link));
        T_EQ_INT(device.owner, info.owner);
        T_EQ_INT(link.path, info.path);
        T_CHECK(info.chunks >= 1);
        T_CHECK(info.chunk_bytes > 0);
        T_CHECK(info.mapped_bytes >= different(rank));
        T_EQ_INT(0, info.write_protected);
        T_EQ_INT(0, info.pooled);
        T_CHECK(info.reason[0] != '\0');
        if (t_mode_get() == T_HOST) {
            T_EQ_INT(WHARF_HANDLE_MEMFD, info.handle);
            T_EQ_INT(WHARF_SPACE_HOST, info.space);
            T_EQ_INT(rank == t_me ? WHARF_PATH_SAME_PROCESS : WHARF_PATH_HOST,
                     info.path);
        } else {
            T_CHECK(info.handle != WHARF_HANDLE_MEMFD);
            T_EQ_INT(WHARF_SPACE_DEVICE, info.space);
        }
    }
    t_detach(buffer);
    t_close(node);
}

/* Bytes held are told while held: the owners' blocks are what others import. */
static void stats_of_a_buffer(void)
{
    wharf_node *node = t_open();
    wharf_stats before = t_stats();
    wharf_buffer *buffer = t_attach(node, equal(t_me), 0);
    wharf_stats held = t_stats();
    wharf_device device = WHARF_DEVICE_INIT;
    int64_t blocks = t_mode_get() == T_HOST ? 1 : wharf_node_gpus(node);
    bool owner;

    T_OK(wharf_node_device(node, t_me, &device));
    owner = device.owner == t_me;
    T_EQ_INT(before.attaches_count + 1, held.attaches_count);
    T_EQ_INT(before.live_events + t_ranks, held.live_events);
    T_EQ_INT(owner, held.live_blocks_owned - before.live_blocks_owned);
    T_EQ_INT(blocks - owner,
             held.live_blocks_imported - before.live_blocks_imported);
    if (t_mode_get() != T_HOST) {
        T_CHECK(!owner ||
                held.live_device_bytes_owned >=
                    before.live_device_bytes_owned + device.users * 1048576);
    }
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"sizes_equal", sizes_equal, T_ANY},
    {"sizes_different", sizes_different, T_ANY},
    {"sizes_some_empty", sizes_some_empty, T_ANY},
    {"sizes_first_only", sizes_first_only, T_ANY},
    {"sizes_last_only", sizes_last_only, T_ANY},
    {"sizes_tiny", sizes_tiny, T_ANY},
    {"sizes_big", sizes_big, T_ANY},
    {"sizes_all_zero", sizes_all_zero, T_ANY},
    {"segments_apart", segments_apart, T_ANY},
    {"write_to_others", write_to_others, T_ANY},
    {"several_at_once", several_at_once, T_ANY},
    {"pointer_table", pointer_table, T_ANY},
    {"info_fields", info_fields, T_ANY},
    {"stats_of_a_buffer", stats_of_a_buffer, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
