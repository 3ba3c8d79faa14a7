/* SPDX-License-Identifier: MIT */
/* Progress of 08_large_ring: how far, how fast, how long still. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "08_large_ring.h"

#define BAR_WIDTH 30
#define BAR_SECONDS 0.1
#define LINE_SECONDS 1.0

/* Under mpirun a rank's stderr is a pipe to mpirun; what matters is where
 * mpirun's own stderr goes. */
static bool terminal(void)
{
    char link[64], target[64];
    ssize_t length;

    if (isatty(STDERR_FILENO))
        return true;
    snprintf(link, sizeof link, "/proc/%d/fd/2", (int)getppid());
    length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    return strncmp(target, "/dev/pts/", 9) == 0 ||
           strncmp(target, "/dev/tty", 8) == 0;
}

void progress_start(struct progress *progress, int frames, double bytes)
{
    memset(progress, 0, sizeof *progress);
    progress->terminal = terminal();
    progress->frames = frames;
    progress->bytes = bytes;
    progress->start = progress->shown = MPI_Wtime();
}

/* "312 of 500 frames, 31.05 of 49.77 GB, 9.81 GB/s, 1.9 s left" */
static void describe(const struct progress *progress, int done, char *text,
                     size_t capacity)
{
    double seconds = MPI_Wtime() - progress->start;
    double rate = done * progress->bytes / (seconds > 0 ? seconds : 1e-9);

    snprintf(text, capacity,
             "%d of %d frames, %.2f of %.2f GB, %.2f GB/s, %.1f s left", done,
             progress->frames, done * progress->bytes / 1e9,
             progress->frames * progress->bytes / 1e9, rate / 1e9,
             rate > 0 ? (progress->frames - done) * progress->bytes / rate : 0);
}

void progress_show(struct progress *progress, int done)
{
    double now = MPI_Wtime();
    double apart = progress->terminal ? BAR_SECONDS : LINE_SECONDS;
    char text[160];

    if (now - progress->shown < apart && done < progress->frames)
        return;
    progress->shown = now;

    describe(progress, done, text, sizeof text);
    if (progress->terminal) {
        int filled = (int)((int64_t)done * BAR_WIDTH / progress->frames);

        fprintf(stderr, "\r[%.*s%*s] %s  ", filled,
                "##############################", BAR_WIDTH - filled, "", text);
        fflush(stderr);
        progress->dirty = true;
    } else {
        printf("%s\n", text);
        fflush(stdout);
    }
}

void progress_end(struct progress *progress)
{
    if (progress->dirty)
        fprintf(stderr, "\n");
    progress->dirty = false;
}
