#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures Wharf beside programs that do the same work without it, in one run,
# interleaved, and writes text and JSON.
# shellcheck disable=SC2034 # the parts use what is set here
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: scripts/bench.sh all|attach|sync|latency|copy|zero-copy|ring|jacobi|
                        worker|hosts [options]

  all             everything below but hosts, in one go, bounded in time: a
                  table of what ran, failed or is not there, and why; medians
                  and spread of every figure; plots where gnuplot is found.
  attach          attach and detach: Wharf, CUDA IPC by hand, VMM by hand,
                  PyTorch's symmetric memory; and copies through Wharf's mapping
                  beside the plain copy engine. Without GPUs: Wharf's host
                  backend alone.
  sync            hand-over: barrier, notify, event, flags in kernels. Wharf,
                  NVSHMEM and PyTorch where installed; ranks on two GPUs, two
                  on one, sixteen on two, without MPS and under an MPS server
                  of the script's own. --ranks and --sizes do not matter.
  latency         every pair of ranks, two on each GPU. --ranks and --sizes do
                  not matter.
  copy            put, get, put with notify between two ranks, by the way that
                  Wharf chooses, by engines and by kernels; the bare engine;
                  NCCL, NVSHMEM and PyTorch where installed. --repeat is 2
                  unless given; --ranks and --sizes do not matter.
  zero-copy       host memory that GPUs use in place beside copies; and
                  07_frame_filter at 1080p and 8k by its four ways. --ranks
                  and --sizes do not matter.
  ring            hand-over of slots, one consumer and seven. --ranks and
                  --sizes do not matter.
  jacobi          05_halo_2d, 16384 x 16384 and 4096 x 4096, on one GPU, two,
                  four, ..., in both modes; the same solver over NCCL, NVSHMEM
                  and staged MPI. --ranks and --sizes do not matter.
  worker          messages to a worker, and from a fault in one to the next
                  at work, beside a new process with a CUDA context alone.
                  --ranks and --sizes do not matter.
  hosts           an exchange between two hosts (two_hosts.sh) beside plain
                  persistent MPI. --ranks and --sizes do not matter.

  --out DIR       where results go; default results/<date>-<machine>
  --ranks N       default 2
  --repeat N      runs of every program, taken in turn; default 3
  --rounds N      measured rounds of one run; default 15
  --sizes LIST    default 2m,64m,256m,1g,4g
  --build DIR     build directory; default build-bench
  --variants NAME jacobi: of the kernel; all: every one, Wharf alone
  --quick         all: in at most 8 minutes: two runs of five rounds, fewer
                  shapes
  --only LIST     all: these parts, comma separated

On one GPU its ranks share it; what needs two is left out and said.
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/bench/common.sh
. "$root/scripts/bench/common.sh"

out=$root/results/$(date +%Y-%m-%d)-$machine
build=$root/build-bench
ranks=2 repeat=3 rounds=15 sizes=2m,64m,256m,1g,4g
variants=default quick=no only=

command=${1:-}
case $command in
all | attach | sync | latency | zero-copy | ring | jacobi | worker | hosts) shift ;;
copy) repeat=2 && shift ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac
[[ " $* " != *' --quick '* ]] || {
    repeat=2 rounds=5 sizes=2m,256m,1g,4g
}
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage && exit 0 ;;
    --quick)
        quick=yes
        shift
        ;;
    --out | --ranks | --repeat | --rounds | --sizes | --build | --variants | --only)
        [ $# -ge 2 ] || fail "$1 needs a value" 2
        declare "${1#--}=$2"
        shift 2
        ;;
    *) usage >&2 && exit 2 ;;
    esac
done
positive "$ranks" "$repeat" "$rounds"

for part in attach sync copy jacobi zero_copy worker hosts all; do
    # shellcheck disable=SC1090
    . "$root/scripts/bench/$part.sh"
done

mkdir -p "$out" "$build"
out=$(cd "$out" && pwd)
build=$(cd "$build" && pwd)
echo "bench.sh: building in $build"
build_wharf wharf-bench wharf-info
name=${command/-/_}
"${name}_main"
failed=${name}_failed
exit "${!failed}"
