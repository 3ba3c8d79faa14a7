/* SPDX-License-Identifier: MIT */
/* What 02_shared_file prints: progress, one line a file, the map. */
#ifndef SHARED_FILE_SHOW_H
#define SHARED_FILE_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "02_shared_file.h"

/* Bytes of one rank's line of the map. */
#define LINE 256

struct result {
    const char *path;
    uint64_t size;
    uint32_t crc;
    uint64_t histogram[256];
    double attach, load, digest; /* seconds */
};

/* A bar on the terminal; silent where there is none, and for small files. */
struct bar {
    bool on;
    const char *what;
    uint64_t total;
    double shown; /* when, in seconds */
    bool dirty;   /* something is on the line */
};

void bar_init(struct bar *bar, bool wanted);
void bar_start(struct bar *bar, const char *what, uint64_t total);
/* A shared_file_progress; `argument` is the bar. */
void bar_show(void *argument, uint64_t done);
void bar_end(struct bar *bar);

void show_head(void);
void show_result(const struct result *result);
void show_summary(const char *lines, int ranks, int copies, uint64_t bytes,
                  const char *worker);

/* CRC-32 of a part of a file by reading it; 0, or -1 with `why` filled. */
int shared_file_crc(int fd, const struct piece *piece, uint32_t *crc,
                    shared_file_progress progress, void *argument,
                    struct failure *why);

#endif
