/* SPDX-License-Identifier: MIT */
/* Settings from the environment: the input as the value of every setting, and
 * as a variable of the environment, name and value. */
#include <unistd.h>

#include "base/config.h"
#include "fuzz.h"

static const char *const types[] = {
#define TYPE(id, variable, type, values, preset, text) #type,
    WI_SETTINGS(TYPE)
#undef TYPE
};

static void value_check(wi_setting setting, const char *text)
{
    const int64_t untouched = INT64_C(-0x5eed5eed5eed);
    int64_t value = untouched;
    wharf_status status = wi_config_parse(setting, text, &value);
    const char *name = wi_config_variable(setting);

    if (!fuzz_answer(status, FUZZ_BIT(WHARF_ECONFIG))) {
        FUZZ_CHECK(value == untouched);
        FUZZ_CHECK(strstr(wi_error_record()->cause, name) != NULL);
        FUZZ_CHECK(wi_error_record()->remedy[0] != 0);
        return;
    }
    FUZZ_CHECK(strcmp(types[setting], "TEXT") != 0);
    FUZZ_CHECK(value >= 0 && value <= INT64_C(1125899906842624));
    if (strcmp(types[setting], "BOOL") == 0)
        FUZZ_CHECK(value <= 1);
    if (strcmp(types[setting], "CHOICE") == 0)
        FUZZ_CHECK(value <= 5);
    if (setting == WI_SETTING_TIMEOUT_MS)
        FUZZ_CHECK(value >= 1 && value <= 86400000);
}

/* "WHARF_" and the input as the whole environment, then as each setting. */
static void environment_check(const char *text, size_t size)
{
    char **before = environ;
    char *line = malloc(size + 64);
    char *lines[] = {line, NULL};

    FUZZ_CHECK(line != NULL);
    environ = lines;
    snprintf(line, size + 64, "WHARF_%s", text);
    fuzz_answer(wi_config_check(), FUZZ_BIT(WHARF_ECONFIG));
    for (int s = 0; s < WI_SETTING_COUNT; s++) {
        int64_t value = -1, parsed = -1;
        int given = -1;
        wharf_status status, again;

        snprintf(line, size + 64, "%s=%s", wi_config_variable((wi_setting)s),
                 text);
        if (strcmp(types[s], "TEXT") == 0) {
            FUZZ_CHECK(strcmp(wi_config_text((wi_setting)s), text) == 0);
            continue;
        }
        again = wi_config_parse((wi_setting)s, text, &parsed);
        status = wi_config_number((wi_setting)s, &value, &given);
        if (!fuzz_answer(status, FUZZ_BIT(WHARF_ECONFIG)))
            FUZZ_CHECK(value == -1 && given == -1);
        else
            FUZZ_CHECK(given == (text[0] != 0));
        if (text[0])
            FUZZ_CHECK(status == again && value == parsed);
        fuzz_answer(wi_config_check(), FUZZ_BIT(WHARF_ECONFIG));
    }
    environ = before;
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size, true);

    wi_log_set_level(WI_LOG_NONE);
    for (int s = 0; s < WI_SETTING_COUNT; s++)
        value_check((wi_setting)s, text);
    environment_check(text, strlen(text));
    free(text);
    fuzz_nothing_left();
    return 0;
}
