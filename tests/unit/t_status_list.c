/* SPDX-License-Identifier: MIT */
/* The status list: unique names and numbers, texts, scopes by number, and
 * fixed answers for numbers outside the list. */
#include <limits.h>

#include "t_test.h"
#include "wharf/status.h"

static const struct row {
    const char *name;
    int number;
    const char *text;
} rows[] = {
#define ROW(name, number, text) {"WHARF_" #name, number, text},
    WHARF_STATUS_LIST(ROW)
#undef ROW
};

#define ROWS ((int)(sizeof rows / sizeof rows[0]))

static wharf_scope scope_of(int number)
{
    if (number == 0)
        return WHARF_SCOPE_NONE;
    if (number < 20)
        return WHARF_SCOPE_CALL;
    return number < 40 ? WHARF_SCOPE_OBJECT : WHARF_SCOPE_NODE;
}

static void check_listed(const struct row *row)
{
    wharf_status status = (wharf_status)row->number;

    T_CHECK(row->number >= 0 && row->number < 60);
    T_EQ_STR(row->name, wharf_status_name(status));
    T_EQ_STR(row->text, wharf_status_text(status));
    T_CHECK(row->text[0] != '\0');
    T_EQ_INT(scope_of(row->number), wharf_status_scope(status));
}

static void check_unique(int i)
{
    for (int j = 0; j < i; j++) {
        T_CHECK(rows[i].number != rows[j].number);
        T_CHECK(strcmp(rows[i].name, rows[j].name) != 0);
        T_CHECK(strcmp(rows[i].text, rows[j].text) != 0);
    }
}

static void check_unlisted(int number)
{
    wharf_status status = (wharf_status)number;

    for (int i = 0; i < ROWS; i++)
        if (rows[i].number == number)
            return;
    T_EQ_STR("WHARF_UNKNOWN", wharf_status_name(status));
    T_EQ_STR("unknown status", wharf_status_text(status));
    T_EQ_INT(WHARF_SCOPE_NODE, wharf_status_scope(status));
}

int main(void)
{
    T_EQ_INT(0, WHARF_OK);
    for (int i = 0; i < ROWS; i++) {
        check_listed(&rows[i]);
        check_unique(i);
    }
    for (int number = -2; number < 100; number++)
        check_unlisted(number);
    check_unlisted(INT_MAX);
    check_unlisted(INT_MIN);
    return 0;
}
