/* SPDX-License-Identifier: MIT */
/*
 * What wharf_exchange adds to MPI between hosts: each rank exchanges with the
 * one that has its place on the other half of the job, both ways at once, by an
 * exchange and by plain persistent requests, in turn, on the same data.
 *
 * Run: scripts/two_hosts.sh -n 1 hosts_rate [ROUNDS]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wharf/wharf.h>

enum { WARMUP = 3, ROUNDS_MOST = 10000 };

struct job {
    int rank, size, peer;
    wharf_node *node;
    size_t bytes;
    wharf_buffer *buffer;
    unsigned char *out, *in; /* what goes, what comes */
    wharf_exchange *exchange;
    MPI_Request requests[2];
    uint64_t bad;
};

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
static void check(wharf_status status)
{
    if (status != WHARF_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Both ways use the same memory, so that neither has the better one. */
static void job_open(struct job *job, size_t bytes)
{
    wharf_exchange_box send = {NULL, 0, {0}, {0}}, receive = send;
    wharf_exchange_transfer transfer = {job->peer, 0, 0, &send, &receive};
    void *segment;

    job->bytes = bytes;
    check(wharf_buffer_attach(job->node, 2 * bytes, NULL, &job->buffer));
    check(wharf_buffer_segment(job->buffer, wharf_node_rank(job->node),
                               &segment, NULL));
    job->out = segment;
    job->in = job->out + bytes;
    send.buffer = receive.buffer = job->buffer;
    receive.offset = bytes;
    send.size[0] = receive.size[0] = bytes;
    send.size[1] = send.size[2] = receive.size[1] = receive.size[2] = 1;
    check(wharf_exchange_create(job->node, MPI_COMM_WORLD, 1, &transfer, NULL,
                                &job->exchange));
    MPI_Recv_init(job->in, (int)bytes, MPI_BYTE, job->peer, 0, MPI_COMM_WORLD,
                  &job->requests[0]);
    MPI_Send_init(job->out, (int)bytes, MPI_BYTE, job->peer, 0, MPI_COMM_WORLD,
                  &job->requests[1]);
}

static void job_close(struct job *job)
{
    MPI_Request_free(&job->requests[0]);
    MPI_Request_free(&job->requests[1]);
    check(wharf_exchange_destroy(&job->exchange));
    check(wharf_buffer_detach(&job->buffer));
}

/* Seconds of the slower side of one exchange, and wrong bytes. */
static double once(struct job *job, int wharf, int round)
{
    unsigned char mine = (unsigned char)(round * 7 + job->rank);
    unsigned char theirs = (unsigned char)(round * 7 + job->peer);
    double start, seconds;

    memset(job->out, mine, job->bytes);
    memset(job->in, ~theirs, job->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (wharf) {
        check(wharf_exchange_start(job->exchange, NULL));
        check(wharf_exchange_finish(job->exchange, NULL));
    } else {
        MPI_Startall(2, job->requests);
        MPI_Waitall(2, job->requests, MPI_STATUSES_IGNORE);
    }
    seconds = MPI_Wtime() - start;
    for (size_t i = 0; i < job->bytes; i++)
        job->bad += job->in[i] != theirs;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    return seconds;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median of both; the one that comes first in a round changes. */
static void measure(struct job *job, int rounds, double us[2])
{
    double *seconds[2];

    for (int way = 0; way < 2; way++) {
        seconds[way] = calloc((size_t)rounds, sizeof **seconds);
        if (seconds[way] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int round = -WARMUP; round < rounds; round++) {
        for (int turn = 0; turn < 2; turn++) {
            int way = (round + WARMUP + turn) % 2;
            double one = once(job, way, round);

            if (round >= 0)
                seconds[way][round] = one;
        }
    }
    for (int way = 0; way < 2; way++) {
        qsort(seconds[way], (size_t)rounds, sizeof **seconds, compare);
        us[way] = seconds[way][rounds / 2] * 1e6;
        free(seconds[way]);
    }
}

static void print_head(const struct job *job)
{
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange_info info = WHARF_EXCHANGE_INFO_INIT;

    check(wharf_exchange_plan_get(job->exchange, &plan));
    check(wharf_exchange_info_get(job->exchange, 0, &info));
    printf("# %d ranks, each with its like %d further; way %s: %s\n", job->size,
           job->size / 2, wharf_exchange_way_name(info.way), info.reason);
    printf("# progress: %s\n", plan.reason);
    printf("#%11s %12s %12s %9s %6s\n", "bytes", "MPI (us)", "Wharf (us)",
           "Wharf:MPI", "bad");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1 << 10, 1 << 16, 1 << 20, 1 << 24};
    int level, rounds = argc > 1 ? atoi(argv[1]) : 50;
    struct job job = {0};
    uint64_t bad = 0;
    double worst = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    if (rounds < 1 || rounds > ROUNDS_MOST || job.size % 2 != 0) {
        fprintf(stderr, "usage: mpirun -n EVEN hosts_rate [ROUNDS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    job.peer = (job.rank + job.size / 2) % job.size;
    check(wharf_node_open(MPI_COMM_WORLD, NULL, &job.node));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double us[2];

        job_open(&job, sizes[i]);
        if (i == 0 && job.rank == 0)
            print_head(&job);
        measure(&job, rounds, us);
        MPI_Allreduce(&job.bad, &bad, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (job.rank == 0)
            printf(" %11zu %12.1f %12.1f %9.2f %6llu\n", sizes[i], us[0], us[1],
                   us[1] / us[0], (unsigned long long)bad);
        if (us[1] / us[0] > worst)
            worst = us[1] / us[0];
        job_close(&job);
    }
    check(wharf_node_close(&job.node));
    if (job.rank == 0)
        printf("# slowest %.2f of MPI; wrong bytes: %llu\n", worst,
               (unsigned long long)bad);
    MPI_Finalize();
    return bad != 0;
}
