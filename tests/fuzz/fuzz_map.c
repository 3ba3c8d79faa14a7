/* SPDX-License-Identifier: MIT */
/* Names of GPUs: device maps, lists of visible GPUs, single names, PCI ids. The
 * first byte chooses how many GPUs the machine has; the rest is text. */
#include "fuzz.h"
#include "topo/plan.h"

#define GPUS 64
#define UNTOUCHED (-77)

static wi_topo_gpu gpu[GPUS];

/* Plain GPUs, two MIG instances of one, UUIDs that begin alike. */
static void machine_make(void)
{
    for (int g = 0; g < GPUS; g++) {
        snprintf(gpu[g].pci, sizeof gpu[g].pci, "%04x:%02x:%02x.0", g / 40,
                 g % 5 == 1 ? g - 1 : g, g % 3);
        snprintf(gpu[g].uuid, sizeof gpu[g].uuid, "%s-%d%da0b-%04d",
                 g % 5 < 2 ? "MIG" : "GPU", g / 8, g % 8, g);
        gpu[g].mig = g % 5 < 2;
    }
}

static void map_check(const char *text, int gpus, int ranks)
{
    int *map = malloc((size_t)ranks * sizeof *map);

    FUZZ_CHECK(map != NULL);
    for (int r = 0; r < ranks; r++)
        map[r] = UNTOUCHED;
    if (fuzz_answer(wi_map_parse(gpu, gpus, text, ranks, map),
                    FUZZ_BIT(WHARF_EARG)))
        for (int r = 0; r < ranks; r++)
            FUZZ_CHECK(map[r] >= 0 && map[r] < gpus);
    free(map);
}

static void visible_check(const char *text, int gpus, int ranks)
{
    wi_plan_rank *rank = calloc((size_t)ranks, sizeof *rank);
    uint64_t all = gpus < 64 ? (UINT64_C(1) << gpus) - 1 : ~UINT64_C(0);

    FUZZ_CHECK(rank != NULL);
    for (int r = 0; r < ranks; r++)
        rank[r].visible = all;
    if (fuzz_answer(wi_visible_parse(gpu, gpus, text, ranks, rank),
                    FUZZ_BIT(WHARF_EARG)))
        for (int r = 0; r < ranks; r++) {
            FUZZ_CHECK((rank[r].visible & ~all) == 0);
            FUZZ_CHECK(memchr(rank[r].token, 0, sizeof rank[r].token) != NULL);
        }
    free(rank);
}

static void name_check(const uint8_t *data, size_t size, int gpus)
{
    char *token = fuzz_copy(data, size, false);
    int index = UNTOUCHED;
    unsigned part[4];

    if (fuzz_answer(wi_device_find(gpu, gpus, token, size, &index),
                    FUZZ_BIT(WHARF_EARG)))
        FUZZ_CHECK(index >= 0 && index < gpus);
    else
        FUZZ_CHECK(index == UNTOUCHED);
    if (wi_pci_parse(token, size, part))
        FUZZ_CHECK(part[1] <= 0xff && part[2] <= 0x1f && part[3] <= 7);
    free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int gpus = size ? data[0] % (GPUS + 1) : 8;
    char *text;

    wi_log_set_level(WI_LOG_NONE);
    machine_make();
    data += size > 0;
    size -= size > 0;
    text = fuzz_copy(data, size, true);
    map_check(text, gpus, wi_entries_count(text, ','));
    map_check(text, gpus, 4);
    visible_check(text, gpus, wi_entries_count(text, '/'));
    visible_check(text, gpus, 4);
    name_check(data, size, gpus);
    FUZZ_CHECK(wi_pci_compare(text, text) == 0);
    free(text);
    fuzz_nothing_left();
    return 0;
}
