/* SPDX-License-Identifier: MIT */
/* The sub-commands of wharf-bench. Each is collective over MPI_COMM_WORLD and
 * returns the exit code. */
#ifndef WHARF_BENCH_H
#define WHARF_BENCH_H

#include "wharf_bench_report.h"

int bench_attach(struct bench *bench);
int bench_barrier(struct bench *bench);
int bench_notify(struct bench *bench);
int bench_event(struct bench *bench);
int bench_sync(struct bench *bench);
int bench_latency(struct bench *bench);
int bench_copy(struct bench *bench);
int bench_matrix(struct bench *bench);
int bench_exchange(struct bench *bench);
int bench_ring(struct bench *bench);
int bench_zero_copy(struct bench *bench);
int bench_worker(struct bench *bench);

/* Not collective: main of a worker that bench_worker has started. */
int bench_worker_child(void);

#endif
