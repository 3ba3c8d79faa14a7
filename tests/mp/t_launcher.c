/* SPDX-License-Identifier: MIT */
/* A failed check on one rank ends the job at once, although the other ranks
 * wait for it in a collective. CTest looks for the sentence. */
#include <mpi.h>

#include "t_test.h"

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    T_EQ_INT(rank, atoi(t_rank()));
    if (rank == 1)
        T_EQ_STR("right", "wrong");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
