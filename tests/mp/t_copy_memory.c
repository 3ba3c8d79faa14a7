/* SPDX-License-Identifier: MIT */
/*
 * The other side of a copy may be any memory: all kinds that a process can
 * have, other segments, host space. Which way is taken, and why.
 */
#include "t_graph.h"
#include "t_group.h"
#include "t_memory.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 100000 };

/* What WHARF_COPY asks for. */
static const char *expected_way(void)
{
    const char *way = getenv("WHARF_COPY");

    return way ? way : "auto";
}

static wharf_box line(size_t bytes)
{
    wharf_box box = WHARF_BOX_INIT;

    box.width = bytes;
    return box;
}

static wharf_copy_way way_of(const wharf_buffer *buffer, wharf_copy_call call,
                             int rank, const void *other, const wharf_box *box,
                             char *reason)
{
    wharf_copy_way way;

    T_OK(wharf_copy_way_find(buffer, call, rank, 0, other, box, &way, reason));
    T_CHECK(reason[0] != '\0');
    return way;
}

/* Put out of the memory and got back into it, in one piece and in columns. */
static void there_and_back(wharf_node *node, wharf_buffer *buffer, int rank,
                           t_memory *m, uint64_t seed)
{
    const wharf_node *place = t_memory_place(node, m);
    wharf_stream stream = t_stream_create(node);
    wharf_box columns = {40, 50, 2, 500, 40000, 600, 45000};

    t_dev_fill_pattern(place, m->pointer, BYTES, seed);
    T_OK(wharf_put(buffer, rank, 0, m->pointer, BYTES, stream));
    t_stream_sync(node, stream);
    T_EQ_INT(-1,
             t_dev_check_pattern(t_place(node, buffer, rank),
                                 t_segment(buffer, rank, NULL), BYTES, seed));
    t_dev_fill(place, m->pointer, 3, BYTES);
    T_OK(wharf_get(buffer, rank, 0, m->pointer, BYTES, stream));
    t_stream_sync(node, stream);
    T_EQ_INT(-1, t_dev_check_pattern(place, m->pointer, BYTES, seed));

    t_dev_fill(t_place(node, buffer, rank), t_segment(buffer, rank, NULL), 0,
               BYTES);
    T_OK(wharf_put_box(buffer, rank, 0, m->pointer, &columns, stream));
    t_stream_sync(node, stream);
    t_dev_fill(place, m->pointer, 3, BYTES);
    columns.from_pitch = 600;
    columns.from_plane = 45000;
    columns.to_pitch = 40;
    columns.to_plane = 2000;
    T_OK(wharf_get_box(buffer, rank, 0, m->pointer, &columns, stream));
    t_stream_sync(node, stream);
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 50; y++)
            for (size_t x = 0; x < 40; x++) {
                unsigned char byte;

                if (x % 13)
                    continue;
                t_dev_read(place, &byte, m->pointer + z * 2000 + y * 40 + x, 1);
                T_EQ_INT(t_pattern_byte(seed, z * 40000 + y * 500 + x), byte);
            }
    t_stream_destroy(node, stream);
}

static void check_kind(wharf_node *node, wharf_buffer *buffer, int rank,
                       t_kind kind)
{
    t_memory m = t_memory_new(node, kind, 128, BYTES, 64);
    wharf_box box = line(64);
    char reason[96];
    wharf_copy_way way =
        way_of(buffer, WHARF_COPY_PUT, rank, m.pointer, &box, reason);
    bool far = kind == T_KIND_HOST || kind == T_KIND_SHARED ||
               kind == T_KIND_MANAGED || kind == T_KIND_OTHER_DEVICE;

    if (t_mode_get() == T_HOST)
        T_EQ_INT(WHARF_COPY_HOST, way);
    else if (far || !strcmp(expected_way(), "engine"))
        T_EQ_INT(WHARF_COPY_ENGINE, way);
    else if (!strcmp(expected_way(), "kernel"))
        T_EQ_INT(WHARF_COPY_KERNEL, way);
    if (kind == T_KIND_HOST && t_mode_get() != T_HOST)
        T_CONTAINS("pageable", reason);
    there_and_back(node, buffer, rank, &m, (uint64_t)kind * 17 + 1);
    t_memory_free(node, &m);
}

static void every_kind(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    wharf_buffer *next = t_attach(node, BYTES, 0);
    int done = 0;

    for (int kind = 0; kind < T_KINDS; kind++) {
        if (!t_kind_possible(node, (t_kind)kind))
            continue;
        done++;
        check_kind(node, buffer, t_me, (t_kind)kind);
        check_kind(node, next, (t_me + 1) % t_ranks, (t_kind)kind);
    }
    T_CHECK(done >= 2);
    t_barrier();
    t_detach(next);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Segments on both sides: of two buffers, of host space; every rank's data goes
 * one rank on by put, one more by get. */
static void segments(void)
{
    wharf_node *node = t_open();
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *a, *b, *host;
    wharf_stream stream = t_stream_create(node);
    int next = (t_me + 1) % t_ranks;
    char *got = malloc(BYTES);

    options.space = WHARF_SPACE_HOST;
    a = t_attach(node, BYTES, 0);
    b = t_attach(node, BYTES, 0);
    T_OK(wharf_buffer_attach(node, BYTES, &options, &host));
    T_CHECK(got != NULL);
    t_dev_fill_pattern(t_place(node, a, t_me), t_segment(a, t_me, NULL), BYTES,
                       (uint64_t)t_me);
    t_barrier();
    T_OK(wharf_put(b, t_me, 0, t_segment(a, next, NULL), BYTES, stream));
    T_OK(wharf_put(host, t_me, 0, t_segment(b, t_me, NULL), BYTES, stream));
    t_stream_sync(node, stream);
    t_barrier();
    T_OK(wharf_get(host, next, 0, t_segment(b, t_me, NULL), BYTES, stream));
    t_stream_sync(node, stream);
    t_dev_read(t_place(node, b, t_me), got, t_segment(b, t_me, NULL), BYTES);
    T_EQ_INT(-1, t_dev_check_pattern(NULL, got, BYTES,
                                     (uint64_t)((t_me + 2) % t_ranks)));
    free(got);
    t_stream_destroy(node, stream);
    t_barrier();
    t_detach(host);
    t_detach(b);
    t_detach(a);
    t_close(node);
    t_live_check(NULL);
}

/* No kernel reads pageable memory, not for the sake of a signal either. */
static void notified_from_pageable(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    wharf_stream stream = t_stream_create(node);
    int next = (t_me + 1) % t_ranks, last = (t_me + t_ranks - 1) % t_ranks;
    wharf_notify *notify[16];
    char *plain = malloc(BYTES);

    T_CHECK(plain != NULL && t_ranks <= 16);
    for (int rank = 0; rank < t_ranks; rank++)
        T_OK(wharf_notify_create(node, rank, NULL, &notify[rank]));
    memset(plain, 40 + t_me, BYTES);
    T_OK(wharf_put_notify(buffer, next, 0, plain, BYTES, notify[next], stream));
    T_OK(wharf_notify_wait(notify[t_me], last, stream, 0));
    t_stream_sync(node, stream);
    T_EQ_INT(-1, t_dev_check_value(t_place(node, buffer, t_me),
                                   t_segment(buffer, t_me, NULL), BYTES,
                                   (unsigned char)(40 + last)));
    free(plain);
    for (int rank = 0; rank < t_ranks; rank++)
        T_OK(wharf_notify_destroy(&notify[rank]));
    t_stream_destroy(node, stream);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* The driver would read pageable memory now, not when the graph runs. */
static void pageable_in_a_capture(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, BYTES, 0);
    wharf_stream stream = t_stream_create(node);
    char *plain = calloc(1, BYTES);
    t_graph *graph;

    T_CHECK(plain != NULL);
    t_graph_begin(stream);
    T_REFUSES(WHARF_EUNSUPPORTED, "pageable",
              wharf_put(buffer, t_me, 0, plain, 100, stream));
    T_REFUSES(WHARF_EUNSUPPORTED, "pageable",
              wharf_get(buffer, t_me, 0, plain, 100, stream));
    T_OK(wharf_put(buffer, t_me, 0, plain, 0, stream));
    graph = t_graph_end(stream);
    t_graph_destroy(graph);
    free(plain);
    t_stream_destroy(node, stream);
    t_barrier();
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* ---- Ways -------------------------------------------------------------- */

/* Small ones by kernel, large ones by engine, narrow rows by kernel at any
 * size, and what the settings say. */
static void ways(void)
{
    const size_t large = 64u << 20;
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, large, 0);
    wharf_buffer *own = t_attach(node, large, 0);
    char *mine = t_segment(own, t_me, NULL), reason[96];
    wharf_box small = line(1024), big = line(large);
    wharf_box narrow = {8, large / 64, 1, 64, 0, 64, 0}, none = line(0);
    const char *wanted = expected_way();
    size_t plain, notified;

    T_OK(wharf_copy_kernel_most(node, WHARF_COPY_TWO_GPUS, 0, &plain));
    T_OK(wharf_copy_kernel_most(node, WHARF_COPY_TWO_GPUS, 1, &notified));
    T_EQ_INT(WHARF_COPY_NOTHING,
             way_of(buffer, WHARF_COPY_PUT, t_me, mine, &none, reason));
    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_copy_way s =
            way_of(buffer, WHARF_COPY_PUT_NOTIFY, rank, mine, &small, reason);
        wharf_copy_way b =
            way_of(buffer, WHARF_COPY_GET, rank, mine, &big, reason);
        wharf_copy_way n =
            way_of(buffer, WHARF_COPY_PUT, rank, mine, &narrow, reason);

        if (t_mode_get() == T_HOST) {
            T_EQ_INT(WHARF_COPY_HOST, s);
            T_EQ_INT(WHARF_COPY_HOST, b);
            T_EQ_INT(WHARF_COPY_HOST, n);
        } else if (strcmp(wanted, "auto") != 0) {
            T_EQ_STR(wanted, wharf_copy_way_name(s));
            T_EQ_STR(wanted, wharf_copy_way_name(b));
            T_EQ_STR(wanted, wharf_copy_way_name(n));
            T_CONTAINS("WHARF_COPY=", reason);
        } else {
            T_EQ_INT(notified >= 1024 ? WHARF_COPY_KERNEL : WHARF_COPY_ENGINE,
                     s);
            T_EQ_INT(WHARF_COPY_ENGINE, b);
            T_EQ_INT(WHARF_COPY_KERNEL, n);
        }
    }
    if (t_mode_get() == T_HOST) {
        T_EQ_INT(0, plain);
    } else if (!strcmp(wanted, "kernel")) {
        T_CHECK(plain == SIZE_MAX);
    } else {
        T_CHECK(plain <= notified);
    }
    t_barrier();
    t_detach(own);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"every_kind", every_kind, T_ANY},
    {"segments", segments, T_ANY},
    {"notified_from_pageable", notified_from_pageable, T_ANY},
    {"pageable_in_a_capture", pageable_in_a_capture, T_CUDA},
    {"ways", ways, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_FUNNELED, cases);
}
