# SPDX-License-Identifier: MIT
# Foundations: status, error record, log, memory, settings. Knows no MPI, no
# CUDA, no hwloc.
list(APPEND WHARF_SOURCES
     base/clock.c base/config.c base/error.c base/fault.c base/futex.c
     base/handles.c base/identity.c base/json.c base/log.c base/mem.c
     base/spawn.c base/stat.c base/status.c base/sys.c base/thread.c base/trace.c base/versioned.c)
