/* SPDX-License-Identifier: MIT */
/* A record as one sentence. */
#include "t_test.h"
#include "wharf/status.h"

#include <limits.h>

static wharf_error record(void)
{
    wharf_error error = {.status = WHARF_EARG, .rank = 2};

    strcpy(error.call, "wharf_buffer_attach");
    strcpy(error.cause, "size -1 is negative");
    strcpy(error.remedy, "pass 0 or more");
    return error;
}

static void check_parts(void)
{
    wharf_error error = record();
    char text[512];

    T_EQ_PTR(text, wharf_error_format(&error, text, sizeof text));
    T_EQ_STR("rank 2: wharf_buffer_attach: WHARF_EARG: size -1 is negative; "
             "pass 0 or more",
             text);
    error.remedy[0] = '\0';
    error.rank = -1;
    T_EQ_STR("wharf_buffer_attach: WHARF_EARG: size -1 is negative",
             wharf_error_format(&error, text, sizeof text));
    error.call[0] = '\0';
    error.cause[0] = '\0';
    T_EQ_STR("WHARF_EARG: argument outside its documented range",
             wharf_error_format(&error, text, sizeof text));
    memset(&error, 0, sizeof error);
    error.rank = -1;
    T_EQ_STR("WHARF_OK: success",
             wharf_error_format(&error, text, sizeof text));
    error.status = (wharf_status)77;
    T_EQ_STR("WHARF_UNKNOWN: unknown status",
             wharf_error_format(&error, text, sizeof text));
}

static void check_capacity(void)
{
    wharf_error error = record();
    char text[16];

    memset(text, '#', sizeof text);
    T_EQ_PTR(text, wharf_error_format(&error, text, 0));
    T_EQ_INT('#', text[0]);
    wharf_error_format(&error, text, 1);
    T_EQ_STR("", text);
    T_EQ_INT('#', text[1]);
    wharf_error_format(&error, text, 8);
    T_EQ_STR("rank 2:", text);
    T_EQ_INT('#', text[8]);
    T_EQ_STR("", wharf_error_format(NULL, text, sizeof text));
    T_EQ_STR("", wharf_error_format(&error, NULL, 0));
}

/* 512 bytes hold every record, one whose strings do not end included. */
static void check_longest(void)
{
    wharf_error error = {.status = WHARF_EUNSUPPORTED, .rank = INT_MAX};
    char text[512];

    memset(error.call, 'c', sizeof error.call);
    memset(error.cause, 'x', sizeof error.cause);
    memset(error.remedy, 'r', sizeof error.remedy);
    wharf_error_format(&error, text, sizeof text);
    T_CHECK(strlen(text) < sizeof text - 1);
    T_EQ_INT(sizeof error.remedy, strspn(strrchr(text, ' ') + 1, "r"));
}

int main(void)
{
    check_parts();
    check_capacity();
    check_longest();
    return 0;
}
