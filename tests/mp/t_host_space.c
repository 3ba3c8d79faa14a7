/* SPDX-License-Identifier: MIT */
/*
 * Host space: one memory for the CPUs of all ranks and for their GPUs, by
 * either kind; what decides which; placing, page sizes; what is refused.
 *
 * T_EXPECT_LARGE: the kind that large buffers must have, if it is set.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { LARGE = (1 << 20) + 8192, SMALL = 5000 };

static wharf_buffer *attach(wharf_node *node, size_t size, unsigned flags)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;

    options.space = WHARF_SPACE_HOST;
    options.flags = flags;
    T_OK(wharf_buffer_attach(node, size, &options, &buffer));
    return buffer;
}

/* By the CPU of one rank, and by CPU and GPU of the others; then by GPUs. */
static void check_both_ways(wharf_node *node, wharf_buffer *buffer)
{
    size_t size;
    char *mine = t_segment(buffer, t_me, &size);

    t_dev_fill_pattern(NULL, mine, size, (uint64_t)t_me + 1);
    t_barrier();
    for (int rank = 0; rank < t_ranks; rank++) {
        char *there = t_segment(buffer, rank, &size);

        T_EQ_INT(-1,
                 t_dev_check_pattern(NULL, there, size, (uint64_t)rank + 1));
        T_EQ_INT(-1,
                 t_dev_check_pattern(node, there, size, (uint64_t)rank + 1));
    }
    t_barrier();
    mine = t_segment(buffer, t_me, &size);
    t_dev_fill_pattern(node, mine, size, (uint64_t)t_me + 101);
    t_barrier();
    for (int rank = 0; rank < t_ranks; rank++) {
        char *there = t_segment(buffer, rank, &size);

        T_EQ_INT(-1,
                 t_dev_check_pattern(NULL, there, size, (uint64_t)rank + 101));
    }
    t_barrier();
}

static void expect_kind(const wharf_buffer *buffer, const char *expected)
{
    wharf_buffer_info info = t_info(buffer, 0);

    T_EQ_INT(WHARF_SPACE_HOST, info.space);
    T_CHECK(info.reason[0] != '\0');
    if (expected != NULL)
        T_EQ_STR(expected, wharf_handle_kind_name(info.handle));
    T_SAME(info.handle);
}

static void kinds(void)
{
    const char *large = getenv("T_EXPECT_LARGE");
    const char *forced = getenv("WHARF_HOST_MEMORY");
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach(node, LARGE, 0);

    if (t_mode_get() == T_HOST)
        large = "memfd";
    expect_kind(buffer, large);
    check_both_ways(node, buffer);
    t_detach(buffer);
    buffer = attach(node, SMALL, 0);
    expect_kind(buffer, forced ? large : "memfd");
    check_both_ways(node, buffer);
    t_detach(buffer);
    /* From the pool, if it is kept, and new beside it. */
    buffer = attach(node, LARGE, 0);
    expect_kind(buffer, large);
    check_both_ways(node, buffer);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* One rank alone has memory: it owns the block, so that its touch places it. */
static void owned_by_its_rank(void)
{
    int producer = t_ranks - 1;
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach(node, t_me == producer ? LARGE : 0, 0);

    T_EQ_INT(producer, t_info(buffer, producer).owner);
    check_both_ways(node, buffer);
    t_detach(buffer);
    t_close(node);
}

static void zeroed(void)
{
    wharf_node *node = t_open();

    for (int round = 0; round < 2; round++) {
        wharf_buffer *buffer = attach(node, LARGE, WHARF_BUFFER_ZERO);
        size_t size;
        char *mine = t_segment(buffer, t_me, &size);

        T_EQ_INT(-1, t_dev_check_value(NULL, mine, size, 0));
        t_barrier();
        memset(mine, 0x5a, size);
        t_barrier();
        t_detach(buffer);
    }
    t_close(node);
}

static void flags(void)
{
    static const struct {
        unsigned flags;
        const char *reason; /* on GPUs where the driver makes memory */
    } rows[] = {
        {WHARF_BUFFER_INTERLEAVE, "interleaved"},
        {WHARF_BUFFER_NUMA_LOCAL, NULL},
        {WHARF_BUFFER_HUGE_PAGES, NULL},
        {WHARF_BUFFER_NUMA_LOCAL | WHARF_BUFFER_HUGE_PAGES, NULL},
        {WHARF_BUFFER_READ_ONLY, NULL},
        {WHARF_BUFFER_CONTIGUOUS, NULL},
    };
    const char *large = getenv("T_EXPECT_LARGE");
    wharf_node *node = t_open();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wharf_buffer *buffer =
            attach(node, LARGE + (size_t)t_me * 4096, rows[i].flags);
        wharf_buffer_info info = t_info(buffer, 0);

        if (rows[i].reason && large && strcmp(large, "host-vmm") == 0)
            T_CONTAINS(rows[i].reason, info.reason);
        if (rows[i].flags == WHARF_BUFFER_HUGE_PAGES &&
            info.handle == WHARF_HANDLE_MEMFD)
            T_CONTAINS("shmem_enabled", info.reason);
        if (i < 2)
            check_both_ways(node, buffer);
        t_barrier();
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

static void contiguous(void)
{
    wharf_node *node = t_open();
    size_t unit = 0, whole = 0;
    wharf_buffer *buffer;
    void *base;

    T_OK(wharf_buffer_granularity(node, WHARF_SPACE_HOST, &unit));
    T_CHECK(unit > 0 && (unit & (unit - 1)) == 0);
    T_SAME(unit);
    buffer = attach(node, unit * (size_t)(t_me + 1), WHARF_BUFFER_CONTIGUOUS);
    T_OK(wharf_buffer_base(buffer, &base, &whole));
    T_EQ_INT((long long)(unit * (size_t)(t_ranks * (t_ranks + 1) / 2)),
             (long long)whole);
    for (int rank = 0; rank < t_ranks; rank++) {
        size_t before = unit * (size_t)(rank * (rank + 1) / 2);

        T_CHECK((char *)base + before == (char *)t_segment(buffer, rank, NULL));
    }
    check_both_ways(node, buffer);
    t_detach(buffer);
    t_close(node);
}

static void same_address(void)
{
#ifndef __SANITIZE_THREAD__ /* has no address to spare */
    wharf_node *node = t_open();
    wharf_buffer *buffer =
        attach(node, LARGE, WHARF_BUFFER_SAME_ADDRESS_REQUIRED);

    for (int rank = 0; rank < t_ranks; rank++)
        T_SAME((uintptr_t)t_segment(buffer, rank, NULL));
    T_EQ_INT(1, t_info(buffer, 0).same_address);
    check_both_ways(node, buffer);
    t_detach(buffer);
    t_close(node);
#endif
}

static void refuse(wharf_node *node, wharf_space space, unsigned wanted,
                   wharf_status expected, const char *part)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;

    options.space = space;
    options.flags = wanted;
    T_FAILS(MPI_COMM_WORLD, expected, -1, part,
            wharf_buffer_attach(node, LARGE, &options, &buffer));
    T_CHECK(buffer == NULL);
}

static void refused(void)
{
    wharf_node *node = t_open();

    refuse(node, WHARF_SPACE_HOST, WHARF_BUFFER_WRITE_COMBINED,
           WHARF_EUNSUPPORTED, "WRITE_COMBINED");
    refuse(node, WHARF_SPACE_HOST,
           WHARF_BUFFER_INTERLEAVE | WHARF_BUFFER_NUMA_LOCAL, WHARF_EARG,
           "contradict");
    refuse(node, WHARF_SPACE_DEVICE, WHARF_BUFFER_INTERLEAVE, WHARF_EARG,
           "host space");
    refuse(node, WHARF_SPACE_DEVICE, WHARF_BUFFER_HUGE_PAGES, WHARF_EARG,
           "host space");
    t_close(node);
    t_live_check(NULL);
}

/* The limit of locked memory, which the fake driver keeps with the switch
 * memlock: named, with what to do; the next attach that fits works. */
static void locked_memory(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    wharf_error error;
    wharf_node *node;
    const char *caps = getenv("WHARF_FAKE_CAPS");

    if (caps == NULL || strstr(caps, "memlock") == NULL)
        return;
    T_CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    node = t_open();
    options.space = WHARF_SPACE_HOST;
    T_FAILS(MPI_COMM_WORLD, WHARF_ENOMEM, -1, "limit 1048576",
            wharf_buffer_attach(node, LARGE, &options, &buffer));
    wharf_last_error(&error);
    T_CONTAINS("ulimit -l", error.remedy);
    buffer = attach(node, SMALL, 0);
    check_both_ways(node, buffer);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"kinds", kinds, T_ANY},
    {"owned_by_its_rank", owned_by_its_rank, T_ANY},
    {"zeroed", zeroed, T_ANY},
    {"flags", flags, T_ANY},
    {"contiguous", contiguous, T_ANY},
    {"same_address", same_address, T_ANY},
    {"refused", refused, T_ANY},
    {"locked_memory", locked_memory, T_FAKE},
    {NULL, NULL, 0},
};

/* The limit is set for good. */
static const t_case locked_only[] = {
    {"locked_memory", locked_memory, T_FAKE},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    const char *caps = getenv("WHARF_FAKE_CAPS");
    bool limited = caps != NULL && strstr(caps, "memlock") != NULL;

    return t_main(argc, argv, MPI_THREAD_SERIALIZED,
                  limited ? locked_only : cases);
}
