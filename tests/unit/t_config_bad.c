/* SPDX-License-Identifier: MIT */
/* Values that cannot be used: refused with variable, value and what is
 * allowed, output untouched. */
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

#include "t_stderr.h"

/* What the remedy must hold, and whether the value is in the message. */
static void refuse(wi_setting setting, const char *text, const char *problem,
                   const char *allowed)
{
    const wharf_error *error = wi_error_record();
    char shown[80];
    int64_t value = -77;
    int given = -77;

    T_STATUS(WHARF_ECONFIG, wi_config_parse(setting, text, &value));
    T_EQ_INT(-77, value);
    T_EQ_INT(WHARF_ECONFIG, error->status);
    T_CONTAINS(wi_config_variable(setting), error->cause);
    snprintf(shown, sizeof shown, "\"%.60s", text);
    T_CONTAINS(shown, error->cause);
    T_CONTAINS(problem, error->cause);
    T_CONTAINS(allowed, error->remedy);
    T_CHECK(strlen(error->remedy) < sizeof error->remedy - 1);

    /* The same by the environment, where only the empty value is no value. */
    if (text[0] == '\0')
        return;
    setenv(wi_config_variable(setting), text, 1);
    T_STATUS(WHARF_ECONFIG, wi_config_number(setting, &value, &given));
    T_EQ_INT(-77, value);
    T_EQ_INT(-77, given);
    T_STATUS(WHARF_ECONFIG, wi_config_check());
    unsetenv(wi_config_variable(setting));
}

static void check_words(void)
{
    static const char *const bad[] = {
        "", "cud", "cudax", "auto|cuda", "|", " auto", "auto ", "0", "host|"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse(WI_SETTING_BACKEND, bad[i], "not one of", "auto|cuda|host");
    refuse(WI_SETTING_STRICT, "2", "neither yes nor no", "1 or 0");
    refuse(WI_SETTING_STRICT, "o", "neither yes nor no", "1 or 0");
    refuse(WI_SETTING_STRICT, "0|no", "neither yes nor no", "1 or 0");
    refuse(WI_SETTING_PLACEMENT, "packed", "not one of", "round_robin");
}

static void check_numbers(void)
{
    static const char *const junk[] = {
        "",     " ",     "abc", "-",    "--1", "+1",    " 1",    "1 ",
        "1s",   "1.5",   "1e3", "0x1",  "1k",  "1,0",   "\n1",   "1\n",
        "1..2", "five5", "5g",  "\xff", "1_0", "1'000", "1 000", "1-",
    };
    static const char *const far[] = {
        "0",
        "-1",
        "86400001",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "18446744073709551617",
        "-9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999999999999999999999999999999999999999999999",
    };

    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        refuse(WI_SETTING_TIMEOUT_MS, junk[i], "not a whole number",
               "1..86400000");
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        refuse(WI_SETTING_TIMEOUT_MS, far[i], "outside its range",
               "1..86400000");
}

static void check_sizes(void)
{
    static const char *const junk[] = {"k",   "1kb", "1kk",  "1t", "1 k",
                                       "1ki", "g1",  "1.5g", "-k"};
    static const char *const far[] = {
        "-1",
        "-1g",
        "1125899906842625",
        "1048577g",
        "8589934592g",  /* 2^63 */
        "17179869184g", /* 2^64: 0 if it wrapped */
        "18014398509481984k",
        "9223372036854775807g",
    };

    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        refuse(WI_SETTING_POOL_BYTES, junk[i], "not a size", "k, m, g");
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        refuse(WI_SETTING_POOL_BYTES, far[i], "outside its range",
               "0..1125899906842624");
}

/* A value of any length is cut, not spilled. */
static void check_long(void)
{
    char text[5000];

    memset(text, 'z', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    refuse(WI_SETTING_BACKEND, text, "zzz...\", not one of", "auto|cuda|host");
    memset(text, '9', sizeof text - 1);
    refuse(WI_SETTING_TIMEOUT_MS, text, "999...\", outside", "1..86400000");
}

/* A number is not to be had of a text setting. */
static void check_text_setting(void)
{
    int64_t value = -77;

    T_STATUS(WHARF_ECONFIG,
             wi_config_number(WI_SETTING_CUDA_DRIVER, &value, NULL));
    T_EQ_INT(-77, value);
}

/* Several bad ones: the first in the table is the error, all are told. */
static void check_several(void)
{
    t_stderr caught;
    char text[1024];
    wharf_status status;

    setenv("WHARF_BACKEND", "gpu", 1);
    setenv("WHARF_TIMEOUT_MS", "soon", 1);
    setenv("WHARF_STATS", "maybe", 1);
    t_stderr_catch(&caught);
    status = wi_config_check();
    t_stderr_release(&caught);
    T_EQ_INT(WHARF_ECONFIG, status);
    T_CONTAINS("WHARF_BACKEND is \"gpu\"", wi_error_record()->cause);
    T_CONTAINS("WHARF_TIMEOUT_MS is \"soon\"",
               t_stderr_next(&caught, text, sizeof text));
    T_CONTAINS("WHARF_STATS is \"maybe\"",
               t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);
    unsetenv("WHARF_BACKEND");
    unsetenv("WHARF_TIMEOUT_MS");
    unsetenv("WHARF_STATS");
    T_OK(wi_config_check());
}

int main(void)
{
    wi_log_set_level(WI_LOG_WARN);
    check_words();
    check_numbers();
    check_sizes();
    check_long();
    check_text_setting();
    check_several();
    return 0;
}
