# SPDX-License-Identifier: MIT
# The ranks: the only MPI calls of the library.
list(APPEND WHARF_SOURCES
     comm/agree.c comm/alive.c comm/channel.c comm/comm.c comm/control.c
     comm/dup.c comm/exchange.c comm/hello.c comm/mpi.c comm/registry.c
     comm/split.c)
