#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What calls cost by ranks and GPUs, over the fake driver: one job for every
# shape, the table of all counts, and the fit of
# cost = a + b*ranks + c*gpus + d*ranks*gpus.
#
#   scripts/bench/scale.sh [BUILD]        default: build
#
# RANKS and GPUS (lists) choose the shapes, ROUNDS how often each is timed.
# Counts are exact on any machine. Times are those of the fake driver, and of
# RANKS processes on the cores that are there: for the shape of the curve only.
# 24 jobs of up to 128 ranks take some three minutes on two cores.
set -eu

build=${1:-build}
ranks=${RANKS:-"4 8 16 32 64 128"}
gpus=${GPUS:-"2 4 8 16"}
here=$(cd "$(dirname "$0")" && pwd)
program=$build/tests/mp/t_cost
driver=$build/tests/support/fake_cuda/libfake_cuda.so
for file in "$program" "$driver"; do
    if [ ! -f "$file" ]; then
        echo "scale.sh: $file is missing: build the tests first" >&2
        exit 1
    fi
done
driver=$(cd "$(dirname "$driver")" && pwd)/libfake_cuda.so
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# shellcheck source=scripts/launcher.sh
. "$here/../launcher.sh"
find_launcher

echo "# $(nproc) cores, $(uname -sr), $("${launcher[0]}" --version 2>&1 | head -n 1)"
for g in $gpus; do
    for n in $ranks; do
        [ "$n" -ge "$g" ] || continue
        WHARF_BACKEND=cuda WHARF_CUDA_DRIVER=$driver WHARF_FAKE_DEVICES=$g \
            WHARF_FAKE_STATE=$scratch/state.$n.$g WHARF_LOG=error \
            timeout 300 "${launcher[@]}" -n "$n" "$program" table \
            "devices=$g" "rounds=${ROUNDS:-3}" limit=250 > "$scratch/out" ||
            grep -q "^ok table" "$scratch/out" ||
            { cat "$scratch/out"; exit 1; }
        sed -n '/^# call/,/^close/p' "$scratch/out" | tee -a "$scratch/table" |
            { [ -f "$scratch/headed" ] && grep -v "^#" || cat; }
        : > "$scratch/headed"
    done
done
echo
awk -f "$here/scale_fit.awk" "$scratch/table"
