/* SPDX-License-Identifier: MIT */
/*
 * More data than the GPU has memory: frames of 8k pass through a ring of two
 * slots in host memory. Rank 0 writes them with its CPU, the others share them
 * out and work on them, on their GPUs chunk by chunk.
 *
 * Run: mpirun -n 2 08_large_ring
 *      mpirun -n 3 08_large_ring --size 8k --frames 500 --cap 1g
 *
 * Every consumer limits the device memory that it takes to --cap, and says how
 * much it took. Every frame's checksum is compared with the one that it must
 * have, computed from the frame's number alone.
 */
#include "08_large_ring.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: mpirun -n RANKS 08_large_ring [options]\n"
    "\n"
    "  --size SIZE    of a frame: 8k, 1080p, or WIDTHxHEIGHT pixels of 3 "
    "bytes;\n"
    "                 default 8k (7680x4320), on CPUs 1080p\n"
    "  --frames N     default 500, on CPUs 20\n"
    "  --slots N      of the ring; default 2\n"
    "  --cap BYTES    device memory that a consumer may take, with k, m, g;\n"
    "                 default 1g\n"
    "  --chunk BYTES  worked on at a time; default 32m, or what the cap "
    "allows\n"
    "  --all          every consumer works on every frame\n"
    "  --cpu          work on CPUs even where there are GPUs\n"
    "  --help         this text\n";

struct job {
    int rank, size;
    int width, height; /* 0: not said */
    int frames, slots;
    uint64_t cap, chunk;
    bool all, cpu;
    size_t bytes; /* of a frame, a whole number of 16 bytes */
    wharf_node *node;
    wharf_ring *ring;
    const struct large_kind *kind;
    struct large_worker *worker; /* of a consumer */
};

/* ---- Failures ---------------------------------------------------------- */

/* Everybody fails when one rank fails, so that nobody waits in a collective
 * for a rank that has given up. Rank 0 prints the first failure. */
static bool agree(const struct job *job, const char *what,
                  const struct failure *mine)
{
    int candidate = mine->text[0] == '\0' ? job->size : job->rank;
    int first;
    struct failure why = *mine;

    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == job->size)
        return true;
    MPI_Bcast(why.text, sizeof why.text, MPI_CHAR, first, MPI_COMM_WORLD);
    if (job->rank == 0)
        fprintf(stderr, "08_large_ring: %s: %s (rank %d)\n", what, why.text,
                first);
    return false;
}

/* A failed Wharf call in words; its record names the rank and the remedy. */
static void wharf_failure(wharf_status status, struct failure *why)
{
    wharf_error error;
    char text[WHARF_MAX_ERROR_TEXT + 1];

    if (status == WHARF_OK || why->text[0] != '\0')
        return;
    wharf_last_error(&error);
    wharf_error_format(&error, text, sizeof text);
    snprintf(why->text, sizeof why->text, "%.*s", (int)sizeof why->text - 1,
             text);
}

/* ---- Options ----------------------------------------------------------- */

static bool number_option(const char *value, uint64_t least, uint64_t most,
                          uint64_t *to)
{
    uint64_t number, unit = 1;
    char *end;

    if (!isdigit((unsigned char)value[0]))
        return false;
    errno = 0;
    number = strtoull(value, &end, 10);
    if (*end == 'k')
        unit = UINT64_C(1) << 10;
    else if (*end == 'm')
        unit = UINT64_C(1) << 20;
    else if (*end == 'g')
        unit = UINT64_C(1) << 30;
    if (errno != 0 || end[unit != 1] != '\0' || number > most / unit ||
        number * unit < least)
        return false;
    *to = number * unit;
    return true;
}

static bool size_option(const char *value, struct job *job)
{
    char rest;

    if (strcmp(value, "8k") == 0)
        value = "7680x4320";
    else if (strcmp(value, "1080p") == 0)
        value = "1920x1080";
    return sscanf(value, "%dx%d%c", &job->width, &job->height, &rest) == 2 &&
           job->width > 0 && job->height > 0 && job->width <= 65536 &&
           job->height <= 65536;
}

static bool option(struct job *job, const char *name, const char *value)
{
    uint64_t number = 0;
    bool good = false;

    if (strcmp(name, "--size") == 0)
        return size_option(value, job);
    if (strcmp(name, "--cap") == 0)
        return number_option(value, 1, UINT64_C(1) << 50, &job->cap);
    if (strcmp(name, "--chunk") == 0)
        return number_option(value, 16, UINT64_C(1) << 40, &job->chunk);
    if (strcmp(name, "--frames") == 0) {
        good = number_option(value, 1, 10000000, &number);
        job->frames = (int)number;
    } else if (strcmp(name, "--slots") == 0) {
        good = number_option(value, 1, WHARF_MAX_RING_SLOTS, &number);
        job->slots = (int)number;
    }
    return good;
}

/* 0; -1 with `why` filled, or "" for help. */
static int parse(int argc, char **argv, struct job *job, struct failure *why)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return -1;
        if (strcmp(argv[i], "--all") == 0) {
            job->all = true;
        } else if (strcmp(argv[i], "--cpu") == 0) {
            job->cpu = true;
        } else if (i + 1 < argc && option(job, argv[i], argv[i + 1])) {
            i++;
        } else {
            snprintf(why->text, sizeof why->text,
                     "unknown or unusable option '%.60s%s%.60s'", argv[i],
                     i + 1 < argc ? " " : "", i + 1 < argc ? argv[i + 1] : "");
            return -1;
        }
    }
    return 0;
}

/* ---- Frames ------------------------------------------------------------ */

static uint64_t frame_start(uint64_t number)
{
    return (number + 1) * UINT64_C(0xd1342543de82ef95);
}

static void write_frame(const struct job *job, uint64_t number, uint64_t *words)
{
    uint64_t value = frame_start(number);

    for (size_t i = 0; i < job->bytes / 8; i++) {
        words[i] = value;
        value += LARGE_STEP;
    }
}

/*
 * What the checksum of a frame must be, without looking at one:
 *   sum of (start + i * step) * (2 * i + 1), for i = 0 .. n - 1
 *   = start * n^2 + step * (n * (n - 1) * (2 * n - 1) / 3 + n * (n - 1) / 2)
 */
static uint64_t frame_checksum(const struct job *job, uint64_t number)
{
    unsigned __int128 n = job->bytes / 8;
    unsigned __int128 squares = n * (n - 1) * (2 * n - 1) / 3 + n * (n - 1) / 2;

    return frame_start(number) * (uint64_t)(n * n) +
           LARGE_STEP * (uint64_t)squares;
}

/* ---- The two sides ----------------------------------------------------- */

static void produce(struct job *job, struct failure *why)
{
    struct progress progress;

    progress_start(&progress, job->frames, (double)job->bytes);
    for (int k = 0; k < job->frames && why->text[0] == '\0'; k++) {
        void *slot;

        wharf_failure(
            wharf_ring_produce_begin(job->ring, WHARF_RING_CPU, &slot, NULL),
            why);
        if (why->text[0] != '\0')
            break;
        write_frame(job, (uint64_t)k, slot);
        wharf_failure(
            wharf_ring_produce_end(job->ring, job->bytes, WHARF_RING_CPU), why);
        progress_show(&progress, k + 1);
    }
    progress_end(&progress);
    wharf_ignore(wharf_ring_close(job->ring));
    if (why->text[0] == '\0')
        wharf_failure(wharf_ring_drain(job->ring, 0), why);
}

struct tally {
    int64_t frames, wrong;
};

static void finish(struct job *job, int turn, uint64_t number,
                   struct tally *tally, struct failure *why)
{
    uint64_t checksum = 0;

    if (job->kind->result(job->worker, turn, &checksum, why) != 0)
        return;
    tally->frames++;
    tally->wrong += checksum != frame_checksum(job, number);
}

/* A frame's result is asked for when the next frame is under way. */
static void consume(struct job *job, struct tally *tally, struct failure *why)
{
    wharf_stream stream = job->kind->stream(job->worker);
    uint64_t number[LARGE_TURNS];
    int64_t started = 0;
    wharf_ring_slot slot;
    const void *frame;
    wharf_status status;

    while ((status = wharf_ring_consume_begin(job->ring, stream, &frame,
                                              &slot)) == WHARF_OK) {
        int turn = (int)(started % LARGE_TURNS);

        number[turn] = slot.index;
        job->kind->frame(job->worker, turn, frame, slot.bytes, why);
        wharf_failure(wharf_ring_consume_end(job->ring, stream), why);
        started++;
        if (why->text[0] == '\0' && started > 1)
            finish(job, (int)(started % LARGE_TURNS),
                   number[started % LARGE_TURNS], tally, why);
        if (why->text[0] != '\0')
            break;
    }
    if (status == WHARF_ECLOSED && started > 0)
        finish(job, (int)((started - 1) % LARGE_TURNS),
               number[(started - 1) % LARGE_TURNS], tally, why);
    else if (status != WHARF_ECLOSED)
        wharf_failure(status, why);
    /* So that the producer does not wait for who has given up. */
    if (why->text[0] != '\0')
        wharf_ignore(wharf_ring_leave(job->ring, stream));
}

/* ---- Setting up -------------------------------------------------------- */

static void choose(struct job *job, struct failure *why)
{
    job->kind = &large_cpu;
    if (wharf_node_backend(job->node) == WHARF_BACKEND_CUDA && !job->cpu &&
        &large_gpu != NULL)
        job->kind = &large_gpu;
    if (job->width == 0)
        size_option(job->kind == &large_cpu ? "1080p" : "8k", job);
    if (job->frames == 0)
        job->frames = job->kind == &large_cpu ? 20 : 500;
    job->bytes = (size_t)job->width * (size_t)job->height * 3;
    job->bytes = (job->bytes + 15) / 16 * 16;
    if (job->chunk == 0) {
        uint64_t half = job->cap > 4096 ? (job->cap - 4096) / 2 : 16;

        job->chunk = UINT64_C(32) << 20;
        if (job->chunk > half)
            job->chunk = half;
    }
    job->chunk = job->chunk / 16 * 16;
    if (wharf_node_size(job->node) != job->size)
        snprintf(why->text, sizeof why->text,
                 "%d ranks on several hosts; this example is for the ranks of "
                 "one",
                 job->size);
}

static void create(struct job *job, struct failure *why)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;

    options.slots = job->slots;
    options.slot_bytes = job->bytes;
    options.producer = 0;
    options.mode = job->all ? WHARF_RING_ALL : WHARF_RING_SHARED;
    options.space = WHARF_SPACE_HOST;
    wharf_failure(wharf_ring_create(job->node, &options, &job->ring), why);
}

static bool set_up(struct job *job)
{
    struct failure why = {""};

    choose(job, &why);
    if (!agree(job, "starting", &why))
        return false;
    if (job->rank > 0)
        job->kind->open((size_t)job->chunk, job->cap, &job->worker, &why);
    if (!agree(job, "taking device memory", &why))
        return false;
    create(job, &why);
    return agree(job, "creating the ring", &why);
}

/* ---- Running ----------------------------------------------------------- */

static void report_head(const struct job *job)
{
    double data = (double)job->frames * (double)job->bytes;

    printf("%d frames of %d x %d pixels: %.2f GB through %d slots of %.1f MB "
           "in host memory\n",
           job->frames, job->width, job->height, data / 1e9, job->slots,
           (double)job->bytes / 1e6);
    printf("%d consumer%s on %ss, %s frame%s", job->size - 1,
           job->size == 2 ? "" : "s", job->kind->name, job->all ? "each" : "a",
           job->all ? " for all" : " for one");
    if (job->kind != &large_cpu)
        printf("; cap %.3f GB of device memory each: %.1f times less than the "
               "data, chunks of %.1f MB",
               (double)job->cap / 1e9, data / (double)job->cap,
               (double)job->chunk / 1e6);
    printf("\n");
    fflush(stdout);
}

static void report(const struct job *job, const int64_t *sums,
                   uint64_t device_bytes, double seconds)
{
    double data = (double)sums[0] * (double)job->bytes;

    printf("%" PRId64 " frames consumed, %" PRId64 " wrong checksums, %.2f s, "
           "%.2f GB/s\n",
           sums[0], sums[1], seconds, data / 1e9 / seconds);
    if (job->kind != &large_cpu)
        printf("device memory of a consumer: %.3f GB of %.3f GB allowed\n",
               (double)device_bytes / 1e9, (double)job->cap / 1e9);
}

static int run(struct job *job)
{
    struct tally tally = {0, 0};
    struct failure why = {""};
    int64_t mine[2], sums[2], expected;
    uint64_t taken = 0, most;
    double start, seconds;

    if (job->rank == 0)
        report_head(job);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (job->rank == 0)
        produce(job, &why);
    else
        consume(job, &tally, &why);
    if (!agree(job, "passing frames", &why))
        return 1;
    seconds = MPI_Wtime() - start;

    mine[0] = tally.frames;
    mine[1] = tally.wrong;
    if (job->worker != NULL)
        taken = job->kind->device_bytes(job->worker);
    MPI_Allreduce(mine, sums, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&taken, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (job->rank == 0)
        report(job, sums, most, seconds);
    expected = (int64_t)job->frames * (job->all ? job->size - 1 : 1);
    return sums[0] == expected && sums[1] == 0 ? 0 : 1;
}

static int open_and_run(struct job *job)
{
    struct failure why = {""};
    int code = 1;

    wharf_failure(wharf_node_open(MPI_COMM_WORLD, NULL, &job->node), &why);
    if (agree(job, "opening the node", &why) && set_up(job))
        code = run(job);
    memset(&why, 0, sizeof why);
    if (job->worker != NULL)
        job->kind->close(job->worker);
    if (job->ring != NULL)
        wharf_failure(wharf_ring_destroy(&job->ring), &why);
    if (job->node != NULL)
        wharf_failure(wharf_node_close(&job->node), &why);
    return agree(job, "closing the node", &why) ? code : 1;
}

int main(int argc, char **argv)
{
    struct job job = {.slots = 2, .cap = UINT64_C(1) << 30};
    struct failure why = {""};
    int code = parse(argc, argv, &job, &why);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    if (code == 0 && job.size < 2) {
        snprintf(why.text, sizeof why.text,
                 "one rank produces, the others consume: start two or more");
        code = -1;
    }
    if (code == 0) {
        code = open_and_run(&job);
    } else if (why.text[0] == '\0') {
        code = 0;
        if (job.rank == 0)
            fputs(usage, stdout);
    } else {
        code = 2;
        if (job.rank == 0)
            fprintf(stderr, "08_large_ring: %s\n%s", why.text, usage);
    }
    MPI_Finalize();
    return code;
}
