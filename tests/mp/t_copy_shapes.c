/* SPDX-License-Identifier: MIT */
/*
 * Put and get of every shape, size and alignment: every byte of the segment is
 * compared with what a plain loop makes of it, those around the box included.
 * WHARF_COPY in the environment makes one way do all of them.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of each segment. */
enum { BYTES = 192 * 1024 };

typedef struct ground {
    wharf_node *node;
    wharf_buffer *there; /* whose segment of the next rank is the far side */
    wharf_buffer *here;  /* whose own segment is the near side */
    wharf_stream stream;
    int next;
    unsigned char *far, *near; /* as this process sees them */
    unsigned char *want, *got; /* on the CPU */
    unsigned char *pattern;
} ground;

static ground begin(void)
{
    ground g = {.node = t_open(), .next = (t_me + 1) % t_ranks};

    g.there = t_attach(g.node, BYTES, 0);
    g.here = t_attach(g.node, BYTES, 0);
    g.stream = t_stream_create(g.node);
    g.far = t_segment(g.there, g.next, NULL);
    g.near = t_segment(g.here, t_me, NULL);
    g.want = malloc(BYTES);
    g.got = malloc(BYTES);
    g.pattern = malloc(BYTES);
    T_CHECK(g.want != NULL && g.got != NULL && g.pattern != NULL);
    return g;
}

static void end(ground *g)
{
    t_barrier();
    free(g->want);
    free(g->got);
    free(g->pattern);
    t_stream_destroy(g->node, g->stream);
    t_detach(g->here);
    t_detach(g->there);
    t_close(g->node);
    t_live_check(NULL);
}

/* A box with its offsets on both sides. */
typedef struct shape {
    wharf_box box;
    size_t from, to;
} shape;

static void loop(const shape *s, unsigned char *to, const unsigned char *from)
{
    const wharf_box *b = &s->box;
    size_t from_pitch = b->from_pitch ? b->from_pitch : b->width;
    size_t to_pitch = b->to_pitch ? b->to_pitch : b->width;
    size_t from_plane = b->from_plane ? b->from_plane : b->rows * from_pitch;
    size_t to_plane = b->to_plane ? b->to_plane : b->rows * to_pitch;

    for (size_t z = 0; z < b->planes; z++)
        for (size_t y = 0; y < b->rows; y++)
            memcpy(to + s->to + z * to_plane + y * to_pitch,
                   from + s->from + z * from_plane + y * from_pitch, b->width);
}

static void compare(const ground *g, const unsigned char *at, const shape *s,
                    const char *what)
{
    t_dev_read(g->node, g->got, at, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        if (g->got[i] != g->want[i])
            T_FAIL("%s of %zu x %zu x %zu, pitches %zu %zu to %zu %zu, "
                   "offsets %zu to %zu: byte %zu is %#x, not %#x",
                   what, s->box.width, s->box.rows, s->box.planes,
                   s->box.from_pitch, s->box.from_plane, s->box.to_pitch,
                   s->box.to_plane, s->from, s->to, i, g->got[i], g->want[i]);
}

/* The pattern lies on the source side, the destination is all one byte. */
static void prepare(const ground *g, unsigned char *from, unsigned char *to,
                    uint64_t seed)
{
    for (size_t i = 0; i < BYTES; i++)
        g->pattern[i] = t_pattern_byte(seed, i);
    t_dev_write(g->node, from, g->pattern, BYTES);
    t_dev_fill(g->node, to, 0xee, BYTES);
    memset(g->want, 0xee, BYTES);
}

static void both(const ground *g, const shape *s, uint64_t seed)
{
    const wharf_box *b = &s->box;
    bool line = b->rows == 1 && b->planes == 1;

    prepare(g, g->near, g->far, seed);
    loop(s, g->want, g->pattern);
    T_OK(line ? wharf_put(g->there, g->next, s->to, g->near + s->from, b->width,
                          g->stream)
              : wharf_put_box(g->there, g->next, s->to, g->near + s->from, b,
                              g->stream));
    t_stream_sync(g->node, g->stream);
    compare(g, g->far, s, "put");

    prepare(g, g->far, g->near, seed + 1);
    loop(s, g->want, g->pattern);
    T_OK(line ? wharf_get(g->there, g->next, s->from, g->near + s->to, b->width,
                          g->stream)
              : wharf_get_box(g->there, g->next, s->from, g->near + s->to, b,
                              g->stream));
    t_stream_sync(g->node, g->stream);
    compare(g, g->near, s, "get");
}

/* ---- Cases ------------------------------------------------------------- */

static void lines(void)
{
    static const size_t sizes[] = {
        0,    1,    2,     3,    15,   16,   17,    31,    255,    4096,  4099,
        8192, 8193, 16384, 8208, 8207, 1023, 65536, 65553, 131072, 190001};
    static const size_t offsets[][2] = {{0, 0}, {16, 32}, {1, 1},  {3, 19},
                                        {7, 8}, {4, 12},  {2, 513}};
    ground g = begin();

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
            shape s = {WHARF_BOX_INIT, offsets[k][0], offsets[k][1]};

            s.box.width = sizes[i];
            both(&g, &s, i * 100 + k * 7);
        }
    end(&g);
}

/* Columns, faces, packed into or out of, empty in one dimension. */
static void boxes(void)
{
    static const shape shapes[] = {
        {{4, 512, 1, 256, 0, 256, 0}, 0, 0},
        {{4, 512, 1, 256, 0, 0, 0}, 252, 0},
        {{8, 300, 1, 0, 0, 600, 0}, 8, 16},
        {{1, 700, 1, 200, 0, 201, 0}, 3, 5},
        {{12, 90, 1, 1000, 0, 500, 0}, 4, 8},
        {{100, 33, 1, 1024, 0, 100, 0}, 1, 1},
        {{1000, 40, 1, 1024, 0, 2048, 0}, 24, 40},
        {{1023, 40, 1, 1024, 0, 2048, 0}, 1, 17},
        {{9000, 12, 1, 9216, 0, 10000, 0}, 16, 32},
        {{9001, 12, 1, 9216, 0, 10000, 0}, 5, 5},
        {{9001, 12, 1, 9217, 0, 10000, 0}, 5, 6},
        {{4, 32, 30, 128, 4096, 0, 0}, 64, 0},
        {{4, 32, 30, 0, 0, 128, 4096}, 0, 64},
        {{128, 1, 30, 0, 4096, 0, 0}, 0, 0},
        {{128, 32, 30, 128, 4096, 0, 5000}, 0, 8},
        {{64, 7, 11, 100, 1200, 77, 900}, 3, 9},
        {{16, 3, 200, 16, 64, 32, 500}, 16, 16},
        {{600, 20, 3, 700, 30000, 640, 40000}, 8, 24},
        {{5000, 3, 4, 6000, 30000, 5000, 16000}, 0, 0},
        {{0, 5, 5, 16, 160, 16, 160}, 10, 10},
        {{16, 0, 5, 16, 160, 16, 160}, 10, 10},
        {{16, 5, 0, 16, 160, 16, 160}, 10, 10},
    };
    ground g = begin();

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        both(&g, &shapes[i], 1000 + i);
    end(&g);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static size_t below(uint32_t *state, size_t limit)
{
    return next_random(state) % limit;
}

/* A side that holds the box: pitches some bytes larger than needed. */
static size_t side(uint32_t *state, const wharf_box *b, size_t *pitch,
                   size_t *plane)
{
    static const size_t gaps[] = {0, 0, 1, 4, 16, 48, 100};

    *pitch = b->width + gaps[below(state, 7)];
    *plane = b->rows * *pitch + gaps[below(state, 7)];
    return (b->planes - 1) * *plane + (b->rows - 1) * *pitch + b->width;
}

static void random_boxes(void)
{
    ground g = begin();
    uint32_t state = 77 + (uint32_t)t_me;
    long count = t_argument("shapes", 80);

    for (long i = 0; i < count; i++) {
        shape s = {WHARF_BOX_INIT, 0, 0};
        size_t from, to;

        s.box.width = 1 + below(&state, i % 5 == 0 ? 10000 : 70);
        s.box.rows = 1 + below(&state, i % 5 == 0 ? 6 : 50);
        s.box.planes = 1 + below(&state, i % 3 == 0 ? 12 : 2);
        if (i % 2)
            s.box.width = (s.box.width + 15) / 16 * 16;
        from = side(&state, &s.box, &s.box.from_pitch, &s.box.from_plane);
        to = side(&state, &s.box, &s.box.to_pitch, &s.box.to_plane);
        if (from >= BYTES - 64 || to >= BYTES - 64)
            continue;
        s.from = below(&state, 64);
        s.to = i % 4 ? s.from : below(&state, 64);
        both(&g, &s, (uint64_t)i * 31);
    }
    end(&g);
}

/* Within one segment: rows and columns of one array. */
static void within_own(void)
{
    ground g = begin();
    wharf_box column = {4, 300, 1, 512, 0, 512, 0};

    for (size_t i = 0; i < BYTES; i++)
        g.want[i] = t_pattern_byte(5, i);
    t_dev_write(g.node, g.near, g.want, BYTES);
    for (size_t y = 0; y < 300; y++)
        memcpy(g.want + y * 512 + 508, g.want + y * 512 + 4, 4);
    memcpy(g.want + 170000, g.want + 160000, 10000);
    T_OK(wharf_put_box(g.here, t_me, 508, g.near + 4, &column, g.stream));
    T_OK(wharf_get(g.here, t_me, 160000, g.near + 170000, 10000, g.stream));
    t_stream_sync(g.node, g.stream);
    compare(&g, g.near, &(shape){column, 4, 508}, "copy within");
    end(&g);
}

static const t_case cases[] = {
    {"lines", lines, T_ANY},
    {"boxes", boxes, T_ANY},
    {"random_boxes", random_boxes, T_ANY},
    {"within_own", within_own, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_FUNNELED, cases);
}
