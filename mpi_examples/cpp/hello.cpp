/* SPDX-License-Identifier: MIT */
/*
 * 01_hello.c in C++: every rank writes its segment of host memory and reads
 * its neighbour's, in place. Objects give back what they hold, on every rank
 * in the same order; a failure is an exception that says which rank, which
 * call, why, and what to do.
 *
 * Run: mpirun -n 4 hello_cpp
 */
#include <wharf/wharf.hpp> /* and mpi.h */

#include <cstdio>
#include <numeric>

static void hello()
{
    wharf::node node(MPI_COMM_WORLD);
    int neighbour = (node.rank() + 1) % node.size();

    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    options.space = WHARF_SPACE_HOST;
    options.name = "hello";
    wharf::buffer buffer(node, 1000 * sizeof(double), options);

    for (double &x : buffer.mine<double>())
        x = node.rank();
    MPI_Barrier(node.communicator()); /* every segment is written */
    wharf::span<const double> theirs = buffer.segment<const double>(neighbour);
    double sum = std::accumulate(theirs.begin(), theirs.end(), 0.0);
    std::printf("rank %d reads: %zu numbers of rank %d, sum %g\n", node.rank(),
                theirs.size(), neighbour, sum);
    MPI_Barrier(node.communicator()); /* every segment is read */
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try {
        hello();
    } catch (const wharf::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
