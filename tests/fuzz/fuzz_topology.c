/* SPDX-License-Identifier: MIT */
/* Whole topology files: read, checked, loaded by hwloc, planned for and
 * explained. */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "wharf/topo.h"

#define RANKS 5

/* hwloc 2.9 loses memory on broken files; what Wharf holds is checked below.
 * Asked by the leak sanitizer. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static FILE *nowhere;

static void plan_check(const wharf_topo *topo)
{
    wharf_plan *plan = NULL;
    wharf_status status = wharf_plan_make(topo, RANKS, NULL, NULL, &plan);

    FUZZ_CHECK((plan != NULL) == (status == WHARF_OK));
    if (fuzz_answer(status, FUZZ_BIT(WHARF_ENODEV) | FUZZ_BIT(WHARF_EARG))) {
        FUZZ_CHECK(plan->ranks == RANKS && plan->gpus == wharf_topo_gpus(topo));
        for (int r = 0; r < RANKS; r++)
            FUZZ_CHECK(plan->line[r].gpu >= -1 &&
                       plan->line[r].gpu < plan->gpus);
        FUZZ_CHECK(!wharf_plan_print(plan, nowhere, WHARF_FORMAT_TEXT));
        FUZZ_CHECK(!wharf_plan_print(plan, nowhere, WHARF_FORMAT_JSON));
    }
    wharf_plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wharf_topo *topo = NULL;
    wharf_status status;
    char path[64];
    int fd = memfd_create("topology.xml", MFD_CLOEXEC);

    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    FUZZ_CHECK(nowhere != NULL && fd >= 0);
    FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    wi_log_set_level(WI_LOG_NONE);
    status = wharf_topo_load(path, &topo);
    FUZZ_CHECK((topo != NULL) == (status == WHARF_OK));
    if (fuzz_answer(status, FUZZ_BIT(WHARF_ECONFIG) | FUZZ_BIT(WHARF_ELIMIT)))
        plan_check(topo);
    wharf_topo_free(&topo);
    close(fd);
    fuzz_nothing_left();
    return 0;
}
