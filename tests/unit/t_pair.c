/* SPDX-License-Identifier: MIT */
/* See t_pair.h. */
#include "t_pair.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/stat.h"
#include "base/sys.h"
#include "t_test.h"

#define MOST 16
#define ALONE 3 /* exit code: there is one device only */

static const wi_device_ops *const ops = &wi_device_cuda;

/* ---- Calls that the library has no use for ----------------------------- */

static void *driver_library(void)
{
    const char *path = getenv("WHARF_CUDA_DRIVER");

    return dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

static void find(const char *name, int version, void *function)
{
    void *symbol = dlsym(driver_library(), "cuGetProcAddress_v2");
    PFN_cuGetProcAddress_v12000 get;
    void *found = NULL;

    T_CHECK(symbol != NULL);
    memcpy(&get, &symbol, sizeof get);
    T_EQ_INT(0, get(name, &found, version, 0, NULL));
    T_CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

void t_pair_capture(const t_pair *pair)
{
    PFN_cuStreamBeginCapture_v10010 begin;

    find("cuStreamBeginCapture", 10010, &begin);
    T_EQ_INT(0, begin(pair->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

CUgraphExec t_pair_captured(const t_pair *pair)
{
    PFN_cuStreamEndCapture_v10000 end;
    PFN_cuGraphInstantiateWithFlags_v11040 make;
    PFN_cuGraphDestroy_v10000 destroy;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    find("cuStreamEndCapture", 10000, &end);
    find("cuGraphInstantiateWithFlags", 11040, &make);
    find("cuGraphDestroy", 10000, &destroy);
    T_EQ_INT(0, end(pair->stream, &graph));
    T_EQ_INT(0, make(&exec, graph, 0));
    T_EQ_INT(0, destroy(graph));
    return exec;
}

void t_pair_replay(const t_pair *pair, CUgraphExec graph, int times)
{
    PFN_cuGraphLaunch_v10000 launch;

    find("cuGraphLaunch", 10000, &launch);
    for (int i = 0; i < times; i++)
        T_EQ_INT(0, launch(graph, pair->stream));
}

void t_pair_forget(CUgraphExec graph)
{
    PFN_cuGraphExecDestroy_v10000 destroy;

    find("cuGraphExecDestroy", 10000, &destroy);
    T_EQ_INT(0, destroy(graph));
}

bool t_fake_fine(void)
{
    void *symbol = dlsym(driver_library(), "fakeCudaTakeViolations");
    long (*take)(char *, size_t);
    char text[256] = "";

    if (!symbol)
        return false;
    memcpy(&take, &symbol, sizeof symbol);
    if (take(text, sizeof text) != 0)
        T_FAIL("the fake driver complains: %s", text);
    return true;
}

/* ---- Pads -------------------------------------------------------------- */

static void handle_send(int socket, const wi_handle *handle, int fd)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)handle, sizeof *handle};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (handle->fds > 0) {
        struct cmsghdr *head;

        message.msg_control = room;
        message.msg_controllen = sizeof room;
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    T_EQ_INT(sizeof *handle, sendmsg(socket, &message, MSG_NOSIGNAL));
}

static void handle_receive(int socket, wi_handle *handle, int *fd)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {handle, sizeof *handle};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room,
                             .msg_controllen = sizeof room};
    struct cmsghdr *head;

    T_EQ_INT(sizeof *handle, recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
    if (handle->fds == 0)
        return;
    head = CMSG_FIRSTHDR(&message);
    T_CHECK(head && head->cmsg_len == CMSG_LEN(sizeof(int)));
    memcpy(fd, CMSG_DATA(head), sizeof *fd);
    wi_sys_adopt(*fd);
}

static void pads_make(t_pair *pair)
{
    wi_device *device = pair->device;
    const wi_memory_ops *memory;
    wi_handle handle;
    char reason[96];
    size_t bytes;
    void *at;
    int fd = -1;

    memory = ops->memory(device, WHARF_HANDLE_VMM, reason);
    if (!memory)
        memory = ops->memory(device, WHARF_HANDLE_MEMFD, reason);
    if (!memory)
        T_SKIP("no memory that could be shared: %s", reason);
    pair->memory = memory;
    bytes = memory->granularity(device);
    while (bytes < 2 * T_PAD_DATA)
        bytes *= 2;
    T_OK(memory->reserve(device, NULL, bytes, &pair->range[0]));
    T_OK(memory->create(device, bytes, 0, &pair->block[0]));
    T_OK(memory->map(device, pair->block[0], &pair->range[0], 0,
                     WI_ACCESS_READ_WRITE, &at));
    pair->mine = at;
    T_OK(ops->fill_zero(device, at, bytes));
    T_OK(memory->export_(device, pair->block[0], &handle, &fd));
    handle_send(pair->socket, &handle, fd);
    if (handle.fds > 0)
        wi_sys_close(&fd);
    handle_receive(pair->socket, &handle, &fd);
    T_OK(memory->import(device, &handle, &fd, &pair->block[1]));
    T_OK(memory->reserve(device, NULL, bytes, &pair->range[1]));
    T_OK(memory->map(device, pair->block[1], &pair->range[1], 0,
                     WI_ACCESS_READ_WRITE, &at));
    pair->peer = at;
}

static void pads_drop(t_pair *pair)
{
    T_OK(ops->quiesce(pair->device));
    t_pair_meet(pair);
    pair->memory->destroy(pair->device, pair->block[1]);
    pair->memory->unreserve(pair->device, &pair->range[1]);
    t_pair_meet(pair);
    pair->memory->destroy(pair->device, pair->block[0]);
    pair->memory->unreserve(pair->device, &pair->range[0]);
}

void t_pair_meet(const t_pair *pair)
{
    char token = 'x';

    T_EQ_INT(1, send(pair->socket, &token, 1, MSG_NOSIGNAL));
    T_EQ_INT(1, recv(pair->socket, &token, 1, 0));
}

uint32_t t_pair_read(const t_pair *pair, int word)
{
    const void *from[] = {t_pad_word(pair->mine, word)};
    uint64_t got = 0;

    T_OK(ops->read_words(pair->device, from, 1, &got));
    return (uint32_t)got;
}

void t_pair_write(const t_pair *pair, int word, uint32_t value)
{
    T_OK(ops->write(pair->device, t_pad_word(pair->mine, word), &value,
                    sizeof value));
}

void t_pair_clear(const t_pair *pair)
{
    T_OK(ops->fill_zero(pair->device, pair->mine, T_PAD_DATA));
}

void t_pair_finish(const t_pair *pair)
{
    T_EQ_INT(0, wi_driver.cuStreamSynchronize(pair->stream));
}

/* ---- Processes --------------------------------------------------------- */

static void device_take(t_pair *pair)
{
    wi_device_desc desc[MOST];
    wharf_error error;
    int count = 0;
    wharf_status status = ops->enumerate(desc, MOST, &count);

    if (status == WHARF_ENODEV && !getenv("WHARF_CUDA_DRIVER")) {
        wharf_last_error(&error);
        T_SKIP("%s", error.cause);
    }
    T_OK(status);
    T_CHECK(count > 0);
    if (!pair->together && count < 2)
        _exit(ALONE);
    T_OK(ops->open(&desc[pair->together || pair->rank == 0 ? 0 : count - 1],
                   &pair->device));
    T_OK(ops->make_current(pair->device));
}

static _Noreturn void process(t_pair *pair, void (*body)(t_pair *))
{
    device_take(pair);
    T_EQ_INT(0,
             wi_driver.cuStreamCreate(&pair->stream, CU_STREAM_NON_BLOCKING));
    pads_make(pair);
    t_pair_meet(pair);
    body(pair);
    t_pair_finish(pair);
    T_EQ_INT(0, wi_driver.cuStreamDestroy(pair->stream));
    pads_drop(pair);
    T_EQ_INT(0, wi_driver.cuCtxSetCurrent(NULL));
    ops->close(pair->device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_owned));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_imported));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    (void)t_fake_fine();
    fflush(NULL);
    exit(0); /* the fake driver looks for leaks at exit */
}

bool t_pair_run(bool together, void (*body)(t_pair *))
{
    int pair[2], code = 0;
    pid_t pid[2];

    T_EQ_INT(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    for (int i = 0; i < 2; i++) {
        t_pair me = {.rank = i, .together = together, .socket = pair[i]};

        fflush(NULL);
        pid[i] = fork();
        T_CHECK(pid[i] >= 0);
        if (pid[i] == 0) {
            close(pair[1 - i]);
            process(&me, body);
        }
    }
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 2; i++) {
        int state = 0;

        T_EQ_INT(pid[i], waitpid(pid[i], &state, 0));
        T_CHECK(WIFEXITED(state));
        if (WEXITSTATUS(state) != 0)
            code = WEXITSTATUS(state);
    }
    if (code == T_EXIT_SKIP)
        exit(T_EXIT_SKIP);
    T_CHECK(code == 0 || code == ALONE);
    return code == 0;
}
