# SPDX-License-Identifier: MIT
# What this build will be able to do, in words.
message(STATUS "Wharf ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, "
               "MPI ${MPI_C_VERSION}: ${WHARF_MPIEXEC_VERSION}")
if(WHARF_WITH_CUDA)
  message(STATUS "  CUDA backend: yes (toolkit ${CUDAToolkit_VERSION}; the "
                 "driver is loaded at run time)")
elseif(NOT WHARF_CUDA)
  message(STATUS "  CUDA backend: NO, host backend only (WHARF_CUDA=OFF)")
else()
  message(STATUS "  CUDA backend: NO, host backend only (no CUDA toolkit with "
                 "nvcc found)")
endif()
if(WHARF_WITH_HWLOC)
  message(STATUS "  topology: hwloc ${HWLOC_VERSION}")
elseif(NOT WHARF_HWLOC)
  message(STATUS "  topology: flat, from /sys (WHARF_HWLOC=OFF)")
else()
  message(STATUS "  topology: flat, from /sys (no hwloc >= 2.4 found)")
endif()
if(WHARF_WITH_FORTRAN)
  message(STATUS "  Fortran module: yes (${CMAKE_Fortran_COMPILER_ID} "
                 "${CMAKE_Fortran_COMPILER_VERSION})")
else()
  message(STATUS "  Fortran module: no (${WHARF_FORTRAN_REASON})")
endif()
if(WHARF_SANITIZE)
  message(STATUS "  sanitizers: ${WHARF_SANITIZE}")
endif()
