/* SPDX-License-Identifier: MIT */
/* Expands every public macro once, in a file that knows nothing but the public
 * headers. headers.macros.complete finds what is missing here. */
#include "wharf/wharf.h"

#include "t_test.h"

#define COUNT(...) +1

/* What a header of a user's own would do. */
WHARF_BEGIN_DECLS
WHARF_API WHARF_MUSTCHECK wharf_status t_declared(void);
WHARF_END_DECLS

wharf_status t_declared(void)
{
    return WHARF_OK;
}

static void versions(void)
{
    T_EQ_INT(WHARF_VERSION_NUMBER, wharf_version());
    T_EQ_INT(WHARF_VERSION_NUMBER, WHARF_VERSION_MAJOR * 10000 +
                                       WHARF_VERSION_MINOR * 100 +
                                       WHARF_VERSION_PATCH);
}

static void limits(void)
{
    T_CHECK(WHARF_MAX_RANKS > 0);
    T_CHECK(WHARF_MAX_GPUS > 0);
    T_CHECK(WHARF_MAX_BUFFERS > 0);
    T_CHECK(WHARF_MAX_EVENTS > 0);
    T_CHECK(WHARF_TOPO_INDICES > 0);
    T_CHECK(WHARF_MAX_EXCHANGE_SETS > 1);
    T_CHECK(WHARF_MAX_EXCHANGE_TRANSFERS > 26);
    T_EQ_INT(3, WHARF_EXCHANGE_DIMS);
    T_CHECK(WHARF_MAX_RINGS > 0);
    T_CHECK(WHARF_MAX_RING_SLOTS > 0);
    T_CHECK(WHARF_RING_CPU != NULL);
    T_CHECK(WHARF_RING_NOBODY < 0);
    T_CHECK(WHARF_MAX_PUBLISHED_NAME > 0);
    T_CHECK(WHARF_MAX_NOTE > 0);
    T_CHECK(WHARF_MAX_JOINERS > 0);
    T_CHECK(WHARF_MAX_BUFFER_NAME > 0);
    T_EQ_INT(sizeof(((wharf_link *)NULL)->reason), WHARF_MAX_REASON + 1);
    T_CHECK(WHARF_MAX_ERROR_TEXT > sizeof(wharf_error));
    T_EQ_INT(0, WHARF_LATEST);
    T_CHECK(WHARF_DISTANCE_UNKNOWN < 0 && 0 < WHARF_DISTANCE_LOCAL);
}

static void options(void)
{
    wharf_node_options node = WHARF_NODE_OPTIONS_INIT;
    wharf_buffer_options buffer = WHARF_BUFFER_OPTIONS_INIT;
    wharf_notify_options notify = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_plan_options plan = WHARF_PLAN_OPTIONS_INIT;
    wharf_box box = WHARF_BOX_INIT;
    wharf_ring_options ring = WHARF_RING_OPTIONS_INIT;
    wharf_publish_options publish = WHARF_PUBLISH_OPTIONS_INIT;
    wharf_joined_options joined = WHARF_JOINED_OPTIONS_INIT;

    T_EQ_INT(sizeof(node), node.struct_size);
    T_EQ_INT(WHARF_BACKEND_AUTO, node.backend);
    T_EQ_PTR(NULL, node.device_map);
    T_EQ_INT(0, node.pool_bytes);
    T_EQ_INT(sizeof(buffer), buffer.struct_size);
    T_EQ_INT(WHARF_SPACE_DEVICE, buffer.space);
    T_EQ_INT(0, buffer.flags);
    T_EQ_PTR(NULL, buffer.name);
    T_EQ_INT(sizeof(notify), notify.struct_size);
    T_EQ_INT(WHARF_MECHANISM_AUTO, notify.mechanism);
    T_EQ_INT(WHARF_SWITCH_UNSET, notify.capturable);
    T_EQ_INT(sizeof(ring), ring.struct_size);
    T_EQ_INT(0, ring.slots);
    T_EQ_INT(0, ring.slot_bytes);
    T_EQ_INT(WHARF_RING_ALL, ring.mode);
    T_EQ_PTR(NULL, ring.consumers);
    T_EQ_INT(sizeof(publish), publish.struct_size);
    T_EQ_INT(0, publish.uid_count);
    T_EQ_INT(sizeof(joined), joined.struct_size);
    T_CHECK(joined.uid == WHARF_OWN_UID);
    T_EQ_INT(sizeof(plan), plan.struct_size);
    T_EQ_INT(WHARF_PLACEMENT_AUTO, plan.placement);
    T_EQ_PTR(NULL, plan.device_map);
    T_EQ_INT(0, box.width);
    T_EQ_INT(1, box.rows);
    T_EQ_INT(1, box.planes);
    T_EQ_INT(0, box.from_pitch | box.from_plane | box.to_pitch | box.to_plane);
}

static void exchange_options(void)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_block block = WHARF_EXCHANGE_BLOCK_INIT;

    T_EQ_INT(sizeof(options), options.struct_size);
    T_EQ_INT(1, options.sets);
    T_EQ_INT(WHARF_SWITCH_UNSET, options.ready);
    T_EQ_INT(sizeof(block), block.struct_size);
    T_EQ_INT(0, block.cell);
    T_EQ_PTR(NULL, block.buffer[WHARF_MAX_EXCHANGE_SETS - 1]);
}

static void worker_options(void)
{
    wharf_worker_options worker = WHARF_WORKER_OPTIONS_INIT;
    wharf_worker_join_options join = WHARF_WORKER_JOIN_OPTIONS_INIT;

    T_EQ_INT(sizeof(worker), worker.struct_size);
    T_EQ_INT(0, worker.buffer_count);
    T_EQ_INT(0, worker.silence_ms);
    T_CHECK(worker.restarts > 0 && worker.stop_ms > 0);
    T_CHECK(worker.backoff_most_ms > worker.backoff_ms);
    T_EQ_INT(WHARF_SWITCH_UNSET, worker.tag);
    T_EQ_INT(sizeof(join), join.struct_size);
    T_EQ_INT(0, join.timeout_ms);
    T_CHECK(WHARF_MAX_MESSAGE > 0 && WHARF_MAX_WORKERS > 0);
    T_CHECK(WHARF_MAX_WORKER_DEATHS > 0);
    T_CHECK(WHARF_NO_WAIT < 0);
}

/* What queries fill. */
static void filled(void)
{
    wharf_device device = WHARF_DEVICE_INIT;
    wharf_link link = WHARF_LINK_INIT;
    wharf_gpu gpu = WHARF_GPU_INIT;
    wharf_buffer_info buffer = WHARF_BUFFER_INFO_INIT;
    wharf_exchange_info exchange = WHARF_EXCHANGE_INFO_INIT;
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_ring_info ring = WHARF_RING_INFO_INIT;
    wharf_worker_death death = WHARF_WORKER_DEATH_INIT;
    wharf_worker_report report = WHARF_WORKER_REPORT_INIT;
    wharf_stats stats = WHARF_STATS_INIT;
    const int zeros[] = {WHARF_STATS_LIST(WHARF_STATS_ZERO)};

    T_EQ_INT(sizeof(device), device.struct_size);
    T_EQ_INT(sizeof(link), link.struct_size);
    T_EQ_INT(sizeof(gpu), gpu.struct_size);
    T_EQ_INT(sizeof(buffer), buffer.struct_size);
    T_EQ_INT(sizeof(exchange), exchange.struct_size);
    T_EQ_INT(sizeof(plan), plan.struct_size);
    T_EQ_INT(sizeof(ring), ring.struct_size);
    T_EQ_INT(sizeof(death), death.struct_size);
    T_EQ_INT(sizeof(report), report.struct_size);
    T_EQ_INT(sizeof(death), report.last.struct_size);
    T_EQ_INT(sizeof(stats), stats.struct_size);
    T_EQ_INT(0, zeros[0]);
}

/* Each flag is one bit of its own. */
static void flags(void)
{
    const unsigned all[] = {
        WHARF_BUFFER_CONTIGUOUS,
        WHARF_BUFFER_SAME_ADDRESS,
        WHARF_BUFFER_SAME_ADDRESS_REQUIRED,
        WHARF_BUFFER_ZERO,
        WHARF_BUFFER_READ_ONLY,
        WHARF_BUFFER_NUMA_LOCAL,
        WHARF_BUFFER_INTERLEAVE,
        WHARF_BUFFER_HUGE_PAGES,
        WHARF_BUFFER_WRITE_COMBINED,
        WHARF_BUFFER_STAGE_ALLOWED,
        WHARF_BUFFER_EXPOSE_NEIGHBOURS,
    };
    unsigned seen = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        T_CHECK(all[i] != 0 && (all[i] & (all[i] - 1)) == 0);
        T_EQ_INT(0, seen & all[i]);
        seen |= all[i];
    }
}

static void lists(void)
{
    T_CHECK(0 WHARF_STATUS_LIST(COUNT) > 10);
    T_CHECK(0 WHARF_STATS_LIST(COUNT) > 10);
    T_CHECK(0 WHARF_REASON_LIST(COUNT) > 5);
}

int main(void)
{
    versions();
    limits();
    options();
    exchange_options();
    worker_options();
    filled();
    flags();
    lists();
    return t_declared() == WHARF_OK ? 0 : 1;
}
