/* SPDX-License-Identifier: MIT */
/* The comparison as a picture: two charts of bars in one SVG file, latency and
 * rate, a bar for each way. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "07_frame_filter.h"

#define WIDTH 760
#define LEFT 170 /* of a bar */
#define BARS 420 /* length of the longest */
#define LINE 30  /* from one bar to the next */
#define HEAD 84  /* above the first chart */
#define TITLE 34 /* above the bars of a chart */
#define AXIS 44  /* below them */

struct chart {
    const char *title, *unit;
    double (*value)(const struct way_result *);
    double (*high)(const struct way_result *); /* a mark behind the bar */
};

static double latency(const struct way_result *r)
{
    return r->median;
}

static double latency_high(const struct way_result *r)
{
    return r->p99;
}

static double rate(const struct way_result *r)
{
    return r->rate;
}

/* The round number that divides an axis up to `most` in 4 to 8 parts. */
static double tick(double most)
{
    double unit = pow(10, floor(log10(most))) / 10;
    static const double steps[] = {1, 2, 5, 10, 20, 50};

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (most / (unit * steps[i]) <= 8)
            return unit * steps[i];
    return most;
}

/* Of the axis: room for every bar, and for marks that do not lie far beyond. */
static double longest(const struct chart *chart,
                      const struct way_result *results, int count)
{
    double most = 0, marks = 0;

    for (int i = 0; i < count; i++)
        if (results[i].left_out[0] == '\0')
            most = fmax(most, chart->value(&results[i]));
    for (int i = 0; i < count && chart->high != NULL; i++)
        if (results[i].left_out[0] == '\0' &&
            chart->high(&results[i]) <= 1.5 * most)
            marks = fmax(marks, chart->high(&results[i]));
    return fmax(most, marks);
}

static void draw_axis(FILE *file, double most, int top, int bottom,
                      const char *unit)
{
    double step = tick(most);

    for (int i = 0; i * step <= most * 1.0001; i++) {
        double x = LEFT + BARS * (i * step / most);

        fprintf(file,
                "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#ddd'/>\n"
                "<text x='%.1f' y='%d' text-anchor='middle' fill='#555'>%g"
                "</text>\n",
                x, x, top, bottom, x, bottom + 16, i * step);
    }
    fprintf(file,
            "<text x='%d' y='%d' text-anchor='middle' fill='#555'>%s</text>\n",
            LEFT + BARS / 2, bottom + 34, unit);
}

/* A p99 beyond the axis is told by its number alone. */
static void draw_bar(FILE *file, const struct chart *chart,
                     const struct way_result *r, double most, int y)
{
    static const char *const colour[WAYS] = {"#9aa5b1", "#2f7ed8", "#3a9a5c",
                                             "#d98b2b"};
    double value = chart->value(r), width = BARS * value / most;

    fprintf(file,
            "<text x='%d' y='%d' text-anchor='end'>%s, %s table</text>\n"
            "<rect x='%d' y='%d' width='%.1f' height='%d' fill='%s'/>\n",
            LEFT - 8, y + 15, way_name[r->way], r->table ? "with" : "no", LEFT,
            y, width, LINE - 8, colour[r->way]);
    if (chart->high != NULL) {
        double high = chart->high(r), x = LEFT + BARS * high / most;

        if (high <= most)
            fprintf(file,
                    "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#222' "
                    "stroke-width='2'/>\n",
                    x, x, y - 1, y + LINE - 7);
        fprintf(file, "<text x='%.1f' y='%d'>%.1f (p99 %.1f)</text>\n",
                LEFT + fmax(width, high <= most ? x - LEFT : 0) + 6, y + 15,
                value, high);
    } else {
        fprintf(file, "<text x='%.1f' y='%d'>%.1f</text>\n", LEFT + width + 6,
                y + 15, value);
    }
}

/* Returns where the next chart may begin. */
static int draw_chart(FILE *file, const struct chart *chart,
                      const struct way_result *results, int count, int top)
{
    double most = longest(chart, results, count);
    int y = top + TITLE;

    if (most <= 0)
        return top;
    fprintf(file, "<text x='20' y='%d' font-size='15'>%s</text>\n", top + 16,
            chart->title);
    for (int i = 0; i < count; i++)
        y += results[i].left_out[0] == '\0' ? LINE : 0;
    draw_axis(file, most, top + TITLE - 6, y, chart->unit);
    y = top + TITLE;
    for (int i = 0; i < count; i++)
        if (results[i].left_out[0] == '\0') {
            draw_bar(file, chart, &results[i], most, y);
            y += LINE;
        }
    return y + AXIS;
}

static void draw_head(FILE *file, const struct job *job, int height)
{
    const struct frame_format *f = &job->source.format;
    wharf_device device = WHARF_DEVICE_INIT;
    int side = 2 * job->filter_options.radius + 1;

    if (!job->kind->waits ||
        wharf_node_device(job->node, 0, &device) != WHARF_OK)
        snprintf(device.name, sizeof device.name, "%s", job->kind->name);
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "viewBox='0 0 %d %d' font-family='sans-serif' font-size='13'>\n"
            "<rect width='%d' height='%d' fill='white'/>\n"
            "<text x='20' y='30' font-size='18'>Frames in host memory: four "
            "ways to a filter and back</text>\n",
            WIDTH, height, WIDTH, height, WIDTH, height);
    fprintf(file,
            "<text x='20' y='54' fill='#555'>%d x %d pixels, Gaussian %d x %d, "
            "%d rank%s, %s; %d frames each way</text>\n",
            f->width, f->height, side, side, job->size,
            job->size == 1 ? "" : "s", device.name, job->options.frames);
}

int plot_write(const struct job *job, const struct way_result *results,
               int count, struct failure *why)
{
    static const struct chart charts[] = {
        {"Latency of a frame: median, and p99 as a line",
         "microseconds "
         "(shorter is better)",
         latency, latency_high},
        {"Throughput of all ranks together",
         "frames a second (longer is "
         "better)",
         rate, NULL}};
    char path[1024];
    FILE *file;
    int bars = 0, top = HEAD;

    for (int i = 0; i < count; i++)
        bars += results[i].left_out[0] == '\0';
    snprintf(path, sizeof path, "%s/comparison.svg", job->options.out);
    file = fopen(path, "we");
    if (file != NULL) {
        draw_head(file, job, HEAD + 2 * (TITLE + AXIS + bars * LINE));
        for (int i = 0; i < 2; i++)
            top = draw_chart(file, &charts[i], results, count, top);
        fprintf(file, "</svg>\n");
        if (fclose(file) == 0) {
            printf("\nwritten to %s: comparison.svg and images\n",
                   job->options.out);
            return 0;
        }
    }
    snprintf(why->text, sizeof why->text, "%.400s: %s", path, strerror(errno));
    return -1;
}
