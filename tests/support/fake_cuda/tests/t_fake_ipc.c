/* SPDX-License-Identifier: MIT */
/*
 * Legacy handles over two processes.
 */
#include "t_fake.h"

#define MIB ((size_t)1 << 20)

static void exporter(int fd)
{
    CUipcMemHandle h, old;
    CUdeviceptr small[2], big, reused;
    int word;

    t_start(0);
    OK(d.cuMemAlloc(&small[0], 512));
    OK(d.cuMemAlloc(&small[1], 512));
    OK(d.cuMemAlloc(&big, 4 * MIB));
    OK(d.cuMemsetD32Async(small[1], 42, 128, NULL));
    OK(d.cuMemsetD32Async(big, 43, MIB, NULL));
    OK(d.cuCtxSynchronize());
    OK(d.cuIpcGetMemHandle(&h, small[1] + 100)); /* interior */
    t_send(fd, &h, sizeof h);
    OK(d.cuIpcGetMemHandle(&old, big));
    t_send(fd, &old, sizeof old);
    BAD(CUDA_ERROR_INVALID_CONTEXT, "in the exporting process",
        d.cuIpcOpenMemHandle(&reused, h, 1));
    t_meet(fd); /* the other has opened */
    BAD(CUDA_SUCCESS, "still has", d.cuMemFree(big));
    t_meet(fd);
    t_meet(fd); /* the other has closed */
    OK(d.cuMemcpyDtoH(&word, small[1] + 4, sizeof word));
    EQ(99, word);
    OK(d.cuMemAlloc(&reused, 4 * MIB));
    EQ(big, reused); /* and yet the old handle must not open it */
    t_meet(fd);
    t_meet(fd);
    OK(d.cuMemFree(reused));
    OK(d.cuMemFree(small[0]));
    OK(d.cuMemFree(small[1]));
    t_stop(0);
}

static void importer(int fd)
{
    CUipcMemHandle h, old;
    CUdeviceptr a, again, big, none;
    int word;

    t_start(1);
    t_receive(fd, &h, sizeof h);
    t_receive(fd, &old, sizeof old);
    OK(d.cuIpcOpenMemHandle(&a, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(d.cuIpcOpenMemHandle(&again, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EQ(a, again);
    OK(d.cuIpcOpenMemHandle(&big, old, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(d.cuMemcpyDtoH(&word, a, sizeof word)); /* the base, not +100 */
    EQ(42, word);
    OK(d.cuMemcpyHtoD(a + 4, &(int){99}, sizeof(int)));
    BAD(CUDA_ERROR_INVALID_VALUE, "open handle", d.cuMemFree(a));
    t_meet(fd);
    t_meet(fd); /* big was freed by its owner meanwhile */
    OK(d.cuIpcCloseMemHandle(big));
    OK(d.cuIpcCloseMemHandle(a));
    OK(d.cuMemcpyDtoH(&word, a, sizeof word)); /* one reference is left */
    OK(d.cuIpcCloseMemHandle(a));
    BAD(CUDA_ERROR_INVALID_VALUE, "not open", d.cuIpcCloseMemHandle(a));
    t_meet(fd);
    t_meet(fd);
    BAD(CUDA_ERROR_INVALID_VALUE, "stale",
        d.cuIpcOpenMemHandle(&none, old, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    memset(&old, 7, sizeof old);
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuIpcOpenMemHandle(&none, old, 1));
    t_meet(fd);
    t_stop(1);
}

/* The exporter is killed: what was opened stays readable, new opens fail and
 * the importer is not blamed. */
static void dying(int fd)
{
    CUipcMemHandle h;
    CUdeviceptr p;

    t_start(0);
    OK(d.cuMemAlloc(&p, 4 * MIB));
    OK(d.cuMemcpyHtoD(p, &(int){8}, sizeof(int)));
    OK(d.cuIpcGetMemHandle(&h, p));
    t_send(fd, &h, sizeof h);
    t_meet(fd);
    _exit(0);
}

static void surviving(int fd)
{
    CUipcMemHandle h;
    CUdeviceptr p, q;
    int word;
    char gone;

    t_start(0);
    t_receive(fd, &h, sizeof h);
    OK(d.cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    t_meet(fd);
    CHECK(recv(fd, &gone, 1, 0) == 0);
    OK(d.cuMemcpyDtoH(&word, p, sizeof word));
    EQ(8, word);
    OK(d.cuIpcCloseMemHandle(p));
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuIpcOpenMemHandle(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    t_stop(0);
}

/* Dead openers do not count as users. */
static void opener_dies(int fd)
{
    CUipcMemHandle h;
    CUdeviceptr p;

    t_start(0);
    t_receive(fd, &h, sizeof h);
    OK(d.cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    t_meet(fd);
    _exit(0);
}

static void owner_frees(int fd)
{
    CUipcMemHandle h;
    CUdeviceptr p;
    char gone;

    t_start(0);
    OK(d.cuMemAlloc(&p, 4 * MIB));
    OK(d.cuIpcGetMemHandle(&h, p));
    t_send(fd, &h, sizeof h);
    t_meet(fd);
    CHECK(recv(fd, &gone, 1, 0) == 0);
    OK(d.cuMemFree(p));
    t_stop(0);
}

int main(void)
{
    t_load();
    t_two(exporter, importer);
    t_two(dying, surviving);
    t_two(owner_frees, opener_dies);
    return 0;
}
