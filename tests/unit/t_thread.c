/* SPDX-License-Identifier: MIT */
/* Threads of the library's own: no signals; waits that end at a deadline. */
#include "base/thread.h"

#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "t_test.h"

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ready, over;
    sigset_t mask;
} gate;

static void *keep(void *argument)
{
    gate *g = argument;

    pthread_mutex_lock(&g->lock);
    pthread_sigmask(SIG_SETMASK, NULL, &g->mask);
    g->ready = true;
    pthread_cond_signal(&g->changed);
    while (!g->over)
        wi_cond_wait(&g->changed, &g->lock, WI_NEVER);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* What is sent to the process comes to a thread of the program's, also if that
 * has it blocked: else it would end the process here. */
static void check_signals(void)
{
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER};
    sigset_t one, before, after;
    pthread_t thread;
    const struct timespec second = {1, 0};

    wi_cond_init(&g.changed);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    T_OK(wi_thread_start(&thread, keep, &g, "a thread that keeps"));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    T_EQ_INT(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
    pthread_mutex_lock(&g.lock);
    while (!g.ready)
        T_CHECK(wi_cond_wait(&g.changed, &g.lock, wi_deadline_in_ms(5000)));
    pthread_mutex_unlock(&g.lock);
    T_CHECK(sigismember(&g.mask, SIGUSR1) && sigismember(&g.mask, SIGALRM));
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    T_EQ_INT(0, kill(getpid(), SIGUSR1));
    T_EQ_INT(SIGUSR1, sigtimedwait(&one, NULL, &second));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&g.lock);
    g.over = true;
    pthread_cond_signal(&g.changed);
    pthread_mutex_unlock(&g.lock);
    T_EQ_INT(0, pthread_join(thread, NULL));
    pthread_cond_destroy(&g.changed);
}

static void check_deadline(void)
{
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int64_t began = wi_now_ns();
    wi_deadline deadline = wi_deadline_in_ms(20);

    wi_cond_init(&g.changed);
    pthread_mutex_lock(&g.lock);
    while (wi_cond_wait(&g.changed, &g.lock, deadline))
        continue;
    T_CHECK(wi_now_ns() - began >= 20 * WI_NS_PER_MS);
    /* One that has passed does not hold at all. */
    T_CHECK(!wi_cond_wait(&g.changed, &g.lock, wi_deadline_in_ms(-1)));
    pthread_mutex_unlock(&g.lock);
    pthread_cond_destroy(&g.changed);
}

int main(void)
{
    check_signals();
    check_deadline();
    return 0;
}
