# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
# What the parts of bench.sh and many_gpus.sh have in common: the machine, the
# launcher, building of peers, runs that are bounded, a row of the status table
# for each, an MPS server. Sourced; uses root, out, build of whoever sources it.

fail() {
    echo "${0##*/}: $1" >&2
    exit "${2:-1}"
}

positive() { # VALUE...
    local number
    for number in "$@"; do
        case $number in
        '' | *[!0-9]* | 0) fail "'$number' is not a positive number" 2 ;;
        esac
    done
}

# ---- The machine ------------------------------------------------------------

# WHARF_FAKE_DEVICES beside a driver by path: a machine to rehearse on.
fake=no
gpus=0
gpu_name=
if [ -n "${WHARF_CUDA_DRIVER:-}" ] && [ -n "${WHARF_FAKE_DEVICES:-}" ]; then
    fake=yes
    gpus=$WHARF_FAKE_DEVICES
    gpu_name=fake
elif command -v nvidia-smi >/dev/null; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || true
    gpu_name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null |
        head -n 1 | sed 's/^NVIDIA //' | tr 'A-Z ' 'a-z-' |
        tr -cd 'a-z0-9-') || true
fi

# Can the programs in CUDA be built and run here?
cuda_here=no
if [ "$gpus" -gt 0 ] && [ "$fake" = no ] && command -v nvcc >/dev/null; then
    cuda_here=yes
fi

machine=$(uname -n)
[ "$gpus" -eq 0 ] || machine=${gpu_name:-gpu}x$gpus

# One GPU, then two, ... and all.
gpu_counts=()
for ((count = 1; count < gpus; count *= 2)); do gpu_counts+=("$count"); done
[ "$gpus" -eq 0 ] || gpu_counts+=("$gpus")

# shellcheck source=scripts/launcher.sh
. "$root/scripts/launcher.sh"
find_launcher

# NVLink multicast stays off, in every peer.
export NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1
export TORCH_SYMM_MEM_DISABLE_MULTICAST=1

# The first N devices, as CUDA_VISIBLE_DEVICES takes them.
first_devices() { # COUNT
    seq -s, 0 $(($1 - 1))
}

# Where a Python package lies; nothing if it is not installed.
python_package() {
    python3 - "$1" <<'PYTHON' 2>/dev/null || true
import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1])
print(list(found.submodule_search_locations)[0] if found else "")
PYTHON
}

machine_describe() { # RANKS
    "${launcher[@]}" -n "$1" "$build/bin/wharf-info" >"$out/machine.txt" 2>&1 ||
        fail "wharf-info failed: $(cat "$out/machine.txt")"
}

# ---- Building ---------------------------------------------------------------

build_wharf() { # TARGET...
    mkdir -p "$out" "$build"
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
        -DWHARF_BUILD_TESTS=OFF -DWHARF_BUILD_EXAMPLES=ON >"$out/build.log" ||
        fail "configuring failed, see $out/build.log"
    cmake --build "$build" --target "$@" -j "$(nproc)" >>"$out/build.log" 2>&1 ||
        fail "building failed, see $out/build.log"
    library=$(dirname "$(find "$build" -name libwharf.so -print -quit)")
}

# A program in CUDA: name, further arguments of nvcc. Built again only when its
# source, what it includes, or Wharf is newer.
build_peer() {
    local name=$1 source=$root/scripts/bench/$1.cu log=$out/build-$1.log
    shift
    if [ -x "$build/$name" ] &&
        [ -z "$(find "$root/scripts/bench" "$root/include" "$library" \
            -newer "$build/$name" \( -name '*.h' -o -name '*.cuh' \
            -o -name "$name.cu" -o -name 'libwharf.so*' \) -print -quit)" ]; then
        return 0
    fi
    nvcc -O2 -std=c++17 -arch=native -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX \
        -ccbin "${MPICXX:-mpicxx}" -I"$root/include" "$source" \
        -o "$build/$name.new" "$@" >"$log" 2>&1 || {
        rm -f "$build/$name"
        return 1
    }
    mv "$build/$name.new" "$build/$name"
}

# A program that uses Wharf in CUDA.
build_over_wharf() { # NAME
    build_peer "$1" -L"$library" -lwharf -Xlinker -rpath="$library" ||
        fail "building $1 failed, see $out/build-$1.log"
}

# Where NVSHMEM lies, and the variable that its programs run with; 1: nowhere.
nvshmem=
nvshmem_path=
find_nvshmem() {
    [ -n "$nvshmem" ] || nvshmem=$(python_package nvidia.nvshmem)
    nvshmem_path=LD_LIBRARY_PATH=$nvshmem/lib:${LD_LIBRARY_PATH:-}
    [ -n "$nvshmem" ]
}

build_nvshmem() { # NAME [ARGUMENT...]
    local name=$1
    shift
    find_nvshmem || return 1
    build_peer "$name" "$@" -rdc=true -I"$nvshmem/include" -L"$nvshmem/lib" \
        -lnvshmem_device -l:libnvshmem_host.so.3 -lcuda -lcudadevrt \
        -lnvidia-ml -Xlinker -rpath="$nvshmem/lib"
}

# Sets the array `torch`: PyTorch's launcher, for so many ranks.
find_torch() { # RANKS
    torch=(python3 -m torch.distributed.run --nproc-per-node "$1"
        --master-port "$((20000 + RANDOM % 20000))")
}

# Why a peer is not there: not on this machine, or not built.
absent() { # NAME PROGRAM
    if [ -s "$out/build-$2.log" ]; then
        echo "could not be built here, see build-$2.log"
    else
        echo "no $1 on this machine"
    fi
}

# For awk: the median of the numbers of a text, -1 of none.
# shellcheck disable=SC2034 # the parts use it
awk_median='
function median_of(text,    n, i, j, v, t) {
    n = split(text, v, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
            t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
        }
    return n == 0 ? -1 : (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
}
'

# ---- Runs -------------------------------------------------------------------

# Until when the part that runs may take, by SECONDS; a part of its own has time.
part_end=1000000

# A row of the status table: part, shape, program, run, state, seconds, reason.
status_row() {
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$out/status.tsv"
}

# What an earlier run of this part left there.
status_forget() { # PART
    [ -e "$out/status.tsv" ] || return 0
    awk -F '\t' -v part="$1" '$1 != part' "$out/status.tsv" \
        >"$out/status.tsv.new"
    mv "$out/status.tsv.new" "$out/status.tsv"
}

# What a program said when it failed, in one line: the first that sounds like it,
# else the last.
last_words() { # LOG
    local lines
    lines=$(grep -hvE '^\s*$|^-+$|^=+$|^\[.*\] \*\*\*|^#|Exit code:|Process name:|Primary job|mpirun |per user-direction|MPI_ABORT|with errorcode|ORTE_ERROR_LOG|non-zero' \
        "$1.err" "$1" 2>/dev/null | tr '\t' ' ' | cut -c 1-140) || true
    grep -m 1 -iE 'error|fail|cannot|unsupported|invalid|WHARF_E|duplicate' \
        <<<"$lines" || tail -n 1 <<<"$lines"
}

# What failed once is not tried again: a hang costs its whole limit each time.
declare -A bench_failed

# Runs a program once, bounded by its own limit and by what is left of the
# part's time; output to LOG. 0; 1 when it failed; 2 when it was not started.
bench_run() { # PART SHAPE PROGRAM TURN LIMIT LOG COMMAND...
    local part=$1 shape=$2 program=$3 turn=$4 limit=$5 log=$6
    local left=$((part_end - SECONDS)) start=$SECONDS code=0 reason
    shift 6
    if [ -n "${bench_failed["$part $shape $program"]:-}" ]; then
        status_row "$part" "$shape" "$program" "$turn" 'left out' 0 \
            "failed in run ${bench_failed["$part $shape $program"]}"
        return 2
    fi
    if [ "$left" -lt 3 ]; then
        status_row "$part" "$shape" "$program" "$turn" 'left out' 0 \
            "the time of this part was used up"
        return 2
    fi
    [ "$limit" -le "$left" ] || limit=$left
    echo "${0##*/}: $part $shape, run $turn: $program"
    timeout -k 10 "$limit" "$@" >"$log" 2>"$log.err" </dev/null || code=$?
    reason=$(last_words "$log")
    [ -s "$log.err" ] || rm -f "$log.err"
    case $code in
    0)
        status_row "$part" "$shape" "$program" "$turn" ok \
            $((SECONDS - start)) ''
        return 0
        ;;
    124 | 137) reason="stopped after $limit s" ;;
    *) reason="code $code: ${reason:-see ${log##*/}}" ;;
    esac
    bench_failed["$part $shape $program"]=$turn
    status_row "$part" "$shape" "$program" "$turn" failed \
        $((SECONDS - start)) "$reason"
    echo "${0##*/}: $program failed at $part $shape: $reason" >&2
    return 1
}

# ---- Text -------------------------------------------------------------------

# The verdict under a part's text, which is then shown.
verdict() { # FAILED TEXT
    if [ "$1" -eq 0 ]; then
        echo "# PASS" >>"$2"
    else
        echo "# FAIL" >>"$2"
    fi
    cat "$2"
    echo "${0##*/}: written to ${2%/*}"
}

# ---- MPS --------------------------------------------------------------------
# A server of our own, found only through our own directory, stopped at the end
# however that comes about.
mps_dir=

mps_start() {
    [ "$fake" = no ] && command -v nvidia-cuda-mps-control >/dev/null ||
        return 1
    mps_dir=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY=$mps_dir/pipe
    export CUDA_MPS_LOG_DIRECTORY=$mps_dir/log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    trap mps_stop EXIT
    if ! timeout 30 nvidia-cuda-mps-control -d >/dev/null 2>&1; then
        mps_stop
        return 1
    fi
}

mps_stop() {
    [ -n "$mps_dir" ] || return 0
    echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 || true
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    rm -rf "$mps_dir"
    mps_dir=
    trap - EXIT
}
