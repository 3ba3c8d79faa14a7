# SPDX-License-Identifier: MIT
# Memory that the ranks had before Wharf.
foreach(name t_attach_memory t_attach_memory_errors)
  foreach(np 2 4)
    wharf_mp_test(NAME ${name} SOURCES ${name}.c attach_memory.c NP ${np}
                  LABELS mp fake gpu)
  endforeach()
endforeach()
# All ranks on one GPU, one on each.
foreach(devices 1 4)
  wharf_mp_test(NAME t_attach_memory NP 4 DEVICES ${devices} LABELS fake
                SUFFIX dev${devices} ARGS matrix kinds_mixed parts
                                          opened_beside)
endforeach()
# Freed and allocated again, a thousand times.
wharf_mp_test(NAME t_attach_memory NP 4 LABELS mp fake SUFFIX reallocated
              ARGS reallocated rounds=300)
wharf_mp_test(NAME t_attach_memory NP 4 LABELS gpu SUFFIX reallocated
              ARGS reallocated rounds=1000)
# More physical pieces than one message carries.
wharf_mp_test(NAME t_attach_memory NP 3 LABELS fake SUFFIX many_pieces
              ARGS many_pieces pieces=150 ENV WHARF_FAKE_GRANULARITY=64k)
wharf_mp_test(NAME t_attach_memory NP 2 LABELS gpu SUFFIX many_pieces
              ARGS many_pieces pieces=150)

# Machines that cannot do all.
function(wharf_memory_degraded_test case np environment)
  wharf_mp_test(NAME t_attach_memory_degraded
                SOURCES t_attach_memory_degraded.c attach_memory.c NP ${np}
                LABELS fake SUFFIX ${case} ARGS ${case}
                ENV ${environment} WHARF_LOG=error)
endfunction()
wharf_memory_degraded_test(no_peers 3 WHARF_FAKE_PEERS=none)
wharf_memory_degraded_test(broken_pair 2 WHARF_FAKE_PEERS=broken:0-1)
wharf_memory_degraded_test(no_ipc 2 WHARF_FAKE_CAPS=no_ipc)
wharf_memory_degraded_test(no_map_host 2 WHARF_FAKE_CAPS=no_map_host)

# A rank that dies; as in api.cmake, what is right is told by a line.
if(WHARF_MPIEXEC_RECOVERY)
  wharf_test_program(NAME t_attach_memory_death
                     SOURCES t_attach_memory_death.c attach_memory.c)
  function(wharf_memory_death_test label case victim)
    set(test ${label}.attach_memory_death.np3.${case}.of${victim})
    _wharf_backend_environment(${label} ${test} 2 environment)
    set(fresh)
    if(label STREQUAL "fake")
      set(fresh sh ${PROJECT_SOURCE_DIR}/tests/support/fresh.sh)
    endif()
    add_test(NAME ${test}
             COMMAND ${fresh} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 3
                     ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
                     ${WHARF_MPIEXEC_RECOVERY}
                     $<TARGET_FILE:t_attach_memory_death> ${MPIEXEC_POSTFLAGS}
                     ${case} victim=${victim})
    _wharf_test_properties(${test} LABELS ${label} death ENV ${environment}
                           TIMEOUT 120)
    set_tests_properties(
      ${test} PROPERTIES PASS_REGULAR_EXPRESSION
                         "death: 2 survivors of rank ${victim}, all right"
                         FAIL_REGULAR_EXPRESSION "fake_cuda: violation"
                         PROCESSORS 3 RESOURCE_LOCK "${WHARF_TEST_LOCK}")
  endfunction()
  wharf_memory_death_test(mp killed_before_detach 1)
  if(WHARF_WITH_CUDA AND TARGET fake_cuda)
    wharf_memory_death_test(fake killed_before_attach 2)
    foreach(victim 0 1)
      wharf_memory_death_test(fake killed_before_detach ${victim})
    endforeach()
  endif()
endif()
