/* SPDX-License-Identifier: MIT */
/*
 * Loads files once per GPU (once per node without GPUs), has every rank work
 * on its share in place, and prints size and CRC-32 of each file.
 *
 * Run: mpirun -n 4 02_shared_file FILE...
 *
 * The rank that owns a GPU passes the size of the file to the attach, all
 * others pass 0: so there is one copy a GPU, and every rank of that GPU has a
 * plain pointer to it. These ranks load it together, each its part. Then every
 * rank of the job digests its own share (histogram of bytes, CRC-32), and the
 * shares are combined on rank 0, which reads the file once more by itself to
 * check the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wharf/wharf.h>
#include <zlib.h>

#include "02_shared_file.h"
#include "02_shared_file_show.h"

struct job {
    int rank, size; /* in MPI_COMM_WORLD */
    wharf_node *node;
    const struct shared_file_work *work;
    int holder;       /* node rank whose segment is the copy I work on */
    MPI_Comm sharers; /* ranks that work on the same copy */
    int copies;       /* in the whole job */
    uint64_t shared;  /* bytes of all files loaded */
    struct bar bar;   /* on rank 0 of a terminal */
    char line[LINE];  /* how this rank reaches its copy */
};

/* Everybody fails when one rank fails, so that nobody waits in a collective
 * for a rank that has given up. Rank 0 prints the first failure. */
static bool agree(const struct job *job, const char *path,
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
        fprintf(stderr, "02_shared_file: %s: %s (rank %d)\n", path, why.text,
                first);
    return false;
}

/* A failed Wharf call in words; its record names the rank and the remedy. */
static void wharf_failure(wharf_status status, struct failure *why)
{
    wharf_error error;
    char text[WHARF_MAX_ERROR_TEXT + 1];

    if (status == WHARF_OK)
        return;
    wharf_last_error(&error);
    wharf_error_format(&error, text, sizeof text);
    snprintf(why->text, sizeof why->text, "%.*s", (int)sizeof why->text - 1,
             text);
}

static int file_open(const char *path, uint64_t *size, struct failure *why)
{
    struct stat info;
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &info) != 0)
        snprintf(why->text, sizeof why->text, "%s", strerror(errno));
    else if (S_ISDIR(info.st_mode))
        snprintf(why->text, sizeof why->text, "is a directory; name files");
    else if (!S_ISREG(info.st_mode))
        snprintf(why->text, sizeof why->text, "is not a regular file");
    else
        *size = (uint64_t)info.st_size;
    if (why->text[0] != '\0' && fd >= 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Opens the file on every rank. On several hosts the path may name different
 * files: then the sizes tell. */
static int job_open(const struct job *job, const char *path, uint64_t *size)
{
    struct failure why = {""};
    uint64_t first;
    int fd;

    *size = 0;
    fd = file_open(path, size, &why);
    first = *size;
    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (fd >= 0 && first != *size)
        snprintf(why.text, sizeof why.text,
                 "has %" PRIu64 " bytes here and %" PRIu64 " on rank 0", *size,
                 first);
    if (agree(job, path, &why))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* How this rank reaches its copy, for the map at the end. */
static void job_describe(struct job *job, const wharf_buffer *buffer)
{
    wharf_device device = WHARF_DEVICE_INIT;
    wharf_buffer_info info = WHARF_BUFFER_INFO_INIT;
    char host[65] = "";

    gethostname(host, sizeof host - 1);
    if (wharf_node_device(job->node, wharf_node_rank(job->node), &device) !=
            WHARF_OK ||
        wharf_buffer_info_get(buffer, job->holder, &info) != WHARF_OK)
        return;
    snprintf(job->line, sizeof job->line,
             "%4d  %-12.20s %-28.46s %5d  %-12s %s%s%.90s", job->rank, host,
             device.gpu < 0 ? "CPU" : device.name, job->holder,
             wharf_path_name(info.path), wharf_handle_kind_name(info.handle),
             info.reason[0] == '\0' ? "" : ": ", info.reason);
}

static bool job_attach(struct job *job, struct result *result,
                       wharf_buffer **buffer)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    bool mine = wharf_node_rank(job->node) == job->holder;
    struct failure why = {""};
    double start;

    options.space = job->work->space;
    options.name = "file";
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    wharf_failure(wharf_buffer_attach(job->node,
                                      mine ? (size_t)result->size : 0, &options,
                                      buffer),
                  &why);
    result->attach = MPI_Wtime() - start;
    return agree(job, result->path, &why);
}

/* One step of the work on every rank, timed to the slowest. */
static bool job_load(struct job *job, int fd, void *copy, struct result *result)
{
    struct failure why = {""};
    struct piece piece;
    int index, count;
    double start = MPI_Wtime();

    MPI_Comm_rank(job->sharers, &index);
    MPI_Comm_size(job->sharers, &count);
    piece = shared_file_piece(result->size, index, count);
    bar_start(&job->bar, "reading", piece.bytes);
    if (piece.bytes > 0)
        job->work->load(fd, &piece, copy, bar_show, &job->bar, &why);
    bar_end(&job->bar);
    if (!agree(job, result->path, &why))
        return false;
    result->load = MPI_Wtime() - start;
    return true;
}

static bool job_digest(struct job *job, const void *copy, struct result *result)
{
    struct failure why = {""};
    struct digest mine;
    struct digest *all = NULL;
    struct piece piece = shared_file_piece(result->size, job->rank, job->size);
    double start = MPI_Wtime();

    memset(&mine, 0, sizeof mine);
    bar_start(&job->bar, "working", piece.bytes);
    if (piece.bytes > 0)
        job->work->digest(copy, &piece, &mine, bar_show, &job->bar, &why);
    bar_end(&job->bar);
    if (!agree(job, result->path, &why))
        return false;
    result->digest = MPI_Wtime() - start;

    MPI_Reduce(mine.histogram, result->histogram, 256, MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (job->rank == 0)
        all = calloc((size_t)job->size, sizeof *all);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    for (int rank = 0; all != NULL && rank < job->size; rank++)
        result->crc = (uint32_t)crc32_combine(result->crc, all[rank].crc,
                                              (z_off_t)all[rank].bytes);
    free(all);
    return true;
}

/* Rank 0 reads the file without Wharf: the result must be the same. */
static bool job_check(struct job *job, int fd, struct result *result)
{
    struct failure why = {""};

    if (job->rank == 0) {
        struct piece whole = {0, result->size};
        uint64_t counted = 0;
        uint32_t crc = 0;

        bar_start(&job->bar, "checking", whole.bytes);
        if (shared_file_crc(fd, &whole, &crc, bar_show, &job->bar, &why) == 0) {
            for (int value = 0; value < 256; value++)
                counted += result->histogram[value];
            if (counted != result->size || crc != result->crc)
                snprintf(why.text, sizeof why.text,
                         "WRONG: crc %08" PRIx32 ", %" PRIu64
                         " bytes counted; read directly: %08" PRIx32
                         ", %" PRIu64,
                         result->crc, counted, crc, result->size);
        }
        bar_end(&job->bar);
    }
    return agree(job, result->path, &why);
}

/* From attach to detach. Detaches on every path. */
static bool job_share(struct job *job, int fd, struct result *result)
{
    wharf_buffer *buffer = NULL;
    struct failure why = {""};
    void *copy = NULL;
    bool good;

    if (!job_attach(job, result, &buffer)) {
        /* On another host it may have worked. */
        if (buffer != NULL)
            wharf_ignore(wharf_buffer_detach(&buffer));
        return false;
    }
    job_describe(job, buffer);
    wharf_failure(wharf_buffer_segment(buffer, job->holder, &copy, NULL), &why);
    good = agree(job, result->path, &why) && job_load(job, fd, copy, result) &&
           job_digest(job, copy, result) && job_check(job, fd, result);
    if (good)
        job->shared += result->size;

    wharf_failure(wharf_buffer_detach(&buffer), &why);
    return agree(job, result->path, &why) && good;
}

static bool job_file(struct job *job, const char *path)
{
    struct result result;
    double mine[3], slowest[3];
    bool good;
    int fd;

    memset(&result, 0, sizeof result);
    result.path = path;
    fd = job_open(job, path, &result.size);
    if (fd < 0)
        return false;
    good = job_share(job, fd, &result);
    close(fd);
    if (!good)
        return false;

    mine[0] = result.attach;
    mine[1] = result.load;
    mine[2] = result.digest;
    MPI_Reduce(mine, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    result.attach = slowest[0];
    result.load = slowest[1];
    result.digest = slowest[2];
    if (job->rank == 0)
        show_result(&result);
    return true;
}

/* Which copy is mine, and who shares it with me. */
static wharf_status job_place(struct job *job)
{
    wharf_device device = WHARF_DEVICE_INIT;
    MPI_Comm comm;
    int first, rank = wharf_node_rank(job->node);
    wharf_status status = wharf_node_communicator(job->node, &comm);

    if (status == WHARF_OK)
        status = wharf_node_device(job->node, rank, &device);
    if (status != WHARF_OK)
        return status;
    job->work = &shared_file_cpu;
    if (wharf_node_gpus(job->node) > 0 && &shared_file_gpu != NULL) {
        job->work = &shared_file_gpu;
        job->holder = device.owner;
    }
    MPI_Comm_split(comm, job->holder, rank, &job->sharers);
    MPI_Comm_rank(job->sharers, &first);
    first = first == 0;
    MPI_Allreduce(&first, &job->copies, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return WHARF_OK;
}

static void job_summary(const struct job *job)
{
    char *lines = NULL;

    if (job->rank == 0)
        lines = calloc((size_t)job->size, LINE);
    MPI_Gather(job->line, LINE, MPI_CHAR, lines, LINE, MPI_CHAR, 0,
               MPI_COMM_WORLD);
    if (lines != NULL)
        show_summary(lines, job->size, job->copies, job->shared,
                     job->work->name);
    free(lines);
}

static int job_run(struct job *job, int files, char **paths)
{
    struct failure why = {""};
    int failed = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    bar_init(&job->bar, job->rank == 0);
    wharf_failure(wharf_node_open(MPI_COMM_WORLD, NULL, &job->node), &why);
    if (!agree(job, "opening the node", &why))
        return 1;
    wharf_failure(job_place(job), &why);
    if (why.text[0] == '\0')
        job->work->prepare(&why);
    if (!agree(job, "finding the GPUs", &why))
        return 1;

    if (job->rank == 0)
        show_head();
    for (int i = 0; i < files; i++)
        failed += !job_file(job, paths[i]);
    if (failed < files)
        job_summary(job);
    if (failed > 0 && job->rank == 0)
        fprintf(stderr, "02_shared_file: %d of %d files failed\n", failed,
                files);
    MPI_Comm_free(&job->sharers);
    return failed > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    struct failure why = {""};
    bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    int first = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;
    int code = help ? 0 : 2;

    MPI_Init(&argc, &argv);
    if (help || argc <= first) {
        MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
        if (job.rank == 0)
            fprintf(help ? stdout : stderr,
                    "usage: mpirun -n RANKS 02_shared_file FILE...\n");
        MPI_Finalize();
        return code;
    }
    code = job_run(&job, argc - first, argv + first);
    if (job.node != NULL)
        wharf_failure(wharf_node_close(&job.node), &why);
    if (!agree(&job, "closing the node", &why))
        code = 1;
    MPI_Finalize();
    return code;
}
