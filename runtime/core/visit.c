/* SPDX-License-Identifier: MIT */
/* A guest's node: begun with an offer, extended by others, ended alone. */
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "core/visit_wire.h"

struct wi_visit {
    uint64_t mark; /* of the lender's node */
    bool read_only;
    bool held; /* by a worker: ends with it */
    int count;
    size_t room;
    wharf_buffer **buffer;
};

wharf_status wi_visit_refuse(const wharf_node *node, const char *what)
{
    if (!wi_node_is_guest(node))
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "leave it to the ranks of the node",
                   "this process is a guest of rank %d's node: %s are for the "
                   "node's ranks",
                   node->rank, what);
}

/* ---- Devices ------------------------------------------------------------- */

/* Which of the node's GPUs this process sees, and as which ordinal. */
static wharf_status find_gpus(wharf_node *node, wi_device_desc *own)
{
    wi_device_desc *seen = wi_calloc(WHARF_MAX_GPUS, sizeof *seen);
    int count = 0;
    wharf_status status = seen ? WHARF_OK : WHARF_ENOMEM;
    if (status == WHARF_OK)
        status = wi_device_cuda.enumerate(seen, WHARF_MAX_GPUS, &count);
    int mine = node->gpu_of_rank[node->rank];
    bool found = false;
    for (int i = 0; i < count && status == WHARF_OK; i++)
        for (int g = 0; g < node->gpus; g++) {
            if (memcmp(seen[i].uuid, node->gpu[g].desc.uuid,
                       sizeof seen[i].uuid) != 0)
                continue;
            node->gpu[g].desc.ordinal = seen[i].ordinal;
            if (g != mine)
                continue;
            *own = seen[i];
            found = true;
        }
    wi_free(seen);
    if (status != WHARF_OK || found)
        return status;
    char uuid[48];
    wi_uuid_format(&node->gpu[mine].desc, uuid);
    return wi_fail(WHARF_ENODEV,
                   "let this process see the GPU (CUDA_VISIBLE_DEVICES, "
                   "control groups)",
                   "rank %d's GPU %s (%s) is none of the %d that this process "
                   "sees",
                   node->rank, uuid, node->gpu[mine].desc.pci, count);
}

const wi_way *wi_visit_way(wharf_node *node, wharf_handle_kind kind)
{
    for (int w = 0; w < node->device_ways; w++)
        if (node->device_way[w].ops->kind == kind)
            return &node->device_way[w];
    if (node->device_ways == WI_WAYS)
        return NULL;
    wi_way *way = &node->device_way[node->device_ways];
    way->ops = node->device->ops->memory(node->device, kind, way->reason);
    if (!way->ops)
        return NULL;
    way->granularity = way->ops->granularity(node->device);
    memcpy(way->reason, "as lent", sizeof "as lent");
    node->device_ways++;
    return way;
}

/* Fabric handles cost more to try than the others: when they come. */
static void find_ways(wharf_node *node)
{
    const wharf_handle_kind kinds[] = {WHARF_HANDLE_VMM, WHARF_HANDLE_IPC,
                                       WHARF_HANDLE_MEMFD,
                                       WHARF_HANDLE_HOST_VMM};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const wi_way *way = wi_visit_way(node, kinds[k]);
        if (way && kinds[k] == WHARF_HANDLE_MEMFD)
            node->host_way = *way;
    }
}

/* How this process copies is its own affair: its environment's. */
static wharf_status copies_prepare(wharf_node *node)
{
    const struct {
        wi_setting id;
        int64_t *to;
    } numbers[] = {
        {WI_SETTING_COPY, &node->settings.copy},
        {WI_SETTING_COPY_KERNEL_MOST, &node->settings.copy_kernel_most},
        {WI_SETTING_COPY_BLOCKS, &node->settings.copy_blocks},
    };
    wharf_status status = WHARF_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (status == WHARF_OK)
            status = wi_config_number(numbers[i].id, numbers[i].to, NULL);
    return status == WHARF_OK ? wi_copy_open(node) : status;
}

static wharf_status open_device(wharf_node *node, const wi_visit_wish *wish)
{
    const wi_device_ops *ops =
        node->backend == WHARF_BACKEND_CUDA ? &wi_device_cuda : &wi_device_host;
    wi_device_desc own;
    int count;
    wharf_status status = node->backend == WHARF_BACKEND_CUDA
                              ? find_gpus(node, &own)
                              : ops->enumerate(&own, 1, &count);
    if (status == WHARF_OK)
        status = ops->open(&own, &node->device);
    if (status == WHARF_OK)
        status = copies_prepare(node);
    if (status == WHARF_OK && !wish->keep_current)
        status = ops->make_current(node->device);
    if (status == WHARF_OK)
        find_ways(node);
    return status;
}

/* ---- Buffers ------------------------------------------------------------- */

static wharf_status room_for(wi_visit *visit, int more)
{
    if (more < 0 || more > WI_VISIT_BUFFERS - visit->count)
        return wi_visit_nonsense("buffers", more);
    size_t count = (size_t)visit->count;
    wharf_buffer **grown = wi_grow(visit->buffer, &visit->room, count,
                                   count + (size_t)more, sizeof *grown);
    if (!grown)
        return WHARF_ENOMEM;
    visit->buffer = grown;
    return WHARF_OK;
}

/* All buffers of a description, or none. */
static wharf_status read_buffers(wi_bundle_cursor *cursor,
                                 const wi_wire_head *head, wharf_node *node)
{
    wi_visit *visit = node->visit;
    int before = visit->count;
    wharf_status status = room_for(visit, head->buffers);
    for (int i = 0; i < head->buffers && status == WHARF_OK; i++) {
        status = wi_visit_read_buffer(cursor, node, visit->read_only,
                                      &visit->buffer[visit->count]);
        visit->count += status == WHARF_OK;
    }
    if (status == WHARF_OK && (cursor->at != cursor->bundle->length ||
                               cursor->fd != cursor->bundle->count))
        status = wi_visit_nonsense("more follows byte", (long long)cursor->at);
    if (status == WHARF_OK)
        return WHARF_OK;
    wharf_error cause = *wi_error_record();
    while (visit->count > before)
        wi_visit_drop_buffer(visit->buffer[--visit->count]);
    *wi_error_record() = cause;
    return status;
}

static wharf_status read_head(wi_bundle_cursor *cursor, wi_wire_head *head)
{
    wharf_status status = wi_bundle_take(cursor, head, sizeof *head, 1);
    if (status != WHARF_OK)
        return status;
    if (head->magic != WI_VISIT_MAGIC)
        return wi_visit_nonsense("a mark", head->magic);
    if (head->version != WHARF_VERSION_NUMBER)
        return wi_fail(WHARF_EPROTOCOL,
                       "run the same version of Wharf on both sides",
                       "the lender runs Wharf %u, this process %d",
                       head->version, WHARF_VERSION_NUMBER);
    if (head->fds != cursor->bundle->count)
        return wi_visit_nonsense("descriptors missing of", head->fds);
    return WHARF_OK;
}

/* ---- Begin, add, end ----------------------------------------------------- */

static wharf_status choose_rank(wharf_node *node, const wi_visit_wish *wish)
{
    if (!wish->other_rank)
        return WHARF_OK;
    if (wish->rank < 0 || wish->rank >= node->size)
        return wi_fail(WHARF_EARG, "name a rank of the node",
                       "rank %d was asked for, the node has ranks 0 to %d",
                       wish->rank, node->size - 1);
    node->rank = wish->rank;
    return WHARF_OK;
}

static void guest_delete(wharf_node *node)
{
    wi_visit *visit = node->visit;
    if (node->device && visit->count > 0)
        wharf_ignore(node->device->ops->quiesce(node->device));
    while (visit->count > 0)
        wi_visit_drop_buffer(visit->buffer[--visit->count]);
    wi_free(visit->buffer);
    wi_free(visit);
    wi_node_delete(node);
}

static wharf_status begin(wi_bundle *bundle, const wi_visit_wish *wish,
                          wharf_node **out)
{
    wi_bundle_cursor cursor = {.bundle = bundle};
    wi_wire_head head;
    wharf_node *node;
    wharf_status status = read_head(&cursor, &head);
    if (status != WHARF_OK)
        return status;
    if (!WI_NEW(node))
        return WHARF_ENOMEM;
    pthread_mutex_init(&node->collective, NULL);
    if (!WI_NEW(node->visit)) {
        wi_node_delete(node);
        return WHARF_ENOMEM;
    }
    node->visit->mark = head.node;
    node->visit->read_only = wish->read_only;
    status = wi_handle_add(node, WI_HANDLE_NODE);
    if (status == WHARF_OK)
        status = wi_visit_read_node(&cursor, &head, node);
    if (status == WHARF_OK)
        status = choose_rank(node, wish);
    if (status == WHARF_OK)
        status = open_device(node, wish);
    if (status == WHARF_OK)
        status = read_buffers(&cursor, &head, node);
    if (status != WHARF_OK) {
        wharf_error cause = *wi_error_record();
        guest_delete(node);
        *wi_error_record() = cause;
        return status;
    }
    wi_stat_add(WI_STAT_live_nodes, 1);
    *out = node;
    return WHARF_OK;
}

wharf_status wi_visit_begin(int socket, const wi_visit_wish *wish,
                            wi_deadline deadline, wharf_node **node)
{
    static const wi_visit_wish none;
    wi_bundle bundle = {0};
    wharf_status status = wi_config_check();
    if (status == WHARF_OK)
        status = wi_bundle_receive(&bundle, socket, deadline);
    if (status == WHARF_OK)
        status = begin(&bundle, wish ? wish : &none, node);
    wi_bundle_clear(&bundle);
    return status;
}

/* What further offers say of the node was taken with the first. */
static wharf_status skip_node(wi_bundle_cursor *cursor,
                              const wi_wire_head *head, const wharf_node *node)
{
    if (head->node != node->visit->mark || head->size != node->size ||
        head->gpus != node->gpus)
        return wi_fail(WHARF_EARG, "visit the other node by itself",
                       "an offer of another node came");
    wharf_node spare = {0};
    wharf_status status = wi_visit_read_node(cursor, head, &spare);
    wi_free(spare.gpu);
    wi_free(spare.peers);
    wi_free(spare.gpu_of_rank);
    wi_free(spare.lines);
    return status;
}

wharf_status wi_visit_add(wharf_node *node, int socket, wi_deadline deadline)
{
    wi_bundle bundle = {0};
    wi_bundle_cursor cursor = {.bundle = &bundle};
    wi_wire_head head;
    wharf_status status = wi_bundle_receive(&bundle, socket, deadline);
    if (status == WHARF_OK)
        status = read_head(&cursor, &head);
    if (status == WHARF_OK)
        status = skip_node(&cursor, &head, node);
    if (status == WHARF_OK)
        status = read_buffers(&cursor, &head, node);
    wi_bundle_clear(&bundle);
    return status;
}

int wi_visit_buffers(const wharf_node *node)
{
    return node->visit ? node->visit->count : 0;
}

wharf_buffer *wi_visit_buffer(const wharf_node *node, int index)
{
    if (!node->visit || index < 0 || index >= node->visit->count)
        return NULL;
    return node->visit->buffer[index];
}

void wi_visit_hold(wharf_node *node, bool held)
{
    node->visit->held = held;
}

bool wi_visit_held(const wharf_node *node)
{
    return node->visit && node->visit->held;
}

void wi_visit_end(wharf_node **node)
{
    if (!*node)
        return;
    guest_delete(*node);
    *node = NULL;
    wi_stat_add(WI_STAT_live_nodes, -1);
}
