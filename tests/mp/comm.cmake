# SPDX-License-Identifier: MIT
# The ranks' communicator, from inside.
wharf_mp_test(NAME t_comm_open NP 4 TESTING)
# Open MPI's own shared memory takes ranks of equal pids for one process.
wharf_mp_test(NAME t_comm_open NP 3 TESTING SUFFIX namespaces ARGS namespaces
              ENV OMPI_MCA_btl=self,tcp)
# Open MPI 5 does not start there where its tcp finds no way between the ranks.
if(TEST mp.comm_open.np3.namespaces AND NOT WHARF_FAIL_ON_SKIP)
  set_tests_properties(mp.comm_open.np3.namespaces PROPERTIES
                       SKIP_REGULAR_EXPRESSION "ompi_mpi_instance_init failed")
endif()
wharf_mp_test(NAME t_comm_absent NP 3 TESTING)
wharf_mp_test(NAME t_comm_finalize NP 3 TESTING)
wharf_mp_test(NAME t_comm_network NP 3 TESTING)
wharf_mp_test(NAME t_comm_strangers NP 3 TESTING)
wharf_mp_test(NAME t_comm_thread NP 2 TESTING)

# The launcher must let the job live on; its exit status then says nothing, so
# the survivors' lines decide.
foreach(victim 0 1 2)
  if(WHARF_MPIEXEC_RECOVERY)
    wharf_mp_test(NAME t_comm_kill NP 3 TESTING RECOVERY SUFFIX rank${victim}
                  ARGS ${victim})
  endif()
  if(TEST mp.comm_kill.np3.rank${victim})
    set_tests_properties(
      mp.comm_kill.np3.rank${victim}
      PROPERTIES PASS_REGULAR_EXPRESSION
                 "survivor passed(.|\n)*survivor passed")
  endif()
endforeach()
