/* SPDX-License-Identifier: MIT */
/*
 * Shapes of copies: checks, sizes, overlap, and how a box is cut for a grid of
 * threads. Plain arithmetic; knows no device.
 */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/product.h"
#include "device/copy.h"

/* Widest unit: 16 bytes. */
#define UNIT_LOG2 4

/* From here on a row is worth single bytes at both ends, for wider units
 * between them. */
#define LONG_ROW 1024

/* ---- Sizes ------------------------------------------------------------- */

uint64_t wi_copy_box_bytes(const wi_copy_box *box)
{
    return box->width * box->rows * box->planes;
}

static uint64_t span(const wi_copy_box *box, uint64_t pitch, uint64_t plane)
{
    if (wi_copy_box_bytes(box) == 0)
        return 0;
    return (box->planes - 1) * plane + (box->rows - 1) * pitch + box->width;
}

uint64_t wi_copy_box_to_span(const wi_copy_box *box)
{
    return span(box, box->to_pitch, box->to_plane);
}

uint64_t wi_copy_box_from_span(const wi_copy_box *box)
{
    return span(box, box->from_pitch, box->from_plane);
}

/* ---- Checks ------------------------------------------------------------ */

static wharf_status pitch_check(const char *side, const char *what,
                                uint64_t pitch, uint64_t least)
{
    if (pitch >= least)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "rows and planes of a box must not overlap",
                   "box.%s_%s is %llu bytes, and what lies in it takes %llu",
                   side, what, (unsigned long long)pitch,
                   (unsigned long long)least);
}

static wharf_status side_check(const wi_copy_box *box, const char *side,
                               uint64_t pitch, uint64_t plane)
{
    uint64_t rows = 0, planes = 0;
    wharf_status status = WHARF_OK;

    if (!wi_product(box->rows - 1, pitch, &rows) ||
        !wi_product(box->planes - 1, plane, &planes) || box->width >> 62)
        return wi_fail(WHARF_EARG, "pass sizes in bytes",
                       "the box spans more than 2^62 bytes on its %s side",
                       side);
    if (box->rows > 1)
        status = pitch_check(side, "pitch", pitch, box->width);
    if (status == WHARF_OK && box->planes > 1)
        status = pitch_check(side, "plane", plane, rows + box->width);
    return status;
}

wharf_status wi_copy_box_check(const wi_copy_box *box)
{
    wharf_status status;

    if (box->width == 0 || box->rows == 0 || box->planes == 0)
        return WHARF_OK;
    status = side_check(box, "from", box->from_pitch, box->from_plane);
    if (status == WHARF_OK)
        status = side_check(box, "to", box->to_pitch, box->to_plane);
    return status;
}

/* ---- Overlap ----------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Is `d`, the distance of two rows' starts, that of two rows that overlap, for
 * boxes so many planes apart? Rows lie `pitch` apart, if there is more than
 * one. */
static bool rows_meet(const wi_copy_box *box, int64_t d)
{
    int64_t width = (int64_t)box->width, rows = (int64_t)box->rows;
    int64_t pitch = (int64_t)box->to_pitch, y;

    if (rows == 1)
        return d > -width && d < width;
    y = floor_div(d, pitch);
    return (y > -rows && y < rows && d - y * pitch < width) ||
           (y + 1 > -rows && y + 1 < rows && (y + 1) * pitch - d < width);
}

static bool same_pitches(const wi_copy_box *box)
{
    return (box->rows == 1 || box->to_pitch == box->from_pitch) &&
           (box->planes == 1 || box->to_plane == box->from_plane);
}

bool wi_copy_box_overlaps(const wi_copy_box *box)
{
    uint64_t to = (uint64_t)box->to, from = (uint64_t)box->from;
    int64_t d = (int64_t)(to - from), planes = (int64_t)box->planes;
    int64_t plane = (int64_t)box->to_plane, z;

    if (wi_copy_box_bytes(box) == 0 ||
        to >= from + wi_copy_box_from_span(box) ||
        from >= to + wi_copy_box_to_span(box))
        return false;
    if (!same_pitches(box))
        return true;
    if (planes == 1)
        return rows_meet(box, d);
    z = floor_div(d, plane);
    return (z > -planes && z < planes && rows_meet(box, d - z * plane)) ||
           (z + 1 > -planes && z + 1 < planes &&
            rows_meet(box, d - (z + 1) * plane));
}

/* ---- Fewest dimensions ------------------------------------------------- */

static bool planes_join(const wi_copy_box *box)
{
    return box->planes > 1 && box->rows > 1 &&
           box->to_plane == box->rows * box->to_pitch &&
           box->from_plane == box->rows * box->from_pitch;
}

static void planes_to_rows(wi_copy_box *box)
{
    box->rows = box->planes;
    box->to_pitch = box->to_plane;
    box->from_pitch = box->from_plane;
    box->planes = 1;
}

static void rows_swap_planes(wi_copy_box *box)
{
    const wi_copy_box was = *box;

    planes_to_rows(box);
    box->planes = was.rows;
    box->to_plane = was.to_pitch;
    box->from_plane = was.from_pitch;
}

wi_copy_box wi_copy_box_simple(const wi_copy_box *box)
{
    wi_copy_box b = *box;

    if (wi_copy_box_bytes(box) == 0) {
        b.width = b.rows = b.planes = 0;
        b.to_pitch = b.from_pitch = b.to_plane = b.from_plane = 0;
        return b;
    }
    if (planes_join(&b)) {
        b.rows *= b.planes;
        b.planes = 1;
    }
    if (b.rows == 1)
        planes_to_rows(&b);
    while (b.rows > 1 && b.to_pitch == b.width && b.from_pitch == b.width) {
        b.width *= b.rows;
        planes_to_rows(&b);
    }
    if (b.planes > b.rows)
        rows_swap_planes(&b);
    if (b.planes == 1)
        b.to_plane = b.from_plane = 0;
    if (b.rows == 1)
        b.to_pitch = b.from_pitch = 0;
    return b;
}

/* ---- Cutting ----------------------------------------------------------- */

/* The largest unit, as a power of two, that divides all of it. */
static uint8_t unit_of(uint64_t all)
{
    return (uint8_t)__builtin_ctzll(all | 1u << UNIT_LOG2);
}

/* How a row is split. Narrow rows are of one unit size throughout, if that is
 * not too small: one unit a thread, and no single bytes. */
static void row_split(const wi_copy_box *b, wi_copy_part *part)
{
    uint64_t to = (uint64_t)b->to, from = (uint64_t)b->from;
    uint64_t steps = b->to_pitch | b->from_pitch | b->to_plane | b->from_plane;
    uint8_t unit = unit_of((to - from) | steps);
    uint8_t whole = unit_of(to | from | steps | b->width);
    uint64_t head;

    if (whole == unit || (whole >= 2 && b->width < LONG_ROW))
        unit = whole;
    head = (0 - from) & ((1u << unit) - 1);
    if (head > b->width)
        head = b->width;
    part->unit_log2 = unit;
    part->head = (uint8_t)head;
    part->units = (b->width - head) >> unit;
    part->tail = (uint8_t)(b->width - head - (part->units << unit));
}

static uint32_t tiles(uint64_t count, uint32_t tile)
{
    uint64_t n = (count + tile - 1) / tile;

    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

uint64_t wi_copy_part_cut(const wi_copy_box *b, uint32_t passes,
                          wi_copy_part *part)
{
    memset(part, 0, sizeof *part);
    part->to = (uint64_t)b->to;
    part->from = (uint64_t)b->from;
    part->to_pitch = b->to_pitch;
    part->from_pitch = b->from_pitch;
    part->to_plane = b->to_plane;
    part->from_plane = b->from_plane;
    part->rows = b->rows;
    row_split(b, part);
    part->tiles_r = part->tiles_c = 1;
    if (part->units <= WI_COPY_THREADS) {
        while (1u << part->lanes_log2 < part->units)
            part->lanes_log2++;
        part->row_tile = (WI_COPY_THREADS >> part->lanes_log2) * passes;
        part->tiles_r = tiles(b->rows, part->row_tile);
    } else if (b->rows >> 32) {
        return UINT64_MAX;
    } else {
        part->col_tile = WI_COPY_THREADS * passes;
        part->tiles_r = (uint32_t)b->rows;
        part->tiles_c = tiles(part->units, part->col_tile);
    }
    if (part->tiles_r == UINT32_MAX || part->tiles_c == UINT32_MAX ||
        (uint64_t)part->tiles_r * part->tiles_c >> 32 || b->planes >> 31)
        return UINT64_MAX;
    return (uint64_t)part->tiles_r * part->tiles_c * b->planes;
}

/* All parts with `passes`; their tiles, or 2^31 if there are more. */
static uint64_t cut_all(const wi_copy_box *box, int boxes, uint32_t passes,
                        wi_copy_part *part, uint32_t *first, uint32_t *parts)
{
    uint64_t all = 0, most = UINT64_C(1) << 31;
    uint32_t n = 0;

    for (int i = 0; i < boxes; i++) {
        wi_copy_box b = wi_copy_box_simple(&box[i]);
        uint64_t count;

        if (b.width == 0)
            continue;
        first[n] = (uint32_t)all;
        count = wi_copy_part_cut(&b, passes, &part[n++]);
        if (count >= most || (all += count) >= most)
            return most;
    }
    *parts = n;
    return all;
}

wharf_status wi_copy_parts_cut(const wi_copy_box *box, int boxes,
                               uint32_t blocks_most, wi_copy_part *part,
                               uint32_t *first, uint32_t *parts,
                               uint32_t *count)
{
    uint32_t n = 0;
    uint64_t all = cut_all(box, boxes, 1, part, first, &n);
    uint64_t passes = all / blocks_most;

    /* One unit a thread is soonest done; more only once all blocks have that.
     */
    if (passes > WI_COPY_DEEP || all >> 31)
        passes = WI_COPY_DEEP;
    if (passes > 1)
        all = cut_all(box, boxes, (uint32_t)passes, part, first, &n);
    if (all >> 31)
        return wi_fail(WHARF_ELIMIT, "copy in several calls",
                       "the boxes are cut into 2^31 tiles or more");
    *parts = n;
    *count = (uint32_t)all;
    return WHARF_OK;
}
