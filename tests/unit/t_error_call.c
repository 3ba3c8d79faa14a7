/* SPDX-License-Identifier: MIT */
/* The brackets of public calls: which name a record gets, and what is logged
 * where. */
#include "base/error.h"
#include "base/log.h"

#include "t_stderr.h"

static char text[1024];

/* Ends a call that failed with a record of `record_rank`; returns what was
 * logged. */
static const char *logged(int call_rank, int record_rank, wharf_status status)
{
    t_stderr caught;
    wharf_status back;

    t_stderr_catch(&caught);
    wi_call_begin("wharf_x", call_rank);
    wi_fail(WHARF_EARG, "repair it", "broken");
    wi_error_record()->rank = record_rank;
    back = wi_call_end(status);
    t_stderr_release(&caught);
    T_EQ_INT(status, back);
    t_stderr_next(&caught, text, sizeof text);
    t_stderr_done(&caught);
    return text;
}

static void check_logged(void)
{
    T_EQ_STR("wharf: error: rank 1: wharf_x: WHARF_EARG: broken; repair it\n",
             logged(1, 1, WHARF_EARG));
    T_EQ_STR("wharf: error: wharf_x: WHARF_EARG: broken; repair it\n",
             logged(-1, -1, WHARF_EARG));
    T_EQ_STR("", logged(1, 2, WHARF_EARG));
    T_EQ_STR("", logged(-1, 2, WHARF_EARG));
    T_EQ_STR("", logged(1, 1, WHARF_OK));
    T_EQ_STR("", logged(1, 1, WHARF_ENOTREADY));
    wi_log_set_level(WI_LOG_DEBUG);
    T_EQ_STR("wharf: debug: rank 2: wharf_x: WHARF_EARG: broken; repair it\n",
             logged(1, 2, WHARF_EARG));
    wi_log_set_level(WI_LOG_NONE);
    T_EQ_STR("", logged(1, 1, WHARF_EARG));
    wi_log_set_level(WI_LOG_WARN);
}

/* The outermost call is named, and only it logs. */
static void check_nested(void)
{
    t_stderr caught;

    t_stderr_catch(&caught);
    wi_call_begin("wharf_outer", 4);
    wi_call_begin("wharf_inner", 9);
    wi_fail(WHARF_ELIMIT, NULL, "full");
    wi_call_end(WHARF_ELIMIT);
    wi_log(WI_LOG_WARN, "between");
    wi_call_end(WHARF_ELIMIT);
    t_stderr_release(&caught);
    T_EQ_STR("wharf_outer", wi_error_record()->call);
    T_EQ_INT(4, wi_error_record()->rank);
    T_EQ_STR("wharf: warn: between\n",
             t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("wharf: error: rank 4: wharf_outer: WHARF_ELIMIT: full\n",
             t_stderr_next(&caught, text, sizeof text));
    T_EQ_STR("", t_stderr_next(&caught, text, sizeof text));
    t_stderr_done(&caught);

    /* Outside a call there is neither name nor rank. */
    wi_fail(WHARF_EARG, NULL, "alone");
    T_EQ_STR("", wi_error_record()->call);
    T_EQ_INT(-1, wi_error_record()->rank);
}

static void check_late_rank(void)
{
    wi_call_set_rank(8); /* outside a call: ignored */
    wi_fail(WHARF_EARG, NULL, "alone");
    T_EQ_INT(-1, wi_error_record()->rank);

    wi_log_set_level(WI_LOG_NONE);
    wi_call_begin("wharf_node_open", -1);
    wi_call_set_rank(5);
    wi_fail(WHARF_ENODEV, NULL, "none");
    T_EQ_INT(5, wi_error_record()->rank);
    wi_call_end(WHARF_ENODEV);
    wi_log_set_level(WI_LOG_WARN);
}

/* A status without a record never comes with the record of another failure. */
static void check_no_record(void)
{
    wi_log_set_level(WI_LOG_NONE);
    wi_call_begin("wharf_x", 0);
    wi_fail(WHARF_EARG, "repair it", "broken");
    wi_call_end(WHARF_EDATA);
    T_EQ_INT(WHARF_EDATA, wi_error_record()->status);
    T_EQ_STR(wharf_status_text(WHARF_EDATA), wi_error_record()->cause);
    T_EQ_STR("", wi_error_record()->remedy);

    /* An end too many is harmless. */
    T_EQ_INT(WHARF_OK, wi_call_end(WHARF_OK));
    wi_call_begin("wharf_y", 6);
    wi_fail(WHARF_EARG, NULL, "again");
    wi_call_end(WHARF_EARG);
    T_EQ_STR("wharf_y", wi_error_record()->call);
    T_EQ_INT(6, wi_error_record()->rank);
    wi_log_set_level(WI_LOG_WARN);
}

int main(void)
{
    wi_log_set_level(WI_LOG_WARN);
    check_logged();
    check_nested();
    check_late_rank();
    check_no_record();
    return 0;
}
