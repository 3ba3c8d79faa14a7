/* SPDX-License-Identifier: MIT */
/*
 * The assignment against brute force on small random cases, and against a
 * certificate of optimality on large ones.
 */
#define _GNU_SOURCE
#include <stdbool.h>

#include "t_test.h"
#include "topo/assign.h"
#include "topo_gen.h"
#include "wharf/topo.h"

#define CASES 12000
#define LARGE_CASES 60
#define SMALL_RANKS 5
#define SMALL_GPUS 4

/* One problem with room of its own. */
typedef struct problem {
    wi_assign p;
    int32_t cost[WHARF_MAX_RANKS * WHARF_MAX_GPUS];
    int level[WI_ASSIGN_LEVELS][WHARF_MAX_GPUS];
    int32_t links[WHARF_MAX_GPUS * WHARF_MAX_GPUS];
    uint32_t traffic[64 * 64];
} problem;

/* All objectives of assign.h, the most important one first. */
#define OBJECTIVES 6
#define EXACT 2 /* of them, those that refining may not touch */
typedef struct worth {
    int64_t part[OBJECTIVES];
} worth;

static int compare(const worth *a, const worth *b)
{
    for (int i = 0; i < OBJECTIVES; i++)
        if (a->part[i] != b->part[i])
            return a->part[i] < b->part[i] ? -1 : 1;
    return 0;
}

static int64_t uneven(const wi_assign *p, const int *load)
{
    int64_t sum = 0;
    for (int g = 0; g < p->gpus; g++)
        sum += (int64_t)load[g] * (load[g] + 1) / 2;
    return sum;
}

static worth worth_of(const wi_assign *p, const int *gpu_of)
{
    int load[WHARF_MAX_GPUS] = {0};
    int64_t balance, cost = 0, index = 0;
    worth w;

    for (int r = 0; r < p->ranks; r++)
        if (gpu_of[r] >= 0) {
            load[gpu_of[r]]++;
            cost += p->cost[r * p->gpus + gpu_of[r]];
            index += gpu_of[r];
        }
    balance = uneven(p, load);
    w.part[0] = p->balance == WI_ASSIGN_EVEN ? balance : cost;
    w.part[1] = p->balance == WI_ASSIGN_EVEN ? cost : balance;
    for (int l = 0; l < WI_ASSIGN_LEVELS; l++) {
        int group[WHARF_MAX_GPUS] = {0};
        for (int g = 0; g < p->gpus; g++)
            group[p->level[l][g]] += load[g];
        w.part[2 + WI_ASSIGN_LEVELS - 1 - l] = uneven(p, group);
    }
    w.part[OBJECTIVES - 1] = index;
    return w;
}

/* Value of who sits with whom, as refine.c has it. */
static int64_t together(const problem *x, const int *gpu_of)
{
    const wi_assign *p = &x->p;
    int64_t best = 0, sum = 0;

    for (int i = 0; p->links && i < p->gpus * p->gpus; i++)
        if (i % p->gpus != i / p->gpus && x->links[i] > best)
            best = x->links[i];
    for (int a = 0; a < p->ranks; a++)
        for (int b = a + 1; b < p->ranks; b++) {
            int64_t traffic = b - a == 1;
            if (p->traffic)
                traffic = (int64_t)p->traffic[a * p->ranks + b] +
                          p->traffic[b * p->ranks + a];
            if (gpu_of[a] < 0 || gpu_of[b] < 0)
                continue;
            if (gpu_of[a] == gpu_of[b])
                sum += traffic * (best + 1);
            else if (p->links)
                sum += traffic * x->links[gpu_of[a] * p->gpus + gpu_of[b]];
        }
    return sum;
}

static void problem_make(problem *x, uint64_t *seed, int ranks, int gpus)
{
    static const int distances[] = {10, 10, 12, 20, 32, 40};
    int style = t_below(seed, 4);

    memset(x, 0, sizeof *x);
    x->p.ranks = ranks;
    x->p.gpus = gpus;
    x->p.balance = (wi_assign_balance)t_below(seed, 2);
    x->p.cost = x->cost;
    for (int i = 0; i < ranks * gpus; i++) {
        x->cost[i] = distances[t_below(seed, 6)];
        /* Ranks alike, wild costs, lists of visible GPUs. */
        if (style == 1 && i >= gpus && t_below(seed, 4))
            x->cost[i] = x->cost[i - gpus];
        if (style == 2)
            x->cost[i] = 1 + t_below(seed, 1000);
        if (style == 3 && !t_below(seed, 3))
            x->cost[i] = -1;
    }
    /* Groups are parts of the groups above them. */
    for (int l = 0; l < WI_ASSIGN_LEVELS; l++) {
        x->p.level[l] = x->level[l];
        for (int g = 0; g < gpus; g++) {
            x->level[l][g] = g;
            if (g && t_below(seed, 2) &&
                (l == 0 || x->level[l - 1][g] == x->level[l - 1][g - 1]))
                x->level[l][g] = x->level[l][g - 1];
        }
    }
    if (t_below(seed, 2)) {
        x->p.links = x->links;
        for (int a = 0; a < gpus; a++)
            for (int b = 0; b < a; b++)
                x->links[a * gpus + b] = x->links[b * gpus + a] =
                    t_below(seed, 5);
    }
    if (ranks <= 64 && !t_below(seed, 3)) {
        x->p.traffic = x->traffic;
        for (int i = 0; i < ranks * ranks; i++)
            x->traffic[i] = (uint32_t)t_below(seed, 100);
    }
}

/* The least worth of all assignments, and the most togetherness among those
 * that are as even and as cheap. */
static worth brute(const problem *x, int64_t *most)
{
    const wi_assign *p = &x->p;
    int at[SMALL_RANKS] = {0};
    worth best = {{0}};
    bool any = false;
    int total = 1;

    for (int r = 0; r < p->ranks; r++)
        total *= p->gpus;
    for (int n = 0; n < total; n++) {
        bool fits = true;
        for (int r = 0, rest = n; r < p->ranks && fits; r++) {
            bool none = true;
            for (int g = 0; g < p->gpus; g++)
                none &= p->cost[r * p->gpus + g] < 0;
            at[r] = none ? -1 : rest % p->gpus;
            fits = none || p->cost[r * p->gpus + at[r]] >= 0;
            rest /= p->gpus;
        }
        if (fits) {
            worth w = worth_of(p, at);
            int64_t value = together(x, at);
            int order = any ? 0 : -1;
            for (int i = 0; i < EXACT && !order; i++)
                order = (w.part[i] > best.part[i]) - (w.part[i] < best.part[i]);
            if (order < 0 || (!order && value > *most))
                *most = value;
            if (!any || compare(&w, &best) < 0)
                best = w;
            any = true;
        }
    }
    return best;
}

static void check_allowed(const wi_assign *p, const int *gpu_of)
{
    for (int r = 0; r < p->ranks; r++) {
        bool none = true;
        for (int g = 0; g < p->gpus; g++)
            none &= p->cost[r * p->gpus + g] < 0;
        T_EQ_INT(none, gpu_of[r] < 0);
        T_CHECK(gpu_of[r] < p->gpus);
        if (gpu_of[r] >= 0)
            T_CHECK(p->cost[r * p->gpus + gpu_of[r]] >= 0);
    }
}

static void small_cases(void)
{
    static problem x;
    uint64_t seed = 20240501;
    int reached = 0;

    for (int n = 0; n < CASES; n++) {
        int gpu_of[SMALL_RANKS], again[SMALL_RANKS];
        int64_t most = 0, value;
        worth best, got, refined;

        problem_make(&x, &seed, 1 + t_below(&seed, SMALL_RANKS),
                     1 + t_below(&seed, SMALL_GPUS));
        best = brute(&x, &most);
        T_OK(wi_assign_solve(&x.p, gpu_of));
        check_allowed(&x.p, gpu_of);
        got = worth_of(&x.p, gpu_of);
        for (int i = 0; i < OBJECTIVES; i++)
            if (got.part[i] != best.part[i])
                T_FAIL("case %d: objective %d: best %jd, got %jd", n, i,
                       (intmax_t)best.part[i], (intmax_t)got.part[i]);
        value = together(&x, gpu_of);
        T_OK(wi_assign_refine(&x.p, gpu_of));
        check_allowed(&x.p, gpu_of);
        refined = worth_of(&x.p, gpu_of);
        for (int i = 0; i < EXACT; i++)
            T_EQ_INT(best.part[i], refined.part[i]);
        T_CHECK(together(&x, gpu_of) >= value);
        T_CHECK(together(&x, gpu_of) <= most);
        reached += together(&x, gpu_of) == most;
        T_OK(wi_assign_solve(&x.p, again));
        T_OK(wi_assign_refine(&x.p, again));
        T_EQ_MEM(gpu_of, again, (size_t)x.p.ranks * sizeof *gpu_of);
    }
    printf("%d small cases exact; neighbours as close as possible in %d\n",
           CASES, reached);
    /* The climb may stop early, but not often. */
    T_CHECK(reached >= CASES / 100 * 95);
}

/*
 * No chain of moves makes a large assignment better: no cycle of negative
 * length among GPUs and the sink, by Bellman and Ford. Distances and evenness
 * only, in one number.
 */
static void certify(const wi_assign *p, const int *gpu_of)
{
    static int64_t edge[WHARF_MAX_GPUS + 1][WHARF_MAX_GPUS + 1];
    int64_t even, near;
    int64_t label[WHARF_MAX_GPUS + 1] = {0};
    int load[WHARF_MAX_GPUS] = {0};
    int sink = p->gpus;
    bool changed = true;

    even = p->balance == WI_ASSIGN_EVEN ? INT64_C(1) << 20 : 1;
    near = p->balance == WI_ASSIGN_EVEN ? 1 : INT64_C(1) << 20;
    for (int a = 0; a <= p->gpus; a++)
        for (int b = 0; b <= p->gpus; b++)
            edge[a][b] = INT64_MAX / 4;
    for (int r = 0; r < p->ranks; r++) {
        int a = gpu_of[r];
        if (a < 0)
            continue;
        load[a]++;
        for (int b = 0; b < p->gpus; b++) {
            int64_t move = near * ((int64_t)p->cost[r * p->gpus + b] -
                                   p->cost[r * p->gpus + a]);
            if (p->cost[r * p->gpus + b] >= 0 && move < edge[a][b])
                edge[a][b] = move;
        }
    }
    for (int g = 0; g < p->gpus; g++) {
        edge[g][sink] = even * (load[g] + 1);
        if (load[g])
            edge[sink][g] = -even * load[g];
    }
    for (int n = 0; n <= p->gpus + 1 && changed; n++) {
        changed = false;
        for (int a = 0; a <= p->gpus; a++)
            for (int b = 0; b <= p->gpus; b++)
                if (edge[a][b] < INT64_MAX / 4 &&
                    label[a] + edge[a][b] < label[b]) {
                    label[b] = label[a] + edge[a][b];
                    changed = true;
                }
    }
    T_CHECK(!changed);
}

static void large_cases(void)
{
    static problem x;
    static int gpu_of[WHARF_MAX_RANKS];
    uint64_t seed = 7;

    for (int n = 0; n < LARGE_CASES; n++) {
        int ranks = 1 + t_below(&seed, n % 10 ? 96 : WHARF_MAX_RANKS);
        int gpus = 1 + t_below(&seed, n % 10 ? 20 : WHARF_MAX_GPUS);
        problem_make(&x, &seed, ranks, gpus);
        T_OK(wi_assign_solve(&x.p, gpu_of));
        check_allowed(&x.p, gpu_of);
        certify(&x.p, gpu_of);
        T_OK(wi_assign_refine(&x.p, gpu_of));
        check_allowed(&x.p, gpu_of);
        certify(&x.p, gpu_of);
    }
    printf("%d large cases certified\n", LARGE_CASES);
}

int main(void)
{
    small_cases();
    large_cases();
    return 0;
}
