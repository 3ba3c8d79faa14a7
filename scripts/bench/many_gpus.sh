#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a machine with several GPUs shows and one with two cannot; it passes on
# two and on one as well, where there is less to see.
# shellcheck disable=SC2034,SC2154,SC2317 # parts are called by their names
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: scripts/bench/many_gpus.sh [options]

Runs, in this order, each part bounded in time and by itself with --only:

  info       wharf-info: GPUs, who shares them, the matrix of links
  attach     256 MiB, 1 GiB, 4 GiB a rank, all mapping all, on 1, 2, 4, ... GPUs
  signals    barrier and notify of 4, 8, 16, 32 ranks, without and under an MPS
             server that the script starts and stops
  copies     every rank to every other, beside the copy engine; all to all
  jacobi     05_halo_2d on 1, 2, 4, ... GPUs, with NCCL, NVSHMEM, staged MPI
  placement  unbound and bound ranks beside the NUMA nodes of CPUs and GPUs
  peers      NCCL, NVSHMEM, PyTorch and CUDA IPC by hand, a rank on each GPU
  suite      the tests of label gpu at one, two and four ranks on a GPU, several
             at a time, and once more alone if one fails so; a skipped test
             fails where there are two GPUs to run it on

  --only LIST    these parts, comma separated; what others left in --out stays
  --out DIR      default results/<date>-<machine>-many
  --build DIR    default build-bench
  --tests DIR    build directory of the tests; default DIR of --build/tests
  --repeat N     runs of every program; default 2
  --rounds N     measured rounds of one run; default 9
  --limit N      seconds of each part; default 240, suite 900
  --total N      seconds of the whole; each part gets its share
  --jobs N       tests of the suite at a time; default a third of the cores
  --quick        one run of three rounds; in full some 6 minutes

NVLink multicast stays off. A rehearsal without GPUs: WHARF_BACKEND=cuda,
WHARF_CUDA_DRIVER=<the fake driver>, WHARF_FAKE_DEVICES=8 (and WHARF_FAKE_STATE).
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/bench/common.sh
. "$root/scripts/bench/common.sh"

out=$root/results/$(date +%Y-%m-%d)-$machine-many
build=$root/build-bench
tests=
ranks=2 repeat=2 rounds=9 only='' limit='' total='' quick=no variants=default
jobs=$(($(nproc) / 3))
[ "$jobs" -gt 0 ] || jobs=1
[[ " $* " != *' --quick '* ]] || repeat=1 rounds=3
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --quick)
        quick=yes
        shift
        ;;
    --only | --out | --build | --tests | --repeat | --rounds | --limit | \
        --total | --jobs)
        [ $# -ge 2 ] || fail "$1 needs a value" 2
        declare "${1#--}=$2"
        shift 2
        ;;
    *) usage >&2 && exit 2 ;;
    esac
done
positive "$repeat" "$rounds" "${limit:-1}" "${total:-1}" "$jobs"
[ "$gpus" -gt 0 ] || fail "no GPU here: for a rehearsal see --help" 77

for part in sync copy jacobi all many_tables; do
    # shellcheck disable=SC1090
    . "$root/scripts/bench/$part.sh"
done
all_parts=(info attach signals copies jacobi placement peers suite)

# Seconds of a part: as asked for, in full, and by --quick.
all_limit() { # PART
    case ${limit:+asked}-$quick-$1 in
    asked-*) echo "$limit" ;;
    -no-suite) echo 900 ;;
    -no-*) echo 240 ;;
    -yes-suite) echo 120 ;;
    -yes-signals) echo 100 ;;
    -yes-peers) echo 75 ;;
    -yes-jacobi) echo 50 ;;
    -yes-*) echo 20 ;;
    esac
}

# Wharf's own tool: part, shape, turn, ranks, visible GPUs, program's name in the
# tables, command, its arguments.
tool_run() { # PART SHAPE TURN RANKS GPUS PROGRAM COMMAND [ARGUMENT...]
    local part=$1 shape=$2 turn=$3 ranks=$4 devices=$5 program=$6 command=$7
    local log=$out/$command-$shape-$program-$turn.txt code=0 label=$program
    shift 7
    [ "$part" = "$command" ] || label=$command-$program
    bench_run "$part" "$shape" "$label" "$turn" 120 "$log" \
        env "CUDA_VISIBLE_DEVICES=$(first_devices "$devices")" \
        "${launcher[@]}" -n "$ranks" "$build/bin/wharf-bench" "$command" \
        --rounds "$rounds" "$@" || code=$?
    [ "$code" -ne 1 ] || part_failed=1
}

# ---- info -------------------------------------------------------------------

info_main() {
    part_failed=0
    rm -f "$out"/info.*
    bench_run info "$gpus-on-$gpus" wharf 1 60 "$out/info.txt" \
        "${launcher[@]}" -n "$gpus" "$build/bin/wharf-info" || part_failed=1
    bench_run info "$gpus-on-$gpus" json 1 60 "$out/info.json" \
        "${launcher[@]}" -n "$gpus" "$build/bin/wharf-info" --json ||
        part_failed=1
    cat "$out/info.txt"
    info_failed=$part_failed
}

# ---- attach -----------------------------------------------------------------

attach_main() {
    local turn count shape sizes=256m,1g,4g
    part_failed=0
    rm -f "$out"/attach.txt "$out"/attach-*-wharf-*
    [ "$fake" = no ] || sizes=2m,8m,32m
    for turn in $(seq "$repeat"); do
        for count in "${gpu_counts[@]}"; do
            ranks=$((count > 1 ? count : 2))
            tool_run attach "$ranks-on-$count" "$turn" "$ranks" "$count" wharf \
                attach --sizes "$sizes"
        done
        # Twice the ranks: the handles stay as they are.
        ranks=$((gpus > 1 ? 2 * gpus : 4))
        tool_run attach "$ranks-on-$gpus" "$turn" "$ranks" "$gpus" wharf \
            attach --sizes "$sizes"
    done
    {
        echo "# attach, all ranks map all: median of the runs"
        printf '#%9s %5s %12s %12s %14s\n' ranks GPUs bytes attach 'of one GPU'
        printf '#%9s %5s %12s %12s %14s\n' '' '' '(B)' '(us)' '(times)'
        for shape in "$out"/attach-*-on-*-wharf-1.txt; do
            shape=${shape##*/attach-}
            shape=${shape%-wharf-1.txt}
            tool_medians attach "$out/attach-$shape-wharf"-*.txt |
                sed "s/^/${shape%-on-*} ${shape#*-on-} /"
        done | sort -k3,3n -k2,2n -k1,1n | awk '
            $3 != size { size = $3; base = $4 }
            { printf " %9d %5d %12d %12.1f %14.2f\n", $1, $2, $3, $4, $4 / base }' ||
            part_failed=1
    } >"$out/attach.txt"
    verdict "$part_failed" "$out/attach.txt"
    attach_failed=$part_failed
}

# ---- signals ----------------------------------------------------------------

signals_shapes() { # SUFFIX
    local turn count command devices
    for turn in $(seq "$repeat"); do
        for count in $(printf '%s\n' 4 8 16 32 "$gpus" | sort -nu); do
            [ "$count" -gt 1 ] || continue
            devices=$((count < gpus ? count : gpus))
            for command in barrier notify; do
                tool_run signals "$count-on-$devices$1" "$turn" "$count" \
                    "$devices" wharf "$command"
            done
        done
    done
}

# Graphs, and kernels that signal one another: what the tool cannot issue.
signals_kernels() { # SUFFIX
    local count=$((gpus > 1 ? gpus : 2)) turn shape code
    shape=$count-on-$gpus$1
    for turn in $(seq "$repeat"); do
        code=0
        bench_run signals "$shape" kernels "$turn" 120 \
            "$out/sync-$shape-wharf-$turn.txt" "${launcher[@]}" -n "$count" \
            "$build/sync_latency" --rounds "$rounds" || code=$?
        [ "$code" -ne 1 ] || part_failed=1
    done
}

signals_main() {
    part_failed=0
    rm -f "$out"/barrier-* "$out"/notify-* "$out"/sync-*-wharf-*.txt
    [ "$cuda_here" = no ] || build_over_wharf sync_latency
    signals_shapes ''
    [ "$cuda_here" = no ] || signals_kernels ''
    if mps_start; then
        signals_shapes -mps
        [ "$cuda_here" = no ] || signals_kernels -mps
        mps_stop
    else
        status_row signals - mps - absent 0 'no MPS server starts here'
    fi
    signals_failed=$part_failed
}

# ---- copies -----------------------------------------------------------------

copies_main() {
    local turn count=$((gpus > 1 ? gpus : 2)) way sizes=1m,64m,256m
    local rounds=$((rounds > 9 ? rounds : 9))
    part_failed=0
    rm -f "$out"/matrix-* "$out"/copies.txt
    [ "$fake" = no ] || sizes=64k,1m
    for turn in $(seq "$repeat"); do
        for way in wharf engine; do
            WHARF_COPY=$([ "$way" = wharf ] && echo auto || echo engine) \
                tool_run copies "$count-on-$gpus" "$turn" "$count" "$gpus" \
                "$way" matrix --sizes "$sizes"
        done
    done
    {
        copies_table || part_failed=1
        sed -n '/^# op all-to-all/,/PASS\|FAIL/p' \
            "$out/matrix-$count-on-$gpus-wharf-1.txt" | grep -v 'PASS\|FAIL'
    } >"$out/copies.txt"
    verdict "$part_failed" "$out/copies.txt"
    copies_failed=$part_failed
}

# ---- jacobi -----------------------------------------------------------------

# jacobi_main of jacobi.sh, with every number of GPUs between one and all.
if [ "$fake" = yes ]; then
    jacobi_main() {
        status_row jacobi - all - 'left out' 0 \
            'the fake driver has no kernels of the example'
        jacobi_failed=0
    }
fi

# ---- placement --------------------------------------------------------------

# Node, its CPUs; GPU, its node and the CPUs near it.
numa_map() {
    local node device
    for node in /sys/devices/system/node/node[0-9]*; do
        [ ! -e "$node/cpulist" ] ||
            echo "NUMA ${node##*/node}: CPUs $(cat "$node/cpulist")"
    done
    for device in $(sed -n 's/.*\([0-9a-f]\{4\}:[0-9a-f]\{2\}:[0-9a-f]\{2\}\.[0-9]\).*/\1/p' \
        "$out/placement-unbound.txt" | sort -u); do
        [ ! -e "/sys/bus/pci/devices/$device" ] ||
            echo "GPU $device: NUMA $(cat "/sys/bus/pci/devices/$device/numa_node"), CPUs $(cat "/sys/bus/pci/devices/$device/local_cpulist")"
    done
}

# Ranks that Wharf has bound: their CPUs must be among those near their GPU.
# Reads the JSON of wharf-info, a rank a line.
placement_check() { # JSON
    sed -n 's/.*"rank": \([0-9]*\),.*"cpus": "\([0-9,-]*\)".*"pci": "\([0-9a-f:.]*\)".*/\1 \2 \3/p' \
        "$1" | while read -r rank cpus pci; do
        local near=/sys/bus/pci/devices/$pci/local_cpulist
        if [ ! -e "$near" ]; then
            echo "rank $rank: GPU $pci is not in this system's tree: unknown"
            continue
        fi
        printf '%s\n%s\n' "$cpus" "$(cat "$near")" | awk -v rank="$rank" '
            function expand(list, set,    i, n, of, ends, cpu) {
                n = split(list, of, ",")
                for (i = 1; i <= n; i++) {
                    split(of[i], ends, "-")
                    if (ends[2] == "") ends[2] = ends[1]
                    for (cpu = ends[1] + 0; cpu <= ends[2] + 0; cpu++)
                        set[cpu] = 1
                }
            }
            NR == 1 { mine = $0; expand($0, own) }
            NR == 2 {
                expand($0, near)
                for (cpu in own) if (!(cpu in near)) far++
                printf "rank %d: CPUs %s, near its GPU %s: %s\n", rank, mine,
                    $0, far ? "FAR" : "near"
            }'
    done
}

# How the launcher binds; Open MPI has words for it.
placement_run() { # NAME ENVIRONMENT OPTION...
    local name=$1 environment=$2 code=0
    shift 2
    bench_run placement "$ranks-on-$gpus" "$name" 1 60 \
        "$out/placement-$name.txt" env "$environment" "${launcher[@]}" "$@" \
        -n "$ranks" "$build/bin/wharf-info" || code=$?
    [ "$code" -ne 1 ] || part_failed=1
    bench_run placement "$ranks-on-$gpus" "$name-json" 1 60 \
        "$out/placement-$name.json" env "$environment" "${launcher[@]}" "$@" \
        -n "$ranks" "$build/bin/wharf-info" --json || code=$?
    [ "$code" -ne 1 ] || part_failed=1
}

placement_main() {
    local name none=() core=()
    part_failed=0
    ranks=$((2 * gpus))
    rm -f "$out"/placement*
    if is_open_mpi "${launcher[0]}"; then
        none=(--bind-to none) core=(--bind-to core)
    fi
    placement_run unbound WHARF_BIND=0 "${none[@]}"
    placement_run by-wharf WHARF_BIND=1 "${none[@]}"
    if [ "$(nproc)" -ge "$ranks" ]; then
        placement_run by-launcher WHARF_BIND=0 "${core[@]}"
    else
        status_row placement "$ranks-on-$gpus" by-launcher - 'left out' 0 \
            "fewer cores than ranks"
    fi
    {
        echo "# NUMA nodes, and GPUs beside them"
        numa_map
        for name in unbound by-wharf by-launcher; do
            [ -s "$out/placement-$name.json" ] || continue
            echo
            echo "# $name"
            placement_check "$out/placement-$name.json"
        done
    } >"$out/placement.txt"
    # What Wharf binds it binds near; what others do is theirs.
    ! sed -n '/^# by-wharf/,/^$/p' "$out/placement.txt" | grep -q ': FAR$' ||
        part_failed=1
    verdict "$part_failed" "$out/placement.txt"
    placement_failed=$part_failed
}

# ---- peers ------------------------------------------------------------------

# One peer, a rank on each GPU: kind of work, name, turn, command.
peer_run() { # WORK NAME TURN COMMAND...
    local work=$1 name=$2 turn=$3
    shift 3
    bench_run peers "$gpus-on-$gpus" "$work-$name" "$turn" 90 \
        "$out/$work-$gpus-on-$gpus-$name-$turn.txt" "$@" --rounds "$rounds" ||
        true
}

peers_turn() { # TURN
    local turn=$1 sizes=(--sizes '64k,1m,16m,256m') large=(--sizes '256m,1g')
    local mpi=("${launcher[@]}" -n "$gpus")
    local shmem=(env "$nvshmem_path") torch
    find_torch "$gpus"
    peer_run copy wharf "$turn" "${mpi[@]}" "$build/copy_move" "${sizes[@]}"
    peer_run copy plan "$turn" "${mpi[@]}" "$build/exchange_latency" \
        "${sizes[@]}"
    peer_run attach ipc-by-hand "$turn" "${mpi[@]}" "$build/ipc_by_hand" \
        "${large[@]}"
    # PyTorch, which takes the longest to come up, is last.
    if [ "$peers_nccl" = yes ]; then
        peer_run copy nccl "$turn" "${mpi[@]}" "$build/peer_nccl_copy" \
            "${sizes[@]}"
    fi
    if [ "$peers_nvshmem" = yes ]; then
        peer_run sync nvshmem "$turn" "${shmem[@]}" "${mpi[@]}" \
            "$build/peer_nvshmem_sync"
        peer_run copy nvshmem "$turn" "${shmem[@]}" "${mpi[@]}" \
            "$build/peer_nvshmem_copy" "${sizes[@]}"
    fi
    if [ -n "$(python_package torch)" ]; then
        peer_run sync torch "$turn" "${torch[@]}" \
            "$root/scripts/bench/peer_torch_sync.py"
        peer_run copy torch "$turn" "${torch[@]}" \
            "$root/scripts/bench/peer_torch_copy.py" "${sizes[@]}"
        peer_run attach torch "$turn" "${torch[@]}" \
            "$root/scripts/bench/peer_torch_attach.py" "${large[@]}"
    fi
}

peers_main() {
    local turn
    peers_failed=0
    rm -f "$out"/copy-* "$out"/attach-*-ipc-by-hand-* "$out"/*-torch-* \
        "$out"/sync-*-nvshmem-*
    if [ "$cuda_here" = no ] || [ "$gpus" -lt 2 ]; then
        status_row peers - all - 'left out' 0 \
            "$([ "$cuda_here" = no ] && echo 'no GPU or no nvcc' ||
                echo 'a rank on each of two GPUs is what they are for')"
        return
    fi
    build_over_wharf copy_move
    build_over_wharf exchange_latency
    build_peer ipc_by_hand -lcuda || true
    peers_nccl=yes peers_nvshmem=yes
    build_peer peer_nccl_copy -lnccl || peers_nccl=no
    build_nvshmem peer_nvshmem_sync && build_nvshmem peer_nvshmem_copy ||
        peers_nvshmem=no
    [ "$peers_nccl" = yes ] || status_row peers - nccl - absent 0 \
        "$(absent NCCL peer_nccl_copy)"
    [ "$peers_nvshmem" = yes ] || status_row peers - nvshmem - absent 0 \
        "$(absent NVSHMEM peer_nvshmem_sync)"
    [ -n "$(python_package torch)" ] || status_row peers - torch - absent 0 \
        'no PyTorch on this machine'
    for turn in $(seq "$repeat"); do
        peers_turn "$turn"
    done
}

# ---- suite ------------------------------------------------------------------

# ctest over the visible GPUs; further options pick the tests. The log of what
# is called so is written anew.
suite_ctest() { # SHAPE NAME DEVICES OPTION...
    local shape=$1 name=$2 devices=$3
    shift 3
    bench_run suite "$shape" "$name" 1 "$(all_limit suite)" \
        "$out/suite-$shape-$name.txt" \
        env "CUDA_VISIBLE_DEVICES=$(first_devices "$devices")" \
        ctest --test-dir "$tests" --output-on-failure --timeout 90 "$@"
}

# The tests that a log of ctest calls failed, as an expression that matches
# their names.
suite_failed_names() { # LOG
    sed -n '/^The following tests FAILED/,$s/^[[:space:]]*[0-9]* - \([^ ]*\) (.*/\1/p' \
        "$1" | sed 's/[.+]/\\&/g; s/.*/^&$/' | paste -s -d '|'
}

# All that failed beside others passed alone.
suite_forgive() { # SHAPE
    awk -F '\t' -v OFS='\t' -v shape="$1" '
    $1 == "suite" && $2 == shape && $3 == "tests" {
        $5 = "ok"; $7 = "some failed beside others and passed alone"
    }
    { print }' "$out/status.tsv" >"$out/status.tsv.new"
    mv "$out/status.tsv.new" "$out/status.tsv"
}

# Tests of so many ranks on so many GPUs. A skip is a failure where two GPUs are
# visible: what a test needs is there then. One that fails beside others, which
# use the same GPUs, is judged alone.
suite_run() { # RANKS GPUS [CTEST-OPTION...]
    local ranks=$1 devices=$2 shape=$1-on-$2 log code=0 failed skipped
    log=$out/suite-$shape-tests.txt
    shift 2
    [ $# -gt 0 ] || set -- -R "[.]np$ranks([.]|\$)"
    suite_ctest "$shape" tests "$devices" -L '^gpu$' "$@" \
        --no-tests=ignore -j "$jobs" || code=$?
    failed=
    [ "$code" -ne 1 ] || failed=$(suite_failed_names "$log")
    if [ -n "$failed" ]; then
        code=0
        suite_ctest "$shape" alone "$devices" -R "$failed" || code=$?
        [ "$code" -ne 0 ] || suite_forgive "$shape"
    fi
    [ "$code" -ne 1 ] || part_failed=1
    skipped=$(grep -c '[*][*][*]Skipped' "$log" || true)
    [ "$skipped" -gt 0 ] || return 0
    if [ "$devices" -ge 2 ]; then
        status_row suite "$shape" skips 1 failed 0 "$skipped tests skipped"
        part_failed=1
    else
        status_row suite "$shape" skips 1 ok 0 \
            "$skipped tests skipped, which want two GPUs"
    fi
}

suite_main() {
    local each ranks devices
    part_failed=0
    rm -f "$out"/suite-*
    if [ "$fake" = yes ]; then
        status_row suite - tests - 'left out' 0 \
            'the tests of the fake driver have a label of their own'
        suite_failed=0
        return
    fi
    if ! {
        cmake -S "$root" -B "$tests" -DCMAKE_BUILD_TYPE=Release \
            -DWHARF_CUDA=ON -DWHARF_FAIL_ON_SKIP=OFF &&
            timeout "$(all_limit suite)" cmake --build "$tests" -j "$(nproc)"
    } >"$out/suite-build.log" 2>&1; then
        status_row suite - tests - failed 0 'building failed: suite-build.log'
        suite_failed=1
        return
    fi
    suite_run 1 1
    # Those that start their ranks themselves.
    suite_run some "$gpus" -E '[.]np[0-9]+([.]|$)'
    # The fullest GPUs first: what two GPUs do alone the plain suite shows too.
    for each in 4 2 1; do
        for ranks in 4 2 8; do
            devices=$((ranks / each))
            if [ "$devices" -lt 1 ]; then
                continue
            elif [ "$devices" -gt "$gpus" ]; then
                status_row suite "$ranks-on-$devices" tests - 'left out' 0 \
                    "needs $devices GPUs"
            else
                suite_run "$ranks" "$devices"
            fi
        done
    done
    # An odd number of ranks is uneven on two GPUs.
    [ "$gpus" -lt 2 ] || suite_run 3 2
    suite_failed=$part_failed
}

# ---- All --------------------------------------------------------------------

main() {
    local part
    mkdir -p "$out" "$build"
    out=$(cd "$out" && pwd)
    build=$(cd "$build" && pwd)
    tests=${tests:-$build/tests}
    all_failed=0
    all_end=${total:-1000000}
    all_choose
    echo "many_gpus.sh: building in $build"
    all_build
    all_run
    jacobi_scaling >"$out/scaling.txt" || all_failed=1
    all_write many
    goals_write >"$out/goals.txt" || all_failed=1
    for part in info attach copies scaling placement goals; do
        if [ -s "$out/$part.txt" ]; then
            echo
            echo "# ---- $part"
            cat "$out/$part.txt"
        fi
    done >>"$out/many.txt"
    verdict "$all_failed" "$out/many.txt"
    exit "$all_failed"
}

main
