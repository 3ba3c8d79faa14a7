/* SPDX-License-Identifier: MIT */
/* PNG by libpng's simplified interface: every kind of PNG comes as 8-bit RGB.
 * Built where libpng is; 07_png_none.c takes its place elsewhere. */
#include <errno.h>
#include <png.h>
#include <string.h>

#include "07_frames.h"

const char *const png_suffix = ".png";

static int complain(struct failure *why, const char *path, const char *what)
{
    snprintf(why->text, sizeof why->text, "%.200s: %.250s", path, what);
    return -1;
}

static int png_begin(const char *path, png_image *image, struct failure *why)
{
    memset(image, 0, sizeof *image);
    image->version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_file(image, path))
        return complain(why, path, image->message);
    return 0;
}

int png_size(const char *path, int *width, int *height, struct failure *why)
{
    png_image image;

    if (png_begin(path, &image, why) != 0)
        return -1;
    /* Up to 2^31 - 1; what is too much is seen by who makes a format of it. */
    *width = (int)image.width;
    *height = (int)image.height;
    png_image_free(&image);
    return 0;
}

int png_read(const char *path, const struct frame_format *format,
             uint8_t *frame, struct failure *why)
{
    static const png_color black = {0, 0, 0}; /* behind transparent pixels */
    png_image image;

    if (png_begin(path, &image, why) != 0)
        return -1;
    if ((int)image.width != format->width ||
        (int)image.height != format->height) {
        png_image_free(&image);
        return complain(why, path, "the image changed while it was read");
    }
    image.format = PNG_FORMAT_RGB;
    memset(frame, 0, format->bytes);
    if (!png_image_finish_read(&image, &black, frame, (png_int_32)format->pitch,
                               NULL)) {
        snprintf(why->text, sizeof why->text,
                 "%.200s: the image is broken or cut short: %s", path,
                 image.message);
        return -1;
    }
    return 0;
}

int png_write(const char *path, const struct frame_format *format,
              const uint8_t *frame, struct failure *why)
{
    png_image image;

    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = (png_uint_32)format->width;
    image.height = (png_uint_32)format->height;
    image.format = PNG_FORMAT_RGB;
    /* For speed: large images are looked at, not kept. */
    image.flags = PNG_IMAGE_FLAG_FAST;
    if (!png_image_write_to_file(&image, path, 0, frame,
                                 (png_int_32)format->pitch, NULL))
        return complain(why, path,
                        errno != 0 ? strerror(errno) : image.message);
    return 0;
}
