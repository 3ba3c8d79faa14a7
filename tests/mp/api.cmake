# SPDX-License-Identifier: MIT
# Tests with several ranks against the public interface. The same sources run
# over host memory (mp), over the fake driver (fake) and on real GPUs (gpu).

# wharf_mp_test, once for every number of NP.
function(wharf_group_test)
  cmake_parse_arguments(G "" "NAME;SUFFIX;TIMEOUT;DEVICES"
                        "NP;LABELS;ENV;ARGS" ${ARGN})
  foreach(np IN LISTS G_NP)
    wharf_mp_test(NAME ${G_NAME} NP ${np} LABELS ${G_LABELS}
                  DEVICES ${G_DEVICES} SUFFIX ${G_SUFFIX} TIMEOUT ${G_TIMEOUT}
                  ENV ${G_ENV} ARGS ${G_ARGS})
  endforeach()
endfunction()

foreach(name t_buffer_attach t_buffer_options t_buffer_pool)
  wharf_group_test(NAME ${name} NP 1 4 LABELS mp fake gpu)
endforeach()
foreach(name t_buffer_many t_buffer_errors t_buffer_state t_event_basic
             t_event_order t_stats t_node_query t_node_astray)
  wharf_group_test(NAME ${name} NP 3 LABELS mp fake gpu)
endforeach()
foreach(name t_node_open t_node_errors t_event_threads)
  wharf_group_test(NAME ${name} NP 4 LABELS mp fake gpu)
endforeach()

# More ranks than GPUs, more GPUs than ranks, one of each.
foreach(shape 8:2 2:8 5:4 4:1 8:8)
  string(REPLACE ":" ";" shape ${shape})
  list(GET shape 0 np)
  list(GET shape 1 devices)
  wharf_group_test(NAME t_node_query NP ${np} DEVICES ${devices} LABELS fake
                   SUFFIX dev${devices})
  wharf_group_test(NAME t_buffer_attach NP ${np} DEVICES ${devices} LABELS fake
                   SUFFIX dev${devices})
endforeach()
wharf_group_test(NAME t_buffer_attach NP 8 LABELS mp gpu)
wharf_group_test(NAME t_buffer_attach NP 16 DEVICES 8 LABELS fake SUFFIX dev8)

wharf_group_test(NAME t_node_context NP 2 4 LABELS fake gpu)
wharf_group_test(NAME t_node_context NP 2 LABELS fake gpu SUFFIX other
                 ARGS other_context other=1
                 ENV WHARF_FAKE_LENIENT=1 WHARF_LOG=none)

wharf_group_test(NAME t_suspended NP 3 LABELS mp)

wharf_group_test(NAME t_buffer_cycles NP 3 LABELS mp fake ARGS cycles=1000
                 TIMEOUT 240)
wharf_group_test(NAME t_buffer_cycles NP 2 LABELS gpu ARGS cycles=10000
                 limit=290 TIMEOUT 600)
wharf_group_test(NAME t_buffer_limits NP 3 LABELS mp fake gpu
                 ENV WHARF_FAKE_MEMORY=256m TIMEOUT 120)

# MPI's own states: a process for each.
foreach(case before_init after_finalize driver_untouched finalize_with_buffers finalize_and_exit
             exit_with_buffers close_then_finalize finalize_two_nodes)
  wharf_group_test(NAME t_node_state NP 2 LABELS mp fake gpu SUFFIX ${case}
                   ARGS ${case})
endforeach()

# Masks are read once by a driver: a process for each.
foreach(case one_each one_each_by_uuid one_each_by_short_uuid reordered
             bad_token empty_on_one one_and_all mapped)
  wharf_group_test(NAME t_node_visible NP 4 LABELS fake gpu SUFFIX ${case}
                   ARGS ${case})
endforeach()
wharf_group_test(NAME t_node_visible NP 6 DEVICES 4 LABELS fake
                 SUFFIX one_each.dev4 ARGS one_each)

# A ruined context ends its process's use of the driver: a process for each.
foreach(case attach detach close_only local_calls write_protected reset
             reset_and_on)
  wharf_group_test(NAME t_node_fault NP 3 LABELS fake gpu SUFFIX ${case}
                   ARGS ${case})
  wharf_group_test(NAME t_node_fault NP 2 LABELS fake gpu SUFFIX ${case}.of0
                   ARGS ${case} ruined=0)
endforeach()
# The driver's own memory is gone with its context, not so that of the fake.
foreach(case reset reset_and_on)
  wharf_group_test(NAME t_node_fault NP 3 LABELS fake SUFFIX ${case}.ipc
                   ARGS ${case} ENV WHARF_HANDLE=ipc)
endforeach()
wharf_group_test(NAME t_node_fault NP 3 LABELS fake gpu SUFFIX reset_twice
                 ARGS reset_twice)
wharf_group_test(NAME t_node_fault NP 3 LABELS fake gpu SUFFIX reset_and_look
                 ARGS reset_and_look ENV WHARF_LOG=none)
wharf_group_test(NAME t_node_fault NP 2 LABELS fake gpu
                 SUFFIX reset_and_look.remote
                 ARGS reset_and_look remote=1 threads=1
                 ENV WHARF_EXCHANGE_REMOTE=1 WHARF_LOG=none)

# Machines that cannot do all.
function(wharf_degraded_test case np environment)
  wharf_group_test(NAME t_buffer_degraded NP ${np} LABELS fake SUFFIX ${case}
                   ARGS ${case} ENV ${environment} ${ARGN})
endfunction()
wharf_degraded_test(no_peers 4 WHARF_FAKE_PEERS=none)
wharf_degraded_test(broken_pair 2 WHARF_FAKE_PEERS=broken:0-1)
wharf_degraded_test(broken_pair 4 WHARF_FAKE_PEERS=broken:0-1)
wharf_degraded_test(no_vmm 4 WHARF_FAKE_CAPS=no_vmm)
wharf_degraded_test(no_handles 4 "WHARF_FAKE_CAPS=no_vmm,no_ipc")
wharf_degraded_test(no_ipc_event 2 WHARF_FAKE_CAPS=no_ipc_event)
wharf_degraded_test(old_driver 2 WHARF_FAKE_CAPS=old_driver)
wharf_degraded_test(exclusive 2 WHARF_FAKE_CAPS=exclusive)
wharf_degraded_test(exclusive 4 WHARF_FAKE_CAPS=exclusive)
wharf_degraded_test(denied 3 WHARF_FAKE_DENY=1)
wharf_degraded_test(no_map_host 2 WHARF_FAKE_CAPS=no_map_host)
wharf_degraded_test(mig 4 WHARF_FAKE_CAPS=mig)
wharf_group_test(NAME t_buffer_degraded NP 4 LABELS fake gpu SUFFIX handle_ipc
                 ARGS handle_ipc ENV WHARF_HANDLE=ipc)
wharf_group_test(NAME t_buffer_degraded NP 3 LABELS fake gpu SUFFIX chunks
                 ARGS chunks ENV WHARF_CHUNK_BYTES=2m)

# Each kind of handle also under the general tests.
foreach(name t_buffer_attach t_event_order t_buffer_pool)
  wharf_group_test(NAME ${name} NP 4 LABELS fake SUFFIX ipc
                   ENV WHARF_FAKE_CAPS=no_vmm)
endforeach()
wharf_group_test(NAME t_buffer_attach NP 4 LABELS fake SUFFIX chunks
                 ENV WHARF_CHUNK_BYTES=2m)

# Deaths. The launcher must let the others live (WharfMpi.cmake); what is right
# is told by a line, not by an exit status.
wharf_test_program(NAME t_death)
if(WHARF_MPIEXEC_RECOVERY)
  set(cases killed_before_attach killed_before_detach killed_before_record
            killed_before_close killed_before_open killed_leaving_child
            stopped_before_attach stopped_before_detach stopped_before_record
            killed_before_notify killed_before_barrier stopped_before_barrier
            stopped_for_good)
  function(wharf_death_test label case np victim)
    set(test ${label}.death.np${np}.${case}.of${victim})
    if(ARGN)
      list(GET ARGN 0 delay)
      string(APPEND test ".${delay}us")
      set(delay delay_us=${delay})
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
                     $<TARGET_FILE:t_death> ${MPIEXEC_POSTFLAGS} ${case}
                     victim=${victim} ${delay})
    _wharf_test_properties(${test} LABELS ${label} death ENV ${environment}
                           TIMEOUT 120)
    set_tests_properties(
      ${test} PROPERTIES PASS_REGULAR_EXPRESSION
                         "death: [0-9]+ survivors of rank ${victim}, all right"
                         FAIL_REGULAR_EXPRESSION "fake_cuda: violation"
                         PROCESSORS ${np} RESOURCE_LOCK "${WHARF_TEST_LOCK}")
  endfunction()
  # Over legacy handles memory has to be kept.
  if(WHARF_WITH_CUDA AND TARGET fake_cuda)
    wharf_death_test(fake killed_before_detach 3 1)
    set_property(TEST fake.death.np3.killed_before_detach.of1 APPEND
                 PROPERTY ENVIRONMENT WHARF_FAKE_CAPS=no_vmm)
    # On one GPU, where streams wait for words that only a rescue still writes.
    wharf_death_test(fake killed_after_record 3 1)
    set_property(TEST fake.death.np3.killed_after_record.of1 APPEND
                 PROPERTY ENVIRONMENT WHARF_FAKE_DEVICES=1)
  endif()
  set(labels mp)
  if(WHARF_WITH_CUDA AND TARGET fake_cuda)
    list(APPEND labels fake)
  endif()
  foreach(label IN LISTS labels)
    foreach(case IN LISTS cases)
      wharf_death_test(${label} ${case} 3 0)
      wharf_death_test(${label} ${case} 3 2)
    endforeach()
    foreach(delay 1000 7000 20000 33000)
      wharf_death_test(${label} killed_at_any_point 3 0 ${delay})
      wharf_death_test(${label} killed_at_any_point 3 1 ${delay})
    endforeach()
  endforeach()
endif()
