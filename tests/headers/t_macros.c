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
    T_EQ_INT(0, WHARF_LATEST);
    T_CHECK(WHARF_DISTANCE_UNKNOWN < 0 && 0 < WHARF_DISTANCE_LOCAL);
}

static void options(void)
{
    wharf_node_options node = WHARF_NODE_OPTIONS_INIT;
    wharf_buffer_options buffer = WHARF_BUFFER_OPTIONS_INIT;
    wharf_notify_options notify = WHARF_NOTIFY_OPTIONS_INIT;
    wharf_plan_options plan = WHARF_PLAN_OPTIONS_INIT;

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
    T_EQ_INT(sizeof(plan), plan.struct_size);
    T_EQ_INT(WHARF_PLACEMENT_AUTO, plan.policy);
    T_EQ_PTR(NULL, plan.map);
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
    flags();
    lists();
    return t_declared() == WHARF_OK ? 0 : 1;
}
