/* SPDX-License-Identifier: MIT */
/*
 * The smallest program that shares memory: every rank attaches a segment of
 * host memory, writes into its own and reads its neighbour's, in place.
 *
 * Run: mpirun -n 4 01_hello
 */
#include <mpi.h>
#include <stdio.h>
#include <wharf/wharf.h>

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
#define CHECK(call)                                                            \
    ((call) == WHARF_OK ? (void)0 : (void)MPI_Abort(MPI_COMM_WORLD, 1))

int main(int argc, char **argv)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    void *mine, *theirs;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    CHECK(wharf_node_open(MPI_COMM_WORLD, NULL, &node));
    CHECK(wharf_node_communicator(node, &comm));

    int rank = wharf_node_rank(node);
    int neighbour = (rank + 1) % wharf_node_size(node);

    options.space = WHARF_SPACE_HOST;
    options.name = "hello";
    CHECK(wharf_buffer_attach(node, 64, &options, &buffer));
    CHECK(wharf_buffer_segment(buffer, rank, &mine, NULL));
    CHECK(wharf_buffer_segment(buffer, neighbour, &theirs, NULL));

    snprintf(mine, 64, "hello from rank %d", rank);
    MPI_Barrier(comm); /* every segment is written */
    printf("rank %d reads: %s\n", rank, (const char *)theirs);
    MPI_Barrier(comm); /* every segment is read */

    CHECK(wharf_buffer_detach(&buffer));
    CHECK(wharf_node_close(&node));
    MPI_Finalize();
    return 0;
}
