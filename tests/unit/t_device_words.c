/* SPDX-License-Identifier: MIT */
/*
 * The device functions of device.cuh on a real GPU: two processes signal from
 * inside running kernels, on two GPUs and on one, against each other and
 * against a stream. The views are made by hand, so that nothing but the header
 * is tested.
 */
#include "t_pair.h"
#include "t_test.h"
#include "wharf/view.h"

#define THREADS 64
#define STRIDE 8 /* words; as t_pad_word */
#define BOUND_NS UINT64_C(20000000000)

extern const unsigned char t_words_image[];

static const wi_device_ops *const ops = &wi_device_cuda;

static CUlibrary library;

static void launch(const t_pair *pair, const char *name, void **parameters)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = THREADS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = pair->stream};
    CUkernel kernel = NULL;

    T_EQ_INT(0, wi_driver.cuLibraryGetKernel(&kernel, library, name));
    T_EQ_INT(0, wi_driver.cuLaunchKernelEx(&config, (CUfunction)kernel,
                                           parameters, NULL));
}

/* The notify of which one side records and the other one waits: words 0 and 1
 * of the waiter's pad. */
static wharf_notify_view notify_view(const t_pair *pair, bool waits,
                                     uint32_t *report)
{
    return (wharf_notify_view){
        .words = t_pad_word(waits ? pair->mine : pair->peer, 0),
        .report = report,
        .timeout_ns = BOUND_NS,
        .stride = STRIDE,
        .ranks = 2,
        .rank = pair->rank,
        .waiter = waits ? pair->rank : 1 - pair->rank};
}

/* A table of two pointers in the GPU's memory, in rank order. */
static void *table_make(const t_pair *pair, void *mine, void *peer)
{
    void *pointers[2];
    void *table;

    pointers[pair->rank] = mine;
    pointers[1 - pair->rank] = peer;
    T_OK(ops->local_alloc(pair->device, sizeof pointers, &table));
    T_OK(ops->write(pair->device, table, pointers, sizeof pointers));
    return table;
}

static void ping_pong(const t_pair *pair, uint32_t rounds, uint32_t *report)
{
    wharf_notify_view out = notify_view(pair, false, report);
    wharf_notify_view in = notify_view(pair, true, report);
    char *to = pair->peer + T_PAD_DATA;
    char *from = pair->mine + T_PAD_DATA;
    uint32_t *bad = report + 1;
    void *parameters[] = {&out, &in, &to, &from, &rounds, &bad};

    launch(pair, "t_ping_pong", parameters);
    t_pair_finish(pair);
    T_EQ_INT(0, report[0]);
    T_EQ_INT(0, report[1]);
    T_EQ_INT(0, t_pair_read(pair, 0));
    T_EQ_INT(0, t_pair_read(pair, 1));
    t_pair_meet(pair);
}

static void packets(const t_pair *pair, uint32_t rounds, uint32_t *report)
{
    void *to = t_pad_word(pair->peer, T_PAD_WORDS - 1);
    void *from = t_pad_word(pair->mine, T_PAD_WORDS - 1);
    uint32_t rank = (uint32_t)pair->rank;
    void *parameters[] = {&to, &from, &rank, &rounds, &report};

    launch(pair, "t_packets", parameters);
    t_pair_finish(pair);
    T_EQ_INT(0, report[0]);
    t_pair_meet(pair);
}

/* A stream records, a kernel waits, and the other way round. */
static void mixed(const t_pair *pair, uint32_t *report)
{
    wi_sync_step add = {WI_SYNC_ADD, 0, t_pad_word(pair->peer, pair->rank)};
    wi_sync_step take = {WI_SYNC_TAKE, 0,
                         t_pad_word(pair->mine, 1 - pair->rank)};
    uint32_t one = 1;
    wharf_notify_view out = notify_view(pair, false, report);
    wharf_notify_view in = notify_view(pair, true, report);
    char *to = pair->peer + T_PAD_DATA;
    char *from = pair->mine + T_PAD_DATA;
    uint32_t *bad = report + 1;
    void *parameters[] = {&out, &in, &to, &from, &one, &bad};

    if (pair->rank == 0) {
        launch(pair, "t_ping_pong", parameters);
    } else {
        uint32_t data[THREADS];

        for (uint32_t i = 0; i < THREADS; i++)
            data[i] = 1000 + i;
        T_OK(ops->sync(pair->device, pair->stream, WI_SYNC_KERNEL, &take, 1, 0,
                       NULL));
        t_pair_finish(pair);
        T_OK(ops->write(pair->device, to, data, sizeof data));
        T_OK(ops->sync(pair->device, pair->stream, WI_SYNC_KERNEL, &add, 1, 0,
                       NULL));
    }
    t_pair_finish(pair);
    T_EQ_INT(0, report[0]);
    T_EQ_INT(0, report[1]);
    t_pair_meet(pair);
}

static void barriers(const t_pair *pair, uint32_t rounds, uint32_t *report)
{
    void *words =
        table_make(pair, t_pad_word(pair->mine, 4), t_pad_word(pair->peer, 4));
    void *data =
        table_make(pair, pair->mine + T_PAD_DATA, pair->peer + T_PAD_DATA);
    wharf_barrier_view barrier = {.words = words,
                                  .report = report,
                                  .timeout_ns = BOUND_NS,
                                  .stride = STRIDE,
                                  .members = 2,
                                  .member = pair->rank};
    wharf_segments_view segments = {
        .segments = data, .ranks = 2, .rank = pair->rank};
    wharf_notify_view in = notify_view(pair, true, report + 3);
    uint32_t *bad = report + 1;
    void *parameters[] = {&barrier, &segments, &rounds, &bad};

    launch(pair, "t_barriers", parameters);
    t_pair_finish(pair);
    T_EQ_INT(0, report[0]);
    T_EQ_INT(0, report[1]);
    t_pair_meet(pair);
    /* Now rank 0 alone: it gives up, says so, and the context lives. */
    if (pair->rank == 0) {
        void *late[] = {&in, &barrier, &bad};

        launch(pair, "t_late", late);
        t_pair_finish(pair);
        T_EQ_INT(2, report[0]); /* the member that is missing, + 1 */
        T_EQ_INT(1, report[1]); /* the wait */
        T_EQ_INT(1, report[2]); /* the barrier */
        T_EQ_INT(2, report[3]);
        T_OK(ops->health(pair->device));
        T_EQ_INT(0, t_pair_read(pair, 1));
    }
    ops->local_free(pair->device, data);
    ops->local_free(pair->device, words);
    t_pair_meet(pair);
}

static void body(t_pair *pair)
{
    /* On one GPU a round is a time slice each way. */
    uint32_t rounds = pair->together ? 20 : 100000;
    uint32_t *report;

    T_OK(ops->report_alloc(pair->device, 4, &report));
    T_OK(ops->sync_prepare(pair->device, WI_SYNC_KERNEL));
    T_EQ_INT(0, wi_driver.cuLibraryLoadData(&library, t_words_image, NULL, NULL,
                                            0, NULL, NULL, 0));
    t_pair_meet(pair);
    ping_pong(pair, rounds, report);
    packets(pair, rounds, report);
    mixed(pair, report);
    barriers(pair, rounds, report);
    T_EQ_INT(0, wi_driver.cuLibraryUnload(library));
    ops->report_free(pair->device, report);
}

int main(void)
{
    if (!t_pair_run(false, body))
        printf("one device only\n");
    t_pair_run(true, body);
    return 0;
}
