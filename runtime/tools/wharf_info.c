/* SPDX-License-Identifier: MIT */
/*
 * wharf-info: what Wharf makes of the machine and the job it runs in. Alone it
 * shows one rank; under mpirun all of them, on all hosts. With --topology it
 * plans offline for a recorded machine (wharf_info_plan.c) and needs no MPI.
 *
 * Exit code 0; 1 when a node could not be opened; 2 for a usage error.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool_text.h"
#include "wharf/wharf.h"
#include "wharf_info_plan.h"
#include "wharf_info_rank.h"

static const char program[] = "wharf-info";

static const char usage[] =
    "usage: wharf-info [--json]\n"
    "       mpirun -n RANKS wharf-info [--json]\n"
    "       wharf-info --topology FILE.xml --bindings LIST [...]\n"
    "       wharf-info --environment | --version | --help\n"
    "\n"
    "Shows how Wharf sees this machine and this job: ranks, GPUs, which rank\n"
    "uses and owns which GPU, by which path ranks reach each other and why,\n"
    "kinds of handles, versions.\n"
    "\n"
    "  --json         for programs: an object with one object a rank in a\n"
    "                 list \"ranks\", and one a host in a list \"nodes\"\n"
    "  --topology     plan offline for a recorded machine; see\n"
    "                 wharf-info --topology --help\n"
    "  --environment  the environment variables that Wharf reads\n"
    "  --version      the version of Wharf\n"
    "  --help         this text\n";

struct info {
    wharf_node *node;
    int rank, size;   /* in MPI_COMM_WORLD */
    MPI_Comm leaders; /* node rank 0 of every node, else MPI_COMM_NULL */
    char *cpus;       /* there: of each rank of the node, as tool_gather */
    struct tool_machine machine;
};

static void print_most(size_t bytes, FILE *file)
{
    if (bytes == SIZE_MAX)
        fprintf(file, "%14s", "any size");
    else if (bytes == 0)
        fprintf(file, "%14s", "none");
    else
        fprintf(file, "%10zu KiB", bytes >> 10);
}

/* Which sizes are copied by kernels; the rest goes by the copy engines. */
static void print_copies(const wharf_node *node, FILE *file)
{
    static const char *const names[] = {"within a GPU", "between GPUs",
                                        "with host memory"};

    if (wharf_node_backend(node) != WHARF_BACKEND_CUDA)
        return;
    fprintf(file, "\ncopies by kernel up to     plain   with notify\n");
    for (int between = 0; between < 3; between++) {
        fprintf(file, "%-18s", names[between]);
        for (int notify = 0; notify < 2; notify++) {
            size_t most = 0;

            wharf_ignore(wharf_copy_kernel_most(
                node, (wharf_copy_between)between, notify, &most));
            print_most(most, file);
        }
        fputc('\n', file);
    }
}

/* This rank's object, or its node's description, in memory. */
static char *describe(const struct info *info, bool node, wharf_format format)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    wharf_status status;

    if (file == NULL)
        return NULL;
    if (node && format == WHARF_FORMAT_TEXT)
        fprintf(file, "host %s, %s\n", info->machine.host,
                info->machine.kernel);
    if (node && format == WHARF_FORMAT_TEXT && info->machine.driver[0] != '\0')
        fprintf(file, "NVIDIA driver %s\n", info->machine.driver);
    if (node && format == WHARF_FORMAT_TEXT && info->cpus != NULL)
        info_cpus_text(info->cpus, wharf_node_size(info->node), file);
    status = node
                 ? wharf_node_print(info->node, file, format)
                 : info_rank_json(info->node, &info->machine, info->rank, file);
    if (node && format == WHARF_FORMAT_TEXT)
        print_copies(info->node, file);
    if (fclose(file) != 0 || status != WHARF_OK) {
        free(text);
        return NULL;
    }
    return text;
}

/* Gathers what every rank of `comm` describes and prints it on rank 0. */
static int gather_print(const struct info *info, MPI_Comm comm, bool node,
                        wharf_format format, const char *between)
{
    char *mine = describe(info, node, format);
    int failed = mine == NULL ? tool_report(program) : 0;
    int count = 0;
    char *all = tool_gather(comm, mine == NULL ? "" : mine, &count);

    if (all != NULL)
        tool_print_all(all, count, between);
    free(mine);
    free(all);
    return failed;
}

static void print_head_json(const struct info *info)
{
    char mpi[128], version[16];

    tool_mpi_name(mpi, sizeof mpi);
    printf("{\"wharf\": \"%s\", \"mpi\": ", tool_version(version));
    tool_json_string(stdout, mpi);
    printf(", \"hwloc\": ");
    tool_json_string(stdout, tool_hwloc);
    printf(", \"nvidia_driver\": ");
    tool_json_string(stdout, info->machine.driver);
    printf(", \"size\": %d,\n \"ranks\": [\n  ", info->size);
}

static int show_json(const struct info *info)
{
    int failed;

    if (info->rank == 0)
        print_head_json(info);
    failed =
        gather_print(info, MPI_COMM_WORLD, false, WHARF_FORMAT_JSON, ",\n  ");
    if (info->rank == 0)
        printf("],\n \"nodes\": [\n");
    if (info->leaders != MPI_COMM_NULL)
        failed |=
            gather_print(info, info->leaders, true, WHARF_FORMAT_JSON, ",\n");
    if (info->rank == 0)
        printf("]}\n");
    return failed;
}

static int show_text(struct info *info)
{
    char mpi[128];
    int nodes = 0, count = 0, failed;
    MPI_Comm comm = MPI_COMM_NULL;

    if (wharf_node_communicator(info->node, &comm) != WHARF_OK)
        return tool_report(program);
    info->cpus = tool_gather(comm, info->machine.cpus, &count);
    if (info->leaders == MPI_COMM_NULL)
        return 0;
    MPI_Comm_size(info->leaders, &nodes);
    if (info->rank == 0) {
        tool_mpi_name(mpi, sizeof mpi);
        printf("%s%s%s\n", mpi, tool_hwloc[0] == '\0' ? "" : ", hwloc ",
               tool_hwloc);
        if (nodes > 1)
            printf("%d ranks on %d hosts\n", info->size, nodes);
    }
    failed = gather_print(info, info->leaders, true, WHARF_FORMAT_TEXT,
                          "\n------------------------------------------\n");
    free(info->cpus);
    return failed;
}

static int show(bool json)
{
    struct info info;
    wharf_status status;
    int failed, any;

    memset(&info, 0, sizeof info);
    MPI_Comm_rank(MPI_COMM_WORLD, &info.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &info.size);

    status = wharf_node_open(MPI_COMM_WORLD, NULL, &info.node);
    /* Only now, since opening may bind. */
    tool_machine_fill(&info.machine);
    /* Once a node is enough: its ranks hold the same record. */
    failed = status != WHARF_OK;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed)
        tool_report_once(program, info.rank);
    if (!any) {
        MPI_Comm_split(MPI_COMM_WORLD,
                       wharf_node_rank(info.node) == 0 ? 0 : MPI_UNDEFINED,
                       info.rank, &info.leaders);
        any = json ? show_json(&info) : show_text(&info);
        if (info.leaders != MPI_COMM_NULL)
            MPI_Comm_free(&info.leaders);
    }
    if (info.node != NULL && wharf_node_close(&info.node) != WHARF_OK)
        any = tool_report(program);
    return any;
}

/* "--topology --help" asks for help; it names no file. */
static int plan_offline(int argc, char **argv)
{
    char help[] = "--help";
    char *asked[] = {argv[0], help, NULL};

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], help) == 0)
            return info_plan(2, asked);
    return info_plan(argc, argv);
}

/* What needs no MPI: -1 if the job is to be shown. */
static int run_local(int argc, char **argv, bool *json)
{
    char version[16];

    if (info_plan_wanted(argc, argv))
        return plan_offline(argc, argv);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            *json = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("wharf %s\n", tool_version(version));
            return 0;
        } else if (strcmp(argv[i], "--environment") == 0) {
            return wharf_environment_print(stdout) == WHARF_OK ? 0 : 1;
        } else {
            fprintf(stderr, "wharf-info: unknown option '%s'\n%s", argv[i],
                    usage);
            return 2;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    bool json = false;
    int code = run_local(argc, argv, &json);

    if (code >= 0)
        return code;
    MPI_Init(&argc, &argv);
    code = show(json);
    code |= tool_flush(program);
    MPI_Finalize();
    return code;
}
