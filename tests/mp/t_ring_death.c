/* SPDX-License-Identifier: MIT */
/*
 * A rank of a ring is killed: a consumer, and the ring goes on without it; the
 * producer, and the ring ends for all. In calls that hold, and while the host
 * waits for a stream that waits for the dead.
 *
 * Arguments: the case, victim=RANK, mode=0|1, delay_us=N. As in t_death.c the
 * verdict is a line, printed by a survivor when all are through.
 */
#define _GNU_SOURCE
#include "t_group.h"

#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 16, BYTES = 600, ROUNDS = 40, PATTERNS = 5 };

/* The promise is 1 s; the rest is for two loaded cores. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LATE_MS = 15000, VERDICT_MS = 60000 };
#else
enum { LATE_MS = 5000, VERDICT_MS = 40000 };
#endif

typedef struct board {
    atomic_llong died_ms;
    atomic_int done[MOST_RANKS];
    atomic_int ready;
    atomic_int saw;
} board;

static board *shared;
static int victim;
static wharf_ring_mode mode;
static wharf_node *node;
static wharf_buffer *data;
static wharf_stream stream;
static wharf_ring *ring;
static int saw;
static uint64_t seen[ROUNDS];

static void vanish(void)
{
    atomic_store(&shared->died_ms, t_now_ms());
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void wait_for_death(void)
{
    while (atomic_load(&shared->died_ms) == 0)
        t_pause_us(1000);
}

static void in_time(void)
{
    long long late = t_now_ms() - atomic_load(&shared->died_ms);

    printf("rank %d: %lld ms after the death\n", t_me, late);
    fflush(stdout);
    if (late > LATE_MS)
        T_FAIL("%lld ms after the death, the most is %d", late, LATE_MS);
}

/* ---- The ring ------------------------------------------------------------ */

static char *piece(int i)
{
    return (char *)t_segment(data, t_me, NULL) + (size_t)i * BYTES;
}

static void open_all(int slots)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    options.slots = slots;
    options.slot_bytes = BYTES;
    options.mode = mode;
    node = t_open();
    data = t_attach(node, (size_t)(t_me ? ROUNDS : PATTERNS) * BYTES, 0);
    stream = t_stream_create(node);
    for (int i = 0; t_me == 0 && i < PATTERNS; i++)
        t_dev_fill_pattern(t_place(node, data, 0), piece(i), BYTES,
                           (uint64_t)i);
    T_OK(wharf_ring_create(node, &options, &ring));
    t_barrier();
}

static void produce(uint64_t i)
{
    uint64_t index;
    void *slot;

    T_OK(wharf_ring_produce_begin(ring, stream, &slot, &index));
    T_EQ_INT((long long)i, (long long)index);
    t_stream_copy(node, stream, slot, piece((int)(i % PATTERNS)), BYTES);
    T_OK(wharf_ring_produce_end(ring, BYTES, stream));
}

static wharf_status consume(void)
{
    wharf_ring_slot what;
    const void *slot;
    wharf_status status = wharf_ring_consume_begin(ring, stream, &slot, &what);

    if (status != WHARF_OK)
        return status;
    T_CHECK(saw < ROUNDS);
    seen[saw] = what.index;
    t_stream_copy(node, stream, piece(saw), slot, BYTES);
    saw++;
    return wharf_ring_consume_end(ring, stream);
}

static void check_seen(void)
{
    t_stream_sync(node, stream);
    for (int i = 0; i < saw; i++)
        T_EQ_INT(-1, t_dev_check_pattern(t_place(node, data, t_me), piece(i),
                                         BYTES, seen[i] % PATTERNS));
    atomic_fetch_add(&shared->saw, saw);
}

/* A ring that lost a rank, and its node, end like others, and say so. */
static void finish(void)
{
    long long start = t_now_ms();
    wharf_stats stats;

    T_STATUS(WHARF_EPEER, wharf_ring_destroy(&ring));
    T_CHECK(ring == NULL);
    t_stream_destroy(node, stream);
    T_STATUS(WHARF_EPEER, wharf_buffer_detach(&data));
    T_CHECK(wharf_node_close(&node) != WHARF_EMISMATCH);
    T_CHECK(node == NULL);
    T_CHECK(t_now_ms() - start <= LATE_MS);
    stats = t_stats();
    T_EQ_INT(0, stats.live_rings);
    T_EQ_INT(0, stats.live_nodes);
    T_EQ_INT(0, stats.live_descriptors);
    T_EQ_INT(0, stats.live_ranges);
    T_EQ_INT(0, stats.live_host_allocations);
    atomic_store(&shared->done[t_me], 1);
    if (t_me == (victim == 0 ? 1 : 0)) {
        long long end = t_now_ms() + VERDICT_MS;

        for (int rank = 0; rank < t_ranks; rank++)
            while (rank != victim && !atomic_load(&shared->done[rank])) {
                T_CHECK(t_now_ms() < end);
                t_pause_us(1000);
            }
        printf("ring death: rank %d of %d, all right\n", victim, t_ranks);
        fflush(stdout);
    }
    _exit(0);
}

/* What the survivors do while and after a consumer dies. */
static void go_on(void)
{
    wharf_status status = WHARF_OK;

    if (t_me == 0) {
        for (int i = 0; i < ROUNDS; i++)
            produce((uint64_t)i);
        T_OK(wharf_ring_close(ring));
        T_OK(wharf_ring_drain(ring, 0));
        t_stream_sync(node, stream);
        if (atomic_load(&shared->died_ms))
            in_time();
    } else {
        while (status == WHARF_OK)
            status = consume();
        T_STATUS(WHARF_ECLOSED, status);
        check_seen();
        if (mode == WHARF_RING_ALL)
            T_EQ_INT(ROUNDS, saw);
    }
}

/* ---- Cases --------------------------------------------------------------- */

/* Dies between begin and end, after a few slots. */
static void consumer_holding(void)
{
    open_all(2);
    if (t_me == victim) {
        const void *slot;

        for (int i = 0; mode == WHARF_RING_ALL && i < 3; i++)
            T_OK(consume());
        T_OK(wharf_ring_consume_begin(ring, stream, &slot, NULL));
        vanish();
    }
    /* So that the victim gets one. */
    if (t_me != 0 && mode == WHARF_RING_SHARED)
        wait_for_death();
    go_on();
    if (t_me == 0 && mode == WHARF_RING_SHARED) {
        /* The victim's slot is lost, the others were seen by somebody. */
        long long end = t_now_ms() + LATE_MS;

        while (atomic_load(&shared->saw) < ROUNDS - 1 && t_now_ms() < end)
            t_pause_us(1000);
        T_EQ_INT(ROUNDS - 1, atomic_load(&shared->saw));
    }
    finish();
}

/* Never consumed anything. */
static void consumer_idle(void)
{
    open_all(3);
    if (t_me == victim)
        vanish();
    go_on();
    finish();
}

/* The producer's host waits for its stream, which waits for the victim. */
static void consumer_behind_stream(void)
{
    open_all(1);
    if (t_me == victim) {
        while (!atomic_load(&shared->ready))
            t_pause_us(500);
        t_pause_us(30000);
        vanish();
    }
    if (t_me == 0) {
        produce(0);
        if (t_mode_get() != T_HOST)
            produce(1);
        atomic_store(&shared->ready, 1);
        t_stream_sync(node, stream);
        wait_for_death();
        if (t_mode_get() == T_HOST)
            produce(1);
        in_time();
        T_OK(wharf_ring_close(ring));
        T_OK(wharf_ring_drain(ring, 0));
    } else {
        wharf_status status = WHARF_OK;

        while (status == WHARF_OK)
            status = consume();
        T_STATUS(WHARF_ECLOSED, status);
        check_seen();
    }
    finish();
}

/* At a moment that nobody has chosen. */
static void consumer_any_time(void)
{
    open_all(2);
    if (t_me == victim) {
        long long end = t_now_ms() * 1000 + t_argument("delay_us", 0);

        while (t_now_ms() * 1000 < end && consume() == WHARF_OK)
            ;
        vanish();
    }
    go_on();
    finish();
}

static void told_of_producer(wharf_status status)
{
    wharf_error error;

    T_STATUS(WHARF_EPEER, status);
    wharf_last_error(&error);
    T_EQ_INT(WHARF_EPEER, error.status);
    T_EQ_INT(0, error.rank);
}

/* Dies while consumers hold for the next slot. */
static void producer_idle(void)
{
    wharf_status status = WHARF_OK;

    open_all(3);
    if (t_me == 0) {
        produce(0);
        produce(1);
        t_stream_sync(node, stream);
        t_pause_us(50000);
        vanish();
    }
    while (status == WHARF_OK)
        status = consume();
    wait_for_death();
    in_time();
    told_of_producer(status);
    check_seen();
    if (t_mode_get() == T_HOST && mode == WHARF_RING_ALL)
        T_EQ_INT(2, saw);
    finish();
}

/* Its stream never came to fill the slot that its host issued: the consumers'
 * streams wait, their hosts wait for these. */
static void producer_behind_stream(void)
{
    wharf_notify *never = NULL;
    wharf_ring_slot what;
    const void *slot;

    open_all(2);
    T_OK(wharf_notify_create(node, 0, NULL, &never));
    if (t_me == 0) {
        T_OK(wharf_notify_wait(never, 1, stream, 0));
        produce(0);
        while (atomic_load(&shared->ready) < t_ranks - 1)
            t_pause_us(500);
        vanish();
    }
    if (mode == WHARF_RING_ALL || t_me == 1) {
        T_OK(wharf_ring_consume_begin(ring, stream, &slot, &what));
        T_OK(wharf_ring_consume_end(ring, stream));
    }
    atomic_fetch_add(&shared->ready, 1);
    t_stream_sync(node, stream);
    wait_for_death();
    in_time();
    while (wharf_ring_check(ring) == WHARF_OK)
        t_pause_us(1000);
    told_of_producer(wharf_ring_check(ring));
    told_of_producer(wharf_ring_consume_begin(ring, stream, &slot, &what));
    T_STATUS(WHARF_EPEER, wharf_notify_destroy(&never));
    finish();
}

/* Nobody holds, and nobody consumes: asking is enough. */
static void producer_checked(void)
{
    open_all(2);
    if (t_me == 0)
        vanish();
    wait_for_death();
    while (wharf_ring_check(ring) == WHARF_OK &&
           t_now_ms() < atomic_load(&shared->died_ms) + LATE_MS)
        t_pause_us(1000);
    in_time();
    told_of_producer(wharf_ring_check(ring));
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"consumer_holding", consumer_holding},
    {"consumer_idle", consumer_idle},
    {"consumer_behind_stream", consumer_behind_stream},
    {"consumer_any_time", consumer_any_time},
    {"producer_idle", producer_idle},
    {"producer_behind_stream", producer_behind_stream},
    {"producer_checked", producer_checked},
};

int main(int argc, char **argv)
{
    t_arguments(argc, argv);
    alarm(100);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    T_CHECK(t_ranks >= 2 && t_ranks <= MOST_RANKS);
    victim = (int)t_argument("victim", 1);
    mode = (wharf_ring_mode)t_argument("mode", 0);
    T_CHECK(victim >= 0 && victim < t_ranks);
    shared = t_board(sizeof *shared);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
