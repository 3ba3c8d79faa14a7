/* SPDX-License-Identifier: MIT */
/*
 * Physical memory and reserved addresses, over two processes: descriptors,
 * life beyond the creator, rights, one address in both, memory counted over
 * the job.
 */
#include "t_fake.h"

#define MIB ((size_t)1 << 20)
#define CHUNK (4 * MIB)

static CUmemAllocationProp prop(int device, CUmemAllocationHandleType type)
{
    CUmemAllocationProp p;

    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device;
    p.requestedHandleTypes = type;
    return p;
}

static CUmemGenericAllocationHandle create(int device)
{
    CUmemAllocationProp p =
        prop(device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle h;

    OK(d.cuMemCreate(&h, CHUNK, &p, 0));
    return h;
}

static void give_access(CUdeviceptr va, size_t bytes, int device,
                        CUmemAccess_flags flags)
{
    CUmemAccessDesc a = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};

    OK(d.cuMemSetAccess(va, bytes, &a, 1));
}

static int exported(CUmemGenericAllocationHandle h)
{
    int fd;

    OK(d.cuMemExportToShareableHandle(
        &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return fd;
}

static CUmemGenericAllocationHandle imported(int fd)
{
    CUmemGenericAllocationHandle h;

    OK(d.cuMemImportFromShareableHandle(
        &h, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    return h;
}

static void unmap(CUdeviceptr va, size_t bytes)
{
    OK(d.cuMemUnmap(va, bytes));
    OK(d.cuMemAddressFree(va, bytes));
}

/* Two chunks side by side, sent to the other process with the address. */
static void owner(int fd)
{
    CUmemGenericAllocationHandle h[2];
    CUdeviceptr va;
    int word;

    t_start(0);
    OK(d.cuMemAddressReserve(&va, 2 * CHUNK, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        h[i] = create(0);
        OK(d.cuMemMap(va + (size_t)i * CHUNK, CHUNK, 0, h[i], 0));
    }
    give_access(va, 2 * CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(d.cuMemsetD32Async(va + CHUNK - 8, 0x1234567, 4, NULL));
    OK(d.cuCtxSynchronize());
    t_send(fd, &va, sizeof va);
    for (int i = 0; i < 2; i++) {
        int out = exported(h[i]);

        t_send_fd(fd, out);
        close(out);
        OK(d.cuMemRelease(h[i]));
    }
    t_meet(fd);
    OK(d.cuMemcpyDtoH(&word, va, sizeof word));
    EQ(77, word);
    unmap(va, 2 * CHUNK);
    t_stop(0); /* and ends, while the other still has the memory */
}

static void borrower(int fd)
{
    CUmemGenericAllocationHandle h[2];
    CUdeviceptr theirs, va;
    int words[4], end;
    char gone;

    t_start(1);
    t_receive(fd, &theirs, sizeof theirs);
    OK(d.cuMemAddressReserve(&va, 2 * CHUNK, 0, theirs, 0));
    EQ(theirs, va);
    for (int i = 0; i < 2; i++) {
        CUmemAllocationProp p;

        h[i] = imported(t_receive_fd(fd));
        OK(d.cuMemGetAllocationPropertiesFromHandle(&p, h[i]));
        EQ(0, p.location.id);
        OK(d.cuMemMap(va + (size_t)i * CHUNK, CHUNK, 0, h[i], 0));
        OK(d.cuMemRelease(h[i]));
    }
    give_access(va, 2 * CHUNK, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(d.cuMemcpyDtoH(words, va + CHUNK - 8, sizeof words));
    for (int i = 0; i < 4; i++)
        EQ(0x1234567, words[i]);
    OK(d.cuMemcpyHtoD(va, &(int){77}, sizeof(int)));
    t_meet(fd);
    CHECK(recv(fd, &gone, 1, 0) == 0); /* the owner's process is over */
    OK(d.cuMemcpyDtoH(&end, va + CHUNK, sizeof end));
    EQ(0x1234567, end);
    unmap(va, 2 * CHUNK);
    t_stop(1);
}

/* A descriptor alone keeps the memory. */
static void descriptor_keeps(int unused)
{
    CUmemGenericAllocationHandle h, again;
    CUdeviceptr va;
    int word;

    (void)unused;
    t_start(0);
    h = create(0);
    OK(d.cuMemAddressReserve(&va, CHUNK, 0, 0, 0));
    OK(d.cuMemMap(va, CHUNK, 0, h, 0));
    give_access(va, CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(d.cuMemcpyHtoD(va, &(int){5}, sizeof(int)));
    int fd = exported(h);
    OK(d.cuMemRelease(h));
    OK(d.cuMemUnmap(va, CHUNK));
    h = create(0); /* must not get the same place */
    again = imported(fd);
    OK(d.cuMemMap(va, CHUNK, 0, again, 0));
    give_access(va, CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(d.cuMemcpyDtoH(&word, va, sizeof word));
    EQ(5, word);
    OK(d.cuMemRelease(again));
    OK(d.cuMemRelease(h));
    unmap(va, CHUNK);
    t_stop(0);
}

static void refusals(int unused)
{
    CUmemAllocationProp p = prop(0, CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle h;
    CUdeviceptr va;
    size_t unit;
    int fd;

    (void)unused;
    t_start(0);
    OK(d.cuMemGetAllocationGranularity(&unit, &p, 0));
    EQ(2 * MIB, unit);
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemCreate(&h, MIB, &p, 0));
    OK(d.cuMemCreate(&h, CHUNK, &p, 0));
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuMemExportToShareableHandle(
           &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemMap(0x1000000, CHUNK, 0, h, 0));
    OK(d.cuMemAddressReserve(&va, 2 * CHUNK, 0, 0, 0));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemMap(va, 2 * MIB, 0, h, 0));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuMemMap(va, CHUNK, 2 * MIB, h, 0));
    OK(d.cuMemMap(va, CHUNK, 0, h, 0));
    BAD(CUDA_ERROR_INVALID_VALUE, "already mapped",
        d.cuMemMap(va, CHUNK, 0, h, 0));
    BAD(CUDA_ERROR_INVALID_VALUE, "whole mappings", d.cuMemUnmap(va, 2 * MIB));
    BAD(CUDA_ERROR_INVALID_VALUE, "still mapped",
        d.cuMemAddressFree(va, 2 * CHUNK));
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    CUmemGenericAllocationHandle h2;
    EQ(CUDA_ERROR_NOT_PERMITTED, d.cuMemCreate(&h2, CHUNK, &p, 0));
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuMemImportFromShareableHandle(
           &h2, (void *)(intptr_t)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(d.cuMemRelease(h));
    BAD(CUDA_ERROR_INVALID_VALUE, "destroyed", d.cuMemRelease(h));
    OK(d.cuMemUnmap(va, CHUNK));
    OK(d.cuMemAddressFree(va, 2 * CHUNK));
    t_stop(0);
}

static void no_access(int read_only)
{
    CUmemGenericAllocationHandle h;
    CUdeviceptr va;
    int word = 1;

    t_start(0);
    d.fakeCudaExpectFaults();
    h = create(0);
    OK(d.cuMemAddressReserve(&va, CHUNK, 0, 0, 0));
    OK(d.cuMemMap(va, CHUNK, 0, h, 0));
    if (read_only) {
        give_access(va, CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
        OK(d.cuMemcpyDtoH(&word, va, sizeof word));
        EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuMemcpyHtoD(va, &word, sizeof word));
    } else {
        EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuMemcpyDtoH(&word, va, sizeof word));
    }
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuCtxSynchronize());
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuMemAlloc(&va, 4));
    EQ(CUDA_ERROR_ILLEGAL_ADDRESS, d.cuMemRelease(h));
    EQ(0, d.fakeCudaViolations()); /* no leaks either: nothing can be freed */
}

static void host_numa(int unused)
{
    CUmemAllocationProp p = prop(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemAccessDesc both[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
         CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUmemGenericAllocationHandle h;
    CUdeviceptr va;

    (void)unused;
    t_start(0);
    p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    OK(d.cuMemCreate(&h, CHUNK, &p, 0));
    OK(d.cuMemAddressReserve(&va, CHUNK, 0, 0, 0));
    OK(d.cuMemMap(va, CHUNK, 0, h, 0));
    OK(d.cuMemSetAccess(va, CHUNK, both, 2));
    volatile int *cpu = (int *)(uintptr_t)va;
    cpu[1] = 9;
    OK(d.cuMemcpyDtoDAsync(va + 8, va + 4, 4, NULL));
    OK(d.cuCtxSynchronize());
    EQ(9, cpu[2]);
    OK(d.cuMemRelease(h));
    unmap(va, CHUNK);
    t_stop(0);
}

/* ---- Fabric handles ------------------------------------------------------ */

static CUresult fabric_create(CUmemGenericAllocationHandle *h)
{
    CUmemAllocationProp p = prop(0, CU_MEM_HANDLE_TYPE_FABRIC);

    return d.cuMemCreate(h, CHUNK, &p, 0);
}

static CUresult fabric_import(CUmemGenericAllocationHandle *h,
                              CUmemFabricHandle *from)
{
    return d.cuMemImportFromShareableHandle(h, from, CU_MEM_HANDLE_TYPE_FABRIC);
}

static void fabric_word(CUmemGenericAllocationHandle h, int device, int *word,
                        bool write)
{
    CUdeviceptr va;

    OK(d.cuMemAddressReserve(&va, CHUNK, 0, 0, 0));
    OK(d.cuMemMap(va, CHUNK, 0, h, 0));
    give_access(va, CHUNK, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (write)
        OK(d.cuMemcpyHtoD(va + 16, word, sizeof *word));
    else
        OK(d.cuMemcpyDtoH(word, va + 16, sizeof *word));
    unmap(va, CHUNK);
}

/* Plain bytes name the memory: to its own process and to another one. */
static void fabric_owner(int fd)
{
    CUmemGenericAllocationHandle h, own;
    CUmemFabricHandle bytes;
    int out, word = 4711;

    t_start(0);
    OK(fabric_create(&h));
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuMemExportToShareableHandle(
           &out, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(d.cuMemExportToShareableHandle(&bytes, h, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    OK(fabric_import(&own, &bytes));
    fabric_word(own, 0, &word, true);
    OK(d.cuMemRelease(own));
    t_send(fd, &bytes, sizeof bytes);
    t_meet(fd);
    OK(d.cuMemRelease(h)); /* the other one has it still */
    t_meet(fd);
    t_stop(0);
}

static void fabric_borrower(int fd)
{
    CUmemGenericAllocationHandle h, none;
    CUmemFabricHandle bytes, again;
    int word = 0;

    t_start(1);
    t_receive(fd, &bytes, sizeof bytes);
    OK(fabric_import(&h, &bytes));
    EQ(CUDA_ERROR_NOT_PERMITTED,
       d.cuMemExportToShareableHandle(&again, h, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    t_meet(fd);
    t_meet(fd);
    fabric_word(h, 1, &word, false);
    EQ(4711, word);
    OK(d.cuMemRelease(h));
    memset(&bytes, 0xee, sizeof bytes);
    EQ(CUDA_ERROR_INVALID_VALUE, fabric_import(&none, &bytes));
    t_stop(1);
}

static int fabric_attribute(void)
{
    int value = -1;

    OK(d.cuDeviceGetAttribute(
        &value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    return value;
}

/* What the attribute says and what is permitted are two things. */
static void fabric_denied(int unused)
{
    CUmemGenericAllocationHandle h;

    (void)unused;
    t_start(0);
    EQ(1, fabric_attribute());
    EQ(CUDA_ERROR_NOT_PERMITTED, fabric_create(&h));
    t_stop(0);
}

static void fabric_no_export(int unused)
{
    CUmemGenericAllocationHandle h;
    CUmemFabricHandle bytes;

    (void)unused;
    t_start(0);
    EQ(1, fabric_attribute());
    OK(fabric_create(&h));
    EQ(CUDA_ERROR_NOT_PERMITTED,
       d.cuMemExportToShareableHandle(&bytes, h, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    OK(d.cuMemRelease(h));
    t_stop(0);
}

static void fabric_unsaid(int unused)
{
    CUmemGenericAllocationHandle h;

    (void)unused;
    t_start(0);
    EQ(0, fabric_attribute());
    OK(fabric_create(&h));
    OK(d.cuMemRelease(h));
    t_stop(0);
}

static void no_import_left(int fd)
{
    CUmemGenericAllocationHandle h, own;
    CUmemFabricHandle bytes;

    t_start(0);
    OK(fabric_create(&h));
    OK(d.cuMemExportToShareableHandle(&bytes, h, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    OK(fabric_import(&own, &bytes));
    OK(d.cuMemRelease(own));
    t_send(fd, &bytes, sizeof bytes);
    t_meet(fd);
    OK(d.cuMemRelease(h));
    t_stop(0);
}

static void no_import_right(int fd)
{
    CUmemGenericAllocationHandle h;
    CUmemFabricHandle bytes;

    t_start(1);
    t_receive(fd, &bytes, sizeof bytes);
    EQ(CUDA_ERROR_NOT_PERMITTED, fabric_import(&h, &bytes));
    t_meet(fd);
    t_stop(1);
}

static void fabric(void)
{
    setenv("WHARF_FAKE_CAPS", "fabric", 1);
    t_two(fabric_owner, fabric_borrower);
    setenv("WHARF_FAKE_CAPS", "fabric_denied", 1);
    EQ(0, t_child(fabric_denied, -1));
    setenv("WHARF_FAKE_CAPS", "fabric_no_export", 1);
    EQ(0, t_child(fabric_no_export, -1));
    setenv("WHARF_FAKE_CAPS", "fabric_no_import", 1);
    t_two(no_import_left, no_import_right);
    setenv("WHARF_FAKE_CAPS", "fabric_unsaid", 1);
    EQ(0, t_child(fabric_unsaid, -1));
    unsetenv("WHARF_FAKE_CAPS");
}

/* ---- Memory of the job -------------------------------------------------- */

static size_t available(void)
{
    size_t left, total;

    OK(d.cuMemGetInfo(&left, &total));
    return left;
}

static void count_left(int fd)
{
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;

    t_start(0);
    OK(d.cuMemAlloc(&p, 40 * MIB));
    t_meet(fd);
    t_meet(fd);
    OK(d.cuMemFree(p));
    h = create(0);
    int out = exported(h);
    t_send_fd(fd, out);
    close(out);
    t_meet(fd);
    EQ(60 * MIB, available()); /* counted once, though two have it */
    OK(d.cuMemRelease(h));
    t_meet(fd);
    t_meet(fd);
    t_stop(0);
}

static void count_right(int fd)
{
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;

    t_start(0);
    t_meet(fd);
    EQ(24 * MIB, available());
    EQ(2, d.fakeCudaContexts(0));
    EQ(CUDA_ERROR_OUT_OF_MEMORY, d.cuMemAlloc(&p, 32 * MIB));
    t_meet(fd);
    h = imported(t_receive_fd(fd));
    t_meet(fd);
    t_meet(fd);
    EQ(60 * MIB, available()); /* still there, its creator let go */
    OK(d.cuMemRelease(h));
    t_meet(fd);
    EQ(64 * MIB, available());
    t_stop(0);
}

int main(void)
{
    char state[] = "fake_state_XXXXXX";

    setenv("WHARF_FAKE_MEMORY", "64m", 1);
    t_load();
    t_two(owner, borrower);
    EQ(0, t_child(descriptor_keeps, -1));
    EQ(0, t_child(refusals, -1));
    EQ(0, t_child(no_access, 0));
    EQ(0, t_child(no_access, 1));
    EQ(0, t_child(host_numa, -1));
    fabric();
    int fd = mkstemp(state);
    CHECK(fd >= 0);
    setenv("WHARF_FAKE_STATE", state, 1);
    t_two(count_left, count_right);
    EQ(0, unlink(state));
    close(fd);
    return 0;
}
