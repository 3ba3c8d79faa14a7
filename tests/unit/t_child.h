/* SPDX-License-Identifier: MIT */
/* Runs a part of a test in a forked child, for what can be done only once in
 * a process (first use, environment, limits, closed descriptors). */
#ifndef T_CHILD_H
#define T_CHILD_H

#include <sys/wait.h>
#include <unistd.h>

#include "t_test.h"

/* The child's exit code; 0 when body returned. */
static inline int t_child_code(void (*body)(void *), void *argument)
{
    int state = 0;
    pid_t pid = fork();

    T_CHECK(pid >= 0);
    if (pid == 0) {
        body(argument);
        fflush(NULL);
        _exit(0);
    }
    T_EQ_INT(pid, waitpid(pid, &state, 0));
    T_CHECK(WIFEXITED(state));
    return WEXITSTATUS(state);
}

static inline void t_child_run(void (*body)(void *), void *argument)
{
    T_EQ_INT(0, t_child_code(body, argument));
}

#endif
