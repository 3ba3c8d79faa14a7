/* SPDX-License-Identifier: MIT */
/*
 * A field on a grid, relaxed by Jacobi's method: each new value is the mean of
 * its four old neighbours. The grid's rows are divided among all ranks, of one
 * host or several, on GPUs where there are any; neighbours exchange the rows at
 * the edges of their blocks in every step. The result has the same bits
 * whatever the number of ranks and wherever it was computed: that is what the
 * CRC-32 at the end of a line is for.
 *
 * Run: mpirun -n 4 05_halo_2d --size 2048 --alone --png field.png
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "05_halo_2d.h"
#include "05_halo_2d_show.h"

/* Everybody fails when one rank fails, so that nobody waits for a rank that has
 * given up. Rank 0 prints the first failure. */
static bool agree(MPI_Comm comm, const struct failure *mine)
{
    int rank, size, candidate, first;
    struct failure why = *mine;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    candidate = mine->text[0] == '\0' ? size : rank;
    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == size)
        return true;
    MPI_Bcast(why.text, sizeof why.text, MPI_CHAR, first, comm);
    if (rank == 0)
        fprintf(stderr, "05_halo_2d: %s (rank %d)\n", why.text, first);
    return false;
}

/* ---- Making a solver --------------------------------------------------- */

/* Kernels that wait for one another are for neighbours that can run at once
 * and see each other's memory. */
static bool kernel_fits(const struct halo_solver *solver)
{
    const int neighbours[] = {solver->up, solver->down};

    if (wharf_node_gpus(solver->node) <= 0 ||
        wharf_node_size(solver->node) != solver->ranks ||
        wharf_node_rank(solver->node) != solver->rank)
        return false;
    for (int i = 0; i < 2; i++) {
        wharf_mechanism mechanism = WHARF_MECHANISM_KERNEL;

        if (neighbours[i] != solver->rank &&
            (wharf_node_mechanism(solver->node, solver->rank, neighbours[i],
                                  &mechanism, NULL) != WHARF_OK ||
             mechanism != WHARF_MECHANISM_KERNEL))
            return false;
    }
    return true;
}

static void choose_mode(struct halo_solver *solver, struct failure *why)
{
    int fits = kernel_fits(solver);
    int shared = wharf_node_gpus(solver->node) > 0 &&
                 wharf_node_size(solver->node) == solver->ranks &&
                 wharf_node_rank(solver->node) == solver->rank;

    MPI_Allreduce(MPI_IN_PLACE, &fits, 1, MPI_INT, MPI_LAND, solver->comm);
    MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_LAND, solver->comm);
    if (solver->settings.mode == HALO_AUTO)
        solver->settings.mode = fits ? HALO_KERNEL : HALO_EXCHANGE;
    else if (solver->settings.mode == HALO_KERNEL && !shared)
        snprintf(why->text, sizeof why->text,
                 "mode kernel is for GPUs of one node; use --mode exchange");
}

static void solver_exchange(struct halo_solver *solver, struct failure *why)
{
    wharf_exchange_options options = WHARF_EXCHANGE_OPTIONS_INIT;
    wharf_exchange_block block = WHARF_EXCHANGE_BLOCK_INIT;

    if (solver->settings.mode != HALO_EXCHANGE)
        return;
    options.sets = 2;
    options.capturable =
        solver->settings.graphs ? WHARF_SWITCH_ON : WHARF_SWITCH_OFF;
    /* A whole row is a cell of the one dimension that is divided. */
    block.cell = solver->pitch * sizeof(float);
    block.extent[0] = (size_t)solver->rows;
    block.ghost[0] = 1;
    for (int i = 0; i < 2; i++) {
        block.buffer[i] = solver->buffer;
        block.offset[i] = (size_t)i * halo_array_bytes(solver, solver->rows);
    }
    halo_failed(wharf_exchange_create_cart(solver->node, solver->comm, &block,
                                           &options, &solver->exchange),
                why);
}

static void solver_memory(struct halo_solver *solver, struct failure *why)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    void *segment = NULL;

    options.name = "field";
    options.flags = WHARF_BUFFER_ZERO;
    if (halo_failed(wharf_buffer_attach(
                        solver->node, halo_segment_bytes(solver, solver->rows),
                        &options, &solver->buffer),
                    why) ||
        halo_failed(wharf_buffer_segment(solver->buffer,
                                         wharf_node_rank(solver->node),
                                         &segment, NULL),
                    why))
        return;
    solver->field[0] = segment;
    solver->field[1] = solver->field[0] +
                       halo_array_bytes(solver, solver->rows) / sizeof(float);
}

static void solver_shape(struct halo_solver *solver, MPI_Comm comm)
{
    const struct halo_problem *problem = &solver->settings.problem;
    int periodic = 1;

    MPI_Comm_size(comm, &solver->ranks);
    MPI_Cart_create(comm, 1, &solver->ranks, &periodic, 0, &solver->comm);
    MPI_Comm_rank(solver->comm, &solver->rank);
    MPI_Cart_shift(solver->comm, 0, 1, &solver->up, &solver->down);
    solver->first = halo_first_row(problem, solver->rank, solver->ranks);
    solver->rows = halo_first_row(problem, solver->rank + 1, solver->ranks) -
                   solver->first;
    solver->pitch = ((size_t)problem->columns + 127) / 128 * 128;
}

static void solver_close(struct halo_solver *solver, struct failure *why)
{
    /* This also lets a stream go that waits for a dead neighbour. */
    if (solver->exchange != NULL)
        halo_failed(wharf_exchange_destroy(&solver->exchange), why);
    if (solver->own != NULL)
        solver->work->close(solver);
    if (solver->buffer != NULL)
        halo_failed(wharf_buffer_detach(&solver->buffer), why);
    if (solver->node != NULL)
        halo_failed(wharf_node_close(&solver->node), why);
    MPI_Comm_free(&solver->comm);
}

/* Collective on comm. On failure nothing is left. */
static bool solver_open(struct halo_solver *solver, MPI_Comm comm,
                        const struct halo_settings *settings)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    struct failure why = {""}, ignored = {""};
    bool good;

    memset(solver, 0, sizeof *solver);
    solver->settings = *settings;
    solver_shape(solver, comm);
    if (solver->rows == 0)
        snprintf(why.text, sizeof why.text, "%d ranks are too many for %d rows",
                 solver->ranks, settings->problem.rows);
    if (!agree(solver->comm, &why)) {
        MPI_Comm_free(&solver->comm);
        return false;
    }
    if (&halo_gpu == NULL)
        options.backend = WHARF_BACKEND_HOST;
    halo_failed(wharf_node_open(solver->comm, &options, &solver->node), &why);
    good = agree(solver->comm, &why);
    if (good) {
        solver->work =
            wharf_node_gpus(solver->node) > 0 ? &halo_gpu : &halo_cpu;
        choose_mode(solver, &why);
        good = agree(solver->comm, &why);
    }
    if (good) {
        solver_memory(solver, &why);
        good = agree(solver->comm, &why);
    }
    if (good) {
        solver_exchange(solver, &why);
        if (why.text[0] == '\0')
            solver->work->open(solver, &why);
        good = agree(solver->comm, &why);
    }
    if (!good)
        solver_close(solver, &ignored);
    return good;
}

/* ---- One run ----------------------------------------------------------- */

/* Adds the sums of all rows in the order of the grid. Every rank gets the
 * root. */
static int residual(struct halo_solver *solver, int slot, double *all,
                    double *root, struct failure *why)
{
    const struct halo_problem *problem = &solver->settings.problem;
    int *starts = calloc((size_t)solver->ranks, sizeof *starts);
    int *counts = calloc((size_t)solver->ranks, sizeof *counts);
    double sum = 0;

    if (starts == NULL || counts == NULL)
        snprintf(why->text, sizeof why->text, "no memory for counts");
    else if (why->text[0] == '\0')
        solver->work->sums(solver, slot, all + solver->first, why);
    if (agree(solver->comm, why)) {
        for (int rank = 0; rank < solver->ranks; rank++) {
            starts[rank] = halo_first_row(problem, rank, solver->ranks);
            counts[rank] =
                halo_first_row(problem, rank + 1, solver->ranks) - starts[rank];
        }
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, starts,
                       MPI_DOUBLE, solver->comm);
    } else {
        problem = NULL;
    }
    free(counts);
    free(starts);
    if (problem == NULL)
        return -1;
    for (int row = 0; row < problem->rows; row++)
        sum += all[row];
    *root = sqrt(sum);
    return 0;
}

/* Batches of steps; the residual of one is fetched when the next one has been
 * launched, so that a GPU never waits for the host. */
static int iterate(struct halo_solver *solver,
                   const struct halo_options *options, double *all,
                   struct halo_result *result, struct failure *why)
{
    int batch = 0;

    result->iterations = 0;
    result->residual = HUGE_VAL;
    while (result->iterations < options->iterations &&
           (options->tolerance == 0 || result->residual > options->tolerance)) {
        long left = options->iterations - result->iterations;
        int count =
            left < options->norm_every ? (int)left : options->norm_every;

        /* A failure is agreed on with the residual. */
        if (solver->work->advance(solver, count, batch % 2, why) != 0)
            return residual(solver, batch % 2, all, &result->residual, why);
        result->iterations += count;
        if (batch > 0 &&
            residual(solver, (batch - 1) % 2, all, &result->residual, why) != 0)
            return -1;
        batch++;
    }
    return residual(solver, (batch - 1) % 2, all, &result->residual, why);
}

/* CRC-32 of all rows, and the largest error where the field is known. */
static bool examine(struct halo_solver *solver, struct halo_result *result)
{
    const struct halo_problem *problem = &solver->settings.problem;
    size_t row_bytes = (size_t)problem->columns * sizeof(float);
    int most = (int)(((size_t)32 << 20) / row_bytes) + 1;
    float *rows = malloc((size_t)most * row_bytes);
    uint32_t mine = (uint32_t)crc32(0, NULL, 0);
    uint32_t *crcs = calloc((size_t)solver->ranks, sizeof *crcs);
    struct failure why = {""};

    if (rows == NULL || crcs == NULL)
        snprintf(why.text, sizeof why.text, "no memory to look at the field");
    result->error = problem->kind == HALO_WAVE ? 0 : -1;
    for (int row = 0; why.text[0] == '\0' && row < solver->rows; row += most) {
        int count = solver->rows - row < most ? solver->rows - row : most;

        if (solver->work->fetch(solver, row, count, rows, &why) != 0)
            break;
        mine = (uint32_t)crc32_z(mine, (const unsigned char *)rows,
                                 (size_t)count * row_bytes);
        for (int i = 0; result->error >= 0 && i < count; i++)
            result->error =
                fmax(result->error,
                     halo_row_error(
                         problem, solver->first + row + i, result->iterations,
                         rows + (size_t)i * (size_t)problem->columns));
    }
    free(rows);
    if (!agree(solver->comm, &why)) {
        free(crcs);
        return false;
    }
    MPI_Allreduce(MPI_IN_PLACE, &result->error, 1, MPI_DOUBLE, MPI_MAX,
                  solver->comm);
    MPI_Allgather(&mine, 1, MPI_UINT32_T, crcs, 1, MPI_UINT32_T, solver->comm);
    result->crc = crcs[0];
    for (int rank = 1; rank < solver->ranks; rank++) {
        int count = halo_first_row(problem, rank + 1, solver->ranks) -
                    halo_first_row(problem, rank, solver->ranks);

        result->crc = (uint32_t)crc32_combine(
            result->crc, crcs[rank], (z_off_t)((size_t)count * row_bytes));
    }
    free(crcs);
    return true;
}

/* From start values to a checked field. */
static bool run(struct halo_solver *solver, const struct halo_options *options,
                struct halo_result *result)
{
    const struct halo_problem *problem = &solver->settings.problem;
    double *all = calloc((size_t)problem->rows, sizeof *all);
    struct failure why = {""};
    double start;
    int failed;

    memset(result, 0, sizeof *result);
    result->rows = problem->rows;
    result->columns = problem->columns;
    result->ranks = solver->ranks;
    if (all == NULL)
        snprintf(why.text, sizeof why.text, "no memory for the sums of rows");
    else if (solver->work->load(solver, &why) == 0)
        solver->work->wait(solver, &why);
    if (!agree(solver->comm, &why)) {
        free(all);
        return false;
    }
    MPI_Barrier(solver->comm);
    start = MPI_Wtime();
    failed = iterate(solver, options, all, result, &why);
    if (failed == 0)
        solver->work->wait(solver, &why);
    result->seconds = MPI_Wtime() - start;
    free(all);
    if (failed != 0 || !agree(solver->comm, &why))
        return false;
    MPI_Allreduce(MPI_IN_PLACE, &result->seconds, 1, MPI_DOUBLE, MPI_MAX,
                  solver->comm);
    return examine(solver, result);
}

/* A batch that is not timed: graphs are made, pages touched, clocks up. */
static bool warm(struct halo_solver *solver, const struct halo_options *options)
{
    int count = options->iterations < options->norm_every ? options->iterations
                                                          : options->norm_every;
    struct failure why = {""};

    if (solver->work->load(solver, &why) == 0)
        solver->work->wait(solver, &why);
    if (!agree(solver->comm, &why))
        return false;
    if (solver->work->advance(solver, count, 0, &why) == 0)
        solver->work->wait(solver, &why);
    return agree(solver->comm, &why);
}

/* The known field tells whether the run is right. */
static bool right(const struct halo_result *result)
{
    return result->error <= halo_error_bound(result->iterations);
}

static bool draw(struct halo_solver *solver, const char *path)
{
    const struct halo_problem *problem = &solver->settings.problem;
    struct halo_picture picture = {0};
    struct failure why = {""};
    size_t line_bytes = 0;
    float *row = malloc((size_t)problem->columns * sizeof *row);

    if (row == NULL || !halo_picture_size(problem, &picture))
        snprintf(why.text, sizeof why.text, "no memory for a picture");
    else
        line_bytes = (size_t)picture.columns * 3;
    if (picture.points != NULL)
        memset(picture.points, 0, (size_t)picture.rows * line_bytes);
    for (int line = 0; why.text[0] == '\0' && line < picture.rows; line++) {
        int at = halo_picture_row(problem, &picture, line) - solver->first;

        if (at < 0 || at >= solver->rows)
            continue;
        if (solver->work->fetch(solver, at, 1, row, &why) == 0)
            halo_picture_line(problem, &picture, row,
                              picture.points + (size_t)line * line_bytes);
    }
    free(row);
    if (agree(solver->comm, &why)) {
        /* Each line is 0 but on the rank that has it. */
        MPI_Reduce(solver->rank == 0 ? MPI_IN_PLACE : picture.points,
                   picture.points, picture.rows * (int)line_bytes,
                   MPI_UNSIGNED_CHAR, MPI_BOR, 0, solver->comm);
        if (solver->rank == 0)
            halo_picture_write(path, &picture, &why);
        free(picture.points);
        return agree(solver->comm, &why);
    }
    free(picture.points);
    return false;
}

/* All runs of one size on one communicator; the fastest one's result. */
static bool solve(MPI_Comm comm, const struct halo_options *options,
                  const struct halo_settings *settings, double alone,
                  struct halo_result *best)
{
    struct halo_solver solver;
    struct halo_result result;
    struct failure why = {""};
    bool good = solver_open(&solver, comm, settings);

    if (!good)
        return false;
    if (solver.rank == 0)
        halo_show_head(&solver);
    good = warm(&solver, options);
    if (good && options->publish != NULL && comm == MPI_COMM_WORLD) {
        halo_publish(&solver, options->publish, &why);
        good = agree(solver.comm, &why);
    }
    for (int i = 0; good && i < options->repeat; i++) {
        good = run(&solver, options, &result);
        if (!good)
            break;
        if (alone > 0)
            result.efficient = alone / (result.seconds * result.ranks);
        if (solver.rank == 0)
            halo_show(&result);
        if (!right(&result))
            snprintf(why.text, sizeof why.text,
                     "WRONG: too far from the known field");
        good = agree(solver.comm, &why);
        if (i == 0 || result.seconds < best->seconds)
            *best = result;
    }
    if (good && options->png != NULL && comm == MPI_COMM_WORLD)
        good = draw(&solver, options->png);
    solver_close(&solver, &why);
    /* On the other ranks it may have worked. */
    return agree(comm, &why) && good;
}

/* Rank 0 alone, if asked for, then everybody; the bits must be the same. */
static bool solve_size(int rank, const struct halo_options *options, int size)
{
    struct halo_settings settings = options->settings;
    struct halo_result alone, together;
    struct failure why = {""};

    memset(&alone, 0, sizeof alone);
    settings.problem.rows = options->rows[size];
    settings.problem.columns = options->columns[size];
    if (options->alone) {
        if (rank == 0 && !solve(MPI_COMM_SELF, options, &settings, 0, &alone))
            snprintf(why.text, sizeof why.text, "the run of one rank failed");
        if (!agree(MPI_COMM_WORLD, &why))
            return false;
        MPI_Bcast(&alone, sizeof alone, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    if (!solve(MPI_COMM_WORLD, options, &settings, alone.seconds, &together))
        return false;
    if (options->alone && alone.crc != together.crc)
        snprintf(why.text, sizeof why.text,
                 "WRONG: crc %08" PRIx32 " of one rank, %08" PRIx32 " of all",
                 alone.crc, together.crc);
    return agree(MPI_COMM_WORLD, &why);
}

/* With all variants of the kernel, if asked for and if there are any. */
static bool solve_variants(int rank, struct halo_options *options, int size)
{
    if (!options->all_variants || halo_gpu_variant == NULL)
        return solve_size(rank, options, size);
    for (int i = 0; halo_gpu_variant(i) != NULL; i++) {
        options->settings.variant = halo_gpu_variant(i);
        if (!solve_size(rank, options, size))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct halo_options options;
    int level, rank;
    bool good;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    good = halo_options_read(argc, argv, rank, &options);
    if (!good || options.help) {
        MPI_Finalize();
        return good ? 0 : 2;
    }
    for (int size = 0; good && size < options.sizes; size++)
        good = solve_variants(rank, &options, size);
    MPI_Finalize();
    return good ? 0 : 1;
}
