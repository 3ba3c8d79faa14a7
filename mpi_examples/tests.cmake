# SPDX-License-Identifier: MIT
# Every example is a test of Wharf's build.
enable_testing()
include(WharfTesting)

# MPI's plug-ins are unloaded before the process ends, and what they leave is
# then reported without a name that could be suppressed.
set(no_leaks)
if(WHARF_SANITIZE)
  set(no_leaks "ASAN_OPTIONS=detect_leaks=0:abort_on_error=0")
endif()

# An example is no test program that ends with 77: without a GPU the sentence
# of wharf_node_open says so.
function(wharf_example_test name np)
  wharf_mp_test(NAME t_${name} NP ${np} ENV ${no_leaks} ${ARGN})
  if(TEST gpu.${name}.np${np} AND NOT WHARF_FAIL_ON_SKIP)
    set_tests_properties(gpu.${name}.np${np} PROPERTIES SKIP_REGULAR_EXPRESSION
                                                        "WHARF_ENODEV")
  endif()
endfunction()

foreach(np 1 4)
  wharf_example_test(01_hello ${np} LABELS mp fake gpu example)
endforeach()

foreach(name hello_cpp ring_cpp worker_cpp hello_fortran halo_fortran
        worker_fortran)
  if(TARGET ${name})
    wharf_example_test(${name} 2 LABELS mp fake gpu example)
  endif()
endforeach()

foreach(np 1 2 5)
  wharf_example_test(03_producer_consumers ${np} LABELS mp fake gpu example
                     ARGS 200 20000)
endforeach()
if(TARGET 04_graph_barrier)
  foreach(np 1 2 4)
    wharf_example_test(04_graph_barrier ${np} LABELS gpu example)
  endforeach()
endif()

if(TARGET 05_halo_2d)
  include(tests_halo.cmake)
endif()

# No kernels of an example run on the fake driver.
wharf_example_test(09_faulty_worker 4 LABELS mp gpu example)
# Ranks of several nodes report in one list.
if(MPIEXEC_EXECUTABLE)
  add_test(
    NAME hosts.09_faulty_worker
    COMMAND
      ${CMAKE_COMMAND} "-DSENTENCE=rank 3: 4 of 4 .*all results are right"
      -P ${PROJECT_SOURCE_DIR}/tests/support/expect.cmake --
      bash ${PROJECT_SOURCE_DIR}/scripts/two_hosts.sh -n 2
      $<TARGET_FILE:09_faulty_worker> 4 2)
  _wharf_test_properties(
    hosts.09_faulty_worker LABELS hosts example
    ENV WHARF_BACKEND=host MPIEXEC=${MPIEXEC_EXECUTABLE} ${no_leaks})
  set_tests_properties(hosts.09_faulty_worker PROPERTIES RESOURCE_LOCK
                                                         "${WHARF_TEST_LOCK}")
  if(NOT WHARF_FAIL_ON_SKIP)
    set_tests_properties(hosts.09_faulty_worker PROPERTIES SKIP_REGULAR_EXPRESSION
                                                           "skipped: ")
  endif()
endif()

wharf_example_test(10_checkpoint 3 LABELS mp fake gpu example
                   ARGS ${CMAKE_CURRENT_BINARY_DIR}/checkpoint stopped)
# A killed rank: only some launchers let the others go on, and then their exit
# status says nothing.
if(WHARF_MPIEXEC_RECOVERY)
  foreach(label mp fake gpu)
    if(NOT TEST ${label}.10_checkpoint.np3)
      continue()
    endif()
    set(test ${label}.10_checkpoint.np3.killed)
    add_test(NAME ${test}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 3
                     ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
                     ${WHARF_MPIEXEC_RECOVERY}
                     $<TARGET_FILE:10_checkpoint> ${MPIEXEC_POSTFLAGS}
                     ${CMAKE_CURRENT_BINARY_DIR}/checkpoint.killed.${label} killed)
    _wharf_backend_environment(${label} ${test} 2 environment)
    _wharf_test_properties(${test} LABELS ${label} example
                           ENV ${environment} ${no_leaks})
    set_tests_properties(
      ${test} PROPERTIES PROCESSORS 3 RESOURCE_LOCK "${WHARF_TEST_LOCK}"
                         PASS_REGULAR_EXPRESSION "saved to [^\n]*, all right"
                         SKIP_REGULAR_EXPRESSION "WHARF_ENODEV")
  endforeach()
endif()

if(TARGET 02_shared_file)
  # Files whose sizes meet the edges: empty, one byte, the text that every
  # description of CRC-32 gives (cbf43926), a page and a byte, a real file.
  set(files ${CMAKE_CURRENT_BINARY_DIR}/files)
  file(WRITE ${files}/empty "")
  file(WRITE ${files}/one "x")
  file(WRITE ${files}/digits "123456789")
  string(REPEAT "abcdefgh" 512 page)
  file(WRITE ${files}/page "${page}")
  file(WRITE ${files}/page_and_one "${page}i")
  set(all ${files}/empty ${files}/one ${files}/digits ${files}/page
          ${files}/page_and_one ${CMAKE_CURRENT_SOURCE_DIR}/02_shared_file.c)

  foreach(np 1 3 8)
    wharf_example_test(02_shared_file ${np} LABELS mp gpu example ARGS ${all})
  endforeach()

  # What people get wrong: exit code, and the sentence that says so.
  function(wharf_example_error suffix code sentence)
    if(NOT MPIEXEC_EXECUTABLE)
      return()
    endif()
    set(test mp.02_shared_file.${suffix})
    add_test(
      NAME ${test}
      COMMAND
        ${CMAKE_COMMAND} -DCODE=${code} -DSENTENCE=${sentence}
        -P ${PROJECT_SOURCE_DIR}/tests/support/expect.cmake -- ${MPIEXEC_EXECUTABLE}
        ${MPIEXEC_NUMPROC_FLAG} 3 ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
        $<TARGET_FILE:02_shared_file> ${MPIEXEC_POSTFLAGS} ${ARGN})
    set_tests_properties(
      ${test} PROPERTIES LABELS "mp;example" TIMEOUT ${WHARF_TEST_TIMEOUT}
                         ENVIRONMENT "WHARF_BACKEND=host;${WHARF_TEST_ENVIRONMENT};${no_leaks}"
                         PROCESSORS 3 RESOURCE_LOCK "${WHARF_TEST_LOCK}")
  endfunction()
  wharf_example_error(no_argument 2 "usage: ")
  wharf_example_error(no_file 1 "nowhere: No such file or directory"
                      ${files}/nowhere)
  wharf_example_error(directory 1 "files: is a directory" ${files})
  wharf_example_error(device 1 "/dev/null: is not a regular file" /dev/null)
  # One bad file does not keep the good one from its result.
  wharf_example_error(one_of_two 1 "cbf43926.*1 of 2 files failed"
                      ${files}/nowhere ${files}/digits)
  # Only while it is tested: whoever copies a build directory with a file of 1
  # TiB in it copies 1 TiB, holes or not.
  set(huge ${files}/huge)
  execute_process(COMMAND truncate -s 1T ${huge} RESULT_VARIABLE failed)
  file(REMOVE ${huge})
  if(failed EQUAL 0 AND MPIEXEC_EXECUTABLE)
    wharf_example_error(too_large 1 "huge: .*WHARF_ENOMEM" ${huge})
    add_test(NAME mp.02_shared_file.make_huge COMMAND truncate -s 1T ${huge})
    add_test(NAME mp.02_shared_file.remove_huge COMMAND ${CMAKE_COMMAND} -E rm
                                                        ${huge})
    set(name mp.02_shared_file)
    set_tests_properties(${name}.make_huge PROPERTIES FIXTURES_SETUP huge_file)
    set_tests_properties(${name}.remove_huge PROPERTIES FIXTURES_CLEANUP huge_file)
    set_tests_properties(${name}.too_large PROPERTIES FIXTURES_REQUIRED huge_file)
    set_tests_properties(${name}.make_huge ${name}.remove_huge
                         PROPERTIES LABELS "mp;example")
  endif()
endif()

include(tests_python.cmake)
include(tests_frames.cmake)
