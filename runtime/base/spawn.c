/* SPDX-License-Identifier: MIT */
/*
 * clone(CLONE_VM | CLONE_VFORK) and exec, as posix_spawn does it, by hand for
 * two things that posix_spawn cannot do: the order that the kernel is to kill
 * the child with its parent, which must stand before the exec, so that it holds
 * for programs that know nothing of Wharf; and closing all other descriptors.
 */
#define _GNU_SOURCE /* clone, P_PIDFD, execve */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/sys.h"

/* Numbers that are the same on all architectures; older headers lack them. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ;

/* The thread sanitizer's clone takes the child for a fork with a memory of its
 * own, and changes ours. */
#ifdef __SANITIZE_THREAD__
extern int __clone(int (*body)(void *), void *stack, int flags, void *argument,
                   ...);
#define clone __clone
#endif

#define STACK_BYTES ((size_t)256 << 10)

/* Without close_range, descriptors up to this are closed one by one. */
#define CLOSE_MOST 65536

/* Descriptors on their way to their places go to this and above. */
#define ABOVE (3 + WI_SPAWN_FDS)

typedef struct child {
    const wi_spawn *what;
    pid_t parent;
    int error; /* errno of what failed; 0: the program runs */
} child;

/* ---- In the child: system calls only ------------------------------------- */

/* The child's stack is memory that the sanitizers know nothing of. */
#define BARE                                                                   \
    __attribute__((no_sanitize("address"), no_sanitize("thread"),              \
                   no_sanitize("undefined")))

/* The kernel's calls themselves: a sanitizer puts functions of its own before
 * the library's, which would note in the parent's memory what the child does.
 *
 * Caught signals are reset by the exec, ignored and blocked ones are not. The
 * kernel's struct for a default action is all zeros on every architecture. */
BARE static void signals_reset(void)
{
    static const uint64_t plain[8], none[1];

    for (int s = 1; s < NSIG; s++)
        syscall(SYS_rt_sigaction, s, plain, NULL, sizeof none);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, none, NULL, sizeof none);
}

BARE static void close_from(int first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < CLOSE_MOST; fd++)
        syscall(SYS_close, fd);
}

/* Sources may be the places of others, so all move out of the way first. */
BARE static int place_descriptors(const wi_spawn *what)
{
    int moved[3 + WI_SPAWN_FDS];
    int count = 3 + what->count;

    moved[0] = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
    if (moved[0] < 0)
        return -1;
    moved[1] = what->output < 0 ? STDOUT_FILENO : what->output;
    moved[2] = what->error < 0 ? STDERR_FILENO : what->error;
    for (int i = 0; i < what->count; i++)
        moved[3 + i] = what->fds[i];
    for (int i = 0; i < count; i++) {
        moved[i] = (int)syscall(SYS_fcntl, moved[i], F_DUPFD, ABOVE);
        /* A closed stdout or stderr stays closed. */
        if (moved[i] < 0 && (i == 0 || i > 2))
            return -1;
    }
    for (int i = 0; i < count; i++)
        if (moved[i] >= 0 && syscall(SYS_dup3, moved[i], i, 0) < 0)
            return -1;
    close_from(count);
    return 0;
}

BARE static int child_main(void *argument)
{
    child *c = argument;

    syscall(SYS_setpgid, 0, 0);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* Too late to be told of? */
    if (syscall(SYS_getppid) != c->parent)
        syscall(SYS_exit_group, 127);
    signals_reset();
    if (place_descriptors(c->what) == 0)
        syscall(SYS_execve, c->what->path, c->what->argv, c->what->envp);
    c->error = errno;
    syscall(SYS_exit_group, 127);
    return 127;
}

/* ---- In the parent ------------------------------------------------------- */

/* With every signal held off: a handler must not run in the child, which has
 * our memory. */
static pid_t child_clone(child *c, char *stack)
{
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child_main, stack + STACK_BYTES,
                CLONE_VM | CLONE_VFORK | SIGCHLD, c);
    if (pid < 0)
        c->error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static wharf_status start_failed(int errnum, const char *path)
{
    const char *remedy = "name a program that can be run";

    if (errnum == EAGAIN)
        remedy = "raise the limit of processes (ulimit -u)";
    if (errnum == EMFILE || errnum == EINVAL)
        remedy = "raise the limit of open files of this process (ulimit -n)";
    if (errnum == ENOMEM || errnum == ENFILE)
        remedy = "free memory or descriptors of this machine";
    if (errnum == E2BIG)
        remedy = "pass shorter arguments, or a smaller environment";
    return wi_fail_os(errnum, remedy, "cannot start \"%.120s\"", path);
}

wharf_status wi_spawn_start(const wi_spawn *what, pid_t *pid)
{
    child c = {.what = what, .parent = getpid()};
    int code = 0;
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t made = -1;

    if (stack == MAP_FAILED)
        return start_failed(errno, what->path);
    if (wi_fault(WI_FAULT_SYS, "clone", &code))
        c.error = code;
    else
        made = child_clone(&c, stack);
    munmap(stack, STACK_BYTES);
    if (c.error == 0) {
        *pid = made;
        return WHARF_OK;
    }
    if (made > 0)
        wi_spawn_bury(made);
    return start_failed(c.error, what->path);
}

static bool can_run(const char *path)
{
    struct stat about;

    if (stat(path, &about) != 0)
        return false;
    if (!S_ISREG(about.st_mode)) {
        errno = S_ISDIR(about.st_mode) ? EISDIR : EACCES;
        return false;
    }
    return access(path, X_OK) == 0;
}

wharf_status wi_spawn_find(const char *name, char **path)
{
    const char *at = getenv("PATH");
    int errnum = ENOENT;

    if (name[0] == '\0')
        return start_failed(ENOENT, name);
    if (strchr(name, '/')) {
        if (!can_run(name))
            return start_failed(errno, name);
        *path = wi_strdup(name);
        return *path ? WHARF_OK : WHARF_ENOMEM;
    }
    if (!at)
        at = "/bin:/usr/bin";
    while (*at) {
        size_t length = strcspn(at, ":");
        char *made = wi_calloc(length + strlen(name) + 3, 1);

        if (!made)
            return WHARF_ENOMEM;
        memcpy(made, length ? at : ".", length ? length : 1);
        strcat(strcat(made, "/"), name);
        if (can_run(made)) {
            *path = made;
            return WHARF_OK;
        }
        if (errno == EACCES)
            errnum = errno;
        wi_free(made);
        at += length;
        at += *at == ':';
    }
    return start_failed(errnum, name);
}

int wi_spawn_pidfd(pid_t pid)
{
    return wi_sys_move_off((int)syscall(SYS_pidfd_open, pid, 0));
}

wi_spawn_end wi_spawn_look(pid_t pid, int *value)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return errno == EINTR ? WI_SPAWN_RUNS : WI_SPAWN_UNKNOWN;
    if (info.si_pid == 0)
        return WI_SPAWN_RUNS;
    *value = info.si_status;
    return info.si_code == CLD_EXITED ? WI_SPAWN_EXIT : WI_SPAWN_SIGNAL;
}

void wi_spawn_kill(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

void wi_spawn_bury(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- Environment --------------------------------------------------------- */

static bool is_left_out(const char *variable, const char *const *prefixes,
                        const char *more)
{
    size_t name = strcspn(more, "=") + 1;

    if (strncmp(variable, more, name) == 0)
        return true;
    for (; *prefixes; prefixes++)
        if (strncmp(variable, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

char **wi_spawn_environment(const char *const *prefixes, const char *more)
{
    size_t count = 2, bytes = strlen(more) + 1, at = 0;
    char **made, *text;

    for (char **e = environ; e && *e; e++) {
        count++;
        bytes += strlen(*e) + 1;
    }
    made = wi_calloc(1, count * sizeof *made + bytes);
    if (!made)
        return NULL;
    text = (char *)(made + count);
    made[at++] = strcpy(text, more);
    text += strlen(more) + 1;
    for (char **e = environ; e && *e && at + 1 < count; e++) {
        if (is_left_out(*e, prefixes, more))
            continue;
        made[at++] = strcpy(text, *e);
        text += strlen(*e) + 1;
    }
    return made;
}
