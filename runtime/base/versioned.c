/* SPDX-License-Identifier: MIT */
/* Public structs that grow; see versioned.h. */
#include "base/versioned.h"

#include <string.h>

#include "base/error.h"

static wharf_status size_of(const void *object, const char *what, size_t known,
                            size_t *size)
{
    if (object)
        memcpy(size, object, sizeof *size);
    if (!object || *size <= sizeof *size)
        return wi_fail(WHARF_EARG,
                       "start from its _INIT macro, which sets struct_size",
                       object ? "%s has a struct_size of %zu, here it is %zu"
                              : "%s is NULL",
                       what, object ? *size : 0, known);
    return WHARF_OK;
}

wharf_status wi_versioned_read(void *to, size_t known, const void *from,
                               const char *what)
{
    size_t size = 0;
    wharf_status status = size_of(from, what, known, &size);
    if (status != WHARF_OK)
        return status;
    const unsigned char *bytes = from;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return wi_fail(WHARF_EARG, "use the library that the header is of",
                           "%s has a struct_size of %zu and uses fields that "
                           "this library, which knows %zu bytes, does not have",
                           what, size, known);
    size_t skip = sizeof size; /* to's own struct_size stays */
    memcpy((unsigned char *)to + skip, bytes + skip,
           (size < known ? size : known) - skip);
    return WHARF_OK;
}

wharf_status wi_versioned_write(void *to, const void *from, size_t known,
                                const char *what)
{
    size_t size = 0;
    wharf_status status = size_of(to, what, known, &size);
    if (status != WHARF_OK)
        return status;
    size_t skip = sizeof size;
    memcpy((unsigned char *)to + skip, (const unsigned char *)from + skip,
           (size < known ? size : known) - skip);
    return WHARF_OK;
}
