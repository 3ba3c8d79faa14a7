/* SPDX-License-Identifier: MIT */
/* Tables and JSON of wharf-bench. */
#include "wharf_bench_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One more than asked for, so that there is a first one to know the samples. */
struct bench_row *bench_rows_new(int count, int rounds)
{
    size_t rows = (size_t)count + 1, each = (size_t)rounds;
    struct bench_row *made = tool_alloc(rows, sizeof *made);
    double *samples = tool_alloc(rows * each, sizeof *samples);

    for (size_t i = 0; i < rows; i++)
        made[i].samples = samples + i * each;
    return made;
}

void bench_rows_free(struct bench_row *rows)
{
    free(rows[0].samples);
    free(rows);
}

void bench_row_finish(struct bench_row *row)
{
    int n = row->rounds;
    int last = (n * 99 + 99) / 100 - 1; /* rank of the 99th percentile */

    if (n == 0)
        return;
    qsort(row->samples, (size_t)n, sizeof *row->samples, by_value);
    row->least = row->samples[0];
    row->median = (row->samples[(n - 1) / 2] + row->samples[n / 2]) / 2;
    row->p99 = row->samples[last];
}

/* No figure is better than one of nothing. */
static const char *left_out(const struct bench_row *row)
{
    if (row->failure[0] != '\0')
        return row->failure;
    return row->rounds == 0 ? "not measured" : NULL;
}

double bench_row_rate(const struct bench_row *row)
{
    if (row->median <= 0)
        return 0;
    return (row->moves ? (double)row->bytes : 1e6) / row->median / 1e3;
}

static const char *rate_unit(const struct bench_row *row)
{
    return row->moves ? "GB/s" : "k/s";
}

static void table_head(const struct bench_row *row)
{
    char unit[16];

    snprintf(unit, sizeof unit, "(%s)", rate_unit(row));
    printf("#\n# op %s\n", row->op);
    printf("#%12s  %10s %10s %10s %9s %6s %6s%s\n", "bytes", "min", "med",
           "p99", "rate", "bad", "kept",
           row->paired ? "  pair  path, mechanism" : "");
    printf("#%12s  %10s %10s %10s %9s %6s %6s\n", "(B)", "(us)", "(us)", "(us)",
           unit, "(B)", "");
}

static void rows_text(const struct bench_row *rows, int count)
{
    const char *op = "";

    for (int i = 0; i < count; i++) {
        const struct bench_row *row = &rows[i];

        if (strcmp(op, row->op) != 0) {
            op = row->op;
            table_head(row);
        }
        if (left_out(row) != NULL) {
            printf("# %" PRIu64 " left out: %s\n", row->bytes, left_out(row));
            continue;
        }
        printf(" %12" PRIu64 "  %10.2f %10.2f %10.2f %9.2f ", row->bytes,
               row->least, row->median, row->p99, bench_row_rate(row));
        printf("%6" PRIu64 " %6d", row->bad, row->reused);
        if (row->paired)
            printf("  %d-%d  %s, %s", row->from, row->to, row->path,
                   row->mechanism);
        putchar('\n');
    }
}

static void text_or_null(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    if (text == NULL)
        printf("null");
    else
        tool_json_string(stdout, text);
}

/* The same members in every row, null where there is nothing to say. */
static void row_json(const struct bench_row *row)
{
    const char *why = left_out(row);

    printf("{\"op\": \"%s\", \"bytes\": %" PRIu64 ", \"rounds\": %d", row->op,
           row->bytes, row->rounds);
    if (why == NULL)
        printf(", \"min_us\": %.3f, \"med_us\": %.3f, \"p99_us\": %.3f, "
               "\"rate\": %.3f",
               row->least, row->median, row->p99, bench_row_rate(row));
    else
        printf(", \"min_us\": null, \"med_us\": null, \"p99_us\": null, "
               "\"rate\": null");
    printf(", \"rate_unit\": \"%s\", \"bad_bytes\": %" PRIu64 ", \"kept\": %d",
           rate_unit(row), row->bad, row->reused);
    if (row->paired)
        printf(", \"from\": %d, \"to\": %d", row->from, row->to);
    else
        printf(", \"from\": null, \"to\": null");
    text_or_null("path", row->paired ? row->path : NULL);
    text_or_null("mechanism", row->paired ? row->mechanism : NULL);
    text_or_null("left_out", why);
    putchar('}');
}

/* What each rank found wrong, together. */
static bool add_up(struct bench_row *rows, int count)
{
    bool good = true;

    for (int i = 0; i < count; i++) {
        MPI_Allreduce(MPI_IN_PLACE, &rows[i].bad, 1, MPI_UINT64_T, MPI_SUM,
                      MPI_COMM_WORLD);
        good = good && rows[i].bad == 0;
    }
    return good;
}

bool bench_report(const struct bench *bench, const char *command,
                  struct bench_row *rows, int count)
{
    bool good = add_up(rows, count);

    bench_head(bench, command);
    if (bench->rank == 0 && bench->options.json) {
        printf(",\n \"results\": [");
        for (int i = 0; i < count; i++) {
            printf("%s\n  ", i == 0 ? "" : ",");
            row_json(&rows[i]);
        }
        printf("],\n \"pass\": %s}\n", good ? "true" : "false");
    } else if (bench->rank == 0) {
        rows_text(rows, count);
        if (bench->more != NULL)
            bench->more(bench->more_of);
        printf("# %s\n", good ? "PASS" : "FAIL");
    }
    return good;
}
