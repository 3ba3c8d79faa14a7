/* SPDX-License-Identifier: MIT */
/* The same as consumer.c, in C++. */
#include "wharf/wharf.hpp"

#include <cstdio>

static int share()
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;

    options.backend = WHARF_BACKEND_HOST;
    wharf::node node(MPI_COMM_WORLD, options);
    wharf::buffer buffer(node, sizeof(int));
    int next = (node.rank() + 1) % node.size();

    buffer.mine<int>()[0] = 100 + node.rank();
    MPI_Barrier(node.communicator());
    int got = buffer.segment<const int>(next)[0];
    MPI_Barrier(node.communicator());
    std::printf("rank %d of %d read %d\n", node.rank(), node.size(), got);
    return got == 100 + next ? 0 : 1;
}

int main(int argc, char **argv)
{
    int failed = 1;

    MPI_Init(&argc, &argv);
    try {
        failed = share();
    } catch (const wharf::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return failed;
}
