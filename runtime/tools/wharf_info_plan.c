/* SPDX-License-Identifier: MIT */
/*
 * wharf-info --topology FILE.xml --bindings LIST [--placement P]
 *            [--visible LIST/LIST/...] [--device-map LIST] [--refuse-bad]
 * [--json]
 *
 * Plans placement for a machine that need not be here. Uses the public calls
 * only, and is an example of them.
 */
#include "wharf_info_plan.h"
#include "tool_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wharf/topo.h"

#define EXIT_DONE 0
#define EXIT_REFUSED 1
#define EXIT_USAGE 2

/* A file that takes longer is not a topology. */
#define APART_SECONDS 60

typedef struct request {
    const char *topology;
    const char *bindings;
    const char *placement;
    const char *visible;
    const char *device_map;
    bool refuse_bad;
    bool json;
    bool help;
} request;

static const char usage[] =
    "usage: wharf-info --topology FILE.xml --bindings B/B/... [options]\n"
    "\n"
    "Plans which rank uses which GPU on a machine recorded by hwloc.\n"
    "\n"
    "  --topology FILE   XML file written by lstopo; 'here' is this machine\n"
    "  --bindings LIST   one entry a rank, separated by '/': numa:0 or\n"
    "                    numa:0-3,8 (NUMA nodes), cpu:0-15 (CPUs), both by OS\n"
    "                    index; - for a rank that is not bound\n"
    "  --placement P     auto (default), closest, block or round_robin\n"
    "  --visible LIST    one list a rank, separated by '/', as in\n"
    "                    CUDA_VISIBLE_DEVICES with indices in PCI order; - "
    "for\n"
    "                    all, nothing for none\n"
    "  --device-map LIST explicit GPUs, one a rank, separated by ',': index,\n"
    "                    UUID or its start, or PCI id\n"
    "  --refuse-bad      fail where a rank gets no GPU, or one far from it\n"
    "  --json            JSON instead of a table\n"
    "\n"
    "Exit code: 0 planned, 1 no plan for these inputs, 2 wrong arguments.\n";

bool info_plan_wanted(int argc, char **argv)
{
    static const char *const own[] = {"--topology", "--bindings", "--visible"};
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
            size_t length = strlen(own[k]);
            if (!strncmp(argv[i], own[k], length) &&
                (!argv[i][length] || argv[i][length] == '='))
                return true;
        }
    return false;
}

static int complain(const char *what, const char *which)
{
    fprintf(stderr, "wharf-info: %s%s\nTry wharf-info --topology --help\n",
            what, which);
    return EXIT_USAGE;
}

/* "--name value" or "--name=value": the value, or NULL if argv[*at] is another
 * option. A value that is missing is "" with *missing set. */
static const char *value_of(const char *name, int argc, char **argv, int *at,
                            bool *missing)
{
    size_t length = strlen(name);
    if (strncmp(argv[*at], name, length) != 0)
        return NULL;
    if (argv[*at][length] == '=')
        return argv[*at] + length + 1;
    if (argv[*at][length])
        return NULL;
    *missing = *at + 1 >= argc || !strncmp(argv[*at + 1], "--", 2);
    return *missing ? "" : argv[++*at];
}

static int request_read(int argc, char **argv, request *ask)
{
    struct {
        const char *name;
        const char **value;
    } const option[] = {
        {"--topology", &ask->topology},     {"--bindings", &ask->bindings},
        {"--placement", &ask->placement},   {"--visible", &ask->visible},
        {"--device-map", &ask->device_map},
    };

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            ask->help = true;
            return EXIT_DONE;
        }
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        bool missing = false;
        if (!strcmp(argv[i], "--json")) {
            ask->json = true;
            continue;
        }
        if (!strcmp(argv[i], "--refuse-bad")) {
            ask->refuse_bad = true;
            continue;
        }
        for (size_t k = 0; k < sizeof option / sizeof *option && !value; k++) {
            int at = i;
            value = value_of(option[k].name, argc, argv, &at, &missing);
            if (!value)
                continue;
            if (missing)
                return complain("no value for ", argv[i]);
            if (*option[k].value)
                return complain("given twice: ", option[k].name);
            *option[k].value = value;
            i = at;
        }
        if (!value)
            return complain("unknown argument ", argv[i]);
    }
    return EXIT_DONE;
}

static bool placement_read(const char *name, wharf_placement *placement)
{
    for (int p = WHARF_PLACEMENT_AUTO; p <= WHARF_PLACEMENT_ROUND_ROBIN; p++)
        if (!strcmp(name, wharf_placement_name((wharf_placement)p))) {
            *placement = (wharf_placement)p;
            return true;
        }
    return false;
}

static int entries_of(const char *text, char separator)
{
    int count = 1;
    for (; *text; text++)
        count += *text == separator;
    return count;
}

static int refused(void)
{
    tool_report("wharf-info");
    return EXIT_REFUSED;
}

static int plan_and_print(const request *ask, int ranks,
                          const wharf_binding *bindings,
                          const wharf_plan_options *options)
{
    bool here = !strcmp(ask->topology, "here");
    wharf_topo *topo = NULL;
    wharf_plan *plan = NULL;
    int code = EXIT_DONE;

    if (wharf_topo_load(here ? NULL : ask->topology, &topo) != WHARF_OK)
        return refused();
    if (wharf_plan_make(topo, ranks, bindings, options, &plan) != WHARF_OK ||
        wharf_plan_print(plan, stdout,
                         ask->json ? WHARF_FORMAT_JSON : WHARF_FORMAT_TEXT) !=
            WHARF_OK)
        code = refused();
    wharf_plan_free(&plan);
    wharf_topo_free(&topo);
    return code;
}

/*
 * In a process of its own, because hwloc has bugs that a damaged file can
 * reach: then the file is to blame, and this process lives to say so. There is
 * no CUDA and no MPI in this program when it plans offline, so fork is safe.
 */
static int plan_apart(const request *ask, int ranks,
                      const wharf_binding *bindings,
                      const wharf_plan_options *options)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child < 0)
        return plan_and_print(ask, ranks, bindings, options);
    if (child == 0) {
        int code;
        alarm(APART_SECONDS);
        code = plan_and_print(ask, ranks, bindings, options);
        fflush(NULL);
        _exit(code);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_REFUSED;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr,
            "wharf-info: reading %s ended with signal %d: the file is broken "
            "in a way that hwloc does not survive\n",
            ask->topology, WTERMSIG(status));
    return EXIT_REFUSED;
}

int info_plan(int argc, char **argv)
{
    static wharf_binding bindings[WHARF_MAX_RANKS];
    wharf_plan_options options = WHARF_PLAN_OPTIONS_INIT;
    request ask = {0};
    int ranks = 0;
    int code = request_read(argc, argv, &ask);

    if (code != EXIT_DONE)
        return code;
    if (ask.help) {
        fputs(usage, stdout);
        return EXIT_DONE;
    }
    if (!ask.topology || !ask.bindings)
        return complain(ask.topology ? "--bindings" : "--topology",
                        " is missing");
    /* Failures are printed here, once, unless the user wants the log. */
    setenv("WHARF_LOG", "none", 0);
    if (ask.placement && !placement_read(ask.placement, &options.placement))
        return complain("unknown placement ", ask.placement);
    if (wharf_binding_parse(ask.bindings, bindings, WHARF_MAX_RANKS, &ranks) !=
        WHARF_OK) {
        refused();
        return EXIT_USAGE;
    }
    if (ask.visible && entries_of(ask.visible, '/') != ranks)
        return complain("--visible needs one list for each entry of ",
                        "--bindings");
    if (ask.device_map && entries_of(ask.device_map, ',') != ranks)
        return complain("--device-map needs one GPU for each entry of ",
                        "--bindings");
    options.device_map = ask.device_map;
    options.visible = ask.visible;
    options.refuse_bad = ask.refuse_bad;
    return plan_apart(&ask, ranks, bindings, &options);
}
