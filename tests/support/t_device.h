/* SPDX-License-Identifier: MIT */
/*
 * Memory, streams and contexts for tests, without the CUDA toolkit.
 *
 * On the CUDA backend (a real driver or the fake one) these calls go to plain
 * driver entry points found at run time; on the host backend they are memcpy
 * and the like. So one test source runs as mp, fake and gpu.
 *
 * Every call checks itself: what cannot fail in a right program ends the test
 * with the name of the driver call and its result.
 */
#ifndef T_DEVICE_H
#define T_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wharf/wharf.h>

/* Synchronous copies. `node` says where the memory is that is called "to" in a
 * write or fill and "from" in a read or check: on the node's devices, or plain
 * host memory if it is NULL (or of the host backend). */
void t_dev_write(const wharf_node *node, void *to, const void *from,
                 size_t bytes);
void t_dev_read(const wharf_node *node, void *to, const void *from,
                size_t bytes);
void t_dev_fill(const wharf_node *node, void *to, unsigned char value,
                size_t bytes);

/*
 * A pattern in which every byte depends on `seed` and on its own offset, so
 * that a wrong segment, a wrong offset and old contents all show. check gives
 * the first wrong offset, or -1 if every byte is right.
 */
unsigned char t_pattern_byte(uint64_t seed, size_t offset);
void t_dev_fill_pattern(const wharf_node *node, void *to, size_t bytes,
                        uint64_t seed);
long long t_dev_check_pattern(const wharf_node *node, const void *from,
                              size_t bytes, uint64_t seed);

/* First byte that is not `value`, or -1. */
long long t_dev_check_value(const wharf_node *node, const void *from,
                            size_t bytes, unsigned char value);

/* Streams; NULL on the host backend, where everything is complete at once. */
wharf_stream t_stream_create(const wharf_node *node);
void t_stream_destroy(const wharf_node *node, wharf_stream stream);
void t_stream_sync(const wharf_node *node, wharf_stream stream);
/* Copies between two pieces of a buffer's memory. */
void t_stream_copy(const wharf_node *node, wharf_stream stream, void *to,
                   const void *from, size_t bytes);
void t_stream_fill(const wharf_node *node, wharf_stream stream, void *to,
                   unsigned char value, size_t bytes);

/* The calling thread's current context as an opaque value; 0: none (always so
 * on the host backend). */
uintptr_t t_context_current(const wharf_node *node);
void t_context_set(const wharf_node *node, uintptr_t context);

/* A stream of another device than the current one, and its end; NULL where
 * this process sees only one. The current context stays what it is. */
wharf_stream t_foreign_stream_create(const wharf_node *node);
void t_foreign_stream_destroy(const wharf_node *node, wharf_stream stream);

/* Ordinal of the current context's device; -1 without one. */
int t_context_device(const wharf_node *node);

/* Whether this process has a primary context on the device of an ordinal. */
bool t_context_active(const wharf_node *node, int ordinal);

/* Devices that this process sees; 0 on the host backend. */
int t_device_count(const wharf_node *node);

/*
 * UUIDs ("GPU-...") of the devices that the driver shows, in its order; their
 * number, 0 without a driver. A child asks, so the caller's driver stays
 * untouched and its masks can still be set. Call it before MPI is started.
 */
int t_driver_list(char (*uuids)[48], int most);

/* Whether the driver library is loaded in this process. */
bool t_driver_loaded(void);

/* Ruins the current context for good, as a kernel with a bad address does;
 * gives the driver's answer to the next call, which is not 0. */
int t_driver_ruin(const wharf_node *node);

/* Destroys the current context, a primary one, as cudaDeviceReset does; then,
 * with `again`, makes the next one in its place and current, as any later call
 * of the runtime does. */
void t_driver_reset(const wharf_node *node, bool again);

/* Writes to device memory that may be protected; what the driver answered, 0
 * if the write went through. A refused write may ruin the context. */
int t_driver_try_fill(const wharf_node *node, void *to, unsigned char value,
                      size_t bytes);

/* Tells the fake driver, if it is the one, that this process may end with live
 * objects: a test of exactly that. */
void t_driver_expect_leaks(void);

/* Free device memory as the driver tells it, 0 on the host backend. */
size_t t_device_free_bytes(const wharf_node *node);

#endif
