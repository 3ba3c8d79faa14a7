# SPDX-License-Identifier: MIT
# MPI, and what its launcher needs on this machine. Where several MPI libraries
# are installed, CMake's own settings choose: MPI_C_COMPILER, or, as Debian
# names them, MPI_EXECUTABLE_SUFFIX=.mpich (preset mpich).
#
# WHARF_MPI_FAMILY: Open MPI, MPICH (and what descends from it), or other.
#
# WHARF_MPIEXEC_VERSION: the launcher and its version, in a line.
#
# WHARF_MPIEXEC_FLAGS: flags that let a test start more ranks than there are
# cores, and start them as root. Only Open MPI knows and needs them.
#
# WHARF_MPIEXEC_RECOVERY: what stands before the program so that the launcher
# lets a job live on when one of its ranks is killed; empty where that is not
# known.
#
# WHARF_MPI_QUERY_CUDA: the library can be asked whether it takes device
# pointers.
find_package(MPI REQUIRED COMPONENTS C)

include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_c_source_compiles(
  "#include <mpi.h>
   #if __has_include(<mpi-ext.h>)
   #include <mpi-ext.h>
   #endif
   int main(void) { return MPIX_Query_cuda_support(); }"
  WHARF_MPI_QUERY_CUDA)
check_c_source_compiles(
  "#include <mpi.h>
   int main(void) { return OMPI_MAJOR_VERSION; }" WHARF_MPI_IS_OPEN_MPI)
check_c_source_compiles(
  "#include <mpi.h>
   int main(void) { return MPICH_NUMVERSION == 0; }" WHARF_MPI_IS_MPICH)
unset(CMAKE_REQUIRED_LIBRARIES)

set(WHARF_MPI_FAMILY other)
if(WHARF_MPI_IS_OPEN_MPI)
  set(WHARF_MPI_FAMILY "Open MPI")
elseif(WHARF_MPI_IS_MPICH)
  set(WHARF_MPI_FAMILY MPICH)
  # gcc takes MPICH's MPI_STATUSES_IGNORE, the number 1, for an array that is
  # too short.
  target_compile_options(
    wharf_flags
    INTERFACE
      $<$<AND:$<COMPILE_LANGUAGE:C>,$<C_COMPILER_ID:GNU>>:-Wno-stringop-overflow>)
endif()

set(WHARF_MPIEXEC_FLAGS)
set(WHARF_MPIEXEC_RECOVERY)
if(NOT MPIEXEC_EXECUTABLE)
  message(WARNING "No MPI launcher: tests and examples cannot be run")
  return()
endif()

execute_process(
  COMMAND ${MPIEXEC_EXECUTABLE} --version
  OUTPUT_VARIABLE WHARF_MPIEXEC_VERSION
  ERROR_VARIABLE WHARF_MPIEXEC_VERSION
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(launcher other)
if(WHARF_MPIEXEC_VERSION MATCHES "Open MPI|OpenRTE|PRRTE")
  set(launcher "Open MPI")
elseif(WHARF_MPIEXEC_VERSION MATCHES "HYDRA.*\n *Version: +([^ \n]+)")
  # Its first line is a heading.
  set(launcher MPICH)
  set(WHARF_MPIEXEC_VERSION "Hydra ${CMAKE_MATCH_1}")
endif()
string(REGEX REPLACE "\n.*" "" WHARF_MPIEXEC_VERSION "${WHARF_MPIEXEC_VERSION}")

# The ranks of another library's launcher each take themselves for a job.
if(NOT launcher STREQUAL WHARF_MPI_FAMILY
   AND NOT launcher STREQUAL "other" AND NOT WHARF_MPI_FAMILY STREQUAL "other")
  message(WARNING "${MPIEXEC_EXECUTABLE} is the launcher of ${launcher}, and "
                  "the MPI library is ${WHARF_MPI_FAMILY}: set "
                  "MPIEXEC_EXECUTABLE to its own, or no test will pass")
endif()

if(launcher STREQUAL "Open MPI")
  list(APPEND WHARF_MPIEXEC_FLAGS --oversubscribe)
  set(WHARF_MPIEXEC_RECOVERY --enable-recovery)
  execute_process(COMMAND id -u OUTPUT_VARIABLE _wharf_uid
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(_wharf_uid STREQUAL "0")
    list(APPEND WHARF_MPIEXEC_FLAGS --allow-run-as-root)
  endif()
elseif(launcher STREQUAL "MPICH")
  set(WHARF_MPIEXEC_RECOVERY -disable-auto-cleanup sh
                             ${PROJECT_SOURCE_DIR}/tests/support/survive.sh)
endif()
