# SPDX-License-Identifier: MIT
# Placement: the only hwloc calls of the library.
list(APPEND WHARF_SOURCES
     topo/assign.c topo/bind.c topo/bits.c topo/explain.c topo/live.c
     topo/map.c topo/model.c topo/offline.c topo/plan.c topo/policy.c
     topo/print.c topo/refine.c topo/warn.c)

if(WHARF_WITH_HWLOC)
  list(APPEND WHARF_SOURCES
       topo/load_hwloc.c topo/xml_file.c topo/xml_object.c)
else()
  list(APPEND WHARF_SOURCES topo/load_flat.c)
endif()
