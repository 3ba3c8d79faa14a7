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

/* ---- Pools --------------------------------------------------------------- */

static CUmemoryPool pool_new(CUmemAllocationHandleType types)
{
    CUmemPoolProps props;
    CUmemoryPool pool;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = types;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(d.cuMemPoolCreate(&pool, &props));
    return pool;
}

static void pool_owner(int fd)
{
    CUmemPoolPtrExportData data, none;
    CUmemoryPool pool, secret, again;
    CUdeviceptr p, q, hidden;
    uint64_t before, after;
    int out, word;

    t_start(0);
    pool = pool_new(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    secret = pool_new(CU_MEM_HANDLE_TYPE_NONE);
    OK(d.cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
    OK(d.cuMemAllocFromPoolAsync(&hidden, MIB, secret, NULL));
    OK(d.cuMemcpyHtoD(p, &(int){5}, sizeof(int)));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemPoolExportPointer(&none, hidden));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemPoolExportPointer(&none, p + 256));
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuMemPoolExportToShareableHandle(
           &out, secret, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemPoolExportPointer(&none, p));
    OK(d.cuMemPoolExportToShareableHandle(
        &out, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(d.cuMemPoolExportPointer(&data, p));
    BAD(CUDA_ERROR_INVALID_VALUE, "in the exporting process",
        d.cuMemPoolImportFromShareableHandle(
            &again, (void *)(intptr_t)out,
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    t_send_fd(fd, out);
    close(out);
    t_send(fd, &data, sizeof data);
    t_meet(fd); /* the other has opened */
    OK(d.cuPointerGetAttribute(&before, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    t_meet(fd); /* and closed */
    OK(d.cuMemcpyDtoH(&word, p + 4, sizeof word));
    EQ(6, word);
    OK(d.cuMemFreeAsync(p, NULL));
    OK(d.cuCtxSynchronize());
    OK(d.cuMemAllocFromPoolAsync(&q, MIB, pool, NULL));
    EQ(p, q); /* the same place, another allocation */
    OK(d.cuPointerGetAttribute(&after, CU_POINTER_ATTRIBUTE_BUFFER_ID, q));
    CHECK(before != after);
    t_meet(fd);
    t_meet(fd);
    OK(d.cuMemFreeAsync(q, NULL));
    OK(d.cuMemFreeAsync(hidden, NULL));
    OK(d.cuCtxSynchronize());
    OK(d.cuMemPoolDestroy(pool));
    OK(d.cuMemPoolDestroy(secret));
    t_stop(0);
}

static void pool_user(int fd)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUmemAccessDesc desc = {.location = here,
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags flags;
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr p, none;
    int in, word;

    t_start(1);
    in = t_receive_fd(fd);
    t_receive(fd, &data, sizeof data);
    OK(d.cuMemPoolImportFromShareableHandle(
        &pool, (void *)(intptr_t)in, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        0));
    close(in);
    OK(d.cuMemPoolGetAccess(&flags, pool, &here));
    EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
    OK(d.cuMemPoolSetAccess(pool, &desc, 1));
    OK(d.cuMemPoolGetAccess(&flags, pool, &here));
    EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuMemAllocFromPoolAsync(&none, MIB, pool, NULL));
    OK(d.cuMemPoolImportPointer(&p, pool, &data));
    BAD(CUDA_ERROR_INVALID_VALUE, "already",
        d.cuMemPoolImportPointer(&none, pool, &data));
    OK(d.cuMemcpyDtoH(&word, p, sizeof word));
    EQ(5, word);
    OK(d.cuMemsetD32Async(p + 4, 6, 1, NULL));
    OK(d.cuCtxSynchronize());
    t_meet(fd);
    OK(d.cuMemFree(p));
    t_meet(fd);
    t_meet(fd); /* freed and allocated again by its owner */
    BAD(CUDA_ERROR_INVALID_VALUE, "stale",
        d.cuMemPoolImportPointer(&none, pool, &data));
    t_meet(fd);
    OK(d.cuMemPoolDestroy(pool));
    t_stop(1);
}

int main(void)
{
    t_load();
    t_two(exporter, importer);
    t_two(dying, surviving);
    t_two(owner_frees, opener_dies);
    t_two(pool_owner, pool_user);
    return 0;
}
