# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures host memory used by GPUs in place, and
# rings; sourced by it. Uses its variables, and what is in common.sh.

# A run that hangs must not hold up the others.
zero_limit=120

# Part, shape, program, turn; output goes to LOG.
zero_run() { # PART SHAPE PROGRAM TURN LOG RANKS COMMAND...
    local part=$1 shape=$2 program=$3 turn=$4 log=$5 ranks=$6 code=0
    shift 6
    bench_run "$part" "$shape" "$program" "$turn" "$zero_limit" "$log" \
        "${launcher[@]}" -n "$ranks" "$@" || code=$?
    [ $code -ne 1 ] || zero_failed=1
}

# Rates of kernels beside those of the copy engines: median of the runs'
# medians, GB/s.
zero_table() { # LOGS...
    awk "$awk_median"'
    function middle(key) { return median_of(medians[key]) }
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
        zero_run zero-copy sweep "$tile:$blocks" 1 "$log" 1 "$1" --frames 100 \
            --ways copy,mapped --table without --blocks "$blocks" \
            --tile "$tile" >&2
        awk -v blocks="$blocks" -v tile="$tile" '
            $1 == "copy" { copy = $4 } $1 == "mapped" { mapped = $4 }
            END { printf " %5d blocks of %5d: %8s %8s\n", blocks, tile, \
                copy, mapped }' "$log"
    done
    zero_run zero-copy sweep resident 1 "$log" 1 "$1" --frames 100 \
        --ways copy,mapped --table without --direct >&2
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
    build_wharf 07_frame_filter
    zero_run zero-copy 1-rank frames 1 "$out/frames-1.txt" 1 "$filter" \
        --generate "$size" --out "$out/frames"
    zero_run zero-copy 2-ranks frames 1 "$out/frames-2.txt" 2 "$filter" \
        --generate "$size"
    if [ "$gpus" -gt 0 ] && [ "$quick" = no ]; then
        zero_run zero-copy 8k frames 1 "$out/frames-8k.txt" 2 "$filter" \
            --generate 8k --keep 2 --frames 40
        zero_sweep "$filter" >"$out/frames-sweep.txt"
    elif [ "$quick" = yes ]; then
        status_row zero-copy 8k frames - 'left out' 0 'by --quick'
        status_row zero-copy sweep frames - 'left out' 0 'by --quick'
    fi
    for log in "$out"/frames-*.txt; do
        echo
        echo "# ${log##*/}"
        cat "$log"
    done >>"$out/zero-copy.txt"
}

zero_copy_main() {
    local turn log logs=() few=$((rounds < 7 ? rounds : 7))
    zero_failed=0
    rm -rf "$out"/zero-copy* "$out"/frames*
    status_forget zero-copy
    machine_describe 2
    cp "$out/machine.txt" "$out/zero-copy.txt"
    for turn in $(seq "$repeat"); do
        log=$out/zero-copy-$turn.txt
        zero_run zero-copy 1-rank wharf "$turn" "$log" 1 \
            "$build/bin/wharf-bench" zero-copy --sizes 2m,64m,256m \
            --rounds "$few"
        [ ! -s "$log" ] || logs+=("$log")
    done
    [ ${#logs[@]} -eq 0 ] || zero_table "${logs[@]}" >>"$out/zero-copy.txt" ||
        zero_failed=1
    zero_frames
    verdict "$zero_failed" "$out/zero-copy.txt"
    zero_copy_failed=$zero_failed
}

# One consumer and seven, on two GPUs where there are two.
ring_main() {
    local turn consumers log
    zero_failed=0
    rm -f "$out"/ring*
    status_forget ring
    machine_describe 2
    for consumers in 1 7; do
        for turn in $(seq "$repeat"); do
            zero_run ring "$((consumers + 1))-on-$gpus" wharf "$turn" \
                "$out/ring-$consumers-$turn.txt" $((consumers + 1)) \
                "$build/bin/wharf-bench" ring --rounds "$rounds"
        done
    done
    cp "$out/machine.txt" "$out/ring.txt"
    for log in "$out"/ring-*-*.txt; do
        echo
        cat "$log"
    done >>"$out/ring.txt"
    verdict $zero_failed "$out/ring.txt"
    ring_failed=$zero_failed
}
