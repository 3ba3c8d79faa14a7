/* SPDX-License-Identifier: MIT */
/*
 * Events order data: what the owner's stream wrote before a record is what a
 * stream reads that waited for it, over many rounds and in both directions.
 */
#include "t_graph.h"
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, ROUNDS = 20 };

typedef struct setup {
    wharf_node *node;
    wharf_buffer *source; /* written by each rank in turn */
    wharf_buffer *own;    /* copies that each rank takes for itself */
    wharf_stream stream;
} setup;

static setup begin(void)
{
    setup s;

    s.node = t_open();
    s.source = t_attach(s.node, BYTES, 0);
    s.own = t_attach(s.node, BYTES, 0);
    s.stream = t_stream_create(s.node);
    return s;
}

static void end(setup *s)
{
    t_stream_sync(s->node, s->stream);
    t_stream_destroy(s->node, s->stream);
    t_detach(s->own);
    t_detach(s->source);
    t_close(s->node);
    t_live_check(NULL);
}

/* The writer's stream is kept busy first, so that a reader which did not wait
 * would read too early. */
static void write_late(setup *s, unsigned char value)
{
    void *mine = t_segment(s->source, t_me, NULL);

    for (int i = 0; i < 4; i++)
        t_stream_fill(s->node, s->stream, mine, (unsigned char)(0xf0 + i),
                      BYTES);
    t_stream_fill(s->node, s->stream, mine, value, BYTES);
}

/* One writer, all others read: batch after batch with a way back, no host
 * synchronisation between the rounds. */
static void one_writer(void)
{
    setup s = begin();
    wharf_event *written = NULL;
    wharf_event *read[64];

    T_CHECK(t_ranks <= 64);
    T_OK(wharf_event_create(s.node, 0, &written));
    for (int rank = 0; rank < t_ranks; rank++)
        T_OK(wharf_event_create(s.node, rank, &read[rank]));
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        if (t_me == 0) {
            for (int rank = 1; rank < t_ranks && k > 1; rank++)
                T_OK(wharf_event_wait(read[rank], k - 1, s.stream));
            write_late(&s, (unsigned char)k);
            T_OK(wharf_event_record(written, s.stream, NULL));
        } else {
            void *own = t_segment(s.own, t_me, NULL);

            T_OK(wharf_event_wait(written, k, s.stream));
            t_stream_copy(s.node, s.stream, own, t_segment(s.source, 0, NULL),
                          BYTES);
            T_OK(wharf_event_record(read[t_me], s.stream, NULL));
            T_OK(wharf_event_synchronize(read[t_me], k, 0));
            T_EQ_INT(-1, t_dev_check_value(t_place(s.node, s.own, t_me), own,
                                           BYTES, (unsigned char)k));
        }
    }
    t_barrier();
    for (int rank = t_ranks - 1; rank >= 0; rank--)
        T_OK(wharf_event_destroy(&read[rank]));
    T_OK(wharf_event_destroy(&written));
    end(&s);
}

/* A ring: every rank passes on what it got from its left neighbour,
 * ordered by the events that came with the buffer. */
static void around_the_ring(void)
{
    setup s = begin();
    int left = (t_me + t_ranks - 1) % t_ranks;
    wharf_event *mine = NULL;
    wharf_event *from = NULL;
    const wharf_node *place = t_place(s.node, s.source, t_me);
    uint64_t hops = (uint64_t)t_ranks * 3;

    T_OK(wharf_buffer_event(s.source, t_me, &mine));
    T_OK(wharf_buffer_event(s.source, left, &from));
    t_dev_fill(place, t_segment(s.source, t_me, NULL), (unsigned char)t_me,
               BYTES);
    T_OK(wharf_event_record(mine, s.stream, NULL));
    for (uint64_t k = 1; k <= hops; k++) {
        /* Take the left neighbour's state k, into own; then, when the right
         * one has taken mine, put it into my segment. */
        T_OK(wharf_event_wait(from, 2 * k - 1, s.stream));
        t_stream_copy(s.node, s.stream, t_segment(s.own, t_me, NULL),
                      t_segment(s.source, left, NULL), BYTES);
        T_OK(wharf_event_record(mine, s.stream, NULL)); /* 2k: taken */
        {
            wharf_event *right = NULL;

            T_OK(wharf_buffer_event(s.source, (t_me + 1) % t_ranks, &right));
            T_OK(wharf_event_wait(right, 2 * k, s.stream));
        }
        t_stream_copy(s.node, s.stream, t_segment(s.source, t_me, NULL),
                      t_segment(s.own, t_me, NULL), BYTES);
        T_OK(wharf_event_record(mine, s.stream, NULL)); /* 2k + 1: put */
    }
    t_stream_sync(s.node, s.stream);
    /* A whole number of turns: everybody's own byte is back. */
    T_EQ_INT(-1, t_dev_check_value(place, t_segment(s.source, t_me, NULL),
                                   BYTES, (unsigned char)t_me));
    t_barrier();
    end(&s);
}

/* Records of one event on two streams, a slow and a fast one: whoever waits for
 * the slow one's record gets what was written before it, however many records
 * of the fast one came after. */
static void two_streams(void)
{
    setup s = begin();
    wharf_event *event = NULL;
    wharf_stream fast = t_stream_create(s.node);
    void *own = t_segment(s.own, t_me, NULL);

    for (uint64_t round = 0; round < 5; round++) {
        unsigned char value = (unsigned char)(round + 1);

        T_OK(wharf_event_create(s.node, 0, &event));
        if (t_me == 0) {
            for (int i = 0; i < 30; i++)
                write_late(&s, 0xee);
            write_late(&s, value);
            T_OK(wharf_event_record(event, s.stream, NULL));
            for (int i = 0; i < 20; i++)
                T_OK(wharf_event_record(event, fast, NULL));
        }
        t_barrier();
        if (t_me % 2)
            T_OK(wharf_event_wait(event, 1, s.stream));
        else
            T_OK(wharf_event_synchronize(event, 1, 0));
        t_stream_copy(s.node, s.stream, own, t_segment(s.source, 0, NULL),
                      BYTES);
        t_stream_sync(s.node, s.stream);
        T_EQ_INT(-1, t_dev_check_value(t_place(s.node, s.own, t_me), own, BYTES,
                                       value));
        T_OK(wharf_event_destroy(&event));
    }
    t_stream_sync(s.node, fast);
    t_stream_destroy(s.node, fast);
    end(&s);
}

/* The host waits: synchronize makes the bytes visible to it. */
static void to_the_host(void)
{
    setup s = begin();
    wharf_event *event = NULL;

    for (uint64_t k = 1; k <= ROUNDS; k++) {
        int writer = (int)k % t_ranks;

        T_OK(wharf_buffer_event(s.source, writer, &event));
        if (t_me == writer) {
            write_late(&s, (unsigned char)(k + 100));
            T_OK(wharf_event_record(event, s.stream, NULL));
        }
        T_OK(wharf_event_synchronize(
            event, (k + (uint64_t)t_ranks - 1) / (uint64_t)t_ranks, 0));
        t_barrier();
        T_OK(wharf_event_synchronize(event, WHARF_LATEST, 0));
        T_EQ_INT(-1, t_dev_check_value(t_place(s.node, s.source, writer),
                                       t_segment(s.source, writer, NULL), BYTES,
                                       (unsigned char)(k + 100)));
        t_barrier();
    }
    end(&s);
}

/* More events than one after the other in the same slots, recorded by every
 * rank in turn: numbers begin at 1 for each, and no wait passes by what an
 * earlier user left behind. */
static void slots_reused(void)
{
    setup s = begin();
    void *own = t_segment(s.own, t_me, NULL);

    for (int round = 0; round < 12; round++) {
        unsigned char value = (unsigned char)(round + 1);
        int writer = round % t_ranks;
        wharf_event *event = NULL;
        uint64_t number = 0;

        T_OK(wharf_event_create(s.node, writer, &event));
        T_STATUS(WHARF_ENOTREADY, wharf_event_query(event, 1));
        t_barrier();
        if (t_me == writer) {
            write_late(&s, value);
            T_OK(wharf_event_record(event, s.stream, &number));
            T_EQ_INT(1, (long long)number);
            for (int i = 0; i < round; i++)
                T_OK(wharf_event_record(event, s.stream, NULL));
        }
        T_OK(wharf_event_wait(event, 1, s.stream));
        t_stream_copy(s.node, s.stream, own, t_segment(s.source, writer, NULL),
                      BYTES);
        t_stream_sync(s.node, s.stream);
        T_EQ_INT(-1, t_dev_check_value(t_place(s.node, s.own, t_me), own, BYTES,
                                       value));
        T_OK(wharf_event_synchronize(event, (uint64_t)round + 1, 0));
        T_OK(wharf_event_query(event, 1));
        T_OK(wharf_event_destroy(&event));
    }
    end(&s);
}

/* An event is destroyed while its record and the waits for it are still in the
 * streams; the next one in its slot is recorded by a rank that is not busy. */
static void destroyed_early(void)
{
    setup s = begin();
    wharf_stream idle = t_stream_create(s.node);
    void *own = t_segment(s.own, t_me, NULL);

    for (int round = 0; round < 4; round++) {
        unsigned char value = (unsigned char)(round + 1);
        int busy = round % t_ranks;
        int next = (round + 1) % t_ranks;
        wharf_event *event = NULL;

        T_OK(wharf_event_create(s.node, busy, &event));
        if (t_me == busy) {
            for (int i = 0; i < 20; i++)
                write_late(&s, 0xee);
            write_late(&s, value);
            T_OK(wharf_event_record(event, s.stream, NULL));
        }
        T_OK(wharf_event_wait(event, 1, s.stream));
        t_stream_copy(s.node, s.stream, own, t_segment(s.source, busy, NULL),
                      BYTES);
        T_OK(wharf_event_destroy(&event));

        T_OK(wharf_event_create(s.node, next, &event));
        if (t_me == next)
            T_OK(wharf_event_record(event, idle, NULL));
        T_OK(wharf_event_wait(event, 1, idle));
        T_OK(wharf_stream_synchronize(s.node, idle, 0));
        T_OK(wharf_event_destroy(&event));
        T_OK(wharf_stream_synchronize(s.node, s.stream, 0));
        T_EQ_INT(-1, t_dev_check_value(t_place(s.node, s.own, t_me), own, BYTES,
                                       value));
        t_barrier();
    }
    t_stream_destroy(s.node, idle);
    end(&s);
}

/* A record in a graph is refused, and the capture goes on; a wait for an issued
 * record stands in a graph. */
static void captured(void)
{
    setup s = begin();
    wharf_event *event = NULL;
    t_graph *graph;
    void *own = t_segment(s.own, t_me, NULL);

    T_OK(wharf_event_create(s.node, 0, &event));
    if (t_me == 0) {
        t_graph_begin(s.stream);
        T_STATUS(WHARF_EUNSUPPORTED, wharf_event_record(event, s.stream, NULL));
        t_stream_fill(s.node, s.stream, own, 3, BYTES);
        graph = t_graph_end(s.stream);
        t_graph_launch(graph, s.stream);
        t_stream_sync(s.node, s.stream);
        t_graph_destroy(graph);
        T_EQ_INT(-1, t_dev_check_value(s.node, own, BYTES, 3));
        write_late(&s, 9);
        T_OK(wharf_event_record(event, s.stream, NULL));
    }
    T_OK(wharf_event_synchronize(event, 1, 0));
    if (t_me != 0) {
        t_graph_begin(s.stream);
        T_OK(wharf_event_wait(event, 1, s.stream));
        t_stream_copy(s.node, s.stream, own, t_segment(s.source, 0, NULL),
                      BYTES);
        graph = t_graph_end(s.stream);
        for (int i = 0; i < 3; i++)
            t_graph_launch(graph, s.stream);
        t_stream_sync(s.node, s.stream);
        t_graph_destroy(graph);
        T_EQ_INT(-1, t_dev_check_value(s.node, own, BYTES, 9));
    }
    t_barrier();
    T_OK(wharf_event_destroy(&event));
    end(&s);
}

static const t_case cases[] = {
    {"one_writer", one_writer, T_ANY},
    {"around_the_ring", around_the_ring, T_ANY},
    {"to_the_host", to_the_host, T_ANY},
    {"two_streams", two_streams, T_ANY},
    {"slots_reused", slots_reused, T_ANY},
    {"destroyed_early", destroyed_early, T_ANY},
    {"captured", captured, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
