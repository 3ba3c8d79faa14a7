/* SPDX-License-Identifier: MIT */
/* Planning for the node that runs: facts of the processes and the driver's
 * devices instead of text. See topo.h. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "topo/bits.h"
#include "topo/plan.h"
#include "topo/topo.h"

_Static_assert(WI_TOPO_CPUS == WHARF_TOPO_INDICES, "one size of CPU sets");

/* Launchers that tell a process its rank on the host. */
static const char *const local_rank_names[] = {
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMIX_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",  "SLURM_LOCALID",   "PALS_LOCAL_RANKID",
};

static int local_rank_read(void)
{
    size_t names = sizeof local_rank_names / sizeof *local_rank_names;
    for (size_t i = 0; i < names; i++) {
        const char *text = getenv(local_rank_names[i]);
        char *end;
        long value;
        if (!text || !*text)
            continue;
        value = strtol(text, &end, 10);
        if (!*end && value >= 0 && value < 1 << 20)
            return (int)value;
    }
    return -1;
}

/* Entries of the list of visible devices that CUDA was given. */
static int listed_read(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text)
        return -1;
    return *text ? wi_entries_count(text, ',') : 0;
}

void wi_topo_rank_self(wi_topo_rank *rank)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t mask;
    int count = 0;

    memset(rank, 0, sizeof *rank);
    CPU_ZERO(&mask);
    if (!sched_getaffinity(0, sizeof mask, &mask))
        for (int c = 0; c < CPU_SETSIZE && c < WI_TOPO_CPUS; c++)
            if (CPU_ISSET(c, &mask)) {
                wi_bits_set(rank->cpus, c);
                count++;
            }
    rank->bound = count > 0 && count < online;
    rank->local_rank = local_rank_read();
    rank->listed = listed_read();
}

static wharf_status devices_check(int devices)
{
    if (devices < 0 || devices > WHARF_MAX_GPUS)
        return wi_fail(WHARF_ELIMIT, NULL, "the node has %d GPUs, at most %d",
                       devices, WHARF_MAX_GPUS);
    return WHARF_OK;
}

static void ranks_fill(const wi_topo_rank *from, int ranks, int devices,
                       wi_plan_rank *to)
{
    uint64_t all = devices < 64 ? (UINT64_C(1) << devices) - 1 : ~UINT64_C(0);
    for (int r = 0; r < ranks; r++) {
        memcpy(to[r].cpus, from[r].cpus, sizeof to[r].cpus);
        to[r].bound = from[r].bound;
        to[r].visible = from[r].visible & all;
        /* More entries than devices: CUDA stopped at a bad one. */
        to[r].cut = from[r].listed > __builtin_popcountll(to[r].visible);
    }
}

static int hosted(const wi_topo_rank *rank, int ranks)
{
    int most = 0;
    for (int r = 0; r < ranks; r++)
        if (rank[r].local_rank + 1 > most)
            most = rank[r].local_rank + 1;
    return most;
}

/* Text for the lines: "forced: one visible". */
static void reason_write(const wharf_plan_line *line, char text[96])
{
    snprintf(text, 96, "%s%s%s", wharf_reason_name(line->reason),
             line->detail[0] ? ": " : "", line->detail);
}

static wharf_status lines_write(const wharf_plan *plan, wi_topo_line *lines,
                                char *warnings, size_t capacity)
{
    size_t used = 0;

    for (int r = 0; r < plan->ranks; r++)
        if (plan->line[r].gpu < 0)
            return wi_fail(WHARF_ENODEV,
                           "give that rank a GPU by CUDA_VISIBLE_DEVICES or "
                           "cgroup, or use the host backend",
                           "rank %d sees no GPU of this node", r);
    for (int r = 0; r < plan->ranks; r++) {
        lines[r].device = plan->line[r].gpu;
        lines[r].distance = plan->line[r].distance;
        reason_write(&plan->line[r], lines[r].reason);
    }
    if (capacity)
        warnings[0] = 0;
    for (int w = 0; w < plan->warnings && used + 1 < capacity; w++)
        used += (size_t)snprintf(warnings + used, capacity - used, "%s%s",
                                 w ? "\n" : "", plan->warning[w].text);
    return WHARF_OK;
}

wharf_status wi_topo_plan_node(const wi_topo_ask *ask, wi_topo_line *lines,
                               char *warnings, size_t capacity)
{
    wi_plan_input input = {.ranks = ask->ranks,
                           .gpus = ask->devices,
                           .links = ask->links,
                           .placement = ask->placement,
                           .device_map = ask->device_map,
                           .refuse_bad = ask->refuse_bad};
    wharf_topo *topo = NULL;
    wi_topo_gpu *gpus = NULL;
    wi_plan_rank *facts = NULL;
    wharf_plan *plan = NULL;
    wharf_status status = devices_check(ask->devices);

    if (status == WHARF_OK)
        status = wi_topo_load(NULL, &topo);
    if (status != WHARF_OK)
        return status;
    gpus = wi_calloc((size_t)ask->devices, sizeof *gpus);
    facts = wi_calloc((size_t)ask->ranks, sizeof *facts);
    status = gpus && facts ? WHARF_OK : WHARF_ENOMEM;
    if (status == WHARF_OK) {
        for (int d = 0; d < ask->devices; d++)
            wi_device_locate(topo, ask->device[d].pci, ask->device[d].uuid,
                             ask->device[d].mig, &gpus[d]);
        ranks_fill(ask->rank, ask->ranks, ask->devices, facts);
        input.topo = topo;
        input.rank = facts;
        input.gpu = gpus;
        input.hosted = hosted(ask->rank, ask->ranks);
        status = wi_plan_make(&input, &plan);
    }
    if (status == WHARF_OK)
        status = lines_write(plan, lines, warnings, capacity);
    wi_plan_release(plan);
    wi_free(facts);
    wi_free(gpus);
    wi_topo_release(topo);
    return status;
}
