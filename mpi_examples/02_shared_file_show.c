/* SPDX-License-Identifier: MIT */
/* What 02_shared_file prints, and the direct read that its result is checked
 * against. */
#include "02_shared_file_show.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* Files that load faster than the eye can follow get no bar. */
#define BAR_BYTES (UINT64_C(64) << 20)
#define BAR_WIDTH 32
#define BAR_SECONDS 0.1

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

void bar_init(struct bar *bar, bool wanted)
{
    memset(bar, 0, sizeof *bar);
    bar->on = wanted && terminal();
}

void bar_start(struct bar *bar, const char *what, uint64_t total)
{
    bar->what = what;
    bar->total = total;
    bar->shown = MPI_Wtime();
}

void bar_show(void *argument, uint64_t done)
{
    struct bar *bar = argument;
    double now;
    int filled;

    if (!bar->on || bar->total < BAR_BYTES)
        return;
    now = MPI_Wtime();
    if (now - bar->shown < BAR_SECONDS)
        return;
    bar->shown = now;
    bar->dirty = true;
    filled = (int)((double)done / (double)bar->total * BAR_WIDTH);
    fprintf(stderr, "\r%-9s[%.*s%*s] %3d %%", bar->what, filled,
            "################################", BAR_WIDTH - filled, "",
            (int)((double)done / (double)bar->total * 100));
    fflush(stderr);
}

void bar_end(struct bar *bar)
{
    if (bar->dirty)
        fprintf(stderr, "\r%*s\r", BAR_WIDTH + 18, "");
    bar->dirty = false;
    fflush(stderr);
}

void show_head(void)
{
    printf("%14s  %-8s  %-5s  %-10s  %8s  %8s  %8s  %s\n", "bytes", "crc32",
           "check", "top byte", "attach", "read", "work", "file");
    printf("%14s  %-8s  %-5s  %-10s  %8s  %8s  %8s\n", "", "", "", "", "(ms)",
           "(GB/s)", "(GB/s)");
    fflush(stdout);
}

static double rate(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
}

/* The commonest byte value and its share, such as "0x20 15.1%". */
static const char *top_byte(const struct result *result, char text[16])
{
    int top = 0;

    for (int value = 1; value < 256; value++)
        if (result->histogram[value] > result->histogram[top])
            top = value;
    if (result->size == 0)
        return "-";
    snprintf(text, 16, "0x%02x %.1f%%", top,
             (double)result->histogram[top] / (double)result->size * 100);
    return text;
}

void show_result(const struct result *result)
{
    char top[16];

    printf("%14" PRIu64 "  %08" PRIx32 "  %-5s  %-10s  %8.3f  %8.3f  %8.3f  "
           "%s\n",
           result->size, result->crc, "ok", top_byte(result, top),
           result->attach * 1e3, rate(result->size, result->load),
           rate(result->size, result->digest), result->path);
    fflush(stdout);
}

static void print_bytes(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;

    while (value >= 1000 && unit < 4) {
        value /= 1000;
        unit++;
    }
    printf("%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
}

void show_summary(const char *lines, int ranks, int copies, uint64_t bytes,
                  const char *worker)
{
    uint64_t held = bytes * (uint64_t)copies;
    uint64_t alone = bytes * (uint64_t)ranks;

    printf("\nrank  %-12s %-28s copy   %-12s handle\n", "host", "device",
           "path");
    for (int rank = 0; rank < ranks; rank++)
        printf("%s\n", lines + (size_t)rank * LINE);
    printf("\nwork on the %s; ", worker);
    printf("%d cop%s of each file shared by %d rank%s: ", copies,
           copies == 1 ? "y" : "ies", ranks, ranks == 1 ? "" : "s");
    print_bytes(held);
    printf(" held instead of ");
    print_bytes(alone);
    printf(", ");
    print_bytes(alone - held);
    printf(" saved\n");
    fflush(stdout);
}

int shared_file_crc(int fd, const struct piece *piece, uint32_t *crc,
                    shared_file_progress progress, void *argument,
                    struct failure *why)
{
    enum { STEP = 1 << 20 };
    unsigned char *part = malloc(STEP);
    int failed = part == NULL ? -1 : 0;

    if (part == NULL)
        snprintf(why->text, sizeof why->text, "Cannot allocate memory");
    *crc = 0;
    for (uint64_t done = 0; failed == 0 && done < piece->bytes;) {
        uint64_t step = piece->bytes - done;

        if (step > STEP)
            step = STEP;
        failed =
            shared_file_read(fd, piece->begin + done, part, (size_t)step, why);
        if (failed == 0)
            *crc = (uint32_t)crc32(*crc, part, (unsigned)step);
        done += step;
        progress(argument, done);
    }
    free(part);
    return failed;
}
