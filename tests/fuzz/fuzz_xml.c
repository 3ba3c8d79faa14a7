/* SPDX-License-Identifier: MIT */
/* Topology files as far as Wharf itself reads them, without hwloc. */
#include "fuzz.h"
#include "topo/xml_file.h"

static const uint64_t documented =
    FUZZ_BIT(WHARF_ECONFIG) | FUZZ_BIT(WHARF_ELIMIT);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size, false);

    wi_log_set_level(WI_LOG_NONE);
    fuzz_answer(wi_xml_check("made-up.xml", text, size), documented);
    for (int sets = 0; sets <= WI_XML_ALL_SETS; sets += WI_XML_ALL_SETS) {
        int have = sets;

        fuzz_answer(wi_xml_object_check("made-up.xml", text, size, &have),
                    documented);
        FUZZ_CHECK(have >= 0 && have <= WI_XML_ALL_SETS);
        FUZZ_CHECK(sets == 0 || have == sets);
    }
    free(text);
    fuzz_nothing_left();
    return 0;
}
