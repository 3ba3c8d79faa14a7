/* SPDX-License-Identifier: MIT */
/* What the workers of 09_faulty_worker do with the numbers that their rank
 * lends: on the CPU (09_faulty_worker_cpu.c) or on a GPU
 * (09_faulty_worker_gpu.cu). */
#ifndef FAULTY_WORKER_H
#define FAULTY_WORKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns 0, or the error number of CUDA with its name in *what. */
struct faulty_work {
    const char *name;
    /* numbers[i] = value_of(seed, first + i) */
    int (*fill)(uint64_t *numbers, size_t count, uint64_t seed, uint64_t first,
                const char **what);
    int (*sum)(const uint64_t *numbers, size_t count, uint64_t *sum,
               const char **what);
    /* An access to where nothing is. */
    int (*fault)(const char **what);
};

extern const struct faulty_work faulty_cpu;

/* Not there (the address is NULL) in a program built without nvcc. */
extern const struct faulty_work faulty_gpu __attribute__((weak));

#ifdef __CUDACC__
#define FAULTY_BOTH __host__ __device__
#else
#define FAULTY_BOTH
#endif

FAULTY_BOTH static inline uint64_t value_of(uint64_t seed, uint64_t index)
{
    return (index + 1) * (seed + 3) % 1000003;
}

#ifdef __cplusplus
}
#endif

#endif
