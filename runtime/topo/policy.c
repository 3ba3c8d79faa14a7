/* SPDX-License-Identifier: MIT */
/* From the rules of placement to a GPU for every rank. */
#include <string.h>

#include "base/mem.h"
#include "topo/assign.h"
#include "topo/plan.h"

/* Groups that GPUs are spread over; see WI_ASSIGN_LEVELS. */
typedef struct groups {
    int package[WHARF_MAX_GPUS];
    int node[WHARF_MAX_GPUS];
    int chip[WHARF_MAX_GPUS];
} groups;

static bool same_chip(const wi_topo_gpu *a, const wi_topo_gpu *b)
{
    return a->mig && b->mig && !strcmp(a->pci, b->pci);
}

static int package_of(const wi_plan_input *in, int g)
{
    int node = in->gpu[g].node;
    return node < 0 ? -1 : in->topo->node[node].package;
}

static void groups_fill(const wi_plan_input *in, groups *group)
{
    for (int g = 0; g < in->gpus; g++) {
        group->package[g] = group->node[g] = group->chip[g] = g;
        for (int b = g - 1; b >= 0; b--) {
            if (package_of(in, b) == package_of(in, g))
                group->package[g] = group->package[b];
            if (in->gpu[b].node == in->gpu[g].node)
                group->node[g] = group->node[b];
            if (same_chip(&in->gpu[b], &in->gpu[g]))
                group->chip[g] = group->chip[b];
        }
    }
}

bool wi_plan_forced(const wi_plan *plan, int rank)
{
    uint64_t visible = plan->in->rank[rank].visible;
    return plan->map ||
           (plan->in->gpus > 1 && visible && !(visible & (visible - 1)));
}

static int next_visible(const wi_plan_input *in, int rank, int wish)
{
    for (int i = 0; i < in->gpus; i++) {
        int g = (wish + i) % in->gpus;
        if (in->rank[rank].visible >> g & 1)
            return g;
    }
    return -1;
}

/* block and round_robin, and the map. Block gives the first GPUs the ranks
 * that are left over. */
static void by_rule(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    int share = in->ranks / in->gpus;
    int larger = in->ranks % in->gpus; /* GPUs with one rank more */

    for (int r = 0; r < in->ranks; r++) {
        int wish;
        if (plan->map)
            wish = plan->map[r];
        else if (in->placement == WHARF_PLACEMENT_ROUND_ROBIN)
            wish = r % in->gpus;
        else if (r < larger * (share + 1))
            wish = r / (share + 1);
        else
            wish = larger + (r - larger * (share + 1)) / share;
        plan->gpu_of[r] = next_visible(in, r, wish);
    }
}

static wharf_status by_cost(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    groups group;
    wi_assign problem = {
        .ranks = in->ranks,
        .gpus = in->gpus,
        .cost = plan->cost,
        .balance = in->placement == WHARF_PLACEMENT_CLOSEST ? WI_ASSIGN_LAST
                                                            : WI_ASSIGN_EVEN,
        .level = {group.package, group.node, group.chip},
        .links = in->links,
        .traffic = in->traffic,
    };
    wharf_status status;

    groups_fill(in, &group);
    status = wi_assign_solve(&problem, plan->gpu_of);
    if (status != WHARF_OK)
        return status;
    return wi_assign_refine(&problem, plan->gpu_of);
}

wharf_status wi_plan_policy(wi_plan *plan)
{
    for (int r = 0; r < plan->in->ranks; r++)
        plan->gpu_of[r] = -1;
    if (!plan->in->gpus)
        return WHARF_OK;
    if (plan->map || plan->in->placement == WHARF_PLACEMENT_BLOCK ||
        plan->in->placement == WHARF_PLACEMENT_ROUND_ROBIN) {
        by_rule(plan);
        return WHARF_OK;
    }
    return by_cost(plan);
}
