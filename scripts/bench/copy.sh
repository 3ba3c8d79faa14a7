# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures moving data between ranks; sourced by it.
# Uses its variables, and what is in common.sh.

# A run that hangs must not hold up the others.
copy_limit=120
copy_sizes=8,64k,1m,4m,16m,256m

# Shapes that a peer can take part in go into copy_programs; a row says why it
# cannot.
copy_peers() {
    build_over_wharf copy_move
    build_over_wharf copy_rate
    build_over_wharf put_cost
    build_over_wharf exchange_latency
    copy_programs=(wharf plan engine kernel)
    if build_peer peer_nccl_copy -lnccl; then
        copy_programs+=(nccl)
    else
        status_row copy 2-on-2 nccl - absent 0 "$(absent NCCL peer_nccl_copy)"
    fi
    if build_nvshmem peer_nvshmem_copy; then
        copy_programs+=(nvshmem)
    else
        status_row copy 2-on-2 nvshmem - absent 0 \
            "$(absent NVSHMEM peer_nvshmem_copy)"
    fi
    if [ -n "$(python_package torch)" ]; then
        copy_programs+=(torch)
    else
        status_row copy 2-on-2 torch - absent 0 'no PyTorch on this machine'
    fi
}

# One program once, two ranks: shape, name, turn, visible GPUs, sizes, rounds.
copy_run() {
    local shape=$1 name=$2 turn=$3 devices=$4 sizes=$5 rounds=$6 code=0
    local log=$out/copy-$shape-$name-$turn.txt
    local mpi=("${launcher[@]}" -n 2)
    local run=(env "CUDA_VISIBLE_DEVICES=$devices")
    case $name in
    wharf) run+=("${mpi[@]}" "$build/copy_move") ;;
    plan) run+=("${mpi[@]}" "$build/exchange_latency") ;;
    engine | kernel) run+=("WHARF_COPY=$name" "${mpi[@]}" "$build/copy_move") ;;
    nccl) run+=("${mpi[@]}" "$build/peer_nccl_copy") ;;
    nvshmem)
        run+=("$nvshmem_path"
            "${mpi[@]}" "$build/peer_nvshmem_copy")
        ;;
    torch)
        find_torch 2
        run+=("${torch[@]}" "$root/scripts/bench/peer_torch_copy.py")
        ;;
    esac
    bench_run copy "$shape" "$name" "$turn" "$copy_limit" "$log" \
        "${run[@]}" --sizes "$sizes" --rounds "$rounds" || code=$?
    case $name in
    wharf | plan | engine | kernel) [ $code -ne 1 ] || copy_failed=1 ;;
    esac
}

# Two ranks on two GPUs; then one way only, the plain engine beside the mapping.
copy_two_gpus() {
    local turn name code=0
    copy_shapes+=(2-on-2)
    for turn in $(seq "$repeat"); do
        for name in "${copy_programs[@]}"; do
            copy_run 2-on-2 "$name" "$turn" 0,1 "$copy_sizes" "$rounds"
        done
    done
    bench_run copy one-way copy-rate 1 "$copy_limit" "$out/copy-one-way.txt" \
        env CUDA_VISIBLE_DEVICES=0,1 "${launcher[@]}" -n 2 "$build/copy_rate" \
        --sizes 256m --rounds "$rounds" || code=$?
    [ $code -ne 1 ] || copy_failed=1
    code=0
    bench_run copy one-way put-cost 1 30 "$out/copy-put-cost.txt" \
        env CUDA_VISIBLE_DEVICES=0,1 "${launcher[@]}" -n 2 "$build/put_cost" ||
        code=$?
    [ $code -ne 1 ] || copy_failed=1
}

# Two ranks on one GPU, which a kernel may have to wait for by time slices: few
# rounds. On a machine with one GPU this is all there is: then by turns.
copy_one_gpu() {
    local turn name sizes=64k,16m few=2 turns=1
    copy_shapes+=(2-on-1)
    copy_limit=30
    if [ "$gpus" -eq 1 ]; then
        sizes=64k,1m,16m,256m few=5 turns=$repeat
    fi
    for turn in $(seq "$turns"); do
        for name in "${copy_programs[@]}"; do
            case $name in
            nccl | torch) continue ;;
            nvshmem) [ "$gpus" -eq 1 ] || continue ;;
            esac
            copy_run 2-on-1 "$name" "$turn" 0 "$sizes" "$few"
        done
    done
    status_row copy 2-on-1 nccl - 'left out' 0 \
        'NCCL refuses two ranks on one GPU'
    status_row copy 2-on-1 torch - 'left out' 0 \
        'symmetric memory wants a GPU for each rank'
}

copy_gpu_runs() {
    copy_peers
    if [ "$gpus" -ge 2 ]; then
        copy_two_gpus
    else
        status_row copy 2-on-2 all - 'left out' 0 'needs two GPUs'
    fi
    copy_one_gpu
}

copy_host_runs() {
    local turn pair code
    copy_shapes+=(2-on-host)
    for turn in $(seq "$repeat"); do
        for pair in wharf:copy plan:exchange; do
            code=0
            bench_run copy 2-on-host "${pair%:*}" "$turn" "$copy_limit" \
                "$out/copy-2-on-host-${pair%:*}-$turn.txt" "${launcher[@]}" \
                -n 2 "$build/bin/wharf-bench" "${pair#*:}" \
                --sizes 64k,1m,16m --rounds "$rounds" || code=$?
            [ $code -ne 1 ] || copy_failed=1
        done
    done
}

copy_logs() { # SHAPE
    find "$out" -maxdepth 1 -name "copy-$1-*-[0-9]*.txt" | sort
}

# ---- Tables and JSON --------------------------------------------------------

# Median of the medians of all runs: an operation a table, a size a line, a
# program a column; us, and GB/s in brackets.
copy_table() {
    local shape=$1 logs=()
    mapfile -t logs < <(copy_logs "$shape")
    [ ${#logs[@]} -gt 0 ] || return 0
    awk -v shape="$shape" "$awk_median"'
    function middle(key) { return median_of(medians[key]) }
    FNR == 1 {
        name = FILENAME
        sub(/-[0-9]+\.txt$/, "", name)
        sub(/.*-/, "", name)
        op = ""
        if (!(name in seen)) { seen[name] = 1; names[++programs] = name }
    }
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 ~ /^#/ || NF < 6 || op == "" { next }
    {
        if (!(op in known)) { known[op] = 1; ops[++count] = op }
        if (!((op, $1) in sized)) {
            sized[op, $1] = 1
            sizes[op] = sizes[op] " " $1
        }
        medians[name, op, $1] = medians[name, op, $1] " " $3
        bad += $6
    }
    END {
        for (o = 1; o <= count; o++) {
            op = ops[o]
            printf "\n# %s, %s: median of the runs, us (GB/s)\n", shape, op
            printf "#%12s", "bytes"
            for (p = 1; p <= programs; p++) printf " %20s", names[p]
            print ""
            n = split(sizes[op], each, " ")
            for (s = 1; s <= n; s++) {
                printf " %12d", each[s]
                for (p = 1; p <= programs; p++) {
                    m = middle(names[p] SUBSEP op SUBSEP each[s])
                    if (m > 0)
                        printf " %10.2f (%7.2f)", m, each[s] / m / 1e3
                    else
                        printf " %20s", "-"
                }
                print ""
            }
        }
        printf "# wrong bytes: %d\n", bad
    }' "${logs[@]}"
}

copy_json() {
    local shape logs=()
    for shape in "${copy_shapes[@]}"; do
        mapfile -t -O "${#logs[@]}" logs < <(copy_logs "$shape")
    done
    awk -v machine="$machine" -v gpus="$gpus" '
    BEGIN {
        printf "{\"command\": \"copy\", \"machine\": \"%s\", ", machine
        printf "\"gpus\": %d,\n \"results\": [", gpus
    }
    FNR == 1 {
        shape = FILENAME
        sub(/.*\/copy-/, "", shape)
        run = name = shape
        sub(/\.txt$/, "", run); sub(/.*-/, "", run)
        sub(/-[0-9]+\.txt$/, "", name); sub(/.*-/, "", name)
        sub("-" name "-[0-9]+\\.txt$", "", shape)
        op = ""
    }
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 ~ /^#/ || NF < 6 || op == "" { next }
    {
        printf "%s\n  {\"shape\": \"%s\", \"program\": \"%s\", ", comma, \
            shape, name
        printf "\"run\": %d, \"op\": \"%s\", \"bytes\": %d, ", run, op, $1
        printf "\"min_us\": %s, \"med_us\": %s, \"p99_us\": %s, ", $2, $3, $4
        printf "\"bad_bytes\": %d}", $6
        comma = ","
    }
    END { print "]}" }' "${logs[@]}"
}

copy_main() {
    local shape
    copy_failed=0
    copy_shapes=()
    rm -f "$out"/copy-*
    status_forget copy
    if [ "$cuda_here" = yes ]; then
        copy_gpu_runs
    else
        echo "bench.sh: no GPU or no nvcc: Wharf alone"
        copy_host_runs
    fi
    machine_describe 2
    cp "$out/machine.txt" "$out/copy.txt"
    for shape in "${copy_shapes[@]}"; do
        copy_table "$shape" || copy_failed=1
    done >>"$out/copy.txt"
    [ ! -s "$out/copy-one-way.txt" ] ||
        grep -v '^# rank\|PASS' "$out/copy-one-way.txt" >>"$out/copy.txt"
    [ ! -s "$out/copy-put-cost.txt" ] ||
        cat "$out/copy-put-cost.txt" >>"$out/copy.txt"
    copy_json >"$out/copy.json" || copy_failed=1
    verdict $copy_failed "$out/copy.txt"
}
