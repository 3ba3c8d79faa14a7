/* SPDX-License-Identifier: MIT */
/*
 * Catches what is written to stderr, one message a write(2): descriptor 2 is
 * a packet socket meanwhile. Assertions that fail would print into it, so
 * tests assert after t_stderr_release.
 */
#ifndef T_STDERR_H
#define T_STDERR_H

#include <sys/socket.h>
#include <unistd.h>

#include "t_test.h"

typedef struct t_stderr {
    int kept; /* the real stderr */
    int out;  /* end to read the messages from */
} t_stderr;

static inline void t_stderr_catch(t_stderr *caught)
{
    int pair[2];

    T_EQ_INT(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    caught->kept = dup(STDERR_FILENO);
    T_CHECK(caught->kept >= 0);
    caught->out = pair[0];
    T_EQ_INT(STDERR_FILENO, dup2(pair[1], STDERR_FILENO));
    close(pair[1]);
}

static inline void t_stderr_release(t_stderr *caught)
{
    dup2(caught->kept, STDERR_FILENO);
    close(caught->kept);
}

/* The next message as a string; "" when there is none. After release. */
static inline const char *t_stderr_next(t_stderr *caught, char *text,
                                        size_t capacity)
{
    ssize_t got = recv(caught->out, text, capacity - 1, MSG_DONTWAIT);

    text[got > 0 ? got : 0] = '\0';
    return text;
}

static inline void t_stderr_done(t_stderr *caught)
{
    close(caught->out);
}

#endif
