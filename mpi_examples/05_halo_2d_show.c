/* SPDX-License-Identifier: MIT */
/* What 05_halo_2d reads from its command line, and what it prints. */
#include "05_halo_2d_show.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: mpirun -n RANKS 05_halo_2d [options]\n"
    "  --size ROWS[xCOLUMNS]  grid, default 1024; may come several times\n"
    "  --iterations N         default 1000\n"
    "  --norm N               residual after every N iterations, default 100\n"
    "  --tolerance X          stop when the residual is below X; the batch of\n"
    "                         iterations that is on its way is finished\n"
    "  --problem laplace|wave a sine at two edges; or a field that is known\n"
    "  --mode auto|exchange|kernel   how edges of the blocks travel\n"
    "  --alone                rank 0 solves it alone first, and is compared\n"
    "  --repeat N             runs, default 1\n"
    "  --png FILE             a picture of the field\n"
    "  --publish NAME         python/viewer.py NAME can look at it\n"
    "  --variant NAME         of the GPU kernel; a wrong one lists them; all\n"
    "  --no-graphs            every GPU kernel launched by itself\n"
    "  --early                launch a step while the last one ends\n";

/* By halo_kind. */
static const char *const kinds[] = {"laplace", "wave"};

static bool whole_number(const char *text, int least, int *number)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > INT_MAX)
        return false;
    *number = (int)value;
    return true;
}

static bool read_size(const char *text, struct halo_options *options)
{
    char rows[32];
    const char *cross = strchr(text, 'x');
    size_t length = cross != NULL ? (size_t)(cross - text) : strlen(text);
    int i = options->sizes;

    if (i == HALO_SIZES_MOST || length >= sizeof rows)
        return false;
    memcpy(rows, text, length);
    rows[length] = '\0';
    if (!whole_number(rows, 1, &options->rows[i]) ||
        !whole_number(cross != NULL ? cross + 1 : rows, 3,
                      &options->columns[i]))
        return false;
    options->sizes++;
    return true;
}

static bool read_tolerance(const char *text, double *tolerance)
{
    char *end;

    *tolerance = strtod(text, &end);
    return end != text && *end == '\0' && *tolerance > 0;
}

static bool read_choice(const char *text, const char *const *names, int count,
                        int *choice)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *choice = i;
            return true;
        }
    }
    return false;
}

static bool read_variant(const char *text, int rank,
                         struct halo_options *options)
{
    options->settings.variant = text;
    if (strcmp(text, "all") == 0) {
        options->all_variants = true;
        return true;
    }
    for (int i = 0; halo_gpu_variant != NULL; i++) {
        const char *name = halo_gpu_variant(i);

        if (name == NULL)
            break;
        if (strcmp(name, text) == 0)
            return true;
        if (rank == 0)
            fprintf(stderr, "%s%s", i == 0 ? "variants: " : " ", name);
    }
    if (rank == 0)
        fprintf(stderr, "\n");
    return false;
}

/* One option with a value; false if the value cannot be used. */
static bool read_value(const char *name, const char *value, int rank,
                       struct halo_options *options)
{
    static const char *const modes[] = {"auto", "exchange", "kernel"};
    int choice = 0;
    bool good;

    if (strcmp(name, "--size") == 0)
        return read_size(value, options);
    if (strcmp(name, "--iterations") == 0)
        return whole_number(value, 1, &options->iterations);
    if (strcmp(name, "--norm") == 0)
        return whole_number(value, 1, &options->norm_every);
    if (strcmp(name, "--repeat") == 0)
        return whole_number(value, 1, &options->repeat);
    if (strcmp(name, "--tolerance") == 0)
        return read_tolerance(value, &options->tolerance);
    if (strcmp(name, "--variant") == 0)
        return read_variant(value, rank, options);
    if (strcmp(name, "--png") == 0) {
        options->png = value;
        return true;
    }
    if (strcmp(name, "--publish") == 0) {
        options->publish = value;
        return true;
    }
    if (strcmp(name, "--problem") == 0) {
        good = read_choice(value, kinds, 2, &choice);
        options->settings.problem.kind = (enum halo_kind)choice;
        return good;
    }
    if (strcmp(name, "--mode") == 0) {
        good = read_choice(value, modes, 3, &choice);
        options->settings.mode = (enum halo_mode)choice;
        return good;
    }
    return false;
}

bool halo_options_read(int argc, char **argv, int rank,
                       struct halo_options *options)
{
    bool good = true;

    memset(options, 0, sizeof *options);
    options->iterations = 1000;
    options->norm_every = 100;
    options->repeat = 1;
    options->settings.graphs = true;
    for (int i = 1; good && i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            options->help = true;
        } else if (strcmp(argv[i], "--alone") == 0) {
            options->alone = true;
        } else if (strcmp(argv[i], "--no-graphs") == 0) {
            options->settings.graphs = false;
        } else if (strcmp(argv[i], "--early") == 0) {
            options->settings.early = true;
        } else {
            good =
                i + 1 < argc && read_value(argv[i], argv[i + 1], rank, options);
            if (!good && rank == 0)
                fprintf(stderr, "05_halo_2d: cannot use %s%s%s\n", argv[i],
                        i + 1 < argc ? " " : "",
                        i + 1 < argc ? argv[i + 1] : "");
            i++;
        }
    }
    if (options->sizes == 0)
        good = good && read_size("1024", options);
    if (rank == 0 && (!good || options->help))
        fputs(usage, good ? stdout : stderr);
    return good;
}

void halo_show_head(const struct halo_solver *solver)
{
    char text[128];

    solver->work->describe(solver, text, sizeof text);
    printf("# %s, float32, %d rank%s: %s\n",
           kinds[solver->settings.problem.kind], solver->ranks,
           solver->ranks == 1 ? "" : "s", text);
    printf("#%7s %8s %5s %7s %11s %9s %9s  %-14s %-8s %s\n", "rows", "columns",
           "ranks", "steps", "seconds", "us/step", "GB/s", "residual", "crc32",
           "");
    fflush(stdout);
}

/* Each step reads and writes the grid once; what caches save counts too. */
void halo_show(const struct halo_result *result)
{
    double step = result->seconds / (double)result->iterations;
    double bytes = 2.0 * sizeof(float) * result->rows * result->columns;

    printf(" %7d %8d %5d %7ld %11.6f %9.2f %9.1f  %.8e %08" PRIx32,
           result->rows, result->columns, result->ranks, result->iterations,
           result->seconds, step * 1e6, bytes / step / 1e9, result->residual,
           result->crc);
    if (result->error >= 0)
        printf("  error %.1e of %.1e", result->error,
               halo_error_bound(result->iterations));
    if (result->efficient > 0)
        printf("  efficiency %.1f %%", result->efficient * 100);
    printf("\n");
    fflush(stdout);
}
