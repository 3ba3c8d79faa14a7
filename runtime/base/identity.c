/* SPDX-License-Identifier: MIT */
/* Learns who this process is from /proc; what /proc hides stays unknown. */
#include "base/identity.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* Start of a file as a string; "" when it cannot be read. */
static void file_head(const char *path, char *text, size_t capacity)
{
    size_t used = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        while (got > 0 && used < capacity - 1) {
            got = read(fd, text + used, capacity - 1 - used);
            if (got > 0)
                used += (size_t)got;
        }
        close(fd);
    }
    text[used] = '\0';
}

static uint64_t namespace_inode(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* Field 22 of /proc/self/stat. Field 2 is the program's name in parentheses
 * and may itself hold blanks and parentheses: fields count from the last ')'.
 */
static uint64_t start_ticks(void)
{
    char text[1024];
    char *at;

    file_head("/proc/self/stat", text, sizeof text);
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        if (at)
            at++;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

void wi_identity_self(wi_identity *identity)
{
    /* Padding too: the struct is sent over MPI as bytes. */
    memset(identity, 0, sizeof *identity);
    file_head("/proc/sys/kernel/random/boot_id", identity->boot_id,
              sizeof identity->boot_id);
    identity->boot_id[strcspn(identity->boot_id, "\n")] = '\0';
    if (gethostname(identity->host, sizeof identity->host) != 0)
        identity->host[0] = '\0';
    /* A name that just fits may come without its end. */
    identity->host[sizeof identity->host - 1] = '\0';
    identity->pid_ns = namespace_inode("/proc/self/ns/pid");
    identity->net_ns = namespace_inode("/proc/self/ns/net");
    identity->start_ticks = start_ticks();
    identity->pid = (int32_t)getpid();
    /* Effective, because that is what SO_PEERCRED shows to a peer. */
    identity->uid = (uint32_t)geteuid();
}

bool wi_identity_same_kernel(const wi_identity *a, const wi_identity *b)
{
    /* Without /proc on both sides the host name is the best that is left. */
    if (!a->boot_id[0] && !b->boot_id[0])
        return a->host[0] && strcmp(a->host, b->host) == 0;
    return strcmp(a->boot_id, b->boot_id) == 0;
}

uint64_t wi_identity_number(const wi_identity *identity)
{
    const uint64_t parts[] = {identity->pid_ns, identity->start_ticks,
                              (uint64_t)identity->pid};
    uint64_t hash = wi_hash(WI_HASH_START, parts, sizeof parts);

    return wi_hash(hash, identity->boot_id, strlen(identity->boot_id));
}
