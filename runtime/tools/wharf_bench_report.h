/* SPDX-License-Identifier: MIT */
/* How wharf-bench writes down what it measured: one table an operation, and
 * JSON from the same rows. */
#ifndef WHARF_BENCH_REPORT_H
#define WHARF_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "tool_text.h"
#include "wharf/wharf.h"

#define BENCH_SIZES 32

struct bench_options {
    uint64_t sizes[BENCH_SIZES]; /* bytes of each rank's segment */
    int size_count;
    int rounds, warmup;
    wharf_space space;
    bool json;
};

/* The job that is measured. */
struct bench {
    struct bench_options options;
    wharf_node *node;
    int rank, size;      /* in MPI_COMM_WORLD */
    bool progress;       /* rank 0, on a terminal */
    const char *checked; /* what `bad` was looked for in */
};

/* One operation at one size. Times in us, of the slowest rank each round. */
struct bench_row {
    const char *op;
    uint64_t bytes;
    double *samples; /* rounds of them, sorted by bench_row_finish */
    int rounds;
    double least, median, p99;
    bool moves;        /* it moves `bytes`: then there is a rate */
    int reused;        /* rounds served by kept mappings */
    uint64_t bad;      /* wrong bytes, over all ranks and rounds */
    char failure[160]; /* why there is no figure, or "" */
};

/* Sorts the samples and fills least, median and p99. */
void bench_row_finish(struct bench_row *row);

/* Collective: prints the whole result on rank 0. Returns whether all data was
 * right, the same on every rank. */
bool bench_report(const struct bench *bench, const char *command,
                  const struct bench_row *rows, int count);

#endif
