/* SPDX-License-Identifier: MIT */
/* Boxes as arithmetic: do two of them overlap, how are two cut alike. */
#include "core/exchange.h"

uint64_t wi_exchange_bytes(const wi_exchange_half *half)
{
    return half->width * half->rows * half->planes;
}

bool wi_exchange_any(const wi_exchange_half *halves, int sets)
{
    for (int s = 0; s < sets; s++)
        if (halves[s].width)
            return true;
    return false;
}

uint64_t wi_exchange_span(const wi_exchange_half *half)
{
    if (half->width == 0)
        return 0;
    return (half->planes - 1) * half->plane + (half->rows - 1) * half->pitch +
           half->width;
}

/* ---- Overlap
 * -------------------------------------------------------------------- */

/* The rows of a box in the order of their addresses, one after another. */
typedef struct walk {
    const wi_exchange_half *box;
    uint64_t row, plane; /* of the row that it stands on */
} walk;

static bool walk_over(const walk *w)
{
    return w->plane == w->box->planes;
}

static uint64_t walk_at(const walk *w)
{
    return w->box->offset + w->plane * w->box->plane + w->row * w->box->pitch;
}

/* How many of `count` equal steps, each spanning `span`, end at or before a
 * distance. */
static uint64_t steps_before(uint64_t count, uint64_t step, uint64_t span,
                             uint64_t distance)
{
    if (distance < span)
        return 0;
    uint64_t before = count == 1 ? 1 : (distance - span) / step + 1;
    return before < count ? before : count;
}

/* Steps on to the first row that ends behind `offset`. */
static void walk_to(walk *w, uint64_t offset)
{
    const wi_exchange_half *box = w->box;
    uint64_t in_plane = (box->rows - 1) * box->pitch + box->width;
    uint64_t plane = offset < box->offset
                         ? 0
                         : steps_before(box->planes, box->plane, in_plane,
                                        offset - box->offset);
    if (plane > w->plane) {
        w->plane = plane;
        w->row = 0;
    }
    if (walk_over(w))
        return;
    uint64_t start = box->offset + w->plane * box->plane;
    uint64_t row = offset < start ? 0
                                  : steps_before(box->rows, box->pitch,
                                                 box->width, offset - start);
    if (row > w->row)
        w->row = row;
}

/* Both rows' lists go up, so that they can be gone through side by side. */
bool wi_exchange_overlap(const wi_exchange_half *a, const wi_exchange_half *b)
{
    walk x = {.box = a}, y = {.box = b};
    if (a->serial != b->serial || a->width == 0 || b->width == 0)
        return false;
    while (!walk_over(&x) && !walk_over(&y)) {
        uint64_t at_x = walk_at(&x), at_y = walk_at(&y);
        if (at_x < at_y + b->width && at_y < at_x + a->width)
            return true;
        if (at_x < at_y)
            walk_to(&x, at_y);
        else
            walk_to(&y, at_x);
    }
    return false;
}

/* ---- One shape for both
 * --------------------------------------------------------- */

typedef struct dim {
    uint64_t count, from, to; /* how many, and their distances */
} dim;

/* What is left of one side. */
typedef struct rest {
    uint64_t count[3], stride[3];
    int at;
} rest;

static rest rest_of(const wi_exchange_half *half)
{
    return (rest){
        .count = {half->width, half->rows, half->planes},
        .stride = {1, half->pitch, half->plane},
    };
}

/* Steps over what is done. */
static bool rest_over(rest *r)
{
    while (r->at < 3 && r->count[r->at] == 1)
        r->at++;
    return r->at == 3;
}

static void rest_take(rest *r, uint64_t count)
{
    r->count[r->at] /= count;
    r->stride[r->at] *= count;
}

/* The common refinement: in every step as much as both sides have at one
 * distance. Neighbours that both sides hold without a gap are one. */
bool wi_exchange_join(const wi_exchange_half *from, const wi_exchange_half *to,
                      wi_copy_box *box)
{
    rest a = rest_of(from), b = rest_of(to);
    dim dims[7] = {{1, 1, 1}};
    int last = 0;
    while (!rest_over(&a) && !rest_over(&b)) {
        uint64_t x = a.count[a.at], y = b.count[b.at];
        uint64_t count = x < y ? x : y;
        uint64_t step_a = a.stride[a.at], step_b = b.stride[b.at];
        if (x % count || y % count)
            return false;
        if (dims[last].count * dims[last].from == step_a &&
            dims[last].count * dims[last].to == step_b)
            dims[last].count *= count;
        else
            dims[++last] = (dim){count, step_a, step_b};
        rest_take(&a, count);
        rest_take(&b, count);
    }
    if (last > 2)
        return false;
    box->width = dims[0].count;
    box->rows = last >= 1 ? dims[1].count : 1;
    box->planes = last >= 2 ? dims[2].count : 1;
    box->from_pitch = last >= 1 ? dims[1].from : 0;
    box->to_pitch = last >= 1 ? dims[1].to : 0;
    box->from_plane = last >= 2 ? dims[2].from : 0;
    box->to_plane = last >= 2 ? dims[2].to : 0;
    return true;
}
