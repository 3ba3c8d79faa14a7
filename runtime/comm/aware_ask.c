/* SPDX-License-Identifier: MIT */
/* CUDA-aware MPI, where the library can be asked. */
#include "comm/remote.h"

/* Needs what mpi.h declares; MPICH has it all there. */
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <stdio.h>

bool wi_remote_cuda_aware(char reason[96])
{
    bool aware = MPIX_Query_cuda_support() == 1;

    snprintf(reason, 96, "MPI says that it %s device pointers",
             aware ? "takes" : "does not take");
    return aware;
}
