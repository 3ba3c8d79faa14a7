/* SPDX-License-Identifier: MIT */
/* The public planning calls: arguments, options, what the plan holds, and what
 * happens when memory runs out at any point. */
#define _GNU_SOURCE
#include <stdbool.h>

#include "base/fault.h"
#include "base/stat.h"
#include "t_test.h"
#include "topo_gen.h"
#include "wharf/stats.h"

static void cause_has(const char *part)
{
    wharf_error error;
    wharf_last_error(&error);
    T_CONTAINS(part, error.cause);
}

static void machine(void)
{
    wharf_topo *topo = t_shape_load("two-socket-8");
    wharf_gpu gpu = WHARF_GPU_INIT;
    struct {
        wharf_gpu gpu;
        char more[8];
    } newer = {{.struct_size = sizeof newer}, "keep"};

    T_EQ_INT(8, wharf_topo_gpus(topo));
    T_OK(wharf_topo_gpu(topo, 0, &gpu));
    T_EQ_STR("0000:07:00.0", gpu.pci);
    T_EQ_STR("GPU-10000000-0000-4000-8000-000000000000", gpu.uuid);
    T_EQ_STR("Device 0", gpu.name);
    T_EQ_INT(1, gpu.numa_node);
    T_EQ_INT(1, gpu.package);
    T_EQ_INT(0, gpu.mig);
    T_OK(wharf_topo_gpu(topo, 7, &newer.gpu));
    T_EQ_STR("0000:bd:00.0", newer.gpu.pci);
    T_EQ_INT(sizeof newer, newer.gpu.struct_size);
    T_STATUS(WHARF_EARG, wharf_topo_gpu(topo, 8, &gpu));
    T_STATUS(WHARF_EARG, wharf_topo_gpu(topo, -1, &gpu));
    T_STATUS(WHARF_EARG, wharf_topo_gpu(topo, 0, NULL));
    T_STATUS(WHARF_EARG, wharf_topo_gpu(NULL, 0, &gpu));
    gpu.struct_size = 0;
    T_STATUS(WHARF_EARG, wharf_topo_gpu(topo, 0, &gpu));
    T_EQ_INT(-1, wharf_topo_gpus(NULL));
    wharf_topo_free(&topo);
    T_CHECK(topo == NULL);
    wharf_topo_free(&topo);
    wharf_topo_free(NULL);
}

static void arguments(void)
{
    wharf_topo *topo = t_shape_load("mig-2");
    wharf_plan_options options = WHARF_PLAN_OPTIONS_INIT;
    wharf_binding bad = {.kind = (wharf_binding_kind)9};
    wharf_plan *plan = NULL;

    T_STATUS(WHARF_EARG, wharf_plan_make(NULL, 1, NULL, NULL, &plan));
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 1, NULL, NULL, NULL));
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 0, NULL, NULL, &plan));
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, -3, NULL, NULL, &plan));
    T_STATUS(WHARF_ELIMIT,
             wharf_plan_make(topo, WHARF_MAX_RANKS + 1, NULL, NULL, &plan));
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 1, &bad, NULL, &plan));
    options.placement = (wharf_placement)4;
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 1, NULL, &options, &plan));
    options.placement = WHARF_PLACEMENT_AUTO;
    options.refuse_bad = 2;
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 1, NULL, &options, &plan));
    options.refuse_bad = 0;
    options.gpus = 2;
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 1, NULL, &options, &plan));
    options.gpus = 0;
    options.struct_size = 1;
    T_STATUS(WHARF_EARG, wharf_plan_make(topo, 1, NULL, &options, &plan));
    T_CHECK(plan == NULL);
    T_OK(wharf_plan_make(topo, WHARF_MAX_RANKS, NULL, NULL, &plan));
    T_EQ_INT(WHARF_MAX_RANKS, plan->ranks);
    T_STATUS(WHARF_EARG, wharf_plan_print(plan, NULL, WHARF_FORMAT_TEXT));
    T_STATUS(WHARF_EARG, wharf_plan_print(NULL, stdout, WHARF_FORMAT_TEXT));
    T_STATUS(WHARF_EARG, wharf_plan_print(plan, stdout, (wharf_format)7));
    /* The plan outlives the machine. */
    wharf_topo_free(&topo);
    T_EQ_STR("0000:17:00.0", plan->line[0].pci);
    T_EQ_INT(0, plan->line[255].owner);
    T_EQ_INT(256, plan->line[256].owner);
    T_EQ_INT(256, plan->line[511].users);
    wharf_plan_free(&plan);
    T_CHECK(plan == NULL);
    wharf_plan_free(&plan);
    wharf_plan_free(NULL);
}

static void words(void)
{
    T_EQ_STR("local", wharf_reason_name(WHARF_REASON_LOCAL));
    T_EQ_STR("near one was full", wharf_reason_name(WHARF_REASON_NEAR_FULL));
    T_EQ_STR("unknown reason", wharf_reason_name((wharf_reason)99));
    T_EQ_STR("round_robin", wharf_placement_name(WHARF_PLACEMENT_ROUND_ROBIN));
    T_EQ_STR("unknown", wharf_placement_name((wharf_placement)-1));
}

/* Links and traffic decide who sits beside whom, and nothing else. */
static void together(void)
{
    /* GPUs 0 2 and 1 3 are joined by NVLink, the rest by PCIe. */
    static const int32_t links[16] = {0, 1, 9, 1, 1, 0, 1, 9,
                                      9, 1, 0, 1, 1, 9, 1, 0};
    /* Ranks 0 3 and 1 2 exchange much. */
    static const uint32_t traffic[16] = {0, 1, 0, 90, 0, 0, 90, 0,
                                         0, 0, 0, 1,  0, 0, 0,  0};
    wharf_topo *topo = t_shape_load("no-locality");
    wharf_plan_options options = WHARF_PLAN_OPTIONS_INIT;
    wharf_plan *plan = NULL;
    uint64_t plain;

    T_OK(wharf_plan_make(topo, 4, NULL, NULL, &plan));
    for (int r = 0; r < 4; r++)
        T_EQ_INT(r, plan->line[r].gpu);
    plain = plan->digest;
    wharf_plan_free(&plan);
    options.links = links;
    T_OK(wharf_plan_make(topo, 4, NULL, &options, &plan));
    /* Neighbours 0 1 and 2 3 on joined pairs. */
    T_EQ_INT(2, plan->line[0].gpu ^ plan->line[1].gpu);
    T_EQ_INT(2, plan->line[2].gpu ^ plan->line[3].gpu);
    T_CHECK(plan->digest != plain);
    wharf_plan_free(&plan);
    options.traffic = traffic;
    T_OK(wharf_plan_make(topo, 4, NULL, &options, &plan));
    T_EQ_INT(2, plan->line[0].gpu ^ plan->line[3].gpu);
    T_EQ_INT(2, plan->line[1].gpu ^ plan->line[2].gpu);
    wharf_plan_free(&plan);
    options.links = NULL;
    T_OK(wharf_plan_make(topo, 4, NULL, &options, &plan));
    T_EQ_INT(plain, plan->digest);
    wharf_plan_free(&plan);
    wharf_topo_free(&topo);
}

/* Traffic moves ranks to a shared GPU, but never off their NUMA node. */
static void traffic_shares(void)
{
    wharf_topo *topo = t_shape_load("mig-2");
    wharf_plan_options options = WHARF_PLAN_OPTIONS_INIT;
    wharf_binding near[4];
    wharf_plan *plan = NULL;
    uint32_t traffic[16] = {0};
    int ranks;

    traffic[0 * 4 + 2] = traffic[1 * 4 + 3] = 5;
    options.traffic = traffic;
    T_OK(wharf_plan_make(topo, 4, NULL, &options, &plan));
    T_EQ_INT(plan->line[0].gpu, plan->line[2].gpu);
    T_EQ_INT(plan->line[1].gpu, plan->line[3].gpu);
    wharf_plan_free(&plan);
    T_OK(wharf_binding_parse("numa:0/numa:0/numa:1/numa:1", near, 4, &ranks));
    T_OK(wharf_plan_make(topo, 4, near, &options, &plan));
    T_EQ_INT(40, plan->cost);
    T_EQ_INT(0, plan->line[1].gpu);
    T_EQ_INT(1, plan->line[2].gpu);
    wharf_plan_free(&plan);
    wharf_topo_free(&topo);
}

static void refusing(void)
{
    wharf_topo *topo = t_shape_load("mig-2");
    wharf_plan_options options = WHARF_PLAN_OPTIONS_INIT;
    wharf_binding near[2];
    wharf_plan *plan = NULL;
    int ranks;

    options.refuse_bad = 1;
    T_OK(wharf_binding_parse("numa:0/numa:0", near, 2, &ranks));
    T_STATUS(WHARF_EDEGRADED, wharf_plan_make(topo, 2, near, &options, &plan));
    cause_has("far from the GPU");
    options.visible = "0/0,5";
    T_STATUS(WHARF_EDEGRADED, wharf_plan_make(topo, 2, near, &options, &plan));
    cause_has("cut at \"5\"");
    options.visible = NULL;
    options.device_map = "1,1";
    T_STATUS(WHARF_EDEGRADED, wharf_plan_make(topo, 2, NULL, &options, &plan));
    cause_has("given to several ranks");
    options.device_map = "1,0";
    T_OK(wharf_plan_make(topo, 2, NULL, &options, &plan));
    T_EQ_INT(0, plan->warnings);
    wharf_plan_free(&plan);
    wharf_topo_free(&topo);
}

/* The n-th allocation fails, for every n: the right status, nothing kept. */
static void memory(void)
{
    char *text = t_shape_xml("eight-nodes");
    char path[64];
    int failures = 0;

    t_file(text, strlen(text), path);
    free(text);
    for (long nth = 1;; nth++) {
        wharf_topo *topo = NULL;
        wharf_plan *plan = NULL;
        wharf_plan_options options = WHARF_PLAN_OPTIONS_INIT;
        wharf_status status;
        bool fired;
        options.device_map = nth % 2 ? "0,1,2,3,4,5,6,7,0" : NULL;
        wi_fault_arm(WI_FAULT_MEM, nth / 2 + 1, 0);
        status = wharf_topo_load(path, &topo);
        if (status == WHARF_OK)
            status = wharf_plan_make(topo, 9, NULL, &options, &plan);
        fired = wi_fault_disarm(NULL);
        T_STATUS(fired ? WHARF_ENOMEM : WHARF_OK, status);
        T_EQ_INT(fired, plan == NULL);
        wharf_plan_free(&plan);
        wharf_topo_free(&topo);
        T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
        failures += fired;
        if (!fired && nth % 2)
            break;
    }
    T_CHECK(failures > 20);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
}

int main(void)
{
    setenv("WHARF_LOG", "none", 1);
    machine();
    arguments();
    words();
    together();
    traffic_shares();
    refusing();
    memory();
    return 0;
}
