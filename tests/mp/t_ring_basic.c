/* SPDX-License-Identifier: MIT */
/* Rings: every slot's bytes at every consumer, in both modes and spaces, for
 * several depths; joining, leaving, the end. */
#include "t_group.h"

#include <mpi.h>
#include <string.h>

enum { BYTES = 3000, PATTERNS = 7, MOST = 4096 };

typedef struct scene {
    wharf_node *node;
    wharf_buffer *data; /* producer: PATTERNS patterns; others: what they saw */
    wharf_stream stream;
    wharf_ring *ring;
    int rounds;
    int producer;
    int saw;              /* slots */
    uint64_t index[MOST]; /* of each */
    wharf_space space;    /* where slots really are */
} scene;

static scene s;

static size_t bytes_of(uint64_t index)
{
    return BYTES - (size_t)(index % 5) * 13;
}

static wharf_ring_options options_of(int slots, wharf_ring_mode mode,
                                     wharf_space space)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    options.slots = slots;
    options.slot_bytes = BYTES;
    options.producer = s.producer;
    options.mode = mode;
    options.space = space;
    return options;
}

static char *piece(int rank, int i)
{
    return (char *)t_segment(s.data, rank, NULL) + (size_t)i * BYTES;
}

static void scene_open(int producer, int rounds)
{
    memset(&s, 0, sizeof s);
    T_CHECK(rounds <= MOST);
    s.producer = producer;
    s.rounds = rounds;
    s.node = t_open();
    s.data = t_attach(
        s.node, (size_t)(t_me == producer ? PATTERNS : rounds) * BYTES, 0);
    s.stream = t_stream_create(s.node);
    for (int i = 0; t_me == producer && i < PATTERNS; i++)
        t_dev_fill_pattern(t_place(s.node, s.data, t_me), piece(t_me, i), BYTES,
                           (uint64_t)i);
}

static void scene_close(void)
{
    t_stream_destroy(s.node, s.stream);
    t_detach(s.data);
    t_close(s.node);
    t_live_check(NULL);
}

static void ring_open(const wharf_ring_options *options)
{
    wharf_ring_info info = WHARF_RING_INFO_INIT;

    s.ring = NULL;
    s.saw = 0;
    T_OK(wharf_ring_create(s.node, options, &s.ring));
    T_CHECK(s.ring != NULL);
    T_EQ_INT(1, t_stats().live_rings);
    T_OK(wharf_ring_info_get(s.ring, &info));
    s.space = info.space;
}

static void ring_close(void)
{
    t_stream_sync(s.node, s.stream);
    T_OK(wharf_ring_check(s.ring));
    T_OK(wharf_ring_destroy(&s.ring));
    T_CHECK(s.ring == NULL);
    T_EQ_INT(0, t_stats().live_rings);
}

static void produce(uint64_t expected)
{
    void *slot = NULL;
    uint64_t index = 999;

    T_OK(wharf_ring_produce_begin(s.ring, s.stream, &slot, &index));
    T_EQ_INT((long long)expected, (long long)index);
    T_CHECK(slot != NULL && ((uintptr_t)slot & 255) == 0);
    t_stream_copy(s.node, s.stream, slot, piece(t_me, (int)(index % PATTERNS)),
                  bytes_of(index));
    T_OK(wharf_ring_produce_end(s.ring, bytes_of(index), s.stream));
}

/* One slot, kept to be looked at later. */
static wharf_status consume(void)
{
    const void *slot = NULL;
    wharf_ring_slot what = {999, 999};
    wharf_status status =
        wharf_ring_consume_begin(s.ring, s.stream, &slot, &what);

    if (status != WHARF_OK)
        return status;
    T_CHECK(s.saw < s.rounds);
    T_EQ_INT((long long)bytes_of(what.index), (long long)what.bytes);
    s.index[s.saw] = what.index;
    t_stream_copy(s.node, s.stream, piece(t_me, s.saw), slot, what.bytes);
    s.saw++;
    T_OK(wharf_ring_consume_end(s.ring, s.stream));
    return WHARF_OK;
}

static void consume_all(void)
{
    wharf_status status;

    while ((status = consume()) == WHARF_OK)
        ;
    T_STATUS(WHARF_ECLOSED, status);
    T_STATUS(WHARF_ECLOSED, consume());
}

static void check_seen(void)
{
    t_stream_sync(s.node, s.stream);
    for (int i = 0; i < s.saw; i++) {
        long long wrong =
            t_dev_check_pattern(t_place(s.node, s.data, t_me), piece(t_me, i),
                                bytes_of(s.index[i]), s.index[i] % PATTERNS);

        if (wrong >= 0)
            T_FAIL("slot %llu, seen as number %d, is wrong from byte %lld on",
                   (unsigned long long)s.index[i], i, wrong);
        if (i > 0)
            T_CHECK(s.index[i] > s.index[i - 1]);
    }
}

/* ---- What everybody sees ------------------------------------------------- */

static void run(int slots, wharf_ring_mode mode, wharf_space space)
{
    wharf_ring_options options = options_of(slots, mode, space);
    int all = 0;

    ring_open(&options);
    if (t_me == s.producer) {
        for (int i = 0; i < s.rounds; i++)
            produce((uint64_t)i);
        T_OK(wharf_ring_close(s.ring));
        T_OK(wharf_ring_close(s.ring));
        T_OK(wharf_ring_drain(s.ring, 0));
    } else {
        consume_all();
        check_seen();
        if (mode == WHARF_RING_ALL) {
            T_EQ_INT(s.rounds, s.saw);
            for (int i = 0; i < s.saw; i++)
                T_EQ_INT(i, (long long)s.index[i]);
        }
    }
    MPI_Allreduce(&s.saw, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    T_EQ_INT(mode == WHARF_RING_ALL ? s.rounds * (t_ranks - 1) : s.rounds, all);
    ring_close();
}

static void every_shape(void)
{
    static const int depth[] = {1, 2, 5};

    scene_open(0, (int)t_argument("rounds", 40));
    for (int d = 0; d < 3; d++) {
        run(depth[d], WHARF_RING_ALL, WHARF_SPACE_DEVICE);
        run(depth[d], WHARF_RING_ALL, WHARF_SPACE_HOST);
        run(depth[d], WHARF_RING_SHARED, WHARF_SPACE_DEVICE);
        run(depth[d], WHARF_RING_SHARED, WHARF_SPACE_HOST);
    }
    scene_close();
}

static void every_producer(void)
{
    for (int producer = 1; producer < t_ranks && producer < 4; producer++) {
        scene_open(producer, 20);
        run(3, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
        run(2, WHARF_RING_SHARED, WHARF_SPACE_HOST);
        scene_close();
    }
}

/* Many more slots than any host may be ahead, and than the control block has
 * notes of. */
static void long_run(void)
{
    scene_open(0, MOST);
    run(2, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    scene_close();
}

/* ---- The CPU in person --------------------------------------------------- */

static void cpu_run(wharf_ring_mode mode)
{
    wharf_ring_options options = options_of(3, mode, WHARF_SPACE_HOST);
    wharf_status status = WHARF_OK;
    int all = 0;

    ring_open(&options);
    for (int i = 0; t_me == s.producer && i < s.rounds; i++) {
        void *slot;

        T_OK(wharf_ring_produce_begin(s.ring, WHARF_RING_CPU, &slot, NULL));
        t_dev_fill_pattern(NULL, slot, BYTES, (uint64_t)i);
        T_OK(wharf_ring_produce_end(s.ring, BYTES, WHARF_RING_CPU));
    }
    if (t_me == s.producer)
        T_OK(wharf_ring_close(s.ring));
    while (t_me != s.producer && status == WHARF_OK) {
        const void *slot;
        wharf_ring_slot what;

        status = wharf_ring_consume_begin(s.ring, WHARF_RING_CPU, &slot, &what);
        if (status != WHARF_OK)
            break;
        T_EQ_INT(BYTES, (long long)what.bytes);
        T_EQ_INT(-1, t_dev_check_pattern(NULL, slot, BYTES, what.index));
        T_OK(wharf_ring_consume_end(s.ring, WHARF_RING_CPU));
        s.saw++;
    }
    if (t_me != s.producer)
        T_STATUS(WHARF_ECLOSED, status);
    MPI_Allreduce(&s.saw, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    T_EQ_INT(mode == WHARF_RING_ALL ? s.rounds * (t_ranks - 1) : s.rounds, all);
    ring_close();
}

static void on_the_cpu(void)
{
    scene_open(0, 24);
    cpu_run(WHARF_RING_ALL);
    cpu_run(WHARF_RING_SHARED);
    scene_close();
}

/* ---- Joining and leaving ------------------------------------------------- */

static int consumers_now(void)
{
    wharf_ring_info info = WHARF_RING_INFO_INIT;

    T_OK(wharf_ring_info_get(s.ring, &info));
    return info.consumers;
}

/* The last rank joins after some slots, and misses those. */
static void join_late(void)
{
    enum { BEFORE = 6, AFTER = 9 };
    int late;
    wharf_ring_options options;
    int early[64];

    scene_open(0, BEFORE + AFTER);
    late = t_ranks - 1;
    options = options_of(2, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    for (int i = 0; i + 1 < late; i++)
        early[i] = i + 1;
    options.consumers = late > 1 ? early : NULL;
    options.consumer_count = late > 1 ? late - 1 : WHARF_RING_NOBODY;
    ring_open(&options);
    for (int i = 0; t_me == 0 && i < BEFORE; i++)
        produce((uint64_t)i);
    for (int i = 0; t_me != 0 && t_me != late && i < BEFORE; i++)
        T_OK(consume());
    if (t_me == late)
        T_REFUSES(WHARF_ESTATE, "no consumer", consume());
    t_barrier();
    if (t_me == late) {
        T_OK(wharf_ring_join(s.ring));
        T_REFUSES(WHARF_ESTATE, "consumes already", wharf_ring_join(s.ring));
    }
    t_barrier();
    for (int i = 0; t_me == 0 && i < AFTER; i++)
        produce((uint64_t)(BEFORE + i));
    if (t_me == 0) {
        T_OK(wharf_ring_close(s.ring));
        T_EQ_INT(t_ranks - 1, consumers_now());
    } else {
        consume_all();
        check_seen();
        T_EQ_INT(t_me == late ? AFTER : BEFORE + AFTER, s.saw);
        T_EQ_INT(t_me == late ? BEFORE : 0, (long long)s.index[0]);
    }
    ring_close();
    scene_close();
}

/* Rank 1 leaves unread slots behind, which must not hold the producer up, and
 * comes again. */
static void leave_and_return(void)
{
    enum { PART = 8, K = 3 };
    wharf_ring_options options;

    scene_open(0, 3 * PART);
    options = options_of(K, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    ring_open(&options);
    for (int round = 0; round < 3; round++) {
        /* Round 0: rank 1 reads two and leaves; 1: away; 2: back. */
        for (int i = 0; t_me == 0 && i < PART; i++)
            produce((uint64_t)(round * PART + i));
        if (t_me > 1 || (t_me == 1 && round == 2))
            for (int i = 0; i < PART; i++)
                T_OK(consume());
        if (t_me == 1 && round == 0) {
            T_OK(consume());
            T_OK(consume());
            T_OK(wharf_ring_leave(s.ring, s.stream));
            T_REFUSES(WHARF_ESTATE, "no consumer",
                      wharf_ring_leave(s.ring, s.stream));
            T_REFUSES(WHARF_ESTATE, "no consumer", consume());
        }
        t_barrier();
        if (t_me == 1 && round == 1)
            T_OK(wharf_ring_join(s.ring));
        t_barrier();
    }
    if (t_me == 0) {
        T_OK(wharf_ring_drain(s.ring, 0));
        T_OK(wharf_ring_close(s.ring));
    } else {
        consume_all();
        check_seen();
        T_EQ_INT(t_me == 1 ? 2 + PART : 3 * PART, s.saw);
        if (t_me == 1)
            T_EQ_INT(2 * PART, (long long)s.index[2]);
    }
    ring_close();
    scene_close();
}

/* What a rank that left still reads is not drained, also when slots were ended
 * after it had left, and when it asks to come again. */
static void drain_after_leave(void)
{
    wharf_ring_options options;
    wharf_notify *gate = NULL;
    wharf_ring_slot what;
    const void *slot;

    scene_open(0, 4);
    options = options_of(4, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    options.consumer_count = 1;
    options.consumers = (const int[]){1};
    ring_open(&options);
    T_OK(wharf_notify_create(s.node, 1, NULL, &gate));
    if (t_me == 0)
        produce(0);
    if (t_me == 1) {
        T_OK(wharf_ring_consume_begin(s.ring, s.stream, &slot, &what));
        T_OK(wharf_notify_wait(gate, 0, s.stream, 0));
        T_OK(wharf_ring_consume_end(s.ring, s.stream));
        T_OK(wharf_ring_leave(s.ring, s.stream));
    }
    t_barrier();
    if (t_me == 0) {
        produce(1);
        T_REFUSES(WHARF_ETIMEDOUT, "rank 1 did not release slot 0",
                  wharf_ring_drain(s.ring, 50));
    }
    t_barrier();
    if (t_me == 1)
        T_OK(wharf_ring_join(s.ring));
    t_barrier();
    if (t_me == 0) {
        T_REFUSES(WHARF_ETIMEDOUT, "rank 1 did not release slot 0",
                  wharf_ring_drain(s.ring, 50));
        T_OK(wharf_notify_record(gate, s.stream));
        T_OK(wharf_ring_drain(s.ring, 0));
    }
    T_OK(wharf_notify_destroy(&gate));
    ring_close();
    scene_close();
}

/* Everybody leaves; nobody is waited for. */
static void nobody_there(void)
{
    wharf_ring_options options;

    scene_open(0, 12);
    options = options_of(2, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    options.consumer_count = WHARF_RING_NOBODY;
    ring_open(&options);
    for (int i = 0; t_me == 0 && i < 12; i++)
        produce((uint64_t)i);
    if (t_me == 0)
        T_OK(wharf_ring_drain(s.ring, 0));
    ring_close();

    /* Slots that are shared out wait for somebody to take them. */
    options.mode = WHARF_RING_SHARED;
    options.timeout_ms = 60;
    ring_open(&options);
    if (t_me == 0) {
        void *slot;

        produce(0);
        produce(1);
        T_REFUSES(WHARF_ETIMEDOUT, "no consumer took slot 0",
                  wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
        T_REFUSES(WHARF_ETIMEDOUT, "no consumer took slot 0",
                  wharf_ring_drain(s.ring, 20));
    }
    t_barrier();
    if (t_me == 1) {
        T_OK(wharf_ring_join(s.ring));
        T_OK(consume());
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (t_me == 0) {
        produce(2);
        T_OK(wharf_ring_close(s.ring));
    }
    t_barrier();
    if (t_me == 1) {
        T_OK(wharf_ring_leave(s.ring, s.stream));
        T_OK(wharf_ring_join(s.ring));
        consume_all();
        check_seen();
        T_EQ_INT(3, s.saw);
    }
    ring_close();
    scene_close();
}

static const t_case cases[] = {
    {"every_shape", every_shape, T_ANY},
    {"every_producer", every_producer, T_ANY},
    {"long_run", long_run, T_ANY},
    {"on_the_cpu", on_the_cpu, T_ANY},
    {"join_late", join_late, T_ANY},
    {"leave_and_return", leave_and_return, T_ANY},
    {"drain_after_leave", drain_after_leave, T_CUDA},
    {"nobody_there", nobody_there, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
