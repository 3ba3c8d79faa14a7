/* SPDX-License-Identifier: MIT */
/*
 * The parts of 05_halo_2d: the problem (05_halo_2d_problem.c), a rank's solver,
 * and how it computes: on the CPU (05_halo_2d_cpu.c) or on a GPU
 * (05_halo_2d_gpu.cu, with the kernel in 05_halo_2d_stencil.cuh).
 */
#ifndef HALO_2D_H
#define HALO_2D_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wharf/wharf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong in one step on one rank; "" if nothing. */
struct failure {
    char text[512];
};

/* ---- The problem ------------------------------------------------------- */

enum halo_kind {
    HALO_LAPLACE, /* left and right edge fixed to a sine, 0 between */
    HALO_WAVE     /* edges 0; an eigenvector of the Jacobi step between, so
                     that the field after n steps is known */
};

/* A grid: periodic from row to row; columns 0 and columns - 1 never change. */
struct halo_problem {
    enum halo_kind kind;
    int rows;    /* 1 or more */
    int columns; /* 3 or more */
};

/* The start values of one row of the grid: `columns` floats. */
void halo_start_row(const struct halo_problem *problem, int row, float *to);

/* The largest distance of one row from the known field after some steps; 0 for
 * a problem without one. */
double halo_row_error(const struct halo_problem *problem, int row,
                      long iterations, const float *values);

/* What rounding alone can make of it: with values up to 1 the three roundings
 * of a step come to 2^-24 at most, and no step makes an error larger. */
double halo_error_bound(long iterations);

/*
 * One step of a row: 0.25 * ((left + right) + (up + down)). The order is the
 * same everywhere and nothing is contracted, so that all ranks, CPUs and GPUs
 * get the same bits.
 */
void halo_row_step(const float *up, const float *row, const float *down,
                   float *to, int columns);

/*
 * The sum of squared differences of two rows, in double, in an order of its
 * own that a GPU can follow: 4 neighbours, then a tree over 32 of these, then
 * one 128 after the other. Rows are summed by number, whoever has them.
 */
double halo_row_sum(const float *from, const float *to, int columns);

/* ---- A rank's solver --------------------------------------------------- */

enum halo_mode {
    HALO_AUTO,     /* kernel where all neighbours allow it */
    HALO_EXCHANGE, /* wharf_exchange, with the inner rows meanwhile */
    HALO_KERNEL    /* one GPU kernel a step writes into the neighbours' memory
                      and waits for theirs */
};

/* How it is computed; the same on all ranks. */
struct halo_settings {
    struct halo_problem problem;
    enum halo_mode mode;
    const char *variant; /* of the GPU kernel; NULL: the best known */
    bool graphs;         /* batches of steps as CUDA graphs */
    bool early;          /* a step's launch overlaps the end of the last one */
};

/*
 * A rank has the rows [first, first + rows) of the grid, in two arrays with a
 * ghost row before and one behind. Step r reads array (r + 1) % 2 and writes
 * array r % 2; so that is set r % 2 of the exchange's round r.
 */
struct halo_solver {
    struct halo_settings settings;
    MPI_Comm comm; /* one-dimensional, periodic */
    int rank, ranks;
    int up, down; /* ranks with the rows before mine and behind them */
    int first, rows;
    size_t pitch; /* floats from row to row: whole groups of 128 */
    wharf_node *node;
    wharf_buffer *buffer;
    wharf_exchange *exchange; /* NULL in mode kernel */
    long round;               /* steps since the solver was made */
    float *field[2];          /* the first ghost row of each array */
    const struct halo_work *work;
    void *own; /* of the worker */
};

/* Bytes of one array of a rank with so many rows. */
static inline size_t halo_array_bytes(const struct halo_solver *solver,
                                      int rows)
{
    return ((size_t)rows + 2) * solver->pitch * sizeof(float);
}

/*
 * Words behind the two arrays, for mode kernel: each tile at the upper or lower
 * edge has one that its neighbour writes and one of its own, 32 bytes apart.
 */
enum { HALO_FLAG_WORDS = 8, HALO_TILE_COLUMNS_LEAST = 128 };

static inline size_t halo_flags(const struct halo_solver *solver)
{
    return solver->pitch / HALO_TILE_COLUMNS_LEAST;
}

static inline size_t halo_segment_bytes(const struct halo_solver *solver,
                                        int rows)
{
    return 2 * halo_array_bytes(solver, rows) +
           4 * halo_flags(solver) * HALO_FLAG_WORDS * sizeof(uint32_t);
}

/* The rows of a rank. */
static inline int halo_first_row(const struct halo_problem *problem, int rank,
                                 int ranks)
{
    return (int)((int64_t)problem->rows * rank / ranks);
}

/* A Wharf call's failure in words; true if it was one. */
bool halo_failed(wharf_status status, struct failure *why);

/* Offers the field to programs outside the job, under a name; rank 0's part. */
void halo_publish(const struct halo_solver *solver, const char *name,
                  struct failure *why);

/* The steps of a solver on one kind of processor: 0, or -1 with `why`. */
struct halo_work {
    const char *name;

    int (*open)(struct halo_solver *solver, struct failure *why);
    void (*close)(struct halo_solver *solver);

    /* Puts the start values into both arrays, ghost rows too. */
    int (*load)(struct halo_solver *solver, struct failure *why);

    /* `count` steps, the last with the sums of its rows into `slot`, 0 or 1.
     * May return before they are done. */
    int (*advance)(struct halo_solver *solver, int count, int slot,
                   struct failure *why);

    /* Waits for the sums of a slot: one for each of the rank's rows. */
    int (*sums)(struct halo_solver *solver, int slot, double *sums,
                struct failure *why);

    /* Waits until all steps are done. */
    int (*wait)(struct halo_solver *solver, struct failure *why);

    /* Copies some of the rank's rows, counted from 0, to host memory with
     * `columns` floats a row. */
    int (*fetch)(struct halo_solver *solver, int row, int rows, float *to,
                 struct failure *why);

    /* In a few words what settings were taken. */
    void (*describe)(const struct halo_solver *solver, char *text, size_t size);
};

extern const struct halo_work halo_cpu;

/* Not there (the address is NULL) in a program built without nvcc. */
extern const struct halo_work halo_gpu __attribute__((weak));

/* Names of the GPU kernel's variants, from 0 up; NULL behind the last. */
const char *halo_gpu_variant(int index) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
