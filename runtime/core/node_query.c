/* SPDX-License-Identifier: MIT */
/* What can be asked of an open node without talking to other ranks. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/sys.h"
#include "base/versioned.h"
#include "core/visit.h"

wharf_status wi_node_local(const char *call, const wharf_node *node)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(node, WI_HANDLE_NODE, "node");
    if (status == WHARF_OK)
        wi_call_set_rank(node->rank);
    return status;
}

wharf_status wi_node_check_rank(const wharf_node *node, const char *name,
                                int rank)
{
    if (rank >= 0 && rank < node->size)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass a node rank",
                   "%s is %d, the node has ranks 0 to %d", name, rank,
                   node->size - 1);
}

static bool is_open(const wharf_node *node)
{
    return node && wi_handle_check(node, WI_HANDLE_NODE, "node") == WHARF_OK;
}

int wharf_node_rank(const wharf_node *node)
{
    return is_open(node) ? node->rank : -1;
}

int wharf_node_size(const wharf_node *node)
{
    return is_open(node) ? node->size : -1;
}

wharf_backend wharf_node_backend(const wharf_node *node)
{
    return is_open(node) ? node->backend : WHARF_BACKEND_HOST;
}

const char *wharf_node_backend_reason(const wharf_node *node)
{
    return is_open(node) ? node->backend_reason : "";
}

int wharf_node_gpus(const wharf_node *node)
{
    return is_open(node) ? node->gpus : -1;
}

wharf_status wharf_node_communicator(const wharf_node *node, MPI_Comm *comm)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK && !comm)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "comm is NULL");
    if (status == WHARF_OK)
        status = wi_visit_refuse(node, "communicators");
    if (status == WHARF_OK)
        *comm = wi_comm_mpi(node->comm);
    return wi_call_end(status);
}

wharf_status wharf_node_owner(const wharf_node *node, int gpu, int *rank)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK && (gpu < 0 || gpu >= node->gpus))
        status = wi_fail(WHARF_EARG, "see wharf_node_gpus",
                         "gpu is %d, the node has %d", gpu, node->gpus);
    if (status == WHARF_OK && !rank)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "rank is NULL");
    if (status == WHARF_OK)
        *rank = node->gpu[gpu].owner;
    return wi_call_end(status);
}

static void fill_device(const wharf_node *node, int rank, wharf_device *device)
{
    const wi_topo_line *line = &node->lines[rank];
    int g = node->gpu_of_rank[rank];
    device->gpu = g;
    device->distance = line->distance;
    memcpy(device->reason, line->reason, sizeof device->reason);
    if (g < 0) {
        device->ordinal = -1;
        device->users = node->size;
        strcpy(device->name, "host");
        return;
    }
    const wi_gpu *gpu = &node->gpu[g];
    device->ordinal = gpu->desc.ordinal;
    device->owner = gpu->owner;
    device->users = gpu->users;
    device->memory_bytes = gpu->desc.memory_bytes;
    wi_uuid_format(&gpu->desc, device->uuid);
    memcpy(device->pci, gpu->desc.pci, sizeof device->pci);
    memcpy(device->name, gpu->desc.name, sizeof device->name);
}

wharf_status wharf_node_device(const wharf_node *node, int rank,
                               wharf_device *device)
{
    wharf_status status = wi_node_local(__func__, node);
    if (status == WHARF_OK)
        status = wi_node_check_rank(node, "rank", rank);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_device found = {.struct_size = sizeof found};
    fill_device(node, rank, &found);
    return wi_call_end(
        wi_versioned_write(device, &found, sizeof found, "device"));
}

const char *wharf_path_name(wharf_path path)
{
    switch (path) {
    case WHARF_PATH_SAME_PROCESS:
        return "same-process";
    case WHARF_PATH_SAME_GPU:
        return "same-gpu";
    case WHARF_PATH_NVLINK:
        return "nvlink";
    case WHARF_PATH_PCIE_PEER:
        return "pcie-peer";
    case WHARF_PATH_HOST:
        return "host";
    }
    return "unknown";
}

wharf_status wharf_environment_print(FILE *file)
{
    wi_call_begin(__func__, -1);
    if (!file)
        return wi_call_end(
            wi_fail(WHARF_EARG, "pass an open file", "file is NULL"));
    wi_config_print(file);
    return wi_call_end(wi_sys_flush(file, "the settings"));
}
