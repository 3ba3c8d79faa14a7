/* SPDX-License-Identifier: MIT */
/* What each attach option promises, and that it is kept on every rank. */
#include "t_group.h"

#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sizes that round differently on each rank, with an empty one among three. */
static size_t size_of(int rank)
{
    return rank % 3 == 1 ? 0 : (size_t)(rank + 1) * 5003 + 1;
}

static wharf_buffer *attach_in(wharf_node *node, size_t size, wharf_space space,
                               unsigned flags)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;

    options.space = space;
    options.flags = flags;
    options.name = "options";
    T_OK(wharf_buffer_attach(node, size, &options, &buffer));
    return buffer;
}

/* Segments lie one behind the other in rank order, each rounded up. */
static void check_contiguous(const wharf_node *node, const wharf_buffer *buffer,
                             wharf_space space)
{
    size_t granularity = 0;
    size_t whole = 0;
    void *base = NULL;
    uintptr_t next;

    T_OK(wharf_buffer_granularity(node, space, &granularity));
    T_CHECK(granularity >= 256 && (granularity & (granularity - 1)) == 0);
    T_SAME(granularity);
    T_OK(wharf_buffer_base(buffer, &base, &whole));
    T_CHECK(((uintptr_t)base & (granularity - 1)) == 0);
    next = (uintptr_t)base;
    for (int rank = 0; rank < t_ranks; rank++) {
        size_t size;
        uintptr_t at = (uintptr_t)t_segment(buffer, rank, &size);

        T_EQ_INT(size_of(rank), size);
        if (size == 0)
            continue;
        T_EQ_INT(next, at);
        next += (size + granularity - 1) & ~(granularity - 1);
    }
    T_EQ_INT(next - (uintptr_t)base, whole);
}

static void contiguous(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach_in(node, size_of(t_me), WHARF_SPACE_DEVICE,
                                     WHARF_BUFFER_CONTIGUOUS);

    check_contiguous(node, buffer, WHARF_SPACE_DEVICE);
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static void contiguous_host(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach_in(node, size_of(t_me), WHARF_SPACE_HOST,
                                     WHARF_BUFFER_CONTIGUOUS);

    check_contiguous(node, buffer, WHARF_SPACE_HOST);
    t_share(node, buffer, 2);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* One view over all segments: a pattern that runs across the borders. */
static void contiguous_is_one_array(void)
{
    wharf_node *node = t_open();
    size_t granularity = 0;
    wharf_buffer *buffer;
    void *base = NULL;
    void *mine;
    size_t whole = 0;
    size_t size;

    T_OK(wharf_buffer_granularity(node, WHARF_SPACE_DEVICE, &granularity));
    buffer = attach_in(node, granularity, WHARF_SPACE_DEVICE,
                       WHARF_BUFFER_CONTIGUOUS);
    T_OK(wharf_buffer_base(buffer, &base, &whole));
    T_EQ_INT(granularity * (size_t)t_ranks, whole);
    mine = t_segment(buffer, t_me, &size);
    t_dev_fill(t_place(node, buffer, t_me), mine, (unsigned char)(t_me + 1),
               size);
    t_barrier();
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_INT(-1,
                 t_dev_check_value(t_place(node, buffer, rank),
                                   (char *)base + granularity * (size_t)rank,
                                   granularity, (unsigned char)(rank + 1)));
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

static void check_same_address(const wharf_buffer *buffer)
{
    for (int rank = 0; rank < t_ranks; rank++) {
        T_EQ_INT(1, t_info(buffer, rank).same_address);
        T_SAME((uintptr_t)t_segment(buffer, rank, NULL));
    }
}

static void same_address_required(void)
{
    wharf_node *node = t_open();
    wharf_buffer *first = attach_in(node, size_of(t_me), WHARF_SPACE_DEVICE,
                                    WHARF_BUFFER_SAME_ADDRESS_REQUIRED);
    wharf_buffer *second =
        attach_in(node, size_of(t_me) + 4096, WHARF_SPACE_HOST,
                  WHARF_BUFFER_SAME_ADDRESS_REQUIRED | WHARF_BUFFER_CONTIGUOUS);

    check_same_address(first);
    check_same_address(second);
    t_share(node, first, 3);
    t_share(node, second, 4);
    t_detach(second);
    t_detach(first);
    t_close(node);
    t_live_check(NULL);
}

/* As a wish it never fails, and says whether it came true. */
static void same_address_wish(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer =
        t_attach(node, size_of(t_me), WHARF_BUFFER_SAME_ADDRESS);
    int same = t_info(buffer, 0).same_address;

    T_SAME(same);
    if (same)
        check_same_address(buffer);
    t_share(node, buffer, 5);
    t_detach(buffer);
    t_close(node);
}

/* A pointer stored by one rank is followed by all others. */
static void pointers_in_memory(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer =
        t_attach(node, 4096, WHARF_BUFFER_SAME_ADDRESS_REQUIRED);
    int next = (t_me + 1) % t_ranks;
    void *mine = t_segment(buffer, t_me, NULL);
    void *target = (char *)t_segment(buffer, next, NULL) + 512;
    uint64_t word = 7000 + (uint64_t)t_me;

    t_dev_write(t_place(node, buffer, t_me), mine, &target, sizeof target);
    t_dev_write(t_place(node, buffer, t_me), (char *)mine + 512, &word,
                sizeof word);
    t_barrier();
    for (int rank = 0; rank < t_ranks; rank++) {
        t_dev_read(t_place(node, buffer, rank), &target,
                   t_segment(buffer, rank, NULL), sizeof target);
        t_dev_read(t_place(node, buffer, rank), &word, target, sizeof word);
        T_EQ_INT(7000 + (rank + 1) % t_ranks, word);
    }
    t_barrier();
    t_detach(buffer);
    t_close(node);
}

static void check_zero(const wharf_node *node, const wharf_buffer *buffer)
{
    for (int rank = 0; rank < t_ranks; rank++) {
        size_t size;
        void *segment = t_segment(buffer, rank, &size);

        T_EQ_INT(-1, t_dev_check_value(t_place(node, buffer, rank), segment,
                                       size, 0));
    }
    t_barrier();
}

/* Every byte is 0, in fresh memory and in a block that was left dirty. */
static void zero(void)
{
    static const wharf_space spaces[] = {WHARF_SPACE_DEVICE, WHARF_SPACE_HOST};
    wharf_node *node = t_open();

    for (int i = 0; i < 2; i++) {
        wharf_buffer *buffer;

        for (int round = 0; round < 3; round++) {
            buffer =
                attach_in(node, size_of(t_me), spaces[i], WHARF_BUFFER_ZERO);
            check_zero(node, buffer);
            t_share(node, buffer, 6);
            t_detach(buffer);
        }
        /* The same shape without ZERO first: what the pool then holds. */
        buffer = attach_in(node, size_of(t_me), spaces[i], 0);
        t_share(node, buffer, 7);
        t_detach(buffer);
        buffer = attach_in(node, size_of(t_me), spaces[i], WHARF_BUFFER_ZERO);
        check_zero(node, buffer);
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

/* Host space: ordinary loads and stores of the CPU, on every backend. */
static void host_space(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach_in(node, size_of(t_me), WHARF_SPACE_HOST, 0);

    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_INT(WHARF_SPACE_HOST, t_info(buffer, rank).space);
    t_share(node, buffer, 8);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* And the GPU reaches the same bytes at the same pointer. */
static void host_space_on_gpu(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = attach_in(node, 70001, WHARF_SPACE_HOST, 0);
    wharf_buffer *device = t_attach(node, 70001, 0);
    int next = (t_me + 1) % t_ranks;
    wharf_stream stream = t_stream_create(node);

    t_fill_mine(node, buffer, 9);
    t_barrier();
    t_stream_copy(node, stream, t_segment(device, t_me, NULL),
                  t_segment(buffer, next, NULL), 70001);
    t_stream_sync(node, stream);
    t_barrier();
    t_fill_mine(node, buffer, 10);
    t_barrier();
    t_stream_copy(node, stream, t_segment(buffer, next, NULL),
                  t_segment(device, t_me, NULL), 70001);
    t_stream_sync(node, stream);
    t_barrier();
    /* What came back is what the rank's own segment held at first. */
    t_check_segment(node, buffer, t_me, 9);
    t_barrier();
    t_stream_destroy(node, stream);
    t_detach(device);
    t_detach(buffer);
    t_close(node);
}

/* A child writes one byte; how did it end? Plain fork: the child touches
 * nothing of MPI or CUDA. */
static int write_in_child(volatile char *at)
{
    int status = 0;
    pid_t child = fork();

    T_CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        *at = 1;
        _exit(0);
    }
    T_CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void read_only_in(wharf_space space)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer =
        attach_in(node, size_of(t_me), space, WHARF_BUFFER_READ_ONLY);

    t_share(node, buffer, 11);
    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_buffer_info info = t_info(buffer, rank);
        void *segment = t_segment(buffer, rank, NULL);
        int status;

        if (rank == t_me)
            T_EQ_INT(0, info.write_protected);
        if (segment == NULL || info.space != WHARF_SPACE_HOST)
            continue;
        T_EQ_INT(rank != t_me, info.write_protected);
        status = write_in_child(segment);
        if (rank == t_me)
            T_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            T_CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV ||
                                            WTERMSIG(status) == SIGBUS));
    }
    t_barrier();
    t_detach(buffer);
    /* The protection does not outlive the buffer. */
    buffer = attach_in(node, size_of(t_me), space, 0);
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_INT(0, t_info(buffer, rank).write_protected);
    t_share(node, buffer, 12);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static void read_only(void)
{
    read_only_in(WHARF_SPACE_DEVICE);
}

static void read_only_host(void)
{
    read_only_in(WHARF_SPACE_HOST);
}

/* Read-only comes with the granularity's alignment. */
static void read_only_aligned(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer =
        t_attach(node, size_of(t_me),
                 WHARF_BUFFER_READ_ONLY | WHARF_BUFFER_CONTIGUOUS |
                     WHARF_BUFFER_ZERO | WHARF_BUFFER_SAME_ADDRESS);

    check_contiguous(node, buffer, WHARF_SPACE_DEVICE);
    check_zero(node, buffer);
    t_share(node, buffer, 13);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Names: none, the longest, and one byte too many. */
static void names(void)
{
    wharf_node *node = t_open();
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    char name[40];

    memset(name, 'n', sizeof name);
    name[31] = '\0';
    options.name = name;
    T_OK(wharf_buffer_attach(node, 100, &options, &buffer));
    t_detach(buffer);
    buffer = NULL;
    name[31] = 'n';
    name[32] = '\0';
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "name",
            wharf_buffer_attach(node, 100, &options, &buffer));
    T_CHECK(buffer == NULL);
    t_close(node);
}

static const t_case cases[] = {
    {"contiguous", contiguous, T_ANY},
    {"contiguous_host", contiguous_host, T_ANY},
    {"contiguous_is_one_array", contiguous_is_one_array, T_ANY},
    {"same_address_required", same_address_required, T_ANY},
    {"same_address_wish", same_address_wish, T_ANY},
    {"pointers_in_memory", pointers_in_memory, T_ANY},
    {"zero", zero, T_ANY},
    {"host_space", host_space, T_ANY},
    {"host_space_on_gpu", host_space_on_gpu, T_CUDA},
    {"read_only", read_only, T_ANY},
    {"read_only_host", read_only_host, T_ANY},
    {"read_only_aligned", read_only_aligned, T_ANY},
    {"names", names, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
