/* SPDX-License-Identifier: MIT */
/* See the header. */
#include "wharf_bench_data.h"

#include <stdlib.h>
#include <string.h>

double bench_slowest(double mine)
{
    double most = 0;

    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

void bench_or_abort(wharf_status status)
{
    if (status == WHARF_OK)
        return;
    tool_report("wharf-bench");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

wharf_status bench_open_way(const char *way, wharf_node **node)
{
    const char *before = getenv("WHARF_COPY");
    char *kept = before == NULL ? NULL : strdup(before);
    wharf_status status;

    setenv("WHARF_COPY", way, 1);
    status = wharf_node_open(MPI_COMM_WORLD, NULL, node);
    if (kept != NULL)
        setenv("WHARF_COPY", kept, 1);
    else
        unsetenv("WHARF_COPY");
    free(kept);
    return status;
}

uint64_t bench_largest(const struct bench_options *options)
{
    uint64_t most = 0;

    for (int i = 0; i < options->size_count; i++)
        most = options->sizes[i] > most ? options->sizes[i] : most;
    return most;
}

bool bench_too_large(wharf_status status, char failure[160])
{
    wharf_error error;

    if (status != WHARF_ENOMEM && status != WHARF_EDEVMEM &&
        status != WHARF_EARG)
        return false;
    wharf_last_error(&error);
    snprintf(failure, 160, "%.159s", error.cause);
    return true;
}

wharf_status bench_finish(wharf_event *event)
{
    uint64_t number = 0;
    wharf_status status = wharf_event_record(event, NULL, &number);

    return status == WHARF_OK ? wharf_event_synchronize(event, number, 0)
                              : status;
}

uint64_t bench_word(uint64_t serial, int rank, uint64_t at)
{
    uint64_t x = (serial << 44) ^ ((uint64_t)(unsigned)(rank + 1) << 33) ^ at;

    /* An odd factor and a shift: one word is no part of another's pattern. */
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

void bench_words_fill(void *words, uint64_t bytes, uint64_t serial, int rank)
{
    char *at = words;

    for (uint64_t i = 0; i < bytes / 8; i++) {
        uint64_t word = bench_word(serial, rank, i);

        memcpy(at + i * 8, &word, 8);
    }
}

int bench_wrong_bytes(uint64_t got, uint64_t want)
{
    uint64_t difference = got ^ want;
    int wrong = 0;

    for (; difference != 0; difference >>= 8)
        wrong += (difference & 0xff) != 0;
    return wrong;
}

uint64_t bench_words_wrong(const void *words, uint64_t bytes, uint64_t serial,
                           int rank)
{
    const char *at = words;
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < bytes / 8; i++) {
        uint64_t word;

        memcpy(&word, at + i * 8, 8);
        wrong += (uint64_t)bench_wrong_bytes(word, bench_word(serial, rank, i));
    }
    return wrong;
}

wharf_status bench_spoil(const struct bench *bench, wharf_buffer *buffer,
                         int rank, uint64_t offset, wharf_event *event)
{
    unsigned char byte = 0;
    wharf_status status;

    if (!bench->options.spoil)
        return WHARF_OK;
    status = wharf_get(buffer, rank, (size_t)offset, &byte, 1, NULL);
    if (status == WHARF_OK)
        status = bench_finish(event);
    byte ^= 1;
    if (status == WHARF_OK)
        status = wharf_put(buffer, rank, (size_t)offset, &byte, 1, NULL);
    return status == WHARF_OK ? bench_finish(event) : status;
}

void bench_progress(const struct bench *bench, const char *what, int done,
                    int total)
{
    if (!bench->progress)
        return;
    if (total == 0)
        fprintf(stderr, "\r%60s\r", "");
    else
        fprintf(stderr, "\r%-60.60s\r%s, %d of %d", "", what, done, total);
    fflush(stderr);
}
