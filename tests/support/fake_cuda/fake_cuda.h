/* SPDX-License-Identifier: MIT */
/*
 * Controls of the fake driver, for tests: what a real driver has no call for.
 *
 * The library is loaded at run time, so each function is reached by dlsym; the
 * typedefs below spare the tests from spelling the types again. All functions
 * may be called from any thread and before cuInit.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Ruins this process's contexts, as an illegal access of a kernel does: every
 * later call answers CUDA_ERROR_ILLEGAL_ADDRESS. Not counted as a violation. */
typedef void fake_cuda_ruin_context_fn(void);
void fakeCudaRuinContext(void);

/* This process may end with live objects. */
typedef void fake_cuda_expect_leaks_fn(void);
void fakeCudaExpectLeaks(void);

/* Illegal accesses from now on are what the test wants: they ruin the context
 * but are no violation. */
typedef void fake_cuda_expect_faults_fn(void);
void fakeCudaExpectFaults(void);

/* Violations so far; take also forgets them, and copies the text of the last
 * one to `last` (if not NULL, cut to `bytes`). */
typedef long fake_cuda_violations_fn(void);
long fakeCudaViolations(void);
typedef long fake_cuda_take_violations_fn(char *last, size_t bytes);
long fakeCudaTakeViolations(char *last, size_t bytes);

/* Live objects of one kind in this process, by the name that the leak report
 * uses ("allocations", "handles", ...); NULL: of all kinds together; -1: no
 * such kind. */
typedef long fake_cuda_live_fn(const char *kind);
long fakeCudaLive(const char *kind);

/* Processes with a context on a device (ordinal of this process), all
 * processes of the job counted when WHARF_FAKE_STATE is set; -1: bad ordinal.
 */
typedef int fake_cuda_contexts_fn(int ordinal);
int fakeCudaContexts(int ordinal);

/* Calls of the driver made so far by this process (0: the library was loaded
 * and left alone). */
typedef long fake_cuda_calls_fn(void);
long fakeCudaCalls(void);

/* ---- Kernels ----------------------------------------------------------- */

/* One launch, as the CPU version of a kernel sees it. The whole grid is one
 * call. Pointers among the parameters are device addresses: never dereference
 * them, go through the functions below, which check the access as the GPU
 * would; after a fault they return 0 and the kernel has to return. */
typedef struct fake_cuda_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    const void *const *params; /* values, one pointer each */
    void *internal;
} fake_cuda_launch;

typedef void (*fake_cuda_kernel)(const fake_cuda_launch *launch);

/* Reads or writes `bytes` at a device address. 1: done, 0: fault. */
int fakeCudaLoad(const fake_cuda_launch *launch, uint64_t from, void *to,
                 size_t bytes);
int fakeCudaStore(const fake_cuda_launch *launch, uint64_t to, const void *from,
                  size_t bytes);
/* Device to device. */
int fakeCudaMove(const fake_cuda_launch *launch, uint64_t to, uint64_t from,
                 size_t bytes);

/* Words with system scope, acquire and release order. */
int fakeCudaLoad32(const fake_cuda_launch *launch, uint64_t from,
                   uint32_t *value);
int fakeCudaStore32(const fake_cuda_launch *launch, uint64_t to,
                    uint32_t value);
int fakeCudaAdd32(const fake_cuda_launch *launch, uint64_t to, uint32_t value,
                  uint32_t *before);

/* Waits until (int32_t)(word - value) >= 0, without burning the processor;
 * timeout_ns 0: for ever. 1: seen, 0: fault or context destroyed, -1: time is
 * up. */
int fakeCudaWait32(const fake_cuda_launch *launch, uint64_t at, uint32_t value,
                   uint64_t timeout_ns);
/* The same until word == value. */
int fakeCudaWaitEqual32(const fake_cuda_launch *launch, uint64_t at,
                        uint32_t value, uint64_t timeout_ns);

/* Adds a kernel by name, as if every module held it. `sizes`: bytes of each
 * of the `count` parameters; kept by reference. */
typedef void fake_cuda_register_kernel_fn(const char *name,
                                          fake_cuda_kernel kernel,
                                          const uint16_t *sizes, int count);
void fakeCudaRegisterKernel(const char *name, fake_cuda_kernel kernel,
                            const uint16_t *sizes, int count);

#endif
