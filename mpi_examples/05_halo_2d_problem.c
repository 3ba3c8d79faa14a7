/* SPDX-License-Identifier: MIT */
/* The problems of 05_halo_2d and the arithmetic that everybody must follow. */
#include <math.h>

#include "05_halo_2d.h"

#define PI 3.14159265358979323846

/* Waves of the known field from the first row round to the first. */
#define WAVES 2

static double row_wave(const struct halo_problem *problem, int row)
{
    return cos(2 * PI * WAVES * row / problem->rows);
}

static double column_wave(const struct halo_problem *problem, int column)
{
    if (column == 0 || column == problem->columns - 1)
        return 0;
    return sin(PI * column / (problem->columns - 1));
}

/* A step multiplies the field by this. */
static double factor(const struct halo_problem *problem)
{
    return (cos(PI / (problem->columns - 1)) +
            cos(2 * PI * WAVES / problem->rows)) /
           2;
}

void halo_start_row(const struct halo_problem *problem, int row, float *to)
{
    int last = problem->columns - 1;

    if (problem->kind == HALO_WAVE) {
        double wave = row_wave(problem, row);

        for (int i = 0; i <= last; i++)
            to[i] = (float)(column_wave(problem, i) * wave);
        return;
    }
    for (int i = 0; i <= last; i++)
        to[i] = 0;
    to[0] = to[last] = (float)sin(2 * PI * row / problem->rows);
}

double halo_row_error(const struct halo_problem *problem, int row,
                      long iterations, const float *values)
{
    double scale, largest = 0;

    if (problem->kind != HALO_WAVE)
        return 0;
    scale = row_wave(problem, row) * pow(factor(problem), (double)iterations);
    for (int i = 0; i < problem->columns; i++) {
        double error = fabs(values[i] - column_wave(problem, i) * scale);

        /* Not a number is as wrong as can be. */
        if (!(error <= largest))
            largest = isnan(error) ? HUGE_VAL : error;
    }
    return largest;
}

double halo_error_bound(long iterations)
{
    return ldexp(1, -24) * (double)(iterations + 1);
}

void halo_row_step(const float *restrict up, const float *restrict row,
                   const float *restrict down, float *restrict to, int columns)
{
    to[0] = row[0];
    for (int i = 1; i < columns - 1; i++)
        to[i] = 0.25f * ((row[i - 1] + row[i + 1]) + (up[i] + down[i]));
    to[columns - 1] = row[columns - 1];
}

enum { LANES = 32, WIDTH = 4 };

/* Of 128 columns or, at the end of the row, less. */
static double group_sum(const float *from, const float *to, int columns)
{
    double lane[LANES] = {0};

    for (int i = 0; i < LANES && i * WIDTH < columns; i++) {
        double square[WIDTH] = {0};

        for (int k = 0; k < WIDTH && i * WIDTH + k < columns; k++) {
            float change = to[i * WIDTH + k] - from[i * WIDTH + k];

            square[k] = (double)change * (double)change;
        }
        lane[i] = (square[0] + square[1]) + (square[2] + square[3]);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

double halo_row_sum(const float *from, const float *to, int columns)
{
    double sum = 0;

    for (int i = 0; i < columns; i += LANES * WIDTH)
        sum += group_sum(from + i, to + i, columns - i);
    return sum;
}
