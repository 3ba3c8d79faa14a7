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

/* Decimal GB/s. */
static double row_rate(const struct bench_row *row)
{
    return (double)row->bytes / row->median / 1e3;
}

static const char *backend_name(const struct bench *bench)
{
    return wharf_node_backend(bench->node) == WHARF_BACKEND_CUDA ? "cuda"
                                                                 : "host";
}

static const char *space_name(const struct bench *bench)
{
    return bench->options.space == WHARF_SPACE_HOST ? "host" : "device";
}

/* This rank's place, as a line of the header or a JSON object. */
static char *describe_rank(const struct bench *bench)
{
    wharf_device device = {.struct_size = sizeof device};
    struct tool_machine machine;
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL)
        return NULL;
    tool_machine_fill(&machine);
    if (wharf_node_device(bench->node, wharf_node_rank(bench->node), &device) !=
        WHARF_OK)
        device.gpu = -1;
    if (bench->options.json) {
        fprintf(file, "{\"rank\": %d, \"host\": ", bench->rank);
        tool_json_string(file, machine.host);
        fprintf(file, ", \"cpus\": ");
        tool_json_string(file, machine.cpus);
        fprintf(file,
                ", \"gpu_index\": %d, \"pci\": \"%s\", \"name\": ", device.gpu,
                device.pci);
        tool_json_string(file, device.name);
        fprintf(file, ", \"distance\": %d, \"owner\": %d, \"driver\": ",
                device.distance, device.owner);
        tool_json_string(file, machine.driver);
        fputc('}', file);
    } else if (device.gpu < 0) {
        fprintf(file, "# rank %d  host %s  cpus %s  no gpu\n", bench->rank,
                machine.host, machine.cpus);
    } else {
        fprintf(file, "# rank %d  host %s  cpus %s  gpu %d %s %s  ",
                bench->rank, machine.host, machine.cpus, device.gpu, device.pci,
                device.name);
        fprintf(file, "distance %d  owner %d%s%s\n", device.distance,
                device.owner, machine.driver[0] == '\0' ? "" : "  driver ",
                machine.driver);
    }
    fclose(file);
    return text;
}

static void head_text(const struct bench *bench, const char *command)
{
    const struct bench_options *o = &bench->options;
    char mpi[128];

    tool_mpi_name(mpi, sizeof mpi);
    printf("# wharf-bench %s  wharf %d.%d.%d  %s\n", command,
           wharf_version() / 10000, wharf_version() / 100 % 100,
           wharf_version() % 100, mpi);
    printf("# backend %s  space %s  ranks %d  gpus of this node %d\n",
           backend_name(bench), space_name(bench), bench->size,
           wharf_node_gpus(bench->node));
    printf("# warmup %d  rounds %d, sizes interleaved; time of the slowest "
           "rank\n",
           o->warmup, o->rounds);
    printf("# bytes: each rank's segment; 1 GB = 1e9 bytes; bad: %s\n",
           bench->checked);
}

static void rows_text(const struct bench_row *rows, int count)
{
    const char *op = "";

    for (int i = 0; i < count; i++) {
        const struct bench_row *row = &rows[i];

        if (strcmp(op, row->op) != 0) {
            op = row->op;
            printf("#\n# op %s\n", op);
            printf("#%12s  %10s %10s %10s %9s %6s %6s\n", "bytes", "min", "med",
                   "p99", "rate", "bad", "kept");
            printf("#%12s  %10s %10s %10s %9s %6s %6s\n", "(B)", "(us)", "(us)",
                   "(us)", "(GB/s)", "(B)", "");
        }
        if (row->failure[0] != '\0') {
            printf("# %" PRIu64 " left out: %s\n", row->bytes, row->failure);
            continue;
        }
        printf(" %12" PRIu64 "  %10.2f %10.2f %10.2f ", row->bytes, row->least,
               row->median, row->p99);
        if (row->moves)
            printf("%9.2f ", row_rate(row));
        else
            printf("%9s ", "-");
        printf("%6" PRIu64 " %6d\n", row->bad, row->reused);
    }
}

static void head_json(const struct bench *bench, const char *command)
{
    char mpi[128];

    tool_mpi_name(mpi, sizeof mpi);
    printf("{\"program\": \"wharf-bench\", \"command\": \"%s\", ", command);
    printf("\"wharf\": \"%d.%d.%d\", \"mpi\": ", wharf_version() / 10000,
           wharf_version() / 100 % 100, wharf_version() % 100);
    tool_json_string(stdout, mpi);
    printf(",\n \"backend\": \"%s\", \"space\": \"%s\", \"size\": %d, ",
           backend_name(bench), space_name(bench), bench->size);
    printf("\"gpus\": %d, \"warmup\": %d, \"rounds\": %d, \"checked\": ",
           wharf_node_gpus(bench->node), bench->options.warmup,
           bench->options.rounds);
    tool_json_string(stdout, bench->checked);
    printf(",\n \"ranks\": [\n  ");
}

static void row_json(const struct bench_row *row)
{
    printf("{\"op\": \"%s\", \"bytes\": %" PRIu64, row->op, row->bytes);
    if (row->failure[0] != '\0') {
        printf(", \"left_out\": ");
        tool_json_string(stdout, row->failure);
        printf("}");
        return;
    }
    printf(", \"rounds\": %d, \"min_us\": %.3f, \"med_us\": %.3f, "
           "\"p99_us\": %.3f",
           row->rounds, row->least, row->median, row->p99);
    if (row->moves)
        printf(", \"rate_gb_per_s\": %.3f", row_rate(row));
    else
        printf(", \"rate_gb_per_s\": null");
    printf(", \"bad_bytes\": %" PRIu64 ", \"kept\": %d}", row->bad,
           row->reused);
}

bool bench_report(const struct bench *bench, const char *command,
                  const struct bench_row *rows, int count)
{
    char *mine = describe_rank(bench);
    int ranks = 0, good = 1;
    char *all = tool_gather(MPI_COMM_WORLD, mine == NULL ? "" : mine, &ranks);

    for (int i = 0; i < count; i++)
        good &= rows[i].bad == 0;
    if (bench->rank == 0 && bench->options.json) {
        head_json(bench, command);
        tool_print_all(all, ranks, ",\n  ");
        printf("],\n \"results\": [");
        for (int i = 0; i < count; i++) {
            printf("%s\n  ", i == 0 ? "" : ",");
            row_json(&rows[i]);
        }
        printf("],\n \"pass\": %s}\n", good ? "true" : "false");
    } else if (bench->rank == 0) {
        head_text(bench, command);
        tool_print_all(all, ranks, "");
        rows_text(rows, count);
        printf("# %s\n", good ? "PASS" : "FAIL");
    }
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(mine);
    free(all);
    return good;
}
