/* SPDX-License-Identifier: MIT */
/* In the place of 07_png.c in a build without libpng. */
#include "07_frames.h"

const char *const png_suffix = ".ppm";

static int refuse(const char *path, struct failure *why)
{
    snprintf(why->text, sizeof why->text,
             "%.200s: this build has no libpng and cannot use PNG; convert "
             "the image to PPM, or build again with libpng (libpng-dev)",
             path);
    return -1;
}

int png_size(const char *path, int *width, int *height, struct failure *why)
{
    (void)width, (void)height;
    return refuse(path, why);
}

int png_read(const char *path, const struct frame_format *format,
             uint8_t *frame, struct failure *why)
{
    (void)format, (void)frame;
    return refuse(path, why);
}

int png_write(const char *path, const struct frame_format *format,
              const uint8_t *frame, struct failure *why)
{
    (void)format, (void)frame;
    return refuse(path, why);
}
