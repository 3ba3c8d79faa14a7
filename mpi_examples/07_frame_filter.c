/* SPDX-License-Identifier: MIT */
/*
 * A filter for frames that come in real time: four ways to bring them to the
 * GPU and back, compared.
 *
 * Run: mpirun -n 2 07_frame_filter --generate 1080p --out DIR
 *      mpirun -n 2 07_frame_filter --out DIR photo.png other.png
 *      mpirun -n 2 07_frame_filter --raw 1920x1080 --out DIR video.rgb
 *
 * Frames lie in host memory that all ranks and all their GPUs map, as a camera
 * or a decoder would leave them, and results are wanted there. Without a GPU
 * the same is done by the CPUs. 07_filter.h says what the filter computes and
 * what the four ways are, 07_ways.c how they are timed. Results of all ways,
 * on all ranks, are compared with those of a plain loop on the CPU.
 */
#include "07_frame_filter.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: mpirun -n RANKS 07_frame_filter [options] [IMAGE...]\n"
    "\n"
    "  IMAGE...           PNG or PPM images, all of one size\n"
    "  --raw WxH          the files are raw video: frames of W x H pixels, 3\n"
    "                     bytes each, one after the other\n"
    "  --generate SIZE    without files: 720p, 1080p (default), 4k, 8k or WxH\n"
    "  --frames N         frames measured in each way; default 200, on CPUs "
    "20\n"
    "  --keep N           most frames held in memory; default: all images, 8 "
    "of\n"
    "                     a sequence\n"
    "  --radius R         2 (5x5, default) or 3 (7x7)\n"
    "  --ways LIST        of copy,mapped,ring,mixed; default all\n"
    "  --table WHICH      without, with, or both (default)\n"
    "  --slots N          of the ring; default 2\n"
    "  --ring-in SPACE    device or host; default: device where there is one\n"
    "  --blocks N         of the streamed kernel, --tile BYTES of a row that "
    "a\n"
    "                     block takes, or --direct, the kernel for frames on "
    "the\n"
    "                     device: for mapped frames; default: the fastest\n"
    "  --cpu              filter on CPUs even where there are GPUs\n"
    "  --out DIR          write result images and a plot there\n"
    "  --help             this text\n";

/* ---- Failures ---------------------------------------------------------- */

bool agree(const struct job *job, const char *what, const struct failure *mine)
{
    int candidate = mine->text[0] == '\0' ? job->size : job->rank;
    int first;
    struct failure why = *mine;

    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == job->size)
        return true;
    MPI_Bcast(why.text, sizeof why.text, MPI_CHAR, first, MPI_COMM_WORLD);
    if (job->rank == 0)
        fprintf(stderr, "07_frame_filter: %s: %s (rank %d)\n", what, why.text,
                first);
    return false;
}

void wharf_failure(wharf_status status, struct failure *why)
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

struct choice {
    const char *generate;
    int keep; /* 0: not said */
    bool cpu, ring_said;
};

static bool number_option(const char *value, int least, int most, int *to)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < least ||
        number > most)
        return false;
    *to = (int)number;
    return true;
}

static bool ways_option(const char *list, bool way[WAYS])
{
    memset(way, 0, WAYS * sizeof *way);
    for (;;) {
        size_t length = strcspn(list, ",");
        int found = WAYS;

        for (int i = 0; i < WAYS; i++)
            if (strlen(way_name[i]) == length &&
                strncmp(list, way_name[i], length) == 0)
                found = i;
        if (found == WAYS)
            return false;
        way[found] = true;
        if (list[length] == '\0')
            return true;
        list += length + 1;
    }
}

static bool table_option(const char *value, bool table[2])
{
    table[0] = strcmp(value, "with") != 0;
    table[1] = strcmp(value, "without") != 0;
    return !table[0] || !table[1] || strcmp(value, "both") == 0;
}

static bool space_option(const char *value, struct job *job,
                         struct choice *choice)
{
    choice->ring_said = true;
    job->options.ring_in =
        strcmp(value, "host") == 0 ? WHARF_SPACE_HOST : WHARF_SPACE_DEVICE;
    return strcmp(value, "host") == 0 || strcmp(value, "device") == 0;
}

/* An option with a value; false: unknown, or not with this value. */
static bool option(struct job *job, struct choice *choice, const char *name,
                   const char *value, struct failure *why)
{
    struct job_options *o = &job->options;

    if (strcmp(name, "--generate") == 0)
        return choice->generate = value, true;
    if (strcmp(name, "--out") == 0)
        return o->out = value, true;
    if (strcmp(name, "--raw") == 0) {
        job->source.raw = 1;
        return frame_format_parse(&job->source.format, value, why) == 0;
    }
    if (strcmp(name, "--frames") == 0)
        return number_option(value, 1, 1000000, &o->frames);
    if (strcmp(name, "--keep") == 0)
        return number_option(value, 1, 1000000, &choice->keep);
    if (strcmp(name, "--radius") == 0)
        return number_option(value, 2, 3, &job->filter_options.radius);
    if (strcmp(name, "--slots") == 0)
        return number_option(value, 1, WHARF_MAX_RING_SLOTS, &o->slots);
    if (strcmp(name, "--blocks") == 0)
        return number_option(value, 1, 65536, &job->filter_options.blocks);
    if (strcmp(name, "--tile") == 0)
        return number_option(value, FRAME_ALIGN, FILTER_TILE_MOST,
                             &job->filter_options.tile);
    if (strcmp(name, "--ways") == 0)
        return ways_option(value, o->way);
    if (strcmp(name, "--table") == 0)
        return table_option(value, o->table);
    return strcmp(name, "--ring-in") == 0 && space_option(value, job, choice);
}

/* 0; -1 with `why` filled, or "" for help. */
static int parse(int argc, char **argv, struct job *job, struct choice *choice,
                 struct failure *why)
{
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return -1;
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--cpu") == 0) {
            choice->cpu = true;
            continue;
        }
        if (strcmp(argv[i], "--direct") == 0) {
            job->filter_options.direct = 1;
            continue;
        }
        if (i + 1 == argc || !option(job, choice, argv[i], argv[i + 1], why)) {
            if (why->text[0] == '\0')
                snprintf(why->text, sizeof why->text,
                         "unknown or unusable option '%.60s%s%.60s'", argv[i],
                         i + 1 < argc ? " " : "",
                         i + 1 < argc ? argv[i + 1] : "");
            return -1;
        }
        i++;
    }
    job->source.paths = argv + i;
    job->source.path_count = argc - i;
    if (job->source.raw && i == argc)
        snprintf(why->text, sizeof why->text, "--raw needs files");
    if (choice->generate != NULL && i < argc)
        snprintf(why->text, sizeof why->text,
                 "--generate and files do not go together");
    return why->text[0] == '\0' ? 0 : -1;
}

/* ---- Setting up -------------------------------------------------------- */

static void choose_kind(struct job *job, const struct choice *choice,
                        struct failure *why)
{
    bool gpu = wharf_node_backend(job->node) == WHARF_BACKEND_CUDA;

    if (wharf_node_size(job->node) != job->size)
        snprintf(why->text, sizeof why->text,
                 "%d ranks on several hosts; this example is for the ranks of "
                 "one",
                 job->size);
    job->kind = &filter_cpu;
    if (gpu && !choice->cpu && &filter_gpu != NULL)
        job->kind = &filter_gpu;
    if (!choice->ring_said)
        job->options.ring_in = job->kind->own_space;
    if (job->options.frames == 0)
        job->options.frames = job->kind->waits ? 200 : 20;
}

/* How many frames of what format; the same on all ranks, which may see
 * different files. */
static void choose_frames(struct job *job, const struct choice *choice,
                          struct failure *why)
{
    struct frame_source *source = &job->source;
    bool images = source->path_count > 0 && !source->raw;
    int keep = choice->keep > 0 ? choice->keep
               : images         ? source->path_count
                                : 8;
    uint64_t mine[2], first[2];

    if (source->path_count == 0) {
        source->frames = job->options.frames;
        frame_format_parse(
            &source->format,
            choice->generate == NULL ? "1080p" : choice->generate, why);
    } else {
        frame_source_open(source, why);
    }
    if (source->frames > keep)
        source->frames = keep;
    first[0] = mine[0] = (uint64_t)source->frames;
    first[1] = mine[1] = source->format.bytes;
    MPI_Bcast(first, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (why->text[0] == '\0' && memcmp(first, mine, sizeof mine) != 0)
        snprintf(why->text, sizeof why->text,
                 "the files are not those that rank 0 sees");
    job->filter_options.format = source->format;
}

/* Rank 0 has table, film and the times of hand-over; everybody two results. */
static void share_memory(struct job *job, struct failure *why)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    size_t frame = job->source.format.bytes;
    size_t held = (size_t)job->source.frames;
    size_t times = (held + (size_t)job->options.frames) * sizeof(double);
    size_t mine = 2 * frame;
    void *first = NULL, *own = NULL;

    if (job->rank == 0)
        mine += (held + 1) * frame + times;
    options.space = WHARF_SPACE_HOST;
    options.name = "frames";
    wharf_failure(wharf_buffer_attach(job->node, mine, &options, &job->buffer),
                  why);
    if (why->text[0] != '\0')
        return;
    wharf_failure(wharf_buffer_segment(job->buffer, 0, &first, NULL), why);
    wharf_failure(wharf_buffer_segment(job->buffer, job->rank, &own, NULL),
                  why);
    if (why->text[0] != '\0')
        return;
    job->result[0] = own;
    job->result[1] = job->result[0] + frame;
    job->table = (uint8_t *)first + 2 * frame;
    job->film = job->table + frame;
    job->handed = (double *)(void *)(job->film + held * frame);
    job->filter_options.table = job->table;
}

/* Everybody makes a part of the film, then of the expected results. */
static void fill_film(struct job *job, struct failure *why)
{
    if (job->rank == 0)
        filter_make_table(&job->source.format, job->table);
    for (int k = job->rank; k < job->source.frames; k += job->size)
        if (frame_source_read(&job->source, k,
                              job->film + (size_t)k * job->source.format.bytes,
                              why) != 0)
            return;
}

static void expect_results(struct job *job)
{
    const struct frame_format *format = &job->source.format;
    size_t held = (size_t)job->source.frames;
    uint16_t *sums = calloc(filter_sums(format), sizeof *sums);
    uint32_t *mine = calloc(held, sizeof *mine);

    for (int table = 0; table < 2; table++) {
        job->expected[table] = calloc(held, sizeof *mine);
        if (sums == NULL || mine == NULL || job->expected[table] == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        memset(mine, 0, held * sizeof *mine);
        for (size_t k = (size_t)job->rank; k < held; k += (size_t)job->size) {
            filter_frame(format, job->filter_options.radius,
                         job->film + k * format->bytes,
                         table ? job->table : NULL, job->result[0], sums);
            mine[k] = frame_crc(format, job->result[0]);
        }
        MPI_Allreduce(mine, job->expected[table], job->source.frames,
                      MPI_UINT32_T, MPI_BOR, MPI_COMM_WORLD);
    }
    free(mine);
    free(sums);
}

/* One rank after the other, so that each has the bus to itself. */
static bool open_filter(struct job *job)
{
    struct failure why = {""};

    job->kind->open(&job->filter_options, &job->filter, &why);
    if (!agree(job, "preparing the filter", &why))
        return false;
    for (int rank = 0; rank < job->size; rank++) {
        if (rank == job->rank)
            job->kind->tune(job->filter, job->film, job->result[0], job->tuned,
                            sizeof job->tuned, &why);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return agree(job, "trying the filter", &why);
}

static void make_directory(const struct job *job, struct failure *why)
{
    if (job->options.out != NULL && job->rank == 0 &&
        mkdir(job->options.out, 0777) != 0 && errno != EEXIST)
        snprintf(why->text, sizeof why->text, "%.300s: %s", job->options.out,
                 strerror(errno));
}

static bool set_up(struct job *job, const struct choice *choice)
{
    struct failure why = {""};

    choose_kind(job, choice, &why);
    if (!agree(job, "starting", &why))
        return false;
    choose_frames(job, choice, &why);
    if (!agree(job, "looking at the frames", &why))
        return false;
    make_directory(job, &why);
    if (!agree(job, "making the directory", &why))
        return false;
    share_memory(job, &why);
    if (!agree(job, "sharing memory", &why))
        return false;
    fill_film(job, &why);
    if (!agree(job, "reading the frames", &why))
        return false;
    expect_results(job);
    return open_filter(job);
}

/* ---- Running ----------------------------------------------------------- */

static bool run_ways(struct job *job, struct way_result *results, int *count,
                     int *wrong)
{
    for (int table = 0; table < 2; table++)
        for (int way = 0; way < WAYS; way++) {
            struct way_result *r = &results[*count];

            if (!job->options.table[table] || !job->options.way[way])
                continue;
            memset(r, 0, sizeof *r);
            r->way = (enum way)way;
            r->table = table;
            if (way == WAY_RING && job->size == 1)
                snprintf(r->left_out, sizeof r->left_out,
                         "a ring needs two ranks");
            else if (way == WAY_MIXED && !table)
                snprintf(r->left_out, sizeof r->left_out,
                         "without a table the same as mapped");
            else if (!way_run(job, r))
                return false;
            if (job->rank == 0)
                report_way(r);
            *wrong += r->wrong;
            (*count)++;
        }
    return true;
}

static int run(struct job *job)
{
    struct way_result results[2 * WAYS];
    struct end_result ends[ENDS];
    struct failure why = {""};
    int count = 0, wrong = 0;
    bool good;

    if (job->rank == 0)
        report_head(job);
    good = run_ways(job, results, &count, &wrong);
    if (good && job->rank == 0)
        report_ratio(results, count);
    if (good && job->kind->waits && job->options.way[WAY_MAPPED]) {
        good = ends_run(job, ends);
        if (good && job->rank == 0)
            report_ends(ends);
    }
    if (good && job->rank == 0 && job->options.out != NULL)
        plot_write(job, results, count, &why);
    return agree(job, "writing the plot", &why) && good && wrong == 0 ? 0 : 1;
}

static int open_and_run(struct job *job, const struct choice *choice)
{
    struct failure why = {""};
    int code = 1;

    wharf_failure(wharf_node_open(MPI_COMM_WORLD, NULL, &job->node), &why);
    if (agree(job, "opening the node", &why)) {
        if (set_up(job, choice))
            code = run(job);
        if (job->filter != NULL)
            job->kind->close(job->filter);
        free(job->expected[0]);
        free(job->expected[1]);
    }
    memset(&why, 0, sizeof why);
    if (job->buffer != NULL)
        wharf_failure(wharf_buffer_detach(&job->buffer), &why);
    if (job->node != NULL)
        wharf_failure(wharf_node_close(&job->node), &why);
    return agree(job, "closing the node", &why) ? code : 1;
}

int main(int argc, char **argv)
{
    struct job job = {.options = {.slots = 2,
                                  .way = {true, true, true, true},
                                  .table = {true, true}},
                      .filter_options = {.radius = 2}};
    struct choice choice = {0};
    struct failure why = {""};
    int code = parse(argc, argv, &job, &choice, &why);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    if (code == 0) {
        code = open_and_run(&job, &choice);
    } else if (why.text[0] == '\0') {
        code = 0;
        if (job.rank == 0)
            fputs(usage, stdout);
    } else {
        code = 2;
        if (job.rank == 0)
            fprintf(stderr, "07_frame_filter: %s\n%s", why.text, usage);
    }
    MPI_Finalize();
    return code;
}
