/* SPDX-License-Identifier: MIT */
/* The form of log lines, and the levels. */
#include "base/log.h"

#include <errno.h>
#include <limits.h>

#include "t_stderr.h"

static char text[2 * PIPE_BUF];
static char long_text[2000];

static void check_form(void)
{
    t_stderr caught;

    t_stderr_catch(&caught);
    wi_log_set_level(WI_LOG_DEBUG);
    wi_log(WI_LOG_WARN, "no rank %d", 7);
    wi_log_set_rank(3);
    wi_log(WI_LOG_ERROR, "a");
    wi_log(WI_LOG_WARN, "b");
    wi_log(WI_LOG_INFO, "c");
    wi_log(WI_LOG_DEBUG, "d");
    wi_log(WI_LOG_WARN, "two\nlines\x1b[31m\t\x7f");
    wi_log_set_level(WI_LOG_NONE);
    wi_log_asked("stats", "%d live", 0);
    wi_log_set_level(WI_LOG_DEBUG);
    wi_log_set_rank(-1);
    wi_log(WI_LOG_WARN, "%s", "");
    t_stderr_release(&caught);

    T_EQ_STR("wharf: warn: no rank 7\n",
             t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf[3]: error: a\n", t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf[3]: warn: b\n", t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf[3]: info: c\n", t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf[3]: debug: d\n", t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf[3]: warn: two?lines?[31m??\n",
             t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf[3]: stats: 0 live\n",
             t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf: warn: \n", t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);
}

/* Of every length: one write, one newline, cut visibly when too long. */
static void check_length(void)
{
    t_stderr caught;
    size_t length;

    memset(long_text, 'x', sizeof long_text);
    for (int bytes = 900; bytes < 1100; bytes++) {
        t_stderr_catch(&caught);
        wi_log(WI_LOG_WARN, "%.*s", bytes, long_text);
        t_stderr_release(&caught);
        t_stderr_next(&caught, text, sizeof text);
        length = strlen(text);
        T_CHECK(length > 0 && length <= PIPE_BUF);
        T_EQ_INT(length - 1, strcspn(text, "\n"));
        if (length != strlen("wharf: warn: \n") + (size_t)bytes)
            T_EQ_STR("x...\n", text + length - 5);
        T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
        t_stderr_done(&caught);
    }
}

static void check_levels(void)
{
    t_stderr caught;

    for (int limit = WI_LOG_NONE; limit <= WI_LOG_DEBUG; limit++) {
        wi_log_set_level((wi_log_level)limit);
        for (int level = WI_LOG_NONE; level <= WI_LOG_DEBUG; level++) {
            int shown = level != WI_LOG_NONE && level <= limit;

            T_EQ_INT(shown, wi_log_on((wi_log_level)level));
            t_stderr_catch(&caught);
            wi_log((wi_log_level)level, "x");
            t_stderr_release(&caught);
            t_stderr_next(&caught, text, sizeof text);
            t_stderr_done(&caught);
            T_EQ_INT(shown, text[0] != '\0');
        }
    }
}

/* Logging never changes errno, not even when stderr is closed. */
static void check_errno(void)
{
    int kept = dup(STDERR_FILENO);
    int after;

    wi_log_set_level(WI_LOG_WARN);
    close(STDERR_FILENO);
    errno = EDOM;
    wi_log(WI_LOG_WARN, "nobody reads this");
    after = errno;
    dup2(kept, STDERR_FILENO);
    close(kept);
    T_EQ_INT(EDOM, after);
}

int main(void)
{
    check_form();
    check_length();
    check_levels();
    check_errno();
    return 0;
}
