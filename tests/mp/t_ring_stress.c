/* SPDX-License-Identifier: MIT */
/*
 * Rings under disorder: everybody dawdles at random, consumers leave and join
 * at random, by streams and by the CPU, while the words' numbers wrap. Every
 * byte that anybody was given is checked. Sees the internals, to start near the
 * wrap; and to write by hand what a rescue writes for ranks that stay silent.
 */
#include "core/ring.h"
#include "core/signal.h"
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 700, PATTERNS = 11 };

typedef struct scene {
    wharf_node *node;
    wharf_buffer *data; /* producer: patterns; others: what they saw */
    wharf_stream stream;
    wharf_ring *ring;
    int rounds;
    int saw;
    uint64_t *index; /* of each slot seen */
    bool *broke;     /* was away before it */
    uint64_t random;
} scene;

static scene s;

static unsigned chance(unsigned of)
{
    s.random = s.random * UINT64_C(6364136223846793005) +
               UINT64_C(1442695040888963407);
    return (unsigned)(s.random >> 33) % of;
}

static void dawdle(void)
{
    struct timespec pause = {0, 0};

    if (chance(6) != 0)
        return;
    pause.tv_nsec = (long)chance(300) * 1000;
    nanosleep(&pause, NULL);
}

static char *piece(int i)
{
    return (char *)t_segment(s.data, t_me, NULL) + (size_t)i * BYTES;
}

/* Whether this time the CPU acts in person. */
static wharf_stream actor(void)
{
    return chance(5) == 0 ? WHARF_RING_CPU : s.stream;
}

static void produce(uint64_t i)
{
    wharf_stream who = actor();
    uint64_t index;
    void *slot;

    /* What streams have signalled comes before what the CPU signals. */
    if (who == WHARF_RING_CPU)
        t_stream_sync(s.node, s.stream);
    T_OK(wharf_ring_produce_begin(s.ring, who, &slot, &index));
    T_EQ_INT((long long)i, (long long)index);
    dawdle();
    t_stream_copy(s.node, s.stream, slot, piece((int)(i % PATTERNS)), BYTES);
    if (who == WHARF_RING_CPU)
        t_stream_sync(s.node, s.stream);
    T_OK(wharf_ring_produce_end(s.ring, (size_t)(i % BYTES), who));
}

static wharf_status consume(bool broke)
{
    wharf_stream who = actor();
    wharf_ring_slot what;
    const void *slot;
    wharf_status status;

    if (who == WHARF_RING_CPU)
        t_stream_sync(s.node, s.stream);
    status = wharf_ring_consume_begin(s.ring, who, &slot, &what);
    if (status != WHARF_OK)
        return status;
    T_CHECK(s.saw < s.rounds);
    T_EQ_INT((long long)(what.index % BYTES), (long long)what.bytes);
    s.index[s.saw] = what.index;
    s.broke[s.saw] = broke;
    t_stream_copy(s.node, s.stream, piece(s.saw), slot, BYTES);
    s.saw++;
    dawdle();
    if (who == WHARF_RING_CPU)
        t_stream_sync(s.node, s.stream);
    T_OK(wharf_ring_consume_end(s.ring, who));
    return WHARF_OK;
}

/* Until the ring is closed, away now and then. Rank 1 stays, so that slots
 * which are shared out are taken. */
static void consume_all(void)
{
    wharf_status status = WHARF_OK;

    while (status == WHARF_OK) {
        bool broke = t_me != 1 && chance(9) == 0;

        if (broke) {
            T_OK(wharf_ring_leave(s.ring, s.stream));
            dawdle();
            T_OK(wharf_ring_join(s.ring));
        }
        status = consume(broke);
        dawdle();
    }
    T_STATUS(WHARF_ECLOSED, status);
}

static void check_seen(wharf_ring_mode mode)
{
    t_stream_sync(s.node, s.stream);
    for (int i = 0; i < s.saw; i++) {
        long long wrong =
            t_dev_check_pattern(t_place(s.node, s.data, t_me), piece(i), BYTES,
                                s.index[i] % PATTERNS);

        if (wrong >= 0)
            T_FAIL("slot %llu, seen as number %d, is wrong from byte %lld on",
                   (unsigned long long)s.index[i], i, wrong);
        if (i == 0)
            continue;
        T_CHECK(s.index[i] > s.index[i - 1]);
        if (mode == WHARF_RING_ALL && !s.broke[i])
            T_EQ_INT((long long)s.index[i - 1] + 1, (long long)s.index[i]);
    }
}

static void run(int slots, wharf_ring_mode mode, wharf_space space)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    int all = 0;

    options.slots = slots;
    options.slot_bytes = BYTES;
    options.mode = mode;
    options.space = space;
    s.saw = 0;
    T_OK(wharf_ring_create(s.node, &options, &s.ring));
    if (t_me == 0) {
        for (int i = 0; i < s.rounds; i++)
            produce((uint64_t)i);
        T_OK(wharf_ring_close(s.ring));
        T_OK(wharf_ring_drain(s.ring, 0));
    } else {
        consume_all();
        check_seen(mode);
    }
    MPI_Allreduce(&s.saw, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (mode == WHARF_RING_SHARED)
        T_EQ_INT(s.rounds, all);
    if (t_me == 1 && mode == WHARF_RING_ALL)
        T_EQ_INT(s.rounds, s.saw);
    t_stream_sync(s.node, s.stream);
    T_OK(wharf_ring_check(s.ring));
    T_OK(wharf_ring_destroy(&s.ring));
}

static void disorder(void)
{
    static const int depth[] = {1, 2, 5};

    memset(&s, 0, sizeof s);
    s.rounds = (int)t_argument("rounds", 60);
    s.random = (uint64_t)t_argument("seed", 1) * 7919 + (uint64_t)t_me;
    s.index = calloc((size_t)s.rounds, sizeof *s.index);
    s.broke = calloc((size_t)s.rounds, sizeof *s.broke);
    T_CHECK(s.index && s.broke);
    wi_signal_first_epoch = UINT32_MAX - (uint32_t)s.rounds / 2;
    s.node = t_open();
    s.data = t_attach(s.node, (size_t)(t_me ? s.rounds : PATTERNS) * BYTES, 0);
    s.stream = t_stream_create(s.node);
    for (int i = 0; t_me == 0 && i < PATTERNS; i++)
        t_dev_fill_pattern(t_place(s.node, s.data, t_me), piece(i), BYTES,
                           (uint64_t)i);
    for (int d = 0; d < 3; d++)
        for (int mode = 0; mode < 2; mode++)
            for (int space = 0; space < 2; space++)
                run(depth[d], (wharf_ring_mode)mode, (wharf_space)space);
    t_stream_destroy(s.node, s.stream);
    t_detach(s.data);
    t_close(s.node);
    wi_signal_first_epoch = 0;
    free(s.index);
    free(s.broke);
    t_live_check(NULL);
}

/* ---- Let go ---------------------------------------------------------- */

static void produce_one(void)
{
    void *slot;

    T_OK(wharf_ring_produce_begin(s.ring, s.stream, &slot, NULL));
    T_OK(wharf_ring_produce_end(s.ring, 1, s.stream));
}

static void consume_one(void)
{
    const void *slot;

    T_OK(wharf_ring_consume_begin(s.ring, s.stream, &slot, NULL));
    T_OK(wharf_ring_consume_end(s.ring, s.stream));
}

/* The producer's stream waits for consumers whose hosts do nothing. */
static void let_go_producer(wharf_ring_mode mode)
{
    bool holds = t_me == 1 && mode == WHARF_RING_SHARED;
    const void *slot;

    if (t_me == 0)
        produce_one();
    if (holds) { /* so that it is this rank that is waited for */
        uint32_t before = s.ring->control->answer;

        T_OK(wharf_ring_consume_begin(s.ring, s.stream, &slot, NULL));
        T_CHECK(s.ring->control->answer != before); /* wakes the producer */
    }
    t_barrier();
    if (t_me == 0) {
        produce_one();
        wi_ring_let_go(s.node);
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (holds)
        T_OK(wharf_ring_consume_end(s.ring, s.stream));
    else if (t_me != 0 && mode == WHARF_RING_ALL)
        consume_one();
    if (t_me == 1 || (t_me != 0 && mode == WHARF_RING_ALL))
        consume_one();
}

/* The consumers' streams wait for a slot that the producer's never fills. */
static void let_go_consumers(wharf_ring_mode mode)
{
    wharf_notify *never = NULL;

    T_OK(wharf_notify_create(s.node, 0, NULL, &never));
    if (t_me == 0) {
        T_OK(wharf_notify_wait(never, 1, s.stream, 0));
        produce_one();
    } else if (t_me == 1 || mode == WHARF_RING_ALL) {
        consume_one();
        wi_ring_let_go(s.node);
        t_stream_sync(s.node, s.stream);
    }
    t_barrier();
    if (t_me == 1)
        T_OK(wharf_notify_record(never, s.stream));
    t_stream_sync(s.node, s.stream);
    T_OK(wharf_notify_destroy(&never));
}

static void let_go(void)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    memset(&s, 0, sizeof s);
    options.slots = 1;
    options.slot_bytes = BYTES;
    s.node = t_open();
    s.stream = t_stream_create(s.node);
    for (int mode = 0; mode < 2; mode++) {
        options.mode = (wharf_ring_mode)mode;
        T_OK(wharf_ring_create(s.node, &options, &s.ring));
        let_go_producer(options.mode);
        let_go_consumers(options.mode);
        T_OK(wharf_ring_check(s.ring));
        T_OK(wharf_ring_destroy(&s.ring));
    }
    t_stream_destroy(s.node, s.stream);
    t_close(s.node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"disorder", disorder, T_ANY},
    {"let_go", let_go, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
