# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures workers; sourced by it. A new process with
# a CUDA context, without Wharf, is the floor of the time from a fault to the
# next worker. Uses its variables, and what is in common.sh.

worker_limit=60

worker_one() { # PROGRAM SHAPE TURN COMMAND...
    local program=$1 shape=$2 turn=$3 code=0
    shift 3
    bench_run worker "$shape" "$program" "$turn" "$worker_limit" \
        "$out/worker-$shape-$program-$turn.txt" "$@" || code=$?
    [ $code -ne 1 ] || worker_failed=1
}

worker_main() {
    local turn log on=host
    worker_failed=0
    [ "$gpus" -eq 0 ] || on=1
    rm -f "$out"/worker*
    status_forget worker
    machine_describe 1
    [ "$cuda_here" = no ] || build_peer context_alone ||
        fail "building context_alone failed, see $out/build-context_alone.log"
    for turn in $(seq "$repeat"); do
        if [ "$cuda_here" = yes ]; then
            worker_one context 1-on-1 "$turn" "$build/context_alone" \
                --rounds "$rounds"
        fi
        worker_one wharf "1-on-$on" "$turn" "${launcher[@]}" -n 1 \
            "$build/bin/wharf-bench" worker --rounds "$rounds"
    done
    cp "$out/machine.txt" "$out/worker.txt"
    for log in "$out"/worker-*-*.txt; do
        echo
        cat "$log"
    done >>"$out/worker.txt"
    verdict $worker_failed "$out/worker.txt"
}
