/* SPDX-License-Identifier: MIT */
/*
 * A rank is lost, its data is not. Every rank computes its segment; then the
 * last one is killed. The others hear of it from their next collective call,
 * still read what the dead rank had computed through their own mappings, and
 * the first one saves everything to a file and checks it.
 *
 * MPI is of no more use to ranks that have lost one: they end without it. With
 * "stopped" the last rank only falls silent until all is saved; that works with
 * every launcher, and MPI stays whole.
 *
 * Run: mpirun --enable-recovery -n 4 10_checkpoint FILE [killed|stopped]
 * MPICH: mpiexec -n 4 -disable-auto-cleanup sh survive.sh 10_checkpoint FILE
 * with tests/support/survive.sh, which tells why.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wharf/wharf.h>

/* Wharf has written the failure to stderr by then: rank, call, cause, remedy.
 */
#define CHECK(call)                                                            \
    ((call) == WHARF_OK ? (void)0 : (void)MPI_Abort(MPI_COMM_WORLD, 1))

enum { BYTES = 1000000 }; /* of a segment */

static const char *last_error(void)
{
    static char text[WHARF_MAX_ERROR_TEXT + 1];
    wharf_error error;

    wharf_last_error(&error);
    return wharf_error_format(&error, text, sizeof text);
}

/* What a rank computes. */
static void compute(int rank, unsigned char *values)
{
    for (size_t i = 0; i < BYTES; i++)
        values[i] = (unsigned char)((i * 31 + i / 251 + (size_t)rank * 97));
}

/* All segments, in rank order; ordinary memory may be the other side of a
 * copy, wherever the segments lie. */
static void save(wharf_buffer *buffer, int ranks, const char *path,
                 unsigned char *values)
{
    FILE *file = fopen(path, "wb");

    for (int rank = 0; file != NULL && rank < ranks; rank++) {
        CHECK(wharf_get(buffer, rank, 0, values, BYTES, NULL));
        if (fwrite(values, 1, BYTES, file) != BYTES)
            break;
    }
    if (file == NULL || ferror(file) || fflush(file) != 0 ||
        fsync(fileno(file)) != 0 || fclose(file) != 0) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int is_right(const char *path, int ranks, unsigned char *values)
{
    FILE *file = fopen(path, "rb");
    unsigned char *saved = malloc(BYTES);
    int right = file != NULL && saved != NULL;

    for (int rank = 0; right && rank < ranks; rank++) {
        compute(rank, values);
        right = fread(saved, 1, BYTES, file) == BYTES &&
                memcmp(saved, values, BYTES) == 0;
    }
    right = right && fgetc(file) == EOF;
    if (file != NULL)
        fclose(file);
    free(saved);
    return right;
}

/* The others of a lost rank. The node is of no more use, but to be closed; its
 * buffers are still there. */
static int rescue(wharf_node *node, wharf_buffer *buffer, const char *path,
                  unsigned char *values)
{
    int rank = wharf_node_rank(node), ranks = wharf_node_size(node);

    printf("rank %d heard: %s\n", rank, last_error());
    if (rank != 0)
        return 0;
    save(buffer, ranks, path, values);
    int right = is_right(path, ranks, values);
    printf("%d segments of %d bytes saved to %s, %s\n", ranks, BYTES, path,
           right ? "all right" : "WRONG");
    return !right;
}

/* On one rank, for all; the exit code. */
static int explain(int help)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        fprintf(help ? stdout : stderr,
                "usage: mpirun -n RANKS 10_checkpoint FILE [killed|stopped]\n");
    MPI_Finalize();
    return help ? 0 : 2;
}

int main(int argc, char **argv)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;
    wharf_buffer *buffer = NULL;
    unsigned char *values = malloc(BYTES);
    int stopped = argc > 2 && strcmp(argv[2], "stopped") == 0;
    int failed = 0, pid = (int)getpid(), lost_pid;

    MPI_Init(&argc, &argv);
    if (argc < 2 || argc > 3 || argv[1][0] == '-' || values == NULL ||
        (argc > 2 && !stopped && strcmp(argv[2], "killed") != 0))
        return explain(argc > 1 && strcmp(argv[1], "--help") == 0);
    options.timeout_ms = 1500; /* how long silence is borne */
    CHECK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    CHECK(wharf_buffer_attach(node, BYTES, NULL, &buffer));

    int rank = wharf_node_rank(node), ranks, lost = wharf_node_size(node) - 1;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != lost + 1 || ranks == 1) {
        fprintf(stderr, "%s is for two ranks or more of one host\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    compute(rank, values);
    CHECK(wharf_put(buffer, rank, 0, values, BYTES, NULL));
    /* A copy may be under way when its call returns, and would die with its
     * process. */
    CHECK(wharf_stream_synchronize(node, NULL, 0));
    lost_pid = pid;
    MPI_Bcast(&lost_pid, 1, MPI_INT, lost, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); /* every segment is complete */
    if (rank == lost)
        raise(stopped ? SIGSTOP : SIGKILL);

    /* Any collective call tells. */
    wharf_status status = wharf_pool_trim(node);
    if (rank != lost && (status == WHARF_EPEER || status == WHARF_ETIMEDOUT))
        failed = rescue(node, buffer, argv[1], values);
    else if (rank != lost)
        failed = 1;
    fflush(stdout);
    free(values);
    if (!stopped) {
        wharf_ignore(wharf_node_close(&node));
        _exit(failed); /* MPI_Finalize would wait for the dead */
    }
    if (rank == 0)
        kill(lost_pid, SIGCONT);
    MPI_Barrier(MPI_COMM_WORLD);
    wharf_ignore(wharf_node_close(&node));
    MPI_Finalize();
    return failed;
}
