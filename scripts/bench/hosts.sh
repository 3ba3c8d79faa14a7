# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures an exchange between two hosts beside plain
# persistent requests of MPI on the same data; sourced by it. Uses its variables,
# and what is in common.sh.

hosts_main() {
    local ranks turn log
    hosts_failed=0
    rm -f "$out"/hosts*
    status_forget hosts
    mpicc -std=gnu11 -O2 -I"$root/include" "$root/scripts/bench/hosts_rate.c" \
        -o "$build/hosts_rate" -L"$library" -lwharf -Wl,-rpath,"$library" \
        >>"$out/build.log" 2>&1 ||
        fail "building hosts_rate failed, see $out/build.log"
    for ranks in 1 2; do
        for turn in $(seq "$repeat"); do
            log=$out/hosts-$ranks-$turn.txt
            bench_run hosts "$((2 * ranks))-on-2" wharf "$turn" 300 "$log" \
                env WHARF_BACKEND=host bash "$root/scripts/two_hosts.sh" \
                -n "$ranks" "$build/hosts_rate" $((rounds * 10)) ||
                hosts_failed=1
            ! grep -q '^skipped: ' "$log" || fail "$(tail -n 1 "$log")" 77
        done
        # Of each size the run with the middle ratio.
        {
            echo "# $ranks rank(s) on each of two hosts, median of $repeat runs"
            grep '^#' "$out/hosts-$ranks-1.txt" | head -n 3
            cat "$out/hosts-$ranks"-*.txt | grep '^ ' | sort -k1,1n -k4,4n |
                awk -v runs="$repeat" '{
                    if ($1 != size) { size = $1; n = 0 }
                    if (++n == int((runs + 1) / 2)) print }'
        } >>"$out/hosts.txt"
    done
    verdict $hosts_failed "$out/hosts.txt"
}
