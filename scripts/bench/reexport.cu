/* SPDX-License-Identifier: MIT */
/*
 * Can a process that imported physical memory export it again? The driver's
 * documentation does not say, and Wharf asks it at every open (keeper.c).
 *
 *   A creates, writes a word, exports ──> B imports, exports again ──> C reads
 *                                         B keeps a duplicate      ──> C reads
 *
 * and once more with A killed before C reads, and with B killed as well. Three
 * processes, forked before any of them touches CUDA; one line a way.
 *
 * Build: nvcc -o reexport reexport.cu -lcuda      Run: ./reexport
 */
#include <cuda.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) must((call), #call)

static const uint64_t word = 0x5768617266000001;

static void must(CUresult code, const char *what)
{
    const char *name = "?";

    if (code == CUDA_SUCCESS)
        return;
    cuGetErrorName(code, &name);
    fprintf(stderr, "process %d: %s: %s\n", (int)getpid(), what, name);
    _exit(1);
}

static void send_fd(int socket, int fd)
{
    char room[CMSG_SPACE(sizeof fd)] = {0};
    char byte = fd >= 0 ? 'y' : 'n';
    struct iovec iov = {&byte, 1};
    struct msghdr message = {};

    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    if (fd >= 0) {
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    if (sendmsg(socket, &message, 0) != 1)
        _exit(1);
}

/* -1: the other side has none. */
static int receive_fd(int socket)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {};
    int fd = -1;

    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (recvmsg(socket, &message, 0) != 1)
        _exit(1);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (byte == 'y' && head != NULL)
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

static CUdevice start_cuda(int index)
{
    CUdevice device;
    CUcontext context;
    int count = 0;

    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&count));
    MUST(cuDeviceGet(&device, index % count));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    return device;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes,
                       CUdevice device)
{
    CUmemAccessDesc access = {};
    CUdeviceptr at = 0;

    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MUST(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    MUST(cuMemMap(at, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(at, bytes, &access, 1));
    return at;
}

static CUmemGenericAllocationHandle import_fd(int fd)
{
    CUmemGenericAllocationHandle handle;

    MUST(cuMemImportFromShareableHandle(
        &handle, (void *)(uintptr_t)fd,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return handle;
}

/* Owner. The granularity is the size. */
static void process_a(int to_b)
{
    CUdevice device = start_cuda(0);
    CUmemAllocationProp prop = {};
    CUmemGenericAllocationHandle handle;
    size_t bytes = 0;
    int fd = -1;

    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    MUST(cuMemGetAllocationGranularity(&bytes, &prop,
                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    MUST(cuMemcpyHtoD(map(handle, bytes, device), &word, sizeof word));
    MUST(cuMemExportToShareableHandle(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    if (write(to_b, &bytes, sizeof bytes) != sizeof bytes)
        _exit(1);
    send_fd(to_b, fd);
    pause();
}

static void process_b(int from_a, int to_c)
{
    CUmemGenericAllocationHandle handle;
    const char *name = "?";
    size_t bytes = 0;
    int again = -1, fd, kept;
    CUresult code;

    start_cuda(1);
    if (read(from_a, &bytes, sizeof bytes) != sizeof bytes)
        _exit(1);
    fd = receive_fd(from_a);
    kept = dup(fd);
    handle = import_fd(fd);
    close(fd);
    code = cuMemExportToShareableHandle(
        &again, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    cuGetErrorName(code, &name);
    printf("export of an imported handle: %s\n", name);
    fflush(stdout);
    if (write(to_c, &bytes, sizeof bytes) != sizeof bytes)
        _exit(1);
    send_fd(to_c, code == CUDA_SUCCESS ? again : -1);
    send_fd(to_c, kept);
    pause();
}

static void look(const char *what, int fd, size_t bytes, CUdevice device)
{
    uint64_t seen = 0;

    if (fd < 0) {
        printf("%s: none\n", what);
        return;
    }
    MUST(cuMemcpyDtoH(&seen, map(import_fd(fd), bytes, device), sizeof seen));
    printf("%s: %s\n", what, seen == word ? "right" : "WRONG");
    fflush(stdout);
    if (seen != word)
        _exit(1);
}

static void process_c(int from_b, pid_t a, pid_t b)
{
    CUdevice device = start_cuda(2);
    size_t bytes = 0;
    int again, kept;

    if (read(from_b, &bytes, sizeof bytes) != sizeof bytes)
        _exit(1);
    again = receive_fd(from_b);
    kept = receive_fd(from_b);
    look("read by the second export", again, bytes, device);
    look("read by the kept descriptor", kept, bytes, device);
    kill(a, SIGKILL);
    usleep(500000);
    look("second export, owner killed", again, bytes, device);
    look("kept descriptor, owner killed", kept, bytes, device);
    kill(b, SIGKILL);
    usleep(500000);
    look("second export, importer killed", again, bytes, device);
    look("kept descriptor, importer killed", kept, bytes, device);
    _exit(0);
}

int main(void)
{
    int ab[2], bc[2], status = 1;
    pid_t a, b, c;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ab) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bc) != 0)
        return 1;
    a = fork();
    if (a == 0)
        process_a(ab[0]);
    b = fork();
    if (b == 0)
        process_b(ab[1], bc[0]);
    c = fork();
    if (c == 0)
        process_c(bc[1], a, b);
    alarm(60);
    waitpid(c, &status, 0);
    kill(a, SIGKILL);
    kill(b, SIGKILL);
    printf("%s\n", status == 0 ? "PASS" : "FAIL");
    return status != 0;
}
