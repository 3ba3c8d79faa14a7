/* SPDX-License-Identifier: MIT */
/* A forked child that uses its parent's handles gets an error, even while
 * other threads of the parent hold the lock at the moment of the fork. */
#include "base/error.h"
#include "base/handles.h"

#include <pthread.h>
#include <sys/wait.h>

#include "t_test.h"

#define FORKS 20

static int live, more;
static int stop;

static int child(void)
{
    if (wi_handle_check(&live, WI_HANDLE_NODE, "node") != WHARF_ESTATE ||
        !strstr(wi_error_record()->cause, "forked child"))
        return 1;
    if (wi_handle_check(NULL, WI_HANDLE_NODE, "node") != WHARF_EARG)
        return 2;
    if (wi_handle_add(&more, WI_HANDLE_NODE) != WHARF_ESTATE)
        return 3;
    wi_handle_remove(&live);
    return 0;
}

static void *churn(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (wi_handle_add(argument, WI_HANDLE_EVENT) != WHARF_OK)
            return argument;
        wi_handle_remove(argument);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int other;
    void *back;

    T_OK(wi_handle_add(&live, WI_HANDLE_NODE));
    T_EQ_INT(0, pthread_create(&thread, NULL, churn, &other));
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        int state;

        T_CHECK(pid >= 0);
        if (pid == 0)
            _exit(child());
        T_EQ_INT(pid, waitpid(pid, &state, 0));
        T_EQ_INT(0, state);
        T_OK(wi_handle_check(&live, WI_HANDLE_NODE, "node"));
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, &back);
    T_EQ_PTR(NULL, back);
    wi_handle_remove(&live);
    return 0;
}
