/* SPDX-License-Identifier: MIT */
/* What the programs that move data have in common: both ways at once between a
 * rank and the next, so many under way at a time, timed by events on the
 * stream. No Wharf in here. */
#ifndef COPY_BENCH_H
#define COPY_BENCH_H

#include "bench.h"

namespace bench
{

/* Calls in one measurement. */
inline int calls_of(uint64_t bytes)
{
    uint64_t calls = (uint64_t(512) << 20) / bytes;

    return calls < 4 ? 4 : calls > 200 ? 200 : static_cast<int>(calls);
}

/*
 * Rounds of one operation at one size. `meet` brings the ranks' streams
 * together before each round.
 */
template <typename Meet, typename One>
void measure_copies(const options &o, cudaStream_t stream, row &to,
                    uint64_t bytes, Meet meet, One one)
{
    cudaEvent_t from, until;
    int calls = calls_of(bytes);

    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&until));
    to.moves = true;
    for (int round = -o.warmup; round < o.rounds; round++) {
        float ms = 0;

        MPI_Barrier(MPI_COMM_WORLD);
        meet();
        CUDA_CHECK(cudaEventRecord(from, stream));
        for (int i = 0; i < calls; i++)
            one();
        CUDA_CHECK(cudaEventRecord(until, stream));
        CUDA_CHECK(cudaEventSynchronize(until));
        CUDA_CHECK(cudaEventElapsedTime(&ms, from, until));
        double us = slowest(static_cast<double>(ms) * 1e3 / calls);
        if (round >= 0)
            to.samples.push_back(us);
    }
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(until));
    MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace bench

#endif
