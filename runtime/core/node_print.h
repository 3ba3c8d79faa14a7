/* SPDX-License-Identifier: MIT */
/* The part of wharf_node_print that is about GPUs, whatever the number of
 * ranks: who shares one, how they reach one another. */
#ifndef WI_CORE_NODE_PRINT_H
#define WI_CORE_NODE_PRINT_H

#include <stdio.h>

#include "core/core.h"

/* Nothing for a node without GPUs. */
void wi_print_gpus_text(const wharf_node *node, FILE *file);

/* Members "sharing" and "gpu_links" of the node's object, each after a comma;
 * empty lists for a node without GPUs. */
void wi_print_gpus_json(const wharf_node *node, FILE *file);

#endif
