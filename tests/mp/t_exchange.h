/* SPDX-License-Identifier: MIT */
/*
 * What the tests of exchanges share: a field, which is a buffer for each set
 * with a copy of its own segment in plain memory, and a reference that does
 * what the exchange must do by plain MPI messages on these copies. The two are
 * compared byte by byte, so a byte put where none belongs shows as well.
 */
#ifndef T_EXCHANGE_H
#define T_EXCHANGE_H

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "t_group.h"

typedef struct t_field {
    wharf_node *node;
    wharf_stream stream;
    int sets;
    size_t bytes;
    wharf_buffer *buffer[WHARF_MAX_EXCHANGE_SETS];
    unsigned char *copy[WHARF_MAX_EXCHANGE_SETS];
    unsigned char *taken[WHARF_MAX_EXCHANGE_SETS]; /* 1: receive box */
} t_field;

static inline char *t_field_memory(const t_field *f, int set)
{
    return t_segment(f->buffer[set], wharf_node_rank(f->node), NULL);
}

static inline const wharf_node *t_field_place(const t_field *f, int set)
{
    return t_place(f->node, f->buffer[set], wharf_node_rank(f->node));
}

/* `bytes`, which is not 0, may differ by rank. */
static inline t_field t_field_begin(wharf_node *node, int sets, size_t bytes)
{
    t_field f = {.node = node, .sets = sets, .bytes = bytes};

    f.stream = t_stream_create(node);
    for (int s = 0; s < sets; s++) {
        f.buffer[s] = t_attach(node, bytes, 0);
        f.copy[s] = malloc(bytes);
        f.taken[s] = calloc(bytes, 1);
        T_CHECK(f.copy[s] && f.taken[s]);
        for (size_t i = 0; i < bytes; i++)
            f.copy[s][i] = t_pattern_byte((uint64_t)(t_me * 100 + s), i);
        t_dev_write(t_field_place(&f, s), t_field_memory(&f, s), f.copy[s],
                    bytes);
    }
    return f;
}

static inline void t_field_end(t_field *f)
{
    t_stream_sync(f->node, f->stream);
    t_stream_destroy(f->node, f->stream);
    for (int s = 0; s < f->sets; s++) {
        t_detach(f->buffer[s]);
        free(f->copy[s]);
        free(f->taken[s]);
    }
}

/* ---- Boxes --------------------------------------------------------------- */

static inline wharf_exchange_box t_box(const t_field *f, int set, size_t offset,
                                       size_t width, size_t rows, size_t pitch)
{
    return (wharf_exchange_box){.buffer = f->buffer[set],
                                .offset = offset,
                                .size = {width, rows, 1},
                                .pitch = {pitch, 0}};
}

static inline size_t t_box_bytes(const wharf_exchange_box *box)
{
    return box ? box->size[0] * box->size[1] * box->size[2] : 0;
}

/* Offset in the segment of byte `k` of a box, counted row by row. */
static inline size_t t_box_at(const wharf_exchange_box *box, size_t k)
{
    size_t row_pitch = box->pitch[0] ? box->pitch[0] : box->size[0];
    size_t plane_pitch =
        box->pitch[1] ? box->pitch[1] : row_pitch * box->size[1];

    return box->offset + k % box->size[0] +
           k / box->size[0] % box->size[1] * row_pitch +
           k / box->size[0] / box->size[1] * plane_pitch;
}

/* Which bytes the neighbours write. */
static inline void
t_field_take(t_field *f, const wharf_exchange_transfer *transfers, int count)
{
    for (int i = 0; i < count; i++)
        for (int s = 0; s < f->sets; s++) {
            const wharf_exchange_box *box =
                transfers[i].receive ? &transfers[i].receive[s] : NULL;

            if (transfers[i].peer == MPI_PROC_NULL)
                continue;
            for (size_t k = 0; k < t_box_bytes(box); k++)
                f->taken[s][t_box_at(box, k)] = 1;
        }
}

/* New data in every byte of a set that the neighbours do not write: theirs may
 * be on the way already. */
static inline void t_field_fill(t_field *f, int set, uint64_t seed)
{
    char *memory = t_field_memory(f, set);

    for (size_t from = 0, to; from < f->bytes; from = to) {
        bool taken = f->taken[set][from];

        for (to = from; to < f->bytes && f->taken[set][to] == taken; to++)
            if (!taken)
                f->copy[set][to] =
                    t_pattern_byte(seed * 1000 + (uint64_t)t_me, to);
        if (!taken)
            t_dev_write(t_field_place(f, set), memory + from,
                        f->copy[set] + from, to - from);
    }
}

/* One round on the copies, by messages of plain MPI. */
static inline void t_field_refer(t_field *f, MPI_Comm comm,
                                 const wharf_exchange_transfer *transfers,
                                 int count, int set)
{
    MPI_Request *requests = malloc(2 * (size_t)count * sizeof *requests + 1);
    unsigned char **packs = calloc(2 * (size_t)count + 1, sizeof *packs);

    T_CHECK(requests && packs);
    for (int i = 0; i < 2 * count; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < count; i++) {
        const wharf_exchange_transfer *t = &transfers[i];
        const wharf_exchange_box *out = t->send ? &t->send[set] : NULL;
        const wharf_exchange_box *in = t->receive ? &t->receive[set] : NULL;
        size_t sent = t_box_bytes(out), got = t_box_bytes(in);

        if (t->peer == MPI_PROC_NULL)
            continue;
        packs[2 * i] = malloc(sent + 1);
        packs[2 * i + 1] = malloc(got + 1);
        T_CHECK(packs[2 * i] && packs[2 * i + 1]);
        for (size_t k = 0; k < sent; k++)
            packs[2 * i][k] = f->copy[set][t_box_at(out, k)];
        if (sent)
            MPI_Isend(packs[2 * i], (int)sent, MPI_BYTE, t->peer, t->send_id,
                      comm, &requests[2 * i]);
        if (got)
            MPI_Irecv(packs[2 * i + 1], (int)got, MPI_BYTE, t->peer,
                      t->receive_id, comm, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        const wharf_exchange_transfer *t = &transfers[i];

        for (size_t k = 0; packs[2 * i + 1] && t->receive &&
                           k < t_box_bytes(&t->receive[set]);
             k++)
            f->copy[set][t_box_at(&t->receive[set], k)] = packs[2 * i + 1][k];
        free(packs[2 * i]);
        free(packs[2 * i + 1]);
    }
    free(packs);
    free(requests);
}

/* The set is what the reference says, every byte of the segment. */
static inline void t_field_check(const t_field *f, int set)
{
    unsigned char *got = malloc(f->bytes);

    T_CHECK(got != NULL);
    t_stream_sync(f->node, f->stream);
    t_dev_read(t_field_place(f, set), got, t_field_memory(f, set), f->bytes);
    T_EQ_MEM(f->copy[set], got, f->bytes);
    free(got);
}

/* ---- Rounds -------------------------------------------------------------- */

/* By turns in one call and in two. */
static inline void t_round(wharf_exchange *x, wharf_stream stream, int round)
{
    if (round % 3 == 0) {
        T_OK(wharf_exchange_run(x, stream));
        return;
    }
    T_OK(wharf_exchange_start(x, stream));
    T_OK(wharf_exchange_finish(x, stream));
}

static inline void t_field_rounds(t_field *f, wharf_exchange *x, MPI_Comm comm,
                                  const wharf_exchange_transfer *transfers,
                                  int count, int rounds)
{
    t_field_take(f, transfers, count);
    for (int round = 0; round < rounds; round++) {
        int set = round % f->sets;

        t_field_fill(f, set, (uint64_t)round + 1);
        t_round(x, f->stream, round);
        t_field_refer(f, comm, transfers, count, set);
        t_field_check(f, set);
    }
}

static inline wharf_exchange *
t_exchange_create(wharf_node *node, MPI_Comm comm, int count,
                  const wharf_exchange_transfer *transfers, int sets)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange *x = NULL;

    options.sets = sets;
    T_OK(wharf_exchange_create(node, comm, count, transfers, &options, &x));
    T_CHECK(x != NULL);
    return x;
}

static inline void t_exchange_destroy(wharf_exchange *x)
{
    T_OK(wharf_exchange_destroy(&x));
    T_CHECK(x == NULL);
}

#endif
