/* SPDX-License-Identifier: MIT */
/* How the ranks of 02_shared_file fill a copy of a file and work on it: on the
 * CPU (02_shared_file_cpu.c) or on a GPU (02_shared_file_gpu.cu). */
#ifndef SHARED_FILE_H
#define SHARED_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <wharf/wharf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A run of bytes of a file. */
struct piece {
    uint64_t begin;
    uint64_t bytes;
};

/* What is computed of a piece; pieces are combined to that of the file. */
struct digest {
    uint64_t bytes;
    uint64_t histogram[256];
    uint32_t crc;
};

/* Called now and then with the bytes done so far of this rank's piece. */
typedef void (*shared_file_progress)(void *argument, uint64_t done);

/* What went wrong in one step on one rank; "" if nothing. */
struct failure {
    char text[512];
};

/*
 * The steps, on one kind of memory. `copy` is the start of the shared copy of
 * the whole file, as this rank sees it. All return when the step is complete
 * and other ranks may look, 0 or -1 with `why` filled.
 */
struct shared_file_work {
    const char *name;
    wharf_space space;

    /* Once, so that what is timed later is the work alone. */
    int (*prepare)(struct failure *why);

    /* Reads a piece of the file straight into its place in the copy. */
    int (*load)(int fd, const struct piece *piece, void *copy,
                shared_file_progress progress, void *argument,
                struct failure *why);

    /* Digests a piece of the copy, where it lies. */
    int (*digest)(const void *copy, const struct piece *piece,
                  struct digest *digest, shared_file_progress progress,
                  void *argument, struct failure *why);
};

extern const struct shared_file_work shared_file_cpu;

/* Not there (the address is NULL) in a program built without nvcc. */
extern const struct shared_file_work shared_file_gpu __attribute__((weak));

/* The part of `whole` bytes that is done by `index` of `count`: pieces start at
 * multiples of a page, the last ones may be empty. */
struct piece shared_file_piece(uint64_t whole, int index, int count);

/* pread(2) of the whole piece, or -1 with `why` filled. */
int shared_file_read(int fd, uint64_t offset, void *to, size_t bytes,
                     struct failure *why);

#ifdef __cplusplus
}
#endif

#endif
