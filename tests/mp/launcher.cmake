# SPDX-License-Identifier: MIT
wharf_mp_test(NAME t_launcher NP 3 TIMEOUT 20)
if(TEST mp.launcher.np3)
  set_tests_properties(
    mp.launcher.np3
    PROPERTIES PASS_REGULAR_EXPRESSION
               "rank 1: .wrong.: expected .right., got .wrong.")
endif()
