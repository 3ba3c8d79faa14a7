/* SPDX-License-Identifier: MIT */
/* The one place where Wharf's version is written; CMake and pkg-config read it
 * here. */
#ifndef WHARF_VERSION_H
#define WHARF_VERSION_H

#define WHARF_VERSION_MAJOR 0
#define WHARF_VERSION_MINOR 1
#define WHARF_VERSION_PATCH 0

#define WHARF_VERSION_NUMBER                                                   \
    (WHARF_VERSION_MAJOR * 10000 + WHARF_VERSION_MINOR * 100 +                 \
     WHARF_VERSION_PATCH)

#endif
