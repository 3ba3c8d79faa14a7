/* SPDX-License-Identifier: MIT */
/* What people write: lists, bindings, PCI ids, names of GPUs, maps, lists of
 * visible GPUs. Good spellings, bad ones, and a flood of random ones. */
#include <stdbool.h>

#include "base/error.h"
#include "t_test.h"
#include "topo/bits.h"
#include "topo/plan.h"
#include "topo_gen.h"

#define FLOOD 200000

static void list_is(const char *text, const char *expected)
{
    uint64_t set[WI_TOPO_CPU_WORDS];
    char back[64];
    T_OK(wi_bits_parse(text, strlen(text), "t", set));
    T_EQ_STR(expected, wi_bits_format(set, WHARF_TOPO_INDICES, back, 64));
}

static void lists(void)
{
    static const char *const bad[] = {"",    "-",  ",",     "1,",   ",1",
                                      "1-",  "-1", "3-1",   "1--2", "1 2",
                                      "0x1", "a",  "1-2-3", "+1",   "1,,2"};
    uint64_t set[WI_TOPO_CPU_WORDS];
    char back[16];

    list_is("0", "0");
    list_is("0-3,8", "0-3,8");
    list_is("8,3,2,1,0", "0-3,8");
    list_is("5,5,5-5", "5");
    list_is("1023", "1023");
    list_is("007", "7");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        T_STATUS(WHARF_EARG, wi_bits_parse(bad[i], strlen(bad[i]), "t", set));
    T_STATUS(WHARF_ELIMIT, wi_bits_parse("1024", 4, "t", set));
    T_STATUS(WHARF_ELIMIT, wi_bits_parse("99999999999999999999", 20, "t", set));
    T_STATUS(WHARF_ELIMIT, wi_bits_parse("0-4294967297", 12, "t", set));
    /* Cut where the room ends, and marked. */
    T_OK(wi_bits_parse("1,3,5,7,9,11,13,15", 18, "t", set));
    T_CONTAINS("...", wi_bits_format(set, WHARF_TOPO_INDICES, back, 16));
    T_CHECK(strlen(back) < sizeof back);
}

static void bindings(void)
{
    static const char *const bad[] = {"",      "/",       "-/",     "numa",
                                      "numa:", "numa:x",  "cpu:-1", "CPU:1",
                                      "--",    "cpu:1;2", " -",     "numa:0 "};
    wharf_binding b[4];
    wharf_error error;
    int ranks = 77;

    T_OK(wharf_binding_parse("numa:0/numa:4,5/cpu:0-15/-", b, 4, &ranks));
    T_EQ_INT(4, ranks);
    T_EQ_INT(WHARF_BINDING_NUMA, b[1].kind);
    T_EQ_INT(0x30, b[1].set[0]);
    T_EQ_INT(WHARF_BINDING_CPU, b[2].kind);
    T_EQ_INT(0xffff, b[2].set[0]);
    T_EQ_INT(WHARF_BINDING_NONE, b[3].kind);
    ranks = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        T_STATUS(WHARF_EARG, wharf_binding_parse(bad[i], b, 4, &ranks));
    T_STATUS(WHARF_ELIMIT, wharf_binding_parse("-/-/-/-/-", b, 4, &ranks));
    T_STATUS(WHARF_ELIMIT, wharf_binding_parse("cpu:5000", b, 4, &ranks));
    T_STATUS(WHARF_EARG, wharf_binding_parse(NULL, b, 4, &ranks));
    T_STATUS(WHARF_EARG, wharf_binding_parse("-", NULL, 4, &ranks));
    T_STATUS(WHARF_EARG, wharf_binding_parse("-", b, 0, &ranks));
    T_STATUS(WHARF_EARG, wharf_binding_parse("-", b, 4, NULL));
    T_EQ_INT(77, ranks);
    T_STATUS(WHARF_EARG, wharf_binding_parse("-/-/core:3", b, 4, &ranks));
    wharf_last_error(&error);
    T_CONTAINS("rank 2", error.cause);
    T_CONTAINS("core:3", error.cause);
}

static void pci_is(const char *text, bool good, unsigned domain, unsigned bus,
                   unsigned device, unsigned function)
{
    unsigned part[4];
    T_EQ_INT(good, wi_pci_parse(text, strlen(text), part));
    if (!good)
        return;
    T_EQ_INT(domain, part[0]);
    T_EQ_INT(bus, part[1]);
    T_EQ_INT(device, part[2]);
    T_EQ_INT(function, part[3]);
}

static void pci_ids(void)
{
    pci_is("0000:06:00.0", true, 0, 6, 0, 0);
    pci_is("00000000:E6:00.0", true, 0, 0xe6, 0, 0);
    pci_is("10000:06:1f.7", true, 0x10000, 6, 0x1f, 7);
    pci_is("06:00.0", true, 0, 6, 0, 0);
    pci_is("06:00", true, 0, 6, 0, 0);
    pci_is("0004:04:00", true, 4, 4, 0, 0);
    pci_is("06", false, 0, 0, 0, 0);
    pci_is("06:", false, 0, 0, 0, 0);
    pci_is("06:00.", false, 0, 0, 0, 0);
    pci_is("06:00.8", false, 0, 0, 0, 0);
    pci_is("06:20.0", false, 0, 0, 0, 0);
    pci_is("100:00.0", false, 0, 0, 0, 0);
    pci_is("0000:06:00.0x", false, 0, 0, 0, 0);
    pci_is("", false, 0, 0, 0, 0);
    T_CHECK(wi_pci_compare("0000:06:00.0", "0000:e6:00.0") < 0);
    T_CHECK(wi_pci_compare("0004:04:00.0", "0000:e6:00.0") > 0);
    T_CHECK(wi_pci_compare("0000:06:00.0", "06:00.0") == 0);
    T_CHECK(wi_pci_compare("10000:06:00.0", "0001:06:00.0") > 0);
}

static const wi_topo_gpu gpus[] = {
    {.pci = "0000:06:00.0", .uuid = "GPU-aaaa1111-0000"},
    {.pci = "0000:16:00.0", .uuid = "GPU-aaaa2222-0000"},
    {.pci = "0000:96:00.0", .uuid = "MIG-bbbb0000-0001", .mig = true},
    {.pci = "0000:96:00.0", .uuid = "MIG-bbbb0000-0002", .mig = true},
    {.pci = "0000:e6:00.0", .uuid = ""},
};
#define GPUS ((int)(sizeof gpus / sizeof *gpus))

static void find_is(const char *token, int expected)
{
    int index = -1;
    T_OK(wi_device_find(gpus, GPUS, token, strlen(token), &index));
    T_EQ_INT(expected, index);
}

static void find_fails(const char *token, const char *why)
{
    int index = 77;
    T_STATUS(WHARF_EARG,
             wi_device_find(gpus, GPUS, token, strlen(token), &index));
    T_EQ_INT(77, index);
    T_CONTAINS(why, wi_error_record()->cause);
}

static void names(void)
{
    find_is("0", 0);
    find_is("4", 4);
    find_is("GPU-aaaa1", 0);
    find_is("gpu-AAAA2222-0000", 1);
    find_is("MIG-bbbb0000-0002", 3);
    find_is("0000:e6:00.0", 4);
    find_is("E6:00.0", 4);
    find_fails("5", "does not exist");
    find_fails("99999999999999999999", "does not exist");
    find_fails("-1", "names no GPU");
    find_fails("GPU-", "names no GPU");
    find_fails("GPU-a", "means 2 GPUs");
    find_fails("GPU-c", "of no GPU");
    find_fails("MIG-bbbb", "means 2 GPUs");
    find_fails("GPU-aaaa1111-0000-longer", "of no GPU");
    find_fails("0000:96:00.0", "means 2 GPUs");
    find_fails("0000:97:00.0", "of no GPU");
    find_fails("", "names no GPU");
    find_fails("all", "names no GPU");
}

static void maps(void)
{
    int map[3] = {-1, -1, -1};

    T_OK(wi_map_parse(gpus, GPUS, " 4 , GPU-aaaa1 ,06:00.0", 3, map));
    T_EQ_INT(4, map[0]);
    T_EQ_INT(0, map[1]);
    T_EQ_INT(0, map[2]);
    T_STATUS(WHARF_EARG, wi_map_parse(gpus, GPUS, "0,1", 3, map));
    T_STATUS(WHARF_EARG, wi_map_parse(gpus, GPUS, "0,1,2,3", 3, map));
    T_STATUS(WHARF_EARG, wi_map_parse(gpus, GPUS, "0,,2", 3, map));
    T_CONTAINS("empty at rank 1", wi_error_record()->cause);
    T_STATUS(WHARF_EARG, wi_map_parse(gpus, GPUS, "0,1,7", 3, map));
}

static void visible_is(const char *text, uint64_t expected, bool cut,
                       const char *token)
{
    wi_plan_rank rank = {.visible = 0x1f};
    T_OK(wi_visible_parse(gpus, GPUS, text, 1, &rank));
    T_EQ_INT(expected, rank.visible);
    T_EQ_INT(cut, rank.cut);
    T_EQ_STR(token, rank.token);
}

static void visible(void)
{
    wi_plan_rank ranks[3] = {{.visible = 0x1f}, {.visible = 0x1f}};

    visible_is("-", 0x1f, false, "");
    visible_is("", 0, false, "");
    visible_is("0", 0x1, false, "");
    visible_is("4,0,2", 0x15, false, "");
    visible_is("MIG-bbbb0000-0002,1", 0xa, false, "");
    visible_is("1,9,0", 0x2, true, "9");
    visible_is("-1,0", 0, true, "-1");
    visible_is("1,1,0", 0x2, true, "1");
    visible_is("1,", 0x2, true, "");
    visible_is("GPU-a,0", 0, true, "GPU-a");
    visible_is("NoDevFiles", 0, true, "NoDevFiles");
    T_OK(wi_visible_parse(gpus, GPUS, "0//-", 3, ranks));
    T_EQ_INT(1, ranks[0].visible);
    T_EQ_INT(0, ranks[1].visible);
    T_STATUS(WHARF_EARG, wi_visible_parse(gpus, GPUS, "0/1", 3, ranks));
    T_STATUS(WHARF_EARG, wi_visible_parse(gpus, GPUS, "0/1/2/3", 3, ranks));
}

/* Nothing that anyone can type may do worse than fail. */
static void flood(void)
{
    static const char letters[] = "0123456789,,//--::..abcdefGPUMIGnumacpu xX";
    uint64_t seed = 1;
    int good = 0;

    for (int n = 0; n < FLOOD; n++) {
        char text[48];
        uint64_t set[WI_TOPO_CPU_WORDS];
        wharf_binding b[4];
        wi_plan_rank ranks[4];
        unsigned part[4];
        int map[4], count, length = t_below(&seed, (int)sizeof text);
        for (int i = 0; i < length; i++)
            text[i] = letters[t_below(&seed, (int)sizeof letters - 1)];
        text[length] = 0;
        memset(ranks, 0, sizeof ranks);
        good += wi_bits_parse(text, (size_t)length, "t", set) == WHARF_OK;
        good += wharf_binding_parse(text, b, 4, &count) == WHARF_OK;
        good += wi_map_parse(gpus, GPUS, text, 1 + n % 4, map) == WHARF_OK;
        good += wi_pci_parse(text, (size_t)length, part);
        good +=
            wi_visible_parse(gpus, GPUS, text, 1 + n % 4, ranks) == WHARF_OK;
        for (int r = 0; r < 4; r++)
            T_EQ_INT(0, ranks[r].visible >> GPUS);
    }
    T_CHECK(good > 0);
}

int main(void)
{
    setenv("WHARF_LOG", "none", 1);
    lists();
    bindings();
    pci_ids();
    names();
    maps();
    visible();
    flood();
    return 0;
}
