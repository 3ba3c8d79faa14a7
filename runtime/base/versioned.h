/* SPDX-License-Identifier: MIT */
/*
 * Public structs that grow: each starts with struct_size, so a program built
 * against an older or a newer header works with this library.
 */
#ifndef WI_BASE_VERSIONED_H
#define WI_BASE_VERSIONED_H

#include <stddef.h>

#include "wharf/status.h"

/*
 * Reads an options struct of the caller. `to` holds the defaults and is
 * `known` bytes long; what the caller's struct has of it is copied over. A
 * longer struct is fine as long as the part that this library does not know is
 * zero. WHARF_EARG otherwise; `what` names the argument.
 */
wharf_status wi_versioned_read(void *to, size_t known, const void *from,
                               const char *what);

/*
 * Fills an output struct of the caller: as much of `from` (`known` bytes) as
 * its struct_size allows, which stays as the caller set it. WHARF_EARG for
 * NULL or a size that holds nothing.
 */
wharf_status wi_versioned_write(void *to, const void *from, size_t known,
                                const char *what);

#endif
