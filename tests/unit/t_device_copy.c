/* SPDX-License-Identifier: MIT */
/*
 * Copies and sets of the CUDA backend below the public calls: two processes put
 * into each other's memory, signal and wait in one launch; by every table,
 * captured, with a handshake, timed out, refused, and with every driver call
 * failing once.
 */
#include "base/fault.h"
#include "base/stat.h"
#include "device/copy.h"
#include "t_child.h"
#include "t_pair.h"
#include "t_test.h"

#define ROUNDS 50
#define REPLAYS 1000
/* Of each process's data: put from here, received there. */
#define HALF ((size_t)512 * 1024)
#define SOON_NS UINT64_C(3000000)

static const wi_device_ops *const ops = &wi_device_cuda;
static const wi_copy_ops *const copies = &wi_copy_cuda;

static char *out_of(char *pad)
{
    return pad + T_PAD_DATA;
}

static char *into(char *pad)
{
    return pad + T_PAD_DATA + HALF;
}

static void prepare(const t_pair *pair)
{
    bool kernels = false;

    T_OK(copies->prepare(pair->device, 0, &kernels));
    T_CHECK(kernels);
}

static wi_sync_step step(wi_sync_kind kind, char *pad, int word, uint32_t value)
{
    return (wi_sync_step){(uint32_t)kind, value, t_pad_word(pad, word)};
}

static wi_copy_box line(char *to, const char *from, size_t bytes)
{
    return (wi_copy_box){
        .to = to, .from = from, .width = bytes, .rows = 1, .planes = 1};
}

/* ---- Sets between the two ---------------------------------------------- */

enum { DATA = 0, READY = 1, OTHER = 2 }; /* words */

/* A set of `boxes` boxes that together put `bytes` of the own data across, and
 * its signals. */
typedef struct exchange {
    wi_copy_box box[64];
    wi_sync_step step[WI_COPY_RUNS][8];
    wi_copy_plan plan;
    wi_copy_set *set;
} exchange;

static void runs_fill(const t_pair *pair, exchange *e, bool counts, int word,
                      int extra)
{
    wi_sync_kind out = counts ? WI_SYNC_ADD : WI_SYNC_WRITE;
    wi_sync_kind in = counts ? WI_SYNC_TAKE : WI_SYNC_WAIT;

    for (int r = 0; r < WI_COPY_RUNS; r++) {
        bool ready = r < WI_COPY_RUN_SIGNALS;
        bool waits = r % 2;

        /* Word after word, so that several signals are told apart. */
        for (int i = 0; i <= extra; i++)
            e->step[r][i] =
                step(waits ? in : out, waits ? pair->mine : pair->peer,
                     word + (ready ? READY : DATA) + 10 * i, 0);
        e->plan.run[r] = (wi_copy_steps){e->step[r], extra + 1};
    }
}

static void exchange_make(const t_pair *pair, exchange *e, size_t bytes,
                          int boxes, bool counts, int extra)
{
    size_t part = bytes / (size_t)boxes;

    memset(e, 0, sizeof *e);
    for (int i = 0; i < boxes; i++) {
        size_t at = (size_t)i * part;
        size_t size = i == boxes - 1 ? bytes - at : part;

        e->box[i] = line(into(pair->peer) + at, out_of(pair->mine) + at, size);
    }
    e->plan.box = e->box;
    e->plan.boxes = boxes;
    runs_fill(pair, e, counts, 0, extra);
    T_OK(copies->set_make(pair->device, &e->plan, &e->set));
}

static void fill(const t_pair *pair, size_t bytes, uint32_t value)
{
    T_EQ_INT(0, wi_driver.cuMemsetD8Async((CUdeviceptr)out_of(pair->mine),
                                          (unsigned char)value, bytes,
                                          pair->stream));
}

/* What came in goes to the host, behind it in the stream. */
static void fetch(const t_pair *pair, size_t bytes, unsigned char *host)
{
    T_EQ_INT(0, wi_driver.cuMemcpyDtoHAsync(host, (CUdeviceptr)into(pair->mine),
                                            bytes, pair->stream));
}

static void check_bytes(const unsigned char *host, size_t bytes, uint32_t value)
{
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != (unsigned char)value)
            T_FAIL("byte %zu of %zu is %u, not %u", i, bytes, host[i],
                   value & 0xff);
}

/*
 * Both put, signal and wait, ROUNDS times; the handshake keeps a put from
 * coming before what was there has been fetched. In one launch, or in a start
 * and a finish.
 */
static void rounds(const t_pair *pair, size_t bytes, int boxes, bool counts,
                   bool split, int extra)
{
    uint32_t most = WI_COPY_READY_SIGNAL | WI_COPY_READY_WAIT | WI_COPY_PUT |
                    WI_COPY_SIGNAL;
    uint32_t *pinned;
    exchange e;

    T_OK(ops->report_alloc(pair->device, bytes / 4 + 1, &pinned));
    exchange_make(pair, &e, bytes, boxes, counts, extra);
    t_pair_meet(pair);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        fill(pair, bytes, i + 100u * (uint32_t)pair->rank);
        if (split) {
            T_OK(copies->set_launch(e.set, pair->stream, most, i, 0, NULL));
            T_OK(copies->set_launch(e.set, pair->stream, WI_COPY_WAIT, i, 0,
                                    NULL));
        } else {
            T_OK(copies->set_launch(e.set, pair->stream, WI_COPY_ALL, i, 0,
                                    NULL));
        }
        fetch(pair, bytes, (unsigned char *)pinned);
        if (i % 10 && i != ROUNDS)
            continue;
        t_pair_finish(pair);
        check_bytes((unsigned char *)pinned, bytes,
                    i + 100u * (uint32_t)(1 - pair->rank));
    }
    for (int w = 0; w <= 10 * extra; w += 10) {
        T_EQ_INT(counts ? 0 : ROUNDS, t_pair_read(pair, w + DATA));
        T_EQ_INT(counts ? 0 : ROUNDS, t_pair_read(pair, w + READY));
    }
    copies->set_free(e.set);
    t_pair_meet(pair);
    t_pair_clear(pair);
    t_pair_meet(pair);
    ops->report_free(pair->device, pinned);
}

/* Counts stand in a graph as they are. */
static void replays(const t_pair *pair)
{
    size_t bytes = 40000;
    uint32_t *pinned;
    CUgraphExec graph;
    exchange e;

    T_OK(ops->report_alloc(pair->device, bytes / 4 + 1, &pinned));
    exchange_make(pair, &e, bytes, 3, true, 0);
    t_pair_meet(pair);
    t_pair_capture(pair);
    T_OK(copies->set_launch(e.set, pair->stream, WI_COPY_ALL, 0, 0, NULL));
    fetch(pair, bytes, (unsigned char *)pinned);
    graph = t_pair_captured(pair);
    for (uint32_t i = 0; i < REPLAYS; i++) {
        fill(pair, bytes, i + 7u * (uint32_t)pair->rank);
        t_pair_replay(pair, graph, 1);
        if (i % 100 != 99)
            continue;
        t_pair_finish(pair);
        check_bytes((unsigned char *)pinned, bytes,
                    i + 7u * (uint32_t)(1 - pair->rank));
    }
    t_pair_finish(pair);
    t_pair_forget(graph);
    copies->set_free(e.set);
    t_pair_meet(pair);
    t_pair_clear(pair);
    t_pair_meet(pair);
    ops->report_free(pair->device, pinned);
}

/* Signals behind nothing, and parts of the phases alone. */
static void without_boxes(const t_pair *pair)
{
    wi_sync_step out = step(WI_SYNC_ADD, pair->peer, OTHER, 0);
    wi_sync_step in = step(WI_SYNC_TAKE, pair->mine, OTHER, 0);
    wi_copy_box none = line(NULL, NULL, 0);
    wi_copy_plan plan = {.box = &none, .boxes = 1};
    wi_copy_set *set;

    plan.run[WI_COPY_RUN_SIGNALS] = (wi_copy_steps){&out, 1};
    plan.run[WI_COPY_RUN_WAITS] = (wi_copy_steps){&in, 1};
    T_OK(copies->set_make(pair->device, &plan, &set));
    for (int i = 0; i < 20; i++)
        T_OK(copies->set_launch(set, pair->stream,
                                WI_COPY_PUT | WI_COPY_SIGNAL | WI_COPY_WAIT, 0,
                                0, NULL));
    for (int i = 0; i < 20; i++)
        T_OK(copies->set_launch(set, pair->stream, WI_COPY_SIGNAL, 0, 0, NULL));
    for (int i = 0; i < 20; i++)
        T_OK(copies->set_launch(set, pair->stream, WI_COPY_WAIT, 0, 0, NULL));
    t_pair_finish(pair);
    T_EQ_INT(0, t_pair_read(pair, OTHER));
    copies->set_free(set);
    t_pair_meet(pair);
}

static void between(t_pair *pair)
{
    static const size_t sizes[] = {1, 16, 8192, 65536, HALF};

    prepare(pair);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rounds(pair, sizes[i], 1, true, i % 2, 0);
        rounds(pair, sizes[i], 1, false, i % 2 == 0, 0);
    }
    /* In the launch and in device memory: boxes, steps, more than a warp. */
    rounds(pair, 50000, 4, true, false, 0);
    rounds(pair, 50000, 5, true, true, 0);
    rounds(pair, 50000, 26, false, false, 0);
    rounds(pair, 50000, 64, true, false, 3);
    rounds(pair, 3000, 1, true, false, 4);
    without_boxes(pair);
    replays(pair);
}

/* ---- On one's own ------------------------------------------------------ */

/* A wait that gives up: reported, nothing consumed, and the set goes on. */
static void timeouts(const t_pair *pair)
{
    wi_sync_step out = step(WI_SYNC_ADD, pair->mine, 20, 0);
    wi_sync_step in = step(WI_SYNC_TAKE, pair->mine, 20, 4);
    wi_copy_box box = line(into(pair->mine), out_of(pair->mine), 100000);
    wi_copy_plan plan = {.box = &box, .boxes = 1};
    uint32_t *report;
    wi_copy_set *set;

    T_OK(ops->report_alloc(pair->device, 1, &report));
    plan.run[WI_COPY_RUN_READY_WAITS] = (wi_copy_steps){&in, 1};
    plan.run[WI_COPY_RUN_SIGNALS] = (wi_copy_steps){&out, 1};
    T_OK(copies->set_make(pair->device, &plan, &set));
    T_OK(copies->set_launch(set, pair->stream, WI_COPY_READY_WAIT | WI_COPY_PUT,
                            0, SOON_NS, report));
    t_pair_finish(pair);
    T_EQ_INT(5, *report);
    T_EQ_INT(0, t_pair_read(pair, 20));
    *report = 0;
    T_OK(copies->set_launch(set, pair->stream, WI_COPY_PUT | WI_COPY_SIGNAL, 0,
                            0, NULL));
    T_OK(copies->set_launch(set, pair->stream, WI_COPY_READY_WAIT | WI_COPY_PUT,
                            0, SOON_NS, report));
    t_pair_finish(pair);
    T_EQ_INT(0, *report);
    T_EQ_INT(0, t_pair_read(pair, 20));
    copies->set_free(set);
    ops->report_free(pair->device, report);
}

static void refused(const t_pair *pair)
{
    static const struct {
        int run;
        wi_sync_kind kind;
    } wrong[] = {{WI_COPY_RUN_SIGNALS, WI_SYNC_WAIT},
                 {WI_COPY_RUN_SIGNALS, WI_SYNC_EXPECT},
                 {WI_COPY_RUN_WAITS, WI_SYNC_ADD},
                 {WI_COPY_RUN_WAITS, WI_SYNC_EXPECT},
                 {WI_COPY_RUN_READY_WAITS, WI_SYNC_WRITE},
                 {WI_COPY_RUN_READY_SIGNALS, WI_SYNC_TAKE},
                 {WI_COPY_RUN_WAITS, (wi_sync_kind)0},
                 {WI_COPY_RUN_WAITS, (wi_sync_kind)77}};
    wi_copy_set *set = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wi_sync_step bad = step(wrong[i].kind, pair->mine, 0, 0);
        wi_copy_plan plan = {0};

        plan.run[wrong[i].run] = (wi_copy_steps){&bad, 1};
        T_STATUS(WHARF_EUNSUPPORTED,
                 copies->set_make(pair->device, &plan, &set));
        T_CHECK(set == NULL);
    }
    T_STATUS(WHARF_ELIMIT,
             copies->set_make(pair->device,
                              &(wi_copy_plan){.boxes = WI_COPY_SET_PARTS + 1},
                              &set));
}

/* More than a page of tickets, all different, all zero. */
static void tickets(const t_pair *pair)
{
    enum { MANY = 5000 };
    static uint32_t *ticket[MANY];
    uint64_t word;
    const void *at;

    for (int i = 0; i < MANY; i++)
        T_OK(copies->ticket_take(pair->device, &ticket[i]));
    for (int i = 1; i < MANY; i++)
        T_CHECK(ticket[i] != ticket[i - 1]);
    at = ticket[MANY - 1];
    T_OK(ops->read_words(pair->device, &at, 1, &word));
    T_EQ_INT(0, word);
    for (int i = 0; i < MANY; i++)
        copies->ticket_give(pair->device, ticket[i]);
    copies->ticket_give(pair->device, NULL);
    T_OK(copies->ticket_take(pair->device, &ticket[0]));
    copies->ticket_give(pair->device, ticket[0]);
}

static void alone(t_pair *pair)
{
    prepare(pair);
    timeouts(pair);
    refused(pair);
    tickets(pair);
}

/* ---- Failing calls ----------------------------------------------------- */

static wharf_status set_once(wi_device *device, const t_pair *pair,
                             const wi_copy_box *boxes)
{
    wi_sync_step out = step(WI_SYNC_ADD, pair->mine, 40, 0);
    wi_copy_plan plan = {.box = boxes, .boxes = 5};
    wi_copy_set *set = NULL;
    wharf_status status;

    plan.run[WI_COPY_RUN_SIGNALS] = (wi_copy_steps){&out, 1};
    status = copies->set_make(device, &plan, &set);
    if (status == WHARF_OK)
        status = copies->set_launch(set, pair->stream,
                                    WI_COPY_PUT | WI_COPY_SIGNAL, 0, 0, NULL);
    t_pair_finish(pair);
    copies->set_free(set);
    return status;
}

/* Everything once. */
static wharf_status way(const t_pair *pair, wi_device *device)
{
    char *to = into(pair->mine), *from = out_of(pair->mine);
    wi_copy_box boxes[5], plane = line(to, from, 64), volume;
    wi_sync_step out = step(WI_SYNC_ADD, pair->mine, 40, 0);
    uint32_t *ticket = NULL;
    wi_copy_memory memory;
    bool kernels;
    wharf_status status = copies->prepare(device, 0, &kernels);

    for (int i = 0; i < 5; i++)
        boxes[i] = line(to + i * 20000, from + i * 20000, 20000);
    plane.rows = 9;
    plane.to_pitch = plane.from_pitch = 100;
    volume = plane;
    volume.planes = 3;
    volume.to_plane = volume.from_plane = 2000;
    if (status == WHARF_OK)
        status = copies->ticket_take(device, &ticket);
    if (status == WHARF_OK)
        status = copies->look(device, to, &memory);
    for (int i = 0; i < 3 && status == WHARF_OK; i++)
        status = copies->copy(device, pair->stream, WI_COPY_BY_ENGINE,
                              i == 0   ? &boxes[0]
                              : i == 1 ? &plane
                                       : &volume);
    if (status == WHARF_OK)
        status =
            copies->copy(device, pair->stream, WI_COPY_BY_KERNEL, &boxes[1]);
    if (status == WHARF_OK)
        status =
            copies->copy_signal(device, pair->stream, &boxes[2], &out, ticket);
    if (status == WHARF_OK)
        status = set_once(device, pair, boxes);
    t_pair_finish(pair);
    copies->ticket_give(device, ticket);
    return status;
}

static void faults(t_pair *pair)
{
    static const int codes[] = {2, 801};
    int64_t heap = wi_stat_get(WI_STAT_live_host_allocations);
    int points = 0;

    for (int c = 0; c < 2; c++) {
        for (long n = 1;; n++) {
            const char *where = NULL;
            wi_device *device; /* another one, for all to be loaded anew */
            wharf_status status;
            wharf_error error;
            bool fired;

            T_OK(ops->open(&pair->device->desc, &device));
            wi_fault_arm(WI_FAULT_DRIVER, n, codes[c]);
            status = way(pair, device);
            fired = wi_fault_disarm(&where);
            ops->close(device);
            T_EQ_INT(heap, wi_stat_get(WI_STAT_live_host_allocations));
            T_EQ_INT(1, wi_stat_get(WI_STAT_live_contexts));
            if (!fired) {
                T_OK(status);
                break;
            }
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

int main(void)
{
    if (!t_pair_run(false, between))
        printf("one device only\n");
    t_pair_run(true, alone);
    t_pair_run(true, faults);
    return 0;
}
