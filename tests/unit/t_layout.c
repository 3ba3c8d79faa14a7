/* SPDX-License-Identifier: MIT */
/* Where segments lie: the rules of layout.h, on fixed and on random shapes. */
#include "core/layout.h"

#include <stdlib.h>

#include "base/stat.h"
#include "t_test.h"

#define RANKS_MOST 24
#define PLACES_MOST 5

typedef struct shape {
    wi_layout_request request;
    uint64_t sizes[RANKS_MOST];
    int place_of_rank[RANKS_MOST];
    int owner_of_place[PLACES_MOST];
} shape;

static void shape_random(shape *s)
{
    wi_layout_request *q = &s->request;
    *s = (shape){0};
    q->ranks = 1 + rand() % RANKS_MOST;
    q->places = 1 + rand() % PLACES_MOST;
    q->granularity = (size_t)4096 << (rand() % 3);
    q->contiguous = rand() % 2;
    q->block_each = rand() % 4 == 0;
    for (int p = 0; p < q->places; p++)
        s->owner_of_place[p] = -1;
    for (int r = 0; r < q->ranks; r++) {
        s->place_of_rank[r] = rand() % q->places;
        if (s->owner_of_place[s->place_of_rank[r]] < 0)
            s->owner_of_place[s->place_of_rank[r]] = r;
        s->sizes[r] = rand() % 3 ? (uint64_t)(rand() % 50000) : 0;
    }
    q->sizes = s->sizes;
    q->place_of_rank = s->place_of_rank;
    q->owner_of_place = s->owner_of_place;
}

static void check_segment(const shape *s, const wi_layout *l, int r)
{
    const wi_layout_request *q = &s->request;
    int b = l->block_of_rank[r];
    if (s->sizes[r] == 0) {
        T_EQ_INT(-1, b);
        return;
    }
    T_CHECK(b >= 0 && b < l->blocks);
    const wi_layout_block *block = &l->block[b];
    size_t begin = l->offset_of_rank[r], end = begin + s->sizes[r];
    T_EQ_INT(s->place_of_rank[r], block->place);
    T_EQ_INT(s->owner_of_place[block->place], block->owner);
    T_CHECK(begin >= block->offset && end <= block->offset + block->bytes);
    T_EQ_INT(0, begin % WI_SEGMENT_ALIGN);
    if (q->contiguous || q->block_each)
        T_EQ_INT(0, begin % q->granularity);
    for (int o = 0; o < r; o++) {
        if (s->sizes[o] == 0)
            continue;
        size_t other = l->offset_of_rank[o];
        T_CHECK(other + s->sizes[o] <= begin || end <= other);
        if (q->block_each)
            T_CHECK(l->block_of_rank[o] != b);
    }
    T_EQ_INT(q->block_each ? r : -1, block->sole_rank);
}

/* Rank order without gaps, each size rounded up to the granularity. */
static void check_contiguous(const shape *s, const wi_layout *l)
{
    size_t at = 0, unit = s->request.granularity;
    for (int r = 0; r < s->request.ranks; r++) {
        T_EQ_INT(at, l->offset_of_rank[r]);
        at += (s->sizes[r] + unit - 1) / unit * unit;
    }
    T_EQ_INT(at, l->bytes);
}

static void check_blocks(const shape *s, const wi_layout *l)
{
    size_t at = 0;
    for (int b = 0; b < l->blocks; b++) {
        T_EQ_INT(at, l->block[b].offset);
        T_CHECK(l->block[b].bytes > 0);
        T_EQ_INT(0, l->block[b].bytes % s->request.granularity);
        at += l->block[b].bytes;
    }
    T_EQ_INT(at, l->bytes);
    if (!s->request.contiguous && !s->request.block_each)
        T_CHECK(l->blocks <= s->request.places);
}

static void check_random(void)
{
    srand(7);
    for (int i = 0; i < 5000; i++) {
        shape s;
        wi_layout l;
        shape_random(&s);
        T_OK(wi_layout_make(&s.request, &l));
        check_blocks(&s, &l);
        for (int r = 0; r < s.request.ranks; r++)
            check_segment(&s, &l, r);
        if (s.request.contiguous)
            check_contiguous(&s, &l);
        wi_layout_free(&l);
    }
}

/* 1000 small segments on one GPU cost one block of one granule. */
static void check_small_segments_share(void)
{
    uint64_t sizes[16];
    int places[16] = {0}, owner = 0;
    for (int r = 0; r < 16; r++)
        sizes[r] = 100;
    wi_layout_request q = {.ranks = 16,
                           .sizes = sizes,
                           .places = 1,
                           .place_of_rank = places,
                           .owner_of_place = &owner,
                           .granularity = 2 << 20};
    wi_layout l;
    T_OK(wi_layout_make(&q, &l));
    T_EQ_INT(1, l.blocks);
    T_EQ_INT(2 << 20, l.bytes);
    T_EQ_INT(15 * 256, l.offset_of_rank[15]);
    wi_layout_free(&l);
}

static void check_too_large(void)
{
    uint64_t sizes[2] = {WI_LAYOUT_MOST, 1};
    int owner = 0;
    wi_layout_request q = {.ranks = 2,
                           .sizes = sizes,
                           .places = 1,
                           .owner_of_place = &owner,
                           .granularity = 4096};
    wi_layout l = {.blocks = 42};
    T_STATUS(WHARF_EARG, wi_layout_make(&q, &l));
    T_EQ_INT(42, l.blocks);
    sizes[0] = UINT64_MAX;
    T_STATUS(WHARF_EARG, wi_layout_make(&q, &l));
    sizes[0] = WI_LAYOUT_MOST - 1;
    T_OK(wi_layout_make(&q, &l));
    wi_layout_free(&l);
}

int main(void)
{
    check_random();
    check_small_segments_share();
    check_too_large();
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
