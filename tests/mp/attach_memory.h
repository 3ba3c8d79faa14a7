/* SPDX-License-Identifier: MIT */
/*
 * What the tests of wharf_buffer_attach_memory share: attaching memory of the
 * ranks' own, filling it and looking at it from every side. Patterns differ by
 * seed, rank and position.
 */
#ifndef ATTACH_MEMORY_H
#define ATTACH_MEMORY_H

#include "t_group.h"
#include "t_memory.h"

#define STAGE WHARF_BUFFER_STAGE_ALLOWED
#define EXPOSE WHARF_BUFFER_EXPOSE_NEIGHBOURS

/* With flags; the second form must succeed. */
wharf_status t_mine_attach(wharf_node *node, void *pointer, size_t size,
                           unsigned flags, wharf_buffer **buffer);
wharf_buffer *t_mine_attached(wharf_node *node, void *pointer, size_t size,
                              unsigned flags);

/* As t_segment, for memory of any alignment. */
char *t_mine_segment(const wharf_buffer *buffer, int rank, size_t *size);

/* Is it shared without a mirror? */
bool t_mine_direct(t_kind kind);

/* A kind that the backend has, and that is shared directly if any is. */
t_kind t_mine_usual(void);

/* Seed of a rank's pattern. */
uint64_t t_mine_seed(uint64_t seed, int rank);

void t_mine_fill(const wharf_node *node, const t_memory *m, uint64_t seed);
void t_mine_check(const wharf_node *node, const t_memory *m, uint64_t seed);
/* All ranks' segments, as this rank sees them; `what` names the case. */
void t_mine_check_all(const wharf_node *node, const wharf_buffer *buffer,
                      uint64_t seed, const char *what);
void t_mine_check_info(const wharf_buffer *buffer, int rank, t_kind kind,
                       size_t size);

/* All that a buffer of this memory must do, on every rank: it was filled with
 * `seed` before the attach; afterwards it holds seed + 2. */
void t_mine_use(wharf_node *node, wharf_buffer *buffer, const t_memory *m,
                uint64_t seed);

#endif
