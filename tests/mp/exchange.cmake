# SPDX-License-Identifier: MIT
# Neighbour exchanges: on one node, and as if every rank were a node of its own.
# On GPUs all of it, and longer; elsewhere every path at least once.
wharf_group_test(NAME t_exchange_lists NP 1 4 LABELS mp gpu)
wharf_group_test(NAME t_exchange_lists NP 2 4 LABELS fake)
wharf_group_test(NAME t_exchange_lists NP 2 LABELS gpu)
wharf_group_test(NAME t_exchange_grid NP 8 LABELS mp gpu)
wharf_group_test(NAME t_exchange_grid NP 3 LABELS fake gpu)
wharf_group_test(NAME t_exchange_grid NP 1 LABELS gpu)
# On the host backend one case waits for the deadline.
wharf_group_test(NAME t_exchange_errors NP 3 LABELS mp fake
                 ENV WHARF_LOG=none WHARF_TIMEOUT_MS=1500)
wharf_group_test(NAME t_exchange_errors NP 1 3 LABELS gpu ENV WHARF_LOG=none)
wharf_group_test(NAME t_exchange_rounds NP 4 LABELS mp)
wharf_group_test(NAME t_exchange_rounds NP 2 4 LABELS fake)
wharf_group_test(NAME t_exchange_rounds NP 2 4 LABELS gpu TIMEOUT 300
                 ARGS rounds=5000 replays=1000 limit=250)

wharf_group_test(NAME t_exchange_lists NP 2 LABELS gpu SUFFIX huge TIMEOUT 120
                 ARGS huge huge=1)
wharf_group_test(NAME t_exchange_lists NP 2 LABELS gpu SUFFIX huge.remote
                 TIMEOUT 200 ARGS huge huge=1 threads=1 limit=180
                 ENV WHARF_EXCHANGE_REMOTE=1)

# Mechanisms that the machine would not choose.
foreach(mechanism kernel mem-ops hybrid)
  set(labels gpu)
  if(mechanism STREQUAL kernel)
    list(APPEND labels fake)
  endif()
  wharf_group_test(NAME t_exchange_rounds NP 4 LABELS ${labels}
                   SUFFIX ${mechanism} ARGS rounds=100
                   ENV WHARF_MECHANISM=${mechanism} WHARF_LOG=error)
endforeach()
wharf_group_test(NAME t_exchange_rounds NP 4 LABELS fake SUFFIX no_peers
                 ARGS rounds=100 on_host=1
                 ENV WHARF_FAKE_PEERS=none WHARF_LOG=error)

# Every rank is reached by MPI, in pieces that cut rows, with and without a
# thread that drives it.
function(wharf_exchange_remote_test name threads)
  wharf_group_test(
    NAME t_exchange_${name} NP 3 LABELS ${ARGN} gpu
    SUFFIX remote.threads${threads} ARGS threads=${threads} rounds=100
    ENV WHARF_EXCHANGE_REMOTE=1 WHARF_EXCHANGE_PIECE=100)
endfunction()
wharf_exchange_remote_test(lists 0 mp)
wharf_exchange_remote_test(lists 1 fake)
wharf_exchange_remote_test(rounds 0 fake)
wharf_exchange_remote_test(rounds 1 mp)
wharf_exchange_remote_test(grid 0)
wharf_exchange_remote_test(grid 1 fake)
wharf_group_test(NAME t_exchange_errors NP 3 LABELS mp SUFFIX remote
                 ARGS threads=1 ENV WHARF_EXCHANGE_REMOTE=1 WHARF_LOG=none
                                    WHARF_TIMEOUT_MS=1500)

wharf_group_test(NAME t_exchange_aware NP 3 LABELS fake gpu
                 ENV WHARF_EXCHANGE_REMOTE=1 WHARF_CUDA_AWARE=on)

# Deaths, as in api.cmake.
if(WHARF_MPIEXEC_RECOVERY)
  wharf_test_program(NAME t_exchange_death)
  function(wharf_exchange_death_test label case victim)
    set(test ${label}.exchange_death.np3.${case}.of${victim})
    if(ARGN)
      string(APPEND test .remote)
    endif()
    _wharf_backend_environment(${label} ${test} 2 environment)
    set(fresh)
    if(label STREQUAL "fake")
      set(fresh sh ${PROJECT_SOURCE_DIR}/tests/support/fresh.sh)
    endif()
    add_test(NAME ${test}
             COMMAND ${fresh} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 3
                     ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
                     ${WHARF_MPIEXEC_RECOVERY}
                     $<TARGET_FILE:t_exchange_death> ${MPIEXEC_POSTFLAGS}
                     ${case} victim=${victim})
    _wharf_test_properties(${test} LABELS ${label} death
                           ENV ${environment} ${ARGN} TIMEOUT 120)
    set_tests_properties(
      ${test} PROPERTIES PASS_REGULAR_EXPRESSION
                         "death: 2 survivors of rank ${victim}, all right"
                         FAIL_REGULAR_EXPRESSION "fake_cuda: violation"
                         PROCESSORS 3 RESOURCE_LOCK "${WHARF_TEST_LOCK}")
  endfunction()
  wharf_exchange_death_test(mp one_set 0)
  wharf_exchange_death_test(mp killed_before_create 2)
  wharf_exchange_death_test(mp two_sets 1 WHARF_EXCHANGE_REMOTE=1)
  if(WHARF_WITH_CUDA AND TARGET fake_cuda)
    wharf_exchange_death_test(fake two_sets 2)
    wharf_exchange_death_test(fake killed_after_start 1)
  endif()
endif()

# No memory on one rank of a communicator that is wider than its node.
wharf_mp_test(NAME t_exchange_memory NP 2 LABELS mp TESTING)
