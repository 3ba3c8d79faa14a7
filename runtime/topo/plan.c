/* SPDX-License-Identifier: MIT */
/* The planner's frame: distances, map, placement, explanation, warnings. Pure:
 * what it reads is in its input. */
#include "topo/plan.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "topo/bits.h"

/* Nodes that a rank's CPUs belong to. */
static void rank_nodes(const wharf_topo *topo, const wi_plan_rank *rank,
                       uint64_t nodes[WI_TOPO_NODE_WORDS])
{
    memset(nodes, 0, sizeof(uint64_t[WI_TOPO_NODE_WORDS]));
    for (int n = 0; n < topo->nodes; n++)
        if (wi_bits_meet(rank->cpus, topo->node[n].cpus, WI_TOPO_CPU_WORDS))
            wi_bits_set(nodes, n);
}

static int distance_between(const wharf_topo *topo, const uint64_t *from,
                            const wi_topo_gpu *gpu)
{
    int least = -1;
    if (gpu->node < 0)
        return -1;
    for (int a = 0; a < topo->nodes; a++) {
        if (!wi_bits_has(from, a))
            continue;
        for (int b = 0; b < topo->nodes; b++) {
            int distance = topo->distance[a * topo->nodes + b];
            if (wi_bits_has(gpu->nodes, b) && (least < 0 || distance < least))
                least = distance;
        }
    }
    return least;
}

/*
 * Distances of one rank. A GPU of unknown locality costs as if it were local,
 * since it may be.
 */
static void rank_distances(wi_plan *plan, int rank)
{
    const wi_plan_input *in = plan->in;
    uint64_t nodes[WI_TOPO_NODE_WORDS];

    rank_nodes(in->topo, &in->rank[rank], nodes);
    for (int g = 0; g < in->gpus; g++) {
        int at = rank * in->gpus + g;
        int distance = distance_between(in->topo, nodes, &in->gpu[g]);
        bool allowed = in->rank[rank].visible >> g & 1;
        if (plan->map)
            allowed = plan->map[rank] == g;
        plan->distance[at] = distance;
        plan->cost[at] = distance < 0 ? WHARF_DISTANCE_LOCAL : distance;
        if (!allowed)
            plan->cost[at] = -1;
    }
}

int wi_plan_nearest(const wi_plan *plan, int rank, int *gpu)
{
    int least = -1;
    for (int g = 0; g < plan->in->gpus; g++) {
        int distance = plan->distance[rank * plan->in->gpus + g];
        if (!(plan->in->rank[rank].visible >> g & 1) || distance < 0)
            continue;
        if (least < 0 || distance < least) {
            least = distance;
            *gpu = g;
        }
    }
    return least;
}

static wharf_status map_check(const wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    for (int r = 0; r < in->ranks; r++)
        if (!(in->rank[r].visible >> plan->map[r] & 1))
            return wi_fail(WHARF_EARG,
                           "make it visible to that rank, or change the map",
                           "device map gives rank %d GPU %d (%s), which that "
                           "rank does not see",
                           r, plan->map[r], in->gpu[plan->map[r]].pci);
    return WHARF_OK;
}

static wharf_status map_read(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    wharf_status status;

    if (!in->device_map || !in->device_map[0])
        return WHARF_OK;
    plan->map = wi_calloc((size_t)in->ranks, sizeof *plan->map);
    if (!plan->map)
        return WHARF_ENOMEM;
    status =
        wi_map_parse(in->gpu, in->gpus, in->device_map, in->ranks, plan->map);
    return status == WHARF_OK ? map_check(plan) : status;
}

static wharf_status room_make(wi_plan *plan)
{
    size_t ranks = (size_t)plan->in->ranks;
    size_t cells = ranks * (size_t)plan->in->gpus;

    plan->line = wi_calloc(ranks, sizeof *plan->line);
    plan->distance = wi_calloc(cells, sizeof *plan->distance);
    plan->cost = wi_calloc(cells, sizeof *plan->cost);
    plan->gpu_of = wi_calloc(ranks, sizeof *plan->gpu_of);
    if (!plan->line || !plan->distance || !plan->cost || !plan->gpu_of)
        return WHARF_ENOMEM;
    return WHARF_OK;
}

/* What only the planner needs. */
static void scratch_free(wi_plan *plan)
{
    wi_free(plan->distance);
    wi_free(plan->cost);
    wi_free(plan->gpu_of);
    wi_free(plan->map);
    plan->distance = plan->cost = NULL;
    plan->gpu_of = plan->map = NULL;
    plan->in = NULL;
}

static wharf_status refuse(const wi_plan *plan)
{
    for (int w = 0; plan->in->refuse_bad && w < plan->made.warnings; w++)
        if (plan->warning[w].bad)
            return wi_fail(WHARF_EDEGRADED,
                           "change the binding or the map, or allow bad plans",
                           "the plan is refused: %.160s",
                           plan->warning[w].text);
    return WHARF_OK;
}

static wharf_status steps(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    wharf_status status = room_make(plan);

    if (status == WHARF_OK)
        status = map_read(plan);
    if (status != WHARF_OK)
        return status;
    for (int r = 0; r < in->ranks; r++)
        rank_distances(plan, r);
    status = wi_plan_policy(plan);
    if (status != WHARF_OK)
        return status;
    wi_plan_explain(plan);
    status = wi_plan_warn(plan);
    return status == WHARF_OK ? refuse(plan) : status;
}

wharf_status wi_plan_make(const wi_plan_input *input, wharf_plan **plan)
{
    wi_plan *work;
    wharf_status status;

    if (!WI_NEW(work))
        return WHARF_ENOMEM;
    work->in = input;
    status = steps(work);
    if (status != WHARF_OK) {
        wi_plan_release(&work->made);
        return status;
    }
    work->made.ranks = input->ranks;
    work->made.gpus = input->gpus;
    work->made.placement = input->placement;
    work->made.line = work->line;
    work->made.warning = work->warning;
    work->made.digest = wi_plan_digest(work);
    scratch_free(work);
    *plan = &work->made;
    return WHARF_OK;
}

void wi_plan_release(wharf_plan *plan)
{
    wi_plan *work = (wi_plan *)plan;
    if (!work)
        return;
    scratch_free(work);
    wi_free(work->line);
    wi_free(work->warning);
    wi_free(work);
}

void wharf_plan_free(wharf_plan **plan)
{
    if (!plan)
        return;
    wi_plan_release(*plan);
    *plan = NULL;
}
