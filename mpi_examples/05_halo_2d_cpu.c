/* SPDX-License-Identifier: MIT */
/* 05_halo_2d on the CPU: the rows at the edges first, then the inner ones
 * while the exchange is on its way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "05_halo_2d.h"

bool halo_failed(wharf_status status, struct failure *why)
{
    wharf_error error;
    char text[WHARF_MAX_ERROR_TEXT + 1];

    if (status == WHARF_OK)
        return false;
    wharf_last_error(&error);
    wharf_error_format(&error, text, sizeof text);
    snprintf(why->text, sizeof why->text, "%.*s", (int)sizeof why->text - 1,
             text);
    return true;
}

struct cpu {
    double *sums[2]; /* of each row */
};

static float *row_of(const struct halo_solver *solver, int array, int row)
{
    return solver->field[array] + (size_t)(row + 1) * solver->pitch;
}

static void cpu_close(struct halo_solver *solver)
{
    struct cpu *cpu = solver->own;

    if (cpu == NULL)
        return;
    free(cpu->sums[0]);
    free(cpu->sums[1]);
    free(cpu);
    solver->own = NULL;
}

static int cpu_open(struct halo_solver *solver, struct failure *why)
{
    struct cpu *cpu = calloc(1, sizeof *cpu);

    solver->own = cpu;
    for (int i = 0; cpu != NULL && i < 2; i++)
        cpu->sums[i] = calloc((size_t)solver->rows, sizeof *cpu->sums[i]);
    if (cpu == NULL || cpu->sums[0] == NULL || cpu->sums[1] == NULL) {
        snprintf(why->text, sizeof why->text, "no memory for the sums of rows");
        cpu_close(solver);
        return -1;
    }
    return 0;
}

static int cpu_load(struct halo_solver *solver, struct failure *why)
{
    const struct halo_problem *problem = &solver->settings.problem;

    (void)why;
    for (int row = -1; row <= solver->rows; row++) {
        int whole = (solver->first + row + problem->rows) % problem->rows;

        halo_start_row(problem, whole, row_of(solver, 0, row));
        memcpy(row_of(solver, 1, row), row_of(solver, 0, row),
               (size_t)problem->columns * sizeof(float));
    }
    return 0;
}

static void step_row(const struct halo_solver *solver, int row)
{
    int to = (int)(solver->round % 2);

    halo_row_step(row_of(solver, 1 - to, row - 1), row_of(solver, 1 - to, row),
                  row_of(solver, 1 - to, row + 1), row_of(solver, to, row),
                  solver->settings.problem.columns);
}

static int cpu_step(struct halo_solver *solver, struct failure *why)
{
    step_row(solver, 0);
    if (solver->rows > 1)
        step_row(solver, solver->rows - 1);
    if (halo_failed(wharf_exchange_start(solver->exchange, NULL), why))
        return -1;
    for (int row = 1; row < solver->rows - 1; row++)
        step_row(solver, row);
    if (halo_failed(wharf_exchange_finish(solver->exchange, NULL), why))
        return -1;
    solver->round++;
    return 0;
}

static int cpu_advance(struct halo_solver *solver, int count, int slot,
                       struct failure *why)
{
    struct cpu *cpu = solver->own;
    int last;

    for (int i = 0; i < count; i++)
        if (cpu_step(solver, why) != 0)
            return -1;
    last = (int)((solver->round + 1) % 2);
    for (int row = 0; row < solver->rows; row++)
        cpu->sums[slot][row] = halo_row_sum(row_of(solver, 1 - last, row),
                                            row_of(solver, last, row),
                                            solver->settings.problem.columns);
    return 0;
}

static int cpu_sums(struct halo_solver *solver, int slot, double *sums,
                    struct failure *why)
{
    struct cpu *cpu = solver->own;

    (void)why;
    memcpy(sums, cpu->sums[slot], (size_t)solver->rows * sizeof *sums);
    return 0;
}

static int cpu_wait(struct halo_solver *solver, struct failure *why)
{
    (void)solver;
    (void)why;
    return 0;
}

static int cpu_fetch(struct halo_solver *solver, int row, int rows, float *to,
                     struct failure *why)
{
    size_t columns = (size_t)solver->settings.problem.columns;
    int last = (int)((solver->round + 1) % 2);

    (void)why;
    for (int i = 0; i < rows; i++)
        memcpy(to + (size_t)i * columns, row_of(solver, last, row + i),
               columns * sizeof(float));
    return 0;
}

static void cpu_describe(const struct halo_solver *solver, char *text,
                         size_t size)
{
    (void)solver;
    snprintf(text, size, "CPU, mode exchange");
}

const struct halo_work halo_cpu = {"CPU",    cpu_open,    cpu_close,
                                   cpu_load, cpu_advance, cpu_sums,
                                   cpu_wait, cpu_fetch,   cpu_describe};
