/* SPDX-License-Identifier: MIT */
/*
 * The loader that asks hwloc, 2.4 and later. GPUs are taken as PCI devices,
 * never as OS devices: the CUDA and NVML plug-ins that would make those are
 * missing from most distributions. hwloc's own topology is gone when this
 * returns.
 */
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "topo/bits.h"
#include "topo/model.h"
#include "topo/xml_file.h"

/* Bandwidth of one NVLink in MB/s and direction, of the generations from 2 on:
 * only used to compare pairs of GPUs with each other. */
#define NVLINK_MBPS 25000

static bool is_gpu(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
    return wi_pci_is_gpu(attr->class_id, attr->vendor_id);
}

/* Memory of GPUs and of expanders is near some CPUs, but no CPU is on it. hwloc
 * gives such a node the CPUs nearby; its subtype tells. */
static bool has_cpus(hwloc_obj_t node)
{
    static const char *const without[] = {"GPUMemory", "NVM", "CXL"};
    if (!node->cpuset || hwloc_bitmap_iszero(node->cpuset))
        return false;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (node->subtype &&
            !strncmp(node->subtype, without[i], strlen(without[i])))
            return false;
    return true;
}

static void bits_copy(hwloc_const_bitmap_t from, uint64_t *to)
{
    int bit;
    for (bit = hwloc_bitmap_first(from); bit >= 0 && bit < WHARF_TOPO_INDICES;
         bit = hwloc_bitmap_next(from, bit))
        wi_bits_set(to, bit);
}

/* ---- Loading ------------------------------------------------------------ */

static wharf_status source_set(hwloc_topology_t hw, const char *path,
                               char **text)
{
    size_t length;
    wharf_status status = wi_xml_read(path, text, &length);

    if (status == WHARF_OK)
        status = wi_xml_check(path, *text, length);
    if (status != WHARF_OK)
        return status;
    /* hwloc wants the NUL counted. */
    if (hwloc_topology_set_xmlbuffer(hw, *text, (int)length + 1))
        return wi_fail(WHARF_ECONFIG, "pass an XML file written by hwloc",
                       "hwloc does not take %.100s as XML", path);
    return WHARF_OK;
}

/*
 * Plug-ins that would start GPU software stacks in this process, for OS devices
 * that are not looked at: hundreds of milliseconds, and leaks in some. A name
 * that this hwloc does not know is fine.
 */
static void plugins_exclude(hwloc_topology_t hw)
{
    static const char *const heavy[] = {"cuda", "nvml",      "opencl",
                                        "rsmi", "levelzero", "gl"};
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++)
        hwloc_topology_set_components(
            hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, heavy[i]);
}

/*
 * Disallowed CPUs are wanted: without them a GPU beside such CPUs would have no
 * locality at all.
 */
static wharf_status hw_load(const char *path, hwloc_topology_t *out)
{
    hwloc_topology_t hw = NULL;
    char *text = NULL;
    wharf_status status = WHARF_OK;

    if (hwloc_topology_init(&hw))
        return wi_fail(WHARF_ENOMEM, NULL, "hwloc has no memory");
    hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    plugins_exclude(hw);
    if (path)
        status = source_set(hw, path, &text);
    if (status == WHARF_OK && hwloc_topology_load(hw)) {
        if (path)
            status = wi_fail(WHARF_ECONFIG, "write the file again with lstopo",
                             "hwloc finds %.100s broken", path);
        else
            status = wi_fail(WHARF_ECONFIG,
                             "check HWLOC_XMLFILE and other HWLOC_ variables",
                             "hwloc cannot read this machine's topology");
    }
    wi_free(text);
    if (status != WHARF_OK) {
        hwloc_topology_destroy(hw);
        return status;
    }
    *out = hw;
    return WHARF_OK;
}

/* ---- NUMA nodes ---------------------------------------------------------- */

static int os_index_of(hwloc_obj_t obj)
{
    return obj && obj->os_index < WHARF_TOPO_INDICES ? (int)obj->os_index : -1;
}

/* The socket above the node; files of format 1 have it below: then the only one
 * that shares CPUs with the node. */
static int package_of(hwloc_topology_t hw, hwloc_obj_t node)
{
    hwloc_obj_t above =
        hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, node);
    hwloc_obj_t below = NULL;
    int found = -1, count = 0;

    if (above)
        return os_index_of(above);
    while ((below = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_PACKAGE, below)))
        if (hwloc_bitmap_intersects(below->cpuset, node->cpuset)) {
            found = os_index_of(below);
            count++;
        }
    return count == 1 ? found : -1;
}

static void node_read(hwloc_topology_t hw, hwloc_obj_t obj, wharf_topo *topo)
{
    wi_topo_numa *node = &topo->node[topo->nodes];

    if (obj->os_index >= WHARF_TOPO_INDICES) {
        wi_topo_note(topo, "NUMA node %u is ignored: its index is above %d",
                     obj->os_index, WHARF_TOPO_INDICES - 1);
        return;
    }
    if (has_cpus(obj))
        bits_copy(obj->cpuset, node->cpus);
    if (!wi_bits_count(node->cpus, WI_TOPO_CPU_WORDS)) {
        wi_bits_set(topo->blind, (int)obj->os_index);
        return;
    }
    if (topo->nodes == WI_TOPO_NODES) {
        memset(node, 0, sizeof *node);
        wi_topo_note(topo, "NUMA node %u is ignored: there are more than %d",
                     obj->os_index, WI_TOPO_NODES);
        return;
    }
    node->os_index = (int)obj->os_index;
    node->package = package_of(hw, obj);
    topo->nodes++;
}

static int node_index(const wharf_topo *topo, hwloc_obj_t obj)
{
    for (int n = 0; obj && obj->type == HWLOC_OBJ_NUMANODE && n < topo->nodes;
         n++)
        if (topo->node[n].os_index == (int)obj->os_index)
            return n;
    return -1;
}

/* The matrix "NUMALatency"; format 1 of the XML knows it by kind only. */
static struct hwloc_distances_s *latency_get(hwloc_topology_t hw)
{
    struct hwloc_distances_s *found = NULL;
    unsigned count = 1;

    if (!hwloc_distances_get_by_name(hw, "NUMALatency", &count, &found, 0) &&
        count && found)
        return found;
    count = 1;
    found = NULL;
    if (hwloc_distances_get_by_type(hw, HWLOC_OBJ_NUMANODE, &count, &found,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) ||
        !count)
        return NULL;
    return found;
}

static void latency_read(hwloc_topology_t hw, wharf_topo *topo)
{
    struct hwloc_distances_s *matrix = latency_get(hw);
    bool cut = false;

    wi_topo_guess_distances(topo);
    if (!matrix) {
        if (topo->nodes > 1)
            wi_topo_note(topo,
                         "no distance table: %d in a NUMA node, %d in a "
                         "socket, %d between sockets are assumed",
                         WI_TOPO_SAME_NODE, WI_TOPO_SAME_PACKAGE,
                         WI_TOPO_OTHER_PACKAGE);
        return;
    }
    for (unsigned i = 0; i < matrix->nbobjs; i++)
        for (unsigned j = 0; j < matrix->nbobjs; j++) {
            uint64_t value = matrix->values[i * matrix->nbobjs + j];
            int a = node_index(topo, matrix->objs[i]);
            int b = node_index(topo, matrix->objs[j]);
            if (a < 0 || b < 0)
                continue;
            cut |= value < 1 || value > WI_TOPO_FAR;
            value = value < 1 ? 1 : value;
            value = value > WI_TOPO_FAR ? WI_TOPO_FAR : value;
            topo->distance[a * topo->nodes + b] = (int32_t)value;
        }
    hwloc_distances_release(hw, matrix);
    if (cut)
        wi_topo_note(topo,
                     "the distance table has values outside 1..%d; they are "
                     "cut to that",
                     WI_TOPO_FAR);
}

/* ---- GPUs ---------------------------------------------------------------- */

/* NUMA nodes of the CPUs that the GPU hangs on. Hanging on the whole machine
 * is what numa_node -1 looks like. */
static void gpu_locate(const wharf_topo *topo, hwloc_obj_t pci,
                       wi_topo_gpu *gpu)
{
    hwloc_obj_t above = pci->parent;
    uint64_t cpus[WI_TOPO_CPU_WORDS] = {0};
    int count = 0;

    gpu->node = -1;
    while (above && !above->cpuset)
        above = above->parent;
    if (!above)
        return;
    bits_copy(above->cpuset, cpus);
    for (int n = 0; n < topo->nodes; n++)
        if (wi_bits_meet(topo->node[n].cpus, cpus, WI_TOPO_CPU_WORDS)) {
            wi_bits_set(gpu->nodes, n);
            gpu->node = count++ ? gpu->node : n;
        }
    if (count == topo->nodes && count > 1) {
        memset(gpu->nodes, 0, sizeof gpu->nodes);
        gpu->node = -1;
    }
}

/* The UUID is only there if an NVML plug-in recorded it. */
static void gpu_describe(hwloc_obj_t pci, wi_topo_gpu *gpu)
{
    const char *name = hwloc_obj_get_info_by_name(pci, "PCIDevice");

    snprintf(gpu->name, sizeof gpu->name, "%s",
             name ? name : (pci->name ? pci->name : ""));
    for (hwloc_obj_t os = pci->io_first_child; os; os = os->next_sibling) {
        const char *uuid = os->type == HWLOC_OBJ_OS_DEVICE
                               ? hwloc_obj_get_info_by_name(os, "NVIDIAUUID")
                               : NULL;
        if (uuid && !strncmp(uuid, "GPU-", 4))
            snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    }
}

static void gpu_read(const wharf_topo *topo, hwloc_obj_t pci, wi_topo_gpu *gpu)
{
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;

    snprintf(gpu->pci, sizeof gpu->pci, "%04x:%02x:%02x.%01x",
             (unsigned)attr->domain, attr->bus, attr->dev, attr->func & 0xfu);
    gpu->listed = true;
    gpu_describe(pci, gpu);
    gpu_locate(topo, pci, gpu);
}

static int gpu_index(const wharf_topo *topo, hwloc_obj_t obj)
{
    wi_topo_gpu probe = {0};
    while (obj && obj->type != HWLOC_OBJ_PCI_DEVICE)
        obj = obj->parent;
    if (!obj || !is_gpu(obj))
        return -1;
    gpu_read(topo, obj, &probe);
    for (int g = 0; g < topo->gpus; g++)
        if (!strcmp(topo->gpu[g].pci, probe.pci))
            return g;
    return -1;
}

/* Where GPUs are joined by switches, the matrix lists the switch ports. */
static void links_close(hwloc_topology_t hw, struct hwloc_distances_s *matrix)
{
#if HWLOC_API_VERSION >= 0x00020500
    if (!(matrix->kind & HWLOC_DISTANCES_KIND_HETEROGENEOUS_TYPES))
        return;
    hwloc_distances_transform(
        hw, matrix, HWLOC_DISTANCES_TRANSFORM_MERGE_SWITCH_PORTS, NULL, 0);
    hwloc_distances_transform(
        hw, matrix, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE, NULL, 0);
#else
    (void)hw;
    (void)matrix;
#endif
}

static wharf_status links_read(hwloc_topology_t hw, wharf_topo *topo)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;

    if (hwloc_distances_get_by_name(hw, "NVLinkBandwidth", &count, &matrix,
                                    0) ||
        !count || !matrix)
        return WHARF_OK;
    topo->links =
        wi_calloc((size_t)topo->gpus * (size_t)topo->gpus, sizeof *topo->links);
    if (topo->links) {
        links_close(hw, matrix);
        for (unsigned i = 0; i < matrix->nbobjs; i++)
            for (unsigned j = 0; j < matrix->nbobjs; j++) {
                uint64_t value = matrix->values[i * matrix->nbobjs + j];
                int a = gpu_index(topo, matrix->objs[i]);
                int b = gpu_index(topo, matrix->objs[j]);
                if (a < 0 || b < 0 || a == b || !value)
                    continue;
                value = (value + NVLINK_MBPS - 1) / NVLINK_MBPS;
                value = value > 100 ? 100 : value;
                topo->links[a * topo->gpus + b] = 1 + (int32_t)value;
            }
    }
    hwloc_distances_release(hw, matrix);
    return topo->links ? WHARF_OK : WHARF_ENOMEM;
}

/* ---- All of it ----------------------------------------------------------- */

static wharf_status fill_from(hwloc_topology_t hw, wharf_topo *topo)
{
    int nodes = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_NUMANODE);
    hwloc_obj_t obj = NULL;
    int gpus = 0;
    wharf_status status;

    while ((obj = hwloc_get_next_pcidev(hw, obj)))
        gpus += is_gpu(obj);
    if (gpus > WHARF_MAX_GPUS)
        return wi_fail(WHARF_ELIMIT, NULL,
                       "the topology has %d GPUs, at most %d", gpus,
                       WHARF_MAX_GPUS);
    if (nodes < 0 || nodes > WI_TOPO_NODES)
        nodes = WI_TOPO_NODES;
    /* One more than counted: node_read looks at a node before it is sure. */
    status = wi_topo_room(topo, nodes + 1, gpus);
    if (status != WHARF_OK)
        return status;
    bits_copy(hwloc_topology_get_allowed_cpuset(hw), topo->allowed);
    while ((obj = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, obj)))
        node_read(hw, obj, topo);
    latency_read(hw, topo);
    while ((obj = hwloc_get_next_pcidev(hw, obj)))
        if (is_gpu(obj))
            gpu_read(topo, obj, &topo->gpu[topo->gpus++]);
    wi_topo_sort(topo);
    return links_read(hw, topo);
}

wharf_status wi_topo_fill(const char *path, wharf_topo *topo)
{
    hwloc_topology_t hw = NULL;
    wharf_status status = hw_load(path, &hw);

    if (status != WHARF_OK)
        return status;
    topo->foreign = !path && !hwloc_topology_is_thissystem(hw);
    status = fill_from(hw, topo);
    hwloc_topology_destroy(hw);
    return status;
}
