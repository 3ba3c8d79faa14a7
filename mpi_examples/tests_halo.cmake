# SPDX-License-Identifier: MIT
# Tests of 05_halo_2d. The CRC-32 of each field is known; it must come out for
# any number of ranks, on the CPU and on GPUs, in both modes, on one host and on
# two. Kernels of the program itself cannot run over the fake driver.

# halo_test(NAME x NP 4 LABELS mp gpu [CODE 1] SENTENCE regex [HOSTS] ARGS ...)
# With HOSTS, NP ranks on each of two hosts.
function(halo_test)
  cmake_parse_arguments(T "HOSTS" "NAME;NP;CODE;SENTENCE" "LABELS;ARGS" ${ARGN})
  if(NOT MPIEXEC_EXECUTABLE)
    return()
  endif()
  if(NOT T_CODE)
    set(T_CODE 0)
  endif()
  set(launch ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${T_NP}
      ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS})
  if(T_HOSTS)
    set(launch bash ${PROJECT_SOURCE_DIR}/scripts/two_hosts.sh -n ${T_NP})
  endif()
  foreach(label IN LISTS T_LABELS)
    if(label STREQUAL "gpu" AND NOT CMAKE_CUDA_COMPILER)
      continue()
    endif()
    set(test ${label}.05_halo_2d.${T_NAME}.np${T_NP})
    set(lock ${WHARF_TEST_LOCK})
    if(label STREQUAL "gpu")
      list(APPEND lock gpu)
    endif()
    _wharf_backend_environment(${label} ${test} 0 environment)
    add_test(
      NAME ${test}
      COMMAND
        ${CMAKE_COMMAND} -DCODE=${T_CODE} -DSENTENCE=${T_SENTENCE}
        -P ${PROJECT_SOURCE_DIR}/tests/support/expect.cmake -- ${launch}
        $<TARGET_FILE:05_halo_2d> ${MPIEXEC_POSTFLAGS} ${T_ARGS})
    set_tests_properties(
      ${test} PROPERTIES LABELS "${label};example" TIMEOUT ${WHARF_TEST_TIMEOUT}
                         ENVIRONMENT "${environment};${WHARF_TEST_ENVIRONMENT};${no_leaks}"
                         RESOURCE_LOCK "${lock}")
    if(NOT WHARF_FAIL_ON_SKIP)
      set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION
                                              "WHARF_ENODEV|skipped: ")
    endif()
  endforeach()
endfunction()

# Rows that do not divide, columns that fill no group; a batch that is cut.
set(sine --size 203x1030 --iterations 120 --norm 50)
set(sine_crc dcbefeca)
foreach(np 2 4 8)
  halo_test(NAME sine NP ${np} LABELS mp SENTENCE ${sine_crc} ARGS ${sine})
endforeach()
foreach(np 1 2 4)
  foreach(mode exchange kernel)
    halo_test(NAME sine.${mode} NP ${np} LABELS gpu SENTENCE ${sine_crc}
              ARGS ${sine} --mode ${mode})
  endforeach()
endforeach()
foreach(mode exchange kernel)
  halo_test(NAME sine.${mode}.no_graphs NP 2 LABELS gpu SENTENCE ${sine_crc}
            ARGS ${sine} --mode ${mode} --no-graphs)
endforeach()
halo_test(NAME sine.early NP 2 LABELS gpu SENTENCE ${sine_crc}
          ARGS ${sine} --mode kernel --early)
# The benchmark compares the fields of all variants.
foreach(variant r16 r8x4h)
  halo_test(NAME sine.${variant} NP 2 LABELS gpu SENTENCE ${sine_crc}
            ARGS ${sine} --mode kernel --variant ${variant})
endforeach()

# A field that is known: the program compares, with one rank's run as well.
halo_test(NAME known NP 3 LABELS mp gpu SENTENCE "f8f79e7e.*efficiency"
          ARGS --problem wave --size 64 --iterations 300 --alone)

# A row for each rank; an odd number of steps in a batch, and in a run.
halo_test(NAME one_row NP 5 LABELS mp SENTENCE bfe459ef
          ARGS --size 5x3 --iterations 7 --norm 3 --repeat 2)
halo_test(NAME two_rows NP 2 LABELS mp gpu SENTENCE cd769ee9
          ARGS --problem wave --size 2x33 --iterations 7 --norm 3 --repeat 2)
halo_test(NAME tolerance NP 2 LABELS mp gpu SENTENCE " 64 +64 +2 +500 .*c9ee88a4"
          ARGS --size 64 --iterations 5000 --tolerance 1e-2)

# What people get wrong.
halo_test(NAME too_many NP 4 LABELS mp CODE 1
          SENTENCE "4 ranks are too many for 3 rows" ARGS --size 3)
halo_test(NAME no_gpu NP 2 LABELS mp CODE 1
          SENTENCE "mode kernel is for GPUs of one node" ARGS --mode kernel)
halo_test(NAME bad_size NP 1 LABELS mp CODE 2 SENTENCE "cannot use --size 0"
          ARGS --size 0)
halo_test(NAME bad_picture NP 2 LABELS mp CODE 1 SENTENCE "No such file"
          ARGS --size 8 --iterations 2 --png nowhere/x.png)

# The picture does not depend on the number of ranks either.
set(pictures)
foreach(np 1 3)
  set(picture ${CMAKE_CURRENT_BINARY_DIR}/field-${np}.png)
  halo_test(NAME picture NP ${np} LABELS mp SENTENCE ${sine_crc}
            ARGS ${sine} --png ${picture})
  if(TEST mp.05_halo_2d.picture.np${np})
    set_tests_properties(mp.05_halo_2d.picture.np${np}
                         PROPERTIES FIXTURES_SETUP halo_pictures)
  endif()
  list(APPEND pictures ${picture})
endforeach()
if(TEST mp.05_halo_2d.picture.np1)
  add_test(NAME mp.05_halo_2d.pictures
           COMMAND ${CMAKE_COMMAND} -E compare_files ${pictures})
  set_tests_properties(mp.05_halo_2d.pictures
                       PROPERTIES FIXTURES_REQUIRED halo_pictures LABELS
                                  "mp;example")
endif()

# Beyond the node.
halo_test(NAME sine NP 2 LABELS hosts HOSTS SENTENCE ${sine_crc} ARGS ${sine})
if(MPIEXEC_EXECUTABLE)
  add_test(NAME hosts.06_beyond_node
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/06_beyond_node.sh
                   $<TARGET_FILE:05_halo_2d> --size 100 --iterations 40)
  set_tests_properties(
    hosts.06_beyond_node
    PROPERTIES LABELS "hosts;example" TIMEOUT ${WHARF_TEST_TIMEOUT}
               ENVIRONMENT
               "WHARF_BACKEND=host;MPIEXEC=${MPIEXEC_EXECUTABLE};${WHARF_TEST_ENVIRONMENT};${no_leaks}"
               PASS_REGULAR_EXPRESSION "the same bits" RESOURCE_LOCK
               "${WHARF_TEST_LOCK}")
  if(NOT WHARF_FAIL_ON_SKIP)
    set_tests_properties(hosts.06_beyond_node PROPERTIES SKIP_REGULAR_EXPRESSION
                                                         "skipped: ")
  endif()
endif()
