# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# Read by scripts that start MPI programs: whose launcher it is, and what it
# wants to be told.

is_open_mpi() { # LAUNCHER
    "$1" --version 2>&1 | grep -qE 'Open MPI|OpenRTE|PRRTE'
}

# Sets the array `launcher`: MPIEXEC from the environment, or mpirun. Open MPI
# wants to be told that more ranks than cores, and root, are meant.
find_launcher() {
    launcher=("${MPIEXEC:-mpirun}")
    if is_open_mpi "${launcher[0]}"; then
        launcher+=(--oversubscribe)
        [ "$(id -u)" -ne 0 ] || launcher+=(--allow-run-as-root)
    fi
}
