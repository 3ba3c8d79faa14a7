/* SPDX-License-Identifier: MIT */
/* Several buffers in one exchange: all or none, each as if attached alone. */
#include "t_group.h"

#include <mpi.h>
#include <string.h>

enum { MOST = 64 };

static size_t size_of(int rank, int index)
{
    return index % 5 == 4 ? 0 : (size_t)(rank * 131 + index * 1009 + 1);
}

/* Options of each kind in turn. */
static void options_fill(wharf_buffer_options *options, int count)
{
    static const unsigned flags[] = {
        0, WHARF_BUFFER_ZERO, WHARF_BUFFER_CONTIGUOUS, WHARF_BUFFER_READ_ONLY,
        WHARF_BUFFER_SAME_ADDRESS};
    static const wharf_buffer_options preset = WHARF_BUFFER_OPTIONS_INIT;

    for (int i = 0; i < count; i++) {
        options[i] = preset;
        options[i].space = i % 2 ? WHARF_SPACE_HOST : WHARF_SPACE_DEVICE;
        options[i].flags = flags[i % 5];
        options[i].name = "many";
    }
}

static void many(int count, bool with_options)
{
    wharf_node *node = t_open();
    wharf_buffer_options options[MOST];
    wharf_buffer *buffers[MOST] = {NULL};
    wharf_stats before = t_stats();
    size_t sizes[MOST];

    options_fill(options, count);
    for (int i = 0; i < count; i++)
        sizes[i] = size_of(t_me, i);
    T_OK(wharf_buffer_attach_many(node, count, sizes,
                                  with_options ? options : NULL, buffers));
    T_EQ_INT(before.live_buffers + count, t_stats().live_buffers);
    for (int i = 0; i < count; i++)
        t_fill_mine(node, buffers[i], (uint64_t)i);
    t_barrier();
    for (int i = 0; i < count; i++) {
        for (int rank = 0; rank < t_ranks; rank++) {
            size_t size;

            t_segment(buffers[i], rank, &size);
            T_EQ_INT(size_of(rank, i), size);
            t_check_segment(node, buffers[i], rank, (uint64_t)i);
        }
    }
    t_barrier();
    for (int i = count - 1; i >= 0; i--)
        t_detach(buffers[i]);
    t_close(node);
    t_live_check(NULL);
}

static void many_one(void)
{
    many(1, false);
}

static void many_mixed(void)
{
    many(7, true);
}

static void many_default(void)
{
    many(9, false);
}

static void many_most(void)
{
    many(MOST, true);
}

/* One of them bad: none is attached, no output touched. */
static void all_or_none(void)
{
    wharf_node *node = t_open();
    wharf_buffer_options options[3];
    wharf_buffer *marks[3];
    wharf_buffer *buffers[3];
    size_t sizes[3] = {1000, 2000, 3000};
    wharf_stats before = t_stats();

    options_fill(options, 3);
    for (int i = 0; i < 3; i++)
        buffers[i] = marks[i] = (wharf_buffer *)&marks[i];
    sizes[1] = t_me == t_ranks - 1 ? SIZE_MAX : 2000;
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, NULL,
            wharf_buffer_attach_many(node, 3, sizes, options, buffers));
    sizes[1] = 2000;
    options[2].flags = t_me == 0 ? WHARF_BUFFER_ZERO : 0;
    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, -1, "flags",
            wharf_buffer_attach_many(node, 3, sizes, options, buffers));
    T_CHECK(memcmp(buffers, marks, sizeof marks) == 0);
    t_live_check(&before);
    options[2].flags = 0;
    T_OK(wharf_buffer_attach_many(node, 3, sizes, options, buffers));
    for (int i = 0; i < 3; i++)
        t_share(node, buffers[i], 60 + (uint64_t)i);
    for (int i = 0; i < 3; i++)
        t_detach(buffers[i]);
    t_close(node);
    t_live_check(NULL);
}

static void count_out_of_range(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffers[MOST + 1] = {NULL};
    size_t sizes[MOST + 1] = {0};
    static const int bad[] = {0, -1, MOST + 1};

    for (int i = 0; i < 3; i++)
        T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "count",
                wharf_buffer_attach_many(node, bad[i], sizes, NULL, buffers));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, NULL,
            wharf_buffer_attach_many(node, 2, NULL, NULL, buffers));
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, NULL,
            wharf_buffer_attach_many(node, 2, sizes, NULL, NULL));
    t_close(node);
}

/* Ranks that ask for different numbers of buffers. */
static void count_mismatch(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffers[3] = {NULL};
    size_t sizes[3] = {64, 64, 64};
    int odd = t_ranks - 1;

    T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, odd, "count",
            wharf_buffer_attach_many(node, t_me == odd ? 3 : 2, sizes, NULL,
                                     buffers));
    T_CHECK(buffers[0] == NULL);
    t_detach(t_attach(node, 64, 0));
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"many_one", many_one, T_ANY},
    {"many_mixed", many_mixed, T_ANY},
    {"many_default", many_default, T_ANY},
    {"many_most", many_most, T_ANY},
    {"all_or_none", all_or_none, T_ANY},
    {"count_out_of_range", count_out_of_range, T_ANY},
    {"count_mismatch", count_mismatch, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
