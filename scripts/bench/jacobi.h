/* SPDX-License-Identifier: MIT */
/*
 * The solver of mpi_examples/05_halo_2d for the peers of Wharf: same kernel,
 * same order of things as its mode exchange, same table. Only how the edges get
 * to the neighbours is different, and that is what a peer says. No Wharf
 * library in here.
 *
 * Run: mpirun -n 2 peer_NAME_jacobi [--size N]... [--iterations N] [--norm N]
 *      [--repeat N] [--variant NAME]
 */
#ifndef JACOBI_H
#define JACOBI_H

#include "../../mpi_examples/05_halo_2d.h"
#include "../../mpi_examples/05_halo_2d_stencil.cuh"
#include "bench.h"

#include <zlib.h>

#include <cmath>
#include <functional>

namespace jacobi
{

struct options {
    std::vector<int> sizes;
    int iterations = 1000, norm_every = 100, repeat = 1;
    const halo::variant *variant = &halo::variants[0];
};

inline options parse(int argc, char **argv)
{
    options o;

    for (int i = 1; i < argc; i++) {
        std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        int number = atoi(value.c_str());
        bool good = number > 0;

        if (name == "--variant") {
            good = false;
            for (const halo::variant &v : halo::variants)
                if (value == v.name) {
                    o.variant = &v;
                    good = true;
                }
        } else if (name == "--size") {
            o.sizes.push_back(number);
        } else if (name == "--iterations") {
            o.iterations = number;
        } else if (name == "--norm") {
            o.norm_every = number;
        } else if (name == "--repeat") {
            o.repeat = number;
        } else {
            good = false;
        }
        if (!good) {
            fprintf(stderr, "%s: cannot use %s '%s'\n", argv[0], name.c_str(),
                    value.c_str());
            exit(2);
        }
        i++;
    }
    if (o.sizes.empty())
        o.sizes.push_back(4096);
    return o;
}

/* A rank's rows, between two ghost rows, in two arrays. */
struct block {
    int rank = 0, ranks = 0, up = 0, down = 0;
    int first = 0, rows = 0;
    size_t pitch = 0; /* floats */
    float *field[2] = {};
    cudaStream_t stream = nullptr, beside = nullptr; /* inner rows; edges */

    size_t row_bytes() const
    {
        return pitch * sizeof(float);
    }
    float *row(int array, int number) const
    {
        return field[array] + (number + 1) * static_cast<ptrdiff_t>(pitch);
    }
};

/* How edges get into the neighbours' ghost rows. */
struct way {
    virtual ~way() = default;
    /* Memory of the same size on all ranks. */
    virtual void *make(size_t bytes)
    {
        void *memory = nullptr;

        CUDA_CHECK(cudaMalloc(&memory, bytes));
        return memory;
    }
    virtual void drop(void *memory)
    {
        CUDA_CHECK(cudaFree(memory));
    }
    virtual void open(block &)
    {
    }
    virtual void close()
    {
    }
    virtual bool capturable()
    {
        return true;
    }
    /* On block.beside, where the edges of array `to` are being written; the
     * inner rows are launched between the two calls. */
    virtual void begin(block &b, int to) = 0;
    virtual void end(block &, int)
    {
    }
};

class solver
{
  public:
    solver(way &w, const options &o, int size) : way_(w), options_(o)
    {
        problem_ = {HALO_LAPLACE, size, size};
        MPI_Comm_rank(MPI_COMM_WORLD, &b_.rank);
        MPI_Comm_size(MPI_COMM_WORLD, &b_.ranks);
        b_.up = (b_.rank + b_.ranks - 1) % b_.ranks;
        b_.down = (b_.rank + 1) % b_.ranks;
        b_.first = halo_first_row(&problem_, b_.rank, b_.ranks);
        b_.rows = halo_first_row(&problem_, b_.rank + 1, b_.ranks) - b_.first;
        b_.pitch = (static_cast<size_t>(size) + 127) / 128 * 128;
        size_t most = static_cast<size_t>((size - 1) / b_.ranks + 3);
        for (float *&field : b_.field)
            field = static_cast<float *>(way_.make(most * b_.row_bytes()));
        int least = 0, greatest = 0;
        CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
        CUDA_CHECK(cudaStreamCreateWithPriority(&b_.stream,
                                                cudaStreamNonBlocking, least));
        CUDA_CHECK(cudaStreamCreateWithPriority(
            &b_.beside, cudaStreamNonBlocking, greatest));
        for (cudaEvent_t *event : {&fork_, &join_, &copied_[0], &copied_[1]})
            CUDA_CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
        size_t rows = static_cast<size_t>(b_.rows) * sizeof(double);
        CUDA_CHECK(cudaMalloc(&groups_, b_.pitch / halo::group * rows));
        CUDA_CHECK(cudaMalloc(&rows_, rows));
        for (double *&host : host_)
            CUDA_CHECK(cudaMallocHost(&host, rows));
        CUDA_CHECK(cudaMallocHost(&stage_, stage_bytes + b_.row_bytes()));
        way_.open(b_);
    }

    ~solver()
    {
        CUDA_CHECK(cudaDeviceSynchronize());
        for (auto &entry : ready_)
            CUDA_CHECK(cudaGraphExecDestroy(entry.second));
        way_.close();
        MPI_Barrier(MPI_COMM_WORLD);
        for (float *field : b_.field)
            way_.drop(field);
        cudaFree(groups_);
        cudaFree(rows_);
        cudaFreeHost(host_[0]);
        cudaFreeHost(host_[1]);
        cudaFreeHost(stage_);
        for (cudaEvent_t event : {fork_, join_, copied_[0], copied_[1]})
            cudaEventDestroy(event);
        cudaStreamDestroy(b_.stream);
        cudaStreamDestroy(b_.beside);
    }

    void run()
    {
        load();
        advance(std::min(options_.norm_every, options_.iterations), 0);
        CUDA_CHECK(cudaStreamSynchronize(b_.stream));
        for (int i = 0; i < options_.repeat; i++) {
            load();
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            double residual = iterate();
            CUDA_CHECK(cudaStreamSynchronize(b_.stream));
            double seconds = bench::slowest_since(start) / 1e6;
            print(seconds, residual, crc());
        }
    }

  private:
    static constexpr size_t stage_bytes = size_t(32) << 20;

    void load()
    {
        int most = static_cast<int>(stage_bytes / b_.row_bytes()) + 1;

        for (int row = -1; row <= b_.rows; row += most) {
            int count = std::min(most, b_.rows + 1 - row);
            size_t bytes = static_cast<size_t>(count) * b_.row_bytes();

            memset(stage_, 0, bytes);
            for (int i = 0; i < count; i++)
                halo_start_row(&problem_,
                               (b_.first + row + i + problem_.rows) %
                                   problem_.rows,
                               stage_ + static_cast<size_t>(i) * b_.pitch);
            for (int array = 0; array < 2; array++)
                CUDA_CHECK(cudaMemcpy(b_.row(array, row), stage_, bytes,
                                      cudaMemcpyHostToDevice));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }

    void step(bool sums)
    {
        const halo::variant &v = sums ? halo::summing : *options_.variant;
        int to = static_cast<int>(round_ % 2);
        halo::step s = {};

        s.from = reinterpret_cast<const float4 *>(b_.row(1 - to, 0));
        s.to = reinterpret_cast<float4 *>(b_.row(to, 0));
        s.pitch = b_.pitch / 4;
        s.rows = b_.rows;
        s.columns = problem_.columns;
        s.backwards = v.turns && to;
        s.sums = groups_;
        CUDA_CHECK(cudaEventRecord(fork_, b_.stream));
        CUDA_CHECK(cudaStreamWaitEvent(b_.beside, fork_));
        s.edges = 1;
        CUDA_CHECK(halo::launch(v, s, false, b_.beside));
        way_.begin(b_, to);
        s.edges = 0;
        s.inner = 1;
        CUDA_CHECK(halo::launch(v, s, false, b_.stream));
        way_.end(b_, to);
        CUDA_CHECK(cudaEventRecord(join_, b_.beside));
        CUDA_CHECK(cudaStreamWaitEvent(b_.stream, join_));
        round_++;
    }

    void steps(int count)
    {
        for (int i = 0; i < count; i++)
            step(i == count - 1);
        halo::sum_kernel<<<(b_.rows + 127) / 128, 128, 0, b_.stream>>>(
            groups_, static_cast<int>(b_.pitch / halo::group), b_.rows, rows_);
        CUDA_CHECK(cudaGetLastError());
    }

    void advance(int count, int slot)
    {
        if (way_.capturable() && count % 2 == 0) {
            cudaGraphExec_t &exec =
                ready_[{count, static_cast<int>(round_ % 2)}];

            if (exec == nullptr) {
                long round = round_;
                cudaGraph_t graph;

                CUDA_CHECK(cudaStreamBeginCapture(
                    b_.stream, cudaStreamCaptureModeThreadLocal));
                steps(count);
                CUDA_CHECK(cudaStreamEndCapture(b_.stream, &graph));
                CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
                CUDA_CHECK(cudaGraphDestroy(graph));
                round_ = round;
            }
            CUDA_CHECK(cudaGraphLaunch(exec, b_.stream));
            round_ += count;
        } else {
            steps(count);
        }
        CUDA_CHECK(cudaMemcpyAsync(
            host_[slot], rows_, static_cast<size_t>(b_.rows) * sizeof(double),
            cudaMemcpyDeviceToHost, b_.stream));
        CUDA_CHECK(cudaEventRecord(copied_[slot], b_.stream));
    }

    double residual(int slot)
    {
        std::vector<double> all(static_cast<size_t>(problem_.rows));
        std::vector<int> counts(static_cast<size_t>(b_.ranks)),
            starts(static_cast<size_t>(b_.ranks));
        double sum = 0;

        CUDA_CHECK(cudaEventSynchronize(copied_[slot]));
        for (int rank = 0; rank < b_.ranks; rank++) {
            starts[rank] = halo_first_row(&problem_, rank, b_.ranks);
            counts[rank] =
                halo_first_row(&problem_, rank + 1, b_.ranks) - starts[rank];
        }
        MPI_Allgatherv(host_[slot], b_.rows, MPI_DOUBLE, all.data(),
                       counts.data(), starts.data(), MPI_DOUBLE,
                       MPI_COMM_WORLD);
        for (double one : all)
            sum += one;
        return std::sqrt(sum);
    }

    /* As the example: a residual is fetched when the next batch is launched. */
    double iterate()
    {
        int batch = 0;

        for (int done = 0; done < options_.iterations;) {
            int count =
                std::min(options_.norm_every, options_.iterations - done);

            advance(count, batch % 2);
            done += count;
            if (batch > 0)
                residual((batch - 1) % 2);
            batch++;
        }
        return residual((batch - 1) % 2);
    }

    uint32_t crc()
    {
        int most = static_cast<int>(stage_bytes / b_.row_bytes()) + 1;
        int last = static_cast<int>((round_ + 1) % 2);
        size_t bytes = static_cast<size_t>(problem_.columns) * sizeof(float);
        std::vector<uint32_t> all(static_cast<size_t>(b_.ranks));
        uint32_t mine = 0, whole;

        for (int row = 0; row < b_.rows; row += most) {
            int count = std::min(most, b_.rows - row);

            CUDA_CHECK(cudaMemcpy(stage_, b_.row(last, row),
                                  static_cast<size_t>(count) * b_.row_bytes(),
                                  cudaMemcpyDeviceToHost));
            for (int i = 0; i < count; i++)
                mine = static_cast<uint32_t>(
                    crc32_z(mine,
                            reinterpret_cast<unsigned char *>(
                                stage_ + static_cast<size_t>(i) * b_.pitch),
                            bytes));
        }
        MPI_Allgather(&mine, 1, MPI_UINT32_T, all.data(), 1, MPI_UINT32_T,
                      MPI_COMM_WORLD);
        whole = all[0];
        for (int rank = 1; rank < b_.ranks; rank++) {
            int count = halo_first_row(&problem_, rank + 1, b_.ranks) -
                        halo_first_row(&problem_, rank, b_.ranks);

            whole = static_cast<uint32_t>(crc32_combine(
                whole, all[rank], static_cast<z_off_t>(count * bytes)));
        }
        return whole;
    }

    void print(double seconds, double residual, uint32_t crc)
    {
        double step = seconds / options_.iterations;
        double bytes = 2.0 * sizeof(float) * problem_.rows * problem_.columns;

        if (b_.rank != 0)
            return;
        printf(" %7d %8d %5d %7d %11.6f %9.2f %9.1f  %.8e %08x\n",
               problem_.rows, problem_.columns, b_.ranks, options_.iterations,
               seconds, step * 1e6, bytes / step / 1e9, residual, crc);
        fflush(stdout);
    }

    way &way_;
    const options &options_;
    halo_problem problem_;
    block b_;
    long round_ = 0;
    cudaEvent_t fork_ = nullptr, join_ = nullptr, copied_[2] = {};
    double *groups_ = nullptr, *rows_ = nullptr, *host_[2] = {};
    float *stage_ = nullptr;
    std::map<std::pair<int, int>, cudaGraphExec_t> ready_;
};

inline void run_all(const char *name, way &w, const options &o)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("# %s, variant %s\n#%7s %8s %5s %7s %11s %9s %9s  %-14s %s\n",
               name, o.variant->name, "rows", "columns", "ranks", "steps",
               "seconds", "us/step", "GB/s", "residual", "crc32");
    for (int size : o.sizes) {
        solver s(w, o, size);

        s.run();
    }
}

/* The device of a rank, before the peer is started. */
inline void start(int *argc, char ***argv)
{
    int rank, devices = 0;

    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(cudaSetDevice(rank % devices));
}

} // namespace jacobi

#endif
