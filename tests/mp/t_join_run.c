/* SPDX-License-Identifier: MIT */
/* Starts the programs of t_join, and talks to them by letters. */
#include "t_join.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t_group.h"

extern char **environ;

program joiner_begin(const char *role, const char *name, const char *one,
                     const char *two)
{
    char *argv[] = {"t_join",    "joiner",    (char *)role, (char *)name,
                    (char *)one, (char *)two, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t alone;
    program started;
    int orders[2], words[2];

    /* The other programs must not hold the ends of this one's. */
    T_EQ_INT(0, pipe2(orders, O_CLOEXEC));
    T_EQ_INT(0, pipe2(words, O_CLOEXEC));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, orders[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, words[1], STDOUT_FILENO);
    /* Not of the job: MPICH's launcher signals the ranks' process groups when
     * one of them dies. */
    posix_spawnattr_init(&alone);
    posix_spawnattr_setflags(&alone, POSIX_SPAWN_SETPGROUP);
    T_EQ_INT(0, posix_spawn(&started.pid, "/proc/self/exe", &actions, &alone,
                            argv, environ));
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&alone);
    close(orders[0]);
    close(words[1]);
    started.orders = orders[1];
    started.words = words[0];
    return started;
}

void joiner_expect(const program *p, char letter)
{
    struct pollfd one = {.fd = p->words, .events = POLLIN};
    char got = 0;

    T_EQ_INT(1, poll(&one, 1, 20000));
    T_EQ_INT(1, read(p->words, &got, 1));
    T_EQ_INT(letter, got);
}

void joiner_order(const program *p, char letter)
{
    T_EQ_INT(1, write(p->orders, &letter, 1));
    joiner_expect(p, letter);
}

void joiner_finish(program *p)
{
    int status = 0;

    close(p->orders);
    T_EQ_INT(p->pid, waitpid(p->pid, &status, 0));
    close(p->words);
    T_CHECK(WIFEXITED(status));
    T_EQ_INT(0, WEXITSTATUS(status));
}

void joiner_run(const char *role, const char *name, const char *one,
                const char *two)
{
    program p = joiner_begin(role, name, one, two);

    joiner_finish(&p);
}
