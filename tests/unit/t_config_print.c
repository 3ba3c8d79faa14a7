/* SPDX-License-Identifier: MIT */
/* The help text names every setting with its values, preset and meaning. */
#include "base/config.h"

#include "t_test.h"

int main(void)
{
    static const struct {
        const char *variable, *values, *preset, *text;
    } rows[] = {
#define ROW(id, variable, type, values, preset, text)                          \
    {variable, values, preset, text},
        WI_SETTINGS(ROW)
#undef ROW
    };
    char *help = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&help, &bytes);
    char line[200];
    const char *at;

    T_CHECK(file != NULL);
    wi_config_print(file);
    T_EQ_INT(0, fclose(file));
    at = help;
    for (int i = 0; i < WI_SETTING_COUNT; i++) {
        snprintf(line, sizeof line, "%s=%s\n    %s\n", rows[i].variable,
                 rows[i].values, rows[i].text);
        at = strstr(at, line);
        if (!at)
            T_FAIL("no \"%s\" at its place in \"%s\"", line, help);
        at += strlen(line);
        if (rows[i].preset[0]) {
            snprintf(line, sizeof line, "    default: %s\n", rows[i].preset);
            T_EQ_INT(0, strncmp(at, line, strlen(line)));
        }
    }
    for (const char *start = help, *end; *start; start = end + 1) {
        end = strchr(start, '\n');
        T_CHECK(end != NULL);
        T_CHECK(end - start <= 80);
    }
    free(help);
    return 0;
}
