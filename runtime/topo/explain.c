/* SPDX-License-Identifier: MIT */
/* One reason a line, owner and users, cost and digest of a plan. */
#include <stdio.h>
#include <string.h>

#include "topo/bits.h"
#include "topo/plan.h"
#include "topo/topo.h"

const char *wharf_reason_name(wharf_reason reason)
{
    switch (reason) {
#define REASON_CASE(name, number, text)                                        \
    case WHARF_REASON_##name:                                                  \
        return text;
        WHARF_REASON_LIST(REASON_CASE)
#undef REASON_CASE
    }
    return "unknown reason";
}

const char *wharf_placement_name(wharf_placement placement)
{
    switch (placement) {
    case WHARF_PLACEMENT_AUTO:
        return "auto";
    case WHARF_PLACEMENT_CLOSEST:
        return "closest";
    case WHARF_PLACEMENT_BLOCK:
        return "block";
    case WHARF_PLACEMENT_ROUND_ROBIN:
        return "round_robin";
    }
    return "unknown";
}

/* local, same socket or remote, by where the rank's CPUs are. */
wharf_reason wi_plan_locality(const wi_plan *plan, int rank, int gpu)
{
    const wharf_topo *topo = plan->in->topo;
    const wi_topo_gpu *device = &plan->in->gpu[gpu];
    bool socket = false;

    for (int a = 0; a < topo->nodes; a++) {
        if (!wi_bits_meet(plan->in->rank[rank].cpus, topo->node[a].cpus,
                          WI_TOPO_CPU_WORDS))
            continue;
        if (wi_bits_has(device->nodes, a))
            return WHARF_REASON_LOCAL;
        for (int b = 0; b < topo->nodes; b++)
            if (wi_bits_has(device->nodes, b) && topo->node[a].package >= 0 &&
                topo->node[a].package == topo->node[b].package)
                socket = true;
    }
    return socket ? WHARF_REASON_SAME_SOCKET : WHARF_REASON_REMOTE;
}

static wharf_reason reason_of(const wi_plan *plan, wharf_plan_line *line)
{
    const wi_plan_input *in = plan->in;
    bool rule = in->placement == WHARF_PLACEMENT_BLOCK ||
                in->placement == WHARF_PLACEMENT_ROUND_ROBIN;
    int gpu = -1;
    int least = wi_plan_nearest(plan, line->rank, &gpu);

    if (line->gpu < 0) {
        snprintf(line->detail, sizeof line->detail,
                 in->gpus ? "it sees none" : "there is none");
        return WHARF_REASON_NONE;
    }
    if (wi_plan_forced(plan, line->rank)) {
        snprintf(line->detail, sizeof line->detail,
                 plan->map ? "device map" : "one visible");
        return WHARF_REASON_FORCED;
    }
    if (rule)
        snprintf(line->detail, sizeof line->detail, "placement %s",
                 wharf_placement_name(in->placement));
    if (!in->rank[line->rank].bound)
        return WHARF_REASON_UNBOUND;
    if (line->distance < 0)
        return WHARF_REASON_UNKNOWN;
    if (least < line->distance && !rule) {
        snprintf(line->detail, sizeof line->detail, "GPU %d is at %d", gpu,
                 least);
        return WHARF_REASON_NEAR_FULL;
    }
    return wi_plan_locality(plan, line->rank, line->gpu);
}

static void line_fill(wi_plan *plan, int rank)
{
    const wi_plan_input *in = plan->in;
    wharf_plan_line *line = &plan->line[rank];
    int gpu = plan->gpu_of[rank];

    line->rank = rank;
    line->gpu = gpu;
    line->distance = WHARF_DISTANCE_UNKNOWN;
    line->owner = -1;
    if (gpu >= 0) {
        line->distance = plan->distance[rank * in->gpus + gpu];
        plan->made.cost +=
            line->distance < 0 ? WHARF_DISTANCE_LOCAL : line->distance;
        memcpy(line->pci, in->gpu[gpu].pci, sizeof line->pci);
        memcpy(line->uuid, in->gpu[gpu].uuid, sizeof line->uuid);
    }
    for (int r = in->ranks - 1; r >= 0 && gpu >= 0; r--)
        if (plan->gpu_of[r] == gpu) {
            line->owner = r;
            line->users++;
        }
    line->reason = reason_of(plan, line);
}

void wi_plan_explain(wi_plan *plan)
{
    for (int r = 0; r < plan->in->ranks; r++)
        line_fill(plan, r);
}

#define DIGEST_START UINT64_C(14695981039346656037)

/* FNV-1a, number by number in a fixed order of bytes, so that it is the same
 * on every machine and never reads padding. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t mix_number(uint64_t hash, int64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
    return mix(hash, bytes, sizeof bytes);
}

uint64_t wi_plan_digest(const wi_plan *plan)
{
    uint64_t hash = DIGEST_START;

    hash = mix_number(hash, plan->in->ranks);
    hash = mix_number(hash, plan->in->gpus);
    for (int r = 0; r < plan->in->ranks; r++) {
        const wharf_plan_line *line = &plan->line[r];
        hash = mix_number(hash, line->gpu);
        hash = mix_number(hash, line->distance);
        hash = mix_number(hash, line->owner);
        hash = mix_number(hash, line->reason);
        hash = mix(hash, line->pci, strlen(line->pci));
        hash = mix(hash, line->uuid, strlen(line->uuid));
    }
    return hash;
}

uint64_t wi_topo_digest(int ranks, const wi_topo_line *lines)
{
    uint64_t hash = mix_number(DIGEST_START, ranks);

    for (int r = 0; r < ranks; r++) {
        hash = mix_number(hash, lines[r].device);
        hash = mix_number(hash, lines[r].distance);
        hash = mix(hash, lines[r].reason, strlen(lines[r].reason));
    }
    return hash;
}
