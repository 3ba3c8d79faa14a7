/* SPDX-License-Identifier: MIT */
/* What 05_halo_2d reads from its command line, and what it prints and draws. */
#ifndef HALO_2D_SHOW_H
#define HALO_2D_SHOW_H

#include "05_halo_2d.h"

enum { HALO_SIZES_MOST = 8 };

struct halo_options {
    struct halo_settings settings;
    int rows[HALO_SIZES_MOST], columns[HALO_SIZES_MOST];
    int sizes;
    int iterations;
    int norm_every;
    int repeat;
    double tolerance;    /* 0: all iterations are made */
    bool all_variants;   /* of the GPU kernel, one after the other */
    bool alone;          /* rank 0 solves it alone first */
    const char *png;     /* NULL: no picture */
    const char *publish; /* name for viewers; NULL: none */
    bool help;
};

/* Fills the options; false after a sentence on stderr (rank 0 only). */
bool halo_options_read(int argc, char **argv, int rank,
                       struct halo_options *options);

/* One run, of all ranks together. */
struct halo_result {
    int rows, columns, ranks;
    long iterations; /* made */
    double seconds;  /* of the slowest rank */
    double residual; /* root of the sum of squared changes of the last step */
    double error;    /* from the known field; -1: none is known */
    uint32_t crc;    /* CRC-32 of the field, row by row, as it lies in memory */
    double efficient; /* of this many ranks against one; 0: not measured */
};

void halo_show_head(const struct halo_solver *solver);
void halo_show(const struct halo_result *result);

/* A picture of 1024 x 1024 points at most. Every rank colours the lines that
 * are of its rows; put together, they are for halo_picture_write. */
struct halo_picture {
    int rows, columns; /* of the picture */
    unsigned char *points;
};

bool halo_picture_size(const struct halo_problem *problem,
                       struct halo_picture *picture);
/* The grid's row that row `line` of the picture shows, and so for columns. */
int halo_picture_row(const struct halo_problem *problem,
                     const struct halo_picture *picture, int line);
/* Colours one line from a row of the grid. */
void halo_picture_line(const struct halo_problem *problem,
                       const struct halo_picture *picture, const float *row,
                       unsigned char *line);
/* 0, or -1 with `why` filled. */
int halo_picture_write(const char *path, const struct halo_picture *picture,
                       struct failure *why);

#endif
