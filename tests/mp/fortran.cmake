# SPDX-License-Identifier: MIT
# The Fortran modules. Their errors are looked at, not read from the log.
add_executable(t_fortran t_fortran.f90 t_fortran_c.c)
add_executable(t_fortran_work t_fortran_work.f90 t_fortran_work_c.c)
foreach(name t_fortran t_fortran_work)
  target_link_libraries(${name} PRIVATE wharf_fortran wharf_flags)
  foreach(np 1 3)
    wharf_mp_test(NAME ${name} NP ${np} LABELS mp fake gpu ENV WHARF_LOG=none)
  endforeach()
endforeach()
