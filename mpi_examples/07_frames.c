/* SPDX-License-Identifier: MIT */
/* Formats, generated frames, raw video, and checksums of frames. */
#include "07_frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Formats ----------------------------------------------------------- */

int frame_format_set(struct frame_format *format, int width, int height,
                     struct failure *why)
{
    if (width < 1 || height < 1 || width > FRAME_MOST || height > FRAME_MOST) {
        snprintf(why->text, sizeof why->text,
                 "a frame of %d x %d pixels: sides are 1 .. %d", width, height,
                 FRAME_MOST);
        return -1;
    }
    format->width = width;
    format->height = height;
    format->row = (size_t)width * 3;
    format->pitch = (format->row + FRAME_ALIGN - 1) / FRAME_ALIGN * FRAME_ALIGN;
    format->bytes = format->pitch * (size_t)height;
    return 0;
}

int frame_format_parse(struct frame_format *format, const char *text,
                       struct failure *why)
{
    static const struct {
        const char *name;
        int width, height;
    } known[] = {{"720p", 1280, 720},
                 {"1080p", 1920, 1080},
                 {"4k", 3840, 2160},
                 {"8k", 7680, 4320}};
    char *end;
    long width, height;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i].name) == 0)
            return frame_format_set(format, known[i].width, known[i].height,
                                    why);
    width = strtol(text, &end, 10);
    if (end != text && *end == 'x') {
        const char *rest = end + 1;

        height = strtol(rest, &end, 10);
        if (end != rest && *end == '\0' && width > 0 && height > 0 &&
            width <= FRAME_MOST && height <= FRAME_MOST)
            return frame_format_set(format, (int)width, (int)height, why);
    }
    snprintf(why->text, sizeof why->text,
             "'%.40s' is no size of a frame: 720p, 1080p, 4k, 8k, or "
             "WIDTHxHEIGHT with sides of 1 .. %d",
             text, FRAME_MOST);
    return -1;
}

/* ---- Generated frames -------------------------------------------------- */

#define DISCS 5

/* Goes to and fro between 0 and `most`. */
static int bounce(int64_t way, int most)
{
    int64_t at;

    if (most <= 0)
        return 0;
    at = way % (2 * (int64_t)most);
    return (int)(at < most ? at : 2 * (int64_t)most - at);
}

static uint32_t hash(uint32_t value)
{
    value *= 0x9e3779b1u;
    value ^= value >> 15;
    value *= 0x85ebca77u;
    return value ^ value >> 13;
}

/* Slow colours, a grid that drifts, and grain: flat parts, edges and noise are
 * what a smoothing filter has to show on. */
static void generate_ground(const struct frame_format *f, int number,
                            uint8_t *frame)
{
    int step = f->width / 24 + 1;

    for (int y = 0; y < f->height; y++) {
        uint8_t *to = frame + (size_t)y * f->pitch;
        int down = (int)((int64_t)y * 160 / f->height);

        for (int x = 0; x < f->width; x++, to += 3) {
            int across = (int)((int64_t)x * 120 / f->width);
            uint32_t grain =
                hash((uint32_t)(y * f->width + x) + (uint32_t)number * 77u);
            int line = (x + 2 * number) % step == 0 || (y + number) % step == 0;

            to[0] = (uint8_t)(30 + across + (int)(grain & 15) + 60 * line);
            to[1] =
                (uint8_t)(40 + down / 2 + (int)(grain >> 8 & 15) + 60 * line);
            to[2] = (uint8_t)(60 + down + (int)(grain >> 16 & 15));
        }
        memset(to, 0, f->pitch - f->row);
    }
}

static void generate_disc(const struct frame_format *f, int number, int disc,
                          uint8_t *frame)
{
    static const uint8_t colour[DISCS][3] = {{230, 60, 50},
                                             {250, 200, 40},
                                             {60, 190, 90},
                                             {240, 240, 240},
                                             {20, 20, 30}};
    int least = f->width < f->height ? f->width : f->height;
    int radius = least / (6 + 2 * disc);
    int64_t speed = f->width / (60 + 17 * disc) + 1;
    int64_t at = number + 31 * disc;
    int cx = radius + bounce(at * speed, f->width - 2 * radius);
    int cy = radius + bounce(at * (speed - speed / 3), f->height - 2 * radius);
    int64_t limit = (int64_t)radius * radius;

    for (int y = cy - radius; y <= cy + radius; y++) {
        if (y < 0 || y >= f->height)
            continue;
        for (int x = cx - radius; x <= cx + radius; x++) {
            int64_t dx = x - cx, dy = y - cy;

            if (x >= 0 && x < f->width && dx * dx + dy * dy < limit)
                memcpy(frame + (size_t)y * f->pitch + (size_t)x * 3,
                       colour[disc], 3);
        }
    }
}

void frame_generate(const struct frame_format *format, int number,
                    uint8_t *frame)
{
    generate_ground(format, number, frame);
    for (int disc = 0; disc < DISCS; disc++)
        generate_disc(format, number, disc, frame);
}

/* ---- Checksums --------------------------------------------------------- */

/* table[k][b]: what byte b does to the CRC, k bytes later. */
static void crc_tables(uint32_t table[8][256])
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;

        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? 0xedb88320u ^ value >> 1 : value >> 1;
        table[0][byte] = value;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            table[k][byte] =
                table[0][table[k - 1][byte] & 0xff] ^ table[k - 1][byte] >> 8;
}

/* Eight bytes at a time: a frame of 8k is 100 MB. */
static uint32_t crc_add(uint32_t table[8][256], uint32_t crc,
                        const uint8_t *data, size_t bytes)
{
    for (; bytes >= 8; bytes -= 8, data += 8) {
        uint32_t low =
            crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
                   (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);

        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
              table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
              table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^
              table[0][data[7]];
    }
    for (; bytes > 0; bytes--, data++)
        crc = table[0][(crc ^ *data) & 0xff] ^ crc >> 8;
    return crc;
}

uint32_t frame_crc(const struct frame_format *format, const uint8_t *frame)
{
    static uint32_t table[8][256];
    uint32_t crc = 0xffffffffu;

    if (table[0][1] == 0)
        crc_tables(table);
    for (int y = 0; y < format->height; y++)
        crc =
            crc_add(table, crc, frame + (size_t)y * format->pitch, format->row);
    return ~crc;
}

/* ---- Sources ----------------------------------------------------------- */

/* Frames in a file of raw video, or -1. */
static int64_t raw_frames(const char *path, const struct frame_format *format,
                          struct failure *why)
{
    uint64_t each = (uint64_t)format->row * (uint64_t)format->height;
    struct stat info;

    if (stat(path, &info) != 0) {
        snprintf(why->text, sizeof why->text, "%.200s: %s", path,
                 strerror(errno));
        return -1;
    }
    if (!S_ISREG(info.st_mode)) {
        snprintf(why->text, sizeof why->text, "%.200s: is not a regular file",
                 path);
        return -1;
    }
    if (info.st_size == 0 || (uint64_t)info.st_size % each != 0) {
        snprintf(why->text, sizeof why->text,
                 "%.200s: %" PRIu64 " bytes are %" PRIu64 " frames and %" PRIu64
                 " bytes; a frame of %dx%d has %" PRIu64
                 " bytes: is the file cut short, or of another size?",
                 path, (uint64_t)info.st_size, (uint64_t)info.st_size / each,
                 (uint64_t)info.st_size % each, format->width, format->height,
                 each);
        return -1;
    }
    return info.st_size / (int64_t)each;
}

static int raw_read(const char *path, int number,
                    const struct frame_format *format, uint8_t *frame,
                    struct failure *why)
{
    off_t each = (off_t)format->row * format->height;
    FILE *file = fopen(path, "rbe");
    int y = 0;

    if (file != NULL && fseeko(file, each * number, SEEK_SET) == 0)
        for (; y < format->height; y++) {
            uint8_t *row = frame + (size_t)y * format->pitch;

            if (fread(row, 1, format->row, file) != format->row)
                break;
            memset(row + format->row, 0, format->pitch - format->row);
        }
    if (y < format->height)
        snprintf(why->text, sizeof why->text, "%.200s: frame %d: %s", path,
                 number,
                 file != NULL && feof(file)
                     ? "the file became shorter while it was read"
                     : strerror(errno));
    if (file != NULL)
        fclose(file);
    return y < format->height ? -1 : 0;
}

static int open_raw(struct frame_source *source, struct failure *why)
{
    int64_t frames = 0;

    for (int i = 0; i < source->path_count; i++) {
        int64_t more = raw_frames(source->paths[i], &source->format, why);

        if (more < 0)
            return -1;
        frames += more;
    }
    source->frames = frames > INT32_MAX ? INT32_MAX : (int)frames;
    return 0;
}

static int open_images(struct frame_source *source, struct failure *why)
{
    for (int i = 0; i < source->path_count; i++) {
        int width, height;

        if (image_size(source->paths[i], &width, &height, why) != 0)
            return -1;
        if (i == 0) {
            if (frame_format_set(&source->format, width, height, why) != 0)
                return -1;
        } else if (width != source->format.width ||
                   height != source->format.height) {
            snprintf(why->text, sizeof why->text,
                     "%.150s: is %dx%d, %.150s is %dx%d; the images of one "
                     "run have one size",
                     source->paths[i], width, height, source->paths[0],
                     source->format.width, source->format.height);
            return -1;
        }
    }
    source->frames = source->path_count;
    return 0;
}

int frame_source_open(struct frame_source *source, struct failure *why)
{
    if (source->path_count == 0)
        return 0;
    return source->raw ? open_raw(source, why) : open_images(source, why);
}

int frame_source_read(const struct frame_source *source, int number,
                      uint8_t *frame, struct failure *why)
{
    if (source->path_count == 0) {
        frame_generate(&source->format, number, frame);
        return 0;
    }
    if (!source->raw)
        return image_read(source->paths[number], &source->format, frame, why);
    for (int i = 0; i < source->path_count; i++) {
        int64_t frames = raw_frames(source->paths[i], &source->format, why);

        if (frames < 0)
            return -1;
        if (number < frames)
            return raw_read(source->paths[i], number, &source->format, frame,
                            why);
        number -= (int)frames;
    }
    snprintf(why->text, sizeof why->text,
             "the files became shorter while they were read");
    return -1;
}
