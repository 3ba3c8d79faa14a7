# SPDX-License-Identifier: MIT
# Languages beside C, each where its compiler is found: C++ for the tests and
# examples of wharf.hpp (WHARF_WITH_CXX), Fortran for the module
# (WHARF_WITH_FORTRAN).
include(CheckLanguage)

# A compiler that was not there is looked for again: it may have come.
foreach(_wharf_language CXX Fortran)
  if(NOT CMAKE_${_wharf_language}_COMPILER)
    unset(CMAKE_${_wharf_language}_COMPILER CACHE)
  endif()
endforeach()

set(WHARF_WITH_CXX OFF)
if(WHARF_BUILD_TESTS OR WHARF_BUILD_EXAMPLES)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(WHARF_WITH_CXX ON)
    if(NOT DEFINED CMAKE_CXX_STANDARD)
      set(CMAKE_CXX_STANDARD 17)
    endif()
    target_compile_options(
      wharf_flags
      INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>)
    if(WHARF_WERROR AND NOT WHARF_SANITIZE)
      target_compile_options(wharf_flags
                             INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
    endif()
  endif()
endif()

set(WHARF_WITH_FORTRAN OFF)
set(WHARF_WITH_MPI_F08 OFF)
set(WHARF_FORTRAN_REASON "WHARF_FORTRAN=OFF")
if(WHARF_FORTRAN AND WHARF_SANITIZE)
  set(WHARF_FORTRAN_REASON "not with sanitizers")
elseif(WHARF_FORTRAN)
  set(WHARF_FORTRAN_REASON "no Fortran compiler found")
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
    find_package(MPI QUIET COMPONENTS Fortran)
    set(WHARF_FORTRAN_REASON "the MPI library has no Fortran interface for it")
    set(WHARF_WITH_FORTRAN ${MPI_Fortran_FOUND})
    set(WHARF_WITH_MPI_F08 ${MPI_Fortran_HAVE_F08_MODULE})
    # What MPI says of its Fortran compiler's options is not for C in the same
    # target.
    if(TARGET MPI::MPI_Fortran AND MPI_Fortran_COMPILE_OPTIONS)
      set_property(
        TARGET MPI::MPI_Fortran
        PROPERTY INTERFACE_COMPILE_OPTIONS
                 "$<$<COMPILE_LANGUAGE:Fortran>:${MPI_Fortran_COMPILE_OPTIONS}>")
    endif()
  endif()
  if(NOT WHARF_WITH_FORTRAN AND NOT WHARF_FORTRAN STREQUAL "AUTO")
    message(FATAL_ERROR "WHARF_FORTRAN=${WHARF_FORTRAN}, but "
                        "${WHARF_FORTRAN_REASON}")
  endif()
endif()
