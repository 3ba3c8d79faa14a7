/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD, under MPICH on machines of few cores: a rank that finds
 * nothing to do gives its core away. MPICH polls without ever yielding, so with
 * more ranks than cores each barrier costs whole time slices; Open MPI yields
 * by itself. Stands before UCX's function that MPICH polls with; where MPICH
 * goes by another transport it is never called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>

typedef unsigned progress(void *worker);

progress ucp_worker_progress;

unsigned ucp_worker_progress(void *worker)
{
    static progress *next; /* found again by each thread that comes early */
    progress *mine = __atomic_load_n(&next, __ATOMIC_ACQUIRE);
    unsigned count;

    if (mine == NULL) {
        *(void **)&mine = dlsym(RTLD_NEXT, "ucp_worker_progress");
        __atomic_store_n(&next, mine, __ATOMIC_RELEASE);
    }
    count = mine(worker);
    if (count == 0)
        sched_yield();
    return count;
}
