/* SPDX-License-Identifier: MIT */
/* What can be asked of an exchange: ways, reasons, bytes. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/versioned.h"
#include "core/exchange.h"

wharf_status wi_exchange_enter(const char *call, const wharf_exchange *x)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(x, WI_HANDLE_EXCHANGE, "exchange");
    if (status == WHARF_OK)
        wi_call_set_rank(x->node->rank);
    return status;
}

static const wi_exchange_peer *peer_of(const wharf_exchange *x, int node_rank)
{
    for (int p = 0; p < x->peers; p++)
        if (x->peer[p].node_rank == node_rank)
            return &x->peer[p];
    return NULL;
}

static bool sends_bytes(const wharf_exchange_info *info, int sets)
{
    for (int s = 0; s < sets; s++)
        if (info->send_bytes[s])
            return true;
    return false;
}

static void reason_local(const wharf_exchange *x, const wi_exchange_peer *peer,
                         wharf_exchange_info *info)
{
    const char *ready = !peer->waits ? "sets and answers make it unnecessary"
                        : x->forced  ? "asked for"
                        : x->sets < 2
                            ? "one set: the receiver may still be reading"
                            : "the peer sends nothing back";
    snprintf(info->reason, sizeof info->reason, "%.40s; ready: %.45s",
             peer->to.reason, ready);
}

static void fill_local(const wharf_exchange *x, const wi_exchange_item *item,
                       wharf_exchange_info *info)
{
    bool host = x->node->backend == WHARF_BACKEND_HOST;
    const wi_exchange_peer *peer = peer_of(x, item->node_rank);
    if (item->node_rank == x->node->rank) {
        info->way = host ? WHARF_EXCHANGE_HOST : WHARF_EXCHANGE_LOCAL;
        strcpy(info->reason, "the rank is its own neighbour");
        return;
    }
    info->way = host ? WHARF_EXCHANGE_HOST : WHARF_EXCHANGE_KERNEL;
    if (!host && wi_exchange_by_engine(x, item))
        info->way = WHARF_EXCHANGE_ENGINE;
    if (!peer)
        return;
    info->mechanism = peer->to.mechanism;
    info->ready = peer->waits;
    reason_local(x, peer, info);
}

static wharf_status fill(const wharf_exchange *x, int index,
                         wharf_exchange_info *info)
{
    const wi_exchange_item *item = &x->item[index];
    info->peer = item->peer;
    info->node_rank = item->node_rank;
    info->send_id = item->send_id;
    info->receive_id = item->receive_id;
    info->path = WHARF_PATH_HOST;
    for (int s = 0; s < x->sets; s++) {
        info->send_bytes[s] = wi_exchange_bytes(&item->send[s]);
        info->receive_bytes[s] = wi_exchange_bytes(&item->receive[s]);
    }
    if (item->node_rank >= 0) {
        wharf_link link = {.struct_size = sizeof link};
        wharf_status status =
            wharf_node_link(x->node, x->node->rank, item->node_rank, &link);
        if (status != WHARF_OK)
            return status;
        info->path = link.path;
        fill_local(x, item, info);
    } else if (item->peer == MPI_PROC_NULL) {
        strcpy(info->reason, "no neighbour");
    } else {
        wi_exchange_far_info(x, info);
    }
    if (!sends_bytes(info, x->sets))
        info->way = WHARF_EXCHANGE_NOTHING;
    return WHARF_OK;
}

wharf_status wharf_exchange_info_get(const wharf_exchange *exchange, int index,
                                     wharf_exchange_info *info)
{
    wharf_exchange_info found = {.struct_size = sizeof found};
    wharf_status status = wi_exchange_enter(__func__, exchange);
    if (status == WHARF_OK && (index < 0 || index >= exchange->items))
        status = wi_fail(WHARF_EARG, "pass 0 to transfers - 1",
                         "index is %d, the exchange has %d transfers here",
                         index, exchange->items);
    if (status == WHARF_OK)
        status = fill(exchange, index, &found);
    if (status == WHARF_OK)
        status = wi_versioned_write(info, &found, sizeof found, "info");
    return wi_call_end(status);
}

wharf_status wharf_exchange_plan_get(const wharf_exchange *exchange,
                                     wharf_exchange_plan *plan)
{
    wharf_exchange_plan found = {.struct_size = sizeof found};
    wharf_status status = wi_exchange_enter(__func__, exchange);
    if (status != WHARF_OK)
        return wi_call_end(status);
    found.transfers = exchange->items;
    found.sets = exchange->sets;
    found.next_set = (int)((exchange->round + (uint64_t)exchange->started) %
                           (uint64_t)exchange->sets);
    found.local_peers = exchange->peers;
    for (int p = 0; p < exchange->peers; p++)
        found.ready_pairs += exchange->peer[p].waits;
    wi_exchange_far_plan(exchange, &found);
    if (exchange->node->backend != WHARF_BACKEND_HOST) {
        wharf_error kept = *wi_error_record();
        found.capturable = wi_exchange_stream_capturable(exchange) == WHARF_OK;
        *wi_error_record() = kept;
    }
    return wi_call_end(wi_versioned_write(plan, &found, sizeof found, "plan"));
}

const char *wharf_exchange_way_name(wharf_exchange_way way)
{
    switch (way) {
    case WHARF_EXCHANGE_NOTHING:
        return "nothing";
    case WHARF_EXCHANGE_LOCAL:
        return "local";
    case WHARF_EXCHANGE_KERNEL:
        return "kernel";
    case WHARF_EXCHANGE_ENGINE:
        return "engine";
    case WHARF_EXCHANGE_HOST:
        return "host";
    case WHARF_EXCHANGE_MPI:
        return "mpi";
    case WHARF_EXCHANGE_MPI_STAGED:
        return "mpi-staged";
    }
    return "unknown";
}
