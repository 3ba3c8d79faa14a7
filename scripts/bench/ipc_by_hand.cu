/* SPDX-License-Identifier: MIT */
/*
 * The same attach and detach without Wharf, as an expert writes it: every rank
 * allocates, handles travel by MPI (legacy CUDA IPC) or by Unix sockets
 * (--vmm: cuMemCreate and POSIX descriptors), every rank opens all others.
 *
 * Run: mpirun -n 2 ipc_by_hand [--vmm] [--sizes 256m,1g] [--rounds N]
 */
#include <cuda.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define DRIVER_CHECK(call)                                                     \
    do {                                                                       \
        CUresult bench_code = (call);                                          \
        if (bench_code != CUDA_SUCCESS) {                                      \
            const char *bench_text = "?";                                      \
            cuGetErrorString(bench_code, &bench_text);                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,      \
                    bench_text);                                               \
            MPI_Abort(MPI_COMM_WORLD, 1);                                      \
        }                                                                      \
    } while (0)

namespace
{

struct job {
    int rank = 0, size = 0, device = 0;
    int socket = -1; /* of this rank, for descriptors */
    std::vector<sockaddr_un> peers;
    std::vector<socklen_t> lengths;
};

/* What one rank holds between attach and detach. */
struct shared {
    std::vector<void *> pointers; /* of every rank's memory */
    std::vector<CUmemGenericAllocationHandle> handles; /* --vmm */
    size_t mapped = 0;                                 /* --vmm: bytes each */
};

void fail(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- Legacy handles ------------------------------------------------------ */

void legacy_attach(const job &j, uint64_t bytes, shared *s)
{
    cudaIpcMemHandle_t mine;
    std::vector<cudaIpcMemHandle_t> all(j.size);

    s->pointers.assign(j.size, nullptr);
    CUDA_CHECK(cudaMalloc(&s->pointers[j.rank], bytes));
    CUDA_CHECK(cudaIpcGetMemHandle(&mine, s->pointers[j.rank]));
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine,
                  MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < j.size; peer++)
        if (peer != j.rank)
            CUDA_CHECK(cudaIpcOpenMemHandle(&s->pointers[peer], all[peer],
                                            cudaIpcMemLazyEnablePeerAccess));
    MPI_Barrier(MPI_COMM_WORLD);
}

void legacy_detach(const job &j, shared *s)
{
    for (int peer = 0; peer < j.size; peer++)
        if (peer != j.rank)
            CUDA_CHECK(cudaIpcCloseMemHandle(s->pointers[peer]));
    /* Freeing before every importer has closed is undefined. */
    MPI_Barrier(MPI_COMM_WORLD);
    CUDA_CHECK(cudaFree(s->pointers[j.rank]));
    s->pointers.clear();
}

/* ---- VMM ----------------------------------------------------------------- */

/* A socket in the abstract namespace for every rank, addresses by MPI. */
void sockets_open(job *j)
{
    sockaddr_un mine = {};
    int length;
    socklen_t bytes;
    std::vector<char> all(static_cast<size_t>(j->size) * sizeof mine);

    mine.sun_family = AF_UNIX;
    length = snprintf(mine.sun_path + 1, sizeof mine.sun_path - 1,
                      "ipc-by-hand-%d", static_cast<int>(getpid()));
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                   static_cast<size_t>(length));
    j->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (j->socket < 0 ||
        bind(j->socket, reinterpret_cast<sockaddr *>(&mine), bytes) != 0)
        fail("socket");
    j->peers.resize(j->size);
    j->lengths.resize(j->size);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, j->peers.data(), sizeof mine,
                  MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(&bytes, sizeof bytes, MPI_BYTE, j->lengths.data(),
                  sizeof bytes, MPI_BYTE, MPI_COMM_WORLD);
}

void descriptor_send(job *j, int peer, int fd)
{
    union {
        cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {};
    iovec data = {&j->rank, sizeof j->rank};
    msghdr message = {};

    message.msg_name = &j->peers[peer];
    message.msg_namelen = j->lengths[peer];
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.space;
    message.msg_controllen = sizeof control.space;
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    if (sendmsg(j->socket, &message, 0) < 0)
        fail("sendmsg");
}

int descriptor_receive(const job &j, int *from)
{
    union {
        cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {};
    iovec data = {from, sizeof *from};
    msghdr message = {};
    int fd = -1;

    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.space;
    message.msg_controllen = sizeof control.space;
    if (recvmsg(j.socket, &message, MSG_CMSG_CLOEXEC) < 0 ||
        CMSG_FIRSTHDR(&message) == nullptr)
        fail("recvmsg");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

CUmemAllocationProp vmm_prop(int device)
{
    CUmemAllocationProp prop = {};

    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

void vmm_map(const job &j, shared *s, int owner)
{
    CUdeviceptr address = 0;
    CUmemAccessDesc access = {};

    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = j.device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER_CHECK(cuMemAddressReserve(&address, s->mapped, 0, 0, 0));
    DRIVER_CHECK(cuMemMap(address, s->mapped, 0, s->handles[owner], 0));
    DRIVER_CHECK(cuMemSetAccess(address, s->mapped, &access, 1));
    s->pointers[owner] = reinterpret_cast<void *>(address);
}

void vmm_attach(job *j, uint64_t bytes, shared *s)
{
    CUmemAllocationProp prop = vmm_prop(j->device);
    size_t unit = 0;
    int fd = -1;

    DRIVER_CHECK(cuMemGetAllocationGranularity(
        &unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    s->mapped = (bytes + unit - 1) / unit * unit;
    s->pointers.assign(j->size, nullptr);
    s->handles.assign(j->size, 0);
    DRIVER_CHECK(cuMemCreate(&s->handles[j->rank], s->mapped, &prop, 0));
    DRIVER_CHECK(cuMemExportToShareableHandle(
        &fd, s->handles[j->rank], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    for (int peer = 0; peer < j->size; peer++)
        if (peer != j->rank)
            descriptor_send(j, peer, fd);
    vmm_map(*j, s, j->rank);
    for (int i = 1; i < j->size; i++) {
        int from = -1;
        int theirs = descriptor_receive(*j, &from);

        DRIVER_CHECK(cuMemImportFromShareableHandle(
            &s->handles[from],
            reinterpret_cast<void *>(static_cast<uintptr_t>(theirs)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        close(theirs);
        vmm_map(*j, s, from);
    }
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
}

void vmm_detach(const job &j, shared *s)
{
    for (int i = 0; i < j.size; i++) {
        CUdeviceptr address = reinterpret_cast<CUdeviceptr>(s->pointers[i]);

        DRIVER_CHECK(cuMemUnmap(address, s->mapped));
        DRIVER_CHECK(cuMemAddressFree(address, s->mapped));
        DRIVER_CHECK(cuMemRelease(s->handles[i]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    s->pointers.clear();
}

/* ---- Measuring ----------------------------------------------------------- */

uint64_t check_all(const job &j, const shared &s, uint64_t bytes,
                   uint64_t serial)
{
    uint64_t bad = 0;

    bench::fill(s.pointers[j.rank], bytes, serial, j.rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int peer = 0; peer < j.size; peer++)
        bad += bench::check(s.pointers[peer], bytes, serial, peer);
    MPI_Barrier(MPI_COMM_WORLD);
    return bench::sum(bad);
}

void measure(job *j, bool vmm, const bench::options &o, bench::table *table)
{
    uint64_t serial = 0;

    for (int round = -o.warmup; round < o.rounds; round++) {
        for (uint64_t bytes : o.sizes) {
            bench::row &attach = table->at("attach", bytes);
            bench::row &detach = table->at("detach-free", bytes);
            shared s;
            double start, time;

            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
            vmm ? vmm_attach(j, bytes, &s) : legacy_attach(*j, bytes, &s);
            time = bench::slowest_since(start);
            if (round >= 0)
                attach.samples.push_back(time);
            attach.bad += check_all(*j, s, bytes, ++serial);

            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
            vmm ? vmm_detach(*j, &s) : legacy_detach(*j, &s);
            time = bench::slowest_since(start);
            if (round >= 0)
                detach.samples.push_back(time);
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    bench::options o = bench::parse(argc, argv);
    bench::table table;
    job j;
    int devices = 0;
    bool vmm = o.rest.size() == 1 && o.rest[0] == "--vmm";
    bool good;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    if (!o.rest.empty() && !vmm) {
        if (j.rank == 0)
            fprintf(stderr, "usage: ipc_by_hand [--vmm] [--sizes LIST] "
                            "[--rounds N] [--warmup N]\n");
        MPI_Finalize();
        return 2;
    }
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    j.device = j.rank % devices;
    CUDA_CHECK(cudaSetDevice(j.device));
    CUDA_CHECK(cudaFree(nullptr)); /* the context, before the clock runs */
    if (vmm)
        sockets_open(&j);

    if (j.rank == 0) {
        printf("# ipc_by_hand  %s  ranks %d\n",
               vmm ? "VMM, one physical piece" : "legacy CUDA IPC", j.size);
        printf("# warmup %d  rounds %d, sizes interleaved; time of the slowest "
               "rank; bad: of all bytes\n",
               o.warmup, o.rounds);
    }
    bench::print_ranks(j.rank, j.size, j.device);
    measure(&j, vmm, o, &table);
    good = table.print(j.rank);
    if (j.socket >= 0)
        close(j.socket);
    MPI_Finalize();
    return good ? 0 : 1;
}
