/* SPDX-License-Identifier: MIT */
/* The kernels of t_device_words.c: what a program does with device.cuh. */
#include <wharf/device.cuh>

/*
 * Data to and fro between two ranks, each time behind a signal. `in` and `out`
 * are a notify each way. Counts words that were not the ones written before the
 * signal, and waits that gave up.
 */
extern "C" __global__ void t_ping_pong(wharf_notify_view out,
                                       wharf_notify_view in, uint32_t *to,
                                       const uint32_t *from, uint32_t rounds,
                                       uint32_t *bad)
{
    __shared__ bool came;
    wharf_device_waiter waiter = wharf_device_wait_begin(in, 1 - in.rank);

    /* Rounds of both kinds of wait: a waiter must leave the word as single
     * waits would. */
    for (uint32_t i = 1; i <= rounds; i++) {
        if (i == rounds / 2 && threadIdx.x == 0)
            wharf_device_wait_end(waiter);
        for (int half = 0; half < 2; half++) {
            if (half == out.rank) {
                to[threadIdx.x] = i * 1000 + threadIdx.x;
                __syncthreads();
                if (threadIdx.x == 0)
                    wharf_device_notify(out);
            } else {
                if (threadIdx.x == 0)
                    came = i < rounds / 2
                               ? wharf_device_wait_next(in, waiter, 1 - in.rank)
                               : wharf_device_wait(in, 1 - in.rank);
                __syncthreads();
                if (!came || from[threadIdx.x] != i * 1000 + threadIdx.x)
                    atomicAdd(bad, 1u);
                __syncthreads();
            }
        }
    }
}

/* A value to and fro, one more each time, by one thread a rank; in the end a
 * packet that nobody sends. */
extern "C" __global__ void t_packets(uint64_t *to, const uint64_t *from,
                                     uint32_t rank, uint32_t rounds,
                                     uint32_t *bad)
{
    if (threadIdx.x != 0)
        return;
    for (uint32_t i = 1; i <= rounds; i++) {
        uint32_t data = 0;

        if (rank == 0)
            wharf_packet_write(to, i, 3 * i);
        if (!wharf_packet_wait(from, i, &data, 20000000000) ||
            data != 3 * i + (rank == 0))
            atomicAdd(bad, 1u);
        if (rank == 1)
            wharf_packet_write(to, i, data + 1);
    }
    uint32_t none = 7;
    if (wharf_packet_wait(from, rounds + 1, &none, 3000000) || none != 7)
        atomicAdd(bad, 1u);
}

/* Everybody writes to everybody, enters, looks, and enters again. */
extern "C" __global__ void t_barriers(wharf_barrier_view barrier,
                                      wharf_segments_view data, uint32_t rounds,
                                      uint32_t *bad)
{
    for (uint32_t i = 1; i <= rounds; i++) {
        for (int r = 0; r < data.ranks; r++) {
            uint32_t *to = (uint32_t *)wharf_device_segment(data, r);

            to[data.rank * blockDim.x + threadIdx.x] = i + data.rank;
        }
        if (!wharf_device_barrier(barrier))
            atomicAdd(bad, 1u);
        for (int r = 0; r < data.ranks; r++) {
            uint32_t *mine = (uint32_t *)wharf_device_segment(data, data.rank);

            if (mine[r * blockDim.x + threadIdx.x] != i + r)
                atomicAdd(bad, 1u);
        }
        if (!wharf_device_barrier(barrier))
            atomicAdd(bad, 1u);
    }
}

/* Waits that nobody answers: 1 for each that gave up as it should. */
extern "C" __global__ void t_late(wharf_notify_view in,
                                  wharf_barrier_view barrier, uint32_t *late)
{
    if (threadIdx.x == 0)
        late[0] = !wharf_device_wait(in, 1 - in.rank, 5000000);
    bool came = wharf_device_barrier(barrier, 5000000);
    if (threadIdx.x == 0)
        late[1] = !came;
}
