/* SPDX-License-Identifier: MIT */
/*
 * NUMA policies and large pages of a memfd, see numa.h. A policy that is set
 * through one mapping of shared memory belongs to the memory: it holds for all
 * processes, whoever touches a page first, the driver's page-locking included.
 */
#include "device/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/sys.h"
#include "device/host_memory.h"

/* Nodes that a mask holds: more than any machine has. */
#define NODES 1024
#define WORD_BITS (8 * sizeof(unsigned long))

typedef struct node_mask {
    unsigned long words[NODES / WORD_BITS];
} node_mask;

static int numa_here(void)
{
    unsigned cpu = 0, node = 0;

    return syscall(SYS_getcpu, &cpu, &node, NULL) == 0 ? (int)node : 0;
}

/* 0 or errno. */
static int policy_set(void *at, size_t bytes, int mode, const node_mask *mask)
{
    int code = 0;

    if (wi_fault(WI_FAULT_SYS, "mbind", &code))
        return code;
    return syscall(SYS_mbind, at, bytes, mode, mask->words, (long)NODES, 0) == 0
               ? 0
               : errno;
}

static int allowed_get(node_mask *mask)
{
    memset(mask, 0, sizeof *mask);
    return syscall(SYS_get_mempolicy, NULL, mask->words, (long)NODES, NULL,
                   MPOL_F_MEMS_ALLOWED) == 0
               ? 0
               : errno;
}

static wharf_status policy_apply(void *at, size_t bytes, int node)
{
    node_mask mask = {{0}};
    int mode = node == WI_NUMA_INTERLEAVED ? MPOL_INTERLEAVE : MPOL_PREFERRED;
    int code = 0;

    if (node == WI_NUMA_INTERLEAVED)
        code = allowed_get(&mask);
    else
        mask.words[(size_t)node / WORD_BITS] = 1ul << (size_t)node % WORD_BITS;
    if (code == 0)
        code = policy_set(at, bytes, mode, &mask);
    /* A kernel without NUMA, or a sandbox: all memory is equally near, or
     * cannot be chosen. */
    if (code == 0 || code == ENOSYS || code == EPERM)
        return WHARF_OK;
    return wi_fail_os(code, "leave the NUMA flags out",
                      "placing %zu bytes of shared memory on NUMA nodes",
                      bytes);
}

static wharf_status numa_place(struct wi_block *base, size_t offset,
                               size_t bytes, int node)
{
    wi_host_block *block = (wi_host_block *)base;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (offset + page - 1) / page * page;
    size_t end = (offset + bytes) / page * page;
    void *at = NULL;
    wharf_status status;

    if (node >= NODES || end <= first)
        return WHARF_OK;
    status = wi_sys_map(block->fd, first, end - first, PROT_NONE, NULL, &at);
    if (status != WHARF_OK)
        return status;
    status = policy_apply(at, end - first, node);
    wi_sys_unmap(at, end - first);
    return status;
}

/* What the system says of large pages in shared memory: the word in brackets.
 */
static void shmem_setting(char word[32])
{
    char line[128] = "";
    FILE *file =
        fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    const char *open, *close;

    snprintf(word, 32, "unknown");
    if (!file)
        return;
    open = fgets(line, sizeof line, file) ? strchr(line, '[') : NULL;
    close = open ? strchr(open, ']') : NULL;
    if (close)
        snprintf(word, 32, "%.*s", (int)(close - open - 1), open + 1);
    fclose(file);
}

static int numa_enlarge(struct wi_block *base, char reason[96])
{
    wi_host_block *block = (wi_host_block *)base;
    char setting[32];

    shmem_setting(setting);
    if (strcmp(setting, "never") == 0 || strcmp(setting, "deny") == 0 ||
        strcmp(setting, "unknown") == 0) {
        snprintf(reason, 96,
                 "small pages: the system gives shared memory no large ones "
                 "(shmem_enabled: %.12s)",
                 setting);
        return 0;
    }
    snprintf(reason, 96,
             "memfd, advised to use large pages (shmem_enabled: "
             "%.16s)",
             setting);
    if (block)
        block->large = true;
    return 1;
}

const wi_numa_ops wi_numa_system = {
    .here = numa_here,
    .place = numa_place,
    .enlarge = numa_enlarge,
};
