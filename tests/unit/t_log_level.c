/* SPDX-License-Identifier: MIT */
/* WHARF_LOG: read at first use, by whichever thread comes first; a value that
 * cannot be used is said once and means warn. */
#include "base/error.h"
#include "base/log.h"

#include <pthread.h>

#include "t_child.h"
#include "t_stderr.h"

#define THREADS 8

typedef struct use {
    const char *value; /* of WHARF_LOG, NULL: unset */
    wi_log_level level;
    int complaints;
} use;

static pthread_barrier_t start;

static void *first_use(void *level)
{
    int limit = (int)*(wi_log_level *)level;

    pthread_barrier_wait(&start);
    for (int i = WI_LOG_ERROR; i <= WI_LOG_DEBUG; i++)
        if (wi_log_on((wi_log_level)i) != (i <= limit))
            return level;
    return NULL;
}

static void use_check(void *argument)
{
    use *u = argument;
    pthread_t threads[THREADS];
    t_stderr caught;
    char text[1024];
    int wrong = 0;
    void *back;

    if (u->value)
        setenv("WHARF_LOG", u->value, 1);
    else
        unsetenv("WHARF_LOG");
    wi_fail(WHARF_EARG, NULL, "before");
    t_stderr_catch(&caught);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, first_use, &u->level);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &back);
        wrong += back != NULL;
    }
    pthread_barrier_destroy(&start);
    wrong += wi_log_on(WI_LOG_INFO) != (u->level >= WI_LOG_INFO);
    t_stderr_release(&caught);

    T_EQ_INT(0, wrong);
    for (int i = 0; i < u->complaints; i++) {
        t_stderr_next(&caught, text, sizeof text);
        T_CONTAINS("wharf: warn: WHARF_LOG is \"", text);
        T_CONTAINS(u->value, text);
        T_CONTAINS("none|error|warn|info|debug", text);
    }
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);
    /* Reading it disturbs no record. */
    T_EQ_STR("before", wi_error_record()->cause);
}

static void set_first(void *argument)
{
    t_stderr caught;
    char text[256];
    bool on;

    (void)argument;
    setenv("WHARF_LOG", "loud", 1);
    wi_log_set_level(WI_LOG_INFO);
    t_stderr_catch(&caught);
    on = wi_log_on(WI_LOG_INFO) && !wi_log_on(WI_LOG_DEBUG);
    t_stderr_release(&caught);
    T_CHECK(on);
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);
}

int main(void)
{
    static use uses[] = {
        {NULL, WI_LOG_WARN, 0},     {"", WI_LOG_WARN, 0},
        {"none", WI_LOG_NONE, 0},   {"error", WI_LOG_ERROR, 0},
        {"warn", WI_LOG_WARN, 0},   {"info", WI_LOG_INFO, 0},
        {"debug", WI_LOG_DEBUG, 0}, {"Debug", WI_LOG_DEBUG, 0},
        {"loud", WI_LOG_WARN, 1},   {"debug ", WI_LOG_WARN, 1},
        {"4", WI_LOG_WARN, 1},
    };

    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        t_child_run(use_check, &uses[i]);
    t_child_run(set_first, NULL);
    return 0;
}
