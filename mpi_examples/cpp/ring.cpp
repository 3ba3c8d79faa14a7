/* SPDX-License-Identifier: MIT */
/*
 * A ring in C++: rank 0 produces blocks of numbers into a ring of four slots in
 * host memory, every other rank reads each of them in place. The producer is
 * held when the slowest consumer is four blocks behind.
 *
 * Run: mpirun -n 3 ring_cpp
 */
#include <wharf/wharf.hpp> /* and mpi.h */

#include <cstdio>
#include <numeric>

static void produce(const wharf::ring &ring, int blocks)
{
    for (int block = 0; block < blocks; block++) {
        auto slot = ring.produce_begin<int>(WHARF_RING_CPU);
        std::iota(slot.data.begin(), slot.data.end(), block);
        ring.produce_end(slot.data.size() * sizeof(int), WHARF_RING_CPU);
    }
    ring.close();
}

static long consume(const wharf::ring &ring)
{
    long sum = 0;
    while (auto slot = ring.consume_begin<int>(WHARF_RING_CPU)) {
        sum = std::accumulate(slot->data.begin(), slot->data.end(), sum);
        ring.consume_end(WHARF_RING_CPU);
    }
    return sum;
}

static void stream()
{
    wharf::node node(MPI_COMM_WORLD);
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    options.slots = 4;
    options.slot_bytes = 1000 * sizeof(int);
    options.space = WHARF_SPACE_HOST;
    wharf::ring ring(node, options);

    if (node.rank() == 0) {
        produce(ring, 100);
        ring.drain();
        std::printf("rank 0 produced 100 blocks for %d ranks\n",
                    node.size() - 1);
    } else {
        std::printf("rank %d reads: sum %ld\n", node.rank(), consume(ring));
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try {
        stream();
    } catch (const wharf::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
