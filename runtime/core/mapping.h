/* SPDX-License-Identifier: MIT */
/* Steps of making a mapping, shared by the mapping_*.c files alone. */
#ifndef WI_CORE_MAPPING_H
#define WI_CORE_MAPPING_H

#include "core/core.h"

/* Collective (agrees): reserves the mapping's address range, at the same
 * address on every rank where the flags ask for it. */
wharf_status wi_mapping_reserve(wi_mapping *mapping, wi_deadline deadline);

/* Is a block's mapping on the calling rank read-only? */
bool wi_mapping_write_protected(const wi_mapping *mapping, int block);

#endif
