# SPDX-License-Identifier: MIT
# Beside the CUDA runtime: a process for each case.
foreach(case last_error_clean last_error_kept copies device_switched reset)
  wharf_mp_test(NAME t_runtime NP 2 LABELS gpu SUFFIX ${case} ARGS ${case})
endforeach()
