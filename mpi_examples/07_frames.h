/* SPDX-License-Identifier: MIT */
/* Frames for 07_frame_filter: where they come from (images, raw video, a
 * generator) and how results become images. No Wharf in here. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows start at multiples of this, so that a row is whole lines of a GPU's
 * memory traffic. */
#define FRAME_ALIGN 128

/* Widest and highest frame. */
#define FRAME_MOST 32768

/* What went wrong in one step on one rank; "" if nothing. */
struct failure {
    char text[512];
};

/* Three bytes a pixel: red, green, blue. */
struct frame_format {
    int width, height;
    size_t row;   /* bytes of a row's pixels */
    size_t pitch; /* from one row to the next; what is between is 0 */
    size_t bytes; /* of a frame: pitch * height */
};

/* 0, or -1 with `why` filled: a side is no number of 1 .. FRAME_MOST. */
int frame_format_set(struct frame_format *format, int width, int height,
                     struct failure *why);

/* "1080p", "8k" or WIDTHxHEIGHT; 0, or -1 with `why` filled. */
int frame_format_parse(struct frame_format *format, const char *text,
                       struct failure *why);

/* Frame `number` of a sequence: a drifting ground with moving discs. The same
 * bytes on every machine. */
void frame_generate(const struct frame_format *format, int number,
                    uint8_t *frame);

/* CRC-32 (of zlib, gzip, PNG) of a frame's pixels, padding left out. */
uint32_t frame_crc(const struct frame_format *format, const uint8_t *frame);

/* ---- Where frames come from -------------------------------------------- */

/* Either paths, or none: then frames are generated. */
struct frame_source {
    struct frame_format format;
    char *const *paths;
    int path_count;
    int raw;    /* the paths are raw video of this format */
    int frames; /* that it has */
};

/*
 * Looks at the files and finds how many frames of which format they hold. For
 * raw video and generated frames, `format` says what is wanted; `frames` is how
 * many to generate. 0, or -1 with `why` filled: a file that cannot be read, is
 * no image, is cut short, or has another size than the first.
 */
int frame_source_open(struct frame_source *source, struct failure *why);

/* Frame `number`, 0 .. frames - 1; 0, or -1 with `why` filled. */
int frame_source_read(const struct frame_source *source, int number,
                      uint8_t *frame, struct failure *why);

/* ---- Image files ------------------------------------------------------- */

/* Size of a PNG or PPM image; 0, or -1 with `why` filled. */
int image_size(const char *path, int *width, int *height, struct failure *why);

/* The pixels of an image whose size is the format's. */
int image_read(const char *path, const struct frame_format *format,
               uint8_t *frame, struct failure *why);

/* Writes DIRECTORY/NAME.png, without libpng NAME.ppm. */
int image_write(const char *directory, const char *name,
                const struct frame_format *format, const uint8_t *frame,
                struct failure *why);

/* What 07_png.c does, or says that it cannot in a build without libpng. */
int png_size(const char *path, int *width, int *height, struct failure *why);
int png_read(const char *path, const struct frame_format *format,
             uint8_t *frame, struct failure *why);
int png_write(const char *path, const struct frame_format *format,
              const uint8_t *frame, struct failure *why);
extern const char *const png_suffix; /* of what image_write writes */

#ifdef __cplusplus
}
#endif

#endif
