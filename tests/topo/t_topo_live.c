/* SPDX-License-Identifier: MIT */
/* What the running node asks: facts of this process, a plan for devices of a
 * driver, CPUs near a device, binding to them. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stat.h"
#include "t_test.h"
#include "topo/bits.h"
#include "topo/topo.h"
#include "topo_gen.h"

#define RANKS 4

static wi_topo_rank rank[RANKS];
static wi_topo_line line[RANKS];
static char warnings[4096];

static const wi_topo_device device[] = {
    {"GPU-aaaaaaaa-0000-0000-0000-000000000001", "0000:17:00.0", 0},
    {"GPU-aaaaaaaa-0000-0000-0000-000000000002", "0000:65:00.0", 0},
    {"GPU-aaaaaaaa-0000-0000-0000-000000000003", "0000:ca:00.0", 0},
    {"GPU-aaaaaaaa-0000-0000-0000-000000000004", "0000:e3:00.0", 0},
};

static void self(void)
{
    wi_topo_rank one;
    cpu_set_t mask;

    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    setenv("SLURM_LOCALID", "3", 1);
    wi_topo_rank_self(&one);
    T_EQ_INT(0, sched_getaffinity(0, sizeof mask, &mask));
    T_EQ_INT(CPU_COUNT(&mask), wi_bits_count(one.cpus, WI_TOPO_CPUS / 64));
    T_EQ_INT(CPU_COUNT(&mask) < sysconf(_SC_NPROCESSORS_ONLN), one.bound);
    T_EQ_INT(3, one.local_rank);
    T_EQ_INT(-1, one.listed);
    setenv("SLURM_LOCALID", "3x", 1);
    setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
    wi_topo_rank_self(&one);
    T_EQ_INT(-1, one.local_rank);
    T_EQ_INT(2, one.listed);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    wi_topo_rank_self(&one);
    T_EQ_INT(0, one.listed);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("SLURM_LOCALID");
}

/* Ranks 0 1 on socket 0, ranks 2 3 on socket 1 of the shape "cgroup-cut". */
static void ranks_reset(void)
{
    memset(rank, 0, sizeof rank);
    memset(line, 0, sizeof line);
    for (int r = 0; r < RANKS; r++) {
        rank[r].cpus[0] = UINT64_C(0xff) << (r * 8);
        rank[r].visible = 0xf;
        rank[r].bound = 1;
        rank[r].local_rank = r;
        rank[r].listed = -1;
    }
}

static wharf_status plan(int ranks, const char *map)
{
    return wi_topo_plan_node(ranks, rank, 4, device, NULL, WHARF_PLACEMENT_AUTO,
                             map, line, warnings, sizeof warnings);
}

/* On a machine that is not the one that runs the test. */
static void node(void)
{
    char *text = t_shape_xml("cgroup-cut");
    char path[64];
    uint64_t digest;

    t_file(text, strlen(text), path);
    free(text);
    setenv("HWLOC_XMLFILE", path, 1);
    ranks_reset();
    T_OK(plan(RANKS, NULL));
    for (int r = 0; r < RANKS; r++) {
        T_EQ_INT(r, line[r].device);
        T_EQ_INT(10, line[r].distance);
        T_EQ_STR("local", line[r].reason);
    }
    T_CONTAINS("record of another machine", warnings);
    digest = wi_topo_digest(RANKS, line);
    T_EQ_INT(digest, wi_topo_digest(RANKS, line));
    line[2].device = 1;
    T_CHECK(digest != wi_topo_digest(RANKS, line));
    T_OK(plan(RANKS, "3,2,GPU-aaaaaaaa-0000-0000-0000-000000000002,17:00.0"));
    T_EQ_INT(1, line[2].device);
    T_EQ_STR("forced: device map", line[2].reason);
    T_EQ_INT(21, line[0].distance);
    T_STATUS(WHARF_EARG, plan(RANKS, "3,2"));
    T_STATUS(WHARF_EARG, plan(RANKS, "3,2,1,9"));
    rank[3].visible = 0x1;
    rank[3].listed = 2;
    T_OK(plan(RANKS, ""));
    T_EQ_INT(0, line[3].device);
    T_EQ_STR("forced: one visible", line[3].reason);
    T_CONTAINS("rank 3's list of visible GPUs is cut", warnings);
    T_STATUS(WHARF_EARG, plan(RANKS, "0,1,2,3"));
    rank[3].visible = 0;
    T_STATUS(WHARF_ENODEV, plan(RANKS, NULL));
    T_CONTAINS("rank 3", wi_error_record()->cause);
    ranks_reset();
    T_OK(plan(2, NULL));
    rank[1].local_rank = 7;
    T_OK(plan(2, NULL));
    T_CONTAINS("at least 8 ranks", warnings);
    unsetenv("HWLOC_XMLFILE");
}

/* On the machine that runs the test, whatever it is. */
static void here(void)
{
    char tiny[8];

    for (int r = 0; r < RANKS; r++) {
        wi_topo_rank_self(&rank[r]);
        rank[r].visible = 0xf;
        rank[r].listed = -1;
    }
    T_OK(plan(RANKS, NULL));
    for (int r = 0; r < RANKS; r++)
        T_EQ_INT(r, line[r].device);
    T_OK(wi_topo_plan_node(RANKS, rank, 4, device, NULL, WHARF_PLACEMENT_AUTO,
                           NULL, line, tiny, sizeof tiny));
    T_CHECK(strlen(tiny) < sizeof tiny);
    T_OK(wi_topo_plan_node(RANKS, rank, 4, device, NULL, WHARF_PLACEMENT_AUTO,
                           NULL, line, NULL, 0));
    T_STATUS(WHARF_ELIMIT,
             wi_topo_plan_node(RANKS, rank, 65, device, NULL,
                               WHARF_PLACEMENT_AUTO, NULL, line, NULL, 0));
    T_STATUS(WHARF_ENODEV,
             wi_topo_plan_node(RANKS, rank, 0, device, NULL,
                               WHARF_PLACEMENT_AUTO, NULL, line, NULL, 0));
}

static void file_put(const char *root, const char *text)
{
    static const char *const parts[] = {"/sys", "/bus", "/pci", "/devices",
                                        "/0000:17:00.0"};
    char path[256];
    FILE *out;

    snprintf(path, sizeof path, "%s", root);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        strcat(path, parts[i]);
        mkdir(path, 0700);
    }
    strcat(path, "/local_cpulist");
    out = fopen(path, "w");
    T_CHECK(out != NULL);
    T_CHECK(fputs(text, out) >= 0 && !fclose(out));
}

static void near(void)
{
    char root[] = "near.XXXXXX";
    uint64_t cpus[WI_TOPO_CPUS / 64] = {77};
    char command[64];

    T_CHECK(mkdtemp(root) != NULL);
    file_put(root, "0-3,8\n");
    T_OK(wi_topo_near_cpus(root, "17:00.0", cpus));
    T_EQ_INT(0x10f, cpus[0]);
    T_STATUS(WHARF_EUNSUPPORTED, wi_topo_near_cpus(root, "0000:18:00.0", cpus));
    T_STATUS(WHARF_EARG, wi_topo_near_cpus(root, "GPU-1", cpus));
    file_put(root, "\n");
    T_STATUS(WHARF_EUNSUPPORTED, wi_topo_near_cpus(root, "17:00.0", cpus));
    file_put(root, "what?\n");
    T_STATUS(WHARF_EARG, wi_topo_near_cpus(root, "17:00.0", cpus));
    T_EQ_INT(0x10f, cpus[0]);
    T_STATUS(WHARF_EARG, wi_topo_bind_near("17:00.0", 2, 2));
    T_STATUS(WHARF_EARG, wi_topo_bind_near("17:00.0", 0, 0));
    /* A bus that no machine has. */
    T_STATUS(WHARF_EUNSUPPORTED, wi_topo_bind_near("7ffe:ff:1f.7", 0, 1));
    snprintf(command, sizeof command, "rm -r %s", root);
    T_EQ_INT(0, system(command));
}

int main(void)
{
    setenv("WHARF_LOG", "none", 1);
    self();
    node();
    here();
    near();
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
