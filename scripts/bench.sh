#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures Wharf beside programs that do the same work without it, in one run,
# interleaved, and writes text and JSON.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: scripts/bench.sh attach|sync|copy|zero-copy|ring|jacobi|hosts [options]

  attach          attach and detach: Wharf, CUDA IPC by hand, VMM by hand; and
                  copies through Wharf's mapping beside the plain copy engine.
                  Without GPUs: Wharf's host backend alone.
  sync            hand-over: barrier, notify, event, flags in kernels. Wharf,
                  NVSHMEM and PyTorch where installed; ranks on two GPUs, two
                  on one, sixteen on two, without MPS and under an MPS server
                  of the script's own. --ranks and --sizes do not matter.
  copy            put, get, put with notify between two ranks, by the way that
                  Wharf chooses, by engines and by kernels; the bare engine;
                  NCCL, NVSHMEM and PyTorch where installed. --repeat is 2
                  unless given; --ranks and --sizes do not matter.
  zero-copy       host memory that GPUs use in place beside copies; and
                  07_frame_filter at 1080p and 8k by its four ways. --ranks
                  and --sizes do not matter.
  ring            hand-over of slots, one consumer and seven. --ranks and
                  --sizes do not matter.
  jacobi          05_halo_2d, 16384 x 16384 and 4096 x 4096, on one GPU and on
                  two, in both modes; the same solver over NCCL, NVSHMEM and
                  staged MPI. --ranks and --sizes do not matter.
  hosts           an exchange between two hosts (two_hosts.sh) beside plain
                  persistent MPI. --ranks and --sizes do not matter.

  --out DIR       where results go; default results/<date>-<machine>
  --ranks N       default 2
  --repeat N      runs of every program, taken in turn; default 3
  --rounds N      measured rounds of one run; default 15
  --sizes LIST    default 2m,64m,256m,1g,4g
  --build DIR     build directory; default build-bench
  --variants NAME jacobi: of the kernel; all: every one, Wharf alone
USAGE
}

fail() {
    echo "bench.sh: $1" >&2
    exit "${2:-1}"
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
machine=$(uname -n)
out=$root/results/$(date +%Y-%m-%d)-$machine
build=$root/build-bench
ranks=2 repeat=3 rounds=15 sizes=2m,64m,256m,1g,4g
variants=default

command=${1:-}
case $command in
attach | sync | zero-copy | ring | jacobi | hosts) shift ;;
copy) repeat=2 && shift ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage && exit 0 ;;
    --out | --ranks | --repeat | --rounds | --sizes | --build | --variants)
        [ $# -ge 2 ] || fail "$1 needs a value" 2
        declare "${1#--}=$2"
        shift 2
        ;;
    *) usage >&2 && exit 2 ;;
    esac
done
for number in "$ranks" "$repeat" "$rounds"; do
    case $number in
    '' | *[!0-9]* | 0) fail "'$number' is not a positive number" 2 ;;
    esac
done

launch=("${MPIEXEC:-mpirun}")
if "${launch[0]}" --version 2>&1 | grep -q 'Open MPI\|PRRTE'; then
    launch+=(--oversubscribe)
    [ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
fi
launch+=(-n "$ranks")

gpus=0
if command -v nvidia-smi >/dev/null; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || true
fi

# ---- Build ------------------------------------------------------------------
mkdir -p "$out" "$build"
out=$(cd "$out" && pwd)
echo "bench.sh: building in $build"
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
    -DWHARF_BUILD_TESTS=OFF -DWHARF_BUILD_EXAMPLES=OFF >"$out/build.log" ||
    fail "configuring failed, see $out/build.log"
cmake --build "$build" --target wharf-bench wharf-info -j "$(nproc)" \
    >>"$out/build.log" 2>&1 || fail "building failed, see $out/build.log"

# A peer in CUDA: name, further arguments of nvcc.
build_peer() {
    local name=$1
    shift
    # shellcheck disable=SC2046
    nvcc -O2 -std=c++17 -arch=native -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX \
        -ccbin "${MPICXX:-mpicxx}" -I"$root/include" \
        "$root/scripts/bench/$name.cu" -o "$build/$name" "$@" \
        >>"$out/build.log" 2>&1 ||
        fail "building $name failed, see $out/build.log"
}

if [ "$command" = sync ]; then
    # shellcheck source=scripts/bench/sync.sh
    . "$root/scripts/bench/sync.sh"
    sync_main
    exit "$sync_failed"
fi

case $command in
hosts)
    # shellcheck source=scripts/bench/hosts.sh
    . "$root/scripts/bench/hosts.sh"
    hosts_main
    exit "$hosts_failed"
    ;;
copy)
    # shellcheck source=scripts/bench/sync.sh
    . "$root/scripts/bench/sync.sh"
    # shellcheck source=scripts/bench/copy.sh
    . "$root/scripts/bench/copy.sh"
    copy_main
    exit "$copy_failed"
    ;;
jacobi)
    # shellcheck source=scripts/bench/jacobi.sh
    . "$root/scripts/bench/jacobi.sh"
    jacobi_main
    exit "$jacobi_failed"
    ;;
zero-copy | ring)
    # shellcheck source=scripts/bench/zero_copy.sh
    . "$root/scripts/bench/zero_copy.sh"
    "${command/-/_}_main"
    exit "$zero_failed"
    ;;
esac

programs=(wharf)
declare -A run=([wharf]="$build/bin/wharf-bench attach")
if [ "$gpus" -gt 0 ] && command -v nvcc >/dev/null; then
    library=$(dirname "$(find "$build" -name libwharf.so -print -quit)")
    build_peer ipc_by_hand -lcuda
    build_peer copy_rate -L"$library" -lwharf -Xlinker -rpath="$library"
    programs=(wharf ipc-by-hand vmm-by-hand copy-rate)
    run[ipc-by-hand]="$build/ipc_by_hand"
    run[vmm-by-hand]="$build/ipc_by_hand --vmm"
    run[copy-rate]="$build/copy_rate"
    [ "$gpus" -ge 2 ] || echo "bench.sh: one GPU: all ranks share it"
else
    echo "bench.sh: no GPU or no nvcc: Wharf's host backend alone"
fi

# ---- Run --------------------------------------------------------------------
"${launch[@]}" "$build/bin/wharf-info" >"$out/machine.txt" 2>&1 ||
    fail "wharf-info failed: $(cat "$out/machine.txt")"
cp "$out/machine.txt" "$out/attach.txt"

failed=0
for turn in $(seq "$repeat"); do
    for name in "${programs[@]}"; do
        echo "bench.sh: run $turn of $repeat: $name"
        log=$out/attach-$name-$turn.txt
        # shellcheck disable=SC2086
        if ! "${launch[@]}" ${run[$name]} --sizes "$sizes" --rounds "$rounds" \
            >"$log" 2>"$log.err"; then
            echo "bench.sh: $name failed:" >&2
            tail -5 "$log" "$log.err" >&2
            failed=1
        fi
        [ -s "$log.err" ] || rm -f "$log.err"
    done
done

# ---- Tables and JSON --------------------------------------------------------
logs=()
for name in "${programs[@]}"; do
    for turn in $(seq "$repeat"); do
        logs+=("$out/attach-$name-$turn.txt")
    done
done

table() {
    awk -v first=ipc-by-hand '
    # Median of the medians of all runs.
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
    }' runs="$repeat" "${logs[@]}"
}

json() {
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
    END { print "]}" }' "${logs[@]}"
}

table >>"$out/attach.txt"
json >"$out/attach.json"
if [ "$failed" -eq 0 ]; then
    echo "# PASS" >>"$out/attach.txt"
else
    echo "# FAIL" >>"$out/attach.txt"
fi
cat "$out/attach.txt"
echo "bench.sh: written to $out"
exit "$failed"
