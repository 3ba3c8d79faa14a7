/* SPDX-License-Identifier: MIT */
/* What the sub-commands of wharf-bench have in common: data that can be told
 * from any other, the end of a stream's work, time, progress. */
#ifndef WHARF_BENCH_DATA_H
#define WHARF_BENCH_DATA_H

#include "wharf_bench_report.h"

/* Collective: the largest of all ranks' values. */
double bench_slowest(double mine);

/* A step that this rank took by itself has failed: the others wait for it, so
 * the job ends, with the reason on stderr. */
void bench_or_abort(wharf_status status);

/* Collective: opens a node whose puts and gets go by "engine" or "kernel", or
 * "auto". The setting is put back afterwards. */
wharf_status bench_open_way(const char *way, wharf_node **node);

/* The largest of the sizes. */
uint64_t bench_largest(const struct bench_options *options);

/* Did a size only not fit? Then it is left out, with this thread's failure as
 * the reason; anything else ends the run. */
bool bench_too_large(wharf_status status, char failure[160]);

/* All work of the default stream is complete. The caller owns `event`. */
wharf_status bench_finish(wharf_event *event);

/* The word at `at` of what a rank writes for the serial-th time. */
uint64_t bench_word(uint64_t serial, int rank, uint64_t at);

/* Whole words of that, and wrong bytes in what should be. */
void bench_words_fill(void *words, uint64_t bytes, uint64_t serial, int rank);
uint64_t bench_words_wrong(const void *words, uint64_t bytes, uint64_t serial,
                           int rank);

/* Bytes of `got` that are not those of `want`. */
int bench_wrong_bytes(uint64_t got, uint64_t want);

/* With --spoil: changes one byte of a segment, which the next check has to
 * find. Local to the rank that checks; `event` is its own. */
wharf_status bench_spoil(const struct bench *bench, wharf_buffer *buffer,
                         int rank, uint64_t offset, wharf_event *event);

/* On a terminal: where the run is. `total` 0 wipes it away. */
void bench_progress(const struct bench *bench, const char *what, int done,
                    int total);

#endif
