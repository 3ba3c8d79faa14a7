# SPDX-License-Identifier: MIT
# The Fortran module. Its errors are looked at, not read from the log.
add_executable(t_fortran t_fortran.f90 t_fortran_c.c)
target_link_libraries(t_fortran PRIVATE wharf_fortran wharf_flags)
foreach(np 1 3)
  wharf_mp_test(NAME t_fortran NP ${np} LABELS mp fake gpu ENV WHARF_LOG=none)
endforeach()
