/* SPDX-License-Identifier: MIT */
/* The public planner: checks what callers pass and brings it to the form that
 * the planner takes. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/versioned.h"
#include "topo/bits.h"
#include "topo/plan.h"

/* ---- Bindings ------------------------------------------------------------ */

static wharf_status entry_parse(const char *text, size_t length, int rank,
                                wharf_binding *binding)
{
    char what[32];

    memset(binding, 0, sizeof *binding);
    if (length == 1 && *text == '-')
        return WHARF_OK;
    snprintf(what, sizeof what, "rank %d's binding", rank);
    if (length >= 5 && !memcmp(text, "numa:", 5)) {
        binding->kind = WHARF_BINDING_NUMA;
        return wi_bits_parse(text + 5, length - 5, what, binding->set);
    }
    if (length >= 4 && !memcmp(text, "cpu:", 4)) {
        binding->kind = WHARF_BINDING_CPU;
        return wi_bits_parse(text + 4, length - 4, what, binding->set);
    }
    return wi_fail(WHARF_EARG, "write numa:LIST, cpu:LIST or -",
                   "%s \"%.*s\" is not understood", what,
                   length > 40 ? 40 : (int)length, text);
}

static wharf_status bindings_parse(const char *text, wharf_binding *bindings,
                                   int capacity, int *ranks)
{
    int count = 0;

    if (!text || !bindings || !ranks || capacity < 1)
        return wi_fail(WHARF_EARG, NULL,
                       "text, bindings or ranks is NULL, or capacity is %d",
                       capacity);
    for (;;) {
        size_t length = strcspn(text, "/");
        wharf_status status;
        if (count == capacity)
            return wi_fail(WHARF_ELIMIT, NULL, "more than %d bindings",
                           capacity);
        status = entry_parse(text, length, count, &bindings[count]);
        if (status != WHARF_OK)
            return status;
        count++;
        text += length;
        if (!*text++)
            break;
    }
    *ranks = count;
    return WHARF_OK;
}

wharf_status wharf_binding_parse(const char *text, wharf_binding *bindings,
                                 int capacity, int *ranks)
{
    wi_call_begin("wharf_binding_parse", -1);
    return wi_call_end(bindings_parse(text, bindings, capacity, ranks));
}

static wharf_status names_no_cpu(const wharf_topo *topo, int rank,
                                 const wharf_binding *binding)
{
    bool numa = binding->kind == WHARF_BINDING_NUMA;
    char list[80];

    wi_bits_format(binding->set, WHARF_TOPO_INDICES, list, sizeof list);
    if (numa && wi_bits_within(binding->set, topo->blind, WI_TOPO_CPU_WORDS) &&
        list[0])
        return wi_fail(WHARF_EARG, "bind to NUMA nodes that have CPUs",
                       "rank %d is bound to NUMA node %s, which has no CPU",
                       rank, list);
    return wi_fail(WHARF_EARG, "use OS indices, as lstopo -p prints them",
                   "rank %d's binding %s:%s names no CPU of the machine", rank,
                   numa ? "numa" : "cpu", list);
}

static wharf_status bind_numa(const wharf_topo *topo, int rank,
                              const wharf_binding *binding, wi_plan_rank *fact)
{
    int found = 0;
    for (int n = 0; n < topo->nodes; n++) {
        if (!wi_bits_has(binding->set, topo->node[n].os_index))
            continue;
        for (int w = 0; w < WI_TOPO_CPU_WORDS; w++)
            fact->cpus[w] |= topo->node[n].cpus[w];
        found++;
    }
    fact->partial = found < wi_bits_count(binding->set, WI_TOPO_CPU_WORDS);
    return found ? WHARF_OK : names_no_cpu(topo, rank, binding);
}

/* CPUs of the whole machine, the ones that may not be used included. */
static void machine_cpus(const wharf_topo *topo, uint64_t *cpus)
{
    memset(cpus, 0, sizeof(uint64_t[WI_TOPO_CPU_WORDS]));
    for (int n = 0; n < topo->nodes; n++)
        for (int w = 0; w < WI_TOPO_CPU_WORDS; w++)
            cpus[w] |= topo->node[n].cpus[w];
}

static wharf_status bind_cpus(const wharf_topo *topo, int rank,
                              const wharf_binding *binding, wi_plan_rank *fact)
{
    uint64_t machine[WI_TOPO_CPU_WORDS];

    memcpy(fact->cpus, binding->set, sizeof fact->cpus);
    if (!topo->nodes) /* nothing is known, so nothing is wrong */
        return wi_bits_count(fact->cpus, WI_TOPO_CPU_WORDS)
                   ? WHARF_OK
                   : names_no_cpu(topo, rank, binding);
    machine_cpus(topo, machine);
    fact->partial = !wi_bits_within(fact->cpus, machine, WI_TOPO_CPU_WORDS);
    for (int w = 0; w < WI_TOPO_CPU_WORDS; w++)
        fact->cpus[w] &= machine[w];
    if (!wi_bits_count(fact->cpus, WI_TOPO_CPU_WORDS))
        return names_no_cpu(topo, rank, binding);
    return WHARF_OK;
}

static wharf_status bind_rank(const wharf_topo *topo, int rank,
                              const wharf_binding *binding, wi_plan_rank *fact)
{
    wharf_status status;

    if (!binding || binding->kind == WHARF_BINDING_NONE) {
        memcpy(fact->cpus, topo->allowed, sizeof fact->cpus);
        return WHARF_OK;
    }
    fact->bound = true;
    if (binding->kind == WHARF_BINDING_NUMA)
        status = bind_numa(topo, rank, binding, fact);
    else if (binding->kind == WHARF_BINDING_CPU)
        status = bind_cpus(topo, rank, binding, fact);
    else
        status = wi_fail(WHARF_EARG, NULL, "rank %d's binding has kind %d",
                         rank, (int)binding->kind);
    if (status == WHARF_OK &&
        !wi_bits_within(fact->cpus, topo->allowed, WI_TOPO_CPU_WORDS))
        fact->partial = true;
    return status;
}

/* ---- The plan ------------------------------------------------------------ */

static wharf_status options_read(const wharf_plan_options *options,
                                 wharf_plan_options *full)
{
    static const wharf_plan_options defaults = WHARF_PLAN_OPTIONS_INIT;
    wharf_status status = WHARF_OK;

    *full = defaults;
    if (options)
        status = wi_versioned_read(full, sizeof *full, options, "options");
    if (status != WHARF_OK)
        return status;
    if ((int)full->placement < 0 ||
        full->placement > WHARF_PLACEMENT_ROUND_ROBIN)
        return wi_fail(WHARF_EARG, NULL, "placement %d does not exist",
                       (int)full->placement);
    if (full->refuse_bad != 0 && full->refuse_bad != 1)
        return wi_fail(WHARF_EARG, "pass 0 or 1", "options.refuse_bad is %d",
                       full->refuse_bad);
    if (full->gpus < 0 || (full->gpus && !full->gpu))
        return wi_fail(WHARF_EARG, NULL, "options.gpus is %d%s", full->gpus,
                       full->gpu ? "" : " and options.gpu is NULL");
    if (full->gpus > WHARF_MAX_GPUS)
        return wi_fail(WHARF_ELIMIT, NULL, "%d GPUs, at most %d", full->gpus,
                       WHARF_MAX_GPUS);
    return WHARF_OK;
}

static bool terminated(const char *text, size_t capacity)
{
    return memchr(text, 0, capacity) != NULL;
}

/* The caller's devices in place of the machine's. */
static wharf_status devices_read(const wharf_topo *topo,
                                 const wharf_plan_options *options,
                                 wi_topo_gpu *gpu)
{
    for (int g = 0; g < options->gpus; g++) {
        const wharf_gpu *from = &options->gpu[g];
        const wharf_gpu *before = g ? from - 1 : NULL;
        int order = 0;
        if (!terminated(from->pci, sizeof from->pci) ||
            !terminated(from->uuid, sizeof from->uuid))
            return wi_fail(WHARF_EARG, NULL, "options.gpu[%d] is no device", g);
        if (before)
            order = wi_pci_compare(before->pci, from->pci);
        if (before &&
            (order > 0 || (!order && strcmp(before->uuid, from->uuid) >= 0)))
            return wi_fail(WHARF_EARG, "sort them by PCI id, then by UUID",
                           "options.gpu[%d] is out of order or double", g);
        wi_device_locate(topo, from->pci, from->uuid, from->mig, &gpu[g]);
    }
    return WHARF_OK;
}

/* Room and facts of one call. */
typedef struct facts {
    wi_topo_gpu gpu[WHARF_MAX_GPUS];
    wi_plan_rank rank[WHARF_MAX_RANKS];
} facts;

static wharf_status facts_fill(const wharf_topo *topo, int ranks,
                               const wharf_binding *bindings,
                               const wharf_plan_options *options, facts *fact,
                               wi_plan_input *input)
{
    wharf_status status = WHARF_OK;
    uint64_t all;

    input->gpus = options->gpus;
    input->gpu = fact->gpu;
    if (options->gpu) {
        status = devices_read(topo, options, fact->gpu);
    } else {
        input->gpus = topo->gpus;
        input->gpu = topo->gpu;
    }
    all = input->gpus < 64 ? (UINT64_C(1) << input->gpus) - 1 : ~UINT64_C(0);
    for (int r = 0; r < ranks && status == WHARF_OK; r++) {
        fact->rank[r].visible = all;
        status =
            bind_rank(topo, r, bindings ? &bindings[r] : NULL, &fact->rank[r]);
    }
    if (status == WHARF_OK && options->visible)
        status = wi_visible_parse(input->gpu, input->gpus, options->visible,
                                  ranks, fact->rank);
    input->topo = topo;
    input->ranks = ranks;
    input->rank = fact->rank;
    input->links = options->links;
    if (!options->links && !options->gpu)
        input->links = topo->links;
    input->traffic = options->traffic;
    input->placement = options->placement;
    input->device_map = options->device_map;
    input->refuse_bad = options->refuse_bad != 0;
    return status;
}

static wharf_status plan_make(const wharf_topo *topo, int ranks,
                              const wharf_binding *bindings,
                              const wharf_plan_options *options,
                              wharf_plan **plan)
{
    wi_plan_input input = {0};
    wharf_plan_options full;
    facts *fact;
    wharf_status status;

    if (!topo || !plan)
        return wi_fail(WHARF_EARG, NULL, "topo or plan is NULL");
    if (ranks < 1)
        return wi_fail(WHARF_EARG, NULL, "ranks is %d", ranks);
    if (ranks > WHARF_MAX_RANKS)
        return wi_fail(WHARF_ELIMIT, NULL, "%d ranks, at most %d", ranks,
                       WHARF_MAX_RANKS);
    status = options_read(options, &full);
    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(fact))
        return WHARF_ENOMEM;
    status = facts_fill(topo, ranks, bindings, &full, fact, &input);
    if (status == WHARF_OK)
        status = wi_plan_make(&input, plan);
    wi_free(fact);
    return status;
}

wharf_status wharf_plan_make(const wharf_topo *topo, int ranks,
                             const wharf_binding *bindings,
                             const wharf_plan_options *options,
                             wharf_plan **plan)
{
    wi_call_begin("wharf_plan_make", -1);
    return wi_call_end(plan_make(topo, ranks, bindings, options, plan));
}
