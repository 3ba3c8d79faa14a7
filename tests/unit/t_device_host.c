/* SPDX-License-Identifier: MIT */
/* The host backend: shared memory created, exported, imported, mapped side by
 * side, protected and given back; bad handles; nothing left over. */
#include "device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/stat.h"
#include "base/sys.h"
#include "t_test.h"

static wi_device *device;
static const wi_memory_ops *memory;
static size_t unit;

static void counters_are_zero(void)
{
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_owned));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_device_bytes_owned));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_device_bytes_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_map_bytes));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_ranges));
}

static void device_open(void)
{
    wi_device_desc desc[2];
    wi_peer peer;
    char reason[96];
    int count = -1;

    T_OK(wi_device_host.enumerate(desc, 2, &count));
    T_EQ_INT(1, count);
    T_EQ_STR("host", desc[0].name);
    T_OK(wi_device_host.open(&desc[0], &device));
    memory = device->ops->memory(device, WHARF_HANDLE_MEMFD, reason);
    T_CHECK(memory && memory->ranges);
    T_CHECK(!device->ops->memory(device, WHARF_HANDLE_VMM, reason));
    T_CONTAINS("host", reason);
    unit = memory->granularity(device);
    T_CHECK(unit > 0 && (unit & (unit - 1)) == 0);
    device->ops->link(&device->desc, &desc[0], &peer);
    T_CHECK(peer.reachable && peer.reason[0] != '\0');
    T_OK(device->ops->health(device));
    T_OK(device->ops->make_current(device));
}

/* Does a write end the process by a signal? In a child. */
static int write_signal(volatile char *at)
{
    int state = 0;
    pid_t pid = fork();

    T_CHECK(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *at = 1;
        _exit(0);
    }
    T_EQ_INT(pid, waitpid(pid, &state, 0));
    return WIFSIGNALED(state) ? WTERMSIG(state) : 0;
}

static wi_block *block_share(wi_block *owner)
{
    wi_block *guest = NULL;
    int fds[WI_BLOCK_CHUNKS];
    wi_handle handle;

    T_OK(memory->export_(device, owner, &handle, fds));
    T_EQ_INT(1, handle.fds);
    T_CHECK(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    T_OK(memory->import(device, &handle, fds, &guest));
    return guest;
}

static void check_side_by_side(void)
{
    wi_block *block[2] = {NULL, NULL}, *guest[2];
    void *at[2], *seen[2];
    wi_range mine = {NULL, 0}, theirs = {NULL, 0};
    const size_t bytes[2] = {3 * unit, unit};
    const void *words[2];
    uint64_t got[2];

    T_OK(memory->reserve(device, NULL, 4 * unit, &mine));
    T_OK(memory->reserve(device, NULL, 4 * unit, &theirs));
    for (int i = 0; i < 2; i++) {
        size_t offset = i == 0 ? 0 : bytes[0];

        T_OK(memory->create(device, bytes[i], unit, &block[i]));
        T_OK(memory->map(device, block[i], &mine, offset, WI_ACCESS_READ_WRITE,
                         &at[i]));
        T_EQ_PTR((char *)mine.base + offset, at[i]);
        guest[i] = block_share(block[i]);
        T_OK(memory->map(device, guest[i], &theirs, offset,
                         WI_ACCESS_READ_WRITE, &seen[i]));
    }
    T_EQ_INT(2, wi_stat_get(WI_STAT_live_blocks_owned));
    T_EQ_INT(2, wi_stat_get(WI_STAT_live_blocks_imported));

    T_OK(device->ops->write(device, at[0], "first..", 8));
    T_OK(device->ops->write(device, at[1], "second.", 8));
    T_EQ_STR("first..", seen[0]);
    T_EQ_STR("second.", (char *)theirs.base + bytes[0]);
    words[0] = seen[1];
    words[1] = seen[0];
    T_OK(device->ops->read_words(device, words, 2, got));
    T_EQ_MEM("second.", &got[0], 8);
    T_EQ_MEM("first..", &got[1], 8);
    T_OK(device->ops->fill_zero(device, seen[0], bytes[0]));
    T_EQ_INT(0, *(char *)at[0]);

    T_OK(memory->protect(device, guest[0], WI_ACCESS_READ));
    T_EQ_INT(SIGSEGV, write_signal(seen[0]));
    T_EQ_INT(0, write_signal(seen[1]));
    T_EQ_INT(0, write_signal(at[0]));
    T_OK(memory->protect(device, guest[0], WI_ACCESS_READ_WRITE));
    T_EQ_INT(0, write_signal(seen[0]));

    /* The memory lives until the last one lets go. */
    memory->destroy(device, block[1]);
    T_EQ_INT(SIGSEGV, write_signal(at[1]));
    T_CHECK(((char *)seen[1])[1] == 'e');
    memory->destroy(device, guest[1]);
    memory->destroy(device, guest[0]);
    memory->destroy(device, block[0]);
    memory->destroy(device, NULL);
    memory->unreserve(device, &mine);
    memory->unreserve(device, &theirs);
    T_EQ_PTR(NULL, mine.base);
    counters_are_zero();
}

static void check_wish(void)
{
    wi_range range = {NULL, 0}, again = {NULL, 0};
    void *wish;

    T_OK(memory->reserve(device, NULL, 16 * unit, &range));
    wish = range.base;
    T_STATUS(WHARF_EUNSUPPORTED, memory->reserve(device, wish, unit, &again));
    T_EQ_PTR(NULL, again.base);
    memory->unreserve(device, &range);
    T_OK(memory->reserve(device, wish, 16 * unit, &range));
    T_EQ_PTR(wish, range.base);
    memory->unreserve(device, &range);
    counters_are_zero();
}

/* Whatever comes in as a handle: refused, and its descriptors are closed. */
static void check_bad_handles(void)
{
    wi_block *owner, *guest = NULL;
    int fds[WI_BLOCK_CHUNKS];
    wi_handle good, bad;
    wharf_error error;

    T_STATUS(WHARF_EARG, memory->create(device, 0, 0, &guest));
    T_STATUS(WHARF_EARG, memory->create(device, unit + 1, 0, &guest));
    T_OK(memory->create(device, unit, 0, &owner));
    for (int i = 0; i < 5; i++) {
        T_OK(memory->export_(device, owner, &good, fds));
        bad = good;
        if (i == 0)
            bad.kind = WHARF_HANDLE_IPC;
        else if (i == 1)
            bad.bytes = bad.chunk_bytes = 2 * unit;
        else if (i == 2)
            bad.bytes = 0;
        else if (i == 3)
            bad.chunk_bytes = 0;
        else
            bad.chunk_bytes = UINT64_MAX;
        T_STATUS(WHARF_EPROTOCOL, memory->import(device, &bad, fds, &guest));
        T_EQ_INT(-1, fcntl(fds[0], F_GETFD));
    }
    T_EQ_PTR(NULL, guest);
    memory->destroy(device, owner);

    T_STATUS(WHARF_ENOMEM, memory->create(device, (size_t)1 << 62, 0, &owner));
    wharf_last_error(&error);
    T_CONTAINS("4611686018427387904 bytes", error.cause);
    counters_are_zero();
}

/* Each system call and allocation of the path fails once. */
static void check_faults(wi_fault_kind kind, int code)
{
    for (long n = 1;; n++) {
        wi_block *block = NULL, *guest = NULL;
        wi_range range = {NULL, 0};
        int fds[WI_BLOCK_CHUNKS];
        wi_handle handle;
        void *at;
        wharf_status status;

        wi_fault_arm(kind, n, code);
        status = memory->reserve(device, NULL, 2 * unit, &range);
        if (status == WHARF_OK)
            status = memory->create(device, unit, 0, &block);
        if (status == WHARF_OK)
            status = memory->map(device, block, &range, 0, WI_ACCESS_READ_WRITE,
                                 &at);
        if (status == WHARF_OK)
            status = memory->export_(device, block, &handle, fds);
        if (status == WHARF_OK)
            status = memory->import(device, &handle, fds, &guest);
        if (status == WHARF_OK)
            status =
                memory->map(device, guest, &range, unit, WI_ACCESS_READ, &at);
        memory->destroy(device, guest);
        memory->destroy(device, block);
        memory->unreserve(device, &range);
        counters_are_zero();
        if (!wi_fault_disarm(NULL)) {
            T_EQ_INT(WHARF_OK, status);
            T_CHECK(n > 2);
            return;
        }
        T_CHECK(status != WHARF_OK);
    }
}

static void check_events(void)
{
    unsigned char handle[WI_EVENT_HANDLE_BYTES];
    wi_event *event = NULL, *opened = NULL;

    T_OK(device->ops->event_create(device, &event));
    T_OK(device->ops->event_export(event, handle));
    T_OK(device->ops->event_open(device, handle, &opened));
    T_OK(device->ops->event_record(event, NULL));
    T_OK(device->ops->event_wait(opened, NULL));
    T_OK(device->ops->event_query(opened));
    T_STATUS(WHARF_EARG,
             device->ops->event_record(event, (wharf_stream)&event));
    T_STATUS(WHARF_EARG,
             device->ops->check_stream(device, (wharf_stream)&event));
    T_OK(device->ops->check_stream(device, NULL));
    device->ops->event_destroy(opened);
    device->ops->event_destroy(event);
    device->ops->event_destroy(NULL);
}

/* Signals are core's own here; what else belongs to them is there. */
static void check_signals(void)
{
    wi_sync_step step = {WI_SYNC_ADD, 0, NULL};
    uint32_t *report = NULL;
    bool capturing = true;

    T_STATUS(WHARF_EUNSUPPORTED,
             device->ops->sync_prepare(device, WI_SYNC_KERNEL));
    T_STATUS(WHARF_EUNSUPPORTED, device->ops->sync(device, NULL, WI_SYNC_KERNEL,
                                                   &step, 1, 0, NULL));
    T_OK(device->ops->capturing(device, NULL, &capturing));
    T_CHECK(!capturing);
    T_STATUS(WHARF_EARG,
             device->ops->capturing(device, (wharf_stream)&report, &capturing));
    T_OK(device->ops->report_alloc(device, 3, &report));
    T_CHECK(report[0] == 0 && report[2] == 0);
    device->ops->report_free(device, report);
    device->ops->report_free(device, NULL);
}

int main(void)
{
    void *local = NULL;

    device_open();
    check_side_by_side();
    check_wish();
    check_bad_handles();
    check_faults(WI_FAULT_SYS, EMFILE);
    check_faults(WI_FAULT_MEM, 0);
    check_events();
    check_signals();
    T_OK(device->ops->local_alloc(device, 100, &local));
    memset(local, 1, 100);
    device->ops->local_free(device, local);
    T_OK(device->ops->quiesce(device));
    device->ops->close(device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
