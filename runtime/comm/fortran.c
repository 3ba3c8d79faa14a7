/* SPDX-License-Identifier: MIT */
/* Communicators as Fortran holds them: only MPI can translate. */
#include "comm/comm.h"

MPI_Comm wi_comm_of_fortran(int comm)
{
    MPI_Comm found = MPI_Comm_f2c((MPI_Fint)comm);

    /* An integer that was never a handle gives a handle of all zeros in Open
     * MPI, and before MPI_Init; passing that on would end the program. */
    return found != (MPI_Comm)0 ? found : MPI_COMM_NULL;
}

int wi_comm_to_fortran(MPI_Comm comm)
{
    return (int)MPI_Comm_c2f(comm);
}
