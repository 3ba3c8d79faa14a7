/* SPDX-License-Identifier: MIT */
/* Good values of every setting: presets, the whole of each list of choices,
 * both ends of each range, suffixes. */
#include "base/config.h"

#include "t_test.h"

static const struct row {
    const char *variable, *type, *values, *preset, *text;
} rows[] = {
#define ROW(id, variable, type, values, preset, text)                          \
    {variable, #type, values, preset, text},
    WI_SETTINGS(ROW)
#undef ROW
};

static int64_t parsed(int setting, const char *text)
{
    int64_t value = -77;

    T_OK(wi_config_parse((wi_setting)setting, text, &value));
    return value;
}

static void check_preset(int i)
{
    int64_t value = -77;
    int given = -77;

    T_EQ_STR(rows[i].variable, wi_config_variable((wi_setting)i));
    T_CHECK(rows[i].text[0] != '\0');
    unsetenv(rows[i].variable);
    T_EQ_STR(rows[i].preset, wi_config_text((wi_setting)i));
    if (strcmp(rows[i].type, "TEXT") == 0)
        return;
    T_OK(wi_config_number((wi_setting)i, &value, &given));
    T_EQ_INT(0, given);
    T_EQ_INT(parsed(i, rows[i].preset), value);
    T_OK(wi_config_number((wi_setting)i, &value, NULL));

    /* Empty is unset. */
    setenv(rows[i].variable, "", 1);
    given = -77;
    T_OK(wi_config_number((wi_setting)i, &value, &given));
    T_EQ_INT(0, given);
    T_EQ_INT(parsed(i, rows[i].preset), value);

    setenv(rows[i].variable, rows[i].preset, 1);
    T_OK(wi_config_number((wi_setting)i, &value, &given));
    T_EQ_INT(1, given);
    unsetenv(rows[i].variable);
}

static void check_choices(int i)
{
    char values[200];
    int position = 0;

    snprintf(values, sizeof values, "%s", rows[i].values);
    for (char *at = strtok(values, "|"); at; at = strtok(NULL, "|"))
        T_EQ_INT(position++, parsed(i, at));
    T_CHECK(position >= 2);
}

static void check_range(int i)
{
    int64_t least, most;
    char text[40];

    T_EQ_INT(2, sscanf(rows[i].values, "%" SCNd64 "..%" SCNd64, &least, &most));
    snprintf(text, sizeof text, "%" PRId64, least);
    T_EQ_INT(least, parsed(i, text));
    snprintf(text, sizeof text, "%" PRId64, most);
    T_EQ_INT(most, parsed(i, text));
    snprintf(text, sizeof text, "000%" PRId64, most);
    T_EQ_INT(most, parsed(i, text));
}

static void check_bool(void)
{
    static const char *const no[] = {"0", "no", "off", "false", "FALSE", "Off"};
    static const char *const yes[] = {"1", "yes", "on", "true", "True", "YES"};

    for (int i = 0; i < 6; i++) {
        T_EQ_INT(0, parsed(WI_SETTING_STRICT, no[i]));
        T_EQ_INT(1, parsed(WI_SETTING_STRICT, yes[i]));
    }
}

static void check_suffixes(void)
{
    T_EQ_INT(0, parsed(WI_SETTING_POOL_BYTES, "0"));
    T_EQ_INT(0, parsed(WI_SETTING_POOL_BYTES, "0g"));
    T_EQ_INT(3 * 1024, parsed(WI_SETTING_POOL_BYTES, "3k"));
    T_EQ_INT(3 * 1024, parsed(WI_SETTING_POOL_BYTES, "3K"));
    T_EQ_INT(5 << 20, parsed(WI_SETTING_POOL_BYTES, "5m"));
    T_EQ_INT(INT64_C(7) << 30, parsed(WI_SETTING_POOL_BYTES, "7G"));
    T_EQ_INT(INT64_C(1) << 50, parsed(WI_SETTING_POOL_BYTES, "1048576g"));
}

static void check_text(void)
{
    const char *map = "0,GPU-1234,0000:06:00.0";

    setenv("WHARF_DEVICE_MAP", map, 1);
    T_EQ_STR(map, wi_config_text(WI_SETTING_DEVICE_MAP));
    setenv("WHARF_DEVICE_MAP", "", 1);
    T_EQ_STR("", wi_config_text(WI_SETTING_DEVICE_MAP));
    unsetenv("WHARF_DEVICE_MAP");
}

int main(void)
{
    for (int i = 0; i < WI_SETTING_COUNT; i++) {
        check_preset(i);
        if (strcmp(rows[i].type, "CHOICE") == 0)
            check_choices(i);
        if (strcmp(rows[i].type, "INT") == 0 ||
            strcmp(rows[i].type, "SIZE") == 0)
            check_range(i);
    }
    check_bool();
    check_suffixes();
    check_text();
    T_OK(wi_config_check());
    return 0;
}
