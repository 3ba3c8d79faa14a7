/* SPDX-License-Identifier: MIT */
/* A topology file before any XML library sees it: read whole, and refused when
 * it is not what hwloc writes. */
#ifndef WI_TOPO_XML_FILE_H
#define WI_TOPO_XML_FILE_H

#include <stddef.h>

#include "wharf/status.h"

/* The largest machines recorded give 3 MiB; hwloc needs some ten times the
 * size of the file. */
#define WI_XML_BYTES (64 << 20)
#define WI_XML_DEPTH 128
#define WI_XML_ELEMENTS 1000000

/* *text ends in a NUL that *length does not count; give back by wi_free. */
wharf_status wi_xml_read(const char *path, char **text, size_t *length);

/*
 * Well nested, not too deep nor too long, root element <topology>, no entities
 * and no document type of its own. WHARF_ECONFIG or WHARF_ELIMIT otherwise;
 * the cause names `path`. Objects are looked at by wi_xml_object_check, the
 * rest is left to hwloc.
 */
wharf_status wi_xml_check(const char *path, const char *text, size_t length);

/*
 * The same for one <object>: `tag` is what is between its name and its '>'.
 * *sets is how many of its sets every object must have: WI_XML_ALL_SETS, or 0
 * before the first object of a file of format 1, which then decides, since
 * such a file may know no NUMA nodes.
 */
#define WI_XML_ALL_SETS 4
wharf_status wi_xml_object_check(const char *path, const char *tag,
                                 size_t length, int *sets);

#endif
