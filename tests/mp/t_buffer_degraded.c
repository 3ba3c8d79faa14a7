/* SPDX-License-Identifier: MIT */
/*
 * Machines that cannot do all: each slower path is taken only with a reason
 * that can be asked for, and never in strict mode.
 *
 * argv[1] names the machine; the fake driver pretends to be it through the
 * environment that CMakeLists.txt gives with it.
 */
#include "t_group.h"

#include <mpi.h>
#include <string.h>

static wharf_node *open_with(wharf_switch strict, wharf_backend backend)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.strict = strict;
    options.backend = backend;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    return node;
}

/* Everything works on this node; the memory is of `kind`, and `reason` stands
 * in the info if it is not NULL. */
static void works_with(wharf_node *node, wharf_handle_kind kind,
                       const char *reason)
{
    wharf_buffer *buffer = t_attach(node, 50000 + (size_t)t_me, 0);
    wharf_event *event = NULL;

    for (int rank = 0; rank < t_ranks; rank++) {
        wharf_buffer_info info = t_info(buffer, rank);

        T_EQ_INT(kind, info.handle);
        T_EQ_INT(kind == WHARF_HANDLE_MEMFD ? WHARF_SPACE_HOST
                                            : WHARF_SPACE_DEVICE,
                 info.space);
        T_CHECK(info.reason[0] != '\0');
        if (reason != NULL)
            T_CONTAINS(reason, info.reason);
    }
    t_share(node, buffer, 1);
    T_OK(wharf_buffer_event(buffer, 0, &event));
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_synchronize(event, 1, 0));
    t_detach(buffer);
    buffer = t_attach(node, 50000 + (size_t)t_me, 0);
    t_share(node, buffer, 2);
    t_detach(buffer);
}

/* Strict: the same attach is an error on every rank, and nothing is held;
 * host space, which is what was asked for, is not degraded. */
static void strict_refuses(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_ON, WHARF_BACKEND_CUDA);
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    wharf_stats before = t_stats();

    T_FAILS(MPI_COMM_WORLD, WHARF_EDEGRADED, -1, NULL,
            wharf_buffer_attach(node, 4096, NULL, &buffer));
    T_CHECK(buffer == NULL);
    t_live_check(&before);
    options.space = WHARF_SPACE_HOST;
    T_OK(wharf_buffer_attach(node, 4096, &options, &buffer));
    t_share(node, buffer, 3);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Two GPUs without peer access. */
static void no_peers(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    int64_t degraded = t_stats().degraded_count;
    wharf_link link = WHARF_LINK_INIT;

    T_CHECK(wharf_node_gpus(node) >= 2);
    for (int a = 0; a < t_ranks; a++) {
        for (int b = 0; b < t_ranks; b++) {
            wharf_device x = WHARF_DEVICE_INIT;
            wharf_device y = WHARF_DEVICE_INIT;

            T_OK(wharf_node_link(node, a, b, &link));
            T_OK(wharf_node_device(node, a, &x));
            T_OK(wharf_node_device(node, b, &y));
            if (x.gpu != y.gpu) {
                T_EQ_INT(WHARF_PATH_HOST, link.path);
                T_CHECK(link.reason[0] != '\0');
            }
        }
    }
    works_with(node, WHARF_HANDLE_MEMFD, "reach");
    T_CHECK(t_stats().degraded_count > degraded);
    t_close(node);
    t_live_check(NULL);
    strict_refuses();
}

/* The driver says yes and the data does not arrive. */
static void broken_pair(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    int64_t degraded = t_stats().degraded_count;

    works_with(node, WHARF_HANDLE_MEMFD, "arrive");
    T_CHECK(t_stats().degraded_count > degraded);
    t_close(node);
    t_live_check(NULL);
    strict_refuses();
}

/* No virtual memory management: legacy handles, and what they cannot do. */
static void no_vmm(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    wharf_stats before;

    works_with(node, WHARF_HANDLE_IPC, NULL);
    T_OK(wharf_pool_trim(node));
    before = t_stats();
    options.flags = WHARF_BUFFER_SAME_ADDRESS_REQUIRED;
    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, -1, "SAME_ADDRESS",
            wharf_buffer_attach(node, 4096, &options, &buffer));
    options.flags = WHARF_BUFFER_CONTIGUOUS;
    if (wharf_node_gpus(node) > 1)
        T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, -1, "CONTIGUOUS",
                wharf_buffer_attach(node, 4096, &options, &buffer));
    T_CHECK(buffer == NULL);
    t_live_check(&before);
    buffer = t_attach(node, 3333, WHARF_BUFFER_SAME_ADDRESS);
    t_share(node, buffer, 4);
    t_detach(buffer);
    /* Zeros and read-only do not need virtual memory: the first is kept, the
     * second is a promise of the caller that the info owns up to. */
    buffer = t_attach(node, 3333, WHARF_BUFFER_ZERO | WHARF_BUFFER_READ_ONLY);
    for (int rank = 0; rank < t_ranks; rank++) {
        T_EQ_INT(0, t_info(buffer, rank).write_protected);
        T_EQ_INT(-1, t_dev_check_value(t_place(node, buffer, rank),
                                       t_segment(buffer, rank, NULL), 3333, 0));
    }
    t_barrier();
    t_share(node, buffer, 5);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Neither kind of handle: host memory. */
static void no_handles(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);

    works_with(node, WHARF_HANDLE_MEMFD, NULL);
    t_close(node);
    t_live_check(NULL);
    strict_refuses();
}

/* Memory can be shared, events cannot: named when one is used, no sooner. */
static void no_ipc_event(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    wharf_buffer *buffer = t_attach(node, 9999, 0);
    wharf_event *event = NULL;
    wharf_status status = wharf_event_create(node, 0, &event);

    t_share(node, buffer, 6);
    T_SAME(status);
    if (status == WHARF_OK) {
        if (t_me == 0)
            T_REFUSES(WHARF_EUNSUPPORTED, "event",
                      wharf_event_record(event, NULL, NULL));
        T_OK(wharf_event_destroy(&event));
    } else {
        T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, -1, "event", status);
    }
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* A driver older than Wharf can use. */
static void old_driver(void)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.backend = WHARF_BACKEND_CUDA;
    T_FAILS(MPI_COMM_WORLD, WHARF_ENODEV, -1, "driver",
            wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_CHECK(node == NULL);
    t_live_check(NULL);
    unsetenv("WHARF_BACKEND");
    options.backend = WHARF_BACKEND_AUTO;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    T_EQ_INT(WHARF_BACKEND_HOST, wharf_node_backend(node));
    T_CONTAINS("driver", wharf_node_backend_reason(node));
    works_with(node, WHARF_HANDLE_MEMFD, NULL);
    t_close(node);
    t_live_check(NULL);
}

/* Compute mode "exclusive process": one rank a GPU, or the same refusal on
 * every rank. */
static void exclusive(void)
{
    wharf_node *node = NULL;
    wharf_status status = wharf_node_open(MPI_COMM_WORLD, NULL, &node);
    int devices = (int)t_argument("devices", 2);

    T_SAME(status);
    if (t_ranks <= devices) {
        T_OK(status);
        T_EQ_INT(t_ranks, wharf_node_gpus(node));
        works_with(node, WHARF_HANDLE_VMM, NULL);
        t_close(node);
    } else {
        T_FAILS(MPI_COMM_WORLD, WHARF_ENODEV, -1, NULL, status);
        T_CHECK(node == NULL);
    }
    t_live_check(NULL);
}

/* A GPU that one cannot open at all. */
static void denied(void)
{
    wharf_node *node = NULL;
    wharf_status status = wharf_node_open(MPI_COMM_WORLD, NULL, &node);

    T_SAME(status);
    if (status == WHARF_OK) {
        works_with(node, WHARF_HANDLE_VMM, NULL);
        t_close(node);
    } else {
        wharf_error error;

        T_FAILS(MPI_COMM_WORLD, status, -1, NULL, status);
        wharf_last_error(&error);
        T_CHECK(error.rank >= 0);
    }
    t_live_check(NULL);
}

/* A GPU that cannot map host memory: device space is not touched by that, host
 * space is for the CPUs only and says so, or is refused alike. */
static void no_map_host(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    wharf_status status;

    works_with(node, WHARF_HANDLE_VMM, NULL);
    options.space = WHARF_SPACE_HOST;
    status = wharf_buffer_attach(node, 5000, &options, &buffer);
    if (status == WHARF_OK) {
        t_share(node, buffer, 7);
        T_CONTAINS("map", t_info(buffer, 0).reason);
        t_detach(buffer);
    } else {
        T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, -1, "map", status);
    }
    t_close(node);
    t_live_check(NULL);
}

/* Instances of one GPU see one another only through the host. */
static void mig(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    wharf_device first = WHARF_DEVICE_INIT;

    T_OK(wharf_node_device(node, 0, &first));
    T_CHECK(strncmp(first.uuid, "MIG-", 4) == 0);
    works_with(
        node, wharf_node_gpus(node) > 1 ? WHARF_HANDLE_MEMFD : WHARF_HANDLE_VMM,
        NULL);
    t_close(node);
    t_live_check(NULL);
}

/* WHARF_HANDLE=ipc on a machine that can do all. */
static void handle_ipc(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);

    works_with(node, WHARF_HANDLE_IPC, "WHARF_HANDLE");
    t_close(node);
    t_live_check(NULL);
}

/* WHARF_HANDLE=fabric where fabric handles work, whatever the attribute says.
 */
static void fabric(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_ON, WHARF_BACKEND_CUDA);

    works_with(node, WHARF_HANDLE_FABRIC, "WHARF_HANDLE");
    t_close(node);
    t_live_check(NULL);
}

/* Nobody asked for them, but the driver has no descriptors: they come before
 * legacy handles, which have no addresses to choose. */
static void fabric_instead(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_ON, WHARF_BACKEND_CUDA);
    wharf_buffer *buffer;

    works_with(node, WHARF_HANDLE_FABRIC, "descriptors");
    buffer = t_attach(node, 4321, WHARF_BUFFER_SAME_ADDRESS_REQUIRED);
    T_EQ_INT(1, t_info(buffer, 0).same_address);
    t_share(node, buffer, 3);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* The driver's attribute says yes; creating, exporting or another process's
 * import says no. */
static void fabric_fails(const char *reason)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);

    works_with(node, WHARF_HANDLE_MEMFD, reason);
    T_CHECK(t_stats().degraded_count > 0);
    t_close(node);
    t_live_check(NULL);
    strict_refuses();
}

static void fabric_denied(void)
{
    fabric_fails("creating fails: CUDA_ERROR_NOT_PERMITTED (800), no IMEX");
}

static void fabric_no_export(void)
{
    fabric_fails("exporting fails: CUDA_ERROR_NOT_PERMITTED (800), no IMEX");
}

static void fabric_no_import(void)
{
    fabric_fails("cuMemImportFromShareableHandle");
}

/* One rank has no channel: nobody uses them, and the rank is named. */
static void fabric_on_some(void)
{
    if (t_me == 1)
        T_EQ_INT(0, setenv("WHARF_FAKE_CAPS", "fabric_denied", 1));
    fabric_fails("rank 1: creating fails");
}

/* More pieces than a handle names become larger ones. */
static void fabric_pieces(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    size_t size = t_me == 0 ? ((size_t)37 << 20) + 5 : 777;
    wharf_buffer *buffer = t_attach(node, size, 0);
    wharf_buffer_info info = t_info(buffer, 0);

    T_EQ_INT(WHARF_HANDLE_FABRIC, info.handle);
    T_EQ_INT(7, info.chunks); /* of 6 MiB; of 2 MiB there would be 19 */
    t_share(node, buffer, 8);
    t_detach(buffer);
    buffer = t_attach(node, t_me == 0 ? (size_t)4 << 20 : 0, 0);
    T_EQ_INT(2, t_info(buffer, 0).chunks);
    t_share(node, buffer, 9);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Many physical chunks: every byte of every chunk is the right one. */
static void chunks(void)
{
    wharf_node *node = open_with(WHARF_SWITCH_OFF, WHARF_BACKEND_CUDA);
    long chunk = t_argument("chunk", 2 << 20);
    wharf_buffer *buffer =
        t_attach(node, t_me == 0 ? (size_t)chunk * 3 + 12345 : 777, 0);

    T_EQ_INT(chunk, t_info(buffer, 0).chunk_bytes);
    T_CHECK(t_info(buffer, 0).chunks >= 4);
    t_share(node, buffer, 8);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"no_peers", no_peers, T_FAKE},
    {"broken_pair", broken_pair, T_FAKE},
    {"no_vmm", no_vmm, T_FAKE},
    {"no_handles", no_handles, T_FAKE},
    {"no_ipc_event", no_ipc_event, T_FAKE},
    {"old_driver", old_driver, T_FAKE},
    {"exclusive", exclusive, T_FAKE},
    {"denied", denied, T_FAKE},
    {"no_map_host", no_map_host, T_FAKE},
    {"mig", mig, T_FAKE},
    {"handle_ipc", handle_ipc, T_CUDA},
    {"fabric", fabric, T_FAKE},
    {"fabric_instead", fabric_instead, T_FAKE},
    {"fabric_denied", fabric_denied, T_FAKE},
    {"fabric_no_export", fabric_no_export, T_FAKE},
    {"fabric_no_import", fabric_no_import, T_FAKE},
    {"fabric_on_some", fabric_on_some, T_FAKE},
    {"fabric_pieces", fabric_pieces, T_FAKE},
    {"chunks", chunks, T_CUDA},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    if (argc < 2)
        T_FAIL("name a machine");
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
