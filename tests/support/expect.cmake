# SPDX-License-Identifier: MIT
# Runs a command that must end with an exit code and print something:
#   cmake [-DCODE=1] [-DSENTENCE=regex] [-DNOT=regex] \
#         [-DLIST=ranks -DLENGTH=3] -P expect.cmake -- COMMAND ARGS...
# CODE: exit code, 0 if not given. SENTENCE: on stdout or stderr; NOT: must not
# be there. LIST: stdout is one JSON object with a list of that name and LENGTH
# elements; with dots, as in nodes.0.ranks, the list is deeper.
set(command)
set(started OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(started)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(started ON)
  endif()
endforeach()
if(NOT DEFINED CODE)
  set(CODE 0)
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE code OUTPUT_VARIABLE out
                ERROR_VARIABLE err)
message("${out}${err}")
if(NOT code EQUAL CODE)
  message(FATAL_ERROR "ended with ${code}, not with ${CODE}")
endif()
if(DEFINED SENTENCE AND NOT "${out}${err}" MATCHES "${SENTENCE}")
  message(FATAL_ERROR "did not say: ${SENTENCE}")
endif()
if(DEFINED NOT AND "${out}${err}" MATCHES "${NOT}")
  message(FATAL_ERROR "should not have said: ${NOT}")
endif()
if(DEFINED LIST)
  string(REPLACE "." ";" path "${LIST}")
  string(JSON length ERROR_VARIABLE problem LENGTH "${out}" ${path})
  if(NOT length EQUAL LENGTH)
    message(FATAL_ERROR "\"${LIST}\" has ${length} elements, not ${LENGTH}: "
                        "${problem}")
  endif()
endif()
