/* SPDX-License-Identifier: MIT */
/* The sub-commands of wharf-bench. Each is collective over MPI_COMM_WORLD and
 * returns the exit code. */
#ifndef WHARF_BENCH_H
#define WHARF_BENCH_H

#include "wharf_bench_report.h"

int bench_attach(struct bench *bench);
int bench_sync(struct bench *bench);

#endif
