# SPDX-License-Identifier: MIT
# The C++ header. Its errors are thrown and checked, not read from the log.
foreach(name t_cpp t_cpp_work)
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE wharf wharf_flags)
  foreach(np 1 3)
    wharf_mp_test(NAME ${name} NP ${np} LABELS mp fake gpu ENV WHARF_LOG=none)
  endforeach()
endforeach()
