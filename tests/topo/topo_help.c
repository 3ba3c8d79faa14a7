/* SPDX-License-Identifier: MIT */
/* What the tests of topologies have in common; see topo_gen.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t_test.h"
#include "topo_gen.h"

int t_file(const char *text, size_t length, char path[64])
{
    int fd = memfd_create("topology.xml", MFD_CLOEXEC);

    T_CHECK(fd >= 0);
    for (size_t put = 0; put < length;) {
        ssize_t more = write(fd, text + put, length - put);
        T_CHECK(more > 0);
        put += (size_t)more;
    }
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

wharf_topo *t_text_load(const char *text, size_t length, wharf_status expected)
{
    wharf_topo *topo = NULL;
    char path[64];
    int fd = t_file(text, length, path);

    T_STATUS(expected, wharf_topo_load(path, &topo));
    T_CHECK((topo != NULL) == (expected == WHARF_OK));
    close(fd);
    return topo;
}

wharf_topo *t_shape_load(const char *name)
{
    char *text = t_shape_xml(name);
    wharf_topo *topo;

    T_CHECK(text != NULL);
    topo = t_text_load(text, strlen(text), WHARF_OK);
    free(text);
    return topo;
}

/* xorshift64*: the same numbers on every machine. */
uint64_t t_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

int t_below(uint64_t *state, int limit)
{
    return (int)(t_random(state) >> 33) % limit;
}
