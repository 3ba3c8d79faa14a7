/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench: measures Wharf on this machine.
 *
 * Exit code 0 when all data was right, however long it took; 1 when not, or
 * when a call failed; 2 for a usage error.
 */
#include "wharf_bench.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "wharf-bench";

static const char usage[] =
    "usage: mpirun -n RANKS wharf-bench COMMAND [options]\n"
    "\n"
    "  attach          attach, attach from the pool, detach\n"
    "  sync            barrier, notify and event between the ranks\n"
    "  copy            put, get, strided put, put with notify to the next "
    "rank;\n"
    "                  without --sizes of 2m,64m,256m\n"
    "  exchange        neighbour exchange between pairs of ranks, both ways;\n"
    "                  without --sizes of 2m,64m,256m\n"
    "  ring            a ring's slot from rank 0 to 1, 2, ... consumers;\n"
    "                  slots of the first of --sizes\n"
    "  zero-copy       host memory used by kernels in place, beside copies;\n"
    "                  without --sizes of 2m,64m,256m\n"
    "  worker          messages to a worker and back; from a fault in it to\n"
    "                  the next one's answer\n"
    "\n"
    "  --sizes LIST    bytes of each rank's segment, comma separated, with k, "
    "m, g\n"
    "                  (1024-based); default 2m,64m,256m,1g,4g\n"
    "  --rounds N      measured rounds, default 15\n"
    "  --warmup N      rounds before them, default 2\n"
    "  --space SPACE   device (default) or host\n"
    "  --json          JSON instead of tables\n"
    "  --help          this text\n"
    "\n"
    "Everything else is set by Wharf's environment variables, see\n"
    "wharf-info --environment.\n";

struct command {
    const char *name;
    int (*run)(struct bench *bench);
    int sizes; /* how many of the default ones, 0: all */
};

static const struct command commands[] = {
    {"attach", bench_attach, 0}, {"sync", bench_sync, 0},
    {"copy", bench_copy, 3},     {"exchange", bench_exchange, 3},
    {"ring", bench_ring, 1},     {"zero-copy", bench_zero_copy, 3},
    {"worker", bench_worker, 1}};

/* A number with an optional k, m or g at its end, up to `most`. */
static bool parse_number(const char *text, size_t length, uint64_t least,
                         uint64_t most, uint64_t *number)
{
    char digits[32], *end;
    uint64_t value, unit = 1;

    if (length == 0 || length >= sizeof digits ||
        !isdigit((unsigned char)text[0]))
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    errno = 0;
    value = strtoull(digits, &end, 10);
    if (tolower((unsigned char)*end) == 'k')
        unit = UINT64_C(1) << 10;
    else if (tolower((unsigned char)*end) == 'm')
        unit = UINT64_C(1) << 20;
    else if (tolower((unsigned char)*end) == 'g')
        unit = UINT64_C(1) << 30;
    if (errno != 0 || end[unit != 1] != '\0' || value > most / unit ||
        value * unit < least)
        return false;
    *number = value * unit;
    return true;
}

static bool parse_sizes(const char *text, struct bench_options *options)
{
    options->size_count = 0;
    while (options->size_count < BENCH_SIZES) {
        size_t length = strcspn(text, ",");

        if (!parse_number(text, length, 8, UINT64_C(1) << 50,
                          &options->sizes[options->size_count]))
            return false;
        options->size_count++;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
    return false;
}

/* One option with a value. */
static bool parse_option(const char *name, const char *value,
                         struct bench_options *options)
{
    uint64_t number = 0;

    if (strcmp(name, "--sizes") == 0)
        return parse_sizes(value, options);
    if (strcmp(name, "--space") == 0) {
        options->space =
            strcmp(value, "host") == 0 ? WHARF_SPACE_HOST : WHARF_SPACE_DEVICE;
        return strcmp(value, "host") == 0 || strcmp(value, "device") == 0;
    }
    if (!parse_number(value, strlen(value), 0, 1000000, &number))
        return false;
    if (strcmp(name, "--rounds") == 0 && number > 0)
        options->rounds = (int)number;
    else if (strcmp(name, "--warmup") == 0)
        options->warmup = (int)number;
    else
        return false;
    return true;
}

/* NULL with `problem` filled, or the command. "" in `problem`: help. */
static const struct command *parse(int argc, char **argv,
                                   struct bench_options *options, char *problem,
                                   size_t capacity)
{
    const struct command *command = NULL;

    problem[0] = '\0';
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return NULL;
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            command = &commands[i];
    if (command == NULL) {
        snprintf(problem, capacity, "%s",
                 argc > 1 ? "unknown command" : "no command");
        return NULL;
    }
    if (command->sizes > 0)
        options->size_count = command->sizes;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options->json = true;
        } else if (i + 1 < argc &&
                   parse_option(argv[i], argv[i + 1], options)) {
            i++;
        } else {
            snprintf(problem, capacity, "unknown or unusable option '%s%s%s'",
                     argv[i], i + 1 < argc ? " " : "",
                     i + 1 < argc ? argv[i + 1] : "");
            return NULL;
        }
    }
    return command;
}

/* Large enough that every size measured is kept, unless the user says what the
 * pool holds. */
#define POOL_BYTES ((size_t)64 << 30)

static int run(const struct command *command, struct bench *bench)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    int failed, any, code;

    if (getenv("WHARF_POOL_BYTES") == NULL)
        options.pool_bytes = POOL_BYTES;

    failed =
        wharf_node_open(MPI_COMM_WORLD, &options, &bench->node) != WHARF_OK;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed)
        tool_report_once(program, bench->rank);
    code = any ? 1 : command->run(bench);
    if (bench->node != NULL && wharf_node_close(&bench->node) != WHARF_OK)
        code = tool_report_once(program, bench->rank);
    return code;
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .options = {.sizes = {UINT64_C(2) << 20, UINT64_C(64) << 20,
                              UINT64_C(256) << 20, UINT64_C(1) << 30,
                              UINT64_C(4) << 30},
                    .size_count = 5,
                    .rounds = 15,
                    .warmup = 2,
                    .space = WHARF_SPACE_DEVICE}};
    char problem[256];
    const struct command *command =
        parse(argc, argv, &bench.options, problem, sizeof problem);
    int code;

    /* A worker of the command `worker` is no rank. */
    if (argc > 1 && strcmp(argv[1], "worker-child") == 0)
        return bench_worker_child();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.size);
    bench.progress = bench.rank == 0 && tool_terminal();
    if (command != NULL) {
        code = run(command, &bench);
    } else if (problem[0] == '\0') {
        code = 0;
        if (bench.rank == 0)
            fputs(usage, stdout);
    } else {
        code = 2;
        if (bench.rank == 0)
            fprintf(stderr, "%s: %s\n%s", program, problem, usage);
    }
    code |= tool_flush(program);
    MPI_Finalize();
    return code;
}
