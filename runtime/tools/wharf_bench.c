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
    "Measures Wharf between the ranks of one machine, on its GPUs where there\n"
    "are any. All figures are of the slowest rank; every command checks data.\n"
    "\n"
    "  attach       attach, attach from the pool, detach\n"
    "  barrier      one barrier of all ranks on their streams\n"
    "  notify       a round trip of notifies between rank 0 and the last one\n"
    "  event        the same by events\n"
    "  sync         barrier, notify and event, in turn\n"
    "  latency      every pair of ranks: a round trip of notifies, and a put "
    "of\n"
    "               8 bytes until its receiver may read; path and mechanism\n"
    "  copy         put, get, strided put, put with notify, to the next rank\n"
    "  matrix       put from each rank to each other one, one at a time; and\n"
    "               an exchange of all with all\n"
    "  exchange     neighbour exchange between pairs of ranks, both ways\n"
    "  ring         a slot of a ring from rank 0 to 1, 2, ... consumers\n"
    "  zero-copy    host memory used by kernels in place, beside copies\n"
    "  worker       messages to a worker and back; from a fault in it to the\n"
    "               answer of the next one\n"
    "\n"
    "  --sizes LIST   bytes of each rank's segment, comma separated, with k, "
    "m,\n"
    "                 g for 2^10, 2^20, 2^30; default 2m,64m,256m,1g,4g for\n"
    "                 attach, 2m,64m,256m for copy, exchange and zero-copy,\n"
    "                 2m,64m for matrix; ring (size of a slot) and worker\n"
    "                 take the first, 2m; the others have none\n"
    "  --rounds N     measured rounds, default 15\n"
    "  --warmup N     rounds before them, default 2\n"
    "  --space SPACE  where the memory is: device (default; without GPUs that\n"
    "                 is the host's) or host\n"
    "  --json         JSON instead of tables: the same figures\n"
    "  --spoil        makes a byte wrong before every check, to see that it "
    "is\n"
    "                 found: the run then fails\n"
    "  --help         this text\n"
    "\n"
    "Times in us, rates in GB/s (1e9 bytes) or, for signals, thousands a "
    "second.\n"
    "The last line is PASS when no byte was wrong, else FAIL; no time "
    "decides.\n"
    "Exit code: 0 for PASS; 1 for FAIL or a call that failed; 2 for wrong "
    "usage.\n"
    "Everything else is set by Wharf's environment variables, see\n"
    "wharf-info --environment.\n";

struct command {
    const char *name;
    int (*run)(struct bench *bench);
    int sizes; /* how many of the default ones, 0: all */
};

static const struct command commands[] = {
    {"attach", bench_attach, 0},       {"barrier", bench_barrier, 0},
    {"notify", bench_notify, 0},       {"event", bench_event, 0},
    {"sync", bench_sync, 0},           {"latency", bench_latency, 0},
    {"copy", bench_copy, 3},           {"matrix", bench_matrix, 2},
    {"exchange", bench_exchange, 3},   {"ring", bench_ring, 1},
    {"zero-copy", bench_zero_copy, 3}, {"worker", bench_worker, 1}};

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
        snprintf(problem, capacity, argc > 1 ? "unknown command '%s'" : "%s",
                 argc > 1 ? argv[1] : "no command");
        return NULL;
    }
    if (command->sizes > 0)
        options->size_count = command->sizes;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options->json = true;
        } else if (strcmp(argv[i], "--spoil") == 0) {
            options->spoil = true;
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

/* Figures of several machines in one table would be of neither. */
static bool one_node(const struct bench *bench)
{
    int ranks = wharf_node_size(bench->node), least = 0;

    MPI_Allreduce(&ranks, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (least < bench->size && bench->rank == 0)
        fprintf(stderr,
                "%s: the job's %d ranks are on several nodes; start it on one "
                "(for an exchange between two: scripts/bench.sh hosts)\n",
                program, bench->size);
    return least == bench->size;
}

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
    code = any || !one_node(bench) ? 1 : command->run(bench);
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
            fprintf(stderr, "%s: %s; '%s --help' tells what there is\n",
                    program, problem, program);
    }
    code |= tool_flush(program);
    MPI_Finalize();
    return code;
}
