/* SPDX-License-Identifier: MIT */
/* The picture of 05_halo_2d, as a PNG file: three chunks around what zlib
 * compresses. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "05_halo_2d_show.h"

enum { SIDE_MOST = 1024, COLOURS = 3 };

bool halo_picture_size(const struct halo_problem *problem,
                       struct halo_picture *picture)
{
    picture->rows = problem->rows < SIDE_MOST ? problem->rows : SIDE_MOST;
    picture->columns =
        problem->columns < SIDE_MOST ? problem->columns : SIDE_MOST;
    picture->points =
        malloc((size_t)picture->rows * (size_t)picture->columns * COLOURS);
    return picture->points != NULL;
}

int halo_picture_row(const struct halo_problem *problem,
                     const struct halo_picture *picture, int line)
{
    return (int)((int64_t)line * problem->rows / picture->rows);
}

/* From blue (-1) by white (0) to red (1). */
static void colour(float value, unsigned char *point)
{
    float size = value < 0 ? -value : value;
    unsigned char pale;

    /* Also for what is not a number. */
    if (!(size <= 1))
        size = 1;
    pale = (unsigned char)(255.0f * (1.0f - size));
    point[0] = value < 0 ? pale : 255;
    point[1] = pale;
    point[2] = value < 0 ? 255 : pale;
}

void halo_picture_line(const struct halo_problem *problem,
                       const struct halo_picture *picture, const float *row,
                       unsigned char *line)
{
    for (int i = 0; i < picture->columns; i++)
        colour(row[(int64_t)i * problem->columns / picture->columns],
               line + (size_t)i * COLOURS);
}

static void put_number(unsigned char *to, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(number >> (24 - 8 * i));
}

/* Length, name, data, CRC of name and data. */
static bool put_chunk(FILE *file, const char *name, const unsigned char *data,
                      size_t bytes)
{
    unsigned char number[4];
    uLong crc = crc32(0, (const unsigned char *)name, 4);

    put_number(number, (uint32_t)bytes);
    if (fwrite(number, 4, 1, file) != 1 || fwrite(name, 4, 1, file) != 1)
        return false;
    if (bytes > 0) {
        crc = crc32_z(crc, data, bytes);
        if (fwrite(data, bytes, 1, file) != 1)
            return false;
    }
    put_number(number, (uint32_t)crc);
    return fwrite(number, 4, 1, file) == 1;
}

/* Each line with the byte before it that says "not filtered", compressed. */
static unsigned char *compress_lines(const struct halo_picture *picture,
                                     size_t *bytes)
{
    size_t line = (size_t)picture->columns * COLOURS;
    size_t all = (line + 1) * (size_t)picture->rows;
    uLongf packed_bytes = compressBound(all);
    unsigned char *lines = malloc(all), *packed = malloc(packed_bytes);
    bool good = lines != NULL && packed != NULL;

    for (int i = 0; good && i < picture->rows; i++) {
        unsigned char *to = lines + (line + 1) * (size_t)i;

        to[0] = 0;
        memcpy(to + 1, picture->points + line * (size_t)i, line);
    }
    good = good && compress2(packed, &packed_bytes, lines, all, 6) == Z_OK;
    free(lines);
    if (!good) {
        free(packed);
        return NULL;
    }
    *bytes = packed_bytes;
    return packed;
}

int halo_picture_write(const char *path, const struct halo_picture *picture,
                       struct failure *why)
{
    static const unsigned char magic[] = {0x89, 'P',  'N',  'G',
                                          0x0d, 0x0a, 0x1a, 0x0a};
    /* Width, height, 8 bits of red, green and blue, the only compression. */
    unsigned char head[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0};
    unsigned char *packed;
    size_t bytes = 0;
    FILE *file = fopen(path, "wb");
    bool good;

    if (file == NULL) {
        snprintf(why->text, sizeof why->text, "%.300s: %s", path,
                 strerror(errno));
        return -1;
    }
    put_number(head, (uint32_t)picture->columns);
    put_number(head + 4, (uint32_t)picture->rows);
    packed = compress_lines(picture, &bytes);
    good = packed != NULL && fwrite(magic, sizeof magic, 1, file) == 1 &&
           put_chunk(file, "IHDR", head, sizeof head) &&
           put_chunk(file, "IDAT", packed, bytes) &&
           put_chunk(file, "IEND", NULL, 0);
    free(packed);
    if (fclose(file) != 0 || !good) {
        snprintf(why->text, sizeof why->text, "%.300s: cannot be written",
                 path);
        return -1;
    }
    return 0;
}
