# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures attach and detach; sourced by it. Uses its
# variables: root out build ranks repeat rounds sizes gpus machine library.

attach_limit=300

attach_peers() {
    attach_programs=(wharf)
    if [ "$cuda_here" = no ]; then
        echo "bench.sh: no GPU or no nvcc: Wharf alone"
        return
    fi
    build_over_wharf copy_rate
    build_peer ipc_by_hand -lcuda ||
        fail "building ipc_by_hand failed, see $out/build-ipc_by_hand.log"
    attach_programs+=(ipc-by-hand vmm-by-hand)
    if [ "$gpus" -ge "$ranks" ] && [ -n "$(python_package torch)" ]; then
        attach_programs+=(torch)
    elif [ "$gpus" -ge "$ranks" ]; then
        status_row attach "$attach_shape" torch - absent 0 \
            'no PyTorch on this machine'
    else
        status_row attach "$attach_shape" torch - 'left out' 0 \
            'symmetric memory wants a GPU for each rank'
    fi
    # Copies through the mapping: bytes, not attaches.
    attach_programs+=(copy-rate)
}

attach_run() { # NAME TURN
    local name=$1 turn=$2 log=$out/attach-$1-$2.txt code=0 run
    local mpi=("${launcher[@]}" -n "$ranks")
    case $name in
    wharf) run=("${mpi[@]}" "$build/bin/wharf-bench" attach) ;;
    ipc-by-hand) run=("${mpi[@]}" "$build/ipc_by_hand") ;;
    vmm-by-hand) run=("${mpi[@]}" "$build/ipc_by_hand" --vmm) ;;
    copy-rate) run=("${mpi[@]}" "$build/copy_rate") ;;
    torch)
        find_torch "$ranks"
        run=("${torch[@]}" "$root/scripts/bench/peer_torch_attach.py")
        ;;
    esac
    bench_run attach "$attach_shape" "$name" "$turn" "$attach_limit" "$log" \
        "${run[@]}" --sizes "$sizes" --rounds "$rounds" || code=$?
    [ $code -ne 1 ] || [ "$name" = torch ] || attach_failed=1
}

attach_table() {
    awk -v first=ipc-by-hand "$awk_median"'
    # Median of the medians of all runs.
    function middle(key) { return median_of(medians[key]) }
    FNR == 1 {
        name = FILENAME
        sub(/.*\/attach-/, "", name)
        sub(/-[0-9]+\.txt$/, "", name)
        if (!(name in seen)) { seen[name] = 1; names[++programs] = name }
    }
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 == "#" || NF < 6 || op == "" { next }
    {
        if (!(op in seen_op)) { seen_op[op] = 1; ops[++count] = op }
        if (!($1 in seen_size)) { seen_size[$1] = 1; sizes[++size_count] = $1 }
        medians[name, op, $1] = medians[name, op, $1] " " $3
        bad += $6
    }
    END {
        for (o = 1; o <= count; o++) {
            op = ops[o]
            printf "\n# %s, median of %d runs (us)%s\n", op, runs,
                op ~ /^copy/ ? "; GB/s in brackets" : ""
            printf "#%12s", "bytes"
            for (p = 1; p <= programs; p++)
                if ((names[p], op, sizes[1]) in medians)
                    printf " %22s", names[p]
            reference = (first, op, sizes[1]) in medians
            print (reference ? "  wharf : by hand" : "")
            for (s = 1; s <= size_count; s++) {
                printf " %12d", sizes[s]
                for (p = 1; p <= programs; p++) {
                    key = names[p] SUBSEP op SUBSEP sizes[s]
                    if (!(key in medians)) continue
                    m = middle(key)
                    if (op ~ /^copy/)
                        printf " %12.1f (%7.1f)", m, sizes[s] / m / 1e3
                    else
                        printf " %22.1f", m
                }
                a = middle("wharf" SUBSEP op SUBSEP sizes[s])
                b = middle(first SUBSEP op SUBSEP sizes[s])
                ratio = reference && a > 0 && b > 0
                print (ratio ? sprintf("  %.2f", a / b) : "")
            }
        }
        for (s = 1; s <= size_count; s++) {
            a = middle("copy-rate" SUBSEP "copy-engine" SUBSEP sizes[s])
            b = middle("copy-rate" SUBSEP "copy-through-mapping" SUBSEP sizes[s])
            if (a <= 0 || b <= 0) continue
            if (!once++)
                print "\n# copy through the mapping, of the copy engine"
            printf " %12d  %.2f %%\n", sizes[s], a / b * 100
        }
        printf "\n# wrong bytes: %d\n", bad
    }' runs="$repeat" "$@"
}

attach_json() {
    awk -v machine="$machine" -v ranks="$ranks" -v gpus="$gpus" '
    BEGIN {
        printf "{\"command\": \"attach\", \"machine\": \"%s\", ", machine
        printf "\"ranks\": %d, \"gpus\": %d,\n \"results\": [", ranks, gpus
    }
    FNR == 1 {
        name = run = FILENAME
        sub(/.*\/attach-/, "", name)
        sub(/-[0-9]+\.txt$/, "", name)
        sub(/.*-/, "", run)
        sub(/\.txt$/, "", run)
    }
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 == "#" || NF < 6 || op == "" { next }
    {
        printf "%s\n  {\"program\": \"%s\", \"run\": %d, ", comma, name, run
        printf "\"op\": \"%s\", \"bytes\": %d, ", op, $1
        printf "\"min_us\": %s, \"med_us\": %s, \"p99_us\": %s, ", $2, $3, $4
        printf "\"bad_bytes\": %d}", $6
        comma = ","
    }
    END { print "]}" }' "$@"
}

attach_main() {
    local turn name logs=()
    attach_failed=0
    attach_shape=$ranks-on-$gpus
    [ "$gpus" -gt 0 ] || attach_shape=$ranks-on-host
    rm -f "$out"/attach-* "$out/attach.txt"
    status_forget attach
    attach_peers
    [ "$gpus" -ne 1 ] || echo "bench.sh: one GPU: all ranks share it"
    machine_describe "$ranks"
    cp "$out/machine.txt" "$out/attach.txt"
    for turn in $(seq "$repeat"); do
        for name in "${attach_programs[@]}"; do
            attach_run "$name" "$turn"
        done
    done
    for name in "${attach_programs[@]}"; do
        for turn in $(seq "$repeat"); do
            [ ! -s "$out/attach-$name-$turn.txt" ] ||
                logs+=("$out/attach-$name-$turn.txt")
        done
    done
    [ ${#logs[@]} -gt 0 ] || fail "attach: nothing could be run"
    attach_table "${logs[@]}" >>"$out/attach.txt" || attach_failed=1
    attach_json "${logs[@]}" >"$out/attach.json" || attach_failed=1
    verdict $attach_failed "$out/attach.txt"
}
