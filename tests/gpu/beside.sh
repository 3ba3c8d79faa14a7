#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# beside.sh SOURCE nccl|nvshmem LIBRARY-DIRECTORY LAUNCHER... [-- ARGUMENT...]:
# builds a program that uses Wharf and that library as a user would, with nvcc
# against the headers and the libraries, and runs it. Ends with 77 where the
# other library is missing.
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$1 which=$2 library=$3
shift 3
launcher=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    launcher+=("$1")
    shift
done
[ $# -gt 0 ] && shift

skip() {
    echo "skipped: $1"
    exit 77
}

# Where a package of Python's keeps its headers and libraries, if there.
python_package() { # NAME
    python3 - "$1" <<'PYTHON' 2>/dev/null
import importlib.util, sys
print(list(importlib.util.find_spec(sys.argv[1]).submodule_search_locations)[0])
PYTHON
}

command -v nvcc >/dev/null || skip "no nvcc here"
place=$(python_package "nvidia.$which")
flags=()
case $which in
nccl)
    if [ -n "$place" ]; then
        flags=("-I$place/include" "-L$place/lib" -l:libnccl.so.2)
    elif [ -e /usr/include/nccl.h ]; then
        flags=(-lnccl)
    else
        skip "no NCCL here"
    fi
    ;;
nvshmem)
    [ -n "$place" ] || skip "no NVSHMEM here"
    flags=(-rdc=true "-I$place/include" "-L$place/lib" -lnvshmem_device
        -l:libnvshmem_host.so.3 -lcuda -lcudadevrt -lnvidia-ml)
    ;;
*)
    sed -n '4,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac

build=$(mktemp -d) || exit 1
trap 'rm -rf "$build"' EXIT
nvcc -O1 -std=c++17 -arch=native -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX \
    -ccbin "${MPICXX:-mpicxx}" -I"$here/../../include" \
    "$source" -o "$build/program" \
    -L"$library" -lwharf -Xlinker "-rpath=$library" "${flags[@]}" \
    ${place:+-Xlinker "-rpath=$place/lib"} || exit 1
LD_LIBRARY_PATH=${place:+$place/lib:}${LD_LIBRARY_PATH:-} \
    NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1 \
    "${launcher[@]}" "$build/program" "$@"
