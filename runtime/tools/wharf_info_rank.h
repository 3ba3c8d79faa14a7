/* SPDX-License-Identifier: MIT */
/* What wharf-info adds to the description of a node: one object a rank, and
 * where each runs. */
#ifndef WHARF_INFO_RANK_H
#define WHARF_INFO_RANK_H

#include <stdio.h>

#include "tool_text.h"
#include "wharf/wharf.h"

/* The calling rank as a JSON object without newline at the end. */
wharf_status info_rank_json(const wharf_node *node,
                            const struct tool_machine *machine, int world_rank,
                            FILE *file);

/* The CPUs of a node's ranks: `count` texts, one after the other, each ended by
 * a zero byte. Neighbours with the same ones share a line. */
void info_cpus_text(const char *cpus, int count, FILE *file);

#endif
