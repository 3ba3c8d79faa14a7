# SPDX-License-Identifier: MIT
# Names that are planted, reused or left behind; a job killed and started again.
wharf_mp_test(NAME t_names NP 3 TESTING)
if(TEST mp.names.np3)
  add_test(NAME mp.names.np3.again
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/names.sh ${MPIEXEC_EXECUTABLE}
                   ${MPIEXEC_NUMPROC_FLAG} 3 ${WHARF_MPIEXEC_FLAGS}
                   ${MPIEXEC_PREFLAGS} $<TARGET_FILE:t_names>
                   ${MPIEXEC_POSTFLAGS})
  _wharf_backend_environment(mp mp.names.np3.again 0 environment)
  _wharf_test_properties(mp.names.np3.again LABELS mp ENV ${environment})
  set_tests_properties(mp.names.np3.again PROPERTIES PROCESSORS 3 RESOURCE_LOCK
                                                     "${WHARF_TEST_LOCK}")
endif()
