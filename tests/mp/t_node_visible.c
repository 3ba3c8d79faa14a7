/* SPDX-License-Identifier: MIT */
/*
 * Visible-device masks that differ by rank: ordinals mean nothing, UUIDs do.
 *
 * Each case sets CUDA_VISIBLE_DEVICES before the driver is first loaded, so
 * each is a process of its own: argv[1] names it. Needs at least two devices.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64 };

/* Of all GPUs of the machine, in the driver's own order. */
static char uuids[MOST_DEVICES][48];
static int devices;

static void mask(const char *text)
{
    T_CHECK(setenv("CUDA_VISIBLE_DEVICES", text, 1) == 0);
}

static wharf_device device_of(const wharf_node *node, int rank)
{
    wharf_device device = WHARF_DEVICE_INIT;

    T_OK(wharf_node_device(node, rank, &device));
    return device;
}

/* Shares through both kinds of space and checks who has which GPU. */
static void share_and_close(wharf_node *node)
{
    wharf_buffer *buffer = t_attach(node, 40000 + (size_t)t_me, 0);
    wharf_event *event = NULL;

    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_device device = device_of(node, rank);
        uint64_t sum = 0;

        for (const char *at = device.uuid; *at != '\0'; at++)
            sum = sum * 131 + (unsigned char)*at;
        T_SAME(sum);
        T_SAME(device.gpu);
        T_SAME(device.owner);
    }
    t_share(node, buffer, 1);
    T_OK(wharf_buffer_event(buffer, 0, &event));
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_wait(event, 1, NULL));
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* One GPU a rank, another one each, all of them device 0 to their rank. */
static void one_each(void)
{
    char text[16];
    int mine = t_me % devices;
    wharf_node *node;
    int used = devices < t_ranks ? devices : t_ranks;

    snprintf(text, sizeof text, "%d", mine);
    mask(text);
    node = t_open();
    T_EQ_INT(used, wharf_node_gpus(node));
    T_EQ_INT(1, t_device_count(node));
    T_EQ_INT(0, device_of(node, t_me).ordinal);
    for (int rank = 0; rank < t_ranks; rank++) {
        T_EQ_STR(uuids[rank % devices], device_of(node, rank).uuid);
        if (rank % devices != mine)
            T_EQ_INT(-1, device_of(node, rank).ordinal);
    }
    share_and_close(node);
}

static void one_each_by_uuid(void)
{
    wharf_node *node;

    mask(uuids[t_me % devices]);
    node = t_open();
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_STR(uuids[rank % devices], device_of(node, rank).uuid);
    share_and_close(node);
}

/* The shortest start of a UUID that the driver takes. */
static void one_each_by_short_uuid(void)
{
    char text[16];
    wharf_node *node;

    snprintf(text, sizeof text, "%.12s", uuids[t_me % devices]);
    mask(text);
    node = t_open();
    T_EQ_STR(uuids[t_me % devices], device_of(node, t_me).uuid);
    share_and_close(node);
}

/* All GPUs everywhere, in another order on each rank. */
static void reordered(void)
{
    char text[256] = "";
    wharf_node *node;

    for (int i = 0; i < devices; i++) {
        size_t length = strlen(text);

        snprintf(text + length, sizeof text - length, "%s%d", i ? "," : "",
                 (i + t_me) % devices);
    }
    mask(text);
    node = t_open();
    T_EQ_INT(devices, t_device_count(node));
    T_EQ_STR(uuids[(device_of(node, t_me).ordinal + t_me) % devices],
             device_of(node, t_me).uuid);
    share_and_close(node);
}

/* A bad token cuts the list there: what stands before it counts. */
static void bad_token(void)
{
    wharf_node *node;

    mask(t_me % 2 ? "1,99,0" : "0,x,1");
    node = t_open();
    T_EQ_INT(1, t_device_count(node));
    T_EQ_STR(uuids[t_me % 2], device_of(node, t_me).uuid);
    share_and_close(node);
}

/* An empty mask on one rank: no GPU there, so none for the node. */
static void empty_on_one(void)
{
    wharf_node *node = NULL;
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    if (t_me == t_ranks - 1)
        mask("");
    T_FAILS(MPI_COMM_WORLD, WHARF_ENODEV, t_ranks - 1, NULL,
            wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    T_CHECK(node == NULL);
    t_live_check(NULL);
    /* auto: everybody uses the host, and knows why. */
    unsetenv("WHARF_BACKEND");
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(node));
    T_CHECK(wharf_node_backend_reason(node)[0] != '\0');
    share_and_close(node);
}

/* Half of the ranks see one GPU, the others all. */
static void one_and_all(void)
{
    wharf_node *node;

    if (t_me % 2 == 0)
        mask("1");
    node = t_open();
    if (t_me % 2 == 0)
        T_EQ_STR(uuids[1], device_of(node, t_me).uuid);
    share_and_close(node);
}

/* A map of the user's wins, by UUID, whatever the ordinals. */
static void mapped(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    char map[MOST_DEVICES * 50] = "";

    for (int rank = 0; rank < t_ranks; rank++) {
        size_t length = strlen(map);

        snprintf(map + length, sizeof map - length, "%s%s", rank ? "," : "",
                 uuids[(t_ranks - rank) % devices]);
    }
    options.device_map = map;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_STR(uuids[(t_ranks - rank) % devices], device_of(node, rank).uuid);
    share_and_close(node);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"one_each", one_each},
        {"one_each_by_uuid", one_each_by_uuid},
        {"one_each_by_short_uuid", one_each_by_short_uuid},
        {"reordered", reordered},
        {"bad_token", bad_token},
        {"empty_on_one", empty_on_one},
        {"one_and_all", one_and_all},
        {"mapped", mapped},
    };

    unsetenv("CUDA_VISIBLE_DEVICES");
    devices = t_driver_list(uuids, MOST_DEVICES);
    if (devices < 2)
        T_SKIP("%d GPU(s) here, two are needed", devices);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    T_CHECK(t_mode_get() != T_HOST);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            MPI_Finalize();
            return 0;
        }
    }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
