/* SPDX-License-Identifier: MIT */
/*
 * Which mechanism carries signals between two ranks, and why. Ranks that share
 * a GPU without MPS are time-sliced: a kernel that spins for a peer there holds
 * the GPU for whole slices (2.2 ms each on H200, driver 580), a stream memory
 * operation does not. Between two GPUs one kernel is the fastest.
 */
#include <stdio.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/versioned.h"
#include "core/core.h"
#include "core/signal.h"

uint32_t wi_signal_first_epoch;

static void say(wi_signal_way *way, const char *text)
{
    snprintf(way->reason, sizeof way->reason, "%.95s", text);
}

/* ---- Choice
 * --------------------------------------------------------------------- */

bool wi_signal_atomics(const wi_signal_facts *f)
{
    return !f->words_on_host && (f->same_gpu || f->native);
}

static const char in_host_memory[] =
    "signals lie in host memory, where atomics do not reach";
static const char no_native_atomics[] =
    "no native atomics between the two GPUs";

static bool has_mem_ops(const wi_signal_facts *f)
{
    return f->mem_ops_from && f->mem_ops_to;
}

static void choose_best(const wi_signal_facts *f, wi_signal_way *way)
{
    way->mechanism = WHARF_MECHANISM_KERNEL;
    if (f->same_gpu && !f->mps) {
        way->slow = !has_mem_ops(f);
        say(way, way->slow ? "one GPU without stream memory operations or MPS: "
                             "a wait costs time slices"
                           : "one GPU shared by time slices, which a waiting "
                             "kernel would use up");
    } else if (wi_signal_atomics(f)) {
        say(way, f->same_gpu ? "one GPU under MPS: kernels of both run together"
                             : "two GPUs with native atomics between them");
        return;
    } else {
        say(way, f->words_on_host ? in_host_memory : no_native_atomics);
    }
    if (has_mem_ops(f))
        way->mechanism = WHARF_MECHANISM_MEM_OPS;
}

static wharf_status refuse(wharf_mechanism wanted, const char *why)
{
    return wi_fail(WHARF_EUNSUPPORTED,
                   "leave options.mechanism and WHARF_MECHANISM at auto",
                   "the mechanism %s was asked for: %s",
                   wharf_mechanism_name(wanted), why);
}

static wharf_status choose_wanted(const wi_signal_facts *f,
                                  wharf_mechanism wanted, wi_signal_way *way)
{
    if (wanted == WHARF_MECHANISM_HOST)
        return refuse(wanted, "it is that of the host backend only");
    if (wanted == WHARF_MECHANISM_MEM_OPS && !has_mem_ops(f))
        return refuse(wanted, "a GPU cannot do stream memory operations");
    if (wanted == WHARF_MECHANISM_HYBRID && !f->mem_ops_to)
        return refuse(wanted, "the waiter's GPU cannot do stream memory "
                              "operations");
    if (wanted == WHARF_MECHANISM_HYBRID && !wi_signal_atomics(f))
        return refuse(wanted, "atomics do not reach the other rank's words");
    way->mechanism = wanted;
    way->slow = wanted == WHARF_MECHANISM_KERNEL && f->same_gpu && !f->mps;
    say(way, "asked for");
    return WHARF_OK;
}

wharf_status wi_signal_choose(const wi_signal_facts *f, wharf_mechanism wanted,
                              bool capturable, wi_signal_way *out)
{
    wi_signal_way way = {.mechanism = WHARF_MECHANISM_HOST, .counts = true};
    if (f->host) {
        say(&way, "host backend: shared memory and futexes");
        *out = way;
        return WHARF_OK;
    }
    if (wanted == WHARF_MECHANISM_AUTO) {
        choose_best(f, &way);
    } else {
        wharf_status status = choose_wanted(f, wanted, &way);
        if (status != WHARF_OK)
            return status;
    }
    if (capturable && !wi_signal_atomics(f))
        return wi_fail(WHARF_EUNSUPPORTED, "leave options.capturable out",
                       "signals that stand in a graph need atomics between "
                       "the two ranks: %s",
                       f->words_on_host ? in_host_memory : no_native_atomics);
    if (capturable && way.mechanism == WHARF_MECHANISM_MEM_OPS)
        way.mechanism = WHARF_MECHANISM_HYBRID;
    way.counts =
        wi_signal_atomics(f) && way.mechanism != WHARF_MECHANISM_MEM_OPS;
    *out = way;
    return WHARF_OK;
}

void wi_signal_facts_find(const wharf_node *node, int from, int to,
                          wi_signal_facts *facts)
{
    *facts = (wi_signal_facts){.host = node->backend == WHARF_BACKEND_HOST};
    if (facts->host)
        return;
    int x = node->gpu_of_rank[from], y = node->gpu_of_rank[to];
    const wi_peer *peer =
        &node->peers[(size_t)x * (size_t)node->gpus + (size_t)y];
    facts->same_gpu = x == y;
    facts->native = x != y && peer->reachable && peer->nvlink;
    facts->mps = (node->gpu[x].desc.caps & WI_CAP_MPS) != 0;
    facts->mem_ops_from = (node->gpu[x].desc.caps & WI_CAP_MEM_OPS) != 0;
    facts->mem_ops_to = (node->gpu[y].desc.caps & WI_CAP_MEM_OPS) != 0;
    facts->words_on_host = wi_pad_on_host(node);
}

void wi_signal_tell_slow(wharf_node *node, int from, int to,
                         const wi_signal_way *way)
{
    if (!way->slow || node->slow_told)
        return;
    node->slow_told = true;
    if (node->rank == 0)
        wi_log(
            WI_LOG_WARN,
            "signals from rank %d to rank %d will be slow (mechanism %s): %s",
            from, to, wharf_mechanism_name(way->mechanism), way->reason);
}

wi_sync_how wi_signal_how(wharf_mechanism mechanism)
{
    switch (mechanism) {
    case WHARF_MECHANISM_MEM_OPS:
        return WI_SYNC_MEM_OPS;
    case WHARF_MECHANISM_HYBRID:
        return WI_SYNC_HYBRID;
    default:
        return WI_SYNC_KERNEL;
    }
}

/* ---- What was asked for
 * ---------------------------------------------------------- */

wharf_mechanism wi_signal_wanted(const wharf_node *node,
                                 const wharf_notify_options *options)
{
    return options->mechanism != WHARF_MECHANISM_AUTO
               ? options->mechanism
               : (wharf_mechanism)node->settings.mechanism;
}

wharf_status wi_signal_options(const wharf_notify_options *options,
                               wharf_notify_options *known)
{
    *known = (wharf_notify_options)WHARF_NOTIFY_OPTIONS_INIT;
    if (!options)
        return WHARF_OK;
    wharf_status status =
        wi_versioned_read(known, sizeof *known, options, "options");
    if (status != WHARF_OK)
        return status;
    if ((int)known->mechanism < 0 || known->mechanism > WHARF_MECHANISM_HOST)
        return wi_fail(WHARF_EARG, "see wharf_mechanism",
                       "options.mechanism is %d", (int)known->mechanism);
    if ((int)known->capturable < 0 || known->capturable > WHARF_SWITCH_OFF)
        return wi_fail(WHARF_EARG, "see wharf_switch",
                       "options.capturable is %d", (int)known->capturable);
    return WHARF_OK;
}

/* ---- Public queries
 * -------------------------------------------------------------- */

const char *wharf_mechanism_name(wharf_mechanism mechanism)
{
    switch (mechanism) {
    case WHARF_MECHANISM_AUTO:
        return "auto";
    case WHARF_MECHANISM_KERNEL:
        return "kernel";
    case WHARF_MECHANISM_MEM_OPS:
        return "mem-ops";
    case WHARF_MECHANISM_HYBRID:
        return "hybrid";
    case WHARF_MECHANISM_HOST:
        return "host";
    }
    return "unknown";
}

void wi_signal_way_find(const wharf_node *node, int from, int to,
                        wi_signal_way *way)
{
    wi_signal_facts facts;
    wi_signal_facts_find(node, from, to, &facts);
    wharf_error kept = *wi_error_record();
    if (wi_signal_choose(&facts, (wharf_mechanism)node->settings.mechanism,
                         false, way) == WHARF_OK)
        return;
    *wi_error_record() = kept;
    wharf_ignore(wi_signal_choose(&facts, WHARF_MECHANISM_AUTO, false, way));
}

wharf_status wharf_node_mechanism(const wharf_node *node, int a, int b,
                                  wharf_mechanism *mechanism, char *reason)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK)
        status = wi_node_check_rank(node, "a", a);
    if (status == WHARF_OK)
        status = wi_node_check_rank(node, "b", b);
    if (status == WHARF_OK && !mechanism)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "mechanism is NULL");
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_signal_way way;
    wi_signal_way_find(node, a, b, &way);
    *mechanism = way.mechanism;
    if (reason)
        snprintf(reason, sizeof way.reason, "%s", way.reason);
    return wi_call_end(WHARF_OK);
}
