/* SPDX-License-Identifier: MIT */
/*
 * What the backend says of machines of all kinds, over the fake driver: each
 * case in a process of its own, since a driver is loaded once.
 */
#include "device/device.h"

#include <sys/resource.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/stat.h"
#include "t_child.h"
#include "t_test.h"

static const wi_device_ops *const ops = &wi_device_cuda;

static wi_device_desc desc[4];
static int count;

static void machine(const char *caps, const char *visible, const char *peers)
{
    if (caps)
        setenv("WHARF_FAKE_CAPS", caps, 1);
    if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    if (peers)
        setenv("WHARF_FAKE_PEERS", peers, 1);
}

static wi_device *opened(void)
{
    wi_device *device = NULL;

    T_OK(ops->enumerate(desc, 4, &count));
    T_CHECK(count > 0);
    T_OK(ops->open(&desc[0], &device));
    return device;
}

static void refused(const char *part)
{
    wharf_error error;

    count = -1;
    T_STATUS(WHARF_ENODEV, ops->enumerate(desc, 4, &count));
    wharf_last_error(&error);
    T_CONTAINS(part, error.cause);
    T_CHECK(error.remedy[0] != '\0');
    T_EQ_INT(-1, count);
}

static void old_driver(void *unused)
{
    wharf_error error;

    (void)unused;
    machine("old_driver", NULL, NULL);
    refused("too old");
    wharf_last_error(&error);
    T_CONTAINS("11.4", error.cause);
    T_CONTAINS("12.0", error.cause);
}

/* The driver says "out of memory" before anything was asked of a GPU. */
static void little_address_space(void *unused)
{
    struct rlimit limit = {512 << 20, 512 << 20};
    wharf_error error;

    (void)unused;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* the sanitizer needs the address space itself */
#endif
    T_EQ_INT(0, setrlimit(RLIMIT_AS, &limit));
    refused("cuInit");
    wharf_last_error(&error);
    T_CONTAINS("ulimit -v", error.remedy);
}

static void nothing_visible(void *unused)
{
    (void)unused;
    machine(NULL, "", NULL);
    refused("CUDA_VISIBLE_DEVICES is \"\"");
}

static void bad_token(void *unused)
{
    (void)unused;
    machine(NULL, "x,0", NULL);
    refused("CUDA_VISIBLE_DEVICES is \"x,0\"");
}

static void lacks(const char *caps, wharf_handle_kind kind)
{
    char reason[96] = "";
    wi_device *device;

    machine(caps, NULL, NULL);
    device = opened();
    T_CHECK(!ops->memory(device, kind, reason));
    T_CHECK(reason[0] != '\0');
    for (int other = WHARF_HANDLE_MEMFD; other <= WHARF_HANDLE_IPC; other++)
        T_CHECK(other == (int)kind ||
                ops->memory(device, (wharf_handle_kind)other, reason));
    ops->close(device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_contexts));
}

static void no_vmm(void *unused)
{
    (void)unused;
    lacks("no_vmm", WHARF_HANDLE_VMM);
}

static void no_descriptors(void *unused)
{
    (void)unused;
    lacks("no_fd_handle", WHARF_HANDLE_VMM);
}

static void no_fabric(void *unused)
{
    static const char *const words[][2] = {
        {"mps", "creating fails: CUDA_ERROR_NOT_PERMITTED (800)"},
        {"fabric_denied", "no IMEX channel?"},
        {"fabric_no_export", "exporting fails: CUDA_ERROR_NOT_PERMITTED (800)"},
        {"no_vmm", "CUDA_ERROR_NOT_SUPPORTED"},
    };
    int which = *(int *)unused;
    char reason[96] = "", again[96] = "";
    wi_device *device;

    machine(words[which][0], NULL, NULL);
    device = opened();
    T_CHECK(!ops->memory(device, WHARF_HANDLE_FABRIC, reason));
    T_CONTAINS(words[which][1], reason);
    /* Tried once, the answer stays. */
    T_CHECK(!ops->memory(device, WHARF_HANDLE_FABRIC, again));
    T_EQ_STR(reason, again);
    ops->close(device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_contexts));
}

/* What the attribute says does not count. */
static void fabric_unsaid(void *unused)
{
    char reason[96] = "";
    wi_device *device;

    (void)unused;
    machine("fabric_unsaid,no_fd_handle", NULL, NULL);
    device = opened();
    T_EQ_INT(0, device->desc.caps & (WI_CAP_FABRIC | WI_CAP_VMM));
    T_CHECK(ops->memory(device, WHARF_HANDLE_FABRIC, reason));
    ops->close(device);
}

/* A kind that the driver refuses when asked is an answer, no failure of the
 * call that asked: the error record stays as it was. */
static void refusal_is_an_answer(void *unused)
{
    wharf_error before, after;
    char reason[96] = "";
    wi_device *device;

    (void)unused;
    device = opened();
    wharf_last_error(&before);
    wi_fault_arm(WI_FAULT_DRIVER, 3, 801); /* behind the two of entering */
    T_CHECK(!ops->memory(device, WHARF_HANDLE_HOST_VMM, reason));
    T_CHECK(wi_fault_disarm(NULL));
    T_CONTAINS("cuMemGetAllocationGranularity", reason);
    wharf_last_error(&after);
    T_EQ_INT(before.status, after.status);
    T_EQ_STR(before.cause, after.cause);
    ops->close(device);
}

static void no_ipc(void *unused)
{
    (void)unused;
    lacks("no_ipc", WHARF_HANDLE_IPC);
}

static void no_mapped_host(void *unused)
{
    (void)unused;
    lacks("no_map_host", WHARF_HANDLE_MEMFD);
}

static void no_events(void *unused)
{
    unsigned char handle[WI_EVENT_HANDLE_BYTES];
    wi_event *event = NULL;
    wi_device *device;

    (void)unused;
    machine("no_ipc_event,no_memops,mps", NULL, NULL);
    device = opened();
    T_EQ_INT(WI_CAP_MPS,
             desc[0].caps & (WI_CAP_IPC_EVENT | WI_CAP_MEM_OPS | WI_CAP_MPS));
    T_OK(ops->event_create(device, &event)); /* of this process alone */
    T_STATUS(WHARF_EUNSUPPORTED, ops->event_export(event, handle));
    T_CONTAINS("notify", wi_error_record()->remedy);
    ops->event_destroy(event);
    ops->close(device);
}

static void prohibited(void *unused)
{
    wi_device *device = NULL;

    (void)unused;
    machine("prohibited", NULL, NULL);
    T_OK(ops->enumerate(desc, 4, &count));
    T_EQ_INT(1, desc[0].prohibited);
    T_STATUS(WHARF_ENODEV, ops->open(&desc[0], &device));
    T_EQ_PTR(NULL, device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
}

static void exclusive(void *unused)
{
    (void)unused;
    machine("exclusive", NULL, NULL);
    T_OK(ops->enumerate(desc, 4, &count));
    T_EQ_INT(1, desc[0].exclusive);
    T_EQ_INT(0, desc[0].mig);
}

static void mig(void *unused)
{
    wi_device_desc other;
    wi_device *device;
    wi_peer peer;

    (void)unused;
    machine("mig", NULL, NULL);
    device = opened();
    T_EQ_INT(1, count);
    T_EQ_INT(1, desc[0].mig);
    other = desc[0];
    other.uuid[0] ^= 1; /* its sister: same GPU, same PCI id */
    ops->link(&device->desc, &other, &peer);
    T_CHECK(!peer.reachable);
    T_CONTAINS("MIG", peer.reason);
    ops->close(device);
}

static void peers(void *unused)
{
    wi_device *device;
    wi_peer peer;

    (void)unused;
    machine(NULL, NULL, "none");
    device = opened();
    T_EQ_INT(2, count);
    ops->link(&device->desc, &desc[1], &peer);
    T_CHECK(!peer.reachable && !peer.nvlink);
    ops->link(&device->desc, &desc[0], &peer);
    T_CHECK(peer.reachable);
    ops->close(device);
}

/* A GPU outside the mask may be reachable all the same. */
static void peer_invisible(void *unused)
{
    wi_device_desc other;
    wi_device *device;
    wi_peer peer;

    (void)unused;
    machine(NULL, "1", NULL);
    device = opened();
    T_EQ_INT(1, count);
    other = desc[0];
    other.uuid[3] ^= 1;
    ops->link(&device->desc, &other, &peer);
    T_CHECK(peer.reachable);
    T_CONTAINS("not visible", peer.reason);
    ops->close(device);
}

int main(void)
{
    static void (*const cases[])(void *) = {
        old_driver,      little_address_space,
        nothing_visible, bad_token,
        no_vmm,          no_descriptors,
        no_ipc,          no_mapped_host,
        no_events,       prohibited,
        exclusive,       mig,
        peers,           peer_invisible,
        fabric_unsaid,   refusal_is_an_answer};

    if (!getenv("WHARF_CUDA_DRIVER"))
        T_SKIP("WHARF_CUDA_DRIVER names no fake driver");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        t_child_run(cases[i], NULL);
    for (int which = 0; which < 4; which++)
        t_child_run(no_fabric, &which);
    return 0;
}
