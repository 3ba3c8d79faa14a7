/* SPDX-License-Identifier: MIT */
/*
 * For the tests of the fake driver: its entry points, loaded from the library
 * that WHARF_CUDA_DRIVER names, and checks. Two processes of a test are a fork
 * before cuInit; everything that depends on the environment runs in a child.
 */
#ifndef T_FAKE_H
#define T_FAKE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "../fake_cuda.h"

#define T_ENTRIES(X)                                                           \
    X(cuInit)                                                                  \
    X(cuDriverGetVersion)                                                      \
    X(cuDeviceGetCount)                                                        \
    X(cuDeviceGet)                                                             \
    X(cuDeviceGetName)                                                         \
    X(cuDeviceGetUuid_v2)                                                      \
    X(cuDeviceGetPCIBusId)                                                     \
    X(cuDeviceGetAttribute)                                                    \
    X(cuDeviceCanAccessPeer)                                                   \
    X(cuDevicePrimaryCtxRetain)                                                \
    X(cuDevicePrimaryCtxRelease)                                               \
    X(cuDevicePrimaryCtxReset)                                                 \
    X(cuDevicePrimaryCtxGetState)                                              \
    X(cuCtxSetCurrent)                                                         \
    X(cuCtxGetCurrent)                                                         \
    X(cuCtxPushCurrent)                                                        \
    X(cuCtxPopCurrent)                                                         \
    X(cuCtxSynchronize)                                                        \
    X(cuCtxEnablePeerAccess)                                                   \
    X(cuMemAlloc)                                                              \
    X(cuMemFree)                                                               \
    X(cuMemGetInfo)                                                            \
    X(cuMemGetAddressRange)                                                    \
    X(cuMemHostAlloc)                                                          \
    X(cuMemFreeHost)                                                           \
    X(cuMemHostRegister)                                                       \
    X(cuMemHostUnregister)                                                     \
    X(cuMemHostGetDevicePointer)                                               \
    X(cuMemAllocManaged)                                                       \
    X(cuMemAllocAsync)                                                         \
    X(cuMemFreeAsync)                                                          \
    X(cuMemAllocFromPoolAsync)                                                 \
    X(cuMemPoolCreate)                                                         \
    X(cuMemPoolDestroy)                                                        \
    X(cuMemPoolExportToShareableHandle)                                        \
    X(cuMemPoolImportFromShareableHandle)                                      \
    X(cuMemPoolExportPointer)                                                  \
    X(cuMemPoolImportPointer)                                                  \
    X(cuMemPoolGetAccess)                                                      \
    X(cuMemPoolSetAccess)                                                      \
    X(cuPointerGetAttribute)                                                   \
    X(cuMemcpyHtoD)                                                            \
    X(cuMemcpyDtoH)                                                            \
    X(cuMemcpyHtoDAsync)                                                       \
    X(cuMemcpyDtoHAsync)                                                       \
    X(cuMemcpyDtoDAsync)                                                       \
    X(cuMemcpy2DAsync)                                                         \
    X(cuMemsetD8Async)                                                         \
    X(cuMemsetD32Async)                                                        \
    X(cuMemGetAllocationGranularity)                                           \
    X(cuMemCreate)                                                             \
    X(cuMemRelease)                                                            \
    X(cuMemAddressReserve)                                                     \
    X(cuMemAddressFree)                                                        \
    X(cuMemMap)                                                                \
    X(cuMemUnmap)                                                              \
    X(cuMemSetAccess)                                                          \
    X(cuMemExportToShareableHandle)                                            \
    X(cuMemImportFromShareableHandle)                                          \
    X(cuMemGetAllocationPropertiesFromHandle)                                  \
    X(cuIpcGetMemHandle)                                                       \
    X(cuIpcOpenMemHandle)                                                      \
    X(cuIpcCloseMemHandle)                                                     \
    X(cuIpcGetEventHandle)                                                     \
    X(cuIpcOpenEventHandle)                                                    \
    X(cuStreamCreate)                                                          \
    X(cuStreamDestroy)                                                         \
    X(cuStreamQuery)                                                           \
    X(cuStreamSynchronize)                                                     \
    X(cuStreamWaitEvent)                                                       \
    X(cuStreamWaitValue32)                                                     \
    X(cuStreamWriteValue32)                                                    \
    X(cuStreamBatchMemOp)                                                      \
    X(cuStreamBeginCapture)                                                    \
    X(cuStreamEndCapture)                                                      \
    X(cuStreamIsCapturing)                                                     \
    X(cuThreadExchangeStreamCaptureMode)                                       \
    X(cuGraphInstantiate)                                                      \
    X(cuGraphLaunch)                                                           \
    X(cuGraphDestroy)                                                          \
    X(cuGraphExecDestroy)                                                      \
    X(cuGraphGetNodes)                                                         \
    X(cuLaunchHostFunc)                                                        \
    X(cuEventCreate)                                                           \
    X(cuEventDestroy)                                                          \
    X(cuEventRecord)                                                           \
    X(cuEventRecordWithFlags)                                                  \
    X(cuEventQuery)                                                            \
    X(cuEventSynchronize)                                                      \
    X(cuEventElapsedTime)                                                      \
    X(cuModuleLoadData)                                                        \
    X(cuModuleUnload)                                                          \
    X(cuModuleGetFunction)                                                     \
    X(cuLaunchKernel)                                                          \
    X(cuGetProcAddress)                                                        \
    X(fakeCudaRuinContext)                                                     \
    X(fakeCudaExpectLeaks)                                                     \
    X(fakeCudaExpectFaults)                                                    \
    X(fakeCudaViolations)                                                      \
    X(fakeCudaTakeViolations)                                                  \
    X(fakeCudaLive)                                                            \
    X(fakeCudaContexts)                                                        \
    X(fakeCudaCalls)                                                           \
    X(fakeCudaRegisterKernel)

/* Names that cuda.h maps to others are mapped in both places alike. */
static struct {
#define T_MEMBER(name) __typeof__(name) *name;
    T_ENTRIES(T_MEMBER)
#undef T_MEMBER
} d;

#define T_TEXT2(name) #name
#define T_TEXT(name) T_TEXT2(name)

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d (pid %d): not so: %s\n", __FILE__,          \
                    __LINE__, (int)getpid(), #condition);                      \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

#define EQ(expected, got)                                                      \
    do {                                                                       \
        long long e_ = (long long)(expected), g_ = (long long)(got);           \
        if (e_ != g_) {                                                        \
            fprintf(stderr, "%s:%d (pid %d): %s: expected %lld, got %lld\n",   \
                    __FILE__, __LINE__, (int)getpid(), #got, e_, g_);          \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

#define OK(call) EQ(CUDA_SUCCESS, call)

/* The call has to be counted as one violation whose text holds `part`. */
#define BAD(result, part, call)                                                \
    do {                                                                       \
        char last_[256];                                                       \
        EQ(0, d.fakeCudaViolations());                                         \
        EQ(result, call);                                                      \
        EQ(1, d.fakeCudaTakeViolations(last_, sizeof last_));                  \
        if (!strstr(last_, part))                                              \
            fprintf(stderr, "said: %s\n", last_);                              \
        CHECK(strstr(last_, part));                                            \
    } while (0)

static inline void t_load(void)
{
    const char *path = getenv("WHARF_CUDA_DRIVER");

    CHECK(path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
#define T_FIND(name)                                                           \
    *(void **)&d.name = dlsym(library, T_TEXT(name));                          \
    CHECK(d.name);
    T_ENTRIES(T_FIND)
#undef T_FIND
}

/* Starts, with the primary context of an ordinal current. */
static inline void t_start(int ordinal)
{
    CUcontext ctx;

    OK(d.cuInit(0));
    OK(d.cuDevicePrimaryCtxRetain(&ctx, ordinal));
    OK(d.cuCtxSetCurrent(ctx));
}

static inline void t_stop(int ordinal)
{
    OK(d.cuCtxSetCurrent(NULL));
    OK(d.cuDevicePrimaryCtxRelease(ordinal));
}

/* Runs fn in a child that ends by exit; its exit status. */
static inline int t_child(void (*fn)(int fd), int fd)
{
    fflush(NULL);
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (!pid) {
        fn(fd);
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Two processes joined by a socket pair; both have to end well. */
static inline void t_two(void (*left)(int fd), void (*right)(int fd))
{
    int pair[2], status;
    pid_t pid[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (int i = 0; i < 2; i++) {
        fflush(NULL);
        pid[i] = fork();
        CHECK(pid[i] >= 0);
        if (!pid[i]) {
            close(pair[!i]);
            (i ? right : left)(pair[i]);
            exit(0);
        }
    }
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 2; i++) {
        CHECK(waitpid(pid[i], &status, 0) == pid[i]);
        CHECK(WIFEXITED(status));
        EQ(0, WEXITSTATUS(status));
    }
}

static inline void t_send(int fd, const void *data, size_t bytes)
{
    CHECK(write(fd, data, bytes) == (ssize_t)bytes);
}

static inline void t_receive(int fd, void *data, size_t bytes)
{
    CHECK(recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

/* One byte each way: nobody passes before the other came. */
static inline void t_meet(int fd)
{
    char c = 'm';

    t_send(fd, &c, 1);
    t_receive(fd, &c, 1);
}

static inline void t_send_fd(int socket, int fd)
{
    char byte = 'f';
    struct iovec v = {&byte, 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};
    memset(&control, 0, sizeof control);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK(sendmsg(socket, &m, 0) == 1);
}

static inline int t_receive_fd(int socket)
{
    char byte;
    int fd;
    struct iovec v = {&byte, 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};

    CHECK(recvmsg(socket, &m, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

#endif
