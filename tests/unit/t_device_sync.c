/* SPDX-License-Identifier: MIT */
/*
 * Signals and waits of the CUDA backend, by each mechanism, between two
 * processes on two devices and on one; captured, timed out, refused, and with
 * every driver call failing once.
 */
#include "base/fault.h"
#include "base/stat.h"
#include "t_child.h"
#include "t_pair.h"
#include "t_test.h"

#define ROUNDS 60
#define REPLAYS 1000
#define DATA_BYTES 64

static const wi_device_ops *const ops = &wi_device_cuda;

static const wi_sync_how hows[] = {WI_SYNC_KERNEL, WI_SYNC_MEM_OPS,
                                   WI_SYNC_HYBRID};

static wi_sync_step step(wi_sync_kind kind, char *pad, int word, uint32_t value)
{
    return (wi_sync_step){(uint32_t)kind, value, t_pad_word(pad, word)};
}

static void enqueue(const t_pair *pair, wi_sync_how how,
                    const wi_sync_step *steps, int count)
{
    T_OK(ops->sync(pair->device, pair->stream, how, steps, count, 0, NULL));
}

static void check_words(const t_pair *pair, int from, int to, uint32_t value)
{
    for (int i = from; i < to; i++)
        T_EQ_INT(value, t_pair_read(pair, i));
}

/* ---- Between the two --------------------------------------------------- */

/* Where counters start, so that they wrap on the way. */
#define EARLY (UINT32_MAX - ROUNDS / 2)

/*
 * Data goes to and fro, each time behind a signal: what a wait lets through
 * must be what was written before the signal.
 */
static void ping_pong(const t_pair *pair, wi_sync_how how, bool numbers)
{
    CUdeviceptr to = (CUdeviceptr)(pair->peer + T_PAD_DATA);
    CUdeviceptr from = (CUdeviceptr)(pair->mine + T_PAD_DATA);
    unsigned char(*seen)[DATA_BYTES];
    size_t bytes = ROUNDS * sizeof *seen;
    uint32_t *host;

    T_OK(ops->report_alloc(pair->device, bytes / sizeof *host, &host));
    seen = (void *)host;
    t_pair_write(pair, 0, numbers ? EARLY : 0);
    t_pair_meet(pair);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        wi_sync_step signal = step(numbers ? WI_SYNC_WRITE : WI_SYNC_ADD,
                                   pair->peer, 0, EARLY + 1 + i);
        wi_sync_step wait = step(numbers ? WI_SYNC_WAIT : WI_SYNC_TAKE,
                                 pair->mine, 0, EARLY + 1 + i);

        for (int half = 0; half < 2; half++) {
            if (half == pair->rank) {
                T_EQ_INT(0,
                         wi_driver.cuMemsetD8Async(to, (unsigned char)i,
                                                   DATA_BYTES, pair->stream));
                enqueue(pair, how, &signal, 1);
            } else {
                enqueue(pair, how, &wait, 1);
                T_EQ_INT(0, wi_driver.cuMemcpyDtoHAsync(
                                seen[i], from, DATA_BYTES, pair->stream));
            }
        }
    }
    t_pair_finish(pair);
    for (int i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < DATA_BYTES; j++)
            T_EQ_INT(i, seen[i][j]);
    }
    T_EQ_INT(numbers ? EARLY + ROUNDS : 0, t_pair_read(pair, 0));
    t_pair_clear(pair);
    t_pair_meet(pair); /* before the other one signals again */
    ops->report_free(pair->device, host);
}

/* A barrier of two in one call: a semaphore each way. */
static void barrier_add(const t_pair *pair, wi_sync_how how)
{
    wi_sync_step steps[] = {step(WI_SYNC_ADD, pair->peer, 1, 0),
                            step(WI_SYNC_TAKE, pair->mine, 1, 0)};

    enqueue(pair, how, steps, 2);
}

/* The same with marks that clear themselves, for graphs: two phases, since a
 * mark may be set again only after everybody has cleared it. */
static void barrier_marks(const t_pair *pair, wi_sync_how how)
{
    wi_sync_step steps[] = {step(WI_SYNC_WRITE, pair->peer, 2, 1),
                            step(WI_SYNC_EXPECT, pair->mine, 2, 1),
                            step(WI_SYNC_WRITE, pair->peer, 3, 1),
                            step(WI_SYNC_EXPECT, pair->mine, 3, 1)};

    if (how == WI_SYNC_MEM_OPS) {
        enqueue(pair, how, steps, 4);
    } else {
        enqueue(pair, how, steps, 2);
        enqueue(pair, how, steps + 2, 2);
    }
}

static void barriers(const t_pair *pair, wi_sync_how how)
{
    bool capturing = true;
    CUgraphExec graph;

    for (int i = 0; i < ROUNDS; i++) {
        if (how == WI_SYNC_MEM_OPS)
            barrier_marks(pair, how);
        else
            barrier_add(pair, how);
    }
    if (how == WI_SYNC_KERNEL)
        barrier_marks(pair, how);
    t_pair_finish(pair);
    T_OK(ops->capturing(pair->device, pair->stream, &capturing));
    T_CHECK(!capturing);
    t_pair_capture(pair);
    T_OK(ops->capturing(pair->device, pair->stream, &capturing));
    T_CHECK(capturing);
    if (how == WI_SYNC_MEM_OPS)
        barrier_marks(pair, how);
    else
        barrier_add(pair, how);
    graph = t_pair_captured(pair);
    t_pair_replay(pair, graph, REPLAYS);
    t_pair_finish(pair);
    t_pair_forget(graph);
    check_words(pair, 0, 8, 0);
    t_pair_meet(pair);
}

/* A record and a wait that are captured on their own and replayed together. */
static void captured_semaphore(const t_pair *pair, wi_sync_how how)
{
    wi_sync_step signal = step(WI_SYNC_ADD, pair->peer, 5, 0);
    wi_sync_step wait = step(WI_SYNC_TAKE, pair->mine, 5, 0);
    CUgraphExec graph;

    t_pair_capture(pair);
    if (pair->rank == 0)
        enqueue(pair, how, &signal, 1);
    else
        enqueue(pair, how, &wait, 1);
    graph = t_pair_captured(pair);
    t_pair_replay(pair, graph, REPLAYS);
    t_pair_finish(pair);
    t_pair_forget(graph);
    t_pair_meet(pair);
    check_words(pair, 5, 6, 0);
    t_pair_meet(pair);
}

static void between(t_pair *pair)
{
    for (int i = 0; i < 3; i++)
        T_OK(ops->sync_prepare(pair->device, hows[i]));
    ping_pong(pair, WI_SYNC_KERNEL, false);
    ping_pong(pair, WI_SYNC_KERNEL, true);
    ping_pong(pair, WI_SYNC_MEM_OPS, true);
    ping_pong(pair, WI_SYNC_HYBRID, false);
    for (int i = 0; i < 3; i++)
        barriers(pair, hows[i]);
    captured_semaphore(pair, WI_SYNC_KERNEL);
    captured_semaphore(pair, WI_SYNC_HYBRID);
}

/* ---- Each for itself --------------------------------------------------- */

#define SOON_NS UINT64_C(20000000)

static void timeouts(const t_pair *pair)
{
    wi_sync_step steps[] = {step(WI_SYNC_TAKE, pair->mine, 10, 41),
                            step(WI_SYNC_TAKE, pair->mine, 11, 42)};
    wi_sync_step add = step(WI_SYNC_ADD, pair->mine, 10, 0);
    wi_sync_step number = step(WI_SYNC_WAIT, pair->mine, 12, 7);
    uint32_t *report;

    T_OK(ops->report_alloc(pair->device, 2, &report));
    T_EQ_INT(0, report[0]);
    T_EQ_INT(0, report[1]);
    /* The one that comes is taken, the other one is told of. */
    t_pair_write(pair, 11, 3);
    T_OK(ops->sync(pair->device, pair->stream, WI_SYNC_KERNEL, steps, 2,
                   SOON_NS, report));
    t_pair_finish(pair);
    T_EQ_INT(42, report[0]);
    T_EQ_INT(0, report[1]);
    T_EQ_INT(0, t_pair_read(pair, 10));
    T_EQ_INT(2, t_pair_read(pair, 11));
    T_OK(ops->sync(pair->device, pair->stream, WI_SYNC_KERNEL, &number, 1,
                   SOON_NS, report + 1));
    t_pair_finish(pair);
    T_EQ_INT(8, report[1]);
    /* What came later is there for the next wait. */
    report[0] = 0;
    enqueue(pair, WI_SYNC_KERNEL, &add, 1);
    T_OK(ops->sync(pair->device, pair->stream, WI_SYNC_KERNEL, steps, 1,
                   UINT64_MAX, report));
    t_pair_finish(pair);
    T_EQ_INT(0, report[0]);
    T_EQ_INT(0, t_pair_read(pair, 10));
    T_OK(ops->health(pair->device));
    ops->report_free(pair->device, report);
    ops->report_free(pair->device, NULL);
    t_pair_clear(pair);
}

/* A mark is waited for exactly: a word beyond it does not do. */
static void exact(const t_pair *pair)
{
    wi_sync_step mark = step(WI_SYNC_EXPECT, pair->mine, 13, 5);
    uint32_t *report;

    T_OK(ops->report_alloc(pair->device, 1, &report));
    t_pair_write(pair, 13, 7);
    T_OK(ops->sync(pair->device, pair->stream, WI_SYNC_KERNEL, &mark, 1,
                   SOON_NS, report));
    t_pair_finish(pair);
    T_EQ_INT(6, report[0]);
    T_EQ_INT(7, t_pair_read(pair, 13));
    enqueue(pair, WI_SYNC_MEM_OPS, &mark, 1);
    for (int i = 0; i < 200; i++) /* time enough to be wrong */
        T_EQ_INT(7, t_pair_read(pair, 13));
    t_pair_write(pair, 13, 5);
    t_pair_finish(pair);
    T_EQ_INT(0, t_pair_read(pair, 13));
    ops->report_free(pair->device, report);
}

/* More steps than one launch, or one batch, takes. */
static void many(const t_pair *pair, wi_sync_how how)
{
    bool marks = how == WI_SYNC_MEM_OPS;
    wi_sync_step steps[2 * 300];

    for (int i = 0; i < 300; i++) {
        steps[i] = step(marks ? WI_SYNC_WRITE : WI_SYNC_ADD, pair->mine, i, 1);
        steps[300 + i] =
            step(marks ? WI_SYNC_EXPECT : WI_SYNC_TAKE, pair->mine, i, 1);
    }
    for (int i = 1; i <= 300; i += i < 5 ? 1 : 59) {
        enqueue(pair, how, steps, i);
        enqueue(pair, how, steps + 300, i);
    }
    enqueue(pair, how, steps, 600);
    enqueue(pair, how, steps, 0);
    t_pair_finish(pair);
    check_words(pair, 0, 300, 0);
}

/* The default stream, and a thread that has no context. */
static void elsewhere(const t_pair *pair)
{
    wi_sync_step steps[] = {step(WI_SYNC_ADD, pair->mine, 20, 0),
                            step(WI_SYNC_TAKE, pair->mine, 20, 0)};
    CUcontext current = NULL;
    bool capturing = true;

    T_EQ_INT(0, wi_driver.cuCtxSetCurrent(NULL));
    for (int i = 0; i < 3; i += 2) {
        T_OK(ops->sync(pair->device, NULL, hows[i], steps, 2, 0, NULL));
        T_OK(ops->sync(pair->device, pair->stream, hows[i], steps, 2, 0, NULL));
    }
    T_OK(ops->capturing(pair->device, NULL, &capturing));
    T_CHECK(!capturing);
    T_EQ_INT(0, wi_driver.cuCtxGetCurrent(&current));
    T_CHECK(!current);
    T_OK(ops->make_current(pair->device));
    T_OK(ops->quiesce(pair->device));
    check_words(pair, 20, 21, 0);
}

static void refused(const t_pair *pair)
{
    static const struct {
        wi_sync_how how;
        wi_sync_kind kind;
        uint64_t timeout_ns;
        const char *says;
    } wrong[] = {
        {WI_SYNC_MEM_OPS, WI_SYNC_ADD, 0, "mem-ops cannot do"},
        {WI_SYNC_MEM_OPS, WI_SYNC_TAKE, 0, "mem-ops cannot do"},
        {WI_SYNC_HYBRID, WI_SYNC_WRITE, 0, "hybrid cannot do"},
        {WI_SYNC_HYBRID, WI_SYNC_EXPECT, 0, "hybrid cannot do"},
        {WI_SYNC_KERNEL, (wi_sync_kind)6, 0, "kernel cannot do"},
        {WI_SYNC_KERNEL, (wi_sync_kind)99, 0, "kernel cannot do"},
        {WI_SYNC_MEM_OPS, WI_SYNC_WAIT, 1, "have none"},
        {WI_SYNC_HYBRID, WI_SYNC_TAKE, 1, "have none"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bool adds = wrong[i].how == WI_SYNC_HYBRID;
        wi_sync_step steps[] = {
            step(adds ? WI_SYNC_ADD : WI_SYNC_WRITE, pair->mine, 30, 1),
            step(wrong[i].kind, pair->mine, 30, 1)};
        uint32_t report = 0;
        wharf_error error;

        T_STATUS(WHARF_EUNSUPPORTED,
                 ops->sync(pair->device, pair->stream, wrong[i].how, steps, 2,
                           wrong[i].timeout_ns,
                           wrong[i].timeout_ns ? &report : NULL));
        wharf_last_error(&error);
        T_CONTAINS(wrong[i].says, error.cause);
    }
    /* And nothing of what could have been done was. */
    t_pair_finish(pair);
    T_EQ_INT(0, t_pair_read(pair, 30));
}

static void alone(t_pair *pair)
{
    timeouts(pair);
    exact(pair);
    for (int i = 0; i < 3; i++)
        many(pair, hows[i]);
    elsewhere(pair);
    refused(pair);
}

/* ---- Failing calls ----------------------------------------------------- */

/* Uses another device object, for the kernels to be loaded anew. */
static wharf_status way(const t_pair *pair)
{
    wi_sync_step semaphore[] = {step(WI_SYNC_ADD, pair->mine, 40, 0),
                                step(WI_SYNC_TAKE, pair->mine, 40, 0)};
    wi_sync_step mark[] = {step(WI_SYNC_WRITE, pair->mine, 41, 1),
                           step(WI_SYNC_EXPECT, pair->mine, 41, 1)};
    wi_device *device = NULL;
    uint32_t *report = NULL;
    bool capturing;
    wharf_status status = ops->open(&pair->device->desc, &device);

    for (int i = 0; i < 3 && status == WHARF_OK; i++) {
        bool marks = hows[i] == WI_SYNC_MEM_OPS;

        status = ops->sync(device, pair->stream, hows[i],
                           marks ? mark : semaphore, 2, 0, NULL);
    }
    if (status == WHARF_OK)
        status = ops->report_alloc(device, 1, &report);
    if (status == WHARF_OK)
        status = ops->sync(device, pair->stream, WI_SYNC_KERNEL, semaphore, 2,
                           SOON_NS, report);
    if (status == WHARF_OK)
        status = ops->capturing(device, pair->stream, &capturing);
    t_pair_finish(pair);
    if (device) {
        ops->report_free(device, report);
        ops->close(device);
    }
    return status;
}

/* Where pages of this process cannot be locked the driver allocates some. */
static bool driver_helps_out(const char *where)
{
    return strcmp(where, "cuMemHostRegister") == 0 ||
           strcmp(where, "cuMemHostGetDevicePointer") == 0;
}

static void faults(t_pair *pair)
{
    static const int codes[] = {2, 801};
    int64_t heap = wi_stat_get(WI_STAT_live_host_allocations);
    int points = 0;

    for (int c = 0; c < 2; c++) {
        for (long n = 1;; n++) {
            const char *where = NULL;
            wharf_status status;
            wharf_error error;

            t_pair_clear(pair);
            wi_fault_arm(WI_FAULT_DRIVER, n, codes[c]);
            status = way(pair);
            T_EQ_INT(heap, wi_stat_get(WI_STAT_live_host_allocations));
            T_EQ_INT(1, wi_stat_get(WI_STAT_live_contexts));
            if (!wi_fault_disarm(&where)) {
                T_OK(status);
                break;
            }
            if (status == WHARF_OK && driver_helps_out(where))
                continue;
            if (status == WHARF_OK)
                T_FAIL("%s failed and nobody saw it", where);
            wharf_last_error(&error);
            T_EQ_INT(codes[c], error.native);
            points++;
        }
    }
    printf("%d injection points\n", points);
    t_pair_clear(pair);
}

/* ---- Devices that cannot ------------------------------------------------ */

static void without(void *nothing)
{
    wi_device_desc desc[16];
    wi_device *device;
    wharf_error error;
    int count = 0;

    (void)nothing;
    setenv("WHARF_FAKE_CAPS", "no_memops", 1);
    T_OK(ops->enumerate(desc, 16, &count));
    T_OK(ops->open(&desc[0], &device));
    T_OK(ops->sync_prepare(device, WI_SYNC_KERNEL));
    for (int i = 1; i < 3; i++) {
        T_STATUS(WHARF_EUNSUPPORTED, ops->sync_prepare(device, hows[i]));
        wharf_last_error(&error);
        T_CONTAINS("no stream memory operations", error.cause);
        T_CHECK(error.remedy[0] != '\0');
        T_STATUS(WHARF_EUNSUPPORTED,
                 ops->sync(device, NULL, hows[i], NULL, 0, 0, NULL));
    }
    ops->close(device);
    T_CHECK(t_fake_fine());
}

int main(void)
{
    if (!t_pair_run(false, between))
        printf("one device only\n");
    t_pair_run(true, between);
    t_pair_run(true, alone);
    t_pair_run(true, faults);
    if (getenv("WHARF_CUDA_DRIVER"))
        t_child_run(without, NULL);
    return 0;
}
