# SPDX-License-Identifier: MIT
# Documentation. The tools' manual pages are made with the tools, from what
# these tell of themselves. The target `docs` makes the reference of the calls
# (docs/html, docs/man3) where Doxygen is; it is not part of `all`.
find_program(WHARF_PERL perl)
find_program(WHARF_DOXYGEN doxygen)
mark_as_advanced(WHARF_PERL WHARF_DOXYGEN)

set(_docs ${PROJECT_SOURCE_DIR}/scripts/docs)

# wharf_tool_page(TOOL SUMMARY HELP-OPTION...)
set(WHARF_TOOL_PAGES)
function(wharf_tool_page tool summary)
  set(page ${PROJECT_BINARY_DIR}/docs-tools/${tool}.1)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/docs-tools)
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${WHARF_PERL} ${_docs}/tool_page.pl ${PROJECT_VERSION} ${summary}
            $<TARGET_FILE:${tool}> ${ARGN} > ${page}.new
    COMMAND ${CMAKE_COMMAND} -E rename ${page}.new ${page}
    DEPENDS ${tool} ${_docs}/tool_page.pl
    COMMENT "Manual page of ${tool}"
    VERBATIM)
  set(WHARF_TOOL_PAGES ${WHARF_TOOL_PAGES} ${page} PARENT_SCOPE)
endfunction()

# A tool that cannot be run here cannot tell.
if(WHARF_PERL AND NOT CMAKE_CROSSCOMPILING AND NOT WHARF_SANITIZE)
  wharf_tool_page(wharf-info "what Wharf sees of a machine and a job"
                  "--topology --help" --environment)
  wharf_tool_page(wharf-bench "what Wharf's calls cost on this machine")
  add_custom_target(wharf_tool_pages ALL DEPENDS ${WHARF_TOOL_PAGES})
endif()

# Another project's `docs` is its own.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

file(GLOB _headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/wharf/*.h
     ${PROJECT_SOURCE_DIR}/include/wharf/*.hpp
     ${PROJECT_SOURCE_DIR}/include/wharf/*.cuh)
file(GLOB _scripts CONFIGURE_DEPENDS ${_docs}/*)
if(WHARF_DOXYGEN AND WHARF_PERL)
  set(_stamp ${PROJECT_BINARY_DIR}/docs.made)
  add_custom_command(
    OUTPUT ${_stamp}
    COMMAND sh ${_docs}/pages.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/docs
            ${PROJECT_VERSION}
    COMMAND ${CMAKE_COMMAND} -E touch ${_stamp}
    DEPENDS ${_headers} ${_scripts}
    COMMENT "Reference of the public headers"
    VERBATIM)
  add_custom_target(docs DEPENDS ${_stamp})
else()
  add_custom_target(
    docs COMMAND ${CMAKE_COMMAND} -E echo
                 "docs needs doxygen and perl; install them and configure again"
    COMMAND ${CMAKE_COMMAND} -E false
    VERBATIM)
endif()
