# SPDX-License-Identifier: MIT
# MPI, and what its launcher needs on this machine.
#
# WHARF_MPIEXEC_FLAGS: flags that let a test start more ranks than there are
# cores, and start them as root. Only Open MPI knows and needs them.
#
# WHARF_MPI_QUERY_CUDA: the library can be asked whether it takes device
# pointers.
find_package(MPI REQUIRED COMPONENTS C)

include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_c_source_compiles(
  "#include <mpi.h>
   #include <mpi-ext.h>
   int main(void) { return MPIX_Query_cuda_support(); }"
  WHARF_MPI_QUERY_CUDA)
unset(CMAKE_REQUIRED_LIBRARIES)

if(NOT MPIEXEC_EXECUTABLE)
  message(WARNING "No MPI launcher: tests and examples cannot be run")
  return()
endif()

execute_process(
  COMMAND ${MPIEXEC_EXECUTABLE} --version
  OUTPUT_VARIABLE WHARF_MPIEXEC_VERSION
  ERROR_VARIABLE WHARF_MPIEXEC_VERSION
  OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "\n.*" "" WHARF_MPIEXEC_VERSION "${WHARF_MPIEXEC_VERSION}")

set(WHARF_MPIEXEC_FLAGS)
if(WHARF_MPIEXEC_VERSION MATCHES "Open MPI|OpenRTE|PRRTE")
  list(APPEND WHARF_MPIEXEC_FLAGS --oversubscribe)
  execute_process(COMMAND id -u OUTPUT_VARIABLE _wharf_uid
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(_wharf_uid STREQUAL "0")
    list(APPEND WHARF_MPIEXEC_FLAGS --allow-run-as-root)
  endif()
endif()
