# SPDX-License-Identifier: MIT
# What is installed: headers, libraries, tools, manual, find_package(Wharf),
# pkg-config wharf. It holds no absolute path of its own and can be moved.
#
# There are two sets of the same things, since a path in a package file goes by
# where the file lies: components wharf_..., which `cmake --install` puts into
# any prefix, and components deb_..., which cpack alone puts into Debian
# packages, under /usr and with the library's directory named as Debian does.
# Each has the parts runtime, development, tools and documentation.
include(CMakePackageConfigHelpers)

# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(WharfConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)

# Paths in wharf.pc go out from where the file lies.
function(_wharf_pc_path path result)
  if(IS_ABSOLUTE "${path}")
    set(${result} "${path}" PARENT_SCOPE)
  else()
    set(${result} "\${prefix}/${path}" PARENT_SCOPE)
  endif()
endfunction()

# The description for pkg-config and for find_package.
function(_wharf_install_description set libdir exclude)
  set(from ${PROJECT_BINARY_DIR}/package/${set})
  set(cmake_dir ${libdir}/cmake/Wharf)
  set(pc_dir ${libdir}/pkgconfig)

  set(WHARF_LIBDIR ${libdir})
  set(WHARF_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
  configure_package_config_file(
    scripts/cmake/WharfConfig.cmake.in ${from}/WharfConfig.cmake
    INSTALL_DESTINATION ${cmake_dir}
    PATH_VARS WHARF_LIBDIR WHARF_INCLUDEDIR)
  install(FILES ${from}/WharfConfig.cmake
                ${PROJECT_BINARY_DIR}/WharfConfigVersion.cmake
          DESTINATION ${cmake_dir} COMPONENT ${set}_development ${exclude})
  install(EXPORT ${set}_targets FILE WharfTargets.cmake NAMESPACE Wharf::
          DESTINATION ${cmake_dir} COMPONENT ${set}_development ${exclude})

  if(IS_ABSOLUTE "${pc_dir}")
    set(WHARF_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  else()
    file(RELATIVE_PATH up "/${pc_dir}" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(WHARF_PC_PREFIX "\${pcfiledir}/${up}")
  endif()
  _wharf_pc_path("${libdir}" WHARF_PC_LIBDIR)
  _wharf_pc_path("${CMAKE_INSTALL_INCLUDEDIR}" WHARF_PC_INCLUDEDIR)
  list(TRANSFORM WHARF_PRIVATE_LIBRARIES PREPEND "-l"
       OUTPUT_VARIABLE WHARF_PC_PRIVATE)
  list(JOIN WHARF_PC_PRIVATE " " WHARF_PC_PRIVATE)
  configure_file(scripts/cmake/wharf.pc.in ${from}/wharf.pc @ONLY)
  install(FILES ${from}/wharf.pc DESTINATION ${pc_dir}
          COMPONENT ${set}_development ${exclude})
endfunction()

function(_wharf_install_fortran set libdir exclude)
  get_target_property(modules wharf_fortran Fortran_MODULE_DIRECTORY)
  set(development COMPONENT ${set}_development ${exclude})
  install(TARGETS wharf_fortran ARCHIVE DESTINATION ${libdir} ${development})
  install(DIRECTORY ${modules}/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wharf/fortran ${development}
          FILES_MATCHING PATTERN "*.mod")
  install(DIRECTORY runtime/fortran/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wharf/fortran ${development}
          FILES_MATCHING PATTERN "*.f90")
endfunction()

# Pages of the calls and the reference are there once `docs` was built.
function(_wharf_install_manual set exclude)
  if(WHARF_TOOL_PAGES)
    install(FILES ${WHARF_TOOL_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
            COMPONENT ${set}_tools ${exclude})
  endif()
  install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/man3
          DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${set}_development
          ${exclude} OPTIONAL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/html
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/wharf
          COMPONENT ${set}_documentation ${exclude} OPTIONAL)
endfunction()

# wharf_install(SET LIBDIR [EXCLUDE_FROM_ALL])
function(wharf_install set libdir)
  set(exclude ${ARGN})
  install(
    TARGETS wharf wharf_static
    EXPORT ${set}_targets
    LIBRARY DESTINATION ${libdir}
            COMPONENT ${set}_runtime NAMELINK_COMPONENT ${set}_development
            ${exclude}
    ARCHIVE DESTINATION ${libdir} COMPONENT ${set}_development ${exclude})
  install(DIRECTORY include/wharf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          COMPONENT ${set}_development ${exclude}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.cuh")
  get_property(tools GLOBAL PROPERTY WHARF_TOOLS)
  install(TARGETS ${tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
                                   COMPONENT ${set}_tools ${exclude})
  if(TARGET wharf_fortran)
    _wharf_install_fortran(${set} ${libdir} "${exclude}")
  endif()
  _wharf_install_manual(${set} "${exclude}")
  _wharf_install_description(${set} ${libdir} "${exclude}")
endfunction()

wharf_install(wharf ${CMAKE_INSTALL_LIBDIR})
