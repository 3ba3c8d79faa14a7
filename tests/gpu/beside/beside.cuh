/* SPDX-License-Identifier: MIT */
/*
 * What the programs share that use Wharf and another communication library in
 * one process: checks, patterns, and the order of who opens memory first.
 */
#ifndef BESIDE_CUH
#define BESIDE_CUH

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <mpi.h>
#include <wharf/wharf.h>

namespace beside
{

constexpr size_t WORDS = size_t(1) << 20; /* floats of each rank */
constexpr size_t BYTES = WORDS * sizeof(float);

[[noreturn]] inline void end(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

inline void check(bool good, const char *what)
{
    if (!good)
        end(what, "not so");
}

inline void cuda(cudaError_t code, const char *what)
{
    if (code != cudaSuccess)
        end(what, cudaGetErrorString(code));
}

/* A call of Wharf's works, and leaves the runtime's last error alone. */
inline void wharf(wharf_status status, const char *what)
{
    wharf_error error = {};

    if (status != WHARF_OK) {
        wharf_last_error(&error);
        end(what, error.cause);
    }
    cuda(cudaPeekAtLastError(), what);
}

#define CUDA(call) beside::cuda(call, #call)
#define WHARF(call) beside::wharf(call, #call)
#define CHECK(what) beside::check(what, #what)

/* Position and owner are in every word, so that a lost offset shows. */
inline float word(int owner, size_t at)
{
    return float((at * 7 + size_t(owner) * 13) % 4096);
}

inline void fill(void *to, int owner)
{
    std::vector<float> words(WORDS);

    for (size_t at = 0; at < WORDS; at++)
        words[at] = word(owner, at);
    CUDA(cudaMemcpy(to, words.data(), BYTES, cudaMemcpyDefault));
}

/* `times` copies of the sum over ranks first ... last - 1. */
inline bool holds(const void *from, int first, int last, float times = 1)
{
    std::vector<float> words(WORDS);

    CUDA(cudaMemcpy(words.data(), from, BYTES, cudaMemcpyDefault));
    for (size_t at = 0; at < WORDS; at++) {
        float sum = 0;

        for (int rank = first; rank < last; rank++)
            sum += word(rank, at);
        if (words[at] != sum * times)
            return false;
    }
    return true;
}

struct job {
    int rank = 0, size = 0;
    wharf_node *node = nullptr;
    cudaStream_t stream = nullptr;
};

inline job open(int argc, char **argv)
{
    job j;
    int already = 0;

    MPI_Initialized(&already);
    if (!already)
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    WHARF(wharf_node_open(MPI_COMM_WORLD, nullptr, &j.node));
    CUDA(cudaStreamCreateWithFlags(&j.stream, cudaStreamNonBlocking));
    return j;
}

inline void close(job &j)
{
    CUDA(cudaStreamDestroy(j.stream));
    WHARF(wharf_node_close(&j.node));
}

inline wharf_buffer *attach(const job &j, void *memory)
{
    wharf_buffer *buffer = nullptr;

    WHARF(wharf_buffer_attach_memory(j.node, memory, BYTES, nullptr, &buffer));
    return buffer;
}

inline void *segment(wharf_buffer *buffer, int rank)
{
    void *pointer = nullptr;
    size_t bytes = 0;

    WHARF(wharf_buffer_segment(buffer, rank, &pointer, &bytes));
    CHECK(bytes == BYTES);
    return pointer;
}

/* Every rank's memory is what that rank filled in, seen through Wharf. */
inline void see_all(const job &j, wharf_buffer *buffer)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int rank = 0; rank < j.size; rank++)
        CHECK(holds(segment(buffer, rank), rank, rank + 1));
    MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace beside

#endif
