/* SPDX-License-Identifier: MIT */
/* JSON as far as Wharf prints it. */
#ifndef WI_BASE_JSON_H
#define WI_BASE_JSON_H

#include <stdio.h>

/* A string with its quotes. Control characters and non-ASCII bytes come from
 * files and environments: each becomes one code point, so the output is JSON
 * whatever the input. */
void wi_json_string(FILE *file, const char *text);

#endif
