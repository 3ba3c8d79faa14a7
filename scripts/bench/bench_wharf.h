/* SPDX-License-Identifier: MIT */
/* bench.h for the programs that measure Wharf by hand. */
#ifndef BENCH_WHARF_H
#define BENCH_WHARF_H

#include <wharf/wharf.h>

#include "bench.h"

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
inline void wharf_check(wharf_status status)
{
    if (status != WHARF_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

#endif
