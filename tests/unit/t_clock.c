/* SPDX-License-Identifier: MIT */
/* Deadlines: order, saturation and rounding; no assertion on durations. */
#include "base/clock.h"

#include <limits.h>

#include "t_test.h"

static void check_deadlines(void)
{
    int64_t before = wi_now_ns();
    wi_deadline soon = wi_deadline_in_ms(1);
    wi_deadline late = wi_deadline_in_ms(1000000);

    T_CHECK(before > 0);
    T_CHECK(wi_now_ns() >= before);
    T_CHECK(soon >= before + WI_NS_PER_MS);
    T_CHECK(late >= before + 1000000 * WI_NS_PER_MS);
    T_CHECK(!wi_deadline_passed(late));
    while (!wi_deadline_passed(soon))
        T_CHECK(wi_now_ns() < late);

    T_CHECK(wi_deadline_passed(wi_deadline_in_ms(0)));
    T_CHECK(wi_deadline_passed(wi_deadline_in_ms(-5)));
    T_CHECK(wi_deadline_passed(wi_deadline_in_ms(INT64_MIN)));
    T_EQ_INT(WI_NEVER, wi_deadline_in_ms(INT64_MAX));
    T_EQ_INT(WI_NEVER, wi_deadline_in_ms(INT64_MAX / WI_NS_PER_MS));
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

/* A wait that looks often enough runs out when its deadline passes; one that
 * could not look for half a second has that time more. */
static void check_run_out(void)
{
    wi_deadline soon = wi_deadline_in_ms(2);
    wi_deadline stopped = wi_deadline_in_ms(300);

    T_CHECK(!wi_deadline_run_out(stopped));
    while (!wi_deadline_run_out(soon))
        T_CHECK(wi_deadline_left_ns(soon) <= 2 * WI_NS_PER_MS);
    T_CHECK(wi_deadline_passed(soon));
    T_CHECK(wi_deadline_left_ns(soon) <= 0);
    T_CHECK(wi_deadline_run_out(wi_deadline_in_ms(0)));
    T_CHECK(!wi_deadline_run_out(WI_NEVER));
    wi_sleep_ns(WI_NS_PER_S * 11 / 20);
    T_CHECK(wi_deadline_passed(stopped));
    T_CHECK(!wi_deadline_run_out(stopped));
    T_CHECK(wi_deadline_left_ns(stopped) > 0);
    T_CHECK(wi_deadline_poll_ms(stopped, 50) > 0);
}

/* Yields, then doubled sleeps up to the longest, however often. */
static void check_pauses(void)
{
    wi_pauses pauses = {.yields = 2, .first_ns = 1000, .most_ns = 4000};
    int64_t before = wi_now_ns();

    for (unsigned i = 0; i < 4; i++) {
        T_CHECK(!wi_pauses_long(&pauses));
        T_EQ_INT(i, pauses.taken);
        wi_pauses_take(&pauses);
    }
    T_CHECK(wi_now_ns() >= before + 1000 + 2000);
    for (unsigned i = 0; i < 100; i++) {
        T_CHECK(wi_pauses_long(&pauses));
        wi_pauses_take(&pauses);
    }
    pauses.taken = UINT_MAX;
    T_CHECK(wi_pauses_long(&pauses));
    wi_pauses_take(&pauses);
    T_CHECK(wi_pauses_long(&pauses));
}

int main(void)
{
    check_deadlines();
    check_poll();
    check_round_up();
    check_run_out();
    check_pauses();
    return 0;
}
