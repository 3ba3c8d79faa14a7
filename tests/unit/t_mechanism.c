/* SPDX-License-Identifier: MIT */
/* The choice of a mechanism, from every combination of facts and wishes. */
#include "base/error.h"
#include "core/signal.h"
#include "t_test.h"

static wi_signal_facts facts_of(unsigned bits)
{
    wi_signal_facts f = {
        .same_gpu = bits & 1,
        .mps = bits & 2,
        .native = bits & 4 && !(bits & 1),
        .mem_ops_from = bits & 8,
        .mem_ops_to = bits & 16,
        .words_on_host = bits & 32,
    };

    return f;
}

static void check_one(const wi_signal_facts *f, wharf_mechanism wanted,
                      bool capturable)
{
    wi_signal_way way = {.mechanism = WHARF_MECHANISM_AUTO};
    wharf_status status = wi_signal_choose(f, wanted, capturable, &way);
    bool mem_ops = f->mem_ops_from && f->mem_ops_to;

    if (status != WHARF_OK) {
        T_EQ_INT(WHARF_EUNSUPPORTED, status);
        T_CHECK(wanted != WHARF_MECHANISM_AUTO || capturable);
        T_EQ_INT(WHARF_MECHANISM_AUTO, way.mechanism);
        T_CHECK(wi_error_record()->cause[0] != '\0');
        return;
    }
    T_CHECK(way.mechanism != WHARF_MECHANISM_AUTO);
    T_CHECK(way.reason[0] != '\0');
    /* Never a mechanism that the machine has not. */
    if (way.mechanism == WHARF_MECHANISM_MEM_OPS)
        T_CHECK(mem_ops && !capturable && !way.counts);
    if (way.mechanism == WHARF_MECHANISM_HYBRID)
        T_CHECK(f->mem_ops_to && wi_signal_atomics(f) && way.counts);
    if (way.counts)
        T_CHECK(wi_signal_atomics(f));
    if (capturable)
        T_CHECK(way.counts);
    if (wanted == WHARF_MECHANISM_KERNEL) {
        T_EQ_INT(WHARF_MECHANISM_KERNEL, way.mechanism);
        T_EQ_INT(f->same_gpu && !f->mps, way.slow);
    }
    /* A kernel that spins on a time-sliced GPU only where nothing else is
     * possible, or asked for, and then it is said. */
    if (way.mechanism == WHARF_MECHANISM_KERNEL && f->same_gpu && !f->mps) {
        T_CHECK(way.slow);
        T_CHECK(wanted == WHARF_MECHANISM_KERNEL || !mem_ops);
    }
}

static void expect(unsigned bits, wharf_mechanism wanted, bool capturable,
                   wharf_mechanism expected)
{
    wi_signal_facts f = facts_of(bits);
    wi_signal_way way;

    T_OK(wi_signal_choose(&f, wanted, capturable, &way));
    T_EQ_STR(wharf_mechanism_name(expected),
             wharf_mechanism_name(way.mechanism));
}

int main(void)
{
    enum { SAME = 1, MPS = 2, NATIVE = 4, OPS = 24, HOST = 32 };
    wi_signal_facts host = {.host = true};
    wi_signal_way way;

    for (unsigned bits = 0; bits < 64; bits++)
        for (int wanted = 0; wanted <= WHARF_MECHANISM_HOST; wanted++)
            for (int capturable = 0; capturable < 2; capturable++) {
                wi_signal_facts f = facts_of(bits);

                check_one(&f, (wharf_mechanism)wanted, capturable);
            }
    for (int wanted = 0; wanted <= WHARF_MECHANISM_HOST; wanted++) {
        T_OK(wi_signal_choose(&host, (wharf_mechanism)wanted, true, &way));
        T_EQ_INT(WHARF_MECHANISM_HOST, way.mechanism);
    }
    expect(SAME | OPS, WHARF_MECHANISM_AUTO, false, WHARF_MECHANISM_MEM_OPS);
    expect(SAME | OPS, WHARF_MECHANISM_AUTO, true, WHARF_MECHANISM_HYBRID);
    expect(SAME | OPS | MPS, WHARF_MECHANISM_AUTO, true,
           WHARF_MECHANISM_KERNEL);
    expect(SAME, WHARF_MECHANISM_AUTO, false, WHARF_MECHANISM_KERNEL);
    expect(NATIVE | OPS, WHARF_MECHANISM_AUTO, false, WHARF_MECHANISM_KERNEL);
    expect(OPS, WHARF_MECHANISM_AUTO, false, WHARF_MECHANISM_MEM_OPS);
    expect(0, WHARF_MECHANISM_AUTO, false, WHARF_MECHANISM_KERNEL);
    expect(NATIVE | OPS | HOST, WHARF_MECHANISM_AUTO, false,
           WHARF_MECHANISM_MEM_OPS);
    return 0;
}
