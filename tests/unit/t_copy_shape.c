/* SPDX-License-Identifier: MIT */
/*
 * Shapes of copies against plain loops: how many bytes and how far, overlap,
 * fewest dimensions, and that the tiles of a cut box hold every byte once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/copy.h"
#include "t_test.h"

static uint32_t state = 12345;

static uint32_t below(uint32_t limit)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

static char *at(uint64_t address)
{
    char *pointer;

    memcpy(&pointer, &address, sizeof pointer);
    return pointer;
}

/* Sides of random pitches; equal ones in `same`. */
static wi_copy_box random_box(uint32_t width, uint32_t rows, uint32_t planes,
                              bool same)
{
    static const uint32_t gaps[] = {0, 0, 1, 4, 16, 48, 100};
    wi_copy_box b = {.to = at(0x10000000 + below(64)),
                     .from = at(0x20000000 + below(64)),
                     .width = 1 + below(width),
                     .rows = 1 + below(rows),
                     .planes = 1 + below(planes)};

    if (below(2))
        b.width = (b.width + 15) / 16 * 16;
    b.from_pitch = b.width + gaps[below(7)];
    b.from_plane = b.rows * b.from_pitch + gaps[below(7)];
    b.to_pitch = same ? b.from_pitch : b.width + gaps[below(7)];
    b.to_plane = same ? b.from_plane : b.rows * b.to_pitch + gaps[below(7)];
    return b;
}

/* ---- Overlap ----------------------------------------------------------- */

static bool covers(const wi_copy_box *b, bool to, uint64_t address)
{
    uint64_t start = to ? (uint64_t)b->to : (uint64_t)b->from;
    uint64_t pitch = to ? b->to_pitch : b->from_pitch;
    uint64_t plane = to ? b->to_plane : b->from_plane;

    for (uint64_t z = 0; z < b->planes; z++)
        for (uint64_t y = 0; y < b->rows; y++) {
            uint64_t row = start + z * plane + y * pitch;

            if (address >= row && address < row + b->width)
                return true;
        }
    return false;
}

static bool overlap_by_loop(const wi_copy_box *b)
{
    uint64_t start = (uint64_t)b->to;

    for (uint64_t i = 0; i < wi_copy_box_to_span(b); i++)
        if (covers(b, true, start + i) && covers(b, false, start + i))
            return true;
    return false;
}

static void overlaps(void)
{
    int yes = 0, no = 0;

    for (int i = 0; i < 3000; i++) {
        wi_copy_box b = random_box(12, 5, 4, true);
        uint64_t span = wi_copy_box_to_span(&b);
        bool found;

        b.from = at((uint64_t)b.to + below((uint32_t)span + 20) -
                    below((uint32_t)span + 20));
        found = overlap_by_loop(&b);
        T_EQ_INT(found, wi_copy_box_overlaps(&b));
        yes += found;
        no += !found;
    }
    T_CHECK(yes > 300 && no > 300);
    /* Of different pitches what is between does not count. */
    wi_copy_box b = {at(0x1004), at(0x1000), 4, 10, 1, 8, 0, 16, 0};
    T_CHECK(wi_copy_box_overlaps(&b));
    b.from = at(0x2000);
    T_CHECK(!wi_copy_box_overlaps(&b));
    b.width = 0;
    b.from = b.to;
    T_CHECK(!wi_copy_box_overlaps(&b));
}

/* ---- Sizes and checks -------------------------------------------------- */

static void sizes(void)
{
    wi_copy_box b = {NULL, NULL, 10, 4, 3, 16, 100, 20, 90};
    const char *says[] = {"to_pitch is 9", "to_plane is 57",
                          "from_plane is 69"};
    wi_copy_box bad[] = {b, b, b};

    T_EQ_INT(120, wi_copy_box_bytes(&b));
    T_EQ_INT(2 * 100 + 3 * 16 + 10, wi_copy_box_to_span(&b));
    T_EQ_INT(2 * 90 + 3 * 20 + 10, wi_copy_box_from_span(&b));
    T_OK(wi_copy_box_check(&b));
    bad[0].to_pitch = 9;
    bad[1].to_plane = 57;
    bad[2].from_plane = 69;
    for (int i = 0; i < 3; i++) {
        T_STATUS(WHARF_EARG, wi_copy_box_check(&bad[i]));
        T_CONTAINS(says[i], wi_error_record()->cause);
    }
    bad[0] = b;
    bad[0].rows = UINT64_MAX / 4;
    T_STATUS(WHARF_EARG, wi_copy_box_check(&bad[0]));
    bad[0].rows = 0;
    T_OK(wi_copy_box_check(&bad[0]));
    T_EQ_INT(0, wi_copy_box_to_span(&bad[0]));
}

/* What belongs together becomes one row. */
static void simple(void)
{
    wi_copy_box b = {NULL, NULL, 10, 4, 3, 10, 40, 10, 40};
    wi_copy_box s = wi_copy_box_simple(&b);

    T_EQ_INT(120, s.width);
    T_EQ_INT(1, s.rows);
    T_EQ_INT(1, s.planes);
    T_EQ_INT(0, s.to_pitch);
    b.from_plane = 50; /* the planes lie apart on one side */
    s = wi_copy_box_simple(&b);
    T_EQ_INT(40, s.width);
    T_EQ_INT(3, s.rows);
    T_EQ_INT(50, s.from_pitch);
    T_EQ_INT(40, s.to_pitch);
    b = (wi_copy_box){NULL, NULL, 8, 1, 7, 1, 64, 1, 80};
    s = wi_copy_box_simple(&b);
    T_EQ_INT(7, s.rows);
    T_EQ_INT(64, s.to_pitch);
    /* Planes that follow one another, of different pitches on the two sides. */
    b = (wi_copy_box){NULL, NULL, 8, 4, 3, 16, 64, 32, 128};
    s = wi_copy_box_simple(&b);
    T_EQ_INT(12, s.rows);
    T_EQ_INT(1, s.planes);
    b.from_plane = 129;
    s = wi_copy_box_simple(&b);
    T_EQ_INT(3, s.planes);
    b = (wi_copy_box){NULL, NULL, 8, 2, 9, 16, 640, 32, 800};
    s = wi_copy_box_simple(&b);
    T_EQ_INT(9, s.rows); /* the longer of the two */
    T_EQ_INT(2, s.planes);
    T_EQ_INT(640, s.to_pitch);
    T_EQ_INT(16, s.to_plane);
}

/* ---- Cutting ----------------------------------------------------------- */

/* Marks what one tile copies; a byte that is marked twice is a failure. */
static void mark(const wi_copy_part *p, uint64_t plane, uint64_t row,
                 uint64_t first, uint64_t bytes, unsigned char *seen)
{
    uint64_t start = plane * p->to_plane + row * p->to_pitch + first;

    for (uint64_t i = 0; i < bytes; i++) {
        T_EQ_INT(0, seen[start + i]);
        seen[start + i] = 1;
    }
}

static void tile_mark(const wi_copy_part *p, uint64_t tile, unsigned char *seen)
{
    uint64_t c = tile % p->tiles_c, r = tile / p->tiles_c % p->tiles_r;
    uint64_t plane = tile / p->tiles_c / p->tiles_r;
    uint64_t unit = 1u << p->unit_log2, tail = p->head + p->units * unit;

    if (p->row_tile) {
        for (uint64_t y = r * p->row_tile;
             y < (r + 1) * p->row_tile && y < p->rows; y++)
            mark(p, plane, y, 0, tail + p->tail, seen);
        return;
    }
    uint64_t units = p->units - c * p->col_tile;
    if (units > p->col_tile)
        units = p->col_tile;
    mark(p, plane, r, p->head + c * p->col_tile * unit, units * unit, seen);
    if (c == 0)
        mark(p, plane, r, 0, p->head, seen);
    if (c == p->tiles_c - 1)
        mark(p, plane, r, tail, p->tail, seen);
}

/* Units lie aligned on both sides, and threads suffice. */
static void part_check(const wi_copy_part *p)
{
    uint64_t unit = 1u << p->unit_log2, mask = unit - 1;

    T_EQ_INT(0, (p->to + p->head) & mask);
    T_EQ_INT(0, (p->from + p->head) & mask);
    T_EQ_INT(0, (p->to_pitch | p->to_plane | p->from_pitch | p->from_plane) &
                    mask);
    T_CHECK(p->head < 16 && p->tail < 16);
    if (p->row_tile)
        T_CHECK(p->units <= 1u << p->lanes_log2 &&
                1u << p->lanes_log2 <= WI_COPY_THREADS);
    else
        T_EQ_INT(0, p->col_tile % WI_COPY_THREADS);
}

static void cutting(void)
{
    for (int i = 0; i < 2000; i++) {
        wi_copy_box b =
            random_box(i % 3 ? 60 : 20000, i % 3 ? 60 : 4, 1 + i % 5, false);
        uint64_t span = wi_copy_box_to_span(&b);
        uint32_t first = 9, parts = 9, tiles = 0, most = 1 + below(70);
        unsigned char *seen = calloc(1, span);
        uint64_t marked = 0;
        wi_copy_part part;

        T_CHECK(seen != NULL);
        T_OK(wi_copy_parts_cut(&b, 1, most, &part, &first, &parts, &tiles));
        T_EQ_INT(1, parts);
        T_EQ_INT(0, first);
        part_check(&part);
        for (uint32_t t = 0; t < tiles; t++)
            tile_mark(&part, t, seen);
        for (uint64_t k = 0; k < span; k++)
            marked += seen[k];
        T_EQ_INT(wi_copy_box_bytes(&b), marked);
        free(seen);
    }
}

/* Empty boxes are left out, the others follow one another. */
static void several(void)
{
    wi_copy_box box[] = {
        {at(0x1000), at(0x9000), 0, 1, 1, 0, 0, 0, 0},
        {at(0x1000), at(0x9000), 100000, 1, 1, 0, 0, 0, 0},
        {at(0x1000), at(0x9000), 8, 0, 1, 0, 0, 0, 0},
        {at(0x1000), at(0x9000), 4, 5000, 1, 64, 0, 64, 0},
    };
    uint32_t first[4], parts = 0, tiles = 0;
    wi_copy_part part[4];

    T_OK(wi_copy_parts_cut(box, 4, 1000, part, first, &parts, &tiles));
    T_EQ_INT(2, parts);
    T_EQ_INT(0, first[0]);
    T_EQ_INT(part[0].tiles_c, first[1]);
    T_EQ_INT(first[1] + part[1].tiles_r, tiles);
    T_OK(wi_copy_parts_cut(box, 0, 1000, part, first, &parts, &tiles));
    T_EQ_INT(0, tiles);
    /* As many bytes as a GPU has, and too many for one launch. */
    box[0] = (wi_copy_box){
        at(0x10000), at(0x20000), UINT64_C(1) << 40, 1, 1, 0, 0, 0, 0};
    T_OK(wi_copy_parts_cut(box, 1, 64, part, first, &parts, &tiles));
    T_EQ_INT((UINT64_C(1) << 40) / 32768, tiles);
    box[0].from = at(0x20001); /* bytes, one by one */
    box[0].width = UINT64_C(1) << 43;
    T_STATUS(WHARF_ELIMIT,
             wi_copy_parts_cut(box, 1, 64, part, first, &parts, &tiles));
}

int main(void)
{
    sizes();
    simple();
    overlaps();
    cutting();
    several();
    return 0;
}
