# SPDX-License-Identifier: MIT
# How tests are declared.
#
#   wharf_test_program(NAME t_x [SOURCES ...] [TESTING] [LIBRARIES ...])
#     The program, from t_x.c unless SOURCES says otherwise. TESTING links the
#     archive and shows the internals; else the program sees what a user sees:
#     include/ and libwharf.so.
#
#   wharf_unit_test(NAME t_x [SOURCES ...] [LIBRARIES ...] [PUBLIC]
#                   [LABELS unit] [ENV V=1 ...] [ARGS ...] [TIMEOUT s])
#     One process. Sees internals unless PUBLIC.
#
#   wharf_mp_test(NAME t_x NP 4 [LABELS mp fake gpu ...] [DEVICES 2]
#                 [SUFFIX text] [TESTING] [RECOVERY] [SOURCES ...]
#                 [LIBRARIES ...] [ENV V=1 ...] [ARGS ...] [TIMEOUT s])
#     NP processes under the MPI launcher, once for every label:
#       mp    host backend
#       fake  CUDA code over the fake driver with DEVICES devices
#       gpu   the real driver; skipped where there is none
#     Other labels (fault, topo, example) stand beside these three, or alone.
#     RECOVERY: the others live on when one rank is killed.
#     May be called again for the same NAME with another NP or SUFFIX.
#
# Tests are called label.x.npN[.suffix].
set(WHARF_SKIP_CODE 77)
cmake_host_system_information(RESULT _wharf_cores QUERY NUMBER_OF_LOGICAL_CORES)

# Two launches at a time would fight for the cores of a small machine.
set(WHARF_TEST_LOCK)
if(_wharf_cores LESS 16)
  set(WHARF_TEST_LOCK mpi)
endif()

set(WHARF_TEST_TIMEOUT 60)
set(WHARF_TEST_ENVIRONMENT)
if(WHARF_COVERAGE)
  set(WHARF_TEST_TIMEOUT 240)
endif()
if(WHARF_SANITIZE)
  set(WHARF_TEST_TIMEOUT 240)
  set(_support ${PROJECT_SOURCE_DIR}/tests/support)
  set(WHARF_TEST_ENVIRONMENT
      "ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0:abort_on_error=0:allocator_may_return_null=1"
      "LSAN_OPTIONS=suppressions=${_support}/lsan.supp:print_suppressions=0"
      "UBSAN_OPTIONS=print_stacktrace=1"
      "TSAN_OPTIONS=suppressions=${_support}/tsan.supp:ignore_noninstrumented_modules=1:history_size=4:allocator_may_return_null=1"
  )
endif()

# Refusals of the driver are part of many tests; what kernels do is not.
set(WHARF_GPU_WATCH)
if(WHARF_GPU_SANITIZE)
  find_program(WHARF_COMPUTE_SANITIZER compute-sanitizer
               HINTS ${CUDAToolkit_BIN_DIR})
  if(NOT WHARF_COMPUTE_SANITIZER)
    message(FATAL_ERROR "WHARF_GPU_SANITIZE=${WHARF_GPU_SANITIZE}: there is no "
                        "compute-sanitizer in PATH or in the CUDA toolkit")
  endif()
  set(WHARF_GPU_WATCH
      ${WHARF_COMPUTE_SANITIZER} --tool ${WHARF_GPU_SANITIZE}
      --target-processes all --report-api-errors no --error-exitcode 9)
  if(NOT WHARF_GPU_SANITIZE STREQUAL "memcheck")
    list(REMOVE_ITEM WHARF_GPU_WATCH --report-api-errors no)
  endif()
endif()

# At every start Open MPI asks libfabric and PSM for network cards. That takes
# longer than many a test, and ranks of one host take shared memory anyhow. And
# where a rank failed, its launcher waits a second before it kills what SIGTERM
# has ended.
if(WHARF_MPI_FAMILY STREQUAL "Open MPI")
  list(APPEND WHARF_TEST_ENVIRONMENT OMPI_MCA_btl=^ofi
       OMPI_MCA_mtl=^ofi,psm,psm2 OMPI_MCA_odls_base_sigkill_timeout=0)
endif()

# On a small machine MPICH's ranks have to be taught to yield (support/yield.c).
set(WHARF_TEST_YIELD OFF)
if(WHARF_MPI_FAMILY STREQUAL "MPICH" AND WHARF_TEST_LOCK AND NOT WHARF_SANITIZE)
  set(WHARF_TEST_YIELD ON)
  list(APPEND WHARF_TEST_ENVIRONMENT LD_PRELOAD=$<TARGET_FILE:t_yield>)
endif()

function(wharf_test_program)
  cmake_parse_arguments(T "TESTING" "NAME" "SOURCES;LIBRARIES" ${ARGN})
  if(TARGET ${T_NAME})
    return()
  endif()
  if(NOT T_SOURCES)
    set(T_SOURCES ${T_NAME}.c)
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  target_include_directories(${T_NAME}
                             PRIVATE ${PROJECT_SOURCE_DIR}/tests
                                     ${PROJECT_SOURCE_DIR}/tests/support)
  if(TARGET t_support)
    target_link_libraries(${T_NAME} PRIVATE t_support)
  endif()
  if(T_TESTING)
    target_link_libraries(${T_NAME} PRIVATE wharf_testing)
  else()
    target_link_libraries(${T_NAME} PRIVATE wharf)
  endif()
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBRARIES} wharf_flags)
endfunction()

# What all tests have in common.
function(_wharf_test_properties test)
  cmake_parse_arguments(T "" "TIMEOUT" "LABELS;ENV" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT ${WHARF_TEST_TIMEOUT})
    if("gpu" IN_LIST T_LABELS) # see case_run in support/t_group.c
      math(EXPR T_TIMEOUT "2 * ${T_TIMEOUT}")
    endif()
  endif()
  set_tests_properties(
    ${test} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
                       ENVIRONMENT "${WHARF_TEST_ENVIRONMENT};${T_ENV}")
  if(NOT WHARF_FAIL_ON_SKIP)
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE ${WHARF_SKIP_CODE})
  endif()
endfunction()

function(wharf_unit_test)
  cmake_parse_arguments(T "PUBLIC" "NAME;TIMEOUT"
                        "SOURCES;LIBRARIES;LABELS;ENV;ARGS" ${ARGN})
  set(testing TESTING)
  if(T_PUBLIC)
    set(testing)
  endif()
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  wharf_test_program(NAME ${T_NAME} SOURCES ${T_SOURCES}
                     LIBRARIES ${T_LIBRARIES} ${testing})
  list(GET T_LABELS 0 label)
  string(REGEX REPLACE "^t_" "" test ${T_NAME})
  string(PREPEND test "${label}.")
  add_test(NAME ${test} COMMAND ${T_NAME} ${T_ARGS})
  _wharf_test_properties(${test} LABELS ${T_LABELS} ENV ${T_ENV}
                         TIMEOUT ${T_TIMEOUT})
endfunction()

# The environment that makes one program a test of one backend.
function(_wharf_backend_environment label test devices result)
  if(label STREQUAL "fake")
    set(${result}
        WHARF_BACKEND=cuda
        WHARF_CUDA_DRIVER=$<TARGET_FILE:fake_cuda>
        WHARF_FAKE_DEVICES=${devices}
        WHARF_FAKE_STATE=${PROJECT_BINARY_DIR}/fake-state/${test}
        PARENT_SCOPE)
  elseif(label STREQUAL "gpu")
    set(${result} WHARF_BACKEND=cuda PARENT_SCOPE)
  else()
    set(${result} WHARF_BACKEND=host PARENT_SCOPE)
  endif()
endfunction()

function(_wharf_mp_register label)
  cmake_parse_arguments(T "RECOVERY" "NAME;PROGRAM;NP;SUFFIX;TIMEOUT;DEVICES"
                        "LABELS;ENV;ARGS" ${ARGN})
  string(REGEX REPLACE "^t_" "" test ${T_NAME})
  set(test "${label}.${test}.np${T_NP}")
  if(T_SUFFIX)
    string(APPEND test ".${T_SUFFIX}")
  endif()
  _wharf_backend_environment(${label} ${test} ${T_DEVICES} environment)
  set(fresh)
  if(label STREQUAL "fake")
    set(fresh sh ${PROJECT_SOURCE_DIR}/tests/support/fresh.sh)
  endif()
  set(recovery)
  if(T_RECOVERY)
    set(recovery ${WHARF_MPIEXEC_RECOVERY})
  endif()
  set(watch)
  if(label STREQUAL "gpu")
    set(watch ${WHARF_GPU_WATCH})
  endif()
  add_test(NAME ${test}
           COMMAND ${fresh} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${T_NP}
                   ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS} ${recovery}
                   ${watch} $<TARGET_FILE:${T_PROGRAM}> ${MPIEXEC_POSTFLAGS} ${T_ARGS})
  _wharf_test_properties(${test} LABELS ${label} ${T_LABELS}
                         ENV ${environment} ${T_ENV} TIMEOUT ${T_TIMEOUT})
  set(lock ${WHARF_TEST_LOCK})
  if(label STREQUAL "gpu")
    list(APPEND lock gpu)
  endif()
  set_tests_properties(${test} PROPERTIES PROCESSORS ${T_NP}
                                          RESOURCE_LOCK "${lock}")
endfunction()

function(wharf_mp_test)
  cmake_parse_arguments(T "TESTING;RECOVERY" "NAME;NP;SUFFIX;TIMEOUT;DEVICES"
                        "SOURCES;LIBRARIES;LABELS;ENV;ARGS" ${ARGN})
  if(NOT T_NAME OR NOT T_NP)
    message(FATAL_ERROR "wharf_mp_test needs NAME and NP")
  endif()
  if(NOT MPIEXEC_EXECUTABLE)
    return()
  endif()
  set(testing)
  if(T_TESTING)
    set(testing TESTING)
  endif()
  set(recovery)
  if(T_RECOVERY)
    set(recovery RECOVERY)
  endif()
  if(NOT T_LABELS)
    set(T_LABELS mp)
  endif()
  if(NOT T_DEVICES)
    set(T_DEVICES 2)
  endif()
  # An example is there already, under its own name.
  string(REGEX REPLACE "^t_" "" program ${T_NAME})
  if(NOT TARGET ${program})
    set(program ${T_NAME})
    wharf_test_program(NAME ${T_NAME} SOURCES ${T_SOURCES}
                       LIBRARIES ${T_LIBRARIES} ${testing})
  endif()

  set(backends)
  set(others)
  foreach(label IN LISTS T_LABELS)
    if(label MATCHES "^(mp|fake|gpu)$")
      list(APPEND backends ${label})
    else()
      list(APPEND others ${label})
    endif()
  endforeach()
  if(NOT backends)
    list(POP_FRONT others backends)
  endif()
  if(NOT WHARF_WITH_CUDA)
    list(REMOVE_ITEM backends gpu fake)
  elseif(NOT TARGET fake_cuda)
    list(REMOVE_ITEM backends fake)
  endif()
  foreach(label IN LISTS backends)
    _wharf_mp_register(${label} PROGRAM ${program} NAME ${T_NAME} NP ${T_NP} SUFFIX ${T_SUFFIX}
                       ${recovery} TIMEOUT ${T_TIMEOUT} DEVICES ${T_DEVICES}
                       LABELS ${others} ENV ${T_ENV} ARGS ${T_ARGS})
  endforeach()
endfunction()
