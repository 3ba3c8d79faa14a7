/* SPDX-License-Identifier: MIT */
/* What 07_frame_filter prints. */
#include <inttypes.h>
#include <stdio.h>

#include "07_frame_filter.h"

void report_head(const struct job *job)
{
    const struct frame_format *f = &job->source.format;
    wharf_device device = WHARF_DEVICE_INIT;
    int side = 2 * job->filter_options.radius + 1;

    if (wharf_node_device(job->node, 0, &device) != WHARF_OK)
        device.gpu = -1;
    printf(
        "%d x %d pixels, %.2f MB a frame; Gaussian %d x %d by %d %ss%s%s%s\n",
        f->width, f->height, (double)f->bytes / 1e6, side, side, job->size,
        job->kind->name, job->kind->waits ? " (" : "",
        job->kind->waits ? device.name : "", job->kind->waits ? ")" : "");
    printf("%d frames held and checked, %d measured in each way, shared out "
           "among the ranks\n",
           job->source.frames, job->options.frames);
    printf("mapped frames: %s\n", job->tuned);
    printf("ring: %d slots in %s memory\n\n", job->options.slots,
           job->options.ring_in == WHARF_SPACE_HOST ? "host" : "device");
    printf("%-7s %-8s %10s %10s %10s %10s %7s %7s  %-8s %s\n", "way", "table",
           "min", "median", "p99", "rate",
           job->kind->waits ? "bus in" : "copy in",
           job->kind->waits ? "out" : "back", "crc", "wrong");
    printf("%-7s %-8s %10s %10s %10s %10s %7s %7s\n", "", "", "(us)", "(us)",
           "(us)", "(frame/s)", "(MB)", "(MB)");
}

void report_way(const struct way_result *r)
{
    const char *table = r->table ? "with" : "without";

    if (r->left_out[0] != '\0') {
        printf("%-7s %-8s left out: %s\n", way_name[r->way], table,
               r->left_out);
        return;
    }
    printf("%-7s %-8s %10.1f %10.1f %10.1f %10.1f %7.2f %7.2f  %08" PRIx32
           " %d of %d\n",
           way_name[r->way], table, r->least, r->median, r->p99, r->rate,
           (double)r->traffic.in / 1e6, (double)r->traffic.out / 1e6, r->crc,
           r->wrong, r->checked);
    fflush(stdout);
}

static const struct way_result *find(const struct way_result *results,
                                     int count, enum way way, int table)
{
    for (int i = 0; i < count; i++)
        if (results[i].way == way && results[i].table == table &&
            results[i].left_out[0] == '\0')
            return &results[i];
    return NULL;
}

/* Latencies only of what waits for each frame; a ring is for throughput. */
void report_ratio(const struct way_result *results, int count)
{
    for (int table = 0; table < 2; table++) {
        const struct way_result *copy = find(results, count, WAY_COPY, table);

        for (int way = WAY_MAPPED; way < WAYS && copy != NULL; way++) {
            const struct way_result *r =
                find(results, count, (enum way)way, table);

            if (r != NULL && way == WAY_RING)
                printf("ratio %s : copy, %s table: rate %.2f\n", way_name[way],
                       table ? "with" : "without", r->rate / copy->rate);
            else if (r != NULL)
                printf("ratio copy : %s, %s table: latency %.2f\n",
                       way_name[way], table ? "with" : "without",
                       copy->median / r->median);
        }
    }
}

void report_ends(const struct end_result ends[ENDS])
{
    static const char *const name[ENDS] = {"stream", "event", "event, asleep",
                                           "device"};

    printf("\nthe end of a mapped frame, without table, known by\n");
    printf("%-16s %10s %10s %14s\n", "", "median", "p99", "CPU a frame");
    printf("%-16s %10s %10s %14s\n", "", "(us)", "(us)", "(us)");
    for (int i = 0; i < ENDS; i++)
        printf("%-16s %10.1f %10.1f %14.1f\n", name[i], ends[i].median,
               ends[i].p99, ends[i].busy);
}
