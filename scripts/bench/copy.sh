# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures moving data between ranks; sourced by it.
# Uses its variables: root out build repeat rounds gpus machine launch, its
# build_peer, and python_package of sync.sh.

# A run that hangs must not hold up the others.
copy_limit=120
copy_sizes=8,64k,1m,4m,16m,256m

copy_peers() {
    local nvshmem
    library=$(dirname "$(find "$build" -name libwharf.so -print -quit)")
    build_peer copy_move -L"$library" -lwharf -Xlinker -rpath="$library"
    build_peer copy_rate -L"$library" -lwharf -Xlinker -rpath="$library"
    build_peer exchange_latency -L"$library" -lwharf -Xlinker -rpath="$library"
    copy_programs=(wharf plan engine kernel)
    nvshmem=$(python_package nvidia.nvshmem)
    if (build_peer peer_nccl_copy -lnccl); then
        copy_programs+=(nccl)
    else
        echo "bench.sh: no NCCL to compare with"
    fi
    if [ -n "$nvshmem" ] &&
        (build_peer peer_nvshmem_copy -rdc=true -I"$nvshmem/include" \
            -L"$nvshmem/lib" -lnvshmem_device -l:libnvshmem_host.so.3 \
            -lcuda -lcudadevrt -lnvidia-ml -Xlinker -rpath="$nvshmem/lib"); then
        nvshmem_library=$nvshmem/lib
        copy_programs+=(nvshmem)
    else
        echo "bench.sh: no NVSHMEM to compare with"
    fi
    if [ -n "$(python_package torch)" ]; then
        copy_programs+=(torch)
    else
        echo "bench.sh: no PyTorch to compare with"
    fi
}

# One program once, two ranks: shape, name, turn, visible GPUs, sizes, rounds.
copy_run() {
    local shape=$1 name=$2 turn=$3 devices=$4 sizes=$5 rounds=$6
    local log=$out/copy-$shape-$name-$turn.txt
    local mpi=("${launch[@]:0:${#launch[@]}-1}" 2)
    local run=(env "CUDA_VISIBLE_DEVICES=$devices" timeout "$copy_limit")
    case $name in
    wharf) run+=("${mpi[@]}" "$build/copy_move") ;;
    plan) run+=("${mpi[@]}" "$build/exchange_latency") ;;
    engine | kernel)
        run+=(env "WHARF_COPY=$name" "${mpi[@]}" "$build/copy_move")
        ;;
    nccl) run+=("${mpi[@]}" "$build/peer_nccl_copy") ;;
    nvshmem)
        run+=(env "LD_LIBRARY_PATH=$nvshmem_library:${LD_LIBRARY_PATH:-}"
            "${mpi[@]}" "$build/peer_nvshmem_copy")
        ;;
    torch)
        run+=(python3 -m torch.distributed.run --nproc-per-node 2
            --master-port "$((20000 + RANDOM % 20000))"
            "$root/scripts/bench/peer_torch_copy.py")
        ;;
    esac
    echo "bench.sh: $shape, run $turn of $repeat: $name"
    if ! "${run[@]}" --sizes "$sizes" --rounds "$rounds" \
        >"$log" 2>"$log.err"; then
        echo "bench.sh: $name failed at $shape, see $log.err" >&2
        case $name in wharf | plan | engine | kernel) copy_failed=1 ;; esac
    fi
    [ -s "$log.err" ] || rm -f "$log.err"
}

copy_gpu_runs() {
    local turn name
    copy_peers
    if [ "$gpus" -ge 2 ]; then
        copy_shapes+=(2-on-2)
        for turn in $(seq "$repeat"); do
            for name in "${copy_programs[@]}"; do
                copy_run 2-on-2 "$name" "$turn" 0,1 "$copy_sizes" "$rounds"
            done
        done
        # One way only, the plain engine beside the mapping.
        env CUDA_VISIBLE_DEVICES=0,1 timeout "$copy_limit" \
            "${launch[@]:0:${#launch[@]}-1}" 2 "$build/copy_rate" \
            --sizes 256m --rounds "$rounds" >"$out/copy-one-way.txt" ||
            copy_failed=1
    fi
    # Two ranks on one GPU, which a kernel may have to wait for by time slices:
    # few rounds.
    copy_shapes+=(2-on-1)
    copy_limit=30
    for name in wharf plan engine kernel; do
        copy_run 2-on-1 "$name" 1 0 64k,16m 2
    done
}

copy_host_runs() {
    local turn log
    copy_shapes+=(2-on-host)
    for turn in $(seq "$repeat"); do
        log=$out/copy-2-on-host-wharf-$turn.txt
        echo "bench.sh: 2-on-host, run $turn of $repeat: wharf"
        "${launch[@]:0:${#launch[@]}-1}" 2 "$build/bin/wharf-bench" copy \
            --sizes 64k,1m,16m --rounds "$rounds" >"$log" || copy_failed=1
        log=$out/copy-2-on-host-plan-$turn.txt
        echo "bench.sh: 2-on-host, run $turn of $repeat: plan"
        "${launch[@]:0:${#launch[@]}-1}" 2 "$build/bin/wharf-bench" exchange \
            --sizes 64k,1m,16m --rounds "$rounds" >"$log" || copy_failed=1
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
    if [ "$gpus" -gt 0 ] && command -v nvcc >/dev/null; then
        copy_gpu_runs
    else
        echo "bench.sh: no GPU or no nvcc: Wharf's host backend alone"
        copy_host_runs
    fi
    "${launch[@]}" "$build/bin/wharf-info" >"$out/machine.txt" 2>&1 ||
        fail "wharf-info failed: $(cat "$out/machine.txt")"
    cp "$out/machine.txt" "$out/copy.txt"
    for shape in "${copy_shapes[@]}"; do
        copy_table "$shape"
    done >>"$out/copy.txt"
    [ ! -s "$out/copy-one-way.txt" ] ||
        grep -v '^# rank\|PASS' "$out/copy-one-way.txt" >>"$out/copy.txt"
    copy_json >"$out/copy.json"
    if [ "$copy_failed" -eq 0 ]; then
        echo "# PASS" >>"$out/copy.txt"
    else
        echo "# FAIL" >>"$out/copy.txt"
    fi
    cat "$out/copy.txt"
    echo "bench.sh: written to $out"
}
