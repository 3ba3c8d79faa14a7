/* SPDX-License-Identifier: MIT */
/* What a node tells about itself, alike on all ranks. */
#include "t_group.h"

#include <ctype.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static wharf_device device_of(const wharf_node *node, int rank)
{
    wharf_device device;

    memset(&device, 0, sizeof device);
    device.struct_size = sizeof device;
    T_OK(wharf_node_device(node, rank, &device));
    return device;
}

static wharf_link link_of(const wharf_node *node, int a, int b)
{
    wharf_link link;

    memset(&link, 0, sizeof link);
    link.struct_size = sizeof link;
    T_OK(wharf_node_link(node, a, b, &link));
    return link;
}

/* A number that stands for everything that must be the same on all ranks. */
static uint64_t digest(uint64_t sum, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static void devices(void)
{
    wharf_node *node = t_open();
    int gpus = wharf_node_gpus(node);
    int users = 0;

    T_SAME(gpus);
    T_CHECK(t_mode_get() == T_HOST ? gpus == 0 : gpus >= 1);
    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_device d = device_of(node, rank);

        T_SAME(digest(0, d.uuid, strlen(d.uuid)));
        T_SAME(digest(0, d.pci, strlen(d.pci)));
        T_SAME(digest(0, d.name, strlen(d.name)));
        T_SAME(d.gpu);
        T_SAME(d.owner);
        T_SAME(d.users);
        T_CHECK(d.reason[0] != '\0');
        T_CHECK(d.owner >= 0 && d.owner < t_ranks);
        T_CHECK(d.users >= 1 && d.users <= t_ranks);
        T_EQ_INT(d.gpu, device_of(node, d.owner).gpu);
        if (t_mode_get() == T_HOST) {
            T_EQ_INT(-1, d.gpu);
            T_EQ_INT(-1, d.ordinal);
            T_EQ_STR("", d.uuid);
            T_EQ_STR("host", d.name);
            continue;
        }
        T_CHECK(d.gpu >= 0 && d.gpu < gpus);
        T_CHECK(strncmp(d.uuid, "GPU-", 4) == 0 ||
                strncmp(d.uuid, "MIG-", 4) == 0);
        T_CHECK(d.memory_bytes > 0);
        if (rank == t_me)
            T_CHECK(d.ordinal >= 0);
    }
    for (int gpu = 0; gpu < gpus; gpu++) {
        int owner = -1;

        T_OK(wharf_node_owner(node, gpu, &owner));
        T_SAME(owner);
        T_EQ_INT(gpu, device_of(node, owner).gpu);
        T_EQ_INT(owner, device_of(node, owner).owner);
        users += device_of(node, owner).users;
    }
    if (gpus > 0)
        T_EQ_INT(t_ranks, users);
    t_close(node);
}

static void links(void)
{
    wharf_node *node = t_open();

    for (int a = 0; a < t_ranks; a++) {
        for (int b = 0; b < t_ranks; b++) {
            wharf_link link = link_of(node, a, b);
            bool one_gpu = device_of(node, a).gpu == device_of(node, b).gpu;

            T_SAME(link.path);
            T_SAME(link.nvlinks);
            T_CHECK(link.reason[0] != '\0');
            if (a == b)
                T_EQ_INT(WHARF_PATH_SAME_PROCESS, link.path);
            else if (t_mode_get() == T_HOST)
                T_EQ_INT(WHARF_PATH_HOST, link.path);
            else if (one_gpu)
                T_EQ_INT(WHARF_PATH_SAME_GPU, link.path);
            else
                T_CHECK(link.path == WHARF_PATH_NVLINK ||
                        link.path == WHARF_PATH_PCIE_PEER ||
                        link.path == WHARF_PATH_HOST);
        }
    }
    t_close(node);
}

static void bad_queries(void)
{
    wharf_node *node = t_open();
    wharf_device device = WHARF_DEVICE_INIT;
    wharf_link link = WHARF_LINK_INIT;
    MPI_Comm comm;
    int rank = 0;

    T_EQ_INT(-1, wharf_node_rank(NULL));
    T_EQ_INT(-1, wharf_node_size(NULL));
    T_EQ_INT(-1, wharf_node_gpus(NULL));
    T_EQ_STR("", wharf_node_backend_reason(NULL));
    T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(NULL));
    T_REFUSES(WHARF_EARG, "node", wharf_node_communicator(NULL, &comm));
    T_REFUSES(WHARF_EARG, NULL, wharf_node_communicator(node, NULL));
    T_REFUSES(WHARF_EARG, "gpu", wharf_node_owner(node, -1, &rank));
    T_REFUSES(WHARF_EARG, "gpu",
              wharf_node_owner(node, wharf_node_gpus(node), &rank));
    T_REFUSES(WHARF_EARG, "node", wharf_node_owner(NULL, 0, &rank));
    T_REFUSES(WHARF_EARG, "rank", wharf_node_device(node, -1, &device));
    T_REFUSES(WHARF_EARG, "rank", wharf_node_device(node, t_ranks, &device));
    T_REFUSES(WHARF_EARG, NULL, wharf_node_device(node, 0, NULL));
    T_REFUSES(WHARF_EARG, "node", wharf_node_device(NULL, 0, &device));
    device.struct_size = 1;
    T_REFUSES(WHARF_EARG, "size", wharf_node_device(node, 0, &device));
    T_REFUSES(WHARF_EARG, "rank", wharf_node_link(node, 0, t_ranks, &link));
    T_REFUSES(WHARF_EARG, "rank", wharf_node_link(node, -1, 0, &link));
    T_REFUSES(WHARF_EARG, NULL, wharf_node_link(node, 0, 0, NULL));
    link.struct_size = 0;
    T_REFUSES(WHARF_EARG, "size", wharf_node_link(node, 0, 0, &link));
    T_REFUSES(WHARF_EARG, NULL,
              wharf_node_print(node, NULL, WHARF_FORMAT_TEXT));
    T_REFUSES(WHARF_EARG, NULL,
              wharf_node_print(node, stdout, (wharf_format)7));
    T_REFUSES(WHARF_EARG, "node",
              wharf_node_print(NULL, stdout, WHARF_FORMAT_TEXT));
    t_close(node);
}

/* Just enough JSON to say whether a text is one object and nothing else. */
static const char *skip_value(const char *at);

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *skip_string(const char *at)
{
    T_CHECK(*at == '"');
    for (at++; *at != '"'; at++) {
        T_CHECK(*at != '\0');
        if (*at == '\\')
            at++;
    }
    return at + 1;
}

static const char *skip_list(const char *at, char end, bool keys)
{
    at = skip_space(at + 1);
    if (*at == end)
        return at + 1;
    for (;;) {
        if (keys) {
            at = skip_space(skip_string(skip_space(at)));
            T_CHECK(*at == ':');
            at++;
        }
        at = skip_space(skip_value(skip_space(at)));
        if (*at == end)
            return at + 1;
        T_CHECK(*at == ',');
        at++;
    }
}

static const char *skip_value(const char *at)
{
    const char *start = at;

    if (*at == '{')
        return skip_list(at, '}', true);
    if (*at == '[')
        return skip_list(at, ']', false);
    if (*at == '"')
        return skip_string(at);
    while (isalnum((unsigned char)*at) || *at == '-' || *at == '+' ||
           *at == '.')
        at++;
    T_CHECK(at > start);
    return at;
}

static char *print(const wharf_node *node, wharf_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    T_CHECK(file != NULL);
    T_OK(wharf_node_print(node, file, format));
    T_CHECK(fclose(file) == 0);
    T_CHECK(text != NULL && size > 0);
    return text;
}

static void printing(void)
{
    wharf_node *node = t_open();
    char *text = print(node, WHARF_FORMAT_TEXT);
    char *json = print(node, WHARF_FORMAT_JSON);
    const char *end;
    const char *at = json;
    int ranks = 0;
    FILE *full = fopen("/dev/full", "w");

    T_CONTAINS(t_mode_get() == T_HOST ? "host" : "GPU", text);
    end = skip_space(skip_value(skip_space(json)));
    T_EQ_INT('\0', *end);
    T_EQ_INT('{', *skip_space(json));
    T_CONTAINS("\"ranks\"", json);
    if (wharf_node_gpus(node) > 0) {
        char owners[32];
        int owner = -1;

        T_OK(wharf_node_owner(node, 0, &owner));
        snprintf(owners, sizeof owners, "\"owners\": [%d", owner);
        T_CONTAINS(owners, json);
    }
    while ((at = strstr(at, "{\"rank\":")) != NULL) {
        ranks++;
        at++;
    }
    T_EQ_INT(t_ranks, ranks);
    if (full != NULL) {
        T_REFUSES(WHARF_EOS, NULL,
                  wharf_node_print(node, full, WHARF_FORMAT_TEXT));
        fclose(full);
    }
    free(text);
    free(json);
    t_close(node);
}

static void names(void)
{
    T_EQ_STR("same-process", wharf_path_name(WHARF_PATH_SAME_PROCESS));
    T_EQ_STR("same-gpu", wharf_path_name(WHARF_PATH_SAME_GPU));
    T_EQ_STR("nvlink", wharf_path_name(WHARF_PATH_NVLINK));
    T_EQ_STR("pcie-peer", wharf_path_name(WHARF_PATH_PCIE_PEER));
    T_EQ_STR("host", wharf_path_name(WHARF_PATH_HOST));
    T_EQ_STR("unknown", wharf_path_name((wharf_path)99));
    T_EQ_STR("unknown", wharf_path_name((wharf_path)-1));
}

static const t_case cases[] = {
    {"devices", devices, T_ANY},
    {"links", links, T_ANY},
    {"bad_queries", bad_queries, T_ANY},
    {"printing", printing, T_ANY},
    {"names", names, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
