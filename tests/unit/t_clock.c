/* SPDX-License-Identifier: MIT */
/* Deadlines: order, saturation and rounding; no assertion on durations. */
#include "base/clock.h"

#include <limits.h>

#include "t_test.h"

#define NS_PER_MS INT64_C(1000000)

static void check_deadlines(void)
{
    int64_t before = wi_now_ns();
    wi_deadline soon = wi_deadline_in_ms(1);
    wi_deadline late = wi_deadline_in_ms(1000000);

    T_CHECK(before > 0);
    T_CHECK(wi_now_ns() >= before);
    T_CHECK(soon >= before + NS_PER_MS);
    T_CHECK(late >= before + 1000000 * NS_PER_MS);
    T_CHECK(!wi_deadline_passed(late));
    while (!wi_deadline_passed(soon))
        T_CHECK(wi_now_ns() < late);

    T_CHECK(wi_deadline_passed(wi_deadline_in_ms(0)));
    T_CHECK(wi_deadline_passed(wi_deadline_in_ms(-5)));
    T_CHECK(wi_deadline_passed(wi_deadline_in_ms(INT64_MIN)));
    T_EQ_INT(WI_NEVER, wi_deadline_in_ms(INT64_MAX));
    T_EQ_INT(WI_NEVER, wi_deadline_in_ms(INT64_MAX / NS_PER_MS));
    T_CHECK(!wi_deadline_passed(WI_NEVER));
}

static void check_poll(void)
{
    T_EQ_INT(50, wi_deadline_poll_ms(WI_NEVER, 50));
    T_EQ_INT(INT_MAX, wi_deadline_poll_ms(WI_NEVER, INT_MAX));
    T_EQ_INT(50, wi_deadline_poll_ms(wi_deadline_in_ms(1000000), 50));
    T_EQ_INT(0, wi_deadline_poll_ms(wi_deadline_in_ms(0), 50));
    T_EQ_INT(0, wi_deadline_poll_ms(INT64_MIN / 2, 50));
    T_EQ_INT(0, wi_deadline_poll_ms(WI_NEVER, 0));
    /* poll(2) takes -1 for "for ever", which nothing here may do. */
    T_EQ_INT(0, wi_deadline_poll_ms(WI_NEVER, -1));
    /* Many days are more than poll's int: saturates at most. */
    T_EQ_INT(INT_MAX,
             wi_deadline_poll_ms(wi_deadline_in_ms(INT64_C(1) << 40), INT_MAX));
}

/* While a deadline is ahead, poll never gets 0: that would spin. */
static void check_round_up(void)
{
    wi_deadline deadline = wi_deadline_in_ms(3);
    int ms;

    do {
        ms = wi_deadline_poll_ms(deadline, 50);
        T_CHECK(ms >= 0 && ms <= 3);
    } while (ms > 0);
    T_CHECK(wi_deadline_passed(deadline));
}

int main(void)
{
    check_deadlines();
    check_poll();
    check_round_up();
    return 0;
}
