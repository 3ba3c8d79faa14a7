/* SPDX-License-Identifier: MIT */
/*
 * How much host memory can be had. The kernel gives out addresses of shared
 * memory without looking and kills somebody later, so the question is asked
 * before. What the kernel does not tell counts as unlimited.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/host_memory.h"

#define UNLIMITED UINT64_MAX

/* The number that a text starts with, after spaces. */
static bool number_parse(const char *text, uint64_t *value)
{
    char *end;
    unsigned long long got;

    text += strspn(text, " ");
    errno = 0;
    got = strtoull(text, &end, 10);
    if (end == text || errno != 0)
        return false;
    *value = got;
    return true;
}

/* A value of /proc/meminfo in bytes. */
static uint64_t meminfo_read(const char *key)
{
    FILE *file = fopen("/proc/meminfo", "re");
    size_t length = strlen(key);
    uint64_t value = UNLIMITED;
    char line[128];

    if (!file)
        return UNLIMITED;
    while (fgets(line, sizeof line, file)) {
        uint64_t kib = 0;

        if (strncmp(line, key, length) == 0 && line[length] == ':' &&
            number_parse(line + length + 1, &kib)) {
            value = kib * 1024;
            break;
        }
    }
    fclose(file);
    return value;
}

/* A file that holds one number; "max" and everything odd is unlimited. */
static uint64_t number_read(const char *directory, const char *name)
{
    uint64_t value = UNLIMITED;
    char path[640], line[64];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "re");
    if (!file)
        return UNLIMITED;
    if (!fgets(line, sizeof line, file) || !number_parse(line, &value))
        value = UNLIMITED;
    fclose(file);
    return value;
}

/* File pages count as used and are given up when memory is needed. */
static uint64_t reclaimable_read(const char *directory)
{
    uint64_t value = 0;
    char path[640], line[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/memory.stat", directory);
    file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        const char *space = strchr(line, ' ');
        uint64_t bytes;

        if ((strncmp(line, "active_file ", 12) == 0 ||
             strncmp(line, "inactive_file ", 14) == 0) &&
            number_parse(space, &bytes))
            value += bytes;
    }
    fclose(file);
    return value;
}

static uint64_t group_left(const char *directory, const char *limit_name,
                           const char *used_name)
{
    uint64_t limit = number_read(directory, limit_name);
    uint64_t used = number_read(directory, used_name);
    uint64_t spare;

    if (limit == UNLIMITED || used == UNLIMITED)
        return UNLIMITED;
    spare = reclaimable_read(directory);
    used -= used < spare ? used : spare;
    return limit > used ? limit - used : 0;
}

/* The control group of this process and those around it: each can have a
 * limit. In a container the outermost visible one has the container's. */
static uint64_t groups_left(const char *root, char *path,
                            const char *limit_name, const char *used_name)
{
    uint64_t least = UNLIMITED;
    char directory[576];

    for (;;) {
        char *slash = strrchr(path, '/');
        uint64_t left;

        snprintf(directory, sizeof directory, "%s%s", root, path);
        left = group_left(directory, limit_name, used_name);
        if (left < least)
            least = left;
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static uint64_t cgroup_left(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    uint64_t least = UNLIMITED;
    char line[512];

    if (!file)
        return UNLIMITED;
    while (fgets(line, sizeof line, file)) {
        uint64_t left = UNLIMITED;
        char *path;

        line[strcspn(line, "\n")] = '\0';
        path = strstr(line, ":/");
        if (strncmp(line, "0::/", 4) == 0)
            left = groups_left("/sys/fs/cgroup", path + 1, "memory.max",
                               "memory.current");
        else if (path && strstr(line, ":memory:/"))
            left =
                groups_left("/sys/fs/cgroup/memory", path + 1,
                            "memory.limit_in_bytes", "memory.usage_in_bytes");
        if (left < least)
            least = left;
    }
    fclose(file);
    return least;
}

uint64_t wi_host_memory_total(void)
{
    uint64_t total = meminfo_read("MemTotal");

    return total == UNLIMITED ? 0 : total;
}

wharf_status wi_host_memory_fits(size_t bytes)
{
    uint64_t machine = meminfo_read("MemAvailable");
    uint64_t group;

    if (bytes > machine)
        return wi_fail(WHARF_ENOMEM, "ask for less, or end other programs",
                       "%zu bytes of host memory were asked for and %" PRIu64
                       " are available",
                       bytes, machine);
    group = cgroup_left();
    if (bytes > group)
        return wi_fail(WHARF_ENOMEM,
                       "ask for less, or raise the memory limit of the job's "
                       "control group",
                       "%zu bytes of host memory were asked for and the "
                       "control group leaves %" PRIu64,
                       bytes, group);
    return WHARF_OK;
}
