# SPDX-License-Identifier: MIT
# The C++ header. Its errors are thrown and checked, not read from the log.
add_executable(t_cpp t_cpp.cpp)
target_link_libraries(t_cpp PRIVATE wharf wharf_flags)
foreach(np 1 3)
  wharf_mp_test(NAME t_cpp NP ${np} LABELS mp fake gpu ENV WHARF_LOG=none)
endforeach()
