# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures host memory used by GPUs in place, and
# rings; sourced by it. Uses its variables: root out build repeat rounds gpus
# machine.

# A run that hangs must not hold up the others.
zero_limit=120

zero_failed=0

# Ranks, then what to run; output goes to LOG and, if it fails, is shown.
zero_run() { # LOG RANKS COMMAND...
    local log=$1 ranks=$2
    shift 2
    echo "bench.sh: $ranks ranks: ${*##*/}"
    if ! timeout "$zero_limit" "${launch[@]:0:${#launch[@]}-1}" "$ranks" "$@" \
        >"$log" 2>"$log.err"; then
        echo "bench.sh: failed:" >&2
        tail -5 "$log" "$log.err" >&2
        zero_failed=1
    fi
    [ -s "$log.err" ] || rm -f "$log.err"
}

# Rates of kernels beside those of the copy engines: median of the runs'
# medians, GB/s.
zero_table() { # LOGS...
    awk '
    function middle(key,    n, i, j, v, t) {
        n = split(medians[key], v, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
                t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
            }
        return n == 0 ? -1 : (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
    }
    function rate(op, size,    m) {
        m = middle(op SUBSEP size)
        return m > 0 ? size / m / 1e3 : 0
    }
    function share(a, b) { return b > 0 ? a / b * 100 : 0 }
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 ~ /^#/ || NF < 6 || op == "" { next }
    {
        if (!($1 in known)) { known[$1] = 1; sizes[++count] = $1 }
        medians[op, $1] = medians[op, $1] " " $3
        bad += $6
    }
    END {
        print "\n# attach of host space, us: median of the runs"
        printf "#%12s %12s %12s %12s\n", "bytes", "attach", "first-touch",
            "detach"
        for (s = 1; s <= count; s++)
            printf " %12d %12.1f %12.1f %12.1f\n", sizes[s],
                middle("attach" SUBSEP sizes[s]),
                middle("first-touch" SUBSEP sizes[s]),
                middle("detach" SUBSEP sizes[s])
        if (rate("copy-to-device", sizes[1]) > 0) {
            print "\n# host memory by kernels, of the copy engine; GB/s"
            printf "#%12s %8s %8s %7s   %8s %8s %7s   %s\n", "bytes", "to",
                "read", "%", "from", "write", "%", "both ways, each"
        }
        for (s = 1; s <= count; s++) {
            size = sizes[s]
            to = rate("copy-to-device", size); from = rate("copy-to-host", size)
            r = rate("kernel-read", size); w = rate("kernel-write", size)
            if (to > 0)
                printf " %12d %8.2f %8.2f %7.1f   %8.2f %8.2f %7.1f   %8.2f\n",
                    size, to, r, share(r, to), from, w, share(w, from),
                    rate("kernel-both", size)
        }
        printf "# wrong bytes: %d\n", bad
    }' "$@"
}

# How much of the bus the filter's kernel gets with so many blocks, and with
# tiles of so many bytes.
zero_sweep() { # FILTER
    local blocks tile shape log=$out/frames-sweep-one.txt
    echo "# mapped 1080p frames by blocks and bytes of a tile: copy, mapped (us)"
    for shape in 640:264 640:528 2048:66 2048:132 2048:264 2048:528 6144:66; do
        tile=${shape%:*} blocks=${shape#*:}
        zero_run "$log" 1 "$1" --frames 100 --ways copy,mapped \
            --table without --blocks "$blocks" --tile "$tile" >&2
        awk -v blocks="$blocks" -v tile="$tile" '
            $1 == "copy" { copy = $4 } $1 == "mapped" { mapped = $4 }
            END { printf " %5d blocks of %5d: %8s %8s\n", blocks, tile, \
                copy, mapped }' "$log"
    done
    zero_run "$log" 1 "$1" --frames 100 --ways copy,mapped --table without \
        --direct >&2
    awk '$1 == "copy" { copy = $4 } $1 == "mapped" { mapped = $4 }
        END { printf " %-21s: %8s %8s\n", "resident kernel", copy, mapped }' \
        "$log"
    rm -f "$log"
}

# 1080p by one rank, for latencies with the bus to itself; by two, with a ring;
# 8k. Without GPUs: a small frame.
zero_frames() {
    local filter=$build/mpi_examples/07_frame_filter log
    local size=1080p
    [ "$gpus" -gt 0 ] || size=640x360
    cmake -S "$root" -B "$build" -DWHARF_BUILD_EXAMPLES=ON >>"$out/build.log" ||
        fail "configuring failed, see $out/build.log"
    cmake --build "$build" --target 07_frame_filter -j "$(nproc)" \
        >>"$out/build.log" 2>&1 ||
        fail "building 07_frame_filter failed, see $out/build.log"
    zero_run "$out/frames-1.txt" 1 "$filter" --generate "$size" \
        --out "$out/frames"
    zero_run "$out/frames-2.txt" 2 "$filter" --generate "$size"
    if [ "$gpus" -gt 0 ]; then
        zero_run "$out/frames-8k.txt" 2 "$filter" --generate 8k --keep 2 \
            --frames 40
        zero_sweep "$filter" >"$out/frames-sweep.txt"
    fi
    for log in "$out"/frames-*.txt; do
        echo
        echo "# ${log##*/}"
        cat "$log"
    done >>"$out/zero-copy.txt"
}

zero_finish() { # TEXT
    if [ "$zero_failed" -eq 0 ]; then
        echo "# PASS" >>"$1"
    else
        echo "# FAIL" >>"$1"
    fi
    cat "$1"
    echo "bench.sh: written to $out"
}

zero_machine() {
    "${launch[@]}" "$build/bin/wharf-info" >"$out/machine.txt" 2>&1 ||
        fail "wharf-info failed: $(cat "$out/machine.txt")"
}

zero_copy_main() {
    local turn logs=() few=$((rounds < 7 ? rounds : 7))
    rm -rf "$out"/zero-copy* "$out"/frames*
    zero_machine
    cp "$out/machine.txt" "$out/zero-copy.txt"
    for turn in $(seq "$repeat"); do
        logs+=("$out/zero-copy-$turn.txt")
        zero_run "${logs[-1]}" 1 "$build/bin/wharf-bench" zero-copy \
            --sizes 2m,64m,256m --rounds "$few"
    done
    zero_table "${logs[@]}" >>"$out/zero-copy.txt"
    zero_frames
    zero_finish "$out/zero-copy.txt"
}

# One consumer and seven, on two GPUs where there are two.
ring_main() {
    local turn consumers log
    rm -f "$out"/ring*
    zero_machine
    for consumers in 1 7; do
        for turn in $(seq "$repeat"); do
            zero_run "$out/ring-$consumers-$turn.txt" $((consumers + 1)) \
                "$build/bin/wharf-bench" ring --rounds "$rounds"
        done
    done
    cp "$out/machine.txt" "$out/ring.txt"
    for log in "$out"/ring-*-*.txt; do
        echo
        cat "$log"
    done >>"$out/ring.txt"
    zero_finish "$out/ring.txt"
}
