/* SPDX-License-Identifier: MIT */
/*
 * Placement in a running job: what the ranks see and where they are bound
 * becomes the plan, alike on all of them.
 *
 * Masks, bindings and machines differ by case, and a driver reads them once:
 * each case is a process of its own, argv[1] names it.
 */
#define _GNU_SOURCE
#include "t_group.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo_gen.h"

static wharf_device device_of(const wharf_node *node, int rank)
{
    wharf_device device = WHARF_DEVICE_INIT;

    T_OK(wharf_node_device(node, rank, &device));
    return device;
}

static wharf_link link_of(const wharf_node *node, int a, int b)
{
    wharf_link link = WHARF_LINK_INIT;

    T_OK(wharf_node_link(node, a, b, &link));
    return link;
}

static wharf_node *open_with(const wharf_node_options *options)
{
    wharf_node *node = NULL;

    T_OK(wharf_node_open(MPI_COMM_WORLD, options, &node));
    return node;
}

/* Every line of the plan is the same everywhere, and sharing works. */
static void check_and_close(wharf_node *node)
{
    wharf_buffer *buffer = t_attach(node, 30000 + (size_t)t_me, 0);

    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_device device = device_of(node, rank);
        uint64_t sum = 0;

        for (const char *at = device.uuid; *at != '\0'; at++)
            sum = sum * 131 + (unsigned char)*at;
        for (const char *at = device.reason; *at != '\0'; at++)
            sum = sum * 131 + (unsigned char)*at;
        T_SAME(sum);
        T_SAME(device.distance);
    }
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static void printed(const wharf_node *node, wharf_format format,
                    const char *part)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    T_CHECK(file != NULL);
    T_OK(wharf_node_print(node, file, format));
    T_CHECK(fclose(file) == 0);
    T_CONTAINS(part, text);
    free(text);
}

/* ---- MIG --------------------------------------------------------------- */

/* Masks for `most` different instances, by the shortest start of their UUIDs.
 * Without a mask a process sees one instance only. */
static int instances_find(char (*masks)[8], int most)
{
    char uuids[2][48];
    int found = 0;

    for (int digits = 0; digits < 256 && found < most; digits++) {
        snprintf(masks[found], sizeof masks[found], "MIG-%02x", digits);
        T_CHECK(setenv("CUDA_VISIBLE_DEVICES", masks[found], 1) == 0);
        found += t_driver_list(uuids, 2) == 1;
    }
    return found;
}

static void instance_choose(void)
{
    char masks[3][8];

    T_EQ_INT(2, instances_find(masks, 3));
    T_CHECK(setenv("CUDA_VISIBLE_DEVICES", masks[atoi(t_rank()) % 2], 1) == 0);
}

/* Two instances of one GPU: one PCI id, two UUIDs, nothing but the host
 * between them, and that is said. */
static void mig(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = open_with(NULL);
    wharf_device a = device_of(node, 0), b = device_of(node, 1);
    wharf_buffer *buffer;

    T_EQ_INT(2, wharf_node_gpus(node));
    T_EQ_STR(a.pci, b.pci);
    T_CHECK(strcmp(a.uuid, b.uuid) != 0);
    T_CHECK(strncmp(a.uuid, "MIG-", 4) == 0);
    T_CHECK(strncmp(b.uuid, "MIG-", 4) == 0);
    T_CONTAINS("one visible", a.reason);
    T_EQ_INT(t_me % 2 ? -1 : 0, a.ordinal);
    T_EQ_INT(WHARF_PATH_HOST, link_of(node, 0, 1).path);
    T_CONTAINS("MIG", link_of(node, 1, 0).reason);
    if (t_ranks > 2)
        T_EQ_INT(WHARF_PATH_SAME_GPU, link_of(node, 0, 2).path);
    printed(node, WHARF_FORMAT_TEXT, "these ranks share silicon: 0-");
    printed(node, WHARF_FORMAT_TEXT, "share the silicon");
    printed(node, WHARF_FORMAT_JSON, "\"ranks_of_chip\": [0, 1");
    buffer = t_attach(node, 4096, 0);
    T_EQ_INT(WHARF_HANDLE_MEMFD, t_info(buffer, 1).handle);
    T_CONTAINS("MIG", t_info(buffer, 1).reason);
    t_detach(buffer);
    check_and_close(node);
    options.strict = WHARF_SWITCH_ON;
    node = open_with(&options);
    buffer = NULL;
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEGRADED, -1, "MIG",
            wharf_buffer_attach(node, 4096, NULL, &buffer));
    T_CHECK(buffer == NULL);
    t_close(node);
    t_live_check(NULL);
}

/* ---- GPUs that may not be used ------------------------------------------ */

static void exclusive(void)
{
    wharf_node *node = NULL;

    T_FAILS(MPI_COMM_WORLD, WHARF_ENODEV, 0, "exclusive process",
            wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    T_CHECK(node == NULL);
    t_live_check(NULL);
}

/* Under MPS the GPU's one process is the server. */
static void exclusive_mps(void)
{
    check_and_close(open_with(NULL));
}

/* GPU 0 may not be used by anybody: nobody gets it. */
static void prohibited_one(void)
{
    wharf_node *node = open_with(NULL);

    T_EQ_INT(1, wharf_node_gpus(node));
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_STR("0000:07:00.0", device_of(node, rank).pci);
    T_EQ_INT(1, device_of(node, 0).ordinal);
    check_and_close(node);
}

static void prohibited_all(void)
{
    wharf_node *node = NULL;

    T_FAILS(MPI_COMM_WORLD, WHARF_ENODEV, 0, "prohibited",
            wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    unsetenv("WHARF_BACKEND");
    node = open_with(NULL);
    T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(node));
    T_CONTAINS("prohibited", wharf_node_backend_reason(node));
    check_and_close(node);
}

/* A GPU that is seen and cannot be opened: rank, GPU and the likely cause are
 * named; a map that leaves it out works. */
static void denied(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_error error;
    char map[64] = "0";

    T_FAILS(MPI_COMM_WORLD, WHARF_EDRIVER, t_ranks - 1, "0000:07:00.0",
            wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    wharf_last_error(&error);
    T_CONTAINS("cgroup", error.remedy);
    T_CHECK(node == NULL);
    t_live_check(NULL);
    for (int rank = 1; rank < t_ranks; rank++)
        strcat(map, ",0");
    options.device_map = map;
    check_and_close(open_with(&options));
}

/* ---- Links ------------------------------------------------------------- */

/* The last rank alone sees both GPUs: what its driver tells counts for all. */
static void links_mask(void)
{
    int rank = atoi(t_rank());

    T_CHECK(setenv("CUDA_VISIBLE_DEVICES",
                   rank == 0   ? "0"
                   : rank == 1 ? "1"
                               : "0,1",
                   1) == 0);
}

static void links_merged(void)
{
    wharf_node *node = open_with(NULL);

    T_EQ_INT(2, wharf_node_gpus(node));
    T_EQ_INT(WHARF_PATH_HOST, link_of(node, 0, 1).path);
    T_EQ_INT(WHARF_PATH_HOST, link_of(node, 1, 0).path);
    T_CONTAINS("no peer access", link_of(node, 0, 1).reason);
    check_and_close(node);
}

/* Neighbours in rank order get GPUs with a link between them: four GPUs in two
 * pairs across (0 2, 1 3), one rank each. */
static void links_followed(void)
{
    wharf_node *node = open_with(NULL);

    T_EQ_INT(4, wharf_node_gpus(node));
    T_CHECK(link_of(node, 0, 1).path != WHARF_PATH_HOST);
    T_CHECK(link_of(node, 2, 3).path != WHARF_PATH_HOST);
    T_EQ_INT(WHARF_PATH_HOST, link_of(node, 0, 2).path);
    printed(node, WHARF_FORMAT_TEXT, "GPU to GPU");
    printed(node, WHARF_FORMAT_JSON, "\"gpu_links\": [");
    check_and_close(node);
}

/* ---- Bindings ---------------------------------------------------------- */

/* CPU 0 is socket 0 and CPU 1 is socket 1 of the machine "two-cpus", whose
 * GPUs hang the other way round. Ranks take turns. */
static void two_cpus(void)
{
    static char path[64];
    char *text = t_shape_xml("two-cpus");
    cpu_set_t mask;
    int unable;

    CPU_ZERO(&mask);
    CPU_SET(t_me % 2, &mask);
    unable = sched_setaffinity(0, sizeof mask, &mask) != 0;
    MPI_Allreduce(MPI_IN_PLACE, &unable, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (unable) {
        MPI_Finalize();
        T_SKIP("CPUs 0 and 1 cannot be used here");
    }
    T_CHECK(text != NULL);
    t_file(text, strlen(text), path);
    free(text);
    setenv("HWLOC_XMLFILE", path, 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
}

static void bound(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node;

    two_cpus();
    options.refuse_bad = WHARF_SWITCH_ON;
    node = open_with(&options);
    for (int rank = 0; rank < t_ranks; rank++) {
        T_EQ_STR(rank % 2 ? "0000:06:00.0" : "0000:07:00.0",
                 device_of(node, rank).pci);
        T_EQ_INT(10, device_of(node, rank).distance);
        T_EQ_STR("local", device_of(node, rank).reason);
    }
    check_and_close(node);
}

static void refuse_bad(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    T_EQ_INT(2, t_ranks);
    two_cpus();
    options.device_map = "0,1";
    options.refuse_bad = WHARF_SWITCH_ON;
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEGRADED, 0, "ranks 0-1 are bound far",
            wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_CHECK(node == NULL);
    t_live_check(NULL);
    options.refuse_bad = WHARF_SWITCH_UNSET;
    T_CHECK(setenv("WHARF_REFUSE_BAD", "1", 1) == 0);
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEGRADED, 0, "ranks 0-1 are bound far",
            wharf_node_open(MPI_COMM_WORLD, &options, &node));
    unsetenv("WHARF_REFUSE_BAD");
    node = open_with(&options);
    T_EQ_INT(21, device_of(node, 0).distance);
    T_EQ_STR("forced: device map", device_of(node, 0).reason);
    printed(node, WHARF_FORMAT_TEXT, "bound far from the GPU");
    check_and_close(node);
}

/* Idle GPUs because one rank has none: bad as well. */
static void refuse_bad_mask(void)
{
    if (atoi(t_rank()) == 1)
        T_CHECK(setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0);
}

static void refuse_bad_idle(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    unsetenv("WHARF_BACKEND");
    options.refuse_bad = WHARF_SWITCH_ON;
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEGRADED, 0, "rank 1",
            wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_CHECK(node == NULL);
    options.refuse_bad = WHARF_SWITCH_OFF;
    node = open_with(&options);
    T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(node));
    check_and_close(node);
}

/* Ranks that came unbound are bound, or it is said why not; either way close
 * leaves them as they came. */
static void bind_ranks(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    cpu_set_t before, now, both;
    wharf_node *node;
    int done;

    CPU_ZERO(&before);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        CPU_SET(cpu, &before);
    T_EQ_INT(0, sched_setaffinity(0, sizeof before, &before));
    T_EQ_INT(0, sched_getaffinity(0, sizeof before, &before));
    options.bind = WHARF_SWITCH_ON;
    node = open_with(&options);
    T_EQ_INT(0, sched_getaffinity(0, sizeof now, &now));
    done = strstr(device_of(node, t_me).reason, "was bound near") != NULL;
    CPU_AND(&both, &before, &now);
    T_CHECK(CPU_EQUAL(&both, &now));
    if (!done) {
        T_CHECK(CPU_EQUAL(&before, &now));
        if (CPU_COUNT(&before) == sysconf(_SC_NPROCESSORS_ONLN))
            printed(node, WHARF_FORMAT_TEXT, "could not be bound near");
    }
    check_and_close(node);
    T_EQ_INT(0, sched_getaffinity(0, sizeof now, &now));
    T_CHECK(CPU_EQUAL(&before, &now));
    T_CHECK(setenv("WHARF_BIND", "off", 1) == 0);
    node = open_with(NULL);
    T_CHECK(strstr(device_of(node, t_me).reason, "was bound") == NULL);
    check_and_close(node);
    unsetenv("WHARF_BIND");
}

/* The case, and what its processes must do before the driver is loaded. */
static const t_case cases[] = {
    {"mig", mig, T_FAKE},
    {"exclusive", exclusive, T_FAKE},
    {"exclusive_mps", exclusive_mps, T_FAKE},
    {"prohibited_one", prohibited_one, T_FAKE},
    {"prohibited_all", prohibited_all, T_FAKE},
    {"denied", denied, T_FAKE},
    {"links_merged", links_merged, T_FAKE},
    {"links_followed", links_followed, T_FAKE},
    {"bound", bound, T_FAKE},
    {"refuse_bad", refuse_bad, T_FAKE},
    {"refuse_bad_idle", refuse_bad_idle, T_FAKE},
    {"bind_ranks", bind_ranks, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    if (argc < 2)
        T_FAIL("name a case");
    if (strcmp(argv[1], "mig") == 0)
        instance_choose();
    if (strcmp(argv[1], "links_merged") == 0)
        links_mask();
    if (strcmp(argv[1], "refuse_bad_idle") == 0)
        refuse_bad_mask();
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
