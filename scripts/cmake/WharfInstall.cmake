# SPDX-License-Identifier: MIT
# The installed package: headers, libraries, tools, find_package(Wharf),
# pkg-config wharf. It holds no absolute path of its own and can be moved.
include(CMakePackageConfigHelpers)

set(_wharf_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Wharf)
set(_wharf_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS wharf wharf_static EXPORT WharfTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/wharf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.cuh")

get_property(_wharf_tools GLOBAL PROPERTY WHARF_TOOLS)
if(_wharf_tools)
  install(TARGETS ${_wharf_tools} DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT WharfTargets NAMESPACE Wharf:: DESTINATION ${_wharf_cmake_dir})
configure_package_config_file(
  scripts/cmake/WharfConfig.cmake.in WharfConfig.cmake
  INSTALL_DESTINATION ${_wharf_cmake_dir})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(WharfConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/WharfConfig.cmake
              ${PROJECT_BINARY_DIR}/WharfConfigVersion.cmake
        DESTINATION ${_wharf_cmake_dir})

# Paths in wharf.pc go out from where the file lies.
function(_wharf_pc_path path result)
  if(IS_ABSOLUTE "${path}")
    set(${result} "${path}" PARENT_SCOPE)
  else()
    set(${result} "\${prefix}/${path}" PARENT_SCOPE)
  endif()
endfunction()
if(IS_ABSOLUTE "${_wharf_pc_dir}")
  set(WHARF_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH _wharf_up "/${_wharf_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" _wharf_up "${_wharf_up}")
  set(WHARF_PC_PREFIX "\${pcfiledir}/${_wharf_up}")
endif()
_wharf_pc_path("${CMAKE_INSTALL_LIBDIR}" WHARF_PC_LIBDIR)
_wharf_pc_path("${CMAKE_INSTALL_INCLUDEDIR}" WHARF_PC_INCLUDEDIR)
list(TRANSFORM WHARF_PRIVATE_LIBRARIES PREPEND "-l"
     OUTPUT_VARIABLE WHARF_PC_PRIVATE)
list(JOIN WHARF_PC_PRIVATE " " WHARF_PC_PRIVATE)
configure_file(scripts/cmake/wharf.pc.in wharf.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/wharf.pc DESTINATION ${_wharf_pc_dir})
