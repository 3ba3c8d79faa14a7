# SPDX-License-Identifier: MIT
# Rings.
wharf_group_test(NAME t_ring_basic NP 2 4 LABELS mp fake gpu)
wharf_group_test(NAME t_ring_errors NP 3 LABELS mp fake gpu)

# Disorder, across the wrap of the words; where all ranks, some or none share a
# GPU, by both mechanisms, and where words or slots lie in host memory.
foreach(np 2 3)
  wharf_mp_test(NAME t_ring_stress NP ${np} LABELS mp fake TESTING)
endforeach()
wharf_mp_test(NAME t_ring_stress NP 8 LABELS mp TESTING)
wharf_mp_test(NAME t_ring_stress NP 4 LABELS fake TESTING DEVICES 1 SUFFIX dev1)
wharf_mp_test(NAME t_ring_stress NP 4 LABELS fake TESTING DEVICES 4 SUFFIX dev4)
wharf_mp_test(NAME t_ring_stress NP 3 LABELS fake TESTING SUFFIX no_memops
              ENV WHARF_FAKE_CAPS=no_memops WHARF_LOG=error)
wharf_mp_test(NAME t_ring_stress NP 3 LABELS fake TESTING SUFFIX no_peers
              ENV WHARF_FAKE_PEERS=none WHARF_LOG=error)
wharf_mp_test(NAME t_ring_stress NP 2 LABELS gpu TESTING SUFFIX long
              ARGS rounds=1000)
wharf_mp_test(NAME t_ring_stress NP 8 LABELS gpu TESTING ARGS rounds=200)
foreach(mechanism kernel mem-ops)
  wharf_mp_test(NAME t_ring_stress NP 2 LABELS gpu TESTING SUFFIX ${mechanism}
                ENV WHARF_MECHANISM=${mechanism} ARGS rounds=500)
endforeach()

# Races: planted ones are found, and disorder alone is none.
wharf_group_test(NAME t_ring_races NP 3 LABELS mp fake gpu)
wharf_mp_test(NAME t_ring_stress NP 3 LABELS mp fake gpu TESTING SUFFIX races
              ENV WHARF_CHECK_RACES=1)

# Deaths: as in api.cmake, only under a launcher that lets the others live.
wharf_test_program(NAME t_ring_death)
function(wharf_ring_death_test label case np victim mode)
  set(test ${label}.ring_death.np${np}.${case}.mode${mode})
  if(ARGN)
    string(APPEND test ".${ARGN}us")
    set(delay delay_us=${ARGN})
  endif()
  _wharf_backend_environment(${label} ${test} 2 environment)
  set(fresh)
  if(label STREQUAL "fake")
    set(fresh sh ${PROJECT_SOURCE_DIR}/tests/support/fresh.sh)
  endif()
  add_test(NAME ${test}
           COMMAND ${fresh} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${np}
                   ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
                   ${WHARF_MPIEXEC_RECOVERY}
                   $<TARGET_FILE:t_ring_death> ${MPIEXEC_POSTFLAGS} ${case}
                   victim=${victim} mode=${mode} ${delay})
  _wharf_test_properties(${test} LABELS ${label} death ENV ${environment}
                         TIMEOUT 120)
  set_tests_properties(
    ${test} PROPERTIES PASS_REGULAR_EXPRESSION
                       "ring death: rank ${victim} of ${np}, all right"
                       FAIL_REGULAR_EXPRESSION "fake_cuda: violation"
                       PROCESSORS ${np} RESOURCE_LOCK "${WHARF_TEST_LOCK}")
endfunction()
if(WHARF_MPIEXEC_RECOVERY)
  set(labels mp)
  if(WHARF_WITH_CUDA AND TARGET fake_cuda)
    list(APPEND labels fake)
  endif()
  if(WHARF_WITH_CUDA)
    list(APPEND labels gpu)
  endif()
  foreach(label IN LISTS labels)
    wharf_ring_death_test(${label} consumer_holding 3 1 0)
    wharf_ring_death_test(${label} consumer_holding 3 1 1)
    wharf_ring_death_test(${label} consumer_idle 3 2 0)
    wharf_ring_death_test(${label} consumer_any_time 4 1 0 5000)
    wharf_ring_death_test(${label} consumer_any_time 4 2 1 20000)
    wharf_ring_death_test(${label} producer_idle 3 0 0)
    wharf_ring_death_test(${label} producer_idle 3 0 1)
    wharf_ring_death_test(${label} producer_checked 3 0 0)
    if(NOT label STREQUAL "mp")
      wharf_ring_death_test(${label} consumer_behind_stream 3 2 0)
      wharf_ring_death_test(${label} producer_behind_stream 3 0 0)
    endif()
  endforeach()
endif()
