/* SPDX-License-Identifier: MIT */
/*
 * Machines that nobody here owns, written as hwloc XML: the tests' own
 * topologies. Each is made from a short description of its sockets, NUMA nodes,
 * distances and GPUs.
 */
#ifndef TOPO_GEN_H
#define TOPO_GEN_H

#include <stddef.h>
#include <stdint.h>

#include "wharf/topo.h"

/* The shapes, by number from 0; NULL past the last. */
const char *t_shape_name(int index);
const char *t_shape_about(int index);

/* XML of a shape, to be given to free(3); NULL if there is no such shape. */
char *t_shape_xml(const char *name);

/* A file for wharf_topo_load that holds `length` bytes of text and vanishes
 * with the process. `path` gets its name. Returns the descriptor. */
int t_file(const char *text, size_t length, char path[64]);

/* Loads XML text; checks that the answer is as expected. NULL unless OK. */
wharf_topo *t_text_load(const char *text, size_t length, wharf_status expected);

wharf_topo *t_shape_load(const char *name);

/* Numbers that look random and are the same in every run; state is not 0. */
uint64_t t_random(uint64_t *state);
int t_below(uint64_t *state, int limit);

#endif
