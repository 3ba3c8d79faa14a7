/* SPDX-License-Identifier: MIT */
/*
 * Wrong arguments of attach: the same status on every rank, a sentence that
 * names rank and argument, outputs untouched, nothing held, and the next
 * attach works.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdint.h>
#include <string.h>

static wharf_node *node;

/* Attaches what must fail, then what must work. */
static void refuse(wharf_status expected, int rank, const char *part,
                   size_t size, const wharf_buffer_options *options)
{
    wharf_buffer *mark = (wharf_buffer *)&mark;
    wharf_buffer *buffer = mark;
    wharf_stats before = t_stats();

    T_FAILS(MPI_COMM_WORLD, expected, rank, part,
            wharf_buffer_attach(node, size, options, &buffer));
    T_EQ_PTR(mark, buffer);
    t_live_check(&before);
    T_EQ_INT(before.attaches_count, t_stats().attaches_count);
    buffer = t_attach(node, 1000 + (size_t)t_me, 0);
    t_share(node, buffer, 21);
    t_detach(buffer);
}

/* The last rank says something else than all others. */
static bool odd_one(void)
{
    return t_me == t_ranks - 1;
}

static void mismatches(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    node = t_open();
    if (odd_one())
        options.flags = WHARF_BUFFER_ZERO;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "flags", 4096, &options);
    options.flags = 0;
    if (odd_one())
        options.space = WHARF_SPACE_HOST;
    refuse(WHARF_EMISMATCH, t_ranks - 1, "space", 4096, &options);
    options.space = WHARF_SPACE_DEVICE;
    options.name = odd_one() ? "waves" : "winds";
    refuse(WHARF_EMISMATCH, t_ranks - 1, "name", 4096, &options);
    options.name = odd_one() ? NULL : "winds";
    refuse(WHARF_EMISMATCH, t_ranks - 1, "name", 4096, &options);
    options.name = NULL;
    if (t_me == 0)
        options.flags = WHARF_BUFFER_CONTIGUOUS;
    refuse(WHARF_EMISMATCH, -1, "flags", 4096, &options);
    /* NULL options and the defaults spelled out are the same. */
    options.flags = 0;
    t_detach(t_attach(node, 10, 0));
    {
        wharf_buffer *buffer = NULL;

        T_OK(wharf_buffer_attach(node, 10, odd_one() ? NULL : &options,
                                 &buffer));
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

static void bad_options(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    node = t_open();
    options.flags = 0x40000000u;
    refuse(WHARF_EARG, -1, "flag", 4096, &options);
    options.flags = odd_one() ? 0x40000000u : 0;
    refuse(WHARF_EARG, t_ranks - 1, "flag", 4096, &options);
    options.flags = 0;
    options.space = (wharf_space)7;
    refuse(WHARF_EARG, -1, "space", 4096, &options);
    options.space = odd_one() ? (wharf_space)-1 : WHARF_SPACE_DEVICE;
    refuse(WHARF_EARG, t_ranks - 1, "space", 4096, &options);
    options.space = WHARF_SPACE_DEVICE;
    options.struct_size = odd_one() ? 0 : sizeof options;
    refuse(WHARF_EARG, t_ranks - 1, "size", 4096, &options);
    options.struct_size = odd_one() ? 3 : sizeof options;
    refuse(WHARF_EARG, t_ranks - 1, "size", 4096, &options);
    t_close(node);
    t_live_check(NULL);
}

/* A caller built against a later header: its longer struct is fine as long as
 * what this library does not know is 0. */
static void longer_struct(void)
{
    struct {
        wharf_buffer_options known;
        unsigned char later[32];
    } options = {WHARF_BUFFER_OPTIONS_INIT, {0}};
    wharf_buffer *buffer = NULL;

    node = t_open();
    options.known.struct_size = sizeof options;
    T_OK(wharf_buffer_attach(node, 100, &options.known, &buffer));
    t_detach(buffer);
    options.later[31] = 1;
    refuse(WHARF_EARG, -1, "size", 100, &options.known);
    t_close(node);
    t_live_check(NULL);
}

static void sizes_overflow(void)
{
    node = t_open();
    refuse(WHARF_EARG, -1, NULL, SIZE_MAX, NULL);
    refuse(WHARF_EARG, -1, NULL, odd_one() ? SIZE_MAX : 100, NULL);
    /* What a negative number becomes on its way into a size_t. */
    refuse(WHARF_EARG, -1, NULL, t_me == 0 ? (size_t)-4096 : 100, NULL);
    /* Each fits, the sum does not. */
    refuse(WHARF_EARG, -1, NULL, SIZE_MAX / 2 + 1, NULL);
    t_close(node);
    t_live_check(NULL);
}

static void null_arguments(void)
{
    wharf_buffer *buffer = NULL;

    node = t_open();
    T_REFUSES(WHARF_EARG, "node", wharf_buffer_attach(NULL, 1, NULL, &buffer));
    T_CHECK(buffer == NULL);
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, NULL,
            wharf_buffer_attach(node, 1, NULL, NULL));
    /* On one rank only: the others learn it all the same. */
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, t_ranks - 1, NULL,
            wharf_buffer_attach(node, 1, NULL, odd_one() ? NULL : &buffer));
    T_CHECK(buffer == NULL);
    T_REFUSES(WHARF_EARG, "node", wharf_pool_trim(NULL));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_detach(NULL));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_detach(&buffer));
    t_close(node);
    t_live_check(NULL);
}

/* Every query of a buffer with every wrong argument. */
static void bad_queries(void)
{
    wharf_buffer_info info = WHARF_BUFFER_INFO_INIT;
    wharf_event *event = NULL;
    wharf_buffer *buffer;
    void *const *table = NULL;
    void *pointer = NULL;
    size_t size = 0;

    node = t_open();
    buffer = t_attach(node, 100, 0);
    T_REFUSES(WHARF_EARG, "buffer",
              wharf_buffer_segment(NULL, 0, &pointer, &size));
    T_REFUSES(WHARF_EARG, "rank",
              wharf_buffer_segment(buffer, -1, &pointer, &size));
    T_REFUSES(WHARF_EARG, "rank",
              wharf_buffer_segment(buffer, t_ranks, &pointer, &size));
    T_OK(wharf_buffer_segment(buffer, 0, NULL, &size));
    T_OK(wharf_buffer_segment(buffer, 0, &pointer, NULL));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_base(buffer, NULL, &size));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_base(buffer, &pointer, NULL));
    T_REFUSES(WHARF_EARG, "buffer", wharf_buffer_base(NULL, &pointer, &size));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_info_get(buffer, 0, NULL));
    T_REFUSES(WHARF_EARG, "rank", wharf_buffer_info_get(buffer, 99, &info));
    T_REFUSES(WHARF_EARG, "buffer", wharf_buffer_info_get(NULL, 0, &info));
    info.struct_size = 4;
    T_REFUSES(WHARF_EARG, "size", wharf_buffer_info_get(buffer, 0, &info));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_pointer_table(buffer, NULL));
    T_REFUSES(WHARF_EARG, "buffer", wharf_buffer_pointer_table(NULL, &table));
    T_REFUSES(WHARF_EARG, "space",
              wharf_buffer_granularity(node, (wharf_space)9, &size));
    T_REFUSES(WHARF_EARG, NULL,
              wharf_buffer_granularity(node, WHARF_SPACE_HOST, NULL));
    T_REFUSES(WHARF_EARG, "node",
              wharf_buffer_granularity(NULL, WHARF_SPACE_HOST, &size));
    T_REFUSES(WHARF_EARG, "rank", wharf_buffer_event(buffer, -1, &event));
    T_REFUSES(WHARF_EARG, NULL, wharf_buffer_event(buffer, 0, NULL));
    T_REFUSES(WHARF_EARG, "buffer", wharf_buffer_event(NULL, 0, &event));
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* An info struct of an older caller is filled as far as it goes. */
static void shorter_info(void)
{
    union {
        wharf_buffer_info info;
        unsigned char bytes[sizeof(wharf_buffer_info)];
    } old;
    size_t known = offsetof(wharf_buffer_info, chunks);
    wharf_buffer *buffer;

    node = t_open();
    buffer = t_attach(node, 100, 0);
    memset(&old, 0x5a, sizeof old);
    old.info.struct_size = known;
    T_OK(wharf_buffer_info_get(buffer, t_me, &old.info));
    T_EQ_INT(known, old.info.struct_size);
    T_EQ_INT(WHARF_PATH_SAME_PROCESS, old.info.path);
    for (size_t i = known; i < sizeof old; i++)
        T_EQ_INT(0x5a, old.bytes[i]);
    t_detach(buffer);
    t_close(node);
}

static void handle_kind_names(void)
{
    T_EQ_STR("memfd", wharf_handle_kind_name(WHARF_HANDLE_MEMFD));
    T_EQ_STR("vmm", wharf_handle_kind_name(WHARF_HANDLE_VMM));
    T_EQ_STR("ipc", wharf_handle_kind_name(WHARF_HANDLE_IPC));
    T_EQ_STR("unknown", wharf_handle_kind_name((wharf_handle_kind)99));
    T_EQ_STR("unknown", wharf_handle_kind_name((wharf_handle_kind)-1));
}

/* Ranks that make different collective calls at the same time. */
static void different_calls(void)
{
    wharf_buffer *buffer = NULL;
    wharf_event *event = NULL;

    node = t_open();
    if (odd_one())
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "attach",
                wharf_buffer_attach(node, 64, NULL, &buffer));
    else
        T_FAILS(MPI_COMM_WORLD, WHARF_EMISMATCH, t_ranks - 1, "attach",
                wharf_event_create(node, 0, &event));
    T_CHECK(buffer == NULL && event == NULL);
    t_detach(t_attach(node, 64, 0));
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"mismatches", mismatches, T_ANY},
    {"bad_options", bad_options, T_ANY},
    {"longer_struct", longer_struct, T_ANY},
    {"sizes_overflow", sizes_overflow, T_ANY},
    {"null_arguments", null_arguments, T_ANY},
    {"bad_queries", bad_queries, T_ANY},
    {"shorter_info", shorter_info, T_ANY},
    {"handle_kind_names", handle_kind_names, T_ANY},
    {"different_calls", different_calls, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
