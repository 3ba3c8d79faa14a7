/* SPDX-License-Identifier: MIT */
/*
 * One producer, many consumers of the same batches, no copy of a batch for any
 * of them: rank 0 fills one of two slots, all other ranks read it in place, and
 * rank 0 fills a slot again only when all are through with it.
 *
 * Done twice, by the two ways that Wharf has to say "ready" and "done":
 *   events    one record serves any number of waiters, who name its number
 *   notifies  one waiter; a record from each rank, each consumed by one wait
 *
 * The batches lie in host memory, so that a CPU can make and use them; programs
 * that do so on a GPU pass their stream instead of NULL and do not hold the
 * host (wharf_event_wait, wharf_notify_wait).
 *
 * Run: mpirun -n 4 03_producer_consumers [BATCHES [BYTES]]
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wharf/wharf.h>

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
#define CHECK(call)                                                            \
    ((call) == WHARF_OK ? (void)0 : (void)MPI_Abort(MPI_COMM_WORLD, 1))
#define SLOTS 2

struct job {
    wharf_node *node;
    int rank, size;
    uint32_t *slots; /* the producer's memory, the same bytes for all */
    size_t words;    /* of one slot */
    long batches;
    long wrong; /* words of another batch, as this consumer saw them */
};

/* Word i of a batch. */
static uint32_t word_of(long batch, size_t i)
{
    return (uint32_t)batch * 2654435761u + (uint32_t)i;
}

static void produce(struct job *job, long batch)
{
    uint32_t *slot = job->slots + (size_t)(batch % SLOTS) * job->words;

    for (size_t i = 0; i < job->words; i++)
        slot[i] = word_of(batch, i);
}

static void consume(struct job *job, long batch)
{
    const uint32_t *slot = job->slots + (size_t)(batch % SLOTS) * job->words;

    for (size_t i = 0; i < job->words; i++)
        job->wrong += slot[i] != word_of(batch, i);
}

/* ---- By events --------------------------------------------------------- */

static void by_events(struct job *job)
{
    wharf_event *ready = NULL;
    wharf_event **done = calloc((size_t)job->size, sizeof *done);

    if (done == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    CHECK(wharf_event_create(job->node, 0, &ready));
    for (int rank = 1; rank < job->size; rank++)
        CHECK(wharf_event_create(job->node, rank, &done[rank]));

    /* Records are numbered from 1: batch b is record b + 1. */
    for (long batch = 0; batch < job->batches; batch++) {
        uint64_t number = (uint64_t)batch + 1;

        if (job->rank == 0) {
            for (int rank = 1; rank < job->size && batch >= SLOTS; rank++)
                CHECK(wharf_event_synchronize(done[rank], number - SLOTS, 0));
            produce(job, batch);
            CHECK(wharf_event_record(ready, NULL, NULL));
        } else {
            CHECK(wharf_event_synchronize(ready, number, 0));
            consume(job, batch);
            CHECK(wharf_event_record(done[job->rank], NULL, NULL));
        }
    }
    for (int rank = 1; rank < job->size; rank++)
        CHECK(wharf_event_destroy(&done[rank]));
    CHECK(wharf_event_destroy(&ready));
    free(done);
}

/* ---- By notifies ------------------------------------------------------- */

static void by_notifies(struct job *job)
{
    wharf_notify *done = NULL; /* the producer waits, consumers record */
    wharf_notify **ready = calloc((size_t)job->size, sizeof *ready);

    if (ready == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    CHECK(wharf_notify_create(job->node, 0, NULL, &done));
    for (int rank = 1; rank < job->size; rank++)
        CHECK(wharf_notify_create(job->node, rank, NULL, &ready[rank]));

    for (long batch = 0; batch < job->batches; batch++) {
        if (job->rank == 0) {
            for (int rank = 1; rank < job->size && batch >= SLOTS; rank++)
                CHECK(wharf_notify_wait_host(done, rank, 0));
            produce(job, batch);
            for (int rank = 1; rank < job->size; rank++)
                CHECK(wharf_notify_record(ready[rank], NULL));
        } else {
            CHECK(wharf_notify_wait_host(ready[job->rank], 0, 0));
            consume(job, batch);
            CHECK(wharf_notify_record(done, NULL));
        }
    }
    for (int rank = 1; rank < job->size; rank++)
        CHECK(wharf_notify_destroy(&ready[rank]));
    CHECK(wharf_notify_destroy(&done));
    free(ready);
}

/* ---- Both -------------------------------------------------------------- */

static long run(struct job *job, const char *how, void (*way)(struct job *))
{
    double start, seconds;
    long wrong = 0;

    job->wrong = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    way(job);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime() - start;
    MPI_Allreduce(&job->wrong, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (job->rank == 0)
        printf("by %-9s %ld batches of %zu bytes, %d consumers, %.1f us a "
               "batch, %ld words wrong\n",
               how, job->batches, job->words * sizeof(uint32_t), job->size - 1,
               seconds * 1e6 / (double)job->batches, wrong);
    return wrong;
}

int main(int argc, char **argv)
{
    bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    struct job job = {.batches = argc > 1 ? atol(argv[1]) : 50};
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 1 << 20;
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    void *slots = NULL;
    long wrong;

    MPI_Init(&argc, &argv);
    if (job.batches < 1 || bytes < sizeof(uint32_t) || bytes > SIZE_MAX / 4) {
        MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
        if (job.rank == 0)
            fprintf(help ? stdout : stderr,
                    "usage: mpirun -n RANKS 03_producer_consumers "
                    "[BATCHES [BYTES]]\n");
        MPI_Finalize();
        return help ? 0 : 2;
    }
    job.words = bytes / sizeof(uint32_t);
    CHECK(wharf_node_open(MPI_COMM_WORLD, NULL, &job.node));
    job.rank = wharf_node_rank(job.node);
    job.size = wharf_node_size(job.node);

    /* Everything is the producer's; the others attach nothing of their own. */
    options.space = WHARF_SPACE_HOST;
    options.name = "batches";
    bytes = SLOTS * job.words * sizeof(uint32_t);
    CHECK(wharf_buffer_attach(job.node, job.rank == 0 ? bytes : 0, &options,
                              &buffer));
    CHECK(wharf_buffer_segment(buffer, 0, &slots, NULL));
    job.slots = slots;

    wrong = run(&job, "events:", by_events);
    wrong += run(&job, "notifies:", by_notifies);

    CHECK(wharf_buffer_detach(&buffer));
    CHECK(wharf_node_close(&job.node));
    MPI_Finalize();
    return wrong != 0;
}
