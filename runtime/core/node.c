/* SPDX-License-Identifier: MIT */
/* wharf_node_open and wharf_node_close. */
#include "wharf/node.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/config.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/versioned.h"
#include "core/core.h"
#include "core/ring.h"
#include "core/signal.h"
#include "core/visit.h"
#include "core/worker.h"

wi_deadline wi_node_deadline(const wharf_node *node)
{
    return wi_deadline_in_ms(node->settings.timeout_ms);
}

wharf_status wi_node_enter(const char *call, wharf_node *node)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(node, WI_HANDLE_NODE, "node");
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_call_set_rank(node->rank);
    status = wi_visit_refuse(node, "collective calls");
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&node->collective);
    return WHARF_OK;
}

wharf_status wi_node_leave(wharf_node *node, wharf_status status)
{
    pthread_mutex_unlock(&node->collective);
    return wi_call_end(status);
}

/* ---- Settings ------------------------------------------------------------ */

static wharf_status read_environment(wi_node_settings *s)
{
    const struct {
        wi_setting id;
        int64_t *to;
    } numbers[] = {
        {WI_SETTING_BACKEND, &s->backend},
        {WI_SETTING_PLACEMENT, &s->placement},
        {WI_SETTING_TIMEOUT_MS, &s->timeout_ms},
        {WI_SETTING_STRICT, &s->strict},
        {WI_SETTING_KEEP_CURRENT, &s->keep_current},
        {WI_SETTING_BIND, &s->bind},
        {WI_SETTING_REFUSE_BAD, &s->refuse_bad},
        {WI_SETTING_POOL, &s->pool},
        {WI_SETTING_POOL_BYTES, &s->pool_bytes},
        {WI_SETTING_HANDLE, &s->handle},
        {WI_SETTING_CHUNK_BYTES, &s->chunk_bytes},
        {WI_SETTING_MECHANISM, &s->mechanism},
        {WI_SETTING_COPY, &s->copy},
        {WI_SETTING_COPY_KERNEL_MOST, &s->copy_kernel_most},
        {WI_SETTING_COPY_BLOCKS, &s->copy_blocks},
        {WI_SETTING_CHECK_RACES, &s->check_races},
        {WI_SETTING_HOST_MEMORY, &s->host_memory},
        {WI_SETTING_EXCHANGE_PIECE, &s->exchange_piece},
        {WI_SETTING_EXCHANGE_REMOTE, &s->exchange_remote},
        {WI_SETTING_CUDA_AWARE, &s->cuda_aware},
    };
    wharf_status status = wi_config_check();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (status == WHARF_OK)
            status = wi_config_number(numbers[i].id, numbers[i].to, NULL);
    return status;
}

static wharf_status set_map(wi_node_settings *s, const char *map,
                            const char *whence)
{
    if (strlen(map) >= sizeof s->device_map)
        return wi_fail(WHARF_EARG, "name GPUs by index to keep it short",
                       "%s has %zu bytes; the most is %zu", whence, strlen(map),
                       sizeof s->device_map - 1);
    strcpy(s->device_map, map);
    return WHARF_OK;
}

static void set_switch(int64_t *to, wharf_switch value)
{
    if (value != WHARF_SWITCH_UNSET)
        *to = value == WHARF_SWITCH_ON;
}

static wharf_status check_options(const wharf_node_options *o)
{
    const struct {
        const char *name;
        long value, most;
    } fields[] = {
        {"backend", (long)o->backend, WHARF_BACKEND_HOST},
        {"placement", (long)o->placement, WHARF_PLACEMENT_ROUND_ROBIN},
        {"timeout_ms", o->timeout_ms, 86400000},
        {"strict", (long)o->strict, WHARF_SWITCH_OFF},
        {"keep_current", (long)o->keep_current, WHARF_SWITCH_OFF},
        {"pool", (long)o->pool, WHARF_SWITCH_OFF},
        {"bind", (long)o->bind, WHARF_SWITCH_OFF},
        {"refuse_bad", (long)o->refuse_bad, WHARF_SWITCH_OFF},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 0 || fields[i].value > fields[i].most)
            return wi_fail(WHARF_EARG, "see wharf_node_options",
                           "options.%s is %ld, not in 0 to %ld", fields[i].name,
                           fields[i].value, fields[i].most);
    return WHARF_OK;
}

static wharf_status read_settings(const wharf_node_options *options,
                                  wi_node_settings *s)
{
    wharf_node_options known = WHARF_NODE_OPTIONS_INIT;
    const wharf_node_options *o = &known;
    wharf_status status = read_environment(s);
    if (status == WHARF_OK)
        status = set_map(s, wi_config_text(WI_SETTING_DEVICE_MAP),
                         "WHARF_DEVICE_MAP");
    if (status != WHARF_OK || !options)
        return status;
    status = wi_versioned_read(&known, sizeof known, options, "options");
    if (status == WHARF_OK)
        status = check_options(o);
    if (status == WHARF_OK && o->device_map)
        status = set_map(s, o->device_map, "options.device_map");
    if (status != WHARF_OK)
        return status;
    if (o->backend != WHARF_BACKEND_AUTO)
        s->backend = o->backend;
    if (o->placement != WHARF_PLACEMENT_AUTO)
        s->placement = o->placement;
    if (o->timeout_ms)
        s->timeout_ms = o->timeout_ms;
    set_switch(&s->strict, o->strict);
    set_switch(&s->keep_current, o->keep_current);
    set_switch(&s->bind, o->bind);
    set_switch(&s->refuse_bad, o->refuse_bad);
    set_switch(&s->pool, o->pool);
    if (o->pool_bytes)
        s->pool_bytes = (int64_t)o->pool_bytes;
    return WHARF_OK;
}

/* ---- Agreement on settings
 * --------------------------------------------------- */

static wharf_status differ(int rank, const char *what, int64_t has,
                           int64_t first)
{
    wi_fail(WHARF_EMISMATCH,
            "pass the same options and environment on every rank",
            "rank %d has %s %lld, rank 0 has %lld", rank, what, (long long)has,
            (long long)first);
    return wi_error_about(rank);
}

static wharf_status compare_settings(const wi_node_settings *all, int size)
{
    const wi_node_settings *a = &all[0];
    for (int r = 1; r < size; r++) {
        const wi_node_settings *b = &all[r];
        const struct {
            const char *name;
            int64_t has, first;
        } fields[] = {
            {"backend", b->backend, a->backend},
            {"placement", b->placement, a->placement},
            {"timeout_ms", b->timeout_ms, a->timeout_ms},
            {"strict", b->strict, a->strict},
            {"bind", b->bind, a->bind},
            {"refuse_bad", b->refuse_bad, a->refuse_bad},
            {"pool", b->pool, a->pool},
            {"pool_bytes", b->pool_bytes, a->pool_bytes},
            {"WHARF_HANDLE", b->handle, a->handle},
            {"WHARF_CHUNK_BYTES", b->chunk_bytes, a->chunk_bytes},
            {"WHARF_MECHANISM", b->mechanism, a->mechanism},
            {"WHARF_CHECK_RACES", b->check_races, a->check_races},
            {"WHARF_HOST_MEMORY", b->host_memory, a->host_memory},
            {"WHARF_EXCHANGE_PIECE", b->exchange_piece, a->exchange_piece},
            {"WHARF_EXCHANGE_REMOTE", b->exchange_remote, a->exchange_remote},
            {"WHARF_CUDA_AWARE", b->cuda_aware, a->cuda_aware},
        };
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (fields[i].has != fields[i].first)
                return differ(r, fields[i].name, fields[i].has,
                              fields[i].first);
        if (strcmp(a->device_map, b->device_map) != 0) {
            wi_fail(WHARF_EMISMATCH,
                    "pass the same options and environment on every rank",
                    "rank %d has device_map \"%.60s\", rank 0 has \"%.60s\"", r,
                    b->device_map, a->device_map);
            return wi_error_about(r);
        }
    }
    return WHARF_OK;
}

static void least_parcel(wharf_node *node, const wi_node_settings *all)
{
    for (int r = 0; r < node->size; r++)
        if (all[r].parcel_fds < node->settings.parcel_fds)
            node->settings.parcel_fds = all[r].parcel_fds;
}

static wharf_status agree_on_settings(wharf_node *node, wi_deadline deadline)
{
    wi_node_settings *all = wi_calloc((size_t)node->size, sizeof *all);
    wharf_status status =
        wi_comm_agree(node->comm, all ? WHARF_OK : WHARF_ENOMEM, deadline);
    if (status == WHARF_OK)
        status = wi_comm_allgather(node->comm, &node->settings,
                                   sizeof node->settings, all, deadline);
    if (status == WHARF_OK)
        status = compare_settings(all, node->size);
    if (status == WHARF_OK)
        least_parcel(node, all);
    wi_free(all);
    return status;
}

/* ---- Open
 * --------------------------------------------------------------------- */

static wharf_status node_fill(wharf_node *node)
{
    size_t size = (size_t)node->size;
    node->slot_used = wi_calloc(WHARF_MAX_EVENTS, 1);
    node->event_waited =
        wi_calloc(WHARF_MAX_EVENTS, sizeof *node->event_waited);
    node->gpu_of_rank = wi_calloc(size, sizeof *node->gpu_of_rank);
    node->lines = wi_calloc(size, sizeof *node->lines);
    node->numa_of_rank = wi_calloc(size, sizeof *node->numa_of_rank);
    if (!node->slot_used || !node->event_waited || !node->gpu_of_rank ||
        !node->lines || !node->numa_of_rank)
        return WHARF_ENOMEM;
    for (int r = 0; r < node->size; r++)
        node->gpu_of_rank[r] = -1;
    return WHARF_OK;
}

void wi_node_delete(wharf_node *node)
{
    wi_rescue_stop(node);
    wi_node_unplace(node);
    wi_handle_remove(node);
    wi_free(node->slot_used);
    wi_free(node->event_waited);
    wi_free(node->gpu_of_rank);
    wi_free(node->numa_of_rank);
    wi_free(node->lines);
    pthread_mutex_destroy(&node->collective);
    wi_free(node);
}

/* With the ranks connected and a node object on each: every step ends in an
 * agreement. */
static wharf_status open_connected(wharf_node *node, wi_deadline deadline)
{
    node->rank = wi_comm_rank(node->comm);
    node->size = wi_comm_size(node->comm);
    wi_call_set_rank(node->rank);
    wi_log_set_rank(node->rank);
    wharf_status status = wi_comm_agree(node->comm, node_fill(node), deadline);
    if (status == WHARF_OK)
        status = agree_on_settings(node, deadline);
    if (status == WHARF_OK)
        status = wi_node_place(node, deadline);
    if (status == WHARF_OK)
        status = wi_node_find_ways(node, deadline);
    if (status != WHARF_OK)
        return status;
    if (!node->settings.keep_current)
        status = node->device->ops->make_current(node->device);
    if (status == WHARF_OK && node->backend != WHARF_BACKEND_HOST)
        status = wi_rescue_start(node);
    status = wi_comm_agree(node->comm, status, deadline);
    return status == WHARF_OK ? wi_keeper_open(node, deadline) : status;
}

/* An eighth of the limit of open files: a sender holds one parcel, and rank 0
 * several on their way, beside what MPI and the driver have open. */
static int64_t parcel_fds(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur / 8 >= WI_PARCEL_FDS)
        return WI_PARCEL_FDS;
    return limit.rlim_cur < 8 ? 1 : (int64_t)limit.rlim_cur / 8;
}

/* What can go wrong on this rank before it meets the others. */
static wharf_status prepare(const wharf_node_options *options,
                            wharf_node *const *out, wi_node_settings *settings,
                            wharf_node **node)
{
    *settings =
        (wi_node_settings){.timeout_ms = 30000, .parcel_fds = parcel_fds()};
    wharf_status status = read_settings(options, settings);
    if (status == WHARF_OK && !out)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "node is NULL");
    if (status == WHARF_OK && !WI_NEW(*node))
        status = WHARF_ENOMEM;
    if (status != WHARF_OK)
        return status;
    (*node)->settings = *settings;
    pthread_mutex_init(&(*node)->collective, NULL);
    return wi_handle_add(*node, WI_HANDLE_NODE);
}

static wharf_status open_node(MPI_Comm user, const wharf_node_options *options,
                              wharf_node **out)
{
    wharf_node *node = NULL;
    wi_comm *comm = NULL;
    wi_node_settings settings;

    /* A rank that failed alone still comes to the first agreement. */
    wharf_status own = prepare(options, out, &settings, &node);
    wharf_error own_record = *wi_error_record();
    if (node && own == WHARF_ESTATE) {
        /* A forked child: MPI calls of its own would ruin the parent's. */
        wi_node_delete(node);
        return own;
    }
    wi_deadline deadline = wi_deadline_in_ms(settings.timeout_ms);
    size_t shared = WI_RING_CONTROL_OFFSET + WI_RING_CONTROL_BYTES;
    wharf_status status = wi_comm_open(user, shared, deadline, &comm);
    if (status == WHARF_OK) {
        wi_call_set_rank(wi_comm_rank(comm));
        if (own != WHARF_OK) {
            *wi_error_record() = own_record;
            wi_error_record()->rank = wi_comm_rank(comm);
        }
        status = wi_comm_agree(comm, own, deadline);
    }
    if (status == WHARF_OK) {
        node->comm = comm;
        status = open_connected(node, deadline);
    }
    if (status == WHARF_OK) {
        *out = node;
        return WHARF_OK;
    }
    wharf_error cause = *wi_error_record();
    if (node)
        wi_node_unplace(node);
    if (comm)
        wharf_ignore(wi_comm_close(&comm, deadline));
    if (node)
        wi_node_delete(node);
    *wi_error_record() = cause;
    return status;
}

wharf_status wharf_node_open(MPI_Comm comm, const wharf_node_options *options,
                             wharf_node **node)
{
    wi_trace_decide();
    wi_call_begin(__func__, -1);
    wharf_status status = open_node(comm, options, node);
    if (status == WHARF_OK) {
        wi_stat_add(WI_STAT_live_nodes, 1);
        wi_log(WI_LOG_INFO, "node of %d ranks open, backend %s (%s)",
               (*node)->size, (*node)->device->ops->name,
               (*node)->backend_reason);
        const char *remark = wi_comm_remark((*node)->comm);
        if ((*node)->rank == 0 && remark[0] != '\0')
            wi_log(WI_LOG_WARN, "%s", remark);
    }
    return wi_call_end(status);
}

/* ---- Close
 * --------------------------------------------------------------------- */

/* Everything still attached, and the pool, in one ordered release. `met`: how
 * the ranks met; after a death, closing is the way to end, so that what is
 * still attached is no oversight. */
static void release_mappings(wharf_node *node, wharf_status met,
                             wi_deadline deadline)
{
    wi_log_level level = met == WHARF_OK ? WI_LOG_WARN : WI_LOG_INFO;

    while (node->buffers || node->pool) {
        wi_mapping *out[32];
        int n = 0;
        while (n < 32 && node->buffers) {
            wharf_buffer *buffer = node->buffers;
            wi_log(
                level,
                "buffer %llu%s%s was still attached when its node was closed",
                (unsigned long long)buffer->serial, buffer->name[0] ? " " : "",
                buffer->name);
            out[n++] = buffer->mapping;
            wi_buffer_discard(buffer);
        }
        while (n < 32 && node->pool) {
            out[n] = node->pool;
            node->pool = out[n]->next;
            wi_stat_add(WI_STAT_pooled_bytes, -(int64_t)out[n]->most_bytes);
            n++;
        }
        wharf_ignore(wi_mapping_free(node, n, out, deadline));
    }
}

static void release_events(wharf_node *node, wi_deadline deadline)
{
    if (!node->events)
        return;
    for (wharf_event *e = node->events; e; e = e->next)
        wi_event_close_import(e);
    wharf_status closed = wi_node_let_go(node, deadline);
    while (node->events) {
        wi_log(WI_LOG_WARN,
               "event %llu was still there when its node was closed",
               (unsigned long long)node->events->serial);
        wi_event_discard(node->events, wi_all_came(closed));
    }
}

/* `met`: how the meeting ended. What the ranks agree on last must be the same
 * on all: a rank that the meeting did not see may be in any other call. */
static wharf_status comm_close(wharf_node *node, wharf_status met,
                               wi_deadline deadline)
{
    if (met == WHARF_ETIMEDOUT) {
        wi_comm_leave(&node->comm);
        return met;
    }
    return wi_comm_close(&node->comm, deadline);
}

/* What is advised after a death, to close the node, was just done. */
static void tell_closed(wharf_status status, wharf_error *record)
{
    if (status == WHARF_EPEER)
        snprintf(record->remedy, sizeof record->remedy,
                 "the node is closed here all the same; if a rank died, end by "
                 "_exit, for MPI may wait for it");
}

/* Leaves *out as it is if nothing was done. */
static wharf_status close_node(wharf_node **out)
{
    wharf_node *node = *out;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {.call = WI_CALL_CLOSE};
    wi_meeting all[WHARF_MAX_RANKS];

    /* Work that still uses the buffers ends first; a ruined context has none.
     */
    wharf_ignore(wi_signal_quiesce(node));
    wi_comm_skip_missed(node->comm);
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH)
        return status;
    wharf_error cause = *wi_error_record();
    wi_worker_stop_all(node);
    wi_exchange_close_all(node);
    wi_notify_close_all(node);
    wi_barrier_close_all(node);
    wi_ring_close_all(node, deadline);
    release_events(node, deadline);
    release_mappings(node, status, deadline);
    wi_pad_close(node, deadline);
    wi_keeper_close(node, deadline);
    wi_node_unplace(node);
    wharf_status closed = comm_close(node, status, deadline);
    pthread_mutex_unlock(&node->collective);
    wi_node_delete(node);
    wi_stat_add(WI_STAT_live_nodes, -1);
    *out = NULL;
    if (status == WHARF_OK) {
        status = closed;
        cause = *wi_error_record();
    }
    if (status == WHARF_OK)
        return WHARF_OK;
    *wi_error_record() = cause;
    tell_closed(status, wi_error_record());
    return status;
}

static void print_stats_at_end(void)
{
    int64_t wanted;
    if (wi_config_number(WI_SETTING_STATS, &wanted, NULL) == WHARF_OK &&
        wanted && wi_stat_get(WI_STAT_live_nodes) == 0)
        for (int s = 0; s < WI_STAT_COUNT; s++)
            wi_log_asked("stats", "%" PRId64 " %s: %s", wi_stat_get((wi_stat)s),
                         wi_stat_name((wi_stat)s), wi_stat_text((wi_stat)s));
}

/* A guest leaves alone. */
static wharf_status close_guest(wharf_node **node)
{
    if (wi_visit_held(*node))
        return wi_fail(WHARF_ESTATE,
                       "leave it to wharf_worker_leave or wharf_leave",
                       "the node belongs to a worker or a joined buffer");
    wi_visit_end(node);
    print_stats_at_end();
    return WHARF_OK;
}

wharf_status wharf_node_close(wharf_node **node)
{
    if (node && *node &&
        wi_handle_check(*node, WI_HANDLE_NODE, "node") == WHARF_OK &&
        wi_node_is_guest(*node)) {
        wi_call_begin(__func__, (*node)->rank);
        return wi_call_end(close_guest(node));
    }
    wharf_status status = wi_node_enter(__func__, node ? *node : NULL);
    if (status != WHARF_OK) {
        if (node)
            *node = NULL;
        return status;
    }
    status = close_node(node);
    if (*node)
        return wi_node_leave(*node, status);
    print_stats_at_end();
    return wi_call_end(status);
}
