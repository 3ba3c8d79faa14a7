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

static wi_topo_ask ask_for(int ranks, int devices, const char *map)
{
    return (wi_topo_ask){.ranks = ranks,
                         .rank = rank,
                         .devices = devices,
                         .device = device,
                         .placement = WHARF_PLACEMENT_AUTO,
                         .device_map = map};
}

static wharf_status plan(int ranks, const char *map)
{
    wi_topo_ask ask = ask_for(ranks, 4, map);
    return wi_topo_plan_node(&ask, line, warnings, sizeof warnings);
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

/* A plan with a bad warning is refused where that was asked for; what is bad
 * is the cause. */
static void refusal(void)
{
    char *text = t_shape_xml("cgroup-cut");
    char path[64];
    wi_topo_ask ask;

    t_file(text, strlen(text), path);
    free(text);
    setenv("HWLOC_XMLFILE", path, 1);
    ranks_reset();
    ask = ask_for(RANKS, 4, NULL);
    ask.refuse_bad = true;
    T_STATUS(WHARF_EDEGRADED, wi_topo_plan_node(&ask, line, NULL, 0));
    T_CONTAINS("another machine", wi_error_record()->cause);
    /* As if the record were of this machine. */
    setenv("HWLOC_THISSYSTEM", "1", 1);
    T_OK(wi_topo_plan_node(&ask, line, NULL, 0));
    T_EQ_INT(0, line[0].device);
    ask.device_map = "3,2,1,0";
    T_STATUS(WHARF_EDEGRADED, wi_topo_plan_node(&ask, line, NULL, 0));
    T_CONTAINS("ranks 0-3 are bound far", wi_error_record()->cause);
    ask.refuse_bad = false;
    T_OK(wi_topo_plan_node(&ask, line, NULL, 0));
    T_EQ_INT(3, line[0].device);
    unsetenv("HWLOC_THISSYSTEM");
    unsetenv("HWLOC_XMLFILE");
}

/* Ranks 0 and 1 are neighbours, so are 2 and 3: the pairs of GPUs with a link
 * between them get them. A pair that nobody knows of counts as none. */
static void links(void)
{
    int32_t weight[16];
    wi_topo_ask ask;

    ranks_reset();
    for (int r = 0; r < RANKS; r++)
        rank[r].bound = 0;
    for (int i = 0; i < 16; i++)
        weight[i] = i % 3 ? 1 : -1;
    weight[0 * 4 + 2] = weight[2 * 4 + 0] = 19;
    weight[1 * 4 + 3] = weight[3 * 4 + 1] = 19;
    ask = ask_for(RANKS, 4, NULL);
    ask.links = weight;
    T_OK(wi_topo_plan_node(&ask, line, NULL, 0));
    T_EQ_INT(2, abs(line[0].device - line[1].device));
    T_EQ_INT(2, abs(line[2].device - line[3].device));
}

/* On the machine that runs the test, whatever it is. */
static void here(void)
{
    wi_topo_ask ask;
    char tiny[8];

    for (int r = 0; r < RANKS; r++) {
        wi_topo_rank_self(&rank[r]);
        rank[r].visible = 0xf;
        rank[r].listed = -1;
    }
    T_OK(plan(RANKS, NULL));
    for (int r = 0; r < RANKS; r++)
        T_EQ_INT(r, line[r].device);
    ask = ask_for(RANKS, 4, NULL);
    T_OK(wi_topo_plan_node(&ask, line, tiny, sizeof tiny));
    T_CHECK(strlen(tiny) < sizeof tiny);
    T_OK(wi_topo_plan_node(&ask, line, NULL, 0));
    ask = ask_for(RANKS, 65, NULL);
    T_STATUS(WHARF_ELIMIT, wi_topo_plan_node(&ask, line, NULL, 0));
    ask = ask_for(RANKS, 0, NULL);
    T_STATUS(WHARF_ENODEV, wi_topo_plan_node(&ask, line, NULL, 0));
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

/* Binding and its undoing, near a device of our own making. */
static void bound_and_back(const char *root)
{
    cpu_set_t before, now, other;
    wi_topo_bound bound = {0};
    char list[32];
    int first = 0, second;

    T_EQ_INT(0, sched_getaffinity(0, sizeof before, &before));
    while (!CPU_ISSET(first, &before))
        first++;
    for (second = first + 1; second < CPU_SETSIZE; second++)
        if (CPU_ISSET(second, &before))
            break;
    if (second == CPU_SETSIZE) {
        puts("binding is not shown: there is one CPU");
        return;
    }
    snprintf(list, sizeof list, "%d,%d\n", first, second);
    file_put(root, list);
    T_OK(wi_topo_bind_near(root, "17:00.0", 1, 2, &bound));
    T_EQ_INT(0, sched_getaffinity(0, sizeof now, &now));
    T_EQ_INT(1, CPU_COUNT(&now));
    T_CHECK(CPU_ISSET(second, &now));
    wi_topo_unbind(&bound);
    T_EQ_INT(0, sched_getaffinity(0, sizeof now, &now));
    T_CHECK(CPU_EQUAL(&before, &now));
    /* Fewer CPUs than ranks: all of them. */
    T_OK(wi_topo_bind_near(root, "17:00.0", 1, 3, &bound));
    T_EQ_INT(0, sched_getaffinity(0, sizeof now, &now));
    T_EQ_INT(2, CPU_COUNT(&now));
    /* The program has chosen meanwhile: that stays. */
    CPU_ZERO(&other);
    CPU_SET(first, &other);
    T_EQ_INT(0, sched_setaffinity(0, sizeof other, &other));
    wi_topo_unbind(&bound);
    T_EQ_INT(0, sched_getaffinity(0, sizeof now, &now));
    T_CHECK(CPU_EQUAL(&other, &now));
    T_EQ_INT(0, sched_setaffinity(0, sizeof before, &before));
    wi_topo_unbind(&bound);
    /* CPUs that this process may not use. */
    file_put(root, "1023\n");
    T_STATUS(WHARF_EUNSUPPORTED,
             wi_topo_bind_near(root, "17:00.0", 0, 1, &bound));
    T_EQ_INT(0, bound.thread);
}

static void near(void)
{
    char root[] = "near.XXXXXX";
    uint64_t cpus[WI_TOPO_CPUS / 64] = {77};
    char command[64];
    wi_topo_bound bound = {0};

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
    T_STATUS(WHARF_EARG, wi_topo_bind_near("", "17:00.0", 2, 2, &bound));
    T_STATUS(WHARF_EARG, wi_topo_bind_near("", "17:00.0", 0, 0, &bound));
    /* A bus that no machine has. */
    T_STATUS(WHARF_EUNSUPPORTED,
             wi_topo_bind_near("", "7ffe:ff:1f.7", 0, 1, &bound));
    T_EQ_INT(0, bound.thread);
    bound_and_back(root);
    snprintf(command, sizeof command, "rm -r %s", root);
    T_EQ_INT(0, system(command));
}

int main(void)
{
    setenv("WHARF_LOG", "none", 1);
    self();
    node();
    refusal();
    links();
    here();
    near();
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
