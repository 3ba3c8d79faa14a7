/* SPDX-License-Identifier: MIT */
/* Two processes with pid 1, each in a pid namespace of its own, are not the
 * same process. Also with the /proc of the namespace outside. */
#define _GNU_SOURCE
#include "base/identity.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t_test.h"

static wi_identity *made; /* shared with the children */

/* Child of a child that has a new pid namespace: pid 1. Exit code errno. */
static int namespace_enter(int i)
{
    int state;
    pid_t pid;

    if (unshare(CLONE_NEWPID) != 0 &&
        unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return errno;
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        wi_identity_self(&made[i]);
        _exit(0);
    }
    return waitpid(pid, &state, 0) == pid && state == 0 ? 0 : EIO;
}

int main(void)
{
    made = mmap(NULL, 2 * sizeof *made, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    T_CHECK(made != MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        int state;
        pid_t pid = fork();

        T_CHECK(pid >= 0);
        if (pid == 0)
            _exit(namespace_enter(i));
        T_EQ_INT(pid, waitpid(pid, &state, 0));
        T_CHECK(WIFEXITED(state));
        if (WEXITSTATUS(state) != 0)
            T_SKIP("no pid namespace to be had: %s",
                   strerror(WEXITSTATUS(state)));
    }
    T_EQ_INT(1, made[0].pid);
    T_EQ_INT(1, made[1].pid);
    T_CHECK(wi_identity_same_kernel(&made[0], &made[1]));
    T_CHECK(made[0].pid_ns != made[1].pid_ns);
    T_CHECK(!wi_identity_same_process(&made[0], &made[1]));
    return 0;
}
