/* SPDX-License-Identifier: MIT */
/*
 * Many ranks on few GPUs: what a rank holds grows with the GPUs, not with the
 * ranks. The same is done by a quarter of the ranks and by all of them; times
 * are printed and decide nothing.
 */
#include "t_group.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* What one rank holds with a node open and a buffer attached. */
typedef struct holding {
    int blocks; /* owned and imported */
    int ranges;
    int descriptors; /* while nothing is under way */
    int gpus;
} holding;

static int owned_everywhere(MPI_Comm comm, const wharf_stats *now)
{
    int owned = (int)now->live_blocks_owned;

    MPI_Allreduce(MPI_IN_PLACE, &owned, 1, MPI_INT, MPI_SUM, comm);
    return owned;
}

static holding measure(MPI_Comm comm)
{
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    holding held;
    wharf_stats now, opened;
    double start, open_s, attach_s;
    int64_t before = t_stats().agreements_count;
    int size, rank;

    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    MPI_Barrier(comm);
    start = MPI_Wtime();
    T_OK(wharf_node_open(comm, NULL, &node));
    open_s = MPI_Wtime() - start;
    opened = t_stats();
    MPI_Barrier(comm);
    start = MPI_Wtime();
    T_OK(wharf_buffer_attach(node, 4096, NULL, &buffer));
    attach_s = MPI_Wtime() - start;
    now = t_stats();
    held = (holding){
        .blocks = (int)(now.live_blocks_owned + now.live_blocks_imported -
                        opened.live_blocks_owned - opened.live_blocks_imported),
        .ranges = (int)now.live_ranges,
        .descriptors = (int)now.live_descriptors,
        .gpus = wharf_node_gpus(node)};
    /* One block a GPU for the buffer, as many for what the open keeps. */
    T_EQ_INT(held.gpus, owned_everywhere(comm, &opened));
    T_EQ_INT(2 * held.gpus, owned_everywhere(comm, &now));
    if (rank == 1) {
        printf("%3d ranks, %d GPUs: open %.1f ms (%lld agreements), attach "
               "%.1f ms (%lld), each rank holds %d blocks, %d descriptors\n",
               size, held.gpus, open_s * 1e3,
               (long long)(opened.agreements_count - before), attach_s * 1e3,
               (long long)(now.agreements_count - opened.agreements_count),
               held.blocks, held.descriptors);
        fflush(stdout);
    }
    t_share(node, buffer, (uint64_t)size);
    T_OK(wharf_buffer_detach(&buffer));
    t_close(node);
    return held;
}

static void handles(void)
{
    holding few = {0}, all;
    MPI_Comm quarter;

    MPI_Comm_split(MPI_COMM_WORLD, t_me < t_ranks / 4 ? 0 : 1, t_me, &quarter);
    if (t_me < t_ranks / 4)
        few = measure(quarter);
    t_barrier();
    all = measure(MPI_COMM_WORLD);
    MPI_Comm_free(&quarter);
    T_EQ_INT(t_argument("devices", 8), all.gpus);
    T_EQ_INT(all.gpus, all.blocks);
    if (t_me >= t_ranks / 4)
        return;
    T_EQ_INT(few.gpus, all.gpus);
    T_EQ_INT(few.blocks, all.blocks);
    T_EQ_INT(few.ranges, all.ranges);
    /* Rank 0 is the hub of the descriptor channel: a socket a rank. An owner
     * keeps one of its exports open; the control block, its lock and the socket
     * to rank 0 follow. Of what was imported a descriptor a block is kept,
     * to be lent. */
    if (t_me > 0)
        T_CHECK(few.descriptors <= 4 + few.gpus &&
                all.descriptors == few.descriptors);
}

/* Kilobytes that the machine can still give, or -1. */
static long memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    long kilobytes = -1;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %ld", &kilobytes) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kilobytes;
}

static void run(void)
{
    long left = memory_available();

    /* A rank takes some 15 MB. */
    MPI_Bcast(&left, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (left >= 0 && left < 16L * 1024 * t_ranks) {
        MPI_Finalize();
        T_SKIP("%ld MB of memory are left, too few for %d ranks", left / 1024,
               t_ranks);
    }
    handles();
}

static const t_case cases[] = {
    {"handles", run, T_FAKE},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
