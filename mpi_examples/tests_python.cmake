# SPDX-License-Identifier: MIT
# The Python examples as tests. They want a Python with mpi4py for the MPI
# library of this build, and NumPy; without one they are skipped, and say so.
set(WHARF_PYTHON "" CACHE FILEPATH "Python with mpi4py and numpy, for the tests")

# Ranks of another library would each take themselves for a job.
set(_wharf_vendor "")
if(NOT WHARF_MPI_FAMILY STREQUAL "other")
  set(_wharf_vendor "${WHARF_MPI_FAMILY}")
endif()
if(NOT WHARF_PYTHON)
  find_program(WHARF_PYTHON_OF_PATH python3)
  foreach(python ${WHARF_PYTHON_OF_PATH} /usr/bin/python3)
    execute_process(
      COMMAND ${python} -c
              "import mpi4py, numpy
mpi4py.rc.initialize = False
from mpi4py import MPI
assert '${_wharf_vendor}' in MPI.Get_library_version()"
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
      set_property(CACHE WHARF_PYTHON PROPERTY VALUE ${python})
      break()
    endif()
  endforeach()
endif()
if(NOT WHARF_PYTHON)
  message(STATUS "  Python examples: not tested, no python3 with mpi4py and "
                 "numpy (Debian, Ubuntu: python3-mpi4py python3-numpy)")
endif()

# wharf_python_test(NAME SCRIPT NP LABEL ARG...): label.python_NAME.npNP
function(wharf_python_test name script np label)
  if(NOT MPIEXEC_EXECUTABLE OR (label STREQUAL "gpu" AND NOT WHARF_WITH_CUDA))
    return()
  endif()
  set(test ${label}.python_${name}.np${np})
  _wharf_backend_environment(${label} ${test} 0 environment)
  if(WHARF_PYTHON)
    add_test(NAME ${test}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${np}
                     ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS} ${WHARF_PYTHON}
                     -m mpi4py ${CMAKE_CURRENT_SOURCE_DIR}/python/${script}
                     ${MPIEXEC_POSTFLAGS} ${ARGN})
  else()
    add_test(NAME ${test}
             COMMAND sh -c "echo 'skipped: no python3 with mpi4py and numpy'
                            exit ${WHARF_SKIP_CODE}")
  endif()
  _wharf_test_properties(
    ${test} LABELS ${label} example
    ENV ${environment} LIBWHARF=$<TARGET_FILE:wharf> WHARF_LOG=none
        PYTHONDONTWRITEBYTECODE=1)
  set_tests_properties(${test} PROPERTIES PROCESSORS ${np}
                                          RESOURCE_LOCK "${WHARF_TEST_LOCK}")
endfunction()

# The viewer, beside a job that runs meanwhile.
function(wharf_viewer_test label)
  if(NOT MPIEXEC_EXECUTABLE OR NOT TARGET 05_halo_2d OR NOT WHARF_PYTHON
     OR (label STREQUAL "gpu" AND NOT CMAKE_CUDA_COMPILER))
    return()
  endif()
  set(test ${label}.python_viewer.np2)
  _wharf_backend_environment(${label} ${test} 0 environment)
  add_test(
    NAME ${test}
    COMMAND
      sh ${PROJECT_SOURCE_DIR}/tests/mp/viewer.sh ${WHARF_PYTHON}
      ${CMAKE_CURRENT_SOURCE_DIR}/python/viewer.py
      ${CMAKE_CURRENT_BINARY_DIR}/viewer-${label} ${MPIEXEC_EXECUTABLE}
      ${MPIEXEC_NUMPROC_FLAG} 2 ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
      $<TARGET_FILE:05_halo_2d> ${MPIEXEC_POSTFLAGS})
  _wharf_test_properties(
    ${test} LABELS ${label} example
    ENV ${environment} LIBWHARF=$<TARGET_FILE:wharf> WHARF_LOG=error
        PYTHONDONTWRITEBYTECODE=1 MPLBACKEND=Agg)
  set_tests_properties(${test} PROPERTIES PROCESSORS 3
                                          RESOURCE_LOCK "${WHARF_TEST_LOCK}")
endfunction()

if(NOT WHARF_SANITIZE)
  wharf_viewer_test(mp)
  wharf_viewer_test(gpu)
  wharf_python_test(numpy share_numpy.py 1 mp)
  wharf_python_test(numpy share_numpy.py 3 mp)
  foreach(label mp gpu)
    wharf_python_test(halo halo_numpy.py 4 ${label})
    wharf_python_test(ring ring_numpy.py 3 ${label})
    wharf_python_test(worker worker_numpy.py 2 ${label})
  endforeach()
  foreach(np 2 4)
    wharf_python_test(torch share_gpu.py ${np} gpu torch)
    wharf_python_test(cupy share_gpu.py ${np} gpu cupy)
  endforeach()
  wharf_python_test(torch_expandable share_gpu.py 2 gpu torch)
  if(TEST gpu.python_torch_expandable.np2)
    set_property(TEST gpu.python_torch_expandable.np2 APPEND
                 PROPERTY ENVIRONMENT
                          PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)
  endif()
endif()
