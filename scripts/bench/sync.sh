# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures hand-over between ranks; sourced by it.
# Uses its variables: root out build repeat rounds gpus machine, and build_peer.

# A run that hangs must not hold up the others.
sync_limit=300

# The logs of a shape, and not those of its MPS variant, whose name only goes
# on from there.
sync_logs() { # SHAPE
    find "$out" -maxdepth 1 -name "sync-$1-*-[0-9]*.txt" |
        grep -E "/sync-$1-(wharf|nvshmem|torch)-[0-9]+\.txt$" | sort
}

# ---- MPS --------------------------------------------------------------------
# A server of our own, found only through our own directory, stopped at the end
# however that comes about.
mps_dir=

mps_start() {
    mps_dir=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY=$mps_dir/pipe
    export CUDA_MPS_LOG_DIRECTORY=$mps_dir/log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    trap mps_stop EXIT
    nvidia-cuda-mps-control -d
}

mps_stop() {
    [ -n "$mps_dir" ] || return 0
    echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 || true
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    rm -rf "$mps_dir"
    mps_dir=
    trap - EXIT
}

# ---- Peers ------------------------------------------------------------------

# Where a Python package lies; nothing if it is not installed.
python_package() {
    python3 - "$1" <<'PYTHON' 2>/dev/null || true
import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1])
print(list(found.submodule_search_locations)[0] if found else "")
PYTHON
}

sync_peers() {
    local nvshmem
    library=$(dirname "$(find "$build" -name libwharf.so -print -quit)")
    build_peer sync_latency -L"$library" -lwharf -Xlinker -rpath="$library"
    nvshmem=$(python_package nvidia.nvshmem)
    nvshmem_library=
    if [ -n "$nvshmem" ] &&
        (build_peer peer_nvshmem_sync -rdc=true -I"$nvshmem/include" \
            -L"$nvshmem/lib" -lnvshmem_device -l:libnvshmem_host.so.3 \
            -lcuda -lcudadevrt -lnvidia-ml -Xlinker -rpath="$nvshmem/lib"); then
        nvshmem_library=$nvshmem/lib
    else
        echo "bench.sh: no NVSHMEM to compare with"
    fi
    torch=
    if [ -n "$(python_package torch)" ]; then
        torch=yes
    else
        echo "bench.sh: no PyTorch to compare with"
    fi
}

# ---- Runs -------------------------------------------------------------------

# One program once: shape, name, turn, ranks, visible GPUs. Some peers cannot do
# every shape; then there is no figure, and the log says why.
sync_run() {
    local shape=$1 name=$2 turn=$3 ranks=$4 devices=$5
    local log=$out/sync-$shape-$name-$turn.txt
    local mpi=("${launch[@]:0:${#launch[@]}-1}" "$ranks")
    local run=(env "CUDA_VISIBLE_DEVICES=$devices" timeout "$sync_limit")
    case $name in
    wharf) run+=("${mpi[@]}" "$build/sync_latency") ;;
    nvshmem)
        run+=(env "LD_LIBRARY_PATH=$nvshmem_library:${LD_LIBRARY_PATH:-}"
            "${mpi[@]}" "$build/peer_nvshmem_sync")
        ;;
    torch)
        run+=(python3 -m torch.distributed.run --nproc-per-node "$ranks"
            --master-port "$((20000 + RANDOM % 20000))"
            "$root/scripts/bench/peer_torch_sync.py")
        ;;
    esac
    echo "bench.sh: $shape, run $turn of $repeat: $name"
    if ! "${run[@]}" --rounds "$rounds" >"$log" 2>"$log.err"; then
        echo "bench.sh: $name failed at $shape, see $log.err" >&2
        [ "$name" != wharf ] || sync_failed=1
    fi
    [ -s "$log.err" ] || rm -f "$log.err"
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
    [ -z "$nvshmem_library" ] || peers+=(nvshmem) shared+=(nvshmem)
    [ -z "$torch" ] || peers+=(torch)
    if [ "$gpus" -ge 2 ]; then
        sync_shape 2-on-2 2 0,1 "${peers[@]}"
        sync_shape 4-on-2 4 0,1 wharf
        sync_shape 16-on-2 16 0,1 wharf
    fi
    sync_shape 2-on-1 2 0 "${shared[@]}"
    if command -v nvidia-cuda-mps-control >/dev/null; then
        mps_start
        sync_shape 2-on-1-mps 2 0 "${shared[@]}"
        [ "$gpus" -lt 2 ] || sync_shape 16-on-2-mps 16 0,1 wharf
        mps_stop
    else
        echo "bench.sh: no nvidia-cuda-mps-control: nothing under MPS"
    fi
}

sync_host_runs() {
    local ranks turn log
    for ranks in 2 4; do
        sync_shapes+=("$ranks-on-host")
        for turn in $(seq "$repeat"); do
            log=$out/sync-$ranks-on-host-wharf-$turn.txt
            echo "bench.sh: $ranks-on-host, run $turn of $repeat: wharf"
            "${launch[@]:0:${#launch[@]}-1}" "$ranks" \
                "$build/bin/wharf-bench" sync --rounds "$rounds" >"$log" ||
                sync_failed=1
        done
    done
}

# ---- Tables and JSON --------------------------------------------------------

# Median of the medians of all runs, an operation a line, a program a column.
sync_table() {
    local shape=$1
    awk -v shape="$shape" '
    function middle(key,    n, i, j, v, t) {
        n = split(medians[key], v, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
                t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
            }
        return n == 0 ? -1 : (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
    }
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
    }' $(sync_logs "$shape")
}

sync_json() {
    local shape logs=()
    for shape in "${sync_shapes[@]}"; do
        logs+=($(sync_logs "$shape"))
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
    if [ "$gpus" -gt 0 ] && command -v nvcc >/dev/null; then
        sync_gpu_runs
    else
        echo "bench.sh: no GPU or no nvcc: Wharf's host backend alone"
        sync_host_runs
    fi
    "${launch[@]}" "$build/bin/wharf-info" >"$out/machine.txt" 2>&1 ||
        fail "wharf-info failed: $(cat "$out/machine.txt")"
    cp "$out/machine.txt" "$out/sync.txt"
    for shape in "${sync_shapes[@]}"; do
        sync_table "$shape"
    done >>"$out/sync.txt"
    sync_json >"$out/sync.json"
    if [ "$sync_failed" -eq 0 ]; then
        echo "# PASS" >>"$out/sync.txt"
    else
        echo "# FAIL" >>"$out/sync.txt"
    fi
    cat "$out/sync.txt"
    echo "bench.sh: written to $out"
}
