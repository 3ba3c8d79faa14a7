/* SPDX-License-Identifier: MIT */
/*
 * Recorded real machines, where the directory that WHARF_TOPOLOGIES names has
 * them: plans whose answers are known, and for every number of ranks what must
 * hold for any plan.
 */
#include <stdbool.h>

#include "t_test.h"
#include "topo_gen.h"

typedef struct machine {
    const char *file;
    int gpus;
    const char *nodes[8]; /* NUMA nodes with CPUs */
} machine;

static const machine machines[] = {
    {"hwloc-nvidiaDGX2.xml", 16, {"0", "1", NULL}},
    {"mpibind-coral-lassen.xml", 4, {"0", "8", NULL}},
    {"mpibind-cts1-pascal.xml", 2, {"0", "1", NULL}},
    {"prrte-turin-4gpu-nvml.xml", 4, {"0", "1", "2", "3", "4", "5", "6", "7"}},
};

static const struct {
    const char *bindings;
    int64_t cost; /* -1: not known */
    int gpu[4];
} known[] = {
    {"numa:1/numa:2/numa:6/numa:7", 40, {0, 1, 2, 3}},
    {"numa:7/numa:6/numa:2/numa:1", 40, {3, 2, 1, 0}},
    {"-/-/-/-", -1, {0, 1, 2, 3}},
    {"numa:0-3/numa:4-7", 20, {0, 2}},
};

static wharf_topo *machine_load(const char *directory, const char *file)
{
    char path[512];
    wharf_topo *topo = NULL;

    snprintf(path, sizeof path, "%s/%s", directory, file);
    if (access(path, R_OK))
        T_SKIP("%s is not there", path);
    T_OK(wharf_topo_load(path, &topo));
    return topo;
}

static void known_answers(const char *directory)
{
    wharf_topo *topo = machine_load(directory, "prrte-turin-4gpu-nvml.xml");

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        wharf_binding bindings[4];
        wharf_plan *plan = NULL;
        int ranks;
        T_OK(wharf_binding_parse(known[i].bindings, bindings, 4, &ranks));
        T_OK(wharf_plan_make(topo, ranks, bindings, NULL, &plan));
        for (int r = 0; r < ranks; r++)
            T_EQ_INT(known[i].gpu[r], plan->line[r].gpu);
        if (known[i].cost >= 0)
            T_EQ_INT(known[i].cost, plan->cost);
        wharf_plan_free(&plan);
    }
    wharf_topo_free(&topo);
}

/* Loads even, lines true to the machine, the sum right. */
static void plan_check(const wharf_plan *plan, int ranks, int gpus)
{
    int64_t cost = 0;
    int load[WHARF_MAX_GPUS] = {0};

    T_EQ_INT(ranks, plan->ranks);
    for (int r = 0; r < ranks; r++) {
        const wharf_plan_line *line = &plan->line[r];
        T_EQ_INT(r, line->rank);
        T_CHECK(line->gpu >= 0 && line->gpu < gpus);
        T_CHECK(line->distance >= 10);
        T_CHECK(line->owner <= r);
        T_EQ_INT(line->gpu, plan->line[line->owner].gpu);
        load[line->gpu]++;
        cost += line->distance;
    }
    T_EQ_INT(cost, plan->cost);
    for (int g = 0; g < gpus; g++)
        T_CHECK(load[g] == ranks / gpus ||
                load[g] == (ranks + gpus - 1) / gpus);
}

/* 1 to 16 ranks: unbound, and bound to the nodes one after the other. */
static void every_count(const char *directory, const machine *m)
{
    wharf_topo *topo = machine_load(directory, m->file);
    int nodes = 0;

    T_EQ_INT(m->gpus, wharf_topo_gpus(topo));
    while (nodes < 8 && m->nodes[nodes])
        nodes++;
    for (int ranks = 1; ranks <= 16; ranks++) {
        wharf_binding bindings[16];
        char text[256] = "";
        wharf_plan *plan = NULL;
        int count;
        T_OK(wharf_plan_make(topo, ranks, NULL, NULL, &plan));
        plan_check(plan, ranks, m->gpus);
        T_EQ_INT(ranks * 10, plan->cost);
        wharf_plan_free(&plan);
        for (int r = 0; r < ranks; r++)
            snprintf(text + strlen(text), sizeof text - strlen(text),
                     "%snuma:%s", r ? "/" : "", m->nodes[r * nodes / ranks]);
        T_OK(wharf_binding_parse(text, bindings, 16, &count));
        T_OK(wharf_plan_make(topo, ranks, bindings, NULL, &plan));
        plan_check(plan, ranks, m->gpus);
        wharf_plan_free(&plan);
    }
    wharf_topo_free(&topo);
}

int main(void)
{
    const char *directory = getenv("WHARF_TOPOLOGIES");

    if (!directory || !*directory)
        T_SKIP("WHARF_TOPOLOGIES names no directory of recorded machines");
    known_answers(directory);
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        every_count(directory, &machines[i]);
    return 0;
}
