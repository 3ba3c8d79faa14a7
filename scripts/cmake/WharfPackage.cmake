# SPDX-License-Identifier: MIT
# Packages of what this build directory holds:
#   cpack -G DEB    Debian packages: libwharf<soversion>, libwharf-dev,
#                   wharf-tools, and wharf-doc if `docs` was built
#   cpack -G TGZ    the same in one archive, to be unpacked anywhere
#
# CPACK_PACKAGE_CONTACT (cache) is who answers for the packages; lintian takes
# the default, which nobody can write to, for what it is.
set(CPACK_PACKAGE_VENDOR "the authors of Wharf")
set(CPACK_PACKAGE_CONTACT "the authors of Wharf <wharf@localhost>"
    CACHE STRING "Who answers for packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/scripts/package/copyright)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR TGZ)

find_program(WHARF_DPKG dpkg)
mark_as_advanced(WHARF_DPKG)
if(NOT WHARF_DPKG OR IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}")
  include(CPack)
  return()
endif()

# The package of this machine that a file came with, or `otherwise`.
function(_wharf_debian_owner file otherwise result)
  set(${result} ${otherwise} PARENT_SCOPE)
  get_filename_component(file "${file}" REALPATH)
  execute_process(COMMAND ${WHARF_DPKG} -S "${file}" OUTPUT_VARIABLE owner
                  ERROR_QUIET RESULT_VARIABLE code)
  if(code EQUAL 0 AND owner MATCHES "^([a-z0-9.+-]+)[:,]")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

find_path(WHARF_MPI_HEADER_DIR mpi.h HINTS ${MPI_C_INCLUDE_DIRS})
mark_as_advanced(WHARF_MPI_HEADER_DIR)
_wharf_debian_owner("${WHARF_MPI_HEADER_DIR}/mpi.h" mpi-default-dev _mpi_dev)
_wharf_debian_owner("${MPIEXEC_EXECUTABLE}" mpi-default-bin _mpi_bin)

set(WHARF_DEB_LIBDIR lib)
if(CMAKE_LIBRARY_ARCHITECTURE)
  string(APPEND WHARF_DEB_LIBDIR /${CMAKE_LIBRARY_ARCHITECTURE})
endif()
wharf_install(deb ${WHARF_DEB_LIBDIR} EXCLUDE_FROM_ALL)
if(NOT WHARF_DEB_LIBDIR STREQUAL CMAKE_INSTALL_LIBDIR)
  # For packages that are unpacked elsewhere; in /usr it is looked at anyway.
  get_property(_tools GLOBAL PROPERTY WHARF_TOOLS)
  set_property(TARGET ${_tools} APPEND PROPERTY INSTALL_RPATH
                                                "$ORIGIN/../${WHARF_DEB_LIBDIR}")
endif()

set(_runtime libwharf${WHARF_SOVERSION})
set(_same "${_runtime} (= ${PROJECT_VERSION}-1)")
set(_text "Ranks of an MPI program call one collective and every rank gets a plain
pointer to every rank's segment: in GPU memory where there are GPUs, in
shared host memory where there are none. Streams of different ranks are
ordered by events, notifies and barriers; data moves by put, get, exchange
and ring.")

# _wharf_deb(PART PACKAGE SECTION SUMMARY)
macro(_wharf_deb part package section summary)
  string(TOUPPER deb_${part} _key)
  set(CPACK_DEBIAN_${_key}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${_key}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${_key}_DESCRIPTION "${summary}\n${_text}")
  install(FILES ${PROJECT_SOURCE_DIR}/scripts/package/copyright
          DESTINATION share/doc/${package} COMPONENT deb_${part}
          EXCLUDE_FROM_ALL)
endmacro()

_wharf_deb(runtime ${_runtime} libs
           "Shared GPU and host memory for MPI programs")
_wharf_deb(development libwharf-dev libdevel
           "Shared memory for MPI programs: to build with it")
_wharf_deb(tools wharf-tools utils
           "Shared memory for MPI programs: what a machine can do")
_wharf_deb(documentation wharf-doc doc
           "Shared memory for MPI programs: reference")

set(CPACK_DEBIAN_DEB_DEVELOPMENT_PACKAGE_DEPENDS "${_same}, ${_mpi_dev}")
if(WHARF_WITH_HWLOC)
  string(APPEND CPACK_DEBIAN_DEB_DEVELOPMENT_PACKAGE_DEPENDS ", libhwloc-dev")
endif()
set(CPACK_DEBIAN_DEB_DEVELOPMENT_PACKAGE_SUGGESTS "wharf-doc, wharf-tools")
set(CPACK_DEBIAN_DEB_TOOLS_PACKAGE_DEPENDS "${_same}")
set(CPACK_DEBIAN_DEB_TOOLS_PACKAGE_RECOMMENDS "${_mpi_bin}")
if(WHARF_WITH_CUDA)
  # The driver is loaded at run time, where there is one.
  set(CPACK_DEBIAN_DEB_RUNTIME_PACKAGE_SUGGESTS "libcuda1")
endif()
set(CPACK_DEBIAN_DEB_RUNTIME_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_DEB_DOCUMENTATION_PACKAGE_ARCHITECTURE all)

# Which libraries, in which versions, is read from the binaries.
foreach(_part RUNTIME TOOLS)
  set(CPACK_DEBIAN_DEB_${_part}_PACKAGE_SHLIBDEPS ON)
endforeach()
# The tools need the library of the other package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/runtime)
# What packages of programs depend on. Not by cpack, which would look into each
# file of each package for it.
file(WRITE ${PROJECT_BINARY_DIR}/package/shlibs
     "libwharf ${WHARF_SOVERSION} ${_runtime} (>= ${PROJECT_VERSION})\n")
# The list of libraries is made anew by a trigger, as Debian's policy has it;
# that cpack lets scripts of its own do so too cannot be turned off.
file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_DEB_RUNTIME_PACKAGE_CONTROL_EXTRA
    ${PROJECT_BINARY_DIR}/package/shlibs ${PROJECT_BINARY_DIR}/package/triggers)

set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL deb_runtime deb_development deb_tools
                         deb_documentation)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_GENERATOR DEB)

# Read by cpack, when it is known what was built.
set(WHARF_PACKAGE_BUILD ${PROJECT_BINARY_DIR})
set(WHARF_PACKAGE_STRIP ${CMAKE_STRIP})
configure_file(scripts/cmake/package_config.cmake.in package/config.cmake @ONLY)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package/config.cmake)
set(CPACK_PRE_BUILD_SCRIPTS
    ${PROJECT_SOURCE_DIR}/scripts/cmake/package_finish.cmake)
include(CPack)
