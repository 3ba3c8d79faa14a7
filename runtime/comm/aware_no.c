/* SPDX-License-Identifier: MIT */
/* CUDA-aware MPI where the library has no call to ask it: device pointers are
 * not given to it, since one that is not aware would crash on them. */
#include <stdio.h>

#include "comm/remote.h"

bool wi_remote_cuda_aware(char reason[96])
{
    snprintf(reason, 96,
             "MPI has no call that says whether it takes device "
             "pointers");
    return false;
}
