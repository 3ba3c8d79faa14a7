/* SPDX-License-Identifier: MIT */
/* Programs started by base/spawn.c: what they find open, how they end, what is
 * killed with them, and that they end with the thread that started them. */
#define _GNU_SOURCE
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "t_test.h"

static const char *const no_prefixes[] = {NULL};

static pid_t start(const char *script, int output, const int *fds, int count)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    char **envp = wi_spawn_environment(no_prefixes, "T_SPAWN=here");
    char *path = NULL;
    pid_t pid = -1;

    T_CHECK(envp != NULL);
    T_OK(wi_spawn_find("sh", &path));
    wi_spawn what = {.path = path,
                     .argv = argv,
                     .envp = envp,
                     .output = output,
                     .error = -1,
                     .count = count};
    for (int i = 0; i < count; i++)
        what.fds[i] = fds[i];
    T_OK(wi_spawn_start(&what, &pid));
    wi_free(path);
    wi_free(envp);
    return pid;
}

/* Waits for the end by what the library offers for it. */
static wi_spawn_end end_of(pid_t pid, int *value)
{
    int fd = wi_spawn_pidfd(pid);
    struct pollfd one = {.fd = fd, .events = POLLIN};

    while (wi_spawn_look(pid, value) == WI_SPAWN_RUNS)
        T_CHECK(poll(&one, fd >= 0, fd >= 0 ? 10000 : 5) >= 0);
    if (fd >= 0)
        close(fd);
    wi_spawn_end end = wi_spawn_look(pid, value);

    wi_spawn_bury(pid);
    return end;
}

static void ends(void)
{
    int value = -1;

    T_EQ_INT(WI_SPAWN_EXIT, end_of(start("exit 7", -1, NULL, 0), &value));
    T_EQ_INT(7, value);
    T_EQ_INT(WI_SPAWN_SIGNAL,
             end_of(start("kill -SEGV $$", -1, NULL, 0), &value));
    T_EQ_INT(SIGSEGV, value);
    T_EQ_INT(WI_SPAWN_UNKNOWN, wi_spawn_look(getpid(), &value));
}

/* The text that a script writes. */
static void says(const char *script, const int *fds, int count, char *text,
                 size_t capacity)
{
    int pipes[2], value = -1;
    ssize_t got;
    size_t used = 0;

    T_OK(wi_sys_pipe(pipes));
    pid_t pid = start(script, pipes[1], fds, count);

    wi_sys_close(&pipes[1]);
    fcntl(pipes[0], F_SETFL, 0);
    while ((got = read(pipes[0], text + used, capacity - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    wi_sys_close(&pipes[0]);
    T_EQ_INT(WI_SPAWN_EXIT, end_of(pid, &value));
    T_EQ_INT(0, value);
}

static void given(void)
{
    int leak[2], pair[2];
    char text[512];
    sigset_t blocked;

    /* Neither is closed on exec. */
    T_CHECK(pipe(leak) == 0);
    T_CHECK(dup2(leak[0], 200) == 200);
    T_OK(wi_sys_socketpair(SOCK_SEQPACKET, pair));
    /* Builtins only: a pipe of the shell's own would be seen now and then. */
    says("i=0; while [ $i -lt 256 ]; do [ ! -e /proc/$$/fd/$i ] || "
         "printf '%s ' $i; i=$((i + 1)); done",
         pair, 2, text, sizeof text);
    T_EQ_STR("0 1 2 3 4 ", text);
    says(
        "readlink /proc/$$/fd/0; echo $T_SPAWN; ps -o pgid= -p $$ | tr -d ' '; "
        "echo $$",
        NULL, 0, text, sizeof text);
    T_CONTAINS("/dev/null\nhere\n", text);
    signal(SIGUSR1, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    says("grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'", NULL, 0,
         text, sizeof text);
    T_EQ_STR("SigBlk:0000000000000000\nSigIgn:0000000000000000\n", text);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    signal(SIGUSR1, SIG_DFL);
    close(leak[0]);
    close(leak[1]);
    close(200);
    wi_sys_close(&pair[0]);
    wi_sys_close(&pair[1]);
}

static void group_killed(void)
{
    int value = -1;
    char text[64] = "";
    int pipes[2];
    ssize_t got;

    T_OK(wi_sys_pipe(pipes));
    pid_t pid = start("sleep 1000 & echo $!; wait", pipes[1], NULL, 0);

    wi_sys_close(&pipes[1]);
    fcntl(pipes[0], F_SETFL, 0);
    T_CHECK(read(pipes[0], text, sizeof text - 1) > 0);
    T_CHECK(kill(atoi(text), 0) == 0);
    wi_spawn_kill(pid);
    T_EQ_INT(WI_SPAWN_SIGNAL, end_of(pid, &value));
    /* The sleeper had the pipe, too: its end is the pipe's. */
    do
        got = read(pipes[0], text, sizeof text);
    while (got > 0);
    T_EQ_INT(0, got);
    wi_sys_close(&pipes[0]);
}

static void *starter(void *pid)
{
    *(pid_t *)pid = start("exec sleep 1000", -1, NULL, 0);
    return NULL;
}

static void ends_with_thread(void)
{
    pthread_t thread;
    pid_t pid = -1;
    int value = -1;

    T_CHECK(pthread_create(&thread, NULL, starter, &pid) == 0);
    T_CHECK(pthread_join(thread, NULL) == 0);
    T_EQ_INT(WI_SPAWN_SIGNAL, end_of(pid, &value));
    T_EQ_INT(SIGKILL, value);
}

static void not_found(void)
{
    char *path = NULL;

    T_STATUS(WHARF_EOS, wi_spawn_find("no-such-program-anywhere", &path));
    T_STATUS(WHARF_EOS, wi_spawn_find("/", &path));
    T_STATUS(WHARF_EOS, wi_spawn_find("", &path));
    T_STATUS(WHARF_EOS, wi_spawn_find("/etc/passwd", &path));
    T_CHECK(path == NULL);
    T_EQ_INT(EACCES, wi_error_record()->native);
}

static void environment(void)
{
    static const char *const prefixes[] = {"T_OUT_", NULL};
    bool kept = false;

    setenv("T_OUT_A", "1", 1);
    setenv("T_OU", "1", 1);
    setenv("T_MORE", "old", 1);
    char **made = wi_spawn_environment(prefixes, "T_MORE=new");

    T_CHECK(made != NULL);
    T_EQ_STR("T_MORE=new", made[0]);
    for (char **e = made + 1; *e; e++) {
        T_CHECK(strncmp(*e, "T_OUT_", 6) != 0 && strncmp(*e, "T_MORE", 6) != 0);
        kept |= strcmp(*e, "T_OU=1") == 0;
    }
    T_CHECK(kept);
    wi_free(made);
}

int main(void)
{
    alarm(60);
    ends();
    given();
    group_killed();
    ends_with_thread();
    not_found();
    environment();
    return 0;
}
