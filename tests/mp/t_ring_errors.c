/* SPDX-License-Identifier: MIT */
/* Rings: who may call what and when, deadlines, bad options, limits. */
#include "t_group.h"

#include <mpi.h>
#include <string.h>

enum { BYTES = 3000 };

static struct scene {
    wharf_node *node;
    wharf_stream stream;
    wharf_ring *ring;
} s;

static wharf_ring_options options_of(int slots, wharf_ring_mode mode,
                                     wharf_space space)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    options.slots = slots;
    options.slot_bytes = BYTES;
    options.mode = mode;
    options.space = space;
    return options;
}

static void scene_open(void)
{
    memset(&s, 0, sizeof s);
    s.node = t_open();
    s.stream = t_stream_create(s.node);
}

static void scene_close(void)
{
    t_stream_destroy(s.node, s.stream);
    t_close(s.node);
    t_live_check(NULL);
}

static void ring_open(const wharf_ring_options *options)
{
    T_OK(wharf_ring_create(s.node, options, &s.ring));
    T_EQ_INT(1, t_stats().live_rings);
}

static void ring_close(void)
{
    t_stream_sync(s.node, s.stream);
    T_OK(wharf_ring_check(s.ring));
    T_OK(wharf_ring_destroy(&s.ring));
    T_CHECK(s.ring == NULL);
    T_EQ_INT(0, t_stats().live_rings);
}

static void produce(void)
{
    void *slot;

    T_OK(wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
    T_OK(wharf_ring_produce_end(s.ring, 1, s.stream));
}

static wharf_status consume(void)
{
    const void *slot;
    wharf_status status =
        wharf_ring_consume_begin(s.ring, s.stream, &slot, NULL);

    if (status == WHARF_OK)
        T_OK(wharf_ring_consume_end(s.ring, s.stream));
    return status;
}

/* ---- Deadlines ----------------------------------------------------------- */

static void slow_consumer(void)
{
    wharf_ring_options options;
    void *slot;

    scene_open();
    options = options_of(2, WHARF_RING_ALL, WHARF_SPACE_HOST);
    options.timeout_ms = 80;
    ring_open(&options);
    if (t_me == 0) {
        produce();
        produce();
        T_REFUSES(
            WHARF_ETIMEDOUT, "did not release slot 0",
            wharf_ring_produce_begin(s.ring, WHARF_RING_CPU, &slot, NULL));
        T_REFUSES(WHARF_ETIMEDOUT, "did not release slot 0",
                  wharf_ring_drain(s.ring, 30));
    }
    t_barrier();
    if (t_me != 0) {
        T_OK(consume());
        T_OK(consume());
        T_REFUSES(WHARF_ETIMEDOUT, "gave rank", consume());
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (t_me == 0) {
        T_OK(wharf_ring_drain(s.ring, 0));
        produce();
        T_OK(wharf_ring_close(s.ring));
    } else {
        T_OK(consume());
        T_STATUS(WHARF_ECLOSED, consume());
    }
    ring_close();
    scene_close();
}

/* A drain that was given up has looked at more slots than the next begin needs
 * to be released. */
static void after_drain_timeout(void)
{
    wharf_ring_options options;
    const void *there;
    int one = 1;
    void *slot;

    scene_open();
    options = options_of(2, WHARF_RING_SHARED, WHARF_SPACE_HOST);
    options.consumers = &one;
    options.consumer_count = 1;
    options.timeout_ms = 300;
    ring_open(&options);
    if (t_me == 0) {
        produce();
        produce();
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (t_me == 1) {
        T_OK(consume());
        T_OK(wharf_ring_consume_begin(s.ring, s.stream, &there, NULL));
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (t_me == 0) {
        T_REFUSES(WHARF_ETIMEDOUT, "rank 1 did not release the last 1 slots",
                  wharf_ring_drain(s.ring, 40));
        /* Slot 2 lies where slot 0 was, which is released. */
        T_OK(wharf_ring_produce_begin(s.ring, WHARF_RING_CPU, &slot, NULL));
        T_OK(wharf_ring_produce_end(s.ring, 1, WHARF_RING_CPU));
        /* Slot 3 where slot 1 is still held. */
        T_REFUSES(
            WHARF_ETIMEDOUT, "rank 1 did not release the last 1 slots",
            wharf_ring_produce_begin(s.ring, WHARF_RING_CPU, &slot, NULL));
    }
    t_barrier();
    if (t_me == 1) {
        T_OK(wharf_ring_consume_end(s.ring, s.stream));
        T_OK(consume());
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (t_me == 0)
        T_OK(wharf_ring_drain(s.ring, 0));
    ring_close();
    scene_close();
}

/* ---- Who may call what --------------------------------------------------- */

static void out_of_turn(void)
{
    wharf_ring_options options;
    const void *there = NULL;
    void *slot = NULL;

    scene_open();
    options = options_of(2, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    ring_open(&options);
    if (t_me == 0) {
        T_REFUSES(WHARF_ESTATE, "no slot is begun",
                  wharf_ring_produce_end(s.ring, 1, s.stream));
        T_REFUSES(WHARF_ESTATE, "producer", consume());
        T_REFUSES(WHARF_ESTATE, "producer",
                  wharf_ring_consume_end(s.ring, s.stream));
        T_REFUSES(WHARF_ESTATE, "producer", wharf_ring_join(s.ring));
        T_REFUSES(WHARF_ESTATE, "producer", wharf_ring_leave(s.ring, s.stream));
        T_REFUSES(WHARF_EARG, "NULL",
                  wharf_ring_produce_begin(s.ring, s.stream, NULL, NULL));
        T_OK(wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
        T_REFUSES(WHARF_ESTATE, "not ended",
                  wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
        T_REFUSES(WHARF_ESTATE, "not ended", wharf_ring_close(s.ring));
        T_REFUSES(WHARF_ESTATE, "not ended", wharf_ring_drain(s.ring, 0));
        T_REFUSES(WHARF_EARG, "in a slot of 3000",
                  wharf_ring_produce_end(s.ring, BYTES + 1, s.stream));
        T_OK(wharf_ring_produce_end(s.ring, 0, s.stream));
        T_REFUSES(WHARF_ESTATE, "no slot is begun",
                  wharf_ring_produce_end(s.ring, 1, s.stream));
        T_REFUSES(WHARF_EARG, "timeout_ms", wharf_ring_drain(s.ring, -1));
        T_OK(wharf_ring_close(s.ring));
        T_REFUSES(WHARF_ESTATE, "closed after 1",
                  wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
    } else {
        wharf_ring_slot what;

        T_REFUSES(WHARF_ESTATE, "no slot is begun",
                  wharf_ring_consume_end(s.ring, s.stream));
        T_REFUSES(WHARF_ESTATE, "produces",
                  wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
        T_REFUSES(WHARF_ESTATE, "produces",
                  wharf_ring_produce_end(s.ring, 0, s.stream));
        T_REFUSES(WHARF_ESTATE, "produces", wharf_ring_close(s.ring));
        T_REFUSES(WHARF_ESTATE, "produces", wharf_ring_drain(s.ring, 0));
        T_REFUSES(WHARF_EARG, "NULL",
                  wharf_ring_consume_begin(s.ring, s.stream, NULL, NULL));
        T_OK(wharf_ring_consume_begin(s.ring, s.stream, &there, &what));
        T_EQ_INT(0, (long long)what.bytes);
        T_REFUSES(WHARF_ESTATE, "not ended",
                  wharf_ring_consume_begin(s.ring, s.stream, &there, NULL));
        T_REFUSES(WHARF_ESTATE, "not ended",
                  wharf_ring_leave(s.ring, s.stream));
        T_OK(wharf_ring_consume_end(s.ring, s.stream));
        T_REFUSES(WHARF_ESTATE, "no slot is begun",
                  wharf_ring_consume_end(s.ring, s.stream));
        T_STATUS(WHARF_ECLOSED,
                 wharf_ring_consume_begin(s.ring, s.stream, &there, NULL));
    }
    ring_close();
    T_REFUSES(WHARF_EARG, "NULL", wharf_ring_join(s.ring));
    T_REFUSES(WHARF_EARG, "NULL", wharf_ring_destroy(&s.ring));
    T_REFUSES(WHARF_EARG, "NULL", wharf_ring_destroy(NULL));
    T_REFUSES(WHARF_EARG, "NULL", wharf_ring_check(NULL));
    scene_close();
}

static void refuse(const wharf_ring_options *options, wharf_status expected,
                   const char *part)
{
    wharf_ring *ring = NULL;

    T_FAILS(MPI_COMM_WORLD, expected, -1, part,
            wharf_ring_create(s.node, options, &ring));
    T_CHECK(ring == NULL);
    T_EQ_INT(0, t_stats().live_rings);
}

static void bad_options(void)
{
    const wharf_ring_options good = {sizeof good,
                                     2,
                                     64,
                                     0,
                                     WHARF_RING_ALL,
                                     WHARF_SPACE_DEVICE,
                                     0,
                                     NULL,
                                     0,
                                     WHARF_MECHANISM_AUTO,
                                     0};
    wharf_ring_options bad;
    int list[] = {1, 1, 0, 99};
    wharf_ring *ring = NULL;

    scene_open();
#define REFUSE(field, value, status, part)                                     \
    bad = good;                                                                \
    bad.field = (value);                                                       \
    refuse(&bad, (status), (part))
    REFUSE(slots, 0, WHARF_EARG, "options.slots is 0");
    REFUSE(slots, -3, WHARF_EARG, "options.slots is -3");
    REFUSE(slots, WHARF_MAX_RING_SLOTS + 1, WHARF_EARG, "options.slots");
    REFUSE(slot_bytes, 0, WHARF_EARG, "slot_bytes is 0");
    REFUSE(slot_bytes, SIZE_MAX, WHARF_EARG, "more than can be addressed");
    REFUSE(producer, -1, WHARF_EARG, "options.producer");
    REFUSE(producer, t_ranks, WHARF_EARG, "options.producer");
    REFUSE(mode, (wharf_ring_mode)2, WHARF_EARG, "options.mode");
    REFUSE(space, (wharf_space)2, WHARF_EARG, "options.space");
    REFUSE(timeout_ms, -1, WHARF_EARG, "options.timeout_ms");
    REFUSE(mechanism, WHARF_MECHANISM_HYBRID, WHARF_EARG, "options.mechanism");
    REFUSE(ahead, 257, WHARF_EARG, "options.ahead");
    REFUSE(consumer_count, 1, WHARF_EARG, "options.consumers is NULL");
    REFUSE(consumers, list, WHARF_EARG, "options.consumers is not NULL");
    REFUSE(consumer_count, -2, WHARF_EARG, "options.consumer_count");
    bad = good;
    bad.consumers = list + 2;
    bad.consumer_count = 1;
    refuse(&bad, WHARF_EARG, "rank 0 produces");
    bad.consumers = list + 3;
    refuse(&bad, WHARF_EARG, "is rank 99");
    if (t_ranks > 2) {
        bad.consumers = list;
        bad.consumer_count = 2;
        refuse(&bad, WHARF_EARG, "rank 1 is consumer 0 and 1");
    }
    bad = good;
    bad.slots = t_me == t_ranks - 1 ? 3 : 2;
    refuse(&bad, WHARF_EMISMATCH, "other ring options");
    bad = good;
    bad.producer = t_me == t_ranks - 1 ? 1 : 0;
    refuse(&bad, WHARF_EMISMATCH, "producer");
    refuse(NULL, WHARF_EARG, "options is NULL");
    T_FAILS(MPI_COMM_WORLD, WHARF_EARG, -1, "ring is NULL",
            wharf_ring_create(s.node, &good, NULL));
    T_OK(wharf_ring_create(s.node, &good, &ring));
    T_OK(wharf_ring_destroy(&ring));
    scene_close();
}

/* Larger than any memory here. */
static void too_large(void)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    wharf_ring *ring = NULL;
    wharf_status status;

    scene_open();
    options.slots = 4;
    options.slot_bytes = (size_t)1 << 40;
    status = wharf_ring_create(s.node, &options, &ring);
    T_CHECK(status == WHARF_ENOMEM || status == WHARF_EDEVMEM);
    T_SAME(status);
    T_CHECK(ring == NULL);
    options.slot_bytes = 64;
    T_OK(wharf_ring_create(s.node, &options, &ring));
    T_OK(wharf_ring_destroy(&ring));
    scene_close();
}

static void many_rings(void)
{
    wharf_ring *ring[WHARF_MAX_RINGS + 1] = {NULL};
    wharf_ring_options options;

    scene_open();
    options = options_of(1, WHARF_RING_ALL, WHARF_SPACE_DEVICE);
    options.slot_bytes = 16;
    for (int i = 0; i < WHARF_MAX_RINGS; i++)
        T_OK(wharf_ring_create(s.node, &options, &ring[i]));
    T_FAILS(MPI_COMM_WORLD, WHARF_ELIMIT, -1, "rings already",
            wharf_ring_create(s.node, &options, &ring[WHARF_MAX_RINGS]));
    T_OK(wharf_ring_destroy(&ring[5]));
    T_OK(wharf_ring_create(s.node, &options, &ring[5]));
    /* The rest goes with the node. */
    scene_close();
}

static void alone(void)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    wharf_ring *ring = NULL;
    wharf_node *node = NULL;

    options.slots = 2;
    options.slot_bytes = 64;
    T_OK(wharf_node_open(MPI_COMM_SELF, NULL, &node));
    T_REFUSES(WHARF_EARG, "one rank", wharf_ring_create(node, &options, &ring));
    t_close(node);
}

static void describes(void)
{
    wharf_ring_options options;
    wharf_ring_info info = WHARF_RING_INFO_INIT;

    scene_open();
    options = options_of(3, WHARF_RING_SHARED, WHARF_SPACE_HOST);
    ring_open(&options);
    T_OK(wharf_ring_info_get(s.ring, &info));
    T_EQ_INT(3, info.slots);
    T_EQ_INT(BYTES, (long long)info.slot_bytes);
    T_EQ_INT(3072, (long long)info.slot_stride);
    T_EQ_INT(0, info.producer);
    T_EQ_INT(WHARF_RING_SHARED, info.mode);
    T_EQ_INT(WHARF_SPACE_HOST, info.space);
    T_EQ_INT(t_ranks - 1, info.consumers);
    T_EQ_INT(t_me != 0, info.consuming);
    T_CHECK(info.mechanism != WHARF_MECHANISM_AUTO);
    T_EQ_INT(t_mode_get() == T_HOST, info.mechanism == WHARF_MECHANISM_HOST);
    T_CHECK(info.reason[0] != '\0');
    t_barrier();
    if (t_me == 0) {
        produce();
        T_OK(wharf_ring_close(s.ring));
    }
    t_barrier();
    T_OK(wharf_ring_info_get(s.ring, &info));
    T_EQ_INT(1, info.closed);
    T_EQ_INT(1, (long long)info.issued);
    T_EQ_INT(t_me == 0, (long long)info.mine);
    T_REFUSES(WHARF_EARG, "info", wharf_ring_info_get(s.ring, NULL));
    ring_close();
    scene_close();
}

static const t_case cases[] = {
    {"slow_consumer", slow_consumer, T_ANY},
    {"after_drain_timeout", after_drain_timeout, T_ANY},
    {"out_of_turn", out_of_turn, T_ANY},
    {"bad_options", bad_options, T_ANY},
    {"too_large", too_large, T_ANY},
    {"many_rings", many_rings, T_ANY},
    {"alone", alone, T_HOST},
    {"describes", describes, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
