/* SPDX-License-Identifier: MIT */
/* What the hand-written programs of the benchmark have in common: sizes,
 * samples, and the same table as wharf-bench prints. No Wharf in here. */
#ifndef BENCH_H
#define BENCH_H

#include <cuda_runtime.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#define CUDA_CHECK(call)                                                       \
    do {                                                                       \
        cudaError_t bench_code = (call);                                       \
        if (bench_code != cudaSuccess) {                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,      \
                    cudaGetErrorString(bench_code));                           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                      \
        }                                                                      \
    } while (0)

namespace bench
{

struct options {
    std::vector<uint64_t> sizes = {uint64_t(2) << 20, uint64_t(64) << 20,
                                   uint64_t(256) << 20, uint64_t(1) << 30,
                                   uint64_t(4) << 30};
    int rounds = 15;
    int warmup = 2;
    std::vector<std::string> rest; /* what the program itself knows */
};

inline bool parse_size(const std::string &text, uint64_t *bytes)
{
    char *end = nullptr;
    uint64_t unit = 1;

    *bytes = strtoull(text.c_str(), &end, 10);
    if (*end == 'k')
        unit = uint64_t(1) << 10;
    else if (*end == 'm')
        unit = uint64_t(1) << 20;
    else if (*end == 'g')
        unit = uint64_t(1) << 30;
    *bytes *= unit;
    return end != text.c_str() && *(unit > 1 ? end + 1 : end) == '\0' &&
           *bytes >= 8;
}

/* --sizes, --rounds, --warmup; exits with 2 on what cannot be used. */
inline options parse(int argc, char **argv)
{
    options o;

    for (int i = 1; i < argc; i++) {
        std::string name = argv[i];
        std::string value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;

        if (name == "--sizes") {
            o.sizes.clear();
            for (size_t at = 0; good && at <= value.size();) {
                size_t comma = std::min(value.find(',', at), value.size());
                uint64_t bytes = 0;

                good = parse_size(value.substr(at, comma - at), &bytes);
                o.sizes.push_back(bytes);
                at = comma + 1;
            }
        } else if (name == "--rounds") {
            o.rounds = atoi(value.c_str());
            good = o.rounds > 0;
        } else if (name == "--warmup") {
            o.warmup = atoi(value.c_str());
            good = o.warmup >= 0;
        } else {
            o.rest.push_back(name);
            continue;
        }
        if (!good) {
            fprintf(stderr, "%s: cannot use %s '%s'\n", argv[0], name.c_str(),
                    value.c_str());
            exit(2);
        }
        i++;
    }
    return o;
}

/* All samples of one operation at one size. */
struct row {
    std::vector<double> samples; /* us, of the slowest rank */
    bool moves = false;          /* then there is a rate */
    uint64_t bad = 0;            /* wrong bytes, over all ranks */
};

class table
{
  public:
    /* Keeps the order in which operations first come. */
    row &at(const std::string &op, uint64_t bytes)
    {
        if (std::find(ops_.begin(), ops_.end(), op) == ops_.end())
            ops_.push_back(op);
        return rows_[{op, bytes}];
    }

    /* Rank 0 prints; returns whether all data was right. */
    bool print(int rank)
    {
        bool good = true;

        for (auto &entry : rows_)
            good = good && entry.second.bad == 0;
        if (rank != 0)
            return good;
        for (const std::string &op : ops_) {
            printf("#\n# op %s\n", op.c_str());
            printf("#%12s  %10s %10s %10s %9s %6s\n", "bytes", "min", "med",
                   "p99", "rate", "bad");
            printf("#%12s  %10s %10s %10s %9s %6s\n", "(B)", "(us)", "(us)",
                   "(us)", "(GB/s)", "(B)");
            for (auto &entry : rows_)
                if (entry.first.first == op)
                    print_row(entry.first.second, entry.second);
        }
        printf("# %s\n", good ? "PASS" : "FAIL");
        return good;
    }

  private:
    static void print_row(uint64_t bytes, row &r)
    {
        std::vector<double> &s = r.samples;
        size_t n = s.size();

        if (n == 0)
            return;
        std::sort(s.begin(), s.end());
        double median = (s[(n - 1) / 2] + s[n / 2]) / 2;
        double p99 = s[(n * 99 + 99) / 100 - 1];

        printf(" %12llu  %10.2f %10.2f %10.2f ",
               static_cast<unsigned long long>(bytes), s[0], median, p99);
        if (r.moves)
            printf("%9.2f ", static_cast<double>(bytes) / median / 1e3);
        else
            printf("%9s ", "-");
        printf("%6llu\n", static_cast<unsigned long long>(r.bad));
    }

    std::vector<std::string> ops_;
    std::map<std::pair<std::string, uint64_t>, row> rows_;
};

/* Of all ranks' times the largest. */
inline double slowest(double mine)
{
    double most = 0;

    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* Time of the slowest rank since `start`, us. */
inline double slowest_since(double start)
{
    return slowest((MPI_Wtime() - start) * 1e6);
}

inline uint64_t sum(uint64_t mine)
{
    uint64_t all = 0;

    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* A line of the header for every rank. */
inline void print_ranks(int rank, int size, int device)
{
    cudaDeviceProp prop;
    char mine[512], host[65] = "";
    std::vector<char> all(static_cast<size_t>(size) * sizeof mine);
    int driver = 0;

    CUDA_CHECK(cudaGetDeviceProperties(&prop, device));
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    gethostname(host, sizeof host - 1);
    snprintf(mine, sizeof mine,
             "# rank %d  host %s  gpu %04x:%02x:%02x.0 %s  cuda %d.%d", rank,
             host, prop.pciDomainID, prop.pciBusID, prop.pciDeviceID, prop.name,
             driver / 1000, driver % 1000 / 10);
    MPI_Gather(mine, sizeof mine, MPI_CHAR, all.data(), sizeof mine, MPI_CHAR,
               0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        printf("%s\n", &all[static_cast<size_t>(i) * sizeof mine]);
}

/* One 64-bit word that depends on everything that could be mixed up. */
__host__ __device__ inline uint64_t pattern(uint64_t serial, int rank,
                                            uint64_t word)
{
    uint64_t x = (serial << 40) ^ (uint64_t(rank + 1) << 32) ^ word;

    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

__global__ void fill_kernel(uint64_t *data, uint64_t words, uint64_t serial,
                            int rank)
{
    uint64_t step = uint64_t(gridDim.x) * blockDim.x;

    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
         i < words; i += step)
        data[i] = pattern(serial, rank, i);
}

__global__ void check_kernel(const uint64_t *data, uint64_t words,
                             uint64_t serial, int rank, unsigned long long *bad)
{
    uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    unsigned wrong = 0;

    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
         i < words; i += step) {
        uint64_t difference = data[i] ^ pattern(serial, rank, i);

        for (int byte = 0; byte < 8; byte++)
            wrong += (difference >> (8 * byte) & 0xff) != 0;
    }
    if (wrong != 0)
        atomicAdd(bad, wrong);
}

/* Writes the pattern over a whole block of device memory. */
inline void fill(void *data, uint64_t bytes, uint64_t serial, int rank)
{
    fill_kernel<<<256, 256>>>(static_cast<uint64_t *>(data), bytes / 8, serial,
                              rank);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
}

/* Bytes that are not what `rank` wrote. */
inline uint64_t check(const void *data, uint64_t bytes, uint64_t serial,
                      int rank)
{
    static unsigned long long *bad = nullptr;
    unsigned long long wrong = 0;

    if (bad == nullptr)
        CUDA_CHECK(cudaMalloc(&bad, sizeof *bad));
    CUDA_CHECK(cudaMemset(bad, 0, sizeof *bad));
    check_kernel<<<256, 256>>>(static_cast<const uint64_t *>(data), bytes / 8,
                               serial, rank, bad);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
    return wrong;
}

} // namespace bench

#endif
