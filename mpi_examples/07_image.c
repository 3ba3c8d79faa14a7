/* SPDX-License-Identifier: MIT */
/* Image files: tells PNG from PPM by their first bytes, reads and writes PPM
 * (P6, and P5 for grey), leaves PNG to 07_png.c. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "07_frames.h"

static int complain(struct failure *why, const char *path, const char *what)
{
    snprintf(why->text, sizeof why->text, "%.200s: %.250s", path, what);
    return -1;
}

/* ---- PPM --------------------------------------------------------------- */

/* Next number of a header: blanks and comments come before it, one blank after
 * it. -1: there is none, or it is larger than any that makes sense. */
static int ppm_number(FILE *file)
{
    int c = getc(file);
    int number = 0, digits = 0;

    while (c != EOF && (isspace(c) || c == '#')) {
        if (c == '#')
            while (c != EOF && c != '\n')
                c = getc(file);
        c = getc(file);
    }
    for (; c != EOF && isdigit(c); digits++) {
        number = number * 10 + (c - '0');
        if (digits > 8)
            return -1;
        c = getc(file);
    }
    return digits > 0 && isspace(c) ? number : -1;
}

struct ppm {
    FILE *file; /* at the first pixel */
    int colours, width, height;
};

static int ppm_open(const char *path, struct ppm *ppm, struct failure *why)
{
    int kind, most;

    ppm->file = fopen(path, "rbe");
    if (ppm->file == NULL)
        return complain(why, path, strerror(errno));
    getc(ppm->file);
    kind = getc(ppm->file);
    ppm->colours = kind == '6' ? 3 : 1;
    ppm->width = ppm_number(ppm->file);
    ppm->height = ppm_number(ppm->file);
    most = ppm_number(ppm->file);
    if (ppm->width < 1 || ppm->height < 1 || most < 1)
        complain(why, path, "the header of this PPM image is broken");
    else if (most != 255)
        complain(why, path,
                 "a PPM image with more or less than 256 steps a "
                 "colour; convert it to 8 bits");
    if (why->text[0] == '\0')
        return 0;
    fclose(ppm->file);
    return -1;
}

static int ppm_size(const char *path, int *width, int *height,
                    struct failure *why)
{
    struct ppm ppm;

    if (ppm_open(path, &ppm, why) != 0)
        return -1;
    fclose(ppm.file);
    *width = ppm.width;
    *height = ppm.height;
    return 0;
}

/* One row; grey becomes three equal colours. */
static int ppm_row(const struct ppm *ppm, const struct frame_format *format,
                   uint8_t *row)
{
    size_t bytes = (size_t)format->width * (size_t)ppm->colours;

    if (fread(row, 1, bytes, ppm->file) != bytes)
        return -1;
    for (size_t x = bytes; ppm->colours == 1 && x-- > 0;)
        row[3 * x] = row[3 * x + 1] = row[3 * x + 2] = row[x];
    memset(row + format->row, 0, format->pitch - format->row);
    return 0;
}

static int ppm_read(const char *path, const struct frame_format *format,
                    uint8_t *frame, struct failure *why)
{
    struct ppm ppm;
    int status = 0;

    if (ppm_open(path, &ppm, why) != 0)
        return -1;
    if (ppm.width != format->width || ppm.height != format->height)
        status = complain(why, path, "the image changed while it was read");
    for (int y = 0; y < format->height && status == 0; y++)
        if (ppm_row(&ppm, format, frame + (size_t)y * format->pitch) != 0) {
            snprintf(why->text, sizeof why->text,
                     "%.200s: the image is cut short: it ends in row %d of %d",
                     path, y + 1, format->height);
            status = -1;
        }
    fclose(ppm.file);
    return status;
}

static int ppm_write(const char *path, const struct frame_format *format,
                     const uint8_t *frame, struct failure *why)
{
    FILE *file = fopen(path, "wbe");
    int good = file != NULL && fprintf(file, "P6\n%d %d\n255\n", format->width,
                                       format->height) > 0;

    for (int y = 0; good && y < format->height; y++)
        good = fwrite(frame + (size_t)y * format->pitch, 1, format->row,
                      file) == format->row;
    if (file != NULL && fclose(file) != 0)
        good = 0;
    return good ? 0 : complain(why, path, strerror(errno));
}

/* ---- Any image --------------------------------------------------------- */

enum image_kind { IMAGE_NONE, IMAGE_PNG, IMAGE_PPM };

static enum image_kind image_kind(const char *path, struct failure *why)
{
    static const unsigned char png[8] = "\x89PNG\r\n\x1a\n";
    unsigned char head[8] = "";
    struct stat info;
    FILE *file;
    size_t got;

    /* To open a FIFO would be to wait for its writer. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        complain(why, path,
                 S_ISDIR(info.st_mode) ? "is a directory; name files"
                                       : "is not a regular file");
        return IMAGE_NONE;
    }
    file = fopen(path, "rbe");
    if (file == NULL) {
        complain(why, path, strerror(errno));
        return IMAGE_NONE;
    }
    got = fread(head, 1, sizeof head, file);
    if (ferror(file))
        complain(why, path, strerror(errno));
    fclose(file);
    if (why->text[0] != '\0')
        return IMAGE_NONE;
    if (got == sizeof png && memcmp(head, png, sizeof png) == 0)
        return IMAGE_PNG;
    if (got > 2 && head[0] == 'P' && (head[1] == '6' || head[1] == '5'))
        return IMAGE_PPM;
    complain(why, path,
             got == 0 ? "is empty"
                      : "is neither a PNG nor a PPM image; raw video needs "
                        "--raw WIDTHxHEIGHT");
    return IMAGE_NONE;
}

int image_size(const char *path, int *width, int *height, struct failure *why)
{
    switch (image_kind(path, why)) {
    case IMAGE_PNG:
        return png_size(path, width, height, why);
    case IMAGE_PPM:
        return ppm_size(path, width, height, why);
    default:
        return -1;
    }
}

int image_read(const char *path, const struct frame_format *format,
               uint8_t *frame, struct failure *why)
{
    switch (image_kind(path, why)) {
    case IMAGE_PNG:
        return png_read(path, format, frame, why);
    case IMAGE_PPM:
        return ppm_read(path, format, frame, why);
    default:
        return -1;
    }
}

int image_write(const char *directory, const char *name,
                const struct frame_format *format, const uint8_t *frame,
                struct failure *why)
{
    char path[1024];

    if (snprintf(path, sizeof path, "%s/%s%s", directory, name, png_suffix) >=
        (int)sizeof path)
        return complain(why, directory, "the path is too long");
    if (strcmp(png_suffix, ".png") == 0)
        return png_write(path, format, frame, why);
    return ppm_write(path, format, frame, why);
}
