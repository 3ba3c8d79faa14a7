/* SPDX-License-Identifier: MIT */
/*
 * The public, local side of status.h, all of it made from WHARF_STATUS_LIST,
 * and the version of the library.
 */
#include "wharf/status.h"

#include <stdio.h>

#include "base/error.h"

/* Sizes that status.h promises: 512 bytes hold every formatted record. */
_Static_assert(sizeof(((wharf_error *)0)->call) +
                       sizeof(((wharf_error *)0)->cause) +
                       sizeof(((wharf_error *)0)->remedy) + 80 <=
                   512,
               "a formatted record must fit into 512 bytes");

int wharf_version(void)
{
    return WHARF_VERSION_NUMBER;
}

const char *wharf_status_name(wharf_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text)                                        \
    case WHARF_##name:                                                         \
        return "WHARF_" #name;
        WHARF_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "WHARF_UNKNOWN";
}

const char *wharf_status_text(wharf_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text)                                        \
    case WHARF_##name:                                                         \
        return text;
        WHARF_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

static int status_known(wharf_status status)
{
    switch (status) {
#define STATUS_KNOWN(name, number, text) case WHARF_##name:
        WHARF_STATUS_LIST(STATUS_KNOWN)
#undef STATUS_KNOWN
        return 1;
    }
    return 0;
}

wharf_scope wharf_status_scope(wharf_status status)
{
    int number = (int)status;

    /* Unknown numbers may come from a newer Wharf: assume the worst. */
    if (!status_known(status))
        return WHARF_SCOPE_NODE;
    if (number == 0)
        return WHARF_SCOPE_NONE;
    if (number < 20)
        return WHARF_SCOPE_CALL;
    if (number < 40)
        return WHARF_SCOPE_OBJECT;
    return WHARF_SCOPE_NODE;
}

void wharf_last_error(wharf_error *error)
{
    if (error)
        *error = *wi_error_record();
}

const char *wharf_error_format(const wharf_error *error, char *text,
                               size_t capacity)
{
    const wharf_error *e = error;
    char rank[24] = "";
    const char *cause;

    if (!text)
        return "";
    if (capacity == 0)
        return text;
    text[0] = '\0';
    if (!e)
        return text;
    if (e->rank >= 0)
        snprintf(rank, sizeof rank, "rank %d: ", e->rank);
    cause = e->cause[0] ? e->cause : wharf_status_text(e->status);
    /* Precisions, because a record may come from a caller that did not end its
     * strings. */
    snprintf(text, capacity, "%s%.*s%s%s: %.*s%s%.*s", rank,
             (int)sizeof e->call, e->call, e->call[0] ? ": " : "",
             wharf_status_name(e->status), (int)sizeof e->cause, cause,
             e->remedy[0] ? "; " : "", (int)sizeof e->remedy, e->remedy);
    return text;
}
