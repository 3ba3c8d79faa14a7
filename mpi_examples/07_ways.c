/* SPDX-License-Identifier: MIT */
/*
 * The ways of 07_frame_filter. Each takes every frame of the film once, to
 * check its result and to warm up, and then `frames` of them for the clock.
 *
 * All but the ring: the ranks share the frames out among themselves, each
 * waits for its frame's result before it takes the next. A latency is from
 * before the first command until the host knows that the result is there.
 *
 * The ring: rank 0 fills slots, the others share them out. While one slot is
 * filtered, the next is filled: with two slots, double buffering. A latency is
 * from the hand-over to the ring until the consumer's host knows the result.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "07_frame_filter.h"

const char *const way_name[WAYS] = {"copy", "mapped", "ring", "mixed"};

/* What one rank found. */
struct samples {
    double *latency; /* us */
    int count;
    int checked, wrong;
    uint32_t *crc;        /* of each frame of the film, 0: not by this rank */
    double start, finish; /* of the measured frames, s */
};

/* The same clock for all processes of a host. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double middle(const double *sorted, int count)
{
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

/* The 99th percentile. */
static double high(const double *sorted, int count)
{
    return sorted[(count * 99 + 99) / 100 - 1];
}

/* ---- One frame --------------------------------------------------------- */

static const uint8_t *film_frame(const struct job *job, int number)
{
    return job->film +
           job->source.format.bytes * (size_t)(number % job->source.frames);
}

/* First and last frame of a sequence, every one of several images. */
static bool wants_saving(const struct job *job, int number)
{
    const struct frame_source *source = &job->source;

    return job->options.out != NULL && !job->saved &&
           ((source->path_count > 0 && !source->raw) || number == 0 ||
            number == source->frames - 1);
}

/* frame-N, or the image's own name, without directory and suffix. */
static void frame_name(const struct job *job, int number, char *name,
                       size_t capacity)
{
    const char *path, *slash, *dot;

    if (job->source.path_count == 0 || job->source.raw) {
        snprintf(name, capacity, "frame-%04d", number);
        return;
    }
    path = job->source.paths[number];
    slash = strrchr(path, '/');
    path = slash == NULL ? path : slash + 1;
    dot = strrchr(path, '.');
    snprintf(name, capacity, "%.*s",
             dot == NULL || dot == path ? (int)strlen(path) : (int)(dot - path),
             path);
}

static int save(const struct job *job, int number, const uint8_t *result,
                struct failure *why)
{
    char base[200], name[220];

    frame_name(job, number, base, sizeof base);
    snprintf(name, sizeof name, "%s-filtered", base);
    if (image_write(job->options.out, name, &job->source.format, result, why) !=
        0)
        return -1;
    if (job->source.path_count > 0 && !job->source.raw)
        return 0; /* the original is a file already */
    return image_write(job->options.out, base, &job->source.format,
                       film_frame(job, number), why);
}

static int check(const struct job *job, int table, int number,
                 const uint8_t *result, struct samples *samples,
                 struct failure *why)
{
    int frame = number % job->source.frames;
    uint32_t crc = frame_crc(&job->source.format, result);

    samples->crc[frame] = crc;
    samples->checked++;
    samples->wrong += crc != job->expected[table][frame];
    return number == frame && wants_saving(job, frame)
               ? save(job, frame, result, why)
               : 0;
}

/* ---- Ways without a ring ----------------------------------------------- */

static int direct_frame(struct job *job, enum way way, int table, int number,
                        int turn, double *latency, struct failure *why)
{
    double start = now();

    if (job->kind->run(job->filter, way, table, film_frame(job, number),
                       job->result[turn], why) != 0 ||
        job->kind->wait(job->filter, END_STREAM, why) != 0)
        return -1;
    *latency = (now() - start) * 1e6;
    return 0;
}

static void direct_run(struct job *job, enum way way, int table,
                       struct samples *samples, struct failure *why)
{
    int held = job->source.frames, last[2] = {-1, -1}, turn = 0;
    double latency;
    int status = 0;

    for (int k = job->rank; k < held && status == 0; k += job->size) {
        status = direct_frame(job, way, table, k, 0, &latency, why);
        if (status == 0)
            status = check(job, table, k, job->result[0], samples, why);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    samples->start = now();
    for (int k = job->rank; k < job->options.frames && status == 0;
         k += job->size) {
        status = direct_frame(job, way, table, held + k, turn,
                              &samples->latency[samples->count++], why);
        last[turn] = held + k;
        turn ^= 1;
    }
    samples->finish = now();
    for (int i = 0; i < 2 && status == 0; i++)
        if (last[i] >= 0)
            status = check(job, table, last[i], job->result[i], samples, why);
}

/* ---- The ring ---------------------------------------------------------- */

static bool ring_open(struct job *job, wharf_ring **ring)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    struct failure why = {""};

    options.slots = job->options.slots;
    options.slot_bytes = job->source.format.bytes;
    options.producer = 0;
    options.mode = WHARF_RING_SHARED;
    options.space = job->options.ring_in;
    wharf_failure(wharf_ring_create(job->node, &options, ring), &why);
    return agree(job, "creating the ring", &why);
}

static void ring_produce(struct job *job, wharf_ring *ring, struct failure *why)
{
    int total = job->source.frames + job->options.frames;
    size_t bytes = job->source.format.bytes;
    const struct filter_kind *by = job->kind;
    wharf_stream stream = job->kind->stream(job->filter);
    int status = 0;

    /* What a CPU can write, a CPU writes. */
    if (job->options.ring_in == WHARF_SPACE_HOST) {
        by = &filter_cpu;
        stream = WHARF_RING_CPU;
    }

    for (int k = 0; k < total && status == 0; k++) {
        void *slot;

        wharf_failure(wharf_ring_produce_begin(ring, stream, &slot, NULL), why);
        if (why->text[0] != '\0')
            break;
        job->handed[k] = now();
        status = by->load(job->filter, slot, film_frame(job, k), bytes, why);
        wharf_failure(wharf_ring_produce_end(ring, bytes, stream), why);
        if (why->text[0] != '\0')
            break;
    }
    wharf_ignore(wharf_ring_close(ring));
    if (why->text[0] == '\0')
        wharf_failure(wharf_ring_drain(ring, 0), why);
}

/* One slot, from begin to result; false at the end. */
static bool ring_frame(struct job *job, wharf_ring *ring, int table,
                       struct samples *samples, struct failure *why)
{
    wharf_stream stream = job->kind->stream(job->filter);
    const void *data;
    wharf_ring_slot slot;
    wharf_status status = wharf_ring_consume_begin(ring, stream, &data, &slot);
    int number = (int)slot.index;
    double end;

    if (status == WHARF_ECLOSED)
        return false;
    wharf_failure(status, why);
    if (status != WHARF_OK)
        return false;
    job->kind->run(job->filter, WAY_RING, table, data, job->result[0], why);
    wharf_failure(wharf_ring_consume_end(ring, stream), why);
    if (why->text[0] == '\0')
        job->kind->wait(job->filter, END_STREAM, why);
    end = now();
    if (why->text[0] != '\0')
        return false;
    if (number < job->source.frames)
        return check(job, table, number, job->result[0], samples, why) == 0;
    if (samples->count == 0)
        samples->start = job->handed[number];
    samples->finish = end;
    samples->latency[samples->count++] = (end - job->handed[number]) * 1e6;
    return true;
}

static void ring_run(struct job *job, int table, struct samples *samples,
                     struct failure *why)
{
    wharf_ring *ring = NULL;

    if (!ring_open(job, &ring)) {
        snprintf(why->text, sizeof why->text, "no ring");
        return;
    }
    if (job->rank == 0) {
        ring_produce(job, ring, why);
    } else {
        while (ring_frame(job, ring, table, samples, why))
            continue;
        /* So that the producer does not wait for who has given up. */
        if (why->text[0] != '\0')
            wharf_ignore(
                wharf_ring_leave(ring, job->kind->stream(job->filter)));
    }
    wharf_failure(wharf_ring_destroy(&ring), why);
}

/* ---- All ranks --------------------------------------------------------- */

/* A checksum over the checksums of all frames, each known to one rank. */
static uint32_t all_crc(const struct job *job, const uint32_t *mine)
{
    int held = job->source.frames;
    uint32_t *all = calloc((size_t)held, sizeof *all);
    uint32_t crc = 0;

    if (all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allreduce(mine, all, held, MPI_UINT32_T, MPI_BOR, MPI_COMM_WORLD);
    for (int k = 0; k < held; k++)
        crc = (crc << 5 | crc >> 27) ^ all[k];
    free(all);
    return crc;
}

static void all_latencies(const struct job *job, const struct samples *mine,
                          struct way_result *result)
{
    int *counts = calloc(2 * (size_t)job->size, sizeof *counts);
    int *places = counts + job->size;
    double *all = calloc((size_t)job->options.frames + 1, sizeof *all);
    int total = 0;

    if (counts == NULL || all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(&mine->count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int rank = 0; job->rank == 0 && rank < job->size; rank++) {
        places[rank] = total;
        total += counts[rank];
    }
    MPI_Gatherv(mine->latency, mine->count, MPI_DOUBLE, all, counts, places,
                MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (total > 0) {
        qsort(all, (size_t)total, sizeof *all, by_value);
        result->least = all[0];
        result->median = middle(all, total);
        result->p99 = high(all, total);
    }
    free(all);
    free(counts);
}

static void all_samples(const struct job *job, const struct samples *mine,
                        struct way_result *result)
{
    int counts[3] = {mine->checked, mine->wrong, mine->count}, sums[3];
    double times[2] = {mine->count > 0 ? -mine->start : -1e300,
                       mine->count > 0 ? mine->finish : -1e300};
    double most[2];

    result->crc = all_crc(job, mine->crc);
    MPI_Allreduce(counts, sums, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(times, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    result->checked = sums[0];
    result->wrong = sums[1];
    result->rate = sums[2] > 0 ? sums[2] / (most[1] + most[0]) : 0;
    all_latencies(job, mine, result);
}

bool way_run(struct job *job, struct way_result *result)
{
    struct samples samples = {
        .latency = calloc((size_t)job->options.frames + 1, sizeof(double)),
        .crc = calloc((size_t)job->source.frames, sizeof(uint32_t))};
    struct failure why = {""};
    char what[40];
    bool good;

    if (samples.latency == NULL || samples.crc == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    job->kind->traffic(job->filter, result->way, result->table,
                       &result->traffic);
    MPI_Barrier(MPI_COMM_WORLD);
    if (result->way == WAY_RING)
        ring_run(job, result->table, &samples, &why);
    else
        direct_run(job, result->way, result->table, &samples, &why);
    snprintf(what, sizeof what, "way '%s'", way_name[result->way]);
    good = agree(job, what, &why);
    if (good) {
        all_samples(job, &samples, result);
        job->saved = true;
    }
    free(samples.latency);
    free(samples.crc);
    return good;
}

/* ---- Ways of knowing the end ------------------------------------------- */

static double thread_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On rank 0 alone, the bus to itself. */
static int end_run(struct job *job, enum frame_end end, double *latency,
                   struct end_result *result, struct failure *why)
{
    int frames = job->options.frames;
    double busy = 0;

    for (int k = -1; k < frames; k++) {
        double start = now(), cpu = thread_time();

        if (job->kind->run(job->filter, WAY_MAPPED, 0, film_frame(job, k + 1),
                           job->result[0], why) != 0 ||
            job->kind->wait(job->filter, end, why) != 0)
            return -1;
        if (k < 0)
            continue;
        latency[k] = (now() - start) * 1e6;
        busy += (thread_time() - cpu) * 1e6;
    }
    qsort(latency, (size_t)frames, sizeof *latency, by_value);
    result->median = middle(latency, frames);
    result->p99 = high(latency, frames);
    result->busy = busy / frames;
    return 0;
}

bool ends_run(struct job *job, struct end_result ends[ENDS])
{
    double *latency = calloc((size_t)job->options.frames, sizeof *latency);
    struct failure why = {""};

    if (latency == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int end = 0; end < ENDS && job->rank == 0; end++)
        if (end_run(job, (enum frame_end)end, latency, &ends[end], &why) != 0)
            break;
    free(latency);
    return agree(job, "ways of knowing the end", &why);
}
