/* SPDX-License-Identifier: MIT */
/*
 * What depends on pairs of ranks: who exchanges much should share a GPU or a
 * link. Exact answers would be a quadratic assignment, which nobody computes
 * for hundreds of ranks; this climbs from the exact answer of assign.c by moves
 * and swaps that change neither unevenness nor cost, so what is exact stays
 * exact. The order of the tries is fixed, hence so is the result.
 */
#include "topo/assign.h"

#include <string.h>

#include "base/mem.h"
#include "wharf/node.h"

/* Each pass ends with something better, or is the last one. Chains of
 * neighbours need two or three; the bound is for hostile matrices. */
#define MOST_PASSES 32

typedef struct climber {
    const wi_assign *problem;
    int *gpu_of;
    int load[WHARF_MAX_GPUS];
    int group_load[WI_ASSIGN_LEVELS][WHARF_MAX_GPUS];
    int64_t score[WHARF_MAX_GPUS][WHARF_MAX_GPUS]; /* worth of one unit of
                                                      traffic, symmetric */
    int64_t *pull; /* ranks x gpus: traffic of the rank, weighed by score, if
                      it sat on that GPU */
} climber;

/* What a change is worth; lexicographic. Negative is worse. */
typedef struct gain {
    int64_t together;
    int64_t spread;
    int64_t order;
} gain;

static bool gain_good(const gain *g)
{
    if (g->together)
        return g->together > 0;
    if (g->spread)
        return g->spread > 0;
    return g->order > 0;
}

/* Both directions together, so that an asymmetric matrix counts whole. */
static int64_t traffic_at(const wi_assign *p, int a, int b)
{
    size_t ranks = (size_t)p->ranks;
    if (a == b)
        return 0;
    if (!p->traffic)
        return a - b == 1 || b - a == 1;
    return (int64_t)p->traffic[(size_t)a * ranks + (size_t)b] +
           (int64_t)p->traffic[(size_t)b * ranks + (size_t)a];
}

static int32_t cost_at(const wi_assign *p, int rank, int gpu)
{
    return p->cost[rank * p->gpus + gpu];
}

/* The same GPU is worth more than the best link. */
static void scores_fill(climber *c)
{
    const wi_assign *p = c->problem;
    int64_t best = 0;

    for (int a = 0; a < p->gpus; a++)
        for (int b = 0; b < p->gpus && p->links; b++) {
            int64_t one = p->links[a * p->gpus + b];
            int64_t two = p->links[b * p->gpus + a];
            int64_t both = one < two ? one : two;
            if (a == b || both < 0)
                both = 0;
            if (both > 255)
                both = 255;
            c->score[a][b] = both;
            if (both > best)
                best = both;
        }
    for (int a = 0; a < p->gpus; a++)
        c->score[a][a] = best + 1;
}

static void pull_add(climber *c, int moved, int from, int to)
{
    const wi_assign *p = c->problem;
    int first = 0, last = p->ranks - 1;

    if (!p->traffic) { /* neighbours only */
        first = moved > 0 ? moved - 1 : 0;
        last = moved + 1 < p->ranks ? moved + 1 : moved;
    }
    for (int r = first; r <= last; r++) {
        int64_t traffic = traffic_at(p, r, moved);
        if (!traffic)
            continue;
        for (int g = 0; g < p->gpus; g++) {
            int64_t change = c->score[g][to];
            if (from >= 0)
                change -= c->score[g][from];
            c->pull[(size_t)r * (size_t)p->gpus + (size_t)g] +=
                traffic * change;
        }
    }
}

static void load_add(climber *c, int gpu, int change)
{
    c->load[gpu] += change;
    for (int l = 0; l < WI_ASSIGN_LEVELS; l++)
        c->group_load[l][c->problem->level[l][gpu]] += change;
}

static void rank_place(climber *c, int rank, int gpu)
{
    int before = c->gpu_of[rank];
    load_add(c, before, -1);
    load_add(c, gpu, 1);
    pull_add(c, rank, before, gpu);
    c->gpu_of[rank] = gpu;
}

/* Worth of the first difference of the groups, smallest first. */
static int64_t spread_gain(const climber *c, int from, int to)
{
    for (int l = WI_ASSIGN_LEVELS - 1; l >= 0; l--) {
        int a = c->problem->level[l][from];
        int b = c->problem->level[l][to];
        int64_t better = c->group_load[l][a] - (c->group_load[l][b] + 1);
        if (a != b && better)
            return better;
    }
    return 0;
}

static bool try_move(climber *c, int rank, int to)
{
    const wi_assign *p = c->problem;
    int from = c->gpu_of[rank];
    const int64_t *pull = c->pull + (size_t)rank * (size_t)p->gpus;
    gain g;

    if (to == from || c->load[to] + 1 != c->load[from] ||
        cost_at(p, rank, to) != cost_at(p, rank, from))
        return false;
    g.together = pull[to] - pull[from];
    g.spread = spread_gain(c, from, to);
    g.order = (int64_t)(from - to) * (p->ranks - rank);
    if (!gain_good(&g))
        return false;
    rank_place(c, rank, to);
    return true;
}

static bool try_swap(climber *c, int r, int t)
{
    const wi_assign *p = c->problem;
    int a = c->gpu_of[r], b = c->gpu_of[t];
    const int64_t *pull_r, *pull_t;
    int64_t between;
    gain g = {0, 0, 0};

    if (b < 0 || a == b || cost_at(p, r, b) < 0 || cost_at(p, t, a) < 0)
        return false;
    if (cost_at(p, r, b) + cost_at(p, t, a) !=
        cost_at(p, r, a) + cost_at(p, t, b))
        return false;
    pull_r = c->pull + (size_t)r * (size_t)p->gpus;
    pull_t = c->pull + (size_t)t * (size_t)p->gpus;
    /* The pair itself is as far apart as before: take out what the two rows
     * claim for it. */
    between = c->score[a][a] + c->score[b][b] - 2 * c->score[a][b];
    g.together = pull_r[b] - pull_r[a] + pull_t[a] - pull_t[b] -
                 traffic_at(p, r, t) * between;
    g.order = (int64_t)(a - b) * (t - r);
    if (!gain_good(&g))
        return false;
    rank_place(c, r, b);
    rank_place(c, t, a);
    return true;
}

static bool climb_once(climber *c)
{
    const wi_assign *p = c->problem;
    bool better = false;

    for (int r = 0; r < p->ranks; r++) {
        if (c->gpu_of[r] < 0)
            continue;
        for (int g = 0; g < p->gpus; g++)
            if (cost_at(p, r, g) >= 0)
                better |= try_move(c, r, g);
        for (int t = r + 1; t < p->ranks; t++)
            better |= try_swap(c, r, t);
    }
    return better;
}

wharf_status wi_assign_refine(const wi_assign *problem, int *gpu_of)
{
    size_t cells = (size_t)problem->ranks * (size_t)problem->gpus;
    climber *c;

    if (problem->gpus < 2)
        return WHARF_OK;
    if (!WI_NEW(c))
        return WHARF_ENOMEM;
    c->pull = wi_calloc(cells, sizeof *c->pull);
    if (!c->pull) {
        wi_free(c);
        return WHARF_ENOMEM;
    }
    c->problem = problem;
    c->gpu_of = gpu_of;
    scores_fill(c);
    for (int r = 0; r < problem->ranks; r++)
        if (gpu_of[r] >= 0) {
            load_add(c, gpu_of[r], 1);
            pull_add(c, r, -1, gpu_of[r]);
        }
    for (int n = 0; n < MOST_PASSES && climb_once(c); n++)
        ;
    wi_free(c->pull);
    wi_free(c);
    return WHARF_OK;
}
