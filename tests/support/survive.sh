#!/bin/sh
# SPDX-License-Identifier: MIT
# survive.sh PROGRAM...: a rank of a job that is to go on without it.
#
# MPICH's launcher, Hydra 4, ends the whole job when a process that it started
# dies by a signal, whatever -disable-auto-cleanup says; what it started is then
# this shell, which ends well. And it tells the others of a death by SIGUSR1,
# to their process groups: MPICH's ranks expect it, a shell would die of it.
trap : USR1
"$@"
exit 0
