# SPDX-License-Identifier: MIT
# The ranks: the only MPI calls of the library.
list(APPEND WHARF_SOURCES
     comm/agree.c comm/alive.c comm/channel.c comm/comm.c comm/control.c
     comm/dup.c comm/exchange.c comm/fortran.c comm/hello.c comm/mpi.c comm/registry.c
     comm/remote.c comm/remote_group.c comm/remote_shape.c comm/remote_thread.c
     comm/split.c)

# May MPI be given device pointers? Not every library can be asked.
if(WHARF_MPI_QUERY_CUDA)
  list(APPEND WHARF_SOURCES comm/aware_ask.c)
else()
  list(APPEND WHARF_SOURCES comm/aware_no.c)
endif()
