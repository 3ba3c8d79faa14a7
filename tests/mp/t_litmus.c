/* SPDX-License-Identifier: MIT */
/*
 * Litmus test for memory order: a writer fills a pattern and signals, the
 * reader checks every word of it, over and over. A missing release or acquire
 * anywhere on the way shows as a word of the round before.
 *
 * The payload is written by fills and read by copies in streams on GPUs, by the
 * CPU on the host backend. Each round has a value of its own, and the reader
 * signals back before the next one, so that a word is either right or wrong and
 * never just new.
 *
 * Arguments: rounds=N a path and size (default 300). Every rank in turn writes
 * for its right neighbour, so every path between neighbours is met.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* A word, a sector, a few pages, more than the L1 cache. */
static const size_t sizes[] = {4, 32, 4096, 65536, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST = 1 << 20 };

/* The reader keeps copies of rounds, and checks them together: of small ones
 * more, since each check waits for the stream. */
enum { KEPT_BYTES = 16 << 20, KEPT_MOST = 1024 };

typedef struct ground {
    wharf_node *node;
    wharf_buffer *data; /* the payload, in the reader's memory */
    wharf_buffer *kept; /* of the reader: copies of rounds */
    wharf_stream stream;
    wharf_notify *there; /* writer to reader */
    wharf_notify *back;
    int writer, reader;
} ground;

/* Fewer rounds for large payloads, which take longer. */
static long rounds_for(size_t bytes)
{
    long rounds = t_argument("rounds", 300);

    return bytes > 65536 ? (rounds + 15) / 16 : rounds;
}

/* How many rounds are checked at a time. */
static long kept_for(size_t bytes)
{
    long fit = (long)(KEPT_BYTES / bytes);

    return fit < KEPT_MOST ? fit : KEPT_MOST;
}

static unsigned char value_of(long round)
{
    return (unsigned char)(round * 7 + 1);
}

static void check_kept(ground *g, size_t bytes, long from, long to)
{
    char *kept = t_segment(g->kept, t_me, NULL);

    t_stream_sync(g->node, g->stream);
    for (long round = from; round < to; round++) {
        long long wrong =
            t_dev_check_value(t_place(g->node, g->kept, t_me),
                              kept + (size_t)(round % kept_for(bytes)) * bytes,
                              bytes, value_of(round));

        if (wrong >= 0)
            T_FAIL("round %ld of %zu bytes, ranks %d to %d: byte %lld is of "
                   "another round",
                   round, bytes, g->writer, g->reader, wrong);
    }
}

static void write_rounds(ground *g, size_t bytes)
{
    void *data = t_segment(g->data, g->reader, NULL);

    for (long round = 0; round < rounds_for(bytes); round++) {
        if (round > 0)
            T_OK(wharf_notify_wait(g->back, g->reader, g->stream, 0));
        t_stream_fill(g->node, g->stream, data, value_of(round), bytes);
        T_OK(wharf_notify_record(g->there, g->stream));
    }
    T_OK(wharf_notify_wait(g->back, g->reader, g->stream, 0));
}

static void read_rounds(ground *g, size_t bytes)
{
    void *data = t_segment(g->data, g->reader, NULL);
    char *kept = t_segment(g->kept, t_me, NULL);
    long rounds = rounds_for(bytes), checked = 0;

    for (long round = 0; round < rounds; round++) {
        T_OK(wharf_notify_wait(g->there, g->writer, g->stream, 0));
        t_stream_copy(g->node, g->stream,
                      kept + (size_t)(round % kept_for(bytes)) * bytes, data,
                      bytes);
        T_OK(wharf_notify_record(g->back, g->stream));
        if ((round + 1) % kept_for(bytes) == 0) {
            check_kept(g, bytes, checked, round + 1);
            checked = round + 1;
        }
    }
    check_kept(g, bytes, checked, rounds);
    printf("%ld rounds of %zu bytes from rank %d to rank %d: right\n", rounds,
           bytes, g->writer, g->reader);
    fflush(stdout);
}

static void by_notify(void)
{
    ground g = {.node = t_open()};
    int pairs = t_ranks == 2 ? 2 : t_ranks;

    g.data = t_attach(g.node, MOST, 0);
    g.kept = t_attach(g.node, KEPT_BYTES, 0);
    g.stream = t_stream_create(g.node);
    for (int pair = 0; pair < pairs && t_ranks > 1; pair++) {
        g.writer = pair;
        g.reader = (pair + 1) % t_ranks;
        T_OK(wharf_notify_create(g.node, g.reader, NULL, &g.there));
        T_OK(wharf_notify_create(g.node, g.writer, NULL, &g.back));
        for (int s = 0; s < SIZES; s++) {
            if (t_me == g.writer)
                write_rounds(&g, sizes[s]);
            else if (t_me == g.reader)
                read_rounds(&g, sizes[s]);
            t_stream_sync(g.node, g.stream);
            t_barrier();
        }
        T_OK(wharf_notify_destroy(&g.there));
        T_OK(wharf_notify_destroy(&g.back));
    }
    t_stream_destroy(g.node, g.stream);
    t_detach(g.kept);
    t_detach(g.data);
    t_close(g.node);
    t_live_check(NULL);
}

/* The same through a barrier: everybody writes, then everybody reads its left
 * neighbour. */
static void by_barrier(void)
{
    ground g = {.node = t_open()};
    wharf_barrier *barrier = NULL;
    int left = (t_me + t_ranks - 1) % t_ranks;

    g.data = t_attach(g.node, MOST, 0);
    g.kept = t_attach(g.node, KEPT_BYTES, 0);
    g.stream = t_stream_create(g.node);
    g.writer = left;
    g.reader = t_me;
    T_OK(wharf_barrier_create(g.node, 0, NULL, NULL, &barrier));
    for (int s = 0; s < SIZES; s++) {
        char *kept = t_segment(g.kept, t_me, NULL);
        long rounds = rounds_for(sizes[s]), checked = 0;

        for (long round = 0; round < rounds; round++) {
            t_stream_fill(g.node, g.stream, t_segment(g.data, t_me, NULL),
                          value_of(round), sizes[s]);
            T_OK(wharf_barrier_enter(barrier, g.stream));
            t_stream_copy(g.node, g.stream,
                          kept +
                              (size_t)(round % kept_for(sizes[s])) * sizes[s],
                          t_segment(g.data, left, NULL), sizes[s]);
            T_OK(wharf_barrier_enter(barrier, g.stream));
            if ((round + 1) % kept_for(sizes[s]) == 0) {
                check_kept(&g, sizes[s], checked, round + 1);
                checked = round + 1;
            }
        }
        check_kept(&g, sizes[s], checked, rounds);
    }
    t_barrier();
    T_OK(wharf_barrier_destroy(&barrier));
    t_stream_destroy(g.node, g.stream);
    t_detach(g.kept);
    t_detach(g.data);
    t_close(g.node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"by_notify", by_notify, T_ANY},
    {"by_barrier", by_barrier, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
