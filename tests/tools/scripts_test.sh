#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts_test.sh: the scripts that measure say how they are used, refuse what
# they do not know before they build anything, and are clean where shellcheck is
# found.
set -uo pipefail
cd "$(dirname "$0")/../../scripts" || exit 1
failed=0
ends() { # CODE TEXT COMMAND...
    local want=$1 text=$2 code=0 said
    shift 2
    said=$("$@" 2>&1) || code=$?
    if [ "$code" -ne "$want" ] || [[ $said != *"$text"* ]]; then
        echo "$*: code $code, not $want, or not '$text': $said"
        failed=1
    fi
}
ends 0 'scripts/bench.sh all|attach' bash bench.sh --help
ends 2 'usage:' bash bench.sh
ends 2 'usage:' bash bench.sh nothing
ends 2 "'0' is not a positive number" bash bench.sh all --repeat 0
ends 2 '--only needs a value' bash bench.sh all --only
ends 0 'NVLink multicast stays off' bash bench/many_gpus.sh --help
ends 2 'usage:' bash bench/many_gpus.sh --nothing
ends 2 "'x' is not a positive number" bash bench/many_gpus.sh --limit x
if command -v shellcheck >/dev/null; then
    cd .. || exit 1
    shellcheck -x -S warning scripts/bench.sh scripts/plots.sh \
        scripts/bench/many_gpus.sh || failed=1
fi
exit $failed
