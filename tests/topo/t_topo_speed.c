/* SPDX-License-Identifier: MIT */
/* How long planning takes for the largest nodes. Prints times and judges none
 * of them; judges the plans. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <time.h>

#include "base/mem.h"
#include "t_test.h"
#include "topo/model.h"
#include "topo/plan.h"
#include "topo_gen.h"

#define NODES 8
#define NODE_CPUS 32

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Two sockets of four NUMA nodes with `gpus` GPUs all around. */
static wharf_topo *machine_make(int gpus)
{
    wharf_topo *topo = calloc(1, sizeof *topo);

    T_CHECK(topo != NULL);
    T_OK(wi_topo_room(topo, NODES, gpus));
    topo->nodes = NODES;
    topo->gpus = gpus;
    for (int n = 0; n < NODES; n++) {
        topo->node[n].os_index = n;
        topo->node[n].package = n / 4;
        for (int c = n * NODE_CPUS; c < (n + 1) * NODE_CPUS; c++) {
            topo->node[n].cpus[c / 64] |= UINT64_C(1) << (c % 64);
            topo->allowed[c / 64] |= UINT64_C(1) << (c % 64);
        }
    }
    wi_topo_guess_distances(topo);
    for (int g = 0; g < gpus; g++) {
        snprintf(topo->gpu[g].pci, 16, "0000:%02x:00.0", g + 1);
        topo->gpu[g].listed = true;
        topo->gpu[g].node = g * NODES / gpus;
        topo->gpu[g].nodes[0] = UINT64_C(1) << topo->gpu[g].node;
    }
    return topo;
}

static void machine_free(wharf_topo *topo)
{
    wi_free(topo->node);
    wi_free(topo->distance);
    wi_free(topo->gpu);
    free(topo);
}

/* style 0: unbound, 1: one CPU each, 2: random nodes, 3: random nodes, random
 * lists and random traffic. */
static void measure(int ranks, int gpus, int style, wharf_placement placement)
{
    static const char *const names[] = {"unbound", "one CPU a rank",
                                        "random nodes", "random everything"};
    static wi_plan_rank rank[WHARF_MAX_RANKS];
    static uint32_t traffic[WHARF_MAX_RANKS * WHARF_MAX_RANKS];
    wharf_topo *topo = machine_make(gpus);
    wi_plan_input input = {.topo = topo,
                           .ranks = ranks,
                           .rank = rank,
                           .gpus = gpus,
                           .gpu = topo->gpu,
                           .placement = placement};
    wharf_plan *plan = NULL;
    uint64_t seed = 99;
    double best = 1e9;

    memset(rank, 0, sizeof rank);
    for (int r = 0; r < ranks; r++) {
        int node = style == 1 ? r * NODES / ranks : t_below(&seed, NODES);
        rank[r].bound = style > 0;
        memcpy(rank[r].cpus, style ? topo->node[node].cpus : topo->allowed,
               sizeof rank[r].cpus);
        rank[r].visible = gpus < 64 ? (UINT64_C(1) << gpus) - 1 : UINT64_MAX;
        if (style == 3)
            rank[r].visible &= t_random(&seed) | UINT64_C(1) << (r % gpus);
    }
    if (style == 3) {
        input.traffic = traffic;
        for (int i = 0; i < ranks * ranks; i++)
            traffic[i] = (uint32_t)t_below(&seed, 1000);
    }
    for (int n = 0; n < 3; n++) {
        double start = now_ms();
        T_OK(wi_plan_make(&input, &plan));
        if (now_ms() - start < best)
            best = now_ms() - start;
        for (int r = 0; r < ranks; r++)
            T_CHECK(rank[r].visible >> plan->line[r].gpu & 1);
        if (n < 2)
            wharf_plan_free(&plan);
    }
    printf("%4d ranks %3d GPUs %-8s %-18s %8.2f ms, cost %jd\n", ranks, gpus,
           wharf_placement_name(placement), names[style], best,
           (intmax_t)plan->cost);
    wharf_plan_free(&plan);
    machine_free(topo);
}

int main(void)
{
    for (int style = 0; style < 4; style++) {
        measure(256, 16, style, WHARF_PLACEMENT_AUTO);
        measure(256, 16, style, WHARF_PLACEMENT_CLOSEST);
    }
    measure(WHARF_MAX_RANKS, WHARF_MAX_GPUS, 2, WHARF_PLACEMENT_AUTO);
    measure(WHARF_MAX_RANKS, WHARF_MAX_GPUS, 3, WHARF_PLACEMENT_AUTO);
    return 0;
}
