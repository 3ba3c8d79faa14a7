/* SPDX-License-Identifier: MIT */
/* How wharf-bench writes down what it measured: one header for all commands,
 * one table an operation, and JSON from the same rows. */
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
    bool spoil; /* a byte is made wrong before every check */
};

/* The job that is measured. */
struct bench {
    struct bench_options options;
    wharf_node *node;
    int rank, size;      /* in MPI_COMM_WORLD, and in the node */
    bool progress;       /* rank 0, on a terminal */
    const char *checked; /* what `bad` was looked for in */
    char remark[160];    /* one more line of the header, or "" */

    /* Prints what a command adds to its tables, or NULL. */
    void (*more)(const void *more_of);
    const void *more_of;
};

/* One operation at one size. Times in us, of the slowest rank each round. */
struct bench_row {
    const char *op;
    uint64_t bytes;
    double *samples; /* rounds of them, sorted by bench_row_finish */
    int rounds;
    double least, median, p99;
    bool moves;        /* it moves `bytes`: the rate is GB/s, else k/s */
    int reused;        /* rounds served by kept mappings */
    uint64_t bad;      /* wrong bytes that this rank found in all rounds */
    char failure[160]; /* why there is no figure, or "" */
    bool paired;       /* of two ranks: then what follows is printed too */
    int from, to;
    const char *path, *mechanism;
};

/* Empty rows with room for the samples of `rounds`; ends the job if there is no
 * memory. Given back by bench_rows_free. */
struct bench_row *bench_rows_new(int count, int rounds);
void bench_rows_free(struct bench_row *rows);

/* Sorts the samples and fills least, median and p99. */
void bench_row_finish(struct bench_row *row);

/* Decimal GB/s, or thousands a second; 0 of a clock that stood still. */
double bench_row_rate(const struct bench_row *row);

/* Collective: adds up the wrong bytes of all ranks and prints the whole result
 * on rank 0. Returns whether all data was right, the same on every rank. */
bool bench_report(const struct bench *bench, const char *command,
                  struct bench_row *rows, int count);

/* Collective: the header, on rank 0; as text, or as the first members of a JSON
 * object, without the comma behind the last. */
void bench_head(const struct bench *bench, const char *command);

#endif
