#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# demo.sh [RANKS [FILE...]]: Wharf's main job on real files. Installs what is
# missing (apt, as root or with sudo), builds, and lets 4 ranks share one copy
# of each FILE: on every GPU that they use, or in host memory without one.
# Without arguments it takes a few large files of this machine.
set -eu -o pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

case ${1:-4} in
-h | --help) sed -n '4,7s/^# \{0,1\}//p' scripts/demo.sh && exit 0 ;;
*[!0-9]*) stop "RANKS is a number, not '$1'; see demo.sh --help" ;;
esac
ranks=${1:-4}
[ $# -eq 0 ] || shift

# The largest files under 128 MiB that everybody can read, with their sizes.
large_files() {
    find /usr/lib /usr/share /usr/bin -xdev -type f -readable -size +512k \
        -size -128M -printf '%s %p\n' 2>/dev/null | sort -rn | head -n 4 |
        cut -d ' ' -f 2- || true
}

setup_packages
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "building in build/"
if ! { setup_configure default build &&
    setup_build build 02_shared_file wharf-info; } >"$log" 2>&1; then
    cat "$log"
    stop "building failed"
fi
grep -E '^-- .*(CUDA backend|topology):' "$log" || true

files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    mapfile -t files < <(large_files)
    [ ${#files[@]} -gt 0 ] || files=(README.md)
fi

launch "$ranks" build/bin/wharf-info
launch "$ranks" build/mpi_examples/02_shared_file "${files[@]}"
