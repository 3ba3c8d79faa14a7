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

static wi_identity *made;    /* shared with the children */
static int told[2], stay[2]; /* pipes: errno of each, and its end until then */

/* A new pid namespace, whose pid 1 stays until both are known: the number of
 * one that is gone may be given to the next. */
static int namespace_enter(int i)
{
    char none = 0;
    pid_t pid;

    if (unshare(CLONE_NEWPID) != 0 &&
        unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return errno;
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        wi_identity_self(&made[i]);
        if (write(told[1], &none, 1) != 1 || read(stay[0], &none, 1) != 0)
            _exit(1);
        _exit(0);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : EIO;
}

static void child(int i)
{
    char failed;

    close(stay[1]);
    failed = (char)namespace_enter(i);
    if (failed != 0 && write(told[1], &failed, 1) != 1)
        _exit(1);
    _exit(0);
}

int main(void)
{
    char failed[2] = {0, 0};
    pid_t pid[2];

    made = mmap(NULL, 2 * sizeof *made, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    T_CHECK(made != MAP_FAILED);
    T_EQ_INT(0, pipe(told));
    T_EQ_INT(0, pipe(stay));
    for (int i = 0; i < 2; i++) {
        pid[i] = fork();
        T_CHECK(pid[i] >= 0);
        if (pid[i] == 0)
            child(i);
    }
    close(told[1]);
    for (int i = 0; i < 2; i++)
        T_EQ_INT(1, read(told[0], &failed[i], 1));
    close(stay[1]);
    for (int i = 0; i < 2; i++)
        T_EQ_INT(pid[i], waitpid(pid[i], NULL, 0));
    for (int i = 0; i < 2; i++)
        if (failed[i] != 0)
            T_SKIP("no pid namespace to be had: %s", strerror(failed[i]));
    T_EQ_INT(1, made[0].pid);
    T_EQ_INT(1, made[1].pid);
    T_CHECK(wi_identity_same_kernel(&made[0], &made[1]));
    T_CHECK(made[0].pid_ns != made[1].pid_ns);
    T_CHECK(wi_identity_number(&made[0]) != wi_identity_number(&made[1]));
    return 0;
}
