# SPDX-License-Identifier: MIT
# Published buffers, and programs outside the job that join them.
wharf_test_program(NAME t_join SOURCES t_join.c t_join_child.c t_join_run.c)
# On GPUs each of the programs needs its second to start.
wharf_group_test(NAME t_join NP 3 LABELS mp fake gpu TIMEOUT 180
                 ENV WHARF_LOG=none)
wharf_group_test(NAME t_join NP 2 LABELS fake gpu SUFFIX legacy ARGS legacy
                 ENV WHARF_HANDLE=ipc WHARF_LOG=none)

wharf_group_test(NAME t_join NP 2 LABELS mp fake gpu SUFFIX exit
                 ARGS exit_published ENV WHARF_LOG=none)

# As the deaths of api.cmake: a line tells, not an exit status.
if(WHARF_MPIEXEC_RECOVERY)
  add_test(NAME mp.join.np2.owner_killed
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2
                   ${WHARF_MPIEXEC_FLAGS} ${MPIEXEC_PREFLAGS}
                   ${WHARF_MPIEXEC_RECOVERY}
                   $<TARGET_FILE:t_join> ${MPIEXEC_POSTFLAGS} owner_killed)
  _wharf_test_properties(mp.join.np2.owner_killed LABELS mp death
                         ENV WHARF_BACKEND=host WHARF_LOG=none)
  set_tests_properties(
    mp.join.np2.owner_killed
    PROPERTIES PASS_REGULAR_EXPRESSION "joiner has seen its owner's death"
               PROCESSORS 2 RESOURCE_LOCK "${WHARF_TEST_LOCK}")
endif()

# Sees the internals: each call that can fail, made to fail.
wharf_mp_test(NAME t_join_faults NP 1 LABELS mp fake fault TESTING
              ENV WHARF_LOG=none)
# Joiners that do not do as they should; they speak by hand.
wharf_mp_test(NAME t_join_rude NP 1 LABELS mp fake TESTING ENV WHARF_LOG=none)
