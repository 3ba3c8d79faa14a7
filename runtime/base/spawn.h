/* SPDX-License-Identifier: MIT */
/*
 * Starting a program from a process that has touched CUDA and MPI, where a
 * plain fork is out of the question: the child shares the parent's memory, runs
 * nothing but system calls, and is another program a moment later.
 */
#ifndef WI_BASE_SPAWN_H
#define WI_BASE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "wharf/status.h"

/* Most descriptors that a program is given beside its standard streams. */
#define WI_SPAWN_FDS 4

typedef struct wi_spawn {
    const char *path; /* as wi_spawn_find gave it */
    char *const *argv;
    char *const *envp;
    int output, error; /* its stdout and stderr; -1: the caller's own */
    int fds[WI_SPAWN_FDS];
    int count; /* of fds: they become 3, 4, ... */
} wi_spawn;

/*
 * Starts a program with these descriptors and no others, /dev/null for its
 * stdin, no signal blocked or ignored, as leader of a process group of its own.
 * The kernel kills it when the *thread* that called this ends, however that
 * ends, unless the program asks for something else or runs as another user.
 * WHARF_EOS names the program.
 */
wharf_status wi_spawn_start(const wi_spawn *what, pid_t *pid);

/* The file that a program's name stands for, by PATH if it has no slash; to be
 * freed with wi_free. WHARF_EOS when there is none that may be run. */
wharf_status wi_spawn_find(const char *name, char **path);

/* A descriptor that is readable when the child has ended; -1 where the kernel
 * has none. */
int wi_spawn_pidfd(pid_t pid);

typedef enum wi_spawn_end {
    WI_SPAWN_RUNS = 0,
    WI_SPAWN_EXIT = 1,   /* value: exit code */
    WI_SPAWN_SIGNAL = 2, /* value: signal */
    WI_SPAWN_UNKNOWN = 3 /* somebody else has waited for it */
} wi_spawn_end;

/* Has the child ended, and how? Leaves it to be waited for. */
wi_spawn_end wi_spawn_look(pid_t pid, int *value);

/* Kills what is left of the child's process group. The child must not have been
 * buried: its number would be free for others. */
void wi_spawn_kill(pid_t pid);

/* Waits for a child that has ended, or was killed. */
void wi_spawn_bury(pid_t pid);

/* A copy of the environment without the variables that start with one of
 * `prefixes` (ends with NULL), and with `more` ("NAME=value"); one block, to be
 * freed with wi_free. NULL: no memory (record filled). */
char **wi_spawn_environment(const char *const *prefixes, const char *more);

#endif
