/* SPDX-License-Identifier: MIT */
/*
 * From the census to the plan: node rank 0 plans, so that the topology is
 * loaded once a node; everybody gets the lines, and their digest is compared.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/census.h"

void wi_uuid_format(const wi_device_desc *desc, char text[48])
{
    const unsigned char *u = desc->uuid;
    snprintf(text, 48,
             "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
             "%02x%02x%02x%02x%02x%02x",
             desc->mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5],
             u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

/* ---- Planning ----------------------------------------------------------- */

/* As the planner weighs pairs. */
static int32_t weight_of(const wi_peer *peer)
{
    if (!peer->known && !peer->nvlinks)
        return -1;
    if (!peer->reachable)
        return 0;
    if (peer->nvlinks)
        return 1 + peer->nvlinks;
    return peer->nvlink ? 2 : 1;
}

static wharf_status plan_here(wharf_node *node, const wi_census *c)
{
    wi_topo_device device[WHARF_MAX_GPUS] = {0};
    size_t pairs = (size_t)c->count * (size_t)c->count;
    int32_t *links = wi_calloc(pairs, sizeof *links);
    wi_topo_ask ask = {
        .ranks = node->size,
        .rank = c->rank,
        .devices = c->count,
        .device = device,
        .links = links,
        .placement = (wharf_placement)node->settings.placement,
        .device_map = node->settings.device_map,
        .refuse_bad = node->settings.refuse_bad != 0,
    };

    if (!links)
        return WHARF_ENOMEM;
    for (size_t p = 0; p < pairs; p++)
        links[p] = weight_of(&c->link[p]);
    for (int d = 0; d < c->count; d++) {
        wi_uuid_format(&c->device[d], device[d].uuid);
        memcpy(device[d].pci, c->device[d].pci, sizeof device[d].pci);
        device[d].mig = c->device[d].mig;
    }
    wharf_status status = wi_topo_plan_node(&ask, node->lines, node->warnings,
                                            sizeof node->warnings);
    wi_free(links);
    return status;
}

/* ---- Sending it --------------------------------------------------------- */

/* Most lines give one of a few reasons: each travels once. */
typedef struct packed_line {
    int16_t device;
    int16_t reason;
    int32_t distance;
} packed_line;

typedef struct packed_head {
    uint32_t reasons;
    uint32_t warning_bytes;
} packed_head;

typedef struct packed {
    packed_head head;
    size_t bytes;
    unsigned char *at; /* lines, reasons, warnings */
} packed;

static void pack(const wharf_node *node, packed *p)
{
    packed_line *line = (packed_line *)p->at;
    char(*reason)[96] = (char(*)[96])(line + node->size);
    uint32_t reasons = 0;

    for (int r = 0; r < node->size; r++) {
        const wi_topo_line *from = &node->lines[r];
        uint32_t i = 0;
        while (i < reasons && strcmp(reason[i], from->reason) != 0)
            i++;
        if (i == reasons)
            memcpy(reason[reasons++], from->reason, sizeof *reason);
        line[r] = (packed_line){.device = (int16_t)from->device,
                                .reason = (int16_t)i,
                                .distance = from->distance};
    }
    p->head.reasons = reasons;
    p->head.warning_bytes = (uint32_t)strlen(node->warnings) + 1;
    memcpy(reason + reasons, node->warnings, p->head.warning_bytes);
}

static void unpack(const packed *p, wharf_node *node)
{
    const packed_line *line = (const packed_line *)p->at;
    const char(*reason)[96] = (const char(*)[96])(line + node->size);

    for (int r = 0; r < node->size; r++) {
        node->lines[r].device = line[r].device;
        node->lines[r].distance = line[r].distance;
        memcpy(node->lines[r].reason, reason[line[r].reason], sizeof *reason);
    }
    memcpy(node->warnings, reason + p->head.reasons, p->head.warning_bytes);
}

/* Collective: rank 0's lines and warnings to everybody. */
static wharf_status send_plan(wharf_node *node, wi_deadline deadline)
{
    size_t lines = (size_t)node->size * sizeof(packed_line);
    size_t room = lines + (size_t)node->size * 96 + sizeof node->warnings;
    packed p = {.at = wi_calloc(room, 1)};
    wharf_status status =
        wi_comm_agree(node->comm, p.at ? WHARF_OK : WHARF_ENOMEM, deadline);

    if (status == WHARF_OK && node->rank == 0)
        pack(node, &p);
    if (status == WHARF_OK)
        status = wi_comm_bcast(node->comm, 0, &p.head, sizeof p.head, deadline);
    p.bytes = lines + (size_t)p.head.reasons * 96 + p.head.warning_bytes;
    if (status == WHARF_OK)
        status = wi_comm_bcast(node->comm, 0, p.at, p.bytes, deadline);
    if (status == WHARF_OK)
        unpack(&p, node);
    wi_free(p.at);
    return status;
}

wharf_status wi_digests_compare(const uint64_t *digests, int size)
{
    for (int r = 1; r < size; r++)
        if (digests[r] != digests[0]) {
            wi_fail(WHARF_EPROTOCOL, "let all ranks load the same libwharf",
                    "rank %d holds another plan than rank 0: "
                    "digest %016llx, not %016llx",
                    r, (unsigned long long)digests[r],
                    (unsigned long long)digests[0]);
            return wi_error_about(r);
        }
    return WHARF_OK;
}

static wharf_status check_digest(wharf_node *node, wi_deadline deadline)
{
    uint64_t all[WHARF_MAX_RANKS];
    uint64_t mine = wi_topo_digest(node->size, node->lines);
    wharf_status status =
        wi_comm_allgather(node->comm, &mine, sizeof mine, all, deadline);
    return status == WHARF_OK ? wi_digests_compare(all, node->size) : status;
}

/* ---- Adopting it -------------------------------------------------------- */

static wharf_status without_gpu(const wharf_node *node, int rank)
{
    wi_fail(WHARF_ENODEV, "give it a GPU, or use WHARF_BACKEND=host",
            "rank %d was given no GPU: %s", rank, node->lines[rank].reason);
    return wi_error_about(rank);
}

/* GPUs that got ranks, renumbered in PCI order; the lowest rank owns. */
static wharf_status adopt(wharf_node *node, const wi_census *c)
{
    int from[WHARF_MAX_GPUS], index[WHARF_MAX_GPUS];
    bool used[WHARF_MAX_GPUS] = {false};
    int gpus = 0;

    for (int r = 0; r < node->size; r++) {
        if (node->lines[r].device < 0)
            return without_gpu(node, r);
        used[node->lines[r].device] = true;
    }
    for (int d = 0; d < c->count; d++)
        if (used[d]) {
            index[d] = gpus;
            from[gpus++] = d;
        }
    node->gpu = wi_calloc((size_t)gpus, sizeof *node->gpu);
    node->peers = wi_calloc((size_t)gpus * (size_t)gpus, sizeof *node->peers);
    if (!node->gpu || !node->peers)
        return WHARF_ENOMEM;
    node->gpus = gpus;
    for (int g = 0; g < gpus; g++) {
        node->gpu[g].desc = c->device[from[g]];
        node->gpu[g].desc.ordinal = c->ordinal[from[g]];
        for (int h = 0; h < gpus; h++)
            node->peers[g * gpus + h] = c->link[from[g] * c->count + from[h]];
    }
    for (int r = 0; r < node->size; r++) {
        node->gpu_of_rank[r] = index[node->lines[r].device];
        wi_gpu *gpu = &node->gpu[node->gpu_of_rank[r]];
        if (gpu->users++ == 0)
            gpu->owner = r;
    }
    return WHARF_OK;
}

/* The driver would refuse the second rank's context, with words that do not
 * tell who has the first. Under MPS the server is the one process. */
static wharf_status check_exclusive(const wharf_node *node)
{
    for (int g = 0; g < node->gpus; g++) {
        const wi_gpu *gpu = &node->gpu[g];
        int second = gpu->owner + 1;

        if (!gpu->desc.exclusive || gpu->desc.caps & WI_CAP_MPS ||
            gpu->users < 2)
            continue;
        while (node->gpu_of_rank[second] != g)
            second++;
        return wi_decided_alike(
            wi_fail(WHARF_ENODEV, "one rank a GPU, MPS, or nvidia-smi -c 0",
                    "GPU %d (%s) is in compute mode \"exclusive process\" and "
                    "would have to serve %d ranks, %d and %d among them: %d "
                    "ranks, %d GPUs",
                    g, gpu->desc.pci, gpu->users, gpu->owner, second,
                    node->size, node->gpus));
    }
    return WHARF_OK;
}

wharf_status wi_node_plan(wharf_node *node, const wi_census *c,
                          wi_deadline deadline)
{
    wharf_status status = node->rank == 0 ? plan_here(node, c) : WHARF_OK;
    status = wi_comm_agree(node->comm, status, deadline);
    if (status == WHARF_OK)
        status = send_plan(node, deadline);
    if (status == WHARF_OK)
        status = check_digest(node, deadline);
    if (status == WHARF_OK)
        status = wi_comm_agree(node->comm, adopt(node, c), deadline);
    if (status == WHARF_OK)
        status = check_exclusive(node);
    if (status == WHARF_OK && node->rank == 0 && node->warnings[0])
        wi_log(WI_LOG_INFO, "placement: %s", node->warnings);
    return status;
}
