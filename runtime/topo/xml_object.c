/* SPDX-License-Identifier: MIT */
/*
 * The attributes that hwloc trusts. hwloc up to 2.12 follows NULL pointers when
 * an object of a file lacks a set of CPUs or NUMA nodes, or has one that is not
 * spelled as one; files that were damaged on their way do. So each object is
 * looked at before hwloc sees it. Allocates nothing; fit for a fuzzer.
 */
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "topo/xml_file.h"

typedef struct text {
    const char *at;
    size_t length;
} text;

enum {
    SET_CPUS,
    SET_COMPLETE_CPUS,
    SET_NODES,
    SET_COMPLETE_NODES,
    SET_OTHER, /* allowed_..., online_... */
    SETS
};

static bool is(text t, const char *word)
{
    return t.length == strlen(word) && !memcmp(t.at, word, t.length);
}

/* "0x0000ffff,,0x1": words of up to 32 bits, empty ones are 0; "0xf...f" is an
 * infinite set, which nothing real has. */
static bool set_spelled(text t)
{
    const char *at = t.at;
    const char *end = t.at + t.length;

    if (at == end)
        return false;
    while (at < end) {
        int digits = 0;
        if (*at != ',') {
            if (end - at < 3 || at[0] != '0' || at[1] != 'x')
                return false;
            for (at += 2; at < end && *at != ','; at++, digits++)
                if (!strchr("0123456789abcdefABCDEF", *at) || digits == 8)
                    return false;
            if (!digits)
                return false;
        }
        if (at < end && ++at == end)
            return t.length > 1; /* a last word that is empty */
    }
    return true;
}

/* Takes name="value" off the front of a tag's inside. */
static bool attribute_take(text *inside, text *name, text *value)
{
    const char *at = inside->at;
    const char *end = at + inside->length;
    char quote;

    while (at < end && strchr(" \t\r\n", *at))
        at++;
    name->at = at;
    while (at < end && !strchr(" \t\r\n=", *at))
        at++;
    name->length = (size_t)(at - name->at);
    while (at < end && *at != '"' && *at != '\'')
        at++;
    if (at == end)
        return false;
    quote = *at++;
    value->at = at;
    while (at < end && *at != quote)
        at++;
    if (at == end)
        return false;
    value->length = (size_t)(at - value->at);
    inside->at = at + 1;
    inside->length = (size_t)(end - at - 1);
    return true;
}

static int set_index(text name)
{
    if (is(name, "cpuset"))
        return SET_CPUS;
    if (is(name, "complete_cpuset"))
        return SET_COMPLETE_CPUS;
    if (is(name, "nodeset"))
        return SET_NODES;
    if (is(name, "complete_nodeset"))
        return SET_COMPLETE_NODES;
    if (name.length > 6 &&
        (!memcmp(name.at + name.length - 6, "cpuset", 6) ||
         (name.length > 7 && !memcmp(name.at + name.length - 7, "nodeset", 7))))
        return SET_OTHER;
    return SETS;
}

/* Devices have no CPUs of their own. */
static bool without_sets(text type)
{
    return is(type, "Bridge") || is(type, "PCIDev") || is(type, "OSDev") ||
           is(type, "Misc");
}

wharf_status wi_xml_object_check(const char *path, const char *tag,
                                 size_t length, int *sets)
{
    text inside = {tag, length}, name, value, type = {"", 0};
    bool have[SETS] = {false};

    while (attribute_take(&inside, &name, &value)) {
        int set = set_index(name);
        if (is(name, "type"))
            type = value;
        if (set == SETS)
            continue;
        if (!set_spelled(value))
            return wi_fail(WHARF_ECONFIG, "write the file again with lstopo",
                           "%.100s is broken: an object has %.*s \"%.*s\"",
                           path, (int)name.length, name.at,
                           value.length > 40 ? 40 : (int)value.length,
                           value.at);
        have[set] = true;
    }
    if (without_sets(type))
        return WHARF_OK;
    if (!*sets)
        *sets = have[SET_NODES] || have[SET_COMPLETE_NODES]
                    ? WI_XML_ALL_SETS
                    : SET_COMPLETE_CPUS + 1;
    for (int set = SET_CPUS; set < WI_XML_ALL_SETS; set++)
        if (have[set] != (set < *sets))
            return wi_fail(WHARF_ECONFIG, "write the file again with lstopo",
                           "%.100s is broken: a %.*s lacks sets of CPUs or "
                           "NUMA nodes that others have",
                           path, type.length > 20 ? 20 : (int)type.length,
                           type.at);
    return WHARF_OK;
}
