/* SPDX-License-Identifier: MIT */
/*
 * Copies beyond 2 and 4 GiB, by engine and by kernel: pieces of all of it are
 * compared, and what lies behind the last byte. Needs GPUs with 16 GiB free for
 * each rank.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>

#define GIB ((size_t)1 << 30)
#define GUARD ((size_t)4096)

/* The pattern of a piece says which piece it is: 64 MiB each. */
#define PIECE ((size_t)64 << 20)

static void fill(const wharf_node *node, char *at, size_t bytes, uint64_t seed)
{
    for (size_t done = 0; done < bytes; done += PIECE)
        t_dev_fill(node, at + done,
                   (unsigned char)(seed + done / PIECE * 3 + 1),
                   bytes - done < PIECE ? bytes - done : PIECE);
}

/* Not all of it, which would take minutes: both ends, and pieces between. */
static void check(const wharf_node *node, const char *at, size_t bytes,
                  uint64_t seed)
{
    size_t pieces = (bytes + PIECE - 1) / PIECE;

    for (size_t i = 0; i < pieces; i++) {
        size_t now = i + 1 < pieces ? PIECE : bytes - i * PIECE;

        if (i > 0 && i + 2 < pieces && i % 8 != 7)
            continue;
        T_EQ_INT(-1, t_dev_check_value(node, at + i * PIECE, now,
                                       (unsigned char)(seed + i * 3 + 1)));
    }
}

static void lines(wharf_node *node, size_t bytes)
{
    wharf_buffer *from = t_attach(node, bytes, 0);
    wharf_buffer *to = t_attach(node, bytes + GUARD, 0);
    wharf_stream stream = t_stream_create(node);
    int next = (t_me + 1) % t_ranks, last = (t_me + t_ranks - 1) % t_ranks;
    char *mine = t_segment(from, t_me, NULL), *got = t_segment(to, t_me, NULL);

    fill(node, mine, bytes, (uint64_t)t_me * 40);
    t_dev_fill(node, got, 0xee, bytes + GUARD);
    t_barrier();
    T_OK(wharf_put(to, next, 0, mine, bytes, stream));
    t_stream_sync(node, stream);
    t_barrier();
    check(node, got, bytes, (uint64_t)last * 40);
    T_EQ_INT(-1, t_dev_check_value(node, got + bytes, GUARD, 0xee));
    t_barrier();
    T_OK(wharf_get(from, next, 0, got, bytes, stream));
    t_stream_sync(node, stream);
    check(node, got, bytes, (uint64_t)next * 40);
    T_EQ_INT(-1, t_dev_check_value(node, got + bytes, GUARD, 0xee));
    t_barrier();
    t_stream_destroy(node, stream);
    t_detach(to);
    t_detach(from);
}

/* Two planes of two wide rows each, more than 2 GiB from one to the next. */
static void boxes(wharf_node *node)
{
    wharf_box box = {PIECE, 2, 2, GIB, 3 * GIB, PIECE, 2 * PIECE};
    wharf_buffer *from = t_attach(node, 5 * GIB, 0);
    wharf_buffer *to = t_attach(node, 4 * PIECE + GUARD, 0);
    wharf_stream stream = t_stream_create(node);
    int next = (t_me + 1) % t_ranks;
    char *mine = t_segment(from, t_me, NULL), *got = t_segment(to, t_me, NULL);

    for (size_t i = 0; i < 4; i++)
        t_dev_fill(node, mine + i % 2 * GIB + i / 2 * 3 * GIB,
                   (unsigned char)(10 * t_me + (int)i + 1), PIECE);
    t_dev_fill(node, got, 0xee, 4 * PIECE + GUARD);
    t_barrier();
    T_OK(wharf_get_box(from, next, 0, got, &box, stream));
    t_stream_sync(node, stream);
    for (size_t i = 0; i < 4; i++)
        T_EQ_INT(-1,
                 t_dev_check_value(node, got + i * PIECE, PIECE,
                                   (unsigned char)(10 * next + (int)i + 1)));
    T_EQ_INT(-1, t_dev_check_value(node, got + 4 * PIECE, GUARD, 0xee));
    t_barrier();
    t_stream_destroy(node, stream);
    t_detach(to);
    t_detach(from);
}

static void beyond_two_gib(void)
{
    wharf_node *node = t_open();

    lines(node, 2 * GIB + 5);
    lines(node, 4 * GIB + 65536 + 3);
    boxes(node);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"beyond_two_gib", beyond_two_gib, T_GPU},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_FUNNELED, cases);
}
