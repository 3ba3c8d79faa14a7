#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# 06_beyond_node.sh [PROGRAM [OPTION...]]: the same program inside one node and
# beyond it. Runs 05_halo_2d with four ranks on this host, then with two ranks
# on each of two hosts (scripts/two_hosts.sh makes them, with nothing but a
# network between them), and compares the fields bit by bit.
#
# PROGRAM is the built 05_halo_2d, by default that of build/; OPTIONs are its
# own, by default --size 2048 --iterations 200.
#
# Between the nodes the exchange goes by MPI, inside them straight into the
# neighbour's memory; the program says neither. Exit code 77 with the reason
# where two hosts cannot be made. MPIEXEC: the launcher, if it is not mpirun.
set -u -o pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/launcher.sh
. "$root/scripts/launcher.sh"
case ${1:-} in
-h | --help) sed -n '4,14s/^# \{0,1\}//p' "$0" && exit 0 ;;
esac
program=${1:-$root/build/mpi_examples/05_halo_2d}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- --size 2048 --iterations 200

if [ ! -x "$program" ]; then
    echo "06_beyond_node.sh: no program $program; build it first:" >&2
    echo "  cmake --preset default && cmake --build --preset default" >&2
    exit 2
fi

# The last column of the table's last line is the CRC-32 of the field.
field() {
    awk '{ print | "cat 1>&2" }
        $1 ~ /^[0-9]+$/ { crc = $9 }
        END { close("cat 1>&2"); print crc }'
}

find_launcher

echo "== four ranks on one host"
one=$("${launcher[@]}" -n 4 "$program" "$@" | field) || exit 1
echo "== two ranks on each of two hosts"
two=$(bash "$root/scripts/two_hosts.sh" -n 2 "$program" "$@" | field)
code=$?
[ $code -eq 0 ] || exit $code

if [ -n "$one" ] && [ "$one" = "$two" ]; then
    echo "== the same bits: $one"
else
    echo "== DIFFERENT: '$one' on one host, '$two' on two"
    exit 1
fi
