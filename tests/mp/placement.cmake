# SPDX-License-Identifier: MIT
# Placement in a running job, and what many ranks cost.
set(topologies ../topo/topo_gen.c ../topo/topo_help.c)
wharf_test_program(NAME t_placement SOURCES t_placement.c ${topologies})

# case, ranks, environment of the fake machine
function(wharf_placement_test case np)
  wharf_group_test(NAME t_placement NP ${np} LABELS fake SUFFIX ${case}
                   ARGS ${case} ENV ${ARGN})
endfunction()
wharf_placement_test(mig 2 WHARF_FAKE_CAPS=mig)
wharf_placement_test(mig 4 WHARF_FAKE_CAPS=mig)
wharf_placement_test(exclusive 3 WHARF_FAKE_CAPS=exclusive)
wharf_placement_test(exclusive_mps 3 "WHARF_FAKE_CAPS=exclusive,mps")
wharf_placement_test(prohibited_one 3 WHARF_FAKE_PROHIBIT=0)
wharf_placement_test(prohibited_all 2 WHARF_FAKE_CAPS=prohibited)
wharf_placement_test(denied 3 WHARF_FAKE_DENY=1)
wharf_placement_test(links_merged 3 WHARF_FAKE_PEERS=none)
wharf_group_test(NAME t_placement NP 4 DEVICES 4 LABELS fake
                 SUFFIX links_followed ARGS links_followed
                 ENV "WHARF_FAKE_PEERS=0-2,1-3")
if(WHARF_WITH_HWLOC)
  wharf_placement_test(bound 2)
  wharf_placement_test(bound 4)
  wharf_placement_test(refuse_bad 2)
endif()
wharf_placement_test(refuse_bad_idle 2)
wharf_group_test(NAME t_placement NP 3 LABELS fake gpu SUFFIX bind_ranks
                 ARGS bind_ranks)

wharf_group_test(NAME t_scale NP 64 DEVICES 8 LABELS fake TIMEOUT 120)
