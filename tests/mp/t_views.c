/* SPDX-License-Identifier: MIT */
/*
 * Views of notifies, barriers and buffers: that what a kernel would be handed
 * is where the signals of streams really arrive, and when there is none to be
 * had. What kernels do with them is shown on GPUs (t_device_words).
 */
#include "t_group.h"

#include <mpi.h>

static wharf_notify_options options_of(wharf_mechanism mechanism)
{
    wharf_notify_options options = WHARF_NOTIFY_OPTIONS_INIT;

    options.mechanism = mechanism;
    return options;
}

/* Of CUDA, the mechanism that kernels can signal by. */
static wharf_notify *notify_create(wharf_node *node, wharf_mechanism mechanism)
{
    wharf_notify_options options = options_of(mechanism);
    wharf_notify *notify = NULL;

    T_OK(wharf_notify_create(node, 0, &options, &notify));
    return notify;
}

static wharf_barrier *barrier_create(wharf_node *node,
                                     wharf_mechanism mechanism)
{
    wharf_notify_options options = options_of(mechanism);
    wharf_barrier *barrier = NULL;

    T_OK(wharf_barrier_create(node, 0, NULL, &options, &barrier));
    return barrier;
}

static void expect_count(const wharf_node *node, const wharf_notify_view *view,
                         int from, uint32_t count)
{
    uint32_t word = 77;

    t_dev_read(node, &word, view->words + (size_t)from * view->stride,
               sizeof word);
    T_EQ_INT(count, word);
}

/* The word of each recorder counts what its streams recorded, and waits take
 * it down again. */
static void notify_counts(void)
{
    wharf_node *node = t_open();
    wharf_notify *notify = notify_create(node, WHARF_MECHANISM_KERNEL);
    wharf_notify_view view = {.ranks = -1};

    T_OK(wharf_notify_view_get(notify, &view));
    T_EQ_INT(t_ranks, view.ranks);
    T_EQ_INT(t_me, view.rank);
    T_EQ_INT(0, view.waiter);
    T_CHECK(view.words != NULL && view.stride > 0);
    T_EQ_INT(30000, (long long)(view.timeout_ns / 1000000));
    t_barrier();
    for (int i = 0; i < t_me; i++)
        T_OK(wharf_notify_record(notify, NULL));
    t_stream_sync(node, NULL);
    t_barrier();
    for (int from = 1; t_me == 0 && from < t_ranks; from++) {
        expect_count(node, &view, from, (uint32_t)from);
        T_OK(wharf_notify_wait(notify, from, NULL, 0));
        t_stream_sync(node, NULL);
        expect_count(node, &view, from, (uint32_t)from - 1);
    }
    t_barrier();
    T_OK(wharf_notify_destroy(&notify));
    t_close(node);
}

/* One pointer a member, all different; the table is made once. */
static void barrier_words(void)
{
    wharf_node *node = t_open();
    wharf_barrier *barrier = barrier_create(node, WHARF_MECHANISM_KERNEL);
    wharf_barrier_view view, again;
    uint32_t *words[16] = {NULL}, first, second;

    T_CHECK(t_ranks <= 16);
    T_OK(wharf_barrier_view_get(barrier, &view));
    T_OK(wharf_barrier_view_get(barrier, &again));
    T_EQ_INT(t_ranks, view.members);
    T_EQ_INT(t_me, view.member);
    T_EQ_INT(30000, (long long)(view.timeout_ns / 1000000));
    T_EQ_PTR(view.words, again.words);
    t_dev_read(node, words, (const void *)view.words,
               (size_t)t_ranks * sizeof words[0]);
    for (int m = 0; m < t_ranks; m++) {
        T_CHECK(words[m] != NULL);
        for (int other = 0; other < m; other++)
            T_CHECK(words[m] != words[other]);
    }
    /* The last member's words are its own wherever they are read. */
    t_barrier();
    if (t_me == t_ranks - 1) {
        first = 4711;
        t_dev_write(node, words[t_me] + (size_t)t_me * view.stride, &first,
                    sizeof first);
    }
    t_barrier();
    t_dev_read(node, &second,
               words[t_ranks - 1] + (size_t)(t_ranks - 1) * view.stride,
               sizeof second);
    T_EQ_INT(4711, second);
    t_barrier();
    T_OK(wharf_barrier_destroy(&barrier));
    t_close(node);
}

static void segments(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, t_me == 1 ? 0 : 4096, 0);
    wharf_segments_view view;
    void *table[16];

    T_CHECK(t_ranks <= 16);
    T_OK(wharf_buffer_view_get(buffer, &view));
    T_EQ_INT(t_ranks, view.ranks);
    T_EQ_INT(t_me, view.rank);
    t_dev_read(node, table, (const void *)view.segments,
               (size_t)t_ranks * sizeof table[0]);
    for (int r = 0; r < t_ranks; r++)
        T_EQ_PTR(t_segment(buffer, r, NULL), table[r]);
    T_REFUSES(WHARF_EARG, "NULL", wharf_buffer_view_get(buffer, NULL));
    t_detach(buffer);
    t_close(node);
}

/* Kernels cannot add to what memory operations write, and a host has none. */
static void refused(void)
{
    bool host = t_mode_get() == T_HOST;
    wharf_mechanism mechanism =
        host ? WHARF_MECHANISM_AUTO : WHARF_MECHANISM_MEM_OPS;
    const char *why = host ? "has no kernels" : "by mem-ops";
    wharf_node *node = t_open();
    wharf_notify *notify = notify_create(node, mechanism);
    wharf_barrier *barrier = barrier_create(node, mechanism);
    wharf_notify_view view = {.ranks = -1};
    wharf_barrier_view other = {.members = -1};

    T_REFUSES(WHARF_EUNSUPPORTED, why, wharf_notify_view_get(notify, &view));
    T_REFUSES(WHARF_EUNSUPPORTED, why, wharf_barrier_view_get(barrier, &other));
    T_REFUSES(WHARF_EARG, "view is NULL", wharf_notify_view_get(notify, NULL));
    T_REFUSES(WHARF_EARG, "view is NULL",
              wharf_barrier_view_get(barrier, NULL));
    T_REFUSES(WHARF_EARG, "notify", wharf_notify_view_get(NULL, &view));
    T_REFUSES(WHARF_EARG, "barrier", wharf_barrier_view_get(NULL, &other));
    /* Outputs are as they were. */
    T_EQ_INT(-1, view.ranks);
    T_EQ_INT(-1, other.members);
    T_OK(wharf_notify_destroy(&notify));
    T_OK(wharf_barrier_destroy(&barrier));
    t_close(node);
}

static const t_case cases[] = {
    {"notify_counts", notify_counts, T_CUDA},
    {"barrier_words", barrier_words, T_CUDA},
    {"segments", segments, T_CUDA},
    {"refused", refused, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
