/* SPDX-License-Identifier: MIT */
/* What a person should know about a plan. One warning a kind of trap, with the
 * ranks or GPUs that it concerns. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "topo/bits.h"
#include "topo/plan.h"

#define LIST_TEXT 80

/* A set of ranks or of GPUs. */
typedef uint64_t members[WHARF_MAX_RANKS / 64];

#define BAD true
#define NOTICE false

static wharf_status add(wi_plan *plan, bool bad, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static wharf_status add(wi_plan *plan, bool bad, const char *format, ...)
{
    wharf_plan_warning *warning;
    va_list list;

    if (plan->made.warnings == plan->room) {
        int room = plan->room ? 2 * plan->room : 8;
        wharf_plan_warning *more = wi_calloc((size_t)room, sizeof *more);
        if (!more)
            return WHARF_ENOMEM;
        for (int w = 0; w < plan->made.warnings; w++)
            more[w] = plan->warning[w];
        wi_free(plan->warning);
        plan->warning = more;
        plan->room = room;
    }
    warning = &plan->warning[plan->made.warnings++];
    warning->bad = bad;
    va_start(list, format);
    vsnprintf(warning->text, sizeof warning->text, format, list);
    va_end(list);
    return WHARF_OK;
}

/* "rank 3 is", "ranks 0-3,7 are". */
static const char *subject(const char *noun, const uint64_t *set,
                           const char *one, const char *many,
                           char text[LIST_TEXT + 32])
{
    char list[LIST_TEXT];
    int count = wi_bits_count(set, WHARF_MAX_RANKS / 64);
    wi_bits_format(set, WHARF_MAX_RANKS, list, sizeof list);
    snprintf(text, LIST_TEXT + 32, "%s%s %s %s", noun, count > 1 ? "s" : "",
             list, count > 1 ? many : one);
    return text;
}

/* Adds "SUBJECT REST" if the set has members. */
static wharf_status about(wi_plan *plan, bool bad, const char *noun,
                          const uint64_t *set, const char *one,
                          const char *many, const char *rest)
{
    char text[LIST_TEXT + 32];
    if (!wi_bits_count(set, WHARF_MAX_RANKS / 64))
        return WHARF_OK;
    return add(plan, bad, "%s %s", subject(noun, set, one, many, text), rest);
}

static int packages_of(const wi_plan *plan, int rank)
{
    const wharf_topo *topo = plan->in->topo;
    int count = 0, seen = -1;
    for (int n = 0; n < topo->nodes; n++) {
        if (!wi_bits_meet(plan->in->rank[rank].cpus, topo->node[n].cpus,
                          WI_TOPO_CPU_WORDS) ||
            topo->node[n].package < 0 || topo->node[n].package == seen)
            continue;
        seen = topo->node[n].package;
        count++;
    }
    return count;
}

static wharf_status warn_machine(wi_plan *plan)
{
    const wharf_topo *topo = plan->in->topo;
    const char *at = topo->notes;
    wharf_status status = WHARF_OK;

    if (topo->foreign)
        status = add(plan, BAD,
                     "the topology is a record of another machine "
                     "(HWLOC_XMLFILE or HWLOC_SYNTHETIC is set)");
    while (status == WHARF_OK && *at) {
        int length = (int)strcspn(at, "\n");
        status = add(plan, NOTICE, "%.*s", length, at);
        at += length;
        at += *at == '\n';
    }
    if (status == WHARF_OK && !plan->in->gpus)
        status = add(plan, BAD, "the machine has no GPU");
    return status;
}

static wharf_status warn_lists(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    members none = {0}, partial = {0};
    wharf_status status = WHARF_OK;

    for (int r = 0; r < in->ranks && status == WHARF_OK; r++) {
        if (in->gpus && plan->gpu_of[r] < 0)
            wi_bits_set(none, r);
        if (in->rank[r].partial)
            wi_bits_set(partial, r);
        if (in->rank[r].cut)
            status =
                add(plan, BAD,
                    "rank %d's list of visible GPUs is cut%s%s%s: CUDA shows "
                    "only what comes before the first bad entry",
                    r, in->rank[r].token[0] ? " at \"" : "", in->rank[r].token,
                    in->rank[r].token[0] ? "\"" : "");
    }
    if (status == WHARF_OK)
        status = about(plan, BAD, "rank", none, "has", "have",
                       "no GPU: none is visible there");
    if (status == WHARF_OK)
        status =
            about(plan, NOTICE, "rank", partial, "is", "are",
                  "bound to CPUs or NUMA nodes of which some do not exist or "
                  "may not be used here");
    return status;
}

static wharf_status warn_bindings(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    members far = {0}, wide = {0};
    wharf_status status;

    for (int r = 0; r < in->ranks; r++) {
        if (!in->rank[r].bound)
            continue;
        if (packages_of(plan, r) > 1)
            wi_bits_set(wide, r);
        if (plan->gpu_of[r] >= 0 && plan->line[r].distance >= 0 &&
            wi_plan_locality(plan, r, plan->gpu_of[r]) == WHARF_REASON_REMOTE)
            wi_bits_set(far, r);
    }
    status = about(plan, BAD, "rank", far, "is", "are",
                   "bound far from the GPU: on another socket");
    if (status == WHARF_OK)
        status =
            about(plan, NOTICE, "rank", wide, "has", "have",
                  "a CPU mask over more than one socket: no GPU is near all "
                  "of it");
    return status;
}

static wharf_status warn_locality(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    members unknown = {0}, absent = {0};
    wharf_status status;

    for (int g = 0; g < in->gpus; g++) {
        if (!in->gpu[g].listed && in->topo->nodes)
            wi_bits_set(absent, g);
        else if (in->gpu[g].node < 0)
            wi_bits_set(unknown, g);
    }
    status = about(plan, NOTICE, "GPU", absent, "is", "are",
                   "not in the topology: locality unknown");
    if (status == WHARF_OK)
        status =
            about(plan, NOTICE, "GPU", unknown, "has", "have",
                  "no NUMA node (numa_node is -1): locality unknown, every "
                  "CPU counts as local");
    return status;
}

/* GPUs of the machine that are not among the driver's devices. */
static wharf_status warn_hidden(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    wharf_status status = WHARF_OK;

    for (int t = 0; t < in->topo->gpus && status == WHARF_OK; t++) {
        bool found = false;
        for (int g = 0; g < in->gpus && !found; g++)
            found = !wi_pci_compare(in->gpu[g].pci, in->topo->gpu[t].pci);
        if (!found)
            status = add(plan, NOTICE,
                         "the GPU at %s is hidden from all ranks: by a list of "
                         "visible devices, a cgroup, its compute mode, or a "
                         "missing driver",
                         in->topo->gpu[t].pci);
    }
    return status;
}

static wharf_status warn_use(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    members hidden = {0}, unused = {0}, doubled = {0};
    uint64_t seen = 0;
    wharf_status status;

    for (int r = 0; r < in->ranks; r++)
        seen |= in->rank[r].visible;
    for (int g = 0; g < in->gpus; g++) {
        int load = 0;
        for (int r = 0; r < in->ranks; r++)
            load += plan->gpu_of[r] == g;
        if (!(seen >> g & 1))
            wi_bits_set(hidden, g);
        else if (!load)
            wi_bits_set(unused, g);
        if (load > 1)
            wi_bits_set(doubled, g);
    }
    status =
        about(plan, NOTICE, "GPU", hidden, "is", "are", "visible to no rank");
    if (status == WHARF_OK)
        status =
            about(plan, NOTICE, "GPU", unused, "is", "are", "used by no rank");
    if (status == WHARF_OK && in->gpus && in->ranks > in->gpus)
        status = add(plan, NOTICE, "%d ranks share %d GPU%s", in->ranks,
                     in->gpus, in->gpus > 1 ? "s" : "");
    if (status == WHARF_OK && in->gpus && in->hosted > in->ranks)
        status =
            add(plan, NOTICE,
                "the launcher started at least %d ranks on this host, %d of "
                "them are planned here: the others may use the same GPUs",
                in->hosted, in->ranks);
    if (status == WHARF_OK && plan->map && wi_bits_count(unused, 1))
        status =
            about(plan, BAD, "GPU", doubled, "is", "are",
                  "given to several ranks by the device map while others are "
                  "used by none");
    return status;
}

/* Ranks on different MIG instances of one chip. */
static wharf_status warn_chip(wi_plan *plan, int first)
{
    const wi_plan_input *in = plan->in;
    members ranks = {0};
    bool several = false;
    char text[LIST_TEXT + 32];

    for (int r = 0; r < in->ranks; r++) {
        int g = plan->gpu_of[r];
        if (g < 0 || !in->gpu[g].mig ||
            strcmp(in->gpu[g].pci, in->gpu[first].pci) != 0)
            continue;
        several |= g != first;
        wi_bits_set(ranks, r);
    }
    if (!several || wi_bits_count(ranks, WHARF_MAX_RANKS / 64) < 2)
        return WHARF_OK;
    return add(plan, NOTICE,
               "%s the silicon of the GPU at %s, on MIG instances that have no "
               "peer access",
               subject("rank", ranks, "uses", "share", text),
               in->gpu[first].pci);
}

static wharf_status warn_mig(wi_plan *plan)
{
    const wi_plan_input *in = plan->in;
    wharf_status status = WHARF_OK;

    for (int g = 0; g < in->gpus && status == WHARF_OK; g++) {
        bool first = in->gpu[g].mig;
        for (int b = 0; b < g && first; b++)
            first =
                !in->gpu[b].mig || strcmp(in->gpu[b].pci, in->gpu[g].pci) != 0;
        if (first)
            status = warn_chip(plan, g);
    }
    return status;
}

wharf_status wi_plan_warn(wi_plan *plan)
{
    static wharf_status (*const step[])(wi_plan *) = {
        warn_machine, warn_lists, warn_bindings, warn_locality,
        warn_hidden,  warn_use,   warn_mig,
    };
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        wharf_status status = step[i](plan);
        if (status != WHARF_OK)
            return status;
    }
    return WHARF_OK;
}
