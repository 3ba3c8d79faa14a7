/* SPDX-License-Identifier: MIT */
/* Overlap and common shape of boxes, against counting bytes. */
#include <stdlib.h>
#include <string.h>

#include "core/exchange.h"
#include "t_test.h"

enum { SPACE = 4096, ROUNDS = 20000 };

static uint32_t state = 12345;

static uint64_t draw(uint64_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

/* Byte `k` of a box, counted row by row. */
static uint64_t at(const wi_exchange_half *box, uint64_t k)
{
    return box->offset + k % box->width +
           k / box->width % box->rows * box->pitch +
           k / box->width / box->rows * box->plane;
}

/* Valid, and inside SPACE. */
static wi_exchange_half box_draw(void)
{
    wi_exchange_half box = {.serial = 1, .offset = draw(600)};

    box.width = 1 + draw(12);
    box.rows = 1 + draw(8);
    box.planes = 1 + draw(5);
    if (box.rows > 1)
        box.pitch = box.width + draw(9);
    if (box.planes > 1)
        box.plane =
            (box.rows - 1) * box.pitch + box.width + draw(draw(2) ? 200 : 8);
    if (box.offset + wi_exchange_span(&box) > SPACE)
        box.planes = 1, box.plane = 0;
    return box;
}

static bool overlap_counted(const wi_exchange_half *a,
                            const wi_exchange_half *b)
{
    unsigned char taken[SPACE] = {0};

    for (uint64_t k = 0; k < wi_exchange_bytes(a); k++)
        taken[at(a, k)] = 1;
    for (uint64_t k = 0; k < wi_exchange_bytes(b); k++)
        if (taken[at(b, k)])
            return true;
    return false;
}

static void overlaps(void)
{
    int yes = 0;

    for (int round = 0; round < ROUNDS; round++) {
        wi_exchange_half a = box_draw(), b = box_draw();
        bool expected = overlap_counted(&a, &b);

        yes += expected;
        if (wi_exchange_overlap(&a, &b) != expected ||
            wi_exchange_overlap(&b, &a) != expected)
            T_FAIL("round %d: expected %d", round, expected);
    }
    /* Both answers came often. */
    T_CHECK(yes > ROUNDS / 20 && yes < ROUNDS - ROUNDS / 20);
}

static void overlap_never(void)
{
    wi_exchange_half a = {.serial = 1, .width = 8, .rows = 1, .planes = 1};
    wi_exchange_half b = a, none = {0};

    T_CHECK(wi_exchange_overlap(&a, &b));
    b.serial = 2;
    T_CHECK(!wi_exchange_overlap(&a, &b));
    T_CHECK(!wi_exchange_overlap(&a, &none));
    T_CHECK(!wi_exchange_overlap(&none, &none));
    T_EQ_INT(0, wi_exchange_span(&none));
    T_EQ_INT(0, wi_exchange_bytes(&none));
}

/* The joined box copies byte k of the one to byte k of the other. */
static void joined_check(const wi_exchange_half *from,
                         const wi_exchange_half *to, const wi_copy_box *box)
{
    uint64_t k = 0;

    T_EQ_INT(wi_exchange_bytes(from), box->width * box->rows * box->planes);
    for (uint64_t p = 0; p < box->planes; p++)
        for (uint64_t r = 0; r < box->rows; r++)
            for (uint64_t c = 0; c < box->width; c++, k++) {
                T_EQ_INT(at(from, k), from->offset + p * box->from_plane +
                                          r * box->from_pitch + c);
                T_EQ_INT(at(to, k), to->offset + p * box->to_plane +
                                        r * box->to_pitch + c);
            }
}

/* The same shape with other pitches, no gaps at all, the same bytes cut
 * otherwise: what must be possible, and what may be. */
static void joins(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        wi_exchange_half from = box_draw(), to = from;
        wi_copy_box box = {0};
        int kind = (int)draw(3);

        to.offset = draw(100);
        if (kind == 0) {
            to.pitch = to.rows > 1 ? to.width + draw(20) : 0;
            to.plane = to.planes > 1
                           ? (to.rows - 1) * to.pitch + to.width + draw(50)
                           : 0;
        } else if (kind == 1) {
            to.width *= to.rows * to.planes;
            to.rows = to.planes = 1;
            to.pitch = to.plane = 0;
        } else if (to.rows % 2 == 0) {
            to.width *= 2;
            to.rows /= 2;
            to.pitch = to.width + draw(5);
            to.plane = to.rows * to.pitch + draw(5);
        }
        bool possible = wi_exchange_join(&from, &to, &box);

        T_CHECK(possible || kind == 2);
        if (possible)
            joined_check(&from, &to, &box);
        if (kind < 2) {
            T_CHECK(wi_exchange_join(&to, &from, &box));
            joined_check(&to, &from, &box);
        }
    }
}

static void joins_not(void)
{
    wi_exchange_half five = {.width = 5, .rows = 16, .planes = 1, .pitch = 9};
    wi_exchange_half eight = {.width = 8, .rows = 10, .planes = 1, .pitch = 9};
    wi_copy_box box;

    T_CHECK(!wi_exchange_join(&five, &eight, &box));
    T_CHECK(!wi_exchange_join(&eight, &five, &box));
}

int main(void)
{
    overlaps();
    overlap_never();
    joins();
    joins_not();
    return 0;
}
