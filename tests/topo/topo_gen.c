/* SPDX-License-Identifier: MIT */
/* See topo_gen.h. Writes what hwloc itself would write for such a machine, as
 * far as the planner looks at it. */
#define _GNU_SOURCE
#include "topo_gen.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES 16
#define MOST_GPUS 16
#define MACHINE (-1) /* a GPU that hangs on no NUMA node */

#define CLASS_3D 0x0302
#define CLASS_VGA 0x0300
#define NVIDIA 0x10de
#define BMC 0x1a03

typedef struct gpu {
    int node; /* position of its NUMA node, or MACHINE */
    const char *pci;
    unsigned class_id;
    unsigned vendor;
} gpu;

typedef struct shape {
    const char *name;
    const char *about;
    int sockets;
    int nodes;     /* NUMA nodes of one socket */
    int cpus;      /* CPUs of one NUMA node */
    int node_step; /* OS index of node n is n * node_step, 0: n */
    int near, far; /* distances within and between sockets, 0: no table */
    gpu gpus[MOST_GPUS];
    unsigned memory_nodes; /* GPU-memory NUMA nodes per socket, from index 64 */
    unsigned denied;       /* bit n: node n's CPUs are not allowed */
    bool uuids;            /* NVML recorded UUIDs */
    bool pairs;            /* NVLink joins GPUs 0 1, 2 3, ... */
    int format;            /* of the XML: 1, else 2 */
} shape;

#define GPU(node, pci)                                                         \
    {                                                                          \
        node, pci, CLASS_3D, NVIDIA                                            \
    }
#define VGA(node, pci, vendor)                                                 \
    {                                                                          \
        node, pci, CLASS_VGA, vendor                                           \
    }

static const shape shapes[] = {
    {.name = "two-socket-8",
     .about = "two sockets, eight GPUs, the low PCI ids on socket 1",
     .sockets = 2,
     .nodes = 1,
     .cpus = 16,
     .far = 21,
     .uuids = true,
     .gpus = {GPU(1, "0000:07:00.0"), GPU(1, "0000:0f:00.0"),
              GPU(1, "0000:47:00.0"), GPU(1, "0000:4e:00.0"),
              GPU(0, "0000:87:00.0"), GPU(0, "0000:90:00.0"),
              GPU(0, "0000:b7:00.0"), GPU(0, "0000:bd:00.0"),
              VGA(0, "0000:03:00.0", BMC)}},
    {.name = "power-6",
     .about = "POWER: six GPUs, their memory is NUMA nodes",
     .sockets = 2,
     .nodes = 1,
     .cpus = 88,
     .node_step = 8,
     .far = 40,
     .memory_nodes = 3,
     .gpus = {GPU(0, "0004:04:00.0"), GPU(0, "0004:05:00.0"),
              GPU(0, "0004:06:00.0"), GPU(1, "0035:03:00.0"),
              GPU(1, "0035:04:00.0"), GPU(1, "0035:05:00.0")}},
    {.name = "gh200-4",
     .about = "four superchips, each with a NUMA node of GPU memory",
     .sockets = 4,
     .nodes = 1,
     .cpus = 72,
     .far = 40,
     .memory_nodes = 1,
     .gpus = {GPU(0, "0009:01:00.0"), GPU(1, "0019:01:00.0"),
              GPU(2, "0029:01:00.0"), GPU(3, "0039:01:00.0")}},
    {.name = "one-gpu",
     .about = "a workstation: one NUMA node, its display is the GPU",
     .sockets = 1,
     .nodes = 1,
     .cpus = 8,
     .far = 20,
     .gpus = {VGA(0, "0000:01:00.0", NVIDIA)}},
    {.name = "no-gpu",
     .about = "two sockets, a management display and no GPU",
     .sockets = 2,
     .nodes = 1,
     .cpus = 8,
     .far = 21,
     .gpus = {VGA(0, "0000:03:00.0", BMC)}},
    {.name = "no-locality",
     .about = "GPUs whose numa_node is -1",
     .sockets = 2,
     .nodes = 1,
     .cpus = 16,
     .far = 21,
     .gpus = {GPU(MACHINE, "0000:06:00.0"), GPU(MACHINE, "0000:07:00.0"),
              GPU(MACHINE, "0000:08:00.0"), GPU(MACHINE, "0000:09:00.0")}},
    {.name = "cgroup-cut",
     .about = "only the CPUs of socket 1 are allowed",
     .sockets = 2,
     .nodes = 1,
     .cpus = 16,
     .far = 21,
     .denied = 0x1,
     .gpus = {GPU(0, "0000:17:00.0"), GPU(0, "0000:65:00.0"),
              GPU(1, "0000:ca:00.0"), GPU(1, "0000:e3:00.0")}},
    {.name = "mig-2",
     .about = "two sockets, two GPUs; MIG instances come from the driver",
     .sockets = 2,
     .nodes = 1,
     .cpus = 16,
     .far = 21,
     .gpus = {GPU(0, "0000:17:00.0"), GPU(1, "0000:ca:00.0")}},
    {.name = "eight-nodes",
     .about = "two sockets of four NUMA nodes, eight GPUs",
     .sockets = 2,
     .nodes = 4,
     .cpus = 8,
     .near = 12,
     .far = 32,
     .gpus = {GPU(3, "0000:05:00.0"), GPU(3, "0000:26:00.0"),
              GPU(1, "0000:46:00.0"), GPU(1, "0000:65:00.0"),
              GPU(7, "0000:85:00.0"), GPU(7, "0000:a6:00.0"),
              GPU(5, "0000:c5:00.0"), GPU(5, "0000:e5:00.0")}},
    {.name = "bridged-4",
     .about = "one NUMA node, four GPUs in two NVLink pairs",
     .sockets = 1,
     .nodes = 1,
     .cpus = 32,
     .far = 20,
     .pairs = true,
     .gpus = {GPU(0, "0000:01:00.0"), GPU(0, "0000:02:00.0"),
              GPU(0, "0000:81:00.0"), GPU(0, "0000:82:00.0")}},
    {.name = "no-table",
     .about = "two sockets of two nodes, no distance table",
     .sockets = 2,
     .nodes = 2,
     .cpus = 4,
     .gpus = {GPU(1, "0000:41:00.0"), GPU(2, "0000:81:00.0")}},
    {.name = "two-cpus",
     .about = "two sockets of one CPU, the lower PCI id on socket 1",
     .sockets = 2,
     .nodes = 1,
     .cpus = 1,
     .far = 21,
     .gpus = {GPU(1, "0000:06:00.0"), GPU(0, "0000:07:00.0")}},
    {.name = "format-1",
     .about = "a file of hwloc 1: two sockets, four GPUs",
     .sockets = 2,
     .nodes = 1,
     .cpus = 8,
     .far = 21,
     .format = 1,
     .gpus = {GPU(0, "0000:06:00.0"), GPU(0, "0000:07:00.0"),
              GPU(1, "0000:86:00.0"), GPU(1, "0000:87:00.0")}},
};

#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

const char *t_shape_name(int index)
{
    return index >= 0 && index < SHAPES ? shapes[index].name : NULL;
}

const char *t_shape_about(int index)
{
    return index >= 0 && index < SHAPES ? shapes[index].about : NULL;
}

/* ---- Sets ---------------------------------------------------------------- */

/* A set of consecutive numbers is all that these machines need. */
typedef struct span {
    int first, count;
} span;

/* hwloc's spelling: words of 32 bits, the highest first. */
static void write_set(FILE *out, const char *name, const span *part, int parts)
{
    int last = 0;
    for (int p = 0; p < parts; p++)
        if (part[p].count && part[p].first + part[p].count - 1 > last)
            last = part[p].first + part[p].count - 1;
    fprintf(out, " %s=\"", name);
    for (int word = last / 32; word >= 0; word--) {
        uint32_t bits = 0;
        for (int p = 0; p < parts; p++)
            for (int i = part[p].first; i < part[p].first + part[p].count; i++)
                if (i / 32 == word)
                    bits |= UINT32_C(1) << (i % 32);
        fprintf(out, "0x%08x%s", bits, word ? "," : "");
    }
    fputc('"', out);
}

typedef struct writer {
    FILE *out;
    const shape *s;
    int next; /* gp_index */
    int gpu_index[MOST_GPUS];
} writer;

static int node_os(const shape *s, int node)
{
    return s->node_step ? node * s->node_step : node;
}

static int all_nodes(const shape *s)
{
    return s->sockets * s->nodes;
}

static span node_cpus(const shape *s, int node, int count)
{
    span cpus = {node * s->cpus, count * s->cpus};
    return cpus;
}

/* OS indices of `count` nodes from `node` on, with the memory nodes of their
 * sockets when they are whole. */
static int node_spans(const shape *s, int node, int count, span *part)
{
    int parts = 0;
    for (int n = node; n < node + count; n++) {
        part[parts].first = node_os(s, n);
        part[parts++].count = 1;
    }
    if (s->memory_nodes && count >= s->nodes) {
        part[parts].first = 64 + node / s->nodes * (int)s->memory_nodes;
        part[parts++].count = count / s->nodes * (int)s->memory_nodes;
    }
    return parts;
}

/* The four sets that each object carries, and its gp_index. */
static void write_sets(writer *w, span cpus, int node, int count)
{
    span nodes[MOST_NODES + 1];
    int parts = node_spans(w->s, node, count, nodes);

    write_set(w->out, "cpuset", &cpus, 1);
    write_set(w->out, "complete_cpuset", &cpus, 1);
    write_set(w->out, "nodeset", nodes, parts);
    write_set(w->out, "complete_nodeset", nodes, parts);
    if (w->s->format == 1) {
        write_set(w->out, "online_cpuset", &cpus, 1);
        write_set(w->out, "allowed_cpuset", &cpus, 1);
        write_set(w->out, "allowed_nodeset", nodes, parts);
    } else {
        fprintf(w->out, " gp_index=\"%d\"", w->next++);
    }
}

/* ---- Objects ------------------------------------------------------------- */

static void write_gpu(writer *w, int index)
{
    const gpu *g = &w->s->gpus[index];
    unsigned domain, bus, device;

    sscanf(g->pci, "%x:%x:%x", &domain, &bus, &device);
    fprintf(w->out, "<object type=\"Bridge\" os_index=\"%d\"", index);
    if (w->s->format != 1)
        fprintf(w->out, " gp_index=\"%d\"", w->next++);
    fprintf(w->out,
            " bridge_type=\"0-1\" depth=\"0\" "
            "bridge_pci=\"%04x:[%02x-%02x]\">\n<object type=\"PCIDev\" "
            "os_index=\"%u\"",
            domain, bus, bus, (domain << 20) + (bus << 12) + (device << 4));
    w->gpu_index[index] = w->next;
    if (w->s->format != 1)
        fprintf(w->out, " gp_index=\"%d\"", w->next++);
    fprintf(w->out,
            " pci_busid=\"%s\" pci_type=\"%04x [%04x:2330] [10de:16c1] a1\" "
            "pci_link_speed=\"63.015385\">\n",
            g->pci, g->class_id, g->vendor);
    fprintf(w->out, "<info name=\"PCIDevice\" value=\"Device %d\"/>\n", index);
    if (w->s->uuids && g->vendor == NVIDIA)
        fprintf(w->out,
                "<object type=\"OSDev\" gp_index=\"%d\" name=\"nvml%d\" "
                "subtype=\"NVML\" osdev_type=\"1\">\n"
                "<info name=\"Backend\" value=\"NVML\"/>\n"
                "<info name=\"NVIDIAUUID\" "
                "value=\"GPU-%x0000000-0000-4000-8000-00000000000%x\"/>\n"
                "</object>\n",
                w->next++, index, index / 2 + 1, index);
    fputs("</object>\n</object>\n", w->out);
}

static void write_gpus_of(writer *w, int node)
{
    for (int g = 0; g < MOST_GPUS && w->s->gpus[g].pci; g++)
        if (w->s->gpus[g].node == node)
            write_gpu(w, g);
}

static void write_cores(writer *w, int node)
{
    for (int c = node * w->s->cpus; c < (node + 1) * w->s->cpus; c++) {
        span one = {c, 1};
        fprintf(w->out, "<object type=\"Core\" os_index=\"%d\"", c);
        write_sets(w, one, node, 1);
        fprintf(w->out, ">\n<object type=\"PU\" os_index=\"%d\"", c);
        write_sets(w, one, node, 1);
        fputs("/>\n</object>\n", w->out);
    }
}

static void write_numa(writer *w, int node)
{
    fprintf(w->out, "<object type=\"NUMANode\" os_index=\"%d\"",
            node_os(w->s, node));
    write_sets(w, node_cpus(w->s, node, 1), node, 1);
    fputs(" local_memory=\"68719476736\"/>\n", w->out);
}

/* NUMA nodes made of a GPU's memory: no CPU is on them, hwloc gives them those
 * of the socket. */
static void write_memory_nodes(writer *w, int socket)
{
    for (unsigned m = 0; m < w->s->memory_nodes; m++) {
        span cpus = node_cpus(w->s, socket * w->s->nodes, w->s->nodes);
        span own = {64 + socket * (int)w->s->memory_nodes + (int)m, 1};
        fprintf(w->out,
                "<object type=\"NUMANode\" subtype=\"GPUMemory\" "
                "os_index=\"%d\"",
                own.first);
        write_set(w->out, "cpuset", &cpus, 1);
        write_set(w->out, "complete_cpuset", &cpus, 1);
        write_set(w->out, "nodeset", &own, 1);
        write_set(w->out, "complete_nodeset", &own, 1);
        fprintf(w->out, " gp_index=\"%d\" local_memory=\"103079215104\"/>\n",
                w->next++);
    }
}

/* A NUMA node that is a part of a socket sits in a group of its own. */
static void write_node(writer *w, int node)
{
    bool group = w->s->nodes > 1;
    if (group) {
        fputs("<object type=\"Group\" kind=\"1001\" subkind=\"0\"", w->out);
        write_sets(w, node_cpus(w->s, node, 1), node, 1);
        fputs(">\n", w->out);
    }
    write_numa(w, node);
    write_cores(w, node);
    write_gpus_of(w, node);
    if (group)
        fputs("</object>\n", w->out);
}

static void write_socket(writer *w, int socket)
{
    int first = socket * w->s->nodes;

    fprintf(w->out, "<object type=\"Package\" os_index=\"%d\"", socket);
    write_sets(w, node_cpus(w->s, first, w->s->nodes), first, w->s->nodes);
    fputs(">\n", w->out);
    if (w->s->nodes > 1) {
        write_memory_nodes(w, socket);
        for (int n = 0; n < w->s->nodes; n++)
            write_node(w, first + n);
    } else {
        write_numa(w, first);
        write_memory_nodes(w, socket);
        write_cores(w, first);
        write_gpus_of(w, first);
    }
    fputs("</object>\n", w->out);
}

/* Format 1: the socket is inside the NUMA node. */
static void write_socket_1(writer *w, int socket)
{
    fprintf(w->out, "<object type=\"NUMANode\" os_index=\"%d\"", socket);
    write_sets(w, node_cpus(w->s, socket, 1), socket, 1);
    fputs(" local_memory=\"68719476736\">\n", w->out);
    fprintf(w->out, "<object type=\"Socket\" os_index=\"%d\"", socket);
    write_sets(w, node_cpus(w->s, socket, 1), socket, 1);
    fputs(">\n", w->out);
    write_cores(w, socket);
    fputs("</object>\n", w->out);
    write_gpus_of(w, socket);
    fputs("</object>\n", w->out);
}

/* ---- Matrices ------------------------------------------------------------ */

static int distance_of(const shape *s, int a, int b)
{
    if (a == b)
        return 10;
    return a / s->nodes == b / s->nodes ? s->near : s->far;
}

static void write_distances_1(writer *w)
{
    int nodes = all_nodes(w->s);
    fprintf(w->out,
            "<distances nbobjs=\"%d\" relative_depth=\"1\" "
            "latency_base=\"10.000000\">\n",
            nodes);
    for (int a = 0; a < nodes; a++)
        for (int b = 0; b < nodes; b++)
            fprintf(w->out, "<latency value=\"%f\"/>\n",
                    distance_of(w->s, a, b) / 10.0);
    fputs("</distances>\n", w->out);
}

/* Ends the element with its content, whose length is an attribute. */
static void write_list(writer *w, const char *element, char *text)
{
    fprintf(w->out, "<%s length=\"%zu\">%s</%s>\n", element, strlen(text), text,
            element);
    free(text);
}

static void write_matrix(writer *w, const char *head, int count,
                         const int *index, const int *value)
{
    char *text = NULL;
    size_t length;
    FILE *list = open_memstream(&text, &length);

    fprintf(w->out, "<distances2 %s>\n", head);
    for (int i = 0; i < count; i++)
        fprintf(list, "%d ", index[i]);
    fclose(list);
    write_list(w, "indexes", text);
    for (int i = 0; i < count; i++) {
        list = open_memstream(&text, &length);
        for (int j = 0; j < count; j++)
            fprintf(list, "%d ", value[i * count + j]);
        fclose(list);
        write_list(w, "u64values", text);
    }
    fputs("</distances2>\n", w->out);
}

static void write_distances(writer *w)
{
    int nodes = all_nodes(w->s);
    int index[MOST_NODES];
    int value[MOST_NODES * MOST_NODES];
    char head[128];

    for (int a = 0; a < nodes; a++) {
        index[a] = node_os(w->s, a);
        for (int b = 0; b < nodes; b++)
            value[a * nodes + b] = distance_of(w->s, a, b);
    }
    snprintf(head, sizeof head,
             "type=\"NUMANode\" nbobjs=\"%d\" kind=\"5\" "
             "name=\"NUMALatency\" indexing=\"os\"",
             nodes);
    write_matrix(w, head, nodes, index, value);
}

static void write_pairs(writer *w)
{
    int value[MOST_GPUS * MOST_GPUS];
    char head[128];
    int count = 0;

    while (count < MOST_GPUS && w->s->gpus[count].pci)
        count++;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            int bandwidth = a / 2 == b / 2 ? 50000 : 0;
            value[a * count + b] = a == b ? 1000000 : bandwidth;
        }
    snprintf(head, sizeof head,
             "type=\"PCIDev\" nbobjs=\"%d\" kind=\"9\" "
             "name=\"NVLinkBandwidth\" indexing=\"gp\"",
             count);
    write_matrix(w, head, count, w->gpu_index, value);
}

/* ---- The file ------------------------------------------------------------ */

static void write_machine(writer *w)
{
    const shape *s = w->s;
    int nodes = all_nodes(s);
    span allowed[MOST_NODES], allowed_nodes[MOST_NODES];
    int parts = 0;

    for (int n = 0; n < nodes; n++)
        if (!(s->denied >> n & 1)) {
            allowed_nodes[parts].first = node_os(s, n);
            allowed_nodes[parts].count = 1;
            allowed[parts++] = node_cpus(s, n, 1);
        }
    fputs("<object type=\"Machine\" os_index=\"0\"", w->out);
    write_sets(w, node_cpus(s, 0, nodes), 0, nodes);
    if (s->format != 1) {
        write_set(w->out, "allowed_cpuset", allowed, parts);
        write_set(w->out, "allowed_nodeset", allowed_nodes, parts);
    }
    fputs(">\n<info name=\"HostName\" value=\"generated\"/>\n", w->out);
    if (s->format == 1)
        write_distances_1(w);
    for (int k = 0; k < s->sockets; k++)
        if (s->format == 1)
            write_socket_1(w, k);
        else
            write_socket(w, k);
    write_gpus_of(w, MACHINE);
    fputs("</object>\n", w->out);
}

char *t_shape_xml(const char *name)
{
    char *text = NULL;
    size_t length;
    writer w = {.next = 1};

    for (int i = 0; i < SHAPES; i++)
        if (!strcmp(shapes[i].name, name))
            w.s = &shapes[i];
    if (!w.s)
        return NULL;
    w.out = open_memstream(&text, &length);
    fprintf(w.out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<!DOCTYPE topology SYSTEM \"%s\">\n<topology%s>\n",
            w.s->format != 1 ? "hwloc2.dtd" : "hwloc.dtd",
            w.s->format != 1 ? " version=\"2.0\"" : "");
    write_machine(&w);
    if (w.s->format != 1 && w.s->far && all_nodes(w.s) > 1)
        write_distances(&w);
    if (w.s->pairs)
        write_pairs(&w);
    fputs("</topology>\n", w.out);
    fclose(w.out);
    return text;
}
