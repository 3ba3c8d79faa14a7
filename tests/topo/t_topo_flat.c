/* SPDX-License-Identifier: MIT */
/* A build without hwloc: no XML, no distances, balanced plans that say so. */
#include "t_test.h"
#include "topo/topo.h"

int main(void)
{
    static const wi_topo_device device[] = {
        {"GPU-aaaaaaaa-0000-0000-0000-000000000001", "0000:17:00.0", 0},
        {"GPU-aaaaaaaa-0000-0000-0000-000000000002", "0000:ca:00.0", 0},
    };
    static wi_topo_rank rank[4];
    static wi_topo_line line[4];
    static char warnings[2048];
    wi_topo_ask ask;
    wharf_topo *topo = NULL;
    wharf_plan *plan = NULL;
    wharf_error error;

    setenv("WHARF_LOG", "none", 1);
    T_STATUS(WHARF_EUNSUPPORTED, wharf_topo_load("any.xml", &topo));
    wharf_last_error(&error);
    T_CONTAINS("no hwloc", error.cause);
    T_OK(wharf_topo_load(NULL, &topo));
    T_OK(wharf_plan_make(topo, 3, NULL, NULL, &plan));
    T_CONTAINS("no hwloc", plan->warning[0].text);
    wharf_plan_free(&plan);
    wharf_topo_free(&topo);
    for (int r = 0; r < 4; r++) {
        wi_topo_rank_self(&rank[r]);
        rank[r].visible = 0x3;
        rank[r].listed = -1;
    }
    ask =
        (wi_topo_ask){.ranks = 4, .rank = rank, .devices = 2, .device = device};
    T_OK(wi_topo_plan_node(&ask, line, warnings, sizeof warnings));
    for (int r = 0; r < 4; r++) {
        T_EQ_INT(r / 2, line[r].device);
        T_EQ_INT(-1, line[r].distance);
    }
    T_CONTAINS("no hwloc", warnings);
    return 0;
}
