# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures hand-over between ranks; sourced by it.
# Uses its variables, and what is in common.sh.

# A run that hangs must not hold up the others.
sync_limit=300

# The logs of a shape, and not those of its MPS variant, whose name only goes
# on from there.
sync_logs() { # SHAPE
    find "$out" -maxdepth 1 -name "sync-$1-*-[0-9]*.txt" |
        grep -E "/sync-$1-(wharf|nvshmem|torch)-[0-9]+\.txt$" | sort
}

# ---- Peers ------------------------------------------------------------------

sync_peers() {
    build_over_wharf sync_latency
    sync_nvshmem=yes
    build_nvshmem peer_nvshmem_sync || sync_nvshmem=no
    sync_torch=yes
    [ -n "$(python_package torch)" ] || sync_torch=no
}

# Rows for the peers that cannot take part in a shape.
sync_absent() { # SHAPE
    [ "$sync_nvshmem" = yes ] || status_row sync "$1" nvshmem - absent 0 \
        "$(absent NVSHMEM peer_nvshmem_sync)"
    [ "$sync_torch" = yes ] || status_row sync "$1" torch - absent 0 \
        'no PyTorch on this machine'
}

# ---- Runs -------------------------------------------------------------------

# One program once: shape, name, turn, ranks, visible GPUs. Some peers cannot do
# every shape; then there is no figure, and the status table says why.
sync_run() {
    local shape=$1 name=$2 turn=$3 ranks=$4 devices=$5 code=0
    local log=$out/sync-$shape-$name-$turn.txt
    local mpi=("${launcher[@]}" -n "$ranks")
    local run=(env "CUDA_VISIBLE_DEVICES=$devices")
    case $name in
    wharf) run+=("${mpi[@]}" "$build/sync_latency") ;;
    nvshmem)
        run+=("$nvshmem_path"
            "${mpi[@]}" "$build/peer_nvshmem_sync")
        ;;
    torch)
        find_torch "$ranks"
        run+=("${torch[@]}" "$root/scripts/bench/peer_torch_sync.py")
        ;;
    esac
    bench_run sync "$shape" "$name" "$turn" "$sync_limit" "$log" \
        "${run[@]}" --rounds "$rounds" || code=$?
    [ "$name" != wharf ] || [ $code -ne 1 ] || sync_failed=1
}

# All programs of a shape in turn.
sync_shape() {
    local shape=$1 ranks=$2 devices=$3 turn name
    shift 3
    sync_shapes+=("$shape")
    for turn in $(seq "$repeat"); do
        for name in "$@"; do
            sync_run "$shape" "$name" "$turn" "$ranks" "$devices"
        done
    done
}

sync_gpu_runs() {
    local peers=(wharf) shared=(wharf)
    sync_peers
    [ "$sync_nvshmem" = no ] || peers+=(nvshmem) shared+=(nvshmem)
    [ "$sync_torch" = no ] || peers+=(torch)
    if [ "$gpus" -ge 2 ]; then
        sync_absent 2-on-2
        sync_shape 2-on-2 2 0,1 "${peers[@]}"
        sync_shape 4-on-2 4 0,1 wharf
        sync_shape 16-on-2 16 0,1 wharf
    else
        status_row sync 2-on-2 all - 'left out' 0 'needs two GPUs'
        status_row sync 16-on-2 all - 'left out' 0 'needs two GPUs'
    fi
    sync_shape 2-on-1 2 0 "${shared[@]}"
    status_row sync 2-on-1 torch - 'left out' 0 \
        'symmetric memory wants a GPU for each rank'
    [ "$gpus" -ge 2 ] || sync_shape 8-on-1 8 0 wharf
    if mps_start; then
        sync_shape 2-on-1-mps 2 0 "${shared[@]}"
        [ "$gpus" -ge 2 ] || sync_shape 8-on-1-mps 8 0 wharf
        [ "$gpus" -lt 2 ] || sync_shape 16-on-2-mps 16 0,1 wharf
        mps_stop
    else
        status_row sync 2-on-1-mps all - absent 0 'no MPS server starts here'
        echo "bench.sh: no MPS server: nothing under MPS"
    fi
}

sync_host_runs() {
    local ranks turn code
    for ranks in 2 4; do
        sync_shapes+=("$ranks-on-host")
        for turn in $(seq "$repeat"); do
            code=0
            bench_run sync "$ranks-on-host" wharf "$turn" "$sync_limit" \
                "$out/sync-$ranks-on-host-wharf-$turn.txt" "${launcher[@]}" \
                -n "$ranks" "$build/bin/wharf-bench" sync --rounds "$rounds" ||
                code=$?
            [ $code -ne 1 ] || sync_failed=1
        done
    done
}

# ---- Tables and JSON --------------------------------------------------------

# Median of the medians of all runs, an operation a line, a program a column.
sync_table() {
    local shape=$1 logs
    mapfile -t logs < <(sync_logs "$shape")
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
    $1 == "#" && $2 == "rank" && $3 == 0 && $4 == "to" && name == "wharf" {
        how[$0] = 1
    }
    $1 ~ /^#/ || NF < 6 || op == "" { next }
    {
        if (!(op in known)) { known[op] = 1; ops[++count] = op }
        medians[name, op] = medians[name, op] " " $3
    }
    END {
        printf "\n# %s: median of the runs, us\n", shape
        for (line in how) print line
        printf "#%-24s", " operation"
        for (p = 1; p <= programs; p++) printf " %12s", names[p]
        print ""
        for (o = 1; o <= count; o++) {
            printf " %-24s", ops[o]
            for (p = 1; p <= programs; p++) {
                m = middle(names[p] SUBSEP ops[o])
                printf m < 0 ? " %12s" : " %12.2f", m < 0 ? "-" : m
            }
            print ""
        }
    }' "${logs[@]}"
}

sync_json() {
    local shape logs=()
    for shape in "${sync_shapes[@]}"; do
        mapfile -t -O "${#logs[@]}" logs < <(sync_logs "$shape")
    done
    awk -v machine="$machine" -v gpus="$gpus" '
    BEGIN {
        printf "{\"command\": \"sync\", \"machine\": \"%s\", ", machine
        printf "\"gpus\": %d,\n \"results\": [", gpus
    }
    FNR == 1 {
        shape = FILENAME
        sub(/.*\/sync-/, "", shape)
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
        printf "\"run\": %d, \"op\": \"%s\", \"min_us\": %s, ", run, op, $2
        printf "\"med_us\": %s, \"p99_us\": %s}", $3, $4
        comma = ","
    }
    END { print "]}" }' "${logs[@]}"
}

sync_main() {
    local shape
    sync_failed=0
    sync_shapes=()
    rm -f "$out"/sync-*
    status_forget sync
    if [ "$cuda_here" = yes ]; then
        sync_gpu_runs
    else
        echo "bench.sh: no GPU or no nvcc: Wharf alone"
        sync_host_runs
    fi
    machine_describe 2
    cp "$out/machine.txt" "$out/sync.txt"
    for shape in "${sync_shapes[@]}"; do
        sync_table "$shape" || sync_failed=1
    done >>"$out/sync.txt"
    sync_json >"$out/sync.json" || sync_failed=1
    verdict $sync_failed "$out/sync.txt"
}

# ---- Every pair -------------------------------------------------------------

# Two ranks on each GPU, four at least, sixteen at most.
latency_main() {
    local ranks=$((gpus > 0 ? 2 * gpus : 4)) turn code
    latency_failed=0
    [ "$ranks" -ge 4 ] || ranks=4
    [ "$ranks" -le 16 ] || ranks=16
    rm -f "$out"/latency*
    status_forget latency
    for turn in $(seq "$repeat"); do
        code=0
        bench_run latency "$ranks-on-$gpus" wharf "$turn" 120 \
            "$out/latency-$ranks-$turn.txt" "${launcher[@]}" -n "$ranks" \
            "$build/bin/wharf-bench" latency --rounds "$rounds" || code=$?
        [ $code -ne 1 ] || latency_failed=1
    done
    cat "$out"/latency-*.txt >"$out/latency.txt"
    verdict $latency_failed "$out/latency.txt"
}
