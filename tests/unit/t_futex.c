/* SPDX-License-Identifier: MIT */
/* Waiting on a shared word: between threads, between processes, with limits
 * that end it. */
#include "base/futex.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "t_test.h"

#define ROUNDS 500

static uint32_t get(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void put(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    wi_futex_wake(word);
}

/* Holds until *word == value; false when the deadline came first. */
static bool await(const uint32_t *word, uint32_t value, wi_deadline deadline)
{
    uint32_t seen;

    while ((seen = get(word)) != value) {
        if (wi_deadline_passed(deadline))
            return false;
        wi_futex_wait(word, seen, deadline, 1000);
    }
    return true;
}

/* Each of these comes back by itself: a hang is the failure. */
static void check_returns(void)
{
    uint32_t word = 5;
    wi_deadline deadline = wi_deadline_in_ms(20);

    wi_futex_wait(&word, 4, WI_NEVER, 1000000);
    wi_futex_wait(&word, 5, WI_NEVER, 1);
    wi_futex_wait(&word, 5, WI_NEVER, 0);
    wi_futex_wait(&word, 5, WI_NEVER, -1);
    wi_futex_wait(&word, 5, wi_deadline_in_ms(0), 1000000);
    wi_futex_wait(&word, 5, INT64_MIN / 2, 1000000);
    while (!wi_deadline_passed(deadline))
        wi_futex_wait(&word, 5, deadline, 1000000);
    wi_futex_wake(&word);
    T_EQ_INT(5, word);
}

/* Two words, so that a lost wake stops the game (and the deadline says so). */
typedef struct game {
    uint32_t ball[2];
} game;

static int play(game *g, int side, wi_deadline deadline)
{
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (side == 0)
            put(&g->ball[0], i);
        if (!await(&g->ball[1 - side], i, deadline))
            return 1;
        if (side == 1)
            put(&g->ball[1], i);
    }
    return 0;
}

static void *thread_play(void *argument)
{
    return play(argument, 1, wi_deadline_in_ms(30000)) ? argument : NULL;
}

static void check_threads(void)
{
    game g = {{0, 0}};
    pthread_t thread;
    void *back;

    T_EQ_INT(0, pthread_create(&thread, NULL, thread_play, &g));
    T_EQ_INT(0, play(&g, 0, wi_deadline_in_ms(30000)));
    pthread_join(thread, &back);
    T_EQ_PTR(NULL, back);
}

static void check_processes(void)
{
    game *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int state;
    pid_t pid;

    T_CHECK(g != MAP_FAILED);
    pid = fork();
    T_CHECK(pid >= 0);
    if (pid == 0)
        _exit(play(g, 1, wi_deadline_in_ms(30000)));
    T_EQ_INT(0, play(g, 0, wi_deadline_in_ms(30000)));
    T_EQ_INT(pid, waitpid(pid, &state, 0));
    T_EQ_INT(0, state);
    munmap(g, sizeof *g);
}

/* One wake wakes all sleepers. */
#define SLEEPERS 4

static uint32_t gate;

static void *sleeper(void *argument)
{
    return await(&gate, 1, wi_deadline_in_ms(30000)) ? NULL : argument;
}

static void check_wakes_all(void)
{
    pthread_t threads[SLEEPERS];
    void *back;

    for (int i = 0; i < SLEEPERS; i++)
        T_EQ_INT(0, pthread_create(&threads[i], NULL, sleeper, &gate));
    put(&gate, 1);
    for (int i = 0; i < SLEEPERS; i++) {
        pthread_join(threads[i], &back);
        T_EQ_PTR(NULL, back);
    }
}

int main(void)
{
    check_returns();
    check_threads();
    check_processes();
    check_wakes_all();
    return 0;
}
