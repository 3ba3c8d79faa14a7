/* SPDX-License-Identifier: MIT */
/*
 * Settings from the environment: WI_SETTINGS turned into a table, and the
 * strict parser for its values. A bad value is never replaced by a default,
 * because a mistyped setting that is silently ignored costs a day.
 */
#include "base/config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

extern char **environ;

typedef enum setting_type { CHOICE, BOOL, INT, SIZE, TEXT } setting_type;

static const struct setting {
    const char *variable;
    setting_type type;
    const char *values;
    const char *preset;
    const char *text;
} settings[] = {
#define SETTING_ROW(id, variable, type, values, preset, text)                  \
    {variable, type, values, preset, text},
    WI_SETTINGS(SETTING_ROW)
#undef SETTING_ROW
};

/* Bytes of a bad value that a message repeats. */
#define SHOWN_BYTES 60

/* Longest variable name that a nearest name is looked for. */
#define NEAR_NAME_BYTES 48
/* More edits than this and the name was meant for something else. */
#define NEAR_EDITS 3
/* Where a name's own part starts, behind WHARF_. */
#define OWN_PART 6

static char ascii_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Not strcasecmp, whose answer depends on the locale of the program. */
static bool word_equal(const char *text, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (ascii_lower(text[i]) != word[i])
            return false;
    return text[length] == '\0';
}

/* Position of the text in "a|b|c", -1 if it is none of them. */
static int choice_find(const char *choices, const char *text)
{
    for (int i = 0;; i++) {
        size_t length = strcspn(choices, "|");

        if (word_equal(text, choices, length))
            return i;
        if (choices[length] == '\0')
            return -1;
        choices += length + 1;
    }
}

static bool bool_parse(const char *text, int64_t *value)
{
    int at = choice_find("0|no|off|false|1|yes|on|true", text);

    if (at < 0)
        return false;
    *value = at >= 4;
    return true;
}

static int suffix_shift(char c)
{
    switch (ascii_lower(c)) {
    case 'k':
        return 10;
    case 'm':
        return 20;
    case 'g':
        return 30;
    default:
        return 0;
    }
}

typedef enum number_problem {
    NUMBER_GOOD,
    NUMBER_NONE,    /* not a whole number */
    NUMBER_TOO_BIG, /* beyond int64_t, either sign */
} number_problem;

/* A whole number and nothing else: no blanks, no plus sign, no rest. `end`
 * gets the first character after the digits (and suffix). */
static number_problem number_parse(const char *text, bool suffix,
                                   const char **end, int64_t *value)
{
    bool minus = *text == '-';
    bool too_big = false;
    int64_t number = 0;

    text += minus;
    if (*text < '0' || *text > '9')
        return NUMBER_NONE;
    for (; *text >= '0' && *text <= '9'; text++) {
        int digit = minus ? '0' - *text : *text - '0';

        too_big |= __builtin_mul_overflow(number, 10, &number);
        too_big |= __builtin_add_overflow(number, digit, &number);
    }
    if (suffix && suffix_shift(*text)) {
        too_big |= __builtin_mul_overflow(
            number, INT64_C(1) << suffix_shift(*text), &number);
        text++;
    }
    *end = text;
    *value = number;
    return too_big ? NUMBER_TOO_BIG : NUMBER_GOOD;
}

/* "min..max" of the table. */
static void range_parse(const char *range, int64_t *least, int64_t *most)
{
    const char *at = range;

    *least = INT64_MIN;
    *most = INT64_MAX;
    number_parse(at, false, &at, least);
    if (strncmp(at, "..", 2) == 0)
        number_parse(at + 2, false, &at, most);
}

/* What is wrong with a text, as the end of the sentence "V is "x", ...";
 * NULL when it is good. */
static const char *value_parse(const struct setting *setting, const char *text,
                               int64_t *value)
{
    int64_t least, most, number;
    const char *end = text;
    number_problem problem;
    int at;

    switch (setting->type) {
    case CHOICE:
        at = choice_find(setting->values, text);
        if (at < 0)
            return "not one of its values";
        *value = at;
        return NULL;
    case BOOL:
        return bool_parse(text, value) ? NULL : "neither yes nor no";
    case INT:
    case SIZE:
        break;
    case TEXT:
        return "a text, not a number";
    }
    problem = number_parse(text, setting->type == SIZE, &end, &number);
    if (problem == NUMBER_NONE || *end != '\0')
        return setting->type == SIZE ? "not a size" : "not a whole number";
    range_parse(setting->values, &least, &most);
    if (problem == NUMBER_TOO_BIG || number < least || number > most)
        return "outside its range";
    *value = number;
    return NULL;
}

/* What the user can set instead. */
static void remedy_print(const struct setting *setting, char *text,
                         size_t capacity)
{
    const char *values = setting->values;

    switch (setting->type) {
    case CHOICE:
        snprintf(text, capacity, "set it to one of %s or unset it", values);
        break;
    case BOOL:
        snprintf(text, capacity, "set it to 1 or 0 (on, off) or unset it");
        break;
    case INT:
        snprintf(text, capacity, "set it to a whole number %s or unset it",
                 values);
        break;
    case SIZE:
        snprintf(text, capacity,
                 "set it to %s bytes (suffix k, m, g allowed) or unset it",
                 values);
        break;
    case TEXT:
        snprintf(text, capacity, "ask for it as a text");
        break;
    }
}

wharf_status wi_config_parse(wi_setting setting, const char *text,
                             int64_t *value)
{
    const struct setting *row = &settings[setting];
    int64_t parsed = 0;
    const char *problem = value_parse(row, text, &parsed);
    char remedy[120];

    if (problem) {
        remedy_print(row, remedy, sizeof remedy);
        return wi_fail(WHARF_ECONFIG, remedy, "%s is \"%.*s%s\", %s",
                       row->variable, SHOWN_BYTES, text,
                       strlen(text) > SHOWN_BYTES ? "..." : "", problem);
    }
    *value = parsed;
    return WHARF_OK;
}

/* An empty variable counts as unset: scripts write NAME=$MAYBE. */
static const char *setting_given(wi_setting setting)
{
    const char *text = getenv(settings[setting].variable);

    return text && *text ? text : NULL;
}

wharf_status wi_config_number(wi_setting setting, int64_t *value, int *given)
{
    const char *text = setting_given(setting);
    wharf_status status;

    status =
        wi_config_parse(setting, text ? text : settings[setting].preset, value);
    if (status == WHARF_OK && given)
        *given = text != NULL;
    return status;
}

const char *wi_config_text(wi_setting setting)
{
    const char *text = setting_given(setting);

    return text ? text : settings[setting].preset;
}

const char *wi_config_variable(wi_setting setting)
{
    return settings[setting].variable;
}

/* Insertions, deletions and replacements from one name to the other; capital
 * or small is no difference. */
static int name_edits(const char *a, size_t a_length, const char *b)
{
    int row[NEAR_NAME_BYTES + 1];
    size_t b_length = strlen(b);

    if (b_length > NEAR_NAME_BYTES)
        return NEAR_EDITS + 1;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int corner = row[0];

        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int best =
                corner + (ascii_lower(a[i - 1]) != ascii_lower(b[j - 1]));

            corner = row[j];
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (row[j] + 1 < best)
                best = row[j] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

static const char *name_nearest(const char *name, size_t length)
{
    const char *nearest = NULL;
    int fewest = NEAR_EDITS + 1;

    if (length > NEAR_NAME_BYTES)
        return NULL;
    for (int i = 0; i < WI_SETTING_COUNT; i++) {
        const char *variable = settings[i].variable;
        int edits = name_edits(name, length, variable);

        /* Half of a short name replaced is another name, not a slip. */
        if (edits < fewest && 2 * edits < (int)strlen(variable) - OWN_PART) {
            fewest = edits;
            nearest = variable;
        }
    }
    return nearest;
}

static bool name_starts(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

static bool name_known(const char *name, size_t length)
{
    for (int i = 0; i < WI_SETTING_COUNT; i++)
        if (strlen(settings[i].variable) == length &&
            strncmp(settings[i].variable, name, length) == 0)
            return true;
    /* Read by the tests and by their fake driver. */
    return name_starts(name, "WHARF_TEST_") || name_starts(name, "WHARF_FAKE_");
}

static void unknown_warn(const char *name, size_t length)
{
    const char *nearest = name_nearest(name, length);
    int shown = length > SHOWN_BYTES ? SHOWN_BYTES : (int)length;

    if (nearest)
        wi_log(WI_LOG_WARN, "%.*s is no setting of Wharf; did you mean %s?",
               shown, name, nearest);
    else
        wi_log(WI_LOG_WARN, "%.*s is no setting of Wharf and is ignored", shown,
               name);
}

/* A program that opens many nodes hears of the same wrong names once. */
static void unknown_check(void)
{
    static uint64_t told; /* atomic: hash of the names told of last */
    uint64_t hash = WI_HASH_START;

    for (int pass = 0; pass < 2; pass++) {
        for (char **at = environ; at && *at; at++) {
            size_t length = strcspn(*at, "=");

            if (!name_starts(*at, "WHARF_") || name_known(*at, length))
                continue;
            if (pass > 0)
                unknown_warn(*at, length);
            hash = wi_hash(hash, *at, length + 1);
        }
        if (pass == 0 &&
            __atomic_exchange_n(&told, hash, __ATOMIC_RELAXED) == hash)
            return;
    }
}

wharf_status wi_config_check(void)
{
    wharf_status first = WHARF_OK;
    wharf_error record;
    int64_t value;

    unknown_check();
    for (int i = 0; i < WI_SETTING_COUNT; i++) {
        if (settings[i].type == TEXT ||
            wi_config_number((wi_setting)i, &value, NULL) == WHARF_OK)
            continue;
        /* One record, so the further ones are logged at least. */
        if (first != WHARF_OK) {
            wi_log(WI_LOG_WARN, "%s", wi_error_record()->cause);
            continue;
        }
        first = WHARF_ECONFIG;
        record = *wi_error_record();
    }
    if (first != WHARF_OK)
        *wi_error_record() = record;
    return first;
}

void wi_config_print(FILE *file)
{
    for (int i = 0; i < WI_SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];

        fprintf(file, "%s%s=%s\n    %s", i > 0 ? "\n" : "", s->variable,
                s->values, s->text);
        if (s->preset[0])
            fprintf(file, "\n    default: %s", s->preset);
        fputc('\n', file);
    }
}
