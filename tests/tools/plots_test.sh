#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# plots_test.sh SCRATCH-DIR: scripts/plots.sh on a small set of results. Each
# plot must be there and tell units, machine, command, and figures of the set;
# where there is nothing to plot it must say so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
plots=$here/../../scripts/plots.sh
scratch=$1
if ! command -v gnuplot >/dev/null; then
    echo 'skipped: no gnuplot'
    exit 77
fi
rm -rf "$scratch"
mkdir -p "$scratch/empty" "$scratch/part"

failed=0
wants() { # PLOT TEXT...
    local plot=$scratch/$1.svg text
    shift
    tail -n 5 "$plot" | grep -q '</svg>' || {
        echo "$plot: not whole"
        failed=1
    }
    for text in "$@" '2 x NVIDIA Example, driver 580.1, Open MPI v4.1.6'; do
        grep -qF -- "$text" "$plot" || {
            echo "$plot: nothing says '$text'"
            failed=1
        }
    done
}
ends() { # CODE COMMAND...
    local want=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" -eq "$want" ] || {
        echo "$* ended with $code, not with $want"
        failed=1
    }
}

ends 0 bash "$plots" "$here/results" "$scratch"
wants attach '(ms)' 'scripts/bench.sh attach' 'CUDA IPC by hand' PyTorch \
    'Wharf, from the pool' '2 MiB' '1 GiB'
wants latency '(us)' 'scripts/bench.sh sync' '>4.74<' '>294<' '>9.41<' \
    '>7.81<' NVSHMEM '1 GPU' mem-ops 'Wharf, in a graph'
wants bandwidth 'GB/s' 'scripts/bench.sh copy' '256 MiB' 'copy engine alone' \
    'two GPUs'
wants jacobi '(us)' '(%)' 'scripts/bench.sh jacobi' '>254<' '>100<' '>95.2<' \
    NCCL '16384 x 16384'

# A part of the results, none, no directory, no argument.
cp "$here/results/attach.txt" "$here/results/machine.txt" "$scratch/part"
ends 0 bash "$plots" "$scratch/part"
[ -s "$scratch/part/attach.svg" ] && [ ! -e "$scratch/part/latency.svg" ] || {
    echo 'of attach.txt alone there must be attach.svg alone'
    failed=1
}
ends 1 bash "$plots" "$scratch/empty"
ends 2 bash "$plots" "$scratch/nowhere"
ends 2 bash "$plots"
exit $failed
