# SPDX-License-Identifier: MIT
# Workers: processes of their own. The test program is the worker's, too.
foreach(name t_worker t_worker_life)
  wharf_test_program(NAME ${name} SOURCES ${name}.c t_worker_common.c)
  wharf_group_test(NAME ${name} NP 3 LABELS mp fake)
endforeach()
wharf_group_test(NAME t_worker_life NP 2 LABELS gpu)
wharf_group_test(NAME t_worker NP 1 LABELS fake)
wharf_group_test(NAME t_worker NP 3 LABELS mp SUFFIX lend_off ARGS lend_off
                 ENV WHARF_LEND=off)
# Handles that are plain bytes.
wharf_group_test(NAME t_worker NP 3 LABELS fake SUFFIX ipc ARGS buffers
                 ENV WHARF_FAKE_CAPS=no_vmm)
wharf_group_test(NAME t_worker NP 3 LABELS fake SUFFIX fabric ARGS buffers
                 ENV WHARF_HANDLE=fabric WHARF_FAKE_CAPS=fabric)
wharf_group_test(NAME t_worker NP 4 LABELS gpu ARGS limit=300 TIMEOUT 600)
wharf_group_test(NAME t_worker NP 2 LABELS gpu ARGS faults=50 limit=300
                 TIMEOUT 600)

# How buffers get to a process that is no rank, from inside.
wharf_mp_test(NAME t_visit NP 3 LABELS mp fake TESTING)

# Calls that fail on demand.
wharf_test_program(NAME t_worker_faults TESTING SOURCES t_worker_faults.c
                                                        t_worker_common.c)
wharf_mp_test(NAME t_worker_faults NP 2 LABELS mp fake fault TESTING)

# Workers and callers that do not do as they should.
wharf_test_program(NAME t_worker_rude TESTING SOURCES t_worker_rude.c
                                                      t_worker_common.c)
wharf_mp_test(NAME t_worker_rude NP 1 LABELS mp fake TESTING ENV WHARF_LOG=none)

# What is lent outlives the rank's context, and the rank that owns it.
wharf_test_program(NAME t_worker_outlive SOURCES t_worker_outlive.c
                                                 t_worker_common.c)
wharf_group_test(NAME t_worker_outlive NP 2 LABELS fake gpu SUFFIX ruined
                 ARGS ruined)

# With a script or a launcher that lets a job go on: one test for every label.
function(wharf_worker_test name suffix np)
  cmake_parse_arguments(W "" "VERDICT" "BEFORE;FLAGS;AFTER" ${ARGN})
  foreach(label mp fake gpu)
    if(NOT MPIEXEC_EXECUTABLE OR (label STREQUAL fake AND NOT TARGET fake_cuda)
       OR (NOT label STREQUAL mp AND NOT WHARF_WITH_CUDA))
      continue()
    endif()
    set(test ${label}.${name}.np${np}.${suffix})
    add_test(NAME ${test}
             COMMAND ${W_BEFORE} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG}
                     ${np} ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
                     ${W_FLAGS} $<TARGET_FILE:t_${name}>
                     ${MPIEXEC_POSTFLAGS} ${W_AFTER})
    _wharf_backend_environment(${label} ${test} 2 environment)
    _wharf_test_properties(${test} LABELS ${label} ENV ${environment})
    set(lock ${WHARF_TEST_LOCK})
    if(label STREQUAL gpu)
      list(APPEND lock gpu)
    endif()
    set_tests_properties(${test} PROPERTIES PROCESSORS ${np}
                                            RESOURCE_LOCK "${lock}")
    if(W_VERDICT)
      set_tests_properties(
        ${test} PROPERTIES PASS_REGULAR_EXPRESSION "${W_VERDICT}"
                           SKIP_REGULAR_EXPRESSION "skipped: no GPU")
    endif()
  endforeach()
endfunction()

if(WHARF_MPIEXEC_RECOVERY)
  wharf_worker_test(worker_outlive owner_killed 3 FLAGS ${WHARF_MPIEXEC_RECOVERY}
                    AFTER owner_killed VERDICT "outlive: all right")
endif()

# Ranks that end without a stop: nothing of their workers stays.
wharf_test_program(NAME t_worker_orphan SOURCES t_worker_orphan.c
                                                t_worker_common.c)
foreach(how killed exited launcher)
  wharf_worker_test(worker_orphan ${how} 2 BEFORE sh
                    ${CMAKE_CURRENT_SOURCE_DIR}/worker_orphan.sh ${how})
endforeach()
