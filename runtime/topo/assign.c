/* SPDX-License-Identifier: MIT */
/*
 * Exact assignment by successive shortest paths.
 *
 * The network: each rank sends one unit to a GPU, each GPU passes its load on
 * to its group, and so on up to the sink. Sending the k-th unit up an edge
 * costs k times the weight of its level, which is convex, so adding one rank
 * after the other along a cheapest path of the residual network keeps the
 * whole at its minimum. Ranks are not nodes of the search: the cheapest rank
 * that can leave GPU a for GPU b is kept in a table, which leaves a graph of
 * 4 nodes a GPU however many ranks there are.
 *
 * The objectives are one number each, far enough apart that a lower one never
 * outweighs a higher one; the largest possible sum needs 106 bits.
 */
#include "topo/assign.h"

#include <string.h>

#include "base/mem.h"
#include "wharf/node.h"

__extension__ typedef __int128 wide;

/* At most 512 ranks and 64 GPUs: the indices sum up to less than 2^15, the
 * k of one level to less than 2^18, the costs to less than 2^19. */
#define INDEX_BITS 15
#define LEVEL_BITS 18
#define COST_BITS 19

#define MOST_NODES (WHARF_MAX_GPUS * (WI_ASSIGN_LEVELS + 1))

typedef struct solver {
    const wi_assign *problem;
    int *gpu_of;
    int nodes;
    int parent[MOST_NODES]; /* -1: the sink; -2: no such node */
    int load[MOST_NODES];   /* units that go up from here */
    wide weight[MOST_NODES];
    wide cost_weight;

    /* leave[a][b]: what it costs to move the cheapest rank from a to b, and
     * which rank that is, -1 for none. */
    wide leave[WHARF_MAX_GPUS][WHARF_MAX_GPUS];
    int leaver[WHARF_MAX_GPUS][WHARF_MAX_GPUS];

    /* The search for one rank. */
    bool reached[MOST_NODES];
    wide label[MOST_NODES];
    int from[MOST_NODES]; /* node before, -1: the new rank itself */
    int by[MOST_NODES];   /* rank that moves here, -1: along the tree */
} solver;

static int32_t cost_at(const solver *s, int rank, int gpu)
{
    return s->problem->cost[rank * s->problem->gpus + gpu];
}

/* Price of rank on gpu, without what its load costs. */
static wide price(const solver *s, int rank, int gpu)
{
    return s->cost_weight * cost_at(s, rank, gpu) + gpu;
}

/* Node of a GPU's group at a level. */
static int group_node(const solver *s, int level, int gpu)
{
    return (level + 1) * s->problem->gpus + s->problem->level[level][gpu];
}

static void tree_build(solver *s)
{
    const wi_assign *p = s->problem;
    int shift = INDEX_BITS;
    wide level_weight[WI_ASSIGN_LEVELS];
    wide balance;

    for (int l = 0; l < WI_ASSIGN_LEVELS; l++, shift += LEVEL_BITS)
        level_weight[l] = (wide)1 << shift;
    if (p->balance == WI_ASSIGN_EVEN) {
        s->cost_weight = (wide)1 << shift;
        balance = (wide)1 << (shift + COST_BITS);
    } else {
        balance = (wide)1 << shift;
        s->cost_weight = (wide)1 << (shift + LEVEL_BITS);
    }
    s->nodes = p->gpus * (WI_ASSIGN_LEVELS + 1);
    for (int n = 0; n < s->nodes; n++)
        s->parent[n] = -2;
    for (int g = 0; g < p->gpus; g++) {
        int below = g;
        s->weight[g] = balance;
        for (int l = WI_ASSIGN_LEVELS - 1; l >= 0; l--) {
            int group = group_node(s, l, g);
            s->parent[below] = group;
            s->weight[group] = level_weight[l];
            below = group;
        }
        s->parent[below] = -1;
    }
}

/* Price of the k-th unit that goes up from a node. */
static wide rise(const solver *s, int node, int k)
{
    return s->weight[node] * k;
}

static bool relax(solver *s, int node, wide label, int from, int by)
{
    if (s->reached[node] && s->label[node] <= label)
        return false;
    s->reached[node] = true;
    s->label[node] = label;
    s->from[node] = from;
    s->by[node] = by;
    return true;
}

/* One pass over all edges; false when nothing got cheaper. */
static bool pass(solver *s)
{
    int gpus = s->problem->gpus;
    bool better = false;

    for (int a = 0; a < gpus; a++) {
        if (!s->reached[a])
            continue;
        for (int b = 0; b < gpus; b++)
            if (s->leaver[a][b] >= 0)
                better |= relax(s, b, s->label[a] + s->leave[a][b], a,
                                s->leaver[a][b]);
    }
    for (int n = 0; n < s->nodes; n++) {
        int up = s->parent[n];
        if (up < 0)
            continue;
        if (s->reached[n])
            better |=
                relax(s, up, s->label[n] + rise(s, n, s->load[n] + 1), n, -1);
        /* Back down: one unit less goes up from n. */
        if (s->reached[up] && s->load[n] > 0)
            better |=
                relax(s, n, s->label[up] - s->weight[n] * s->load[n], up, -1);
    }
    return better;
}

/* The top-level group by which the new unit leaves most cheaply. */
static int cheapest_exit(const solver *s)
{
    int best = -1;
    wide least = 0;
    for (int n = 0; n < s->nodes; n++) {
        wide total;
        if (s->parent[n] != -1 || !s->reached[n])
            continue;
        total = s->label[n] + rise(s, n, s->load[n] + 1);
        if (best < 0 || total < least) {
            best = n;
            least = total;
        }
    }
    return best;
}

static void row_refresh(solver *s, int a)
{
    const wi_assign *p = s->problem;
    for (int b = 0; b < p->gpus; b++)
        s->leaver[a][b] = -1;
    for (int r = 0; r < p->ranks; r++) {
        if (s->gpu_of[r] != a)
            continue;
        for (int b = 0; b < p->gpus; b++) {
            wide change;
            if (b == a || cost_at(s, r, b) < 0)
                continue;
            change = price(s, r, b) - price(s, r, a);
            if (s->leaver[a][b] < 0 || change < s->leave[a][b]) {
                s->leaver[a][b] = r;
                s->leave[a][b] = change;
            }
        }
    }
}

/* Sends the units along the path that ends at `node` and leaves there. */
static void path_apply(solver *s, int node, int rank)
{
    bool touched[WHARF_MAX_GPUS] = {false};

    s->load[node]++;
    for (int n = node; n >= 0; n = s->from[n]) {
        int before = s->from[n];
        if (before < 0) {
            s->gpu_of[rank] = n;
            touched[n] = true;
        } else if (s->by[n] >= 0) {
            s->gpu_of[s->by[n]] = n;
            touched[n] = touched[before] = true;
        } else if (s->parent[before] == n) {
            s->load[before]++;
        } else {
            s->load[n]--;
        }
    }
    for (int g = 0; g < s->problem->gpus; g++)
        if (touched[g])
            row_refresh(s, g);
}

static void rank_add(solver *s, int rank)
{
    const wi_assign *p = s->problem;
    bool any = false;

    memset(s->reached, 0, sizeof s->reached);
    for (int g = 0; g < p->gpus; g++)
        if (cost_at(s, rank, g) >= 0)
            any |= relax(s, g, price(s, rank, g), -1, -1);
    if (!any)
        return;
    /* No cycle is negative, so a path has fewer edges than there are nodes. */
    for (int n = 0; n < s->nodes && pass(s); n++)
        ;
    path_apply(s, cheapest_exit(s), rank);
}

/* Ranks that cannot be told apart take their GPUs in rank order. */
static void order_alike(const wi_assign *p, int *gpu_of)
{
    size_t row = (size_t)p->gpus * sizeof *p->cost;
    bool done[WHARF_MAX_RANKS] = {false};

    for (int r = 0; r < p->ranks; r++) {
        int count[WHARF_MAX_GPUS] = {0};
        int next = 0;
        if (done[r] || gpu_of[r] < 0)
            continue;
        for (int pass = 0; pass < 2; pass++)
            for (int t = r; t < p->ranks; t++) {
                if (done[t] ||
                    memcmp(p->cost + (size_t)r * (size_t)p->gpus,
                           p->cost + (size_t)t * (size_t)p->gpus, row) != 0)
                    continue;
                if (pass == 0) {
                    count[gpu_of[t]]++;
                    continue;
                }
                while (!count[next])
                    next++;
                count[next]--;
                gpu_of[t] = next;
                done[t] = true;
            }
    }
}

wharf_status wi_assign_solve(const wi_assign *problem, int *gpu_of)
{
    solver *s;

    for (int r = 0; r < problem->ranks; r++)
        gpu_of[r] = -1;
    if (!problem->gpus)
        return WHARF_OK;
    if (!WI_NEW(s))
        return WHARF_ENOMEM;
    s->problem = problem;
    s->gpu_of = gpu_of;
    tree_build(s);
    for (int g = 0; g < problem->gpus; g++)
        row_refresh(s, g);
    for (int r = 0; r < problem->ranks; r++)
        rank_add(s, r);
    order_alike(problem, gpu_of);
    wi_free(s);
    return WHARF_OK;
}
