# SPDX-License-Identifier: MIT
# Beside other libraries in one process, on the same memory. The programs are
# built by the test: what they need is not there at configure time everywhere.
function(wharf_beside_test program library np)
  if(NOT MPIEXEC_EXECUTABLE OR NOT WHARF_WITH_CUDA)
    return()
  endif()
  set(test gpu.beside_${library}.np${np})
  if(ARGN)
    string(APPEND test ".${ARGN}")
  endif()
  add_test(NAME ${test}
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/beside.sh
                   ${CMAKE_CURRENT_SOURCE_DIR}/beside/${program}.cu ${library}
                   $<TARGET_FILE_DIR:wharf> ${MPIEXEC_EXECUTABLE}
                   ${MPIEXEC_NUMPROC_FLAG} ${np} ${WHARF_MPIEXEC_FLAGS}
                   ${MPIEXEC_PREFLAGS} -- ${ARGN})
  _wharf_test_properties(${test} LABELS gpu ENV WHARF_BACKEND=cuda TIMEOUT 120)
  set_tests_properties(${test} PROPERTIES PROCESSORS ${np} RESOURCE_LOCK gpu)
endfunction()

wharf_beside_test(beside_nccl nccl 2)
wharf_beside_test(beside_nvshmem nvshmem 2 nvshmem)
wharf_beside_test(beside_nvshmem nvshmem 2 wharf)
