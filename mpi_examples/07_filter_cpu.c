/* SPDX-License-Identifier: MIT */
/* The filter on the CPU: the meaning of the one on the GPU, and the way of
 * ranks without one. */
#include <stdlib.h>
#include <string.h>

#include "07_filter.h"

/* Zeros on both sides of a row of sums would do for no edge: these get the
 * outermost pixels. Enough for radius 3. */
#define MARGIN 9

static const uint16_t weights[2][7] = {{1, 4, 6, 4, 1},
                                       {1, 6, 15, 20, 15, 6, 1}};

size_t filter_sums(const struct frame_format *format)
{
    return format->row + 2 * MARGIN;
}

/* One row of sums over 2 * radius + 1 rows. */
static void sum_rows(const struct frame_format *format, int radius, int y,
                     const uint8_t *in, uint16_t *sums)
{
    const uint16_t *weight = weights[radius - 2];

    for (int k = 0; k <= 2 * radius; k++) {
        int from = y + k - radius;
        const uint8_t *row;
        uint16_t w = weight[k];

        from = from < 0                 ? 0
               : from >= format->height ? format->height - 1
                                        : from;
        row = in + (size_t)from * format->pitch;
        if (k == 0)
            for (size_t i = 0; i < format->row; i++)
                sums[i] = (uint16_t)(w * row[i]);
        else
            for (size_t i = 0; i < format->row; i++)
                sums[i] = (uint16_t)(sums[i] + w * row[i]);
    }
}

static void smooth_row(size_t bytes, int radius, const uint16_t *sums,
                       uint8_t *out)
{
    const uint16_t *w = weights[radius - 2];

    if (radius == 2)
        for (size_t i = 0; i < bytes; i++) {
            const uint16_t *s = sums + i;
            uint32_t sum = (uint32_t)w[0] * (s[-6] + s[6]) +
                           (uint32_t)w[1] * (s[-3] + s[3]) +
                           (uint32_t)w[2] * s[0];

            out[i] = (uint8_t)((sum + (1 << 7)) >> 8);
        }
    else
        for (size_t i = 0; i < bytes; i++) {
            const uint16_t *s = sums + i;
            uint32_t sum = (uint32_t)w[0] * (s[-9] + s[9]) +
                           (uint32_t)w[1] * (s[-6] + s[6]) +
                           (uint32_t)w[2] * (s[-3] + s[3]) +
                           (uint32_t)w[3] * s[0];

            out[i] = (uint8_t)((sum + (1 << 11)) >> 12);
        }
}

static void correct_row(size_t bytes, const uint8_t *table, uint8_t *out)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned value = (out[i] * (128u + table[i]) + 128u) >> 8;

        out[i] = (uint8_t)(value < 255 ? value : 255);
    }
}

void filter_frame(const struct frame_format *format, int radius,
                  const uint8_t *in, const uint8_t *table, uint8_t *out,
                  uint16_t *sums)
{
    uint16_t *row = sums + MARGIN;

    for (int y = 0; y < format->height; y++) {
        size_t at = (size_t)y * format->pitch;

        sum_rows(format, radius, y, in, row);
        for (int i = 0; i < MARGIN; i++) {
            row[-1 - i] = row[2 - i % 3];
            row[format->row + (size_t)i] =
                row[format->row - 3 + (size_t)(i % 3)];
        }
        smooth_row(format->row, radius, row, out + at);
        if (table != NULL)
            correct_row(format->row, table + at, out + at);
    }
}

void filter_make_table(const struct frame_format *format, uint8_t *table)
{
    int64_t cx = format->width / 2, cy = format->height / 2;
    int64_t most = cx * cx + cy * cy + 1;
    uint32_t grain = 1;

    for (int y = 0; y < format->height; y++) {
        uint8_t *row = table + (size_t)y * format->pitch;

        for (int x = 0; x < format->width; x++) {
            int64_t dx = x - cx, dy = y - cy;
            int gain = 128 + (int)((dx * dx + dy * dy) * 100 / most);

            for (int colour = 0; colour < 3; colour++) {
                grain = grain * 1664525u + 1013904223u;
                row[3 * x + colour] = (uint8_t)(gain + (int)(grain >> 29));
            }
        }
        memset(row + format->row, 0, format->pitch - format->row);
    }
}

/* ---- As a kind --------------------------------------------------------- */

struct filter {
    struct filter_options options;
    uint8_t *in, *out, *table; /* own memory */
    uint16_t *sums;
};

static void cpu_close(struct filter *filter)
{
    if (filter == NULL)
        return;
    free(filter->in);
    free(filter->out);
    free(filter->table);
    free(filter->sums);
    free(filter);
}

static int cpu_open(const struct filter_options *options,
                    struct filter **filter, struct failure *why)
{
    size_t bytes = options->format.bytes;
    struct filter *f = calloc(1, sizeof *f);

    if (f != NULL) {
        f->options = *options;
        f->in = malloc(bytes);
        f->out = malloc(bytes);
        f->table = malloc(bytes);
        f->sums = calloc(filter_sums(&options->format), sizeof *f->sums);
    }
    if (f == NULL || f->in == NULL || f->out == NULL || f->table == NULL ||
        f->sums == NULL) {
        snprintf(why->text, sizeof why->text,
                 "no memory for three frames of %zu bytes", bytes);
        cpu_close(f);
        return -1;
    }
    memcpy(f->table, options->table, bytes);
    *filter = f;
    return 0;
}

static wharf_stream cpu_stream(struct filter *filter)
{
    (void)filter;
    return WHARF_RING_CPU;
}

static int cpu_tune(struct filter *filter, const uint8_t *in, uint8_t *out,
                    char *said, size_t capacity, struct failure *why)
{
    (void)filter, (void)in, (void)out, (void)why;
    snprintf(said, capacity, "one thread a rank");
    return 0;
}

static int cpu_run(struct filter *filter, enum way way, int use_table,
                   const uint8_t *in, uint8_t *out, struct failure *why)
{
    const struct filter_options *o = &filter->options;
    const uint8_t *table = way == WAY_MAPPED ? o->table : filter->table;

    (void)why;
    if (!use_table)
        table = NULL;
    if (way == WAY_COPY) {
        memcpy(filter->in, in, o->format.bytes);
        filter_frame(&o->format, o->radius, filter->in, table, filter->out,
                     filter->sums);
        memcpy(out, filter->out, o->format.bytes);
    } else {
        filter_frame(&o->format, o->radius, in, table, out, filter->sums);
    }
    return 0;
}

static int cpu_load(struct filter *filter, void *slot, const uint8_t *frame,
                    size_t bytes, struct failure *why)
{
    (void)filter, (void)why;
    memcpy(slot, frame, bytes);
    return 0;
}

static int cpu_wait(struct filter *filter, enum frame_end end,
                    struct failure *why)
{
    (void)filter, (void)end, (void)why;
    return 0;
}

static void cpu_traffic(const struct filter *filter, enum way way,
                        int use_table, struct filter_traffic *traffic)
{
    uint64_t bytes = filter->options.format.bytes;

    (void)use_table;
    traffic->in = way == WAY_COPY || way == WAY_RING ? bytes : 0;
    traffic->out = way == WAY_COPY ? bytes : 0;
}

const struct filter_kind filter_cpu = {
    "CPU",    WHARF_SPACE_HOST, 0,        cpu_open, cpu_close,  cpu_stream,
    cpu_tune, cpu_run,          cpu_load, cpu_wait, cpu_traffic};
