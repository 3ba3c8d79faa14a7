/* SPDX-License-Identifier: MIT */
/* Bindings of ranks and lists of indices; what was read is spelled again and
 * must mean the same. */
#include "fuzz.h"
#include "topo/bits.h"
#include "wharf/topo.h"

#define WORDS (WHARF_TOPO_INDICES / 64)
/* "0,2,4,...": the longest spelling of a full set. */
#define SPELLED (5 * WHARF_TOPO_INDICES)

static const uint64_t documented =
    FUZZ_BIT(WHARF_EARG) | FUZZ_BIT(WHARF_ELIMIT);

static void set_check(const uint64_t *set)
{
    static char text[SPELLED];
    uint64_t again[WORDS];
    size_t length;

    wi_bits_format(set, WHARF_TOPO_INDICES, text, sizeof text);
    length = strlen(text);
    if (wi_bits_count(set, WORDS) == 0) {
        FUZZ_CHECK(length == 0);
        return;
    }
    FUZZ_CHECK(fuzz_answer(wi_bits_parse(text, length, "again", again), 0));
    FUZZ_CHECK(memcmp(set, again, sizeof again) == 0);
    /* Too little room cuts the spelling, and nothing is written behind it. */
    for (size_t room = 1; room < 24; room++) {
        char *small = malloc(room);

        FUZZ_CHECK(small != NULL);
        wi_bits_format(set, WHARF_TOPO_INDICES, small, room);
        FUZZ_CHECK(memchr(small, 0, room) != NULL);
        free(small);
    }
}

static void bits_check(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size, false);
    uint64_t set[WORDS];

    if (fuzz_answer(wi_bits_parse(text, size, "CPU", set), documented)) {
        FUZZ_CHECK(wi_bits_count(set, WORDS) > 0);
        set_check(set);
    }
    free(text);
}

static void binding_check(const char *text, int capacity)
{
    wharf_binding *bindings = calloc((size_t)capacity, sizeof *bindings);
    int ranks = -1;

    FUZZ_CHECK(bindings != NULL);
    if (fuzz_answer(wharf_binding_parse(text, bindings, capacity, &ranks),
                    documented)) {
        FUZZ_CHECK(ranks >= 1 && ranks <= capacity);
        for (int r = 0; r < ranks; r++) {
            FUZZ_CHECK(bindings[r].kind == WHARF_BINDING_NONE ||
                       wi_bits_count(bindings[r].set, WORDS) > 0);
            set_check(bindings[r].set);
        }
    } else {
        FUZZ_CHECK(ranks == -1);
    }
    free(bindings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size, true);

    wi_log_set_level(WI_LOG_NONE);
    bits_check(data, size);
    binding_check(text, 1);
    binding_check(text, 6);
    free(text);
    fuzz_nothing_left();
    return 0;
}
