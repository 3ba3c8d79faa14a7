/* SPDX-License-Identifier: MIT */
/*
 * Who sees which GPU, and which GPU reaches which. A rank's ordinals mean
 * nothing to another rank, so devices are told apart by UUID alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/census.h"

/* ---- Devices ------------------------------------------------------------ */

void wi_census_look(wi_device_desc *devices, wi_sighting *sighting)
{
    int seen = 0, kept = 0;
    wharf_status status =
        wi_device_cuda.enumerate(devices, WHARF_MAX_GPUS, &seen);

    for (int i = 0; status == WHARF_OK && i < seen; i++)
        if (!devices[i].prohibited)
            devices[kept++] = devices[i];
    if (status == WHARF_OK && !kept)
        status = wi_fail(
            WHARF_ENODEV, "set the compute mode to default (nvidia-smi -c 0)",
            "compute mode \"prohibited\" on every GPU seen (%d)", seen);
    *sighting =
        (wi_sighting){.status = status, .count = kept, .dropped = seen - kept};
}

static int desc_order(const void *a, const void *b)
{
    const wi_device_desc *x = a, *y = b;
    int order = strcmp(x->pci, y->pci);
    return order ? order : memcmp(x->uuid, y->uuid, sizeof x->uuid);
}

static int find(const wi_census *c, const wi_device_desc *desc)
{
    for (int d = 0; d < c->count; d++)
        if (memcmp(c->device[d].uuid, desc->uuid, sizeof desc->uuid) == 0)
            return d;
    return -1;
}

static wharf_status add(wi_census *c, const wi_device_desc *seen, int count)
{
    for (int i = 0; i < count; i++) {
        if (find(c, &seen[i]) >= 0)
            continue;
        if (c->count == WHARF_MAX_GPUS)
            return wi_fail(WHARF_ELIMIT, "hide some by CUDA_VISIBLE_DEVICES",
                           "the ranks see more than %d GPUs", WHARF_MAX_GPUS);
        c->device[c->count++] = seen[i];
    }
    return WHARF_OK;
}

static void mark(wi_census *c, int rank, const wi_device_desc *seen, int count,
                 bool self)
{
    for (int i = 0; i < count; i++) {
        int d = find(c, &seen[i]);
        c->rank[rank].visible |= UINT64_C(1) << d;
        if (self)
            c->ordinal[d] = seen[i].ordinal;
    }
}

static void merge(const wharf_node *node, wi_census *c,
                  const wi_device_desc *all, size_t stride,
                  const wi_sighting *sightings)
{
    qsort(c->device, (size_t)c->count, sizeof c->device[0], desc_order);
    for (int d = 0; d < c->count; d++)
        c->ordinal[d] = -1;
    for (int r = 0; r < node->size; r++) {
        c->rank[r].visible = 0;
        mark(c, r, all + (size_t)r * stride, sightings[r].count,
             r == node->rank);
        /* What was dropped is no sign of a list that was cut. */
        if (c->rank[r].listed > 0)
            c->rank[r].listed -= sightings[r].dropped;
    }
}

/* ---- Links -------------------------------------------------------------- */

/* Answers that fit into one round of an exchange. */
#define LINKS_A_ROUND 4

static bool sees(const wi_census *c, int rank, uint64_t devices)
{
    return (c->rank[rank].visible & devices) == devices;
}

static int count_seers(const wi_census *c, int size, uint64_t devices)
{
    int count = 0;
    for (int r = 0; r < size; r++)
        count += sees(c, r, devices);
    return count;
}

/*
 * The rank that asks its driver for a pair: one that sees both, or where none
 * does, one that sees the first (NVML may know the other). Dealt out evenly, so
 * that the work does not grow with the ranks.
 */
static int asker(const wi_census *c, int size, int from, int to)
{
    uint64_t devices = UINT64_C(1) << from | UINT64_C(1) << to;
    int seers = count_seers(c, size, devices);
    if (!seers) {
        devices = UINT64_C(1) << from;
        seers = count_seers(c, size, devices);
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): somebody sees it */
    int turn = (from * c->count + to) % seers;
    for (int r = 0; r < size; r++)
        if (sees(c, r, devices) && turn-- == 0)
            return r;
    return 0;
}

/* Who asks for each pair, and as which of its own questions. */
typedef struct question {
    int16_t rank;
    int16_t number;
} question;

static int deal(const wi_census *c, int size, question *questions)
{
    int16_t asked[WHARF_MAX_RANKS] = {0};
    int most = 0;

    for (int a = 0; a < c->count; a++)
        for (int b = 0; b < c->count; b++) {
            question *q = &questions[a * c->count + b];
            if (a == b) {
                q->rank = -1;
                continue;
            }
            q->rank = (int16_t)asker(c, size, a, b);
            q->number = asked[q->rank]++;
            if (asked[q->rank] > most)
                most = asked[q->rank];
        }
    return most;
}

static void ask(const wi_census *c, const question *questions, int rank,
                int first, wi_peer *answers)
{
    for (int p = 0; p < c->count * c->count; p++) {
        int at = questions[p].number - first;
        if (questions[p].rank == rank && at >= 0 && at < LINKS_A_ROUND)
            wi_device_cuda.link(&c->device[p / c->count],
                                &c->device[p % c->count], &answers[at]);
    }
}

static void collect(wi_census *c, const question *questions, int first,
                    const wi_peer *all)
{
    for (int p = 0; p < c->count * c->count; p++) {
        int at = questions[p].number - first;
        if (questions[p].rank >= 0 && at >= 0 && at < LINKS_A_ROUND)
            c->link[p] = all[questions[p].rank * LINKS_A_ROUND + at];
    }
}

/* Collective: every pair is asked for once, and all ranks get all answers. */
static wharf_status links_take(wharf_node *node, wi_census *c,
                               wi_deadline deadline)
{
    size_t pairs = (size_t)c->count * (size_t)c->count;
    question *questions = wi_calloc(pairs, sizeof *questions);
    wi_peer *all = wi_calloc((size_t)node->size * LINKS_A_ROUND, sizeof *all);
    c->link = wi_calloc(pairs, sizeof *c->link);

    wharf_status status = questions && all && c->link ? WHARF_OK : WHARF_ENOMEM;
    status = wi_comm_agree(node->comm, status, deadline);
    int most = status == WHARF_OK ? deal(c, node->size, questions) : 0;
    for (int first = 0; first < most && status == WHARF_OK;
         first += LINKS_A_ROUND) {
        wi_peer mine[LINKS_A_ROUND] = {0};
        ask(c, questions, node->rank, first, mine);
        status =
            wi_comm_allgather(node->comm, mine, sizeof mine, all, deadline);
        if (status == WHARF_OK)
            collect(c, questions, first, all);
    }
    wi_free(questions);
    wi_free(all);
    return status;
}

/* ---- The whole ---------------------------------------------------------- */

wharf_status wi_census_take(wharf_node *node, wi_census *c,
                            const wi_device_desc *mine,
                            const wi_sighting *sightings, int most,
                            wi_deadline deadline)
{
    size_t stride = (size_t)most;
    wi_device_desc *all = wi_calloc((size_t)node->size * stride, sizeof *all);
    c->rank = wi_calloc((size_t)node->size, sizeof *c->rank);
    wi_topo_rank self;
    wi_topo_rank_self(&self);

    wharf_status status = all && c->rank ? WHARF_OK : WHARF_ENOMEM;
    status = wi_comm_agree(node->comm, status, deadline);
    if (status == WHARF_OK)
        status = wi_comm_allgather(node->comm, mine, stride * sizeof *mine, all,
                                   deadline);
    if (status == WHARF_OK)
        status = wi_comm_allgather(node->comm, &self, sizeof self, c->rank,
                                   deadline);
    for (int r = 0; r < node->size && status == WHARF_OK; r++)
        status = wi_decided_alike(
            add(c, all + (size_t)r * stride, sightings[r].count));
    if (status == WHARF_OK) {
        merge(node, c, all, stride, sightings);
        status = links_take(node, c, deadline);
    }
    wi_free(all);
    return status;
}

void wi_census_free(wi_census *census)
{
    if (!census)
        return;
    wi_free(census->rank);
    wi_free(census->link);
    wi_free(census);
}
