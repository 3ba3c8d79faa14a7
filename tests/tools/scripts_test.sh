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

# test.sh says by its exit code that a test failed, whatever it did last. A copy
# of the scripts, with tools that do nothing: a ctest without results failed.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/tools"
cp -r . "$copy/scripts"
for tool in cmake ctest apt-get sudo; do
    printf '#!/bin/sh\n[ "$1" != --version ] || echo version 9.9\n' \
        >"$copy/tools/$tool"
    chmod +x "$copy/tools/$tool"
done
ends 1 '0 passed, 1 failed' env -u CI PATH="$copy/tools:$PATH" \
    bash "$copy/scripts/test.sh"
ends 0 'N passed, N failed' bash test.sh --help
ends 0 'RANKS' bash demo.sh --help
ends 1 'RANKS is a number' bash demo.sh many
ends 0 'all|CHECK' bash check.sh --help

if command -v shellcheck >/dev/null; then
    cd .. || exit 1
    shellcheck -x -S warning scripts/bench.sh scripts/plots.sh \
        scripts/bench/many_gpus.sh || failed=1
fi
exit $failed
