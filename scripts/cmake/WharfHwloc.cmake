# SPDX-License-Identifier: MIT
# hwloc decides which rank uses which GPU; without it a flat loader reads the
# kernel's own files. Sets WHARF_WITH_HWLOC.
set(WHARF_WITH_HWLOC OFF)
if(WHARF_HWLOC)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(HWLOC QUIET hwloc>=2.4)
  endif()
  if(HWLOC_FOUND)
    set(WHARF_WITH_HWLOC ON)
  elseif(NOT WHARF_HWLOC STREQUAL "AUTO")
    message(FATAL_ERROR "WHARF_HWLOC=${WHARF_HWLOC}, but pkg-config finds no "
                        "hwloc >= 2.4 (Debian, Ubuntu: libhwloc-dev)")
  endif()
endif()
