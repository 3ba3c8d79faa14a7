/* SPDX-License-Identifier: MIT */
/*
 * The header of wharf-bench: what a figure depends on and cannot be seen in it.
 * Machine, versions, clocks, and where each rank and its GPU are.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "wharf_bench_report.h"

/* What rank 0 knows. Texts are "" and numbers 0 where nothing tells. */
struct head {
    struct tool_machine machine;
    char mpi[128];
    char cuda[16]; /* what the driver supports */
    char cpu[96];
    long cores;
    double cpu_mhz, tick_ns;
};

/* Each GPU's clocks in MHz, at the end of the run. */
struct gpu_clocks {
    char pci[20];
    int sm, memory, sm_most;
};

#define GPUS_MOST 64

/* The first `length` bytes of a text, or as many as there is room for. */
static void copy_part(char *to, size_t capacity, const char *from,
                      size_t length)
{
    if (length >= capacity)
        length = capacity - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

/* The value of the first line "KEY : VALUE". */
static void cpu_line(const char *line, const char *key, char *value,
                     size_t capacity)
{
    const char *colon = strchr(line, ':');

    if (value[0] != '\0' || colon == NULL ||
        strncmp(line, key, strlen(key)) != 0)
        return;
    colon++;
    while (isspace((unsigned char)*colon))
        colon++;
    copy_part(value, capacity, colon, strcspn(colon, "\n"));
}

static void cpu_fill(struct head *head)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512], mhz[32] = "";

    head->cores = sysconf(_SC_NPROCESSORS_ONLN);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        cpu_line(line, "model name", head->cpu, sizeof head->cpu);
        cpu_line(line, "cpu MHz", mhz, sizeof mhz);
    }
    if (file != NULL)
        fclose(file);
    head->cpu_mhz = strtod(mhz, NULL);
}

/* The node's description says it in a line of its own. */
static void cuda_fill(const struct bench *bench, struct head *head)
{
    static const char key[] = "driver supports CUDA ";
    char *text = NULL, *at;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL)
        return;
    wharf_ignore(wharf_node_print(bench->node, file, WHARF_FORMAT_TEXT));
    fclose(file);
    at = text == NULL ? NULL : strstr(text, key);
    if (at != NULL) {
        at += strlen(key);
        copy_part(head->cuda, sizeof head->cuda, at, strspn(at, "0123456789."));
    }
    free(text);
}

static void head_fill(const struct bench *bench, struct head *head)
{
    memset(head, 0, sizeof *head);
    tool_machine_fill(&head->machine);
    tool_mpi_name(head->mpi, sizeof head->mpi);
    cuda_fill(bench, head);
    cpu_fill(head);
    head->tick_ns = MPI_Wtick() * 1e9;
}

/* The driver's own tool is asked, since no call of the tools goes to the
 * driver. Without the kernel module there is nobody to ask. */
static int clocks_fill(const struct head *head, struct gpu_clocks *clocks)
{
    FILE *file;
    char line[160];
    int count = 0;

    if (head->machine.driver[0] == '\0')
        return 0;
    file = popen("timeout 10 nvidia-smi --query-gpu=pci.bus_id,clocks.sm,"
                 "clocks.mem,clocks.max.sm --format=csv,noheader,nounits "
                 "2>/dev/null",
                 "r");
    while (file != NULL && count < GPUS_MOST &&
           fgets(line, sizeof line, file) != NULL) {
        struct gpu_clocks *c = &clocks[count];

        /* NOLINTNEXTLINE(cert-err34-c): its program writes what fits */
        if (sscanf(line, "%19[^,], %d, %d, %d", c->pci, &c->sm, &c->memory,
                   &c->sm_most) == 4)
            count++;
    }
    if (file != NULL)
        pclose(file);
    return count;
}

/* nvidia-smi writes more digits of the domain. */
static const struct gpu_clocks *clocks_of(const struct gpu_clocks *clocks,
                                          int count, const char *pci)
{
    size_t length = strlen(pci);

    for (int i = 0; i < count; i++) {
        size_t all = strlen(clocks[i].pci);

        if (length > 0 && all >= length &&
            strcasecmp(clocks[i].pci + all - length, pci) == 0)
            return &clocks[i];
    }
    return NULL;
}

/* ---- Ranks -------------------------------------------------------------- */

/* This rank's place, as a line of the header or a JSON object. */
static char *describe_rank(const struct bench *bench)
{
    wharf_device device = WHARF_DEVICE_INIT;
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
        fprintf(file, ", \"gpu_index\": %d, \"pci\": \"%s\", \"distance\": %d",
                device.gpu, device.pci, device.distance);
        fprintf(file, ", \"owner\": %d, \"placed\": ", device.owner);
        tool_json_string(file, device.reason);
        fputc('}', file);
    } else if (device.gpu < 0) {
        fprintf(file, "# rank %d  host %s  cpus %s  no gpu\n", bench->rank,
                machine.host, machine.cpus);
    } else {
        fprintf(file,
                "# rank %d  host %s  cpus %s  gpu %d  distance %d  owner %d  "
                "placed: %s\n",
                bench->rank, machine.host, machine.cpus, device.gpu,
                device.distance, device.owner, device.reason);
    }
    fclose(file);
    return text;
}

/* ---- GPUs --------------------------------------------------------------- */

static void gpu_print(const struct bench *bench, const wharf_device *device,
                      const struct gpu_clocks *clocks)
{
    if (!bench->options.json) {
        printf("# gpu %d  %s  %s  %.1f GB", device->gpu, device->pci,
               device->name, (double)device->memory_bytes / 1e9);
        if (clocks != NULL)
            printf("  SM %d MHz of %d, memory %d MHz", clocks->sm,
                   clocks->sm_most, clocks->memory);
        putchar('\n');
        return;
    }
    printf("{\"gpu_index\": %d, \"pci\": \"%s\", \"name\": ", device->gpu,
           device->pci);
    tool_json_string(stdout, device->name);
    printf(", \"memory_bytes\": %llu, \"sm_mhz\": %d, \"sm_most_mhz\": %d, "
           "\"memory_mhz\": %d}",
           (unsigned long long)device->memory_bytes,
           clocks == NULL ? 0 : clocks->sm,
           clocks == NULL ? 0 : clocks->sm_most,
           clocks == NULL ? 0 : clocks->memory);
}

/* Each GPU once, by its owner's view. */
static void gpus_print(const struct bench *bench, const struct head *head)
{
    struct gpu_clocks clocks[GPUS_MOST];
    int count = clocks_fill(head, clocks);

    for (int gpu = 0; gpu < wharf_node_gpus(bench->node); gpu++) {
        wharf_device device = WHARF_DEVICE_INIT;
        int owner = 0;

        if (wharf_node_owner(bench->node, gpu, &owner) != WHARF_OK ||
            wharf_node_device(bench->node, owner, &device) != WHARF_OK)
            continue;
        if (bench->options.json && gpu > 0)
            printf(",\n  ");
        gpu_print(bench, &device, clocks_of(clocks, count, device.pci));
    }
}

/* ---- The whole ---------------------------------------------------------- */

static const char *backend_name(const struct bench *bench)
{
    return wharf_node_backend(bench->node) == WHARF_BACKEND_CUDA ? "cuda"
                                                                 : "host";
}

static const char *space_name(const struct bench *bench)
{
    return bench->options.space == WHARF_SPACE_HOST ? "host" : "device";
}

static void head_text(const struct bench *bench, const char *command,
                      const struct head *h)
{
    const struct bench_options *o = &bench->options;
    char version[16];

    printf("# wharf-bench %s  wharf %s  %s  hwloc %s", command,
           tool_version(version), h->mpi,
           tool_hwloc[0] == '\0' ? "none" : tool_hwloc);
    printf("  CUDA %s  driver %s\n", h->cuda[0] == '\0' ? "none" : h->cuda,
           h->machine.driver[0] == '\0' ? "none" : h->machine.driver);
    printf("# machine %s  %s  %ld cores  %s", h->machine.host,
           h->machine.kernel, h->cores, h->cpu);
    if (h->cpu_mhz > 0)
        printf("  %.0f MHz", h->cpu_mhz);
    printf("\n# backend %s  space %s  ranks %d  gpus of this node %d\n",
           backend_name(bench), space_name(bench), bench->size,
           wharf_node_gpus(bench->node));
    gpus_print(bench, h);
    printf("# clock MPI_Wtime, tick %.0f ns  warmup %d  rounds %d, "
           "time of the slowest rank\n",
           h->tick_ns, o->warmup, o->rounds);
    printf("# 1 GB = 1e9 bytes, 1 k/s = 1000 a second; bad: %s\n",
           bench->checked);
    if (bench->remark[0] != '\0')
        printf("# %s\n", bench->remark);
    if (o->spoil)
        printf("# --spoil: a byte is made wrong before every check\n");
}

static void head_json(const struct bench *bench, const char *command,
                      const struct head *h)
{
    const struct bench_options *o = &bench->options;
    char version[16];

    printf("{\"program\": \"wharf-bench\", \"command\": \"%s\", ", command);
    printf("\"wharf\": \"%s\", \"mpi\": ", tool_version(version));
    tool_json_string(stdout, h->mpi);
    printf(", \"hwloc\": \"%s\", \"cuda\": \"%s\", \"driver\": ", tool_hwloc,
           h->cuda);
    tool_json_string(stdout, h->machine.driver);
    printf(",\n \"machine\": ");
    tool_json_string(stdout, h->machine.host);
    printf(", \"kernel\": ");
    tool_json_string(stdout, h->machine.kernel);
    printf(", \"cpu\": ");
    tool_json_string(stdout, h->cpu);
    printf(", \"cores\": %ld, \"cpu_mhz\": %.0f, \"tick_ns\": %.0f", h->cores,
           h->cpu_mhz, h->tick_ns);
    printf(",\n \"backend\": \"%s\", \"space\": \"%s\", \"size\": %d, ",
           backend_name(bench), space_name(bench), bench->size);
    printf("\"warmup\": %d, \"rounds\": %d, \"spoil\": %s, \"checked\": ",
           o->warmup, o->rounds, o->spoil ? "true" : "false");
    tool_json_string(stdout, bench->checked);
    printf(", \"remark\": ");
    tool_json_string(stdout, bench->remark);
    printf(",\n \"gpus\": [\n  ");
    gpus_print(bench, h);
    printf("],\n \"ranks\": [\n  ");
}

void bench_head(const struct bench *bench, const char *command)
{
    struct head head;
    char *mine = describe_rank(bench);
    int ranks = 0;
    char *all = tool_gather(MPI_COMM_WORLD, mine == NULL ? "" : mine, &ranks);

    if (bench->rank == 0) {
        head_fill(bench, &head);
        if (bench->options.json)
            head_json(bench, command, &head);
        else
            head_text(bench, command, &head);
        tool_print_all(all, ranks, bench->options.json ? ",\n  " : "");
        if (bench->options.json)
            printf("]");
    }
    free(mine);
    free(all);
}
