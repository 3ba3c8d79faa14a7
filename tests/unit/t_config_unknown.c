/* SPDX-License-Identifier: MIT */
/* Variables that look like settings and are none: a warning with the nearest
 * name, once, and never a failure. */
#include "base/config.h"
#include "base/log.h"

#include "t_stderr.h"

static char text[1024];

/* What wi_config_check says while `name` is set. */
static const char *said(const char *name)
{
    t_stderr caught;
    wharf_status status;

    setenv(name, "1", 1);
    t_stderr_catch(&caught);
    status = wi_config_check();
    t_stderr_release(&caught);
    unsetenv(name);
    t_stderr_next(&caught, text, sizeof text);
    t_stderr_done(&caught);
    T_EQ_INT(WHARF_OK, status);
    T_OK(wi_config_check());
    return text;
}

static void check_nearest(const char *name, const char *nearest)
{
    char expected[256];

    snprintf(expected, sizeof expected,
             "wharf: warn: %s is no setting of Wharf; did you mean %s?\n", name,
             nearest);
    T_EQ_STR(expected, said(name));
}

static void check_far(const char *name)
{
    char expected[256];

    snprintf(expected, sizeof expected,
             "wharf: warn: %.60s is no setting of Wharf and is ignored\n",
             name);
    T_EQ_STR(expected, said(name));
}

static void check_once(void)
{
    t_stderr caught;

    setenv("WHARF_TIMEOUT", "1", 1);
    t_stderr_catch(&caught);
    for (int i = 0; i < 3; i++)
        wharf_ignore(wi_config_check());
    t_stderr_release(&caught);
    T_CONTAINS("WHARF_TIMEOUT ", t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);

    /* Another one besides: both are told. */
    setenv("WHARF_LOGS", "1", 1);
    t_stderr_catch(&caught);
    for (int i = 0; i < 3; i++)
        wharf_ignore(wi_config_check());
    t_stderr_release(&caught);
    T_CHECK(t_stderr_next(&caught, text, sizeof text)[0] != '\0');
    T_CHECK(t_stderr_next(&caught, text, sizeof text)[0] != '\0');
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);
    unsetenv("WHARF_TIMEOUT");
    unsetenv("WHARF_LOGS");
}

int main(void)
{
    char long_name[300] = "WHARF_";

    wi_log_set_level(WI_LOG_WARN);
    check_nearest("WHARF_BACKENDS", "WHARF_BACKEND");
    check_nearest("WHARF_BAKCEND", "WHARF_BACKEND");
    check_nearest("WHARF_TIMEOUT", "WHARF_TIMEOUT_MS");
    check_nearest("WHARF_POOL_BYTE", "WHARF_POOL_BYTES");
    check_nearest("WHARF_LOGG", "WHARF_LOG");
    check_nearest("WHARF_stric", "WHARF_STRICT");
    check_far("WHARF_SOMETHING_ELSE");
    check_far("WHARF_");
    check_far("WHARF_FOO");
    memset(long_name + 6, 'X', sizeof long_name - 7);
    check_far(long_name);

    /* Not ours, or for the tests, or right. */
    T_EQ_STR("", said("WHARF"));
    T_EQ_STR("", said("WHARFX"));
    T_EQ_STR("", said("XWHARF_BACKENDS"));
    T_EQ_STR("", said("wharf_backends"));
    T_EQ_STR("", said("WHARF_TEST_ANYTHING"));
    T_EQ_STR("", said("WHARF_FAKE_DEVICES"));
    T_EQ_STR("", said("WHARF_STRICT"));
    check_once();
    return 0;
}
