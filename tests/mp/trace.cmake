# SPDX-License-Identifier: MIT
# Ranges for profilers. A library of the tests stands in for the profiler's.
if(WHARF_WITH_NVTX)
  wharf_group_test(NAME t_trace NP 2 LABELS mp fake gpu
                   ENV WHARF_TRACE=nvtx WHARF_LOG=none
                       NVTX_INJECTION64_PATH=$<TARGET_FILE:t_nvtx>)
  wharf_group_test(NAME t_trace NP 2 LABELS mp SUFFIX not_asked ARGS off
                   ENV NVTX_INJECTION64_PATH=$<TARGET_FILE:t_nvtx>)
  wharf_group_test(NAME t_trace NP 2 LABELS mp SUFFIX no_profiler
                   ARGS no_profiler ENV WHARF_TRACE=nvtx)
else()
  wharf_group_test(NAME t_trace NP 2 LABELS mp SUFFIX not_built
                   ARGS no_profiler ENV WHARF_TRACE=nvtx)
  if(TEST mp.trace.np2.not_built)
    set_tests_properties(
      mp.trace.np2.not_built
      PROPERTIES PASS_REGULAR_EXPRESSION
                 "warn: WHARF_TRACE is .nvtx., but this build has no NVTX")
  endif()
endif()

# The counters at the end, of every rank; whatever the level of the log.
wharf_group_test(NAME t_stats NP 2 LABELS mp SUFFIX printed
                 ENV WHARF_STATS=1 WHARF_LOG=none)
if(TEST mp.stats.np2.printed)
  set_tests_properties(
    mp.stats.np2.printed
    PROPERTIES PASS_REGULAR_EXPRESSION
               "wharf.1.: stats: 0 live_nodes: open nodes\n(.|\n)*ok ")
endif()
