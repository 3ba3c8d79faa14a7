/* SPDX-License-Identifier: MIT */
/*
 * A kernel of one rank ruins its context, or the rank resets its device: every
 * rank learns it from the next collective, by name, and all can close and end.
 *
 * A context stays ruined until its process ends: argv[1] names one case.
 */
#include "t_group.h"
#include "t_memory.h"

#include <mpi.h>
#include <string.h>

static wharf_node *node;
static int ruined;

static void ruin(void)
{
    if (t_me == ruined)
        T_CHECK(t_driver_ruin(node) != 0);
    t_barrier();
}

/* Nothing but close is left, and it leaves nothing. */
static void close_and_check(void)
{
    wharf_status status = wharf_node_close(&node);

    T_CHECK(status == WHARF_OK || status == WHARF_EFAULT);
    T_CHECK(node == NULL);
    t_live_check(NULL);
}

static void attach(void)
{
    wharf_buffer *buffer = NULL;

    ruin();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, NULL,
            wharf_buffer_attach(node, 100000, NULL, &buffer));
    T_CHECK(buffer == NULL);
    T_EQ_INT(WHARF_SCOPE_NODE, wharf_status_scope(WHARF_EFAULT));
    close_and_check();
}

static void detach(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, 0);

    t_share(node, buffer, 1);
    ruin();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, NULL,
            wharf_buffer_detach(&buffer));
    T_CHECK(buffer == NULL);
    T_EQ_INT(0, t_stats().live_buffers);
    close_and_check();
}

/* Close alone, with everything attached. */
static void close_only(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, WHARF_BUFFER_CONTIGUOUS);

    t_share(node, buffer, 2);
    t_detach(t_attach(node, 5000, 0));
    ruin();
    close_and_check();
}

/* Local calls of the ruined rank say it; those of the others go on as long as
 * they need nothing of it. A collective call then says it to all. */
static void local_calls(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, 0);
    wharf_event *event = NULL;
    size_t size;

    t_fill_mine(node, buffer, 3);
    T_OK(wharf_event_create(node, ruined, &event));
    if (t_me == ruined)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_wait(event, 1, NULL));
    T_OK(wharf_event_synchronize(event, 1, 0));
    ruin();
    t_segment(buffer, ruined, &size);
    T_EQ_INT(100000, size);
    if (t_me == ruined)
        T_REFUSES(WHARF_EFAULT, NULL, wharf_event_record(event, NULL, NULL));
    else
        t_check_segment(node, buffer, t_me, 3);
    t_barrier();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, NULL,
            wharf_event_destroy(&event));
    T_CHECK(event == NULL);
    close_and_check();
}

/* The hardware refuses a write to another rank's read-only segment, whatever
 * else it does to the writer; the segment keeps its bytes. */
static void write_protected(void)
{
    wharf_buffer *buffer = t_attach(node, 100000, WHARF_BUFFER_READ_ONLY);
    int target = (ruined + 1) % t_ranks;

    t_share(node, buffer, 4);
    T_EQ_INT(t_me != target, t_info(buffer, target).write_protected);
    if (t_me == ruined)
        T_CHECK(t_driver_try_fill(node, t_segment(buffer, target, NULL), 0xff,
                                  4096) != 0);
    t_barrier();
    if (t_me == target)
        t_check_segment(node, buffer, target, 4);
    t_barrier();
    close_and_check();
}

/* ---- cudaDeviceReset ----------------------------------------------------- */

static wharf_buffer *buffers[2]; /* of the device, of the host */
static wharf_event *event;
static wharf_notify *notify;
static wharf_barrier *barrier;
static wharf_stream old_stream;

static void make_all(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    void *const *table = NULL;

    buffers[0] = t_attach(node, 100000, 0);
    T_OK(wharf_buffer_pointer_table(buffers[0], &table));
    if (t_me == ruined)
        old_stream = t_stream_create(node);
    options.space = WHARF_SPACE_HOST;
    T_OK(wharf_buffer_attach(node, 100000, &options, &buffers[1]));
    T_OK(wharf_event_create(node, ruined, &event));
    T_OK(wharf_notify_create(node, (ruined + 1) % t_ranks, NULL, &notify));
    T_OK(wharf_barrier_create(node, 0, NULL, NULL, &barrier));
    T_OK(wharf_barrier_enter(barrier, NULL));
    T_OK(wharf_stream_synchronize(node, NULL, 0));
    t_share(node, buffers[0], 5);
    t_barrier();
}

/* Each call that would use what the reset destroyed names the reset. */
static void refused_here(wharf_stream stream)
{
    void *mine = t_segment(buffers[0], t_me, NULL);
    const char *part = "cuCtxGetId";

    T_REFUSES(WHARF_EFAULT, part, wharf_event_record(event, stream, NULL));
    T_REFUSES(WHARF_EFAULT, part, wharf_notify_record(notify, stream));
    T_REFUSES(WHARF_EFAULT, part, wharf_barrier_enter(barrier, stream));
    T_REFUSES(WHARF_EFAULT, part, wharf_stream_synchronize(node, stream, 0));
    T_REFUSES(
        WHARF_EFAULT, part,
        wharf_put(buffers[0], (t_me + 1) % t_ranks, 64, mine, 64, stream));
    T_REFUSES(WHARF_EFAULT, part,
              wharf_get(buffers[1], t_me, 64, mine, 64, stream));
}

/* The others' views of the memory stay; the objects can be given back. */
static void give_all_back(void)
{
    wharf_buffer *more = NULL;

    if (t_me != ruined)
        t_check_segment(node, buffers[0], ruined, 5);
    t_barrier();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, "cuCtxGetId",
            wharf_buffer_attach(node, 100000, NULL, &more));
    T_SAME(wharf_barrier_destroy(&barrier));
    T_SAME(wharf_event_destroy(&event));
    T_SAME(wharf_buffer_detach(&buffers[1]));
    T_CHECK(!barrier && !event && !buffers[1]);
    close_and_check();
}

static void reset(void)
{
    make_all();
    if (t_me == ruined) {
        t_driver_expect_leaks();
        t_driver_reset(node, false);
        refused_here(NULL);
        refused_here(old_stream);
    }
    t_barrier();
    give_all_back();
}

/* The next context lies where the first one was. What the program makes in it
 * stays whole, and another node works there. */
static void reset_and_on(void)
{
    t_memory own = {0};
    wharf_stream stream = NULL;
    wharf_buffer *buffer;

    make_all();
    if (t_me == ruined) {
        t_driver_expect_leaks();
        t_driver_reset(node, true);
        own = t_memory_new(node, T_KIND_PLAIN, 0, 4 << 20, 0);
        stream = t_stream_create(node);
        refused_here(NULL);
        refused_here(old_stream);
        refused_here(stream);
    }
    t_barrier();
    give_all_back();
    node = t_open();
    if (t_me == ruined) {
        T_EQ_INT(-1, t_dev_check_value(node, own.pointer, own.bytes, 0x5b));
        t_stream_destroy(node, stream);
        t_memory_free(node, &own);
    }
    buffer = t_attach(node, 100000, 0);
    t_share(node, buffer, 6);
    t_detach(buffer);
    t_close(node);
}

/* The second context is reset as the first one was. */
static void reset_twice(void)
{
    wharf_buffer *more = NULL;

    reset_and_on();
    node = t_open();
    if (t_me == ruined)
        t_driver_reset(node, false);
    t_barrier();
    T_FAILS(MPI_COMM_WORLD, WHARF_EFAULT, ruined, "cuCtxGetId",
            wharf_buffer_attach(node, 100000, NULL, &more));
    close_and_check();
}

/* Words that the GPU reports to and the CPU looks at, and what messages to
 * other nodes go through: the CPU may look after the reset as well. */
typedef struct looked_at {
    wharf_notify *notify;
    wharf_barrier *barrier;
    wharf_ring *ring;
    wharf_exchange *exchange;
    wharf_buffer *field;
} looked_at;

static looked_at look_begin(void)
{
    int next = (t_me + 1) % t_ranks, before = (t_me + t_ranks - 1) % t_ranks;
    wharf_notify_options kernel = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    looked_at all = {.field = t_attach(node, 8192, WHARF_BUFFER_ZERO)};
    wharf_exchange_box boxes[] = {{all.field, 0, {4096, 1, 1}, {0, 0}},
                                  {all.field, 4096, {4096, 1, 1}, {0, 0}}};
    wharf_exchange_transfer transfers[] = {{next, 0, 0, &boxes[0], NULL},
                                           {before, 0, 0, NULL, &boxes[1]}};

    kernel.mechanism = WHARF_MECHANISM_KERNEL;
    options.slots = 4;
    options.slot_bytes = 4096;
    options.producer = ruined;
    T_OK(wharf_notify_create(node, ruined, &kernel, &all.notify));
    T_OK(wharf_barrier_create(node, 0, NULL, &kernel, &all.barrier));
    T_OK(wharf_ring_create(node, &options, &all.ring));
    T_OK(wharf_exchange_create(node, MPI_COMM_WORLD, 2, transfers, NULL,
                               &all.exchange));
    return all;
}

/* A round on the way to other nodes, which a thread drives: the ruined rank
 * started it before. */
static void finish_round(wharf_exchange *exchange)
{
    if (t_me != ruined) {
        T_OK(wharf_exchange_start(exchange, NULL));
        T_OK(wharf_exchange_finish(exchange, NULL));
        t_stream_sync(node, NULL);
    }
    t_barrier();
    t_pause_us(20000);
    if (t_me == ruined)
        T_REFUSES(WHARF_EFAULT, "cuCtxGetId",
                  wharf_exchange_finish(exchange, t_stream_create(node)));
}

static void reset_and_look(void)
{
    looked_at all = look_begin();
    bool remote = t_argument("remote", 0);
    void *slot = NULL;

    if (t_me == ruined) {
        if (remote)
            T_OK(wharf_exchange_start(all.exchange, NULL));
        t_stream_sync(node, NULL);
        t_driver_expect_leaks();
        t_driver_reset(node, true);
        T_OK(wharf_barrier_check(all.barrier));
        T_OK(wharf_notify_check(all.notify));
        T_REFUSES(WHARF_EFAULT, "cuCtxGetId",
                  wharf_ring_produce_begin(all.ring, NULL, &slot, NULL));
        T_OK(wharf_ring_check(all.ring));
    }
    t_barrier();
    if (remote)
        finish_round(all.exchange);
    T_SAME(wharf_exchange_destroy(&all.exchange));
    T_SAME(wharf_ring_destroy(&all.ring));
    T_SAME(wharf_notify_destroy(&all.notify));
    T_SAME(wharf_barrier_destroy(&all.barrier));
    T_SAME(wharf_buffer_detach(&all.field));
    T_CHECK(!all.exchange && !all.ring && !all.notify && !all.barrier);
    /* A message that is still under way keeps its memory. */
    if (remote && t_me == ruined)
        wharf_ignore(wharf_node_close(&node));
    else
        close_and_check();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"attach", attach},
        {"detach", detach},
        {"close_only", close_only},
        {"local_calls", local_calls},
        {"write_protected", write_protected},
        {"reset", reset},
        {"reset_and_on", reset_and_on},
        {"reset_twice", reset_twice},
        {"reset_and_look", reset_and_look},
    };
    int level;

    t_arguments(argc, argv);
    t_mode_check();
    T_CHECK(t_mode_get() != T_HOST);
    MPI_Init_thread(&argc, &argv,
                    t_argument("threads", 0) ? MPI_THREAD_MULTIPLE
                                             : MPI_THREAD_SINGLE,
                    &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    ruined = (int)t_argument("ruined", t_ranks - 1);
    node = t_open();
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            MPI_Finalize();
            return 0;
        }
    }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
