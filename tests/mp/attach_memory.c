/* SPDX-License-Identifier: MIT */
/* What the tests of wharf_buffer_attach_memory share: see attach_memory.h. */
#include "attach_memory.h"

wharf_status t_mine_attach(wharf_node *node, void *pointer, size_t size,
                           unsigned flags, wharf_buffer **buffer)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    options.flags = flags;
    options.name = "existing";
    return wharf_buffer_attach_memory(node, pointer, size, &options, buffer);
}

wharf_buffer *t_mine_attached(wharf_node *node, void *pointer, size_t size,
                              unsigned flags)
{
    wharf_buffer *buffer = NULL;

    T_OK(t_mine_attach(node, pointer, size, flags, &buffer));
    T_CHECK(buffer != NULL);
    return buffer;
}

char *t_mine_segment(const wharf_buffer *buffer, int rank, size_t *size)
{
    void *pointer = NULL;
    size_t bytes = 0;

    T_OK(wharf_buffer_segment(buffer, rank, &pointer, &bytes));
    if (size != NULL)
        *size = bytes;
    return pointer;
}

bool t_mine_direct(t_kind kind)
{
    return kind == T_KIND_PLAIN || kind == T_KIND_SMALL ||
           kind == T_KIND_PIECES || kind == T_KIND_POOL;
}

static wharf_handle_kind handle_of(t_kind kind)
{
    switch (kind) {
    case T_KIND_PLAIN:
    case T_KIND_SMALL:
        return WHARF_HANDLE_IPC;
    case T_KIND_PIECES:
        return WHARF_HANDLE_VMM;
    case T_KIND_POOL:
        return WHARF_HANDLE_POOL;
    default:
        return WHARF_HANDLE_MEMFD;
    }
}

uint64_t t_mine_seed(uint64_t seed, int rank)
{
    return seed * 1009 + (uint64_t)rank;
}

void t_mine_fill(const wharf_node *node, const t_memory *m, uint64_t seed)
{
    t_dev_fill_pattern(t_memory_place(node, m), m->pointer, m->bytes,
                       t_mine_seed(seed, t_me));
}

void t_mine_check(const wharf_node *node, const t_memory *m, uint64_t seed)
{
    long long wrong = t_dev_check_pattern(t_memory_place(node, m), m->pointer,
                                          m->bytes, t_mine_seed(seed, t_me));

    if (wrong >= 0)
        T_FAIL("%s: own memory is wrong from byte %lld on",
               t_kind_name(m->kind), wrong);
}

/* What lies around the memory in its allocation is as it was. */
static void check_around(const wharf_node *node, const t_memory *m)
{
    const wharf_node *place = t_memory_place(node, m);
    size_t before = (size_t)(m->pointer - m->base);

    T_EQ_INT(-1, t_dev_check_value(place, m->base, before, 0x5b));
    T_EQ_INT(-1, t_dev_check_value(place, m->pointer + m->bytes,
                                   m->whole - before - m->bytes, 0x5b));
}

void t_mine_check_all(const wharf_node *node, const wharf_buffer *buffer,
                      uint64_t seed, const char *what)
{
    for (int r = 0; r < t_ranks; r++) {
        size_t size;
        char *at = t_mine_segment(buffer, r, &size);
        long long wrong = t_dev_check_pattern(t_place(node, buffer, r), at,
                                              size, t_mine_seed(seed, r));

        if (wrong >= 0)
            T_FAIL("%s: memory of rank %d (%zu bytes) is wrong from byte %lld "
                   "on",
                   what, r, size, wrong);
    }
}

/* The left neighbour's memory is written by this rank, through its mapping. */
static void write_left(const wharf_node *node, const wharf_buffer *buffer,
                       uint64_t seed)
{
    int left = (t_me + t_ranks - 1) % t_ranks;
    size_t size;
    char *at = t_mine_segment(buffer, left, &size);

    t_dev_fill_pattern(t_place(node, buffer, left), at, size,
                       t_mine_seed(seed, left));
}

void t_mine_check_info(const wharf_buffer *buffer, int rank, t_kind kind,
                       size_t size)
{
    wharf_buffer_info info = t_info(buffer, rank);

    T_EQ_INT(1, info.existing);
    T_EQ_INT(0, info.pooled);
    T_CHECK(info.reason[0] != '\0');
    T_EQ_INT(size == 0 ? -1 : rank, info.owner);
    if (size == 0)
        return;
    T_EQ_INT(handle_of(kind), info.handle);
    T_EQ_INT(!t_mine_direct(kind), info.mirrored);
    T_CHECK(info.chunks >= 1 && info.chunk_bytes > 0);
    if (!t_mine_direct(kind))
        T_CONTAINS("mirror", info.reason);
    if (rank != t_me)
        T_EQ_INT(t_mine_direct(kind) ? WHARF_SPACE_DEVICE : WHARF_SPACE_HOST,
                 info.space);
}

/* All that a buffer of this memory must do, on every rank. */
void t_mine_use(wharf_node *node, wharf_buffer *buffer, const t_memory *m,
                uint64_t seed)
{
    const char *what = t_kind_name(m->kind);

    T_EQ_PTR(m->bytes ? m->pointer : NULL, t_mine_segment(buffer, t_me, NULL));
    t_mine_check_all(node, buffer, seed, what);
    t_barrier();
    write_left(node, buffer, seed + 1);
    t_barrier();
    T_OK(wharf_buffer_sync_from(buffer, 0, 0, NULL));
    t_stream_sync(node, NULL);
    t_mine_check(node, m, seed + 1);
    check_around(node, m);
    t_barrier();
    t_mine_fill(node, m, seed + 2);
    T_OK(wharf_buffer_sync_to(buffer, 0, 0, NULL));
    t_stream_sync(node, NULL);
    t_barrier();
    t_mine_check_all(node, buffer, seed + 2, what);
    t_barrier();
}

/* A kind that every backend has, and the flag it needs. */
t_kind t_mine_usual(void)
{
    return t_mode_get() == T_HOST ? T_KIND_HOST : T_KIND_PLAIN;
}
