/* SPDX-License-Identifier: MIT */
/* A user's program: built against an installed Wharf, once with CMake and once
 * with pkg-config. Each rank writes its segment and reads its neighbour's. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "wharf/wharf.h"

static void check(wharf_status status)
{
    wharf_error error;
    char text[512];

    if (status == WHARF_OK)
        return;
    wharf_last_error(&error);
    fprintf(stderr, "%s\n", wharf_error_format(&error, text, sizeof(text)));
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

int main(int argc, char **argv)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node;
    wharf_buffer *buffer;
    MPI_Comm comm;
    void *mine, *next;
    int rank, size, got;

    MPI_Init(&argc, &argv);
    if (wharf_version() != WHARF_VERSION_NUMBER) {
        fprintf(stderr, "library %d, headers %d\n", wharf_version(),
                WHARF_VERSION_NUMBER);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    options.backend = WHARF_BACKEND_HOST;
    check(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    check(wharf_node_communicator(node, &comm));
    rank = wharf_node_rank(node);
    size = wharf_node_size(node);

    check(wharf_buffer_attach(node, sizeof(int), NULL, &buffer));
    check(wharf_buffer_segment(buffer, rank, &mine, NULL));
    check(wharf_buffer_segment(buffer, (rank + 1) % size, &next, NULL));
    *(int *)mine = 100 + rank;
    MPI_Barrier(comm);
    got = *(int *)next;
    MPI_Barrier(comm);
    check(wharf_buffer_detach(&buffer));
    check(wharf_node_close(&node));
    MPI_Finalize();

    if (got != 100 + (rank + 1) % size) {
        fprintf(stderr, "rank %d read %d\n", rank, got);
        return 1;
    }
    printf("rank %d of %d read %d\n", rank, size, got);
    return 0;
}
