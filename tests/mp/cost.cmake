# SPDX-License-Identifier: MIT
# What calls cost by ranks and GPUs: counts, exactly. scripts/bench/scale.sh
# makes the table of many jobs by the same program.
wharf_test_program(NAME t_cost TESTING)
target_link_options(t_cost PRIVATE -Wl,--wrap=sendmsg -Wl,--wrap=recvmsg)
wharf_mp_test(NAME t_cost NP 32 DEVICES 8 LABELS fake TESTING TIMEOUT 120
              ARGS counts devices=8)

# The fit itself, on costs that are known.
find_program(WHARF_AWK awk)
mark_as_advanced(WHARF_AWK)
if(WHARF_AWK)
  set(table ${CMAKE_CURRENT_BINARY_DIR}/cost_table.txt)
  set(lines "# call  ranks gpus us driver all\n")
  foreach(ranks 4 8 16 32)
    foreach(gpus 2 4 8)
      math(EXPR us "7 + 3 * ${ranks} + 20 * ${gpus} + 2 * ${ranks} * ${gpus}")
      math(EXPR all "${ranks} * ${ranks}")
      string(APPEND lines "attach ${ranks} ${gpus} ${us} 5 ${all}\n")
    endforeach()
  endforeach()
  file(WRITE ${table} "${lines}")
  set(fit ${WHARF_AWK} -f ${PROJECT_SOURCE_DIR}/scripts/bench/scale_fit.awk)
  add_test(NAME tools.scale_fit.exact COMMAND ${fit} -v columns=us ${table})
  set_tests_properties(
    tools.scale_fit.exact PROPERTIES
    LABELS tools PASS_REGULAR_EXPRESSION
    "attach +us +7.000 +3.0000 +20.0000 +2.00000 +0.00 +0.0% +-")
  # What grows with the square of the ranks does not fit, and is seen.
  add_test(NAME tools.scale_fit.square COMMAND ${fit} -v columns=all:driver
                                               ${table})
  set_tests_properties(
    tools.scale_fit.square PROPERTIES
    LABELS tools PASS_REGULAR_EXPRESSION
    "attach +all:driver +[-0-9.]+ +[0-9.]+ +-?0.0000 +-?0.00000 +[1-9][0-9.]+")
  add_test(NAME tools.scale_fit.empty COMMAND ${fit} /dev/null)
  set_tests_properties(tools.scale_fit.empty PROPERTIES LABELS tools WILL_FAIL ON)
endif()

# Slots of events that the pool holds.
wharf_mp_test(NAME t_event_limit NP 3 LABELS mp fake TESTING)
