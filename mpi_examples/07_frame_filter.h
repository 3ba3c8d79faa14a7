/* SPDX-License-Identifier: MIT */
/* What the parts of 07_frame_filter share: the job (07_frame_filter.c), the
 * ways of running it (07_ways.c), and what is printed (07_report.c). */
#ifndef FRAME_FILTER_H
#define FRAME_FILTER_H

#include <stdbool.h>
#include <stdint.h>
#include <wharf/wharf.h>

#include "07_filter.h"
#include "07_frames.h"

struct job_options {
    const char *out; /* directory for images and the plot, NULL: none */
    int frames;      /* measured in each way */
    int slots;       /* of the ring */
    bool way[WAYS];
    bool table[2];       /* [0] without a table, [1] with it */
    wharf_space ring_in; /* where the ring's slots are */
};

struct job {
    int rank, size; /* in MPI_COMM_WORLD, and in the node */
    wharf_node *node;
    struct job_options options;
    struct frame_source source; /* `frames` of it are held in memory */
    struct filter_options filter_options;
    const struct filter_kind *kind;
    struct filter *filter;

    /* Shared host memory: rank 0 has all but the results. */
    wharf_buffer *buffer;
    uint8_t *film;      /* the source's frames, one after the other */
    uint8_t *table;     /* one frame's bytes */
    double *handed;     /* when a ring's frames were handed over */
    uint8_t *result[2]; /* of this rank */
    char tuned[96];     /* how mapped frames are filtered */

    uint32_t *expected[2]; /* checksum of each frame's result by table, as
                              filter_frame makes it */
    bool saved;            /* what is to be kept of the results is */
};

/* One way, measured over all ranks; complete on rank 0. Times in us. */
struct way_result {
    enum way way;
    int table;
    char left_out[160]; /* why it was not measured, or "" */
    double least, median, p99;
    double rate; /* frames a second, all ranks together */
    struct filter_traffic traffic;
    uint32_t crc; /* over the checksums of all results */
    int checked, wrong;
};

/* The host's wait for one frame, by each way of knowing its end; us. */
struct end_result {
    double median, p99;
    double busy; /* of the thread, out of the median */
};

extern const char *const way_name[WAYS];

/* Everybody fails when one rank fails, so that nobody waits in a collective
 * for a rank that has given up. Rank 0 prints the first failure. */
bool agree(const struct job *job, const char *what, const struct failure *mine);

/* A failed Wharf call in words; its record names the rank and the remedy. */
void wharf_failure(wharf_status status, struct failure *why);

/* Collective, each: false if a rank failed, which was printed. */
bool way_run(struct job *job, struct way_result *result);
bool ends_run(struct job *job, struct end_result ends[ENDS]);

/* Rank 0. */
void report_head(const struct job *job);
void report_way(const struct way_result *result);
void report_ratio(const struct way_result *results, int count);
void report_ends(const struct end_result ends[ENDS]);

/* Rank 0: writes options.out/comparison.svg; 0, or -1 with `why` filled. */
int plot_write(const struct job *job, const struct way_result *results,
               int count, struct failure *why);

#endif
