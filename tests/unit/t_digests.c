/* SPDX-License-Identifier: MIT */
/* Ranks that hold different plans find out, and whose it is. */
#include <string.h>

#include "base/error.h"
#include "core/census.h"
#include "t_test.h"

int main(void)
{
    wi_topo_line one[2] = {{.device = 0, .distance = 10, .reason = "local"},
                           {.device = 1, .distance = 10, .reason = "local"}};
    wi_topo_line other[2];
    uint64_t digests[4];

    memcpy(other, one, sizeof other);
    for (int r = 0; r < 4; r++)
        digests[r] = wi_topo_digest(2, one);
    T_OK(wi_digests_compare(digests, 4));
    T_OK(wi_digests_compare(digests, 1));
    other[1].device = 0;
    digests[2] = wi_topo_digest(2, other);
    T_STATUS(WHARF_EPROTOCOL, wi_digests_compare(digests, 4));
    T_EQ_INT(2, wi_error_record()->rank);
    T_CONTAINS("rank 2 holds another plan", wi_error_record()->cause);
    T_OK(wi_digests_compare(digests, 2));
    return 0;
}
