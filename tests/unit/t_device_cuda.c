/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend, over the real driver or the fake one: two processes share
 * blocks of every kind and an event; then, in one process, every driver call
 * fails once, and a forked child is refused.
 *
 * The owner uses the first device, the guest the last. The second process is
 * forked before the driver is loaded, and reports by its exit code.
 */
#include "device/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/stat.h"
#include "base/sys.h"
#include "t_test.h"

#define MIB ((size_t)1 << 20)
#define WORDS 8
#define MOST 16

static const wharf_handle_kind kinds[] = {WHARF_HANDLE_VMM, WHARF_HANDLE_FABRIC,
                                          WHARF_HANDLE_IPC, WHARF_HANDLE_MEMFD};
#define KINDS 4

static const wi_device_ops *const ops = &wi_device_cuda;

/* One message between the two processes. */
typedef struct parcel {
    wi_handle handle;
    unsigned char event[WI_EVENT_HANDLE_BYTES];
    void *base;
    uint64_t words[WORDS];
    size_t offsets[WORDS];
} parcel;

static void parcel_send(int socket, const parcel *p, const int *fds)
{
    char room[CMSG_SPACE(WI_BLOCK_CHUNKS * sizeof(int))] = {0};
    struct iovec part = {(void *)p, sizeof *p};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    size_t bytes = p->handle.fds * sizeof(int);

    if (bytes > 0) {
        struct cmsghdr *head;

        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(bytes);
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(head), fds, bytes);
    }
    T_EQ_INT(sizeof *p, sendmsg(socket, &message, MSG_NOSIGNAL));
}

static void parcel_receive(int socket, parcel *p, int *fds)
{
    char room[CMSG_SPACE(WI_BLOCK_CHUNKS * sizeof(int))] = {0};
    struct iovec part = {p, sizeof *p};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room,
                             .msg_controllen = sizeof room};
    struct cmsghdr *head;

    T_EQ_INT(sizeof *p, recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
    head = CMSG_FIRSTHDR(&message);
    if (p->handle.fds == 0)
        return;
    T_CHECK(head && head->cmsg_len == CMSG_LEN(p->handle.fds * sizeof(int)));
    memcpy(fds, CMSG_DATA(head), p->handle.fds * sizeof(int));
    for (uint32_t i = 0; i < p->handle.fds; i++)
        wi_sys_adopt(fds[i]);
}

/* Both sides say that they are here. */
static void meet(int socket)
{
    char token = 'x';

    T_EQ_INT(1, send(socket, &token, 1, MSG_NOSIGNAL));
    T_EQ_INT(1, recv(socket, &token, 1, 0));
}

/* The first or the last device; skips the test where there is none. */
static wi_device *device_open(bool first)
{
    wi_device_desc desc[MOST];
    wi_device *device;
    wharf_error error;
    wi_peer peer;
    int count = 0;
    wharf_status status = ops->enumerate(desc, MOST, &count);

    if (status == WHARF_ENODEV && !getenv("WHARF_CUDA_DRIVER")) {
        wharf_last_error(&error);
        T_SKIP("%s", error.cause);
    }
    T_OK(status);
    T_CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        T_EQ_INT(i, desc[i].ordinal);
        T_EQ_INT(12, strlen(desc[i].pci));
        T_CHECK(desc[i].name[0] != '\0' && desc[i].memory_bytes > 0);
        T_CHECK(desc[i].driver_version >= 12000);
    }
    T_OK(ops->open(&desc[first ? 0 : count - 1], &device));
    T_EQ_INT(1, wi_stat_get(WI_STAT_live_contexts));
    ops->link(&device->desc, &desc[first ? count - 1 : 0], &peer);
    T_CHECK(peer.reason[0] != '\0');
    printf("%s %s reaches %s: %d, %s, %d NVLinks\n", device->desc.pci,
           device->desc.name, desc[first ? count - 1 : 0].pci, peer.reachable,
           peer.reason, peer.nvlinks);
    return device;
}

static void nothing_live(void)
{
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_owned));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_device_bytes_owned));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_device_bytes_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_map_bytes));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_ranges));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_driver_events));
}

static void words_check(wi_device *device, char *base, const parcel *p,
                        uint64_t change)
{
    const void *from[WORDS];
    uint64_t got[WORDS];

    for (int i = 0; i < WORDS; i++)
        from[i] = base + p->offsets[i];
    T_OK(ops->read_words(device, from, WORDS, got));
    for (int i = 0; i < WORDS; i++)
        T_EQ_INT(p->words[i] + change, got[i]);
}

static void words_write(wi_device *device, char *base, const parcel *p,
                        uint64_t change)
{
    for (int i = 0; i < WORDS; i++) {
        uint64_t word = p->words[i] + change;

        T_OK(ops->write(device, base + p->offsets[i], &word, sizeof word));
    }
}

static void share_owner(wi_device *device, const wi_memory_ops *memory,
                        int socket)
{
    size_t unit = memory->granularity(device);
    size_t bytes = (10 * MIB + unit - 1) / unit * unit;
    wi_range range = {NULL, 0};
    int fds[WI_BLOCK_CHUNKS];
    wi_event *event = NULL;
    wi_block *block;
    void *at;
    parcel p;

    memset(&p, 0, sizeof p);
    T_OK(memory->reserve(device, NULL, bytes, &range));
    T_OK(memory->create(device, bytes, 4 * MIB, &block));
    T_OK(memory->map(device, block, &range, 0, WI_ACCESS_READ_WRITE, &at));
    T_OK(ops->fill_zero(device, at, bytes));
    for (int i = 0; i < WORDS; i++) {
        p.words[i] = UINT64_C(0x1234567800) + (uint64_t)i;
        p.offsets[i] = i == WORDS - 1 ? bytes - 8 : (size_t)i * bytes / WORDS;
    }
    words_write(device, at, &p, 0);
    T_OK(memory->export_(device, block, &p.handle, fds));
    T_EQ_INT(memory->kind == WHARF_HANDLE_VMM     ? 3
             : memory->kind == WHARF_HANDLE_MEMFD ? 1
                                                  : 0,
             p.handle.fds);
    T_OK(ops->event_create(device, &event));
    T_OK(ops->event_export(event, p.event));
    T_OK(ops->event_record(event, NULL));
    p.base = at;
    parcel_send(socket, &p, fds);
    for (uint32_t i = 0; i < p.handle.fds; i++)
        wi_sys_close(&fds[i]);
    meet(socket); /* the guest has written */
    words_check(device, at, &p, 100);
    meet(socket); /* the guest has closed */
    T_OK(ops->quiesce(device));
    ops->event_destroy(event);
    memory->destroy(device, block);
    memory->unreserve(device, &range);
    nothing_live();
}

static void share_guest(wi_device *device, const wi_memory_ops *memory,
                        int socket)
{
    wi_range range = {NULL, 0}, again = {NULL, 0};
    int fds[WI_BLOCK_CHUNKS];
    wi_event *event = NULL;
    wi_block *block;
    wharf_status status;
    void *at;
    parcel p;

    parcel_receive(socket, &p, fds);
    T_OK(memory->import(device, &p.handle, fds, &block));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_descriptors) -
                    (memory->kind == WHARF_HANDLE_MEMFD));
    if (memory->ranges) {
        T_OK(memory->reserve(device, p.base, p.handle.bytes, &range));
        T_EQ_PTR(p.base, range.base);
        T_STATUS(WHARF_EUNSUPPORTED,
                 memory->reserve(device, p.base, p.handle.bytes, &again));
    }
    T_OK(memory->map(device, block, &range, 0, WI_ACCESS_READ_WRITE, &at));
    T_OK(ops->event_open(device, p.event, &event));
    T_OK(ops->event_wait(event, NULL));
    while ((status = ops->event_query(event)) == WHARF_ENOTREADY)
        ;
    T_OK(status);
    words_check(device, at, &p, 0);
    words_write(device, at, &p, 100);
    meet(socket);
    status = memory->protect(device, block, WI_ACCESS_READ);
    if (memory->kind == WHARF_HANDLE_VMM || memory->kind == WHARF_HANDLE_FABRIC)
        T_OK(status);
    else if (memory->kind == WHARF_HANDLE_IPC)
        T_STATUS(WHARF_EUNSUPPORTED, status);
    printf("kind %d: protect: %s\n", memory->kind, wharf_status_name(status));
    words_check(device, at, &p, 100);
    ops->event_destroy(event);
    memory->destroy(device, block);
    memory->unreserve(device, &range);
    nothing_live();
    meet(socket);
}

/* A leftover of the fake driver's own checks is a failure too. */
static void no_violations(void)
{
    const char *path = getenv("WHARF_CUDA_DRIVER");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    long (*take)(char *, size_t);
    char text[256] = "";
    void *symbol;

    symbol = library ? dlsym(library, "fakeCudaTakeViolations") : NULL;
    if (!symbol)
        return;
    memcpy(&take, &symbol, sizeof symbol);
    if (take(text, sizeof text) != 0)
        T_FAIL("the fake driver complains: %s", text);
}

static void share(bool owner, int socket)
{
    wi_device *device = device_open(owner);

    for (int i = 0; i < KINDS; i++) {
        char reason[96] = "";
        const wi_memory_ops *memory = ops->memory(device, kinds[i], reason);

        if (!memory) {
            printf("kind %d: %s\n", kinds[i], reason);
            T_CHECK(reason[0] != '\0');
        } else if (owner) {
            share_owner(device, memory, socket);
        } else {
            share_guest(device, memory, socket);
        }
    }
    T_OK(ops->health(device));
    ops->close(device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_contexts));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    no_violations();
}

/* Calls made when the backend had been asked for a kind of memory, and after:
 * what fails between them is an answer, not a failure. */
static long asked_from, asked_to;

/* The whole way of an owner; gives all back, whatever happened. */
static wharf_status way(wharf_handle_kind kind)
{
    wi_block *block = NULL;
    wi_device_desc desc[MOST];
    wi_device *device = NULL;
    wi_event *event = NULL;
    const wi_memory_ops *memory = NULL;
    wi_range range = {NULL, 0};
    int fds[WI_BLOCK_CHUNKS], count;
    unsigned char handle_event[WI_EVENT_HANDLE_BYTES];
    wi_handle handle = {.fds = 0};
    char reason[96];
    void *at = NULL, *local = NULL;
    uint64_t word = 7, back = 0;
    wharf_status status = ops->enumerate(desc, MOST, &count);

#define STEP(call)                                                             \
    if (status == WHARF_OK)                                                    \
    status = (call)
    STEP(ops->open(&desc[0], &device));
    asked_from = wi_fault_count();
    if (status == WHARF_OK)
        memory = ops->memory(device, kind, reason);
    asked_to = wi_fault_count();
    if (status == WHARF_OK && memory) {
        status = memory->reserve(device, NULL, 8 * MIB, &range);
        STEP(memory->create(device, 8 * MIB, 4 * MIB, &block));
        STEP(memory->map(device, block, &range, 0, WI_ACCESS_READ_WRITE, &at));
        STEP(ops->fill_zero(device, at, MIB));
        STEP(ops->write(device, at, &word, sizeof word));
        STEP(ops->read_words(device, (const void *[]){at}, 1, &back));
        STEP(memory->export_(device, block, &handle, fds));
        for (uint32_t i = 0; i < handle.fds && status == WHARF_OK; i++)
            wi_sys_close(&fds[i]);
    }
    STEP(ops->local_alloc(device, 100, &local));
    STEP(ops->event_create(device, &event));
    STEP(ops->event_export(event, handle_event));
    STEP(ops->event_record(event, NULL));
    STEP(ops->quiesce(device));
    STEP(ops->health(device));
    STEP(ops->check_stream(device, NULL));
#undef STEP
    if (status == WHARF_OK && memory)
        T_EQ_INT(7, back);
    if (device) {
        ops->local_free(device, local);
        ops->event_destroy(event);
        if (memory) {
            memory->destroy(device, block);
            memory->unreserve(device, &range);
        }
        ops->close(device);
    }
    return status;
}

static void check_faults(wi_fault_kind kind, int code)
{
    int64_t heap = wi_stat_get(WI_STAT_live_host_allocations);
    long points = 0;

    for (int k = 0; k < KINDS; k++) {
        for (long n = 1;; n++) {
            const char *where = NULL;
            wharf_status status;
            wharf_error error;

            wi_fault_arm(kind, n, code);
            status = way(kinds[k]);
            nothing_live();
            T_EQ_INT(1, wi_stat_get(WI_STAT_live_contexts));
            T_EQ_INT(heap, wi_stat_get(WI_STAT_live_host_allocations));
            if (!wi_fault_disarm(&where)) {
                T_OK(status);
                break;
            }
            points++;
            wharf_last_error(&error);
            if (n > asked_from && n <= asked_to)
                continue;
            if (status == WHARF_OK)
                T_FAIL("%s failed and nobody saw it", where);
            T_EQ_INT(status, error.status);
            if (kind == WI_FAULT_DRIVER)
                T_EQ_INT(code, error.native);
        }
    }
    printf("%ld injection points of kind %d\n", points, kind);
    no_violations();
}

static int in_child(void (*body)(void *), void *argument)
{
    int state = 0;
    pid_t pid = fork();

    T_CHECK(pid >= 0);
    if (pid == 0) {
        body(argument);
        _exit(0);
    }
    T_EQ_INT(pid, waitpid(pid, &state, 0));
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static void forked(void *argument)
{
    wi_device *device = argument;
    wi_device_desc desc[1];
    wharf_error error;
    int count;

    T_STATUS(WHARF_ESTATE, ops->health(device));
    T_STATUS(WHARF_ESTATE, ops->enumerate(desc, 1, &count));
    wharf_last_error(&error);
    T_CONTAINS("forked child", error.cause);
    ops->close(device); /* gives the memory back and leaves the driver alone */
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
}

static void alone(void)
{
    /* Kept open through the sweep: a context takes 0.1 s to make. */
    wi_device *device = device_open(true);

    check_faults(WI_FAULT_DRIVER, 2);
    check_faults(WI_FAULT_DRIVER, 700);
    check_faults(WI_FAULT_DRIVER, 801);
    check_faults(WI_FAULT_SYS, EMFILE);
    check_faults(WI_FAULT_MEM, 0);
    T_EQ_INT(0, in_child(forked, device));
    T_OK(ops->health(device));
    ops->close(device);
    no_violations();
}

int main(void)
{
    int pair[2], state = 0;
    pid_t pid;

    T_EQ_INT(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    pid = fork();
    T_CHECK(pid >= 0);
    if (pid == 0) {
        share(false, pair[1]);
        fflush(NULL);
        return 0;
    }
    close(pair[1]);
    share(true, pair[0]);
    T_EQ_INT(pid, waitpid(pid, &state, 0));
    T_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    alone();
    return 0;
}
