/* SPDX-License-Identifier: MIT */
/* 02_shared_file on the CPU: reads into shared host memory, digests by zlib. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "02_shared_file.h"

/* Bytes between two reports of progress; stays in the cache between the
 * histogram and the CRC. */
#define STEP (UINT64_C(256) << 10)

/* Bytes asked of one pread(2). */
#define READ_STEP (UINT64_C(4) << 20)

#define PAGE UINT64_C(4096)

struct piece shared_file_piece(uint64_t whole, int index, int count)
{
    uint64_t each = (whole + (uint64_t)count - 1) / (uint64_t)count;
    struct piece piece;

    each = (each + PAGE - 1) / PAGE * PAGE;
    piece.begin = each * (uint64_t)index;
    if (piece.begin > whole)
        piece.begin = whole;
    piece.bytes = whole - piece.begin;
    if (piece.bytes > each)
        piece.bytes = each;
    return piece;
}

int shared_file_read(int fd, uint64_t offset, void *to, size_t bytes,
                     struct failure *why)
{
    size_t done = 0;

    while (done < bytes) {
        ssize_t got =
            pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));

        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0) {
            snprintf(why->text, sizeof why->text,
                     "the file became shorter while it was read");
            return -1;
        } else if (errno != EINTR) {
            snprintf(why->text, sizeof why->text, "read: %s", strerror(errno));
            return -1;
        }
    }
    return 0;
}

static int cpu_prepare(struct failure *why)
{
    (void)why;
    return 0;
}

static int cpu_load(int fd, const struct piece *piece, void *copy,
                    shared_file_progress progress, void *argument,
                    struct failure *why)
{
    for (uint64_t done = 0; done < piece->bytes;) {
        uint64_t at = piece->begin + done;
        uint64_t step = piece->bytes - done;

        if (step > READ_STEP)
            step = READ_STEP;
        if (shared_file_read(fd, at, (char *)copy + at, (size_t)step, why) != 0)
            return -1;
        done += step;
        progress(argument, done);
    }
    return 0;
}

/* Four counters a byte value: consecutive equal bytes would otherwise wait for
 * each other's store. */
static void count_bytes(const unsigned char *data, size_t bytes,
                        uint64_t *histogram)
{
    uint32_t lane[4][256];
    size_t i;

    memset(lane, 0, sizeof lane);
    for (i = 0; i + 4 <= bytes; i += 4) {
        lane[0][data[i]]++;
        lane[1][data[i + 1]]++;
        lane[2][data[i + 2]]++;
        lane[3][data[i + 3]]++;
    }
    for (; i < bytes; i++)
        lane[0][data[i]]++;
    for (int value = 0; value < 256; value++)
        histogram[value] += (uint64_t)lane[0][value] + lane[1][value] +
                            lane[2][value] + lane[3][value];
}

static int cpu_digest(const void *copy, const struct piece *piece,
                      struct digest *digest, shared_file_progress progress,
                      void *argument, struct failure *why)
{
    const unsigned char *data = (const unsigned char *)copy + piece->begin;

    (void)why;
    memset(digest, 0, sizeof *digest);
    digest->bytes = piece->bytes;
    for (uint64_t done = 0; done < piece->bytes;) {
        uint64_t step = piece->bytes - done;

        if (step > STEP)
            step = STEP;
        count_bytes(data + done, (size_t)step, digest->histogram);
        digest->crc = (uint32_t)crc32(digest->crc, data + done, (unsigned)step);
        done += step;
        progress(argument, done);
    }
    return 0;
}

const struct shared_file_work shared_file_cpu = {
    "CPU", WHARF_SPACE_HOST, cpu_prepare, cpu_load, cpu_digest};
