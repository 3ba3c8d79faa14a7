#!/bin/sh
# SPDX-License-Identifier: MIT
#
# viewer.sh PYTHON VIEWER SCRATCH LAUNCHER... PROGRAM: starts the program with
# a published field, looks at it with the viewer while it runs, and ends it.
set -eu
python=$1 viewer=$2 scratch=$3
shift 3
name=viewer-$$
size=250
mkdir -p "$scratch"
rm -f "$scratch/field.png"

# Behind the viewer where there are few cores.
nice -n 19 "$@" --size "${size}x$size" --iterations 2000000000 --norm 1000 \
    --publish "$name" >"$scratch/job.log" 2>&1 &
job=$!
trap 'kill $job 2>/dev/null || :' EXIT

look() {
    "$python" "$viewer" "$name" "$@" >"$scratch/look.log" 2>&1 && return
    code=$?
    cat "$scratch/job.log" "$scratch/look.log"
    exit "$code"
}

# Between the fixed edges, a sine each, nothing is larger.
right() {
    cat "$scratch/look.log"
    grep -qE "$size x $size, from -(1|0\.999).* to (1|0\.999)" \
        "$scratch/look.log" && return
    echo "this is not the field"
    exit 1
}

look --text --wait 30
right
if "$python" -c 'import importlib.util as u, sys
sys.exit(u.find_spec("matplotlib") is None)'; then
    look --png "$scratch/field.png"
    right
    [ -s "$scratch/field.png" ]
fi
kill -0 $job # the job has not noticed

kill $job
wait $job || :
if "$python" "$viewer" "$name" --text --wait 0 >"$scratch/look.log" 2>&1; then
    echo "the field is still there"
    exit 1
fi
grep -q WHARF_ENOTREADY "$scratch/look.log"
